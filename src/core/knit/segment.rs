//! Decides where the JSON of a text begins and ends, and what value there is in as much of it as was written.
//!
//! A segment is one object or list as far as a model wrote it, over one chunk or several. Never joins chunks: that is
//! decided in [`super::seam`].

use super::scan::{Cut, Scanner};
use crate::json::{self, Unreadable};
use serde_json::Value;

/// Brackets in prose before the JSON that are tried.
const TRIED: usize = 32;

/// One object or list as far as it was written.
#[derive(Debug, Clone)]
pub(super) struct Segment {
    pub(super) text: String,
    /// Where it began in the text it was found in.
    pub(super) start: usize,
    /// How far it is JSON; none where it is not.
    pub(super) scanner: Option<Scanner>,
    /// What stood around it and was not blank.
    pub(super) has_surroundings: bool,
}

/// What a segment says.
#[derive(Debug, Clone)]
pub(super) struct Content {
    pub(super) value: Value,
    pub(super) cut: Option<Cut>,
    /// Whether something in it had to be forgiven.
    pub(super) is_forgiven: bool,
}

impl Segment {
    /// The JSON that begins in a text: of several the longest, an object before a list.
    pub(super) fn open(text: &str) -> Option<Self> {
        // Looked for only where there is a mark of one: a byte is found faster than a line.
        let unclosed = if text.as_bytes().contains(&b'`') { text.rfind("\n```") } else { None };
        let unclosed = unclosed.filter(|_| !text.trim_start().starts_with("\n```"));
        for lenient in [false, true] {
            if let Some(found) = find(text, lenient) {
                return Some(found);
            }
            // A fence that was closed although the JSON was not.
            if let Some(found) = unclosed.and_then(|end| find(&text[..end], lenient)) {
                return Some(found);
            }
        }
        let is_json = matches!(json::read(text), Ok(_) | Err(Unreadable::Cut { .. } | Unreadable::TooDeep));
        is_json.then(|| Self { text: text.to_owned(), start: 0, scanner: None, has_surroundings: false })
    }

    pub(super) fn is_done(&self) -> bool {
        self.scanner.as_ref().is_some_and(Scanner::is_done)
    }

    /// The key whose value is due where it ends.
    pub(super) fn due(&self) -> Option<String> {
        self.scanner.as_ref()?.due(&self.text)
    }

    /// The key at which it ends, be it only the beginning of one.
    pub(super) fn last_key(&self) -> Option<String> {
        self.due().or_else(|| self.scanner.as_ref()?.half_key(&self.text).map(str::to_owned))
    }

    /// Whether the text is JSON as it is.
    pub(super) fn is_strict(&self) -> bool {
        self.scanner.as_ref().is_some_and(|scanner| scanner.is_done() && !scanner.is_lenient())
    }

    /// What it says, with everything closed that was cut off.
    pub(super) fn content(&self) -> Option<Content> {
        let Some(scanner) = &self.scanner else {
            return match json::read(&self.text) {
                Ok(found) => Some(Content { value: found.value, cut: None, is_forgiven: true }),
                Err(Unreadable::Cut { partial, .. }) => {
                    let cut = Some(Cut { path: Vec::new(), is_text: false, is_between: false });
                    Some(Content { value: partial, cut, is_forgiven: true })
                }
                Err(_) => None,
            };
        };
        let (closed, cut) = scanner.close(&self.text);
        match serde_json::from_str(&closed) {
            Ok(value) => Some(Content { value, cut, is_forgiven: false }),
            Err(_) => json::read(&closed).ok().map(|found| Content { value: found.value, cut, is_forgiven: true }),
        }
    }
}

fn find(text: &str, lenient: bool) -> Option<Segment> {
    let mut best: Option<Segment> = None;
    let mut at = 0;
    for _ in 0..TRIED {
        let Some(start) = text[at..].find(['{', '[']).map(|offset| at + offset) else { break };
        let mut scanner = Scanner::new(lenient);
        let lead = if text[..start].trim().is_empty() { 0 } else { start };
        let taken = match scanner.feed(&text[lead..]) {
            Ok(taken) => taken,
            Err(_) => {
                at = start + 1;
                continue;
            }
        };
        let end = lead + taken;
        let rest_is_blank = text[end..].trim().is_empty();
        // A lone bracket at the end of prose is not the beginning of an answer.
        if scanner.is_done() || lead == 0 || taken > 2 {
            let is_list = text[start..].starts_with('[');
            let found = Segment {
                text: text[lead..if rest_is_blank { text.len() } else { end }].to_owned(),
                start: lead,
                scanner: Some(scanner),
                has_surroundings: lead > 0 || !rest_is_blank,
            };
            let rank = |segment: &Segment| (!segment.text.trim_start().starts_with('['), segment.text.len());
            if best.as_ref().is_none_or(|best| rank(best) < (!is_list, found.text.len())) {
                best = Some(found);
            }
        }
        if rest_is_blank {
            break;
        }
        at = end.max(start + 1);
    }
    best
}
