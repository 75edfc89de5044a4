//! Decides where one message of a stream ends and the next begins: server-sent events, lines of JSON, or one whole
//! body.
//!
//! Bytes come in pieces of any size; what is cut in two waits for its other half. Nothing is decoded before it is
//! whole, so a character cut in two is a character again. What is kept is never more than one message, and that has a
//! largest size. Never looks into the data.

/// The mark that some put before a text, and that belongs to none.
const BOM: &[u8] = b"\xef\xbb\xbf";

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
    name: Option<Vec<u8>>,
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

    /// Appends the messages that these bytes complete; those before one that is too large are among them.
    pub fn push(&mut self, bytes: &[u8], frames: &mut Vec<Frame>) -> Result<(), TooLarge> {
        if self.framing == Framing::Whole {
            return self.keep(bytes);
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
            frames.extend(self.end_line());
        }
        Ok(())
    }

    /// What stands there when no more bytes come: a last message that nobody has ended.
    pub fn end(&mut self) -> Option<Frame> {
        match self.framing {
            Framing::Whole => {
                let body = std::mem::take(&mut self.line);
                let body = body.strip_prefix(BOM).unwrap_or(&body);
                (!body.is_empty()).then(|| Frame { name: None, data: text(body) })
            }
            Framing::Lines => self.end_line(),
            Framing::Events => {
                if !self.line.is_empty() {
                    self.end_line();
                }
                self.dispatch()
            }
        }
    }

    /// How many bytes wait for what comes after them.
    pub fn kept(&self) -> usize {
        self.line.len() + self.data.len() + self.name.as_ref().map_or(0, Vec::len)
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<(), TooLarge> {
        if self.kept() + bytes.len() > self.most {
            return Err(TooLarge);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self) -> Option<Frame> {
        let mut line = std::mem::take(&mut self.line);
        if std::mem::take(&mut self.is_first_line) && line.starts_with(BOM) {
            line.drain(..BOM.len());
        }
        if self.framing == Framing::Lines {
            let line = line.trim_ascii();
            return (!line.is_empty()).then(|| Frame { name: None, data: text(line) });
        }
        if line.is_empty() {
            return self.dispatch();
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
                self.data.extend_from_slice(value);
            }
            b"event" => self.name = Some(value.to_vec()),
            // A comment, a ping, `id`, `retry`.
            _ => {}
        }
        None
    }

    fn dispatch(&mut self) -> Option<Frame> {
        let name = self.name.take().map(|name| text(&name));
        let data = std::mem::take(&mut self.data);
        std::mem::take(&mut self.has_data).then(|| Frame { name, data: text(&data) })
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
