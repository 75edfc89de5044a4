//! Decides which lines of a Markdown text are code between fences.
//!
//! Follows the rules by which a reader of Markdown decides, also inside lists and quotations, and where a fence is
//! never closed, or its list item ends first, adds the line that closes it: so nobody can see it otherwise.

/// A line and what it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::render) enum Line<'a> {
    /// A line between fences.
    Code(&'a str),
    /// The same, where a reader might take it for something else.
    Doubtful(&'a str),
    /// A fence itself.
    Fence(String),
    /// Any other line.
    Text(&'a str),
}

/// Follows fences from line to line.
#[derive(Debug, Default)]
pub(in crate::render) struct Fences {
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    mark: char,
    length: usize,
    /// What stands before the fence, list marks as spaces.
    before: String,
    /// Set so far in that it may be the rest of a paragraph.
    doubtful: bool,
}

impl Fences {
    /// The lines of a text; none of them leaves a fence open.
    pub(in crate::render) fn split(text: &str) -> Vec<Line<'_>> {
        let mut fences = Fences::default();
        let mut lines = Vec::new();
        for line in text.split('\n') {
            if let Some(closing) = fences.abandoned(line) {
                lines.push(Line::Fence(closing));
            }
            lines.push(fences.next(line));
        }
        lines.extend(fences.open.map(|open| Line::Fence(open.closing())));
        lines
    }

    /// The line that must close the open fence before this one, which no longer belongs to it.
    fn abandoned(&mut self, line: &str) -> Option<String> {
        let open = self.open.as_ref()?;
        let marks = |text: &str| text.matches('>').count();
        let deep = marks(&open.before);
        let rest = if deep > 0 { line.trim_start_matches([' ', '>']) } else { line.trim_start_matches(' ') };
        let before = &line[..line.len() - rest.len()];
        let left = marks(before) < deep || (!rest.trim().is_empty() && before.len() < open.before.len());
        left.then(|| self.open.take().map(|open| open.closing()))?
    }

    /// What the next line is.
    pub(in crate::render) fn next<'a>(&mut self, line: &'a str) -> Line<'a> {
        if let Some(open) = &self.open {
            let bare = line.trim_start_matches([' ', '\t', '>']).trim_end();
            let blank = width(line.rsplit_once('>').map_or(line, |(_, behind)| behind));
            let far_in = blank > 3 + if open.before.contains('>') { 1 } else { open.before.len() };
            if bare.len() >= open.length && bare.chars().all(|c| c == open.mark) && !far_in {
                // Written as it was opened, it closes for every reader.
                let closing = open.closing();
                self.open = None;
                return Line::Fence(closing);
            }
            return if open.doubtful { Line::Doubtful(line) } else { Line::Code(line) };
        }
        self.open = opening(line);
        match &self.open {
            Some(open) if open.doubtful => Line::Doubtful(line),
            Some(_) => Line::Fence(line.to_owned()),
            None => Line::Text(line),
        }
    }
}

impl Open {
    fn closing(&self) -> String {
        format!("{}{}", self.before, self.mark.to_string().repeat(self.length))
    }
}

fn width(line: &str) -> usize {
    line.chars().take_while(|c| matches!(c, ' ' | '\t')).map(|c| if c == '\t' { 4 } else { 1 }).sum()
}

/// A fence at the beginning of a line, behind any marks of lists and quotations.
fn opening(line: &str) -> Option<Open> {
    let mut before = String::new();
    let mut rest = line;
    let mut doubtful = false;
    loop {
        let blank = rest.len() - rest.trim_start_matches([' ', '\t']).len();
        before.extend(std::iter::repeat_n(' ', width(rest)));
        doubtful |= width(rest) >= 4;
        rest = &rest[blank..];
        let mark = rest.chars().next()?;
        if matches!(mark, '`' | '~') {
            let length = rest.len() - rest.trim_start_matches(mark).len();
            let info = &rest[length..];
            let is_one = length >= 3 && !(mark == '`' && info.contains('`'));
            return is_one.then_some(Open { mark, length, before, doubtful });
        }
        let taken = list_mark(rest);
        if mark == '>' {
            before.push('>');
            rest = &rest[1..];
        } else if taken > 0 {
            before.extend(std::iter::repeat_n(' ', taken));
            rest = &rest[taken..];
        } else {
            return None;
        }
    }
}

/// How long the mark of a list item is, without the blank behind it.
pub(in crate::render) fn list_mark(text: &str) -> usize {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let mark = match text.as_bytes().get(digits) {
        Some(b'-' | b'*' | b'+') if digits == 0 => 1,
        Some(b'.' | b')') if (1..=9).contains(&digits) => digits + 1,
        _ => return 0,
    };
    if text.as_bytes().get(mark).is_some_and(|b| matches!(b, b' ' | b'\t')) { mark } else { 0 }
}
