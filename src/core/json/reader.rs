//! Decides how one JSON value is read from a given place on, and what is forgiven on the way.
//!
//! A recursive descent whose depth is bounded, over bytes: every byte that means something is ASCII. At the end of the
//! text it stops where it is, keeps what it has and says that it was cut. Never goes back over what it has read.

use super::DEEPEST;
use serde_json::{Map, Number, Value};

/// Why a value cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// This is not JSON.
    Broken,
    /// It is nested too deeply.
    TooDeep,
}

/// A place in a text and what was met on the way there.
pub(super) struct Reader<'a> {
    text: &'a str,
    at: usize,
    limit: usize,
    notes: Vec<&'static str>,
    /// Whether the text ended in the middle.
    pub(super) cut: bool,
    /// How many members and items were read.
    pub(super) members: usize,
}

impl<'a> Reader<'a> {
    /// A reader that begins at `start` and takes at most `effort` bytes.
    pub(super) fn new(text: &'a str, start: usize, effort: usize) -> Self {
        let limit = text.len().min(start.saturating_add(effort));
        Self { text, at: start, limit, notes: Vec::new(), cut: false, members: 0 }
    }

    /// Whether it stopped because it had done enough, not because the text was over.
    pub(super) fn gave_up(&self) -> bool {
        self.cut && self.limit < self.text.len()
    }

    /// Where it stands.
    pub(super) fn position(&self) -> usize {
        self.at
    }

    /// What it forgave.
    pub(super) fn into_notes(self) -> Vec<String> {
        self.notes.into_iter().map(str::to_owned).collect()
    }

