//! Decides where one message of a stream ends and the next begins: server-sent events, lines of JSON, or one whole body.
//!
//! Bytes come in pieces of any size; what is cut in two waits for its other half. Nothing is decoded before it is whole, so a
//! character cut in two is a character again. What is kept is never more than one message, and that has a largest size.
//! Never looks into the data.

/// How the messages of a response are set apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// `text/event-stream`.
    Events,
    /// One JSON value a line.
    Lines,
    /// The body is one message.
    Whole,
}

/// One message of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The name of the event, where it has one.
    pub name: Option<String>,
    /// Its data.
    pub data: String,
}

/// A message is larger than it may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLarge;

/// Takes a stream apart.
#[derive(Debug)]
pub struct Frames {
    framing: Framing,
    most: usize,
    /// The line, or the body, that is not whole yet.
    line: Vec<u8>,
    /// Whether the last byte was a carriage return, which a line feed may still belong to.
    after_return: bool,
    is_first_line: bool,
    name: Option<String>,
    data: Vec<u8>,
    has_data: bool,
}

impl Frames {
    /// None of its messages is larger than `most` bytes.
    pub fn new(framing: Framing, most: usize) -> Self {
        Frames {
            framing,
            most,
            line: Vec::new(),
            after_return: false,
            is_first_line: true,
            name: None,
            data: Vec::new(),
            has_data: false,
        }
    }

    /// The messages that these bytes complete.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<Frame>, TooLarge> {
        let mut frames = Vec::new();
        if self.framing == Framing::Whole {
            return self.keep(bytes).map(|()| frames);
        }
        let mut rest = bytes;
        while !rest.is_empty() {
            if std::mem::take(&mut self.after_return) && rest[0] == b'\n' {
                rest = &rest[1..];
                continue;
            }
            let end = match self.framing {
                Framing::Events => rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')),
                _ => rest.iter().position(|byte| *byte == b'\n'),
            };
            let Some(end) = end else {
                self.keep(rest)?;
                break;
            };
            self.keep(&rest[..end])?;
            self.after_return = rest[end] == b'\r';
            rest = &rest[end + 1..];
            frames.extend(self.end_line()?);
        }
        Ok(frames)
    }

    /// What stands there when no more bytes come: a last message that nobody has ended.
    pub fn end(&mut self) -> Result<Option<Frame>, TooLarge> {
        match self.framing {
            Framing::Whole => {
                let body = std::mem::take(&mut self.line);
                Ok((!body.is_empty()).then(|| Frame { name: None, data: text(&body) }))
            }
            Framing::Lines => self.end_line(),
            Framing::Events => {
                if !self.line.is_empty() {
                    self.end_line()?;
                }
                Ok(self.dispatch())
            }
        }
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<(), TooLarge> {
        if self.line.len() + self.data.len() + bytes.len() > self.most {
            return Err(TooLarge);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self) -> Result<Option<Frame>, TooLarge> {
        let mut line = std::mem::take(&mut self.line);
        if std::mem::take(&mut self.is_first_line) && line.starts_with(b"\xef\xbb\xbf") {
            line.drain(..3);
        }
        if self.framing == Framing::Lines {
            let line = line.trim_ascii();
            return Ok((!line.is_empty()).then(|| Frame { name: None, data: text(line) }));
        }
        if line.is_empty() {
            return Ok(self.dispatch());
        }
        let (field, value) = match line.iter().position(|byte| *byte == b':') {
            Some(colon) => (&line[..colon], line[colon + 1..].strip_prefix(b" ").unwrap_or(&line[colon + 1..])),
            None => (&line[..], &b""[..]),
        };
        match field {
            b"data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.data.push(b'\n');
                }
                if self.data.len() + value.len() > self.most {
                    return Err(TooLarge);
                }
                self.data.extend_from_slice(value);
            }
            b"event" => self.name = Some(text(value)),
            // A comment, a ping, `id`, `retry`.
            _ => {}
        }
        Ok(None)
    }

    fn dispatch(&mut self) -> Option<Frame> {
        let name = self.name.take();
        let data = std::mem::take(&mut self.data);
        std::mem::take(&mut self.has_data).then(|| Frame { name, data: text(&data) })
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