    fn note(&mut self, note: &'static str) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    fn peek(&self) -> Option<u8> {
        if self.at < self.limit { self.text.as_bytes().get(self.at).copied() } else { None }
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..self.limit).unwrap_or_default()
    }

    /// Goes to the next byte that means something; `None` is the end of the text.
    fn next(&mut self) -> Option<u8> {
        loop {
            match self.peek()? {
                b' ' | b'\t' | b'\n' | b'\r' => self.at += 1,
                0xC2 if self.rest().starts_with('\u{a0}') => self.at += 2,
                0xE2 if self.rest().starts_with(['\u{200b}', '\u{2028}', '\u{2029}']) => self.at += 3,
                0xEF if self.rest().starts_with('\u{feff}') => self.at += 3,
                b'/' if self.rest().starts_with("//") => self.skip_comment("\n"),
                b'/' if self.rest().starts_with("/*") => self.skip_comment("*/"),
                byte => return Some(byte),
            }
        }
    }

    fn skip_comment(&mut self, end: &str) {
        self.note("comment");
        self.at = self.rest().find(end).map_or(self.limit, |offset| self.at + offset + end.len());
    }

    /// Reads a value; when `cut` is set afterwards, it is what there was of it.
    pub(super) fn value(&mut self, depth: usize) -> Result<Value, Stop> {
        if depth > DEEPEST {
            return Err(Stop::TooDeep);
        }
        match self.next() {
            None => {
                self.cut = true;
                Ok(Value::Null)
            }
            Some(b'{') => self.object(depth),
            Some(b'[') => self.list(depth),
            Some(b'"') => self.string().map(Value::String),
            Some(b'-' | b'+' | b'.' | b'0'..=b'9') => self.number(),
            Some(_) => self.word(),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Value, Stop> {
        self.at += 1;
        let mut fields = Map::new();
        loop {
            match self.next() {
                None => self.cut = true,
                Some(b'}') => self.at += 1,
                Some(b',') => {
                    self.note("stray comma");
                    self.at += 1;
                    continue;
                }
                Some(b'"') => {
                    let key = self.string()?;
                    match self.next() {
                        // A key without its value says nothing.
                        None => self.cut = true,
                        Some(b':') => {
                            self.at += 1;
                            let begun = self.next().is_some();
                            let value = self.value(depth + 1)?;
                            self.members += 1;
                            if begun || !self.cut {
                                self.insert(&mut fields, key, value);
                            }
                            if !self.cut && self.separator(b'}')? {
                                continue;
                            }
                        }
                        Some(_) => return Err(Stop::Broken),
                    }
                }
                Some(_) => return Err(Stop::Broken),
            }
            return Ok(Value::Object(fields));
        }
    }

    /// Of two members with one name the later counts, unless it is empty.
    fn insert(&mut self, fields: &mut Map<String, Value>, key: String, value: Value) {
        match fields.get_mut(&key) {
            None => drop(fields.insert(key, value)),
            Some(earlier) => {
                if !crate::answer::is_empty(&value) {
                    *earlier = value;
                }
                self.note("a key given twice");
            }
        }
    }

    fn list(&mut self, depth: usize) -> Result<Value, Stop> {
        self.at += 1;
        let mut items = Vec::new();
        loop {
            match self.next() {
                None => self.cut = true,
                Some(b']') => self.at += 1,
                Some(b',') => {
                    self.note("stray comma");
                    self.at += 1;
                    continue;
                }
                Some(_) => {
                    let item = self.value(depth + 1)?;
                    self.members += 1;
                    if !(self.cut && item.is_null()) {
                        items.push(item);
                    }
                    if !self.cut && self.separator(b']')? {
                        continue;
                    }
                }
            }
            return Ok(Value::Array(items));
        }
    }

    /// Goes over what stands behind a member; true when another may follow.
    fn separator(&mut self, close: u8) -> Result<bool, Stop> {
        match self.next() {
            None => {
                self.cut = true;
                Ok(false)
            }
            Some(b',') => {
                self.at += 1;
                if self.next() == Some(close) {
                    self.note("trailing comma");
                }
                Ok(true)
            }
            Some(byte) if byte == close => {
                self.at += 1;
                Ok(false)
            }
            Some(b'"' | b'{' | b'[') => {
                self.note("missing comma");
                Ok(true)
            }
            Some(_) => Err(Stop::Broken),
        }
    }

    fn string(&mut self) -> Result<String, Stop> {
        self.at += 1;
        let mut doubtful = false;
        let mut out = String::new();
        let mut plain = self.at;
        loop {
            let Some(byte) = self.peek() else {
                out.push_str(self.text.get(plain..self.at).unwrap_or_default());
                // It may have ended at any mark that was taken for a part of it.
                if doubtful {
                    return Err(Stop::Broken);
                }
                self.cut = true;
                return Ok(out);
            };
            match byte {
                b'"' if self.is_closing() => {
                    out.push_str(self.text.get(plain..self.at).unwrap_or_default());
                    self.at += 1;
                    return Ok(out);
                }
                b'"' => {
                    doubtful = true;
                    self.note("quotation mark inside a string");
                    self.at += 1;
                }
                b'\\' => {
                    out.push_str(self.text.get(plain..self.at).unwrap_or_default());
                    self.escape(&mut out);
                    plain = self.at;
                }
                0 => {
                    out.push_str(self.text.get(plain..self.at).unwrap_or_default());
                    out.push('\u{fffd}');
                    self.note("impossible character");
                    self.at += 1;
                    plain = self.at;
                }
                1..=0x1f => {
                    self.note("line end or control character inside a string");
                    self.at += 1;
                }
                _ => self.at += 1,
            }
        }
    }

    /// Whether the quotation mark here ends its string: after one that does, the text goes on with punctuation.
    fn is_closing(&self) -> bool {
        let after = self.text.as_bytes().get(self.at + 1..self.limit).unwrap_or_default();
        let blank = after.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        match after.get(blank) {
            None | Some(b',' | b':' | b'}' | b']' | b'/') => true,
            Some(b'"') => blank > 0 && after[..blank].contains(&b'\n'),
            // Anything else behind a line end is not inside this string either, but neither is it JSON.
            Some(_) => false,
        }
    }

    fn escape(&mut self, out: &mut String) {
        self.at += 1;
        let Some(byte) = self.peek() else {
            self.cut = true;
            return;
        };
        let known = match byte {
            b'"' | b'\\' | b'/' => char::from(byte),
            b'n' => '\n',
            b't' => '\t',
            b'r' => '\r',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'u' => return self.unicode(out),
            _ => {
                // Such as `\d` in a regular expression: the backslash was meant.
                self.note("unknown escape");
                out.push('\\');
                return;
            }
        };
        out.push(known);
        self.at += 1;
    }

    fn unicode(&mut self, out: &mut String) {
        let unit = |reader: &Self, from: usize| {
            let digits = reader.text.get(from..from + 4).filter(|_| from + 4 <= reader.limit)?;
            digits.bytes().all(|b| b.is_ascii_hexdigit()).then(|| u32::from_str_radix(digits, 16).ok())?
        };
        let Some(first) = unit(self, self.at + 1) else {
            if self.limit - self.at <= 4 {
                self.cut = true;
                self.at = self.limit;
            } else {
                self.note("unknown escape");
                out.push('\\');
            }
            return;
        };
        self.at += 5;
        let mut code = first;
        if (0xd800..0xdc00).contains(&first)
            && self.rest().starts_with("\\u")
            && let Some(second) = unit(self, self.at + 2).filter(|second| (0xdc00..0xe000).contains(second))
        {
            self.at += 6;
            code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
        }
        // A text of the database cannot hold a zero, and half a pair is no character.
        match char::from_u32(code).filter(|c| *c != '\0') {
            Some(c) => out.push(c),
            None => {
                self.note("impossible character");
                out.push('\u{fffd}');
            }
        }
    }

    fn number(&mut self) -> Result<Value, Stop> {
        let token = self.token(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'+' | b'.'));
        if matches!(token.trim_start_matches(['-', '+']), "Infinity" | "inf" | "Inf") {
            return Ok(self.nothing());
        }
        if let Ok(number) = token.parse::<i64>().map(Number::from).or_else(|_| token.parse::<u64>().map(Number::from)) {
            return Ok(Value::Number(number));
        }
        let begins_as_number = token.trim_start_matches(['-', '+', '.']).starts_with(|c: char| c.is_ascii_digit());
        let parsed = token.parse::<f64>().ok().filter(|_| begins_as_number);
        match parsed.and_then(Number::from_f64) {
            Some(number) => Ok(Value::Number(number)),
            // No f64 holds it, so its digits are kept: losing them would lose the object around it.
            None if parsed.is_some() => {
                self.note("number out of range: kept as text");
                Ok(Value::String(token.to_owned()))
            }
            // Cut in the middle, as `-` or `1e`.
            None if self.peek().is_none() => {
                self.cut = true;
                Ok(Value::Null)
            }
            None => Err(Stop::Broken),
        }
    }

    fn word(&mut self) -> Result<Value, Stop> {
        let token = self.token(|b| b.is_ascii_alphabetic());
        match token {
            "true" => Ok(Value::Bool(true)),
            "false" => Ok(Value::Bool(false)),
            "null" => Ok(Value::Null),
            "NaN" | "nan" | "Infinity" | "undefined" => Ok(self.nothing()),
            "True" | "False" | "None" => {
                self.note("Python's spelling of a constant");
                Ok(if token == "None" { Value::Null } else { Value::Bool(token == "True") })
            }
            _ if self.peek().is_none() && ["true", "false", "null"].iter().any(|word| word.starts_with(token)) => {
                self.cut = true;
                Ok(Value::Null)
            }
            _ => Err(Stop::Broken),
        }
    }

    fn nothing(&mut self) -> Value {
        self.note("not a number: null");
        Value::Null
    }

    fn token(&mut self, is_part: impl Fn(u8) -> bool) -> &'a str {
        let start = self.at;
        while self.peek().is_some_and(&is_part) {
            self.at += 1;
        }
        self.text.get(start..self.at).unwrap_or_default()
    }
}
