//! Decides what of a text may be kept: all but the secret, which becomes `***`.
//!
//! The secret is found as it is, as JSON writes it inside a string, and as a URL does. The text may come in pieces;
//! what is given out is the same however it is cut. Of forms that overlap, the first counts, and of two that begin
//! together the longer. Time is linear in the text, whatever the secret. Never holds back as much as the longest form,
//! and never shows the secret itself.
//!
//! A secret that contains `***`, or begins or ends with `*`, can reappear where it was replaced; no key looks like
//! that.

#[cfg(test)]
mod laws;

use crate::percent::percent_encoded;
use aho_corasick::Anchored;
use aho_corasick::automaton::{Automaton, StateID};
use aho_corasick::nfa::noncontiguous::NFA;
use std::collections::HashMap;
use std::fmt;

/// What stands where the secret was.
const MASK: &str = "***";
/// The characters of the shortest secret that is searched for. A shorter one, or none at all, would be found in almost
/// every text, so that little was left of an answer, and what was masked would give the secret away.
const SHORTEST: usize = 4;

/// Takes a secret out of a text that comes in pieces.
pub struct Redactor {
    search: Search,
    text: Text,
}

/// A secret that is too long to be searched for.
#[derive(Debug, thiserror::Error)]
#[error("the secret cannot be searched for: {0}")]
pub struct UnsearchableSecret(String);

/// Says nothing: what is held back may be most of the secret.
impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor").finish_non_exhaustive()
    }
}

impl Redactor {
    /// For this secret.
    pub fn new(secret: &str) -> Result<Self, UnsearchableSecret> {
        let search = Search::new(&spellings(secret))?;
        let text = Text::new(search.start);
        Ok(Redactor { search, text })
    }

    /// The next piece, as far as it is certain to be free of the secret.
    pub fn push(&mut self, text: &str) -> String {
        self.text.push(text, &self.search)
    }

    /// What was held back. The next piece begins another text.
    pub fn end(&mut self) -> String {
        let rest = self.text.end();
        self.text = Text::new(self.search.start);
        rest
    }

    /// A whole text without the secret.
    pub fn whole(&self, text: &str) -> String {
        let mut whole = Text::new(self.search.start);
        let mut out = whole.push(text, &self.search);
        out.push_str(&whole.end());
        out
    }
}

/// The secret in each of its forms, the shorter ones first.
fn spellings(secret: &str) -> Vec<String> {
    if secret.chars().count() < SHORTEST {
        return Vec::new();
    }
    let json = serde_json::Value::from(secret).to_string();
    let json = json[1..json.len() - 1].to_owned();
    // An encoded byte is a part of its own, and no other part begins with a percent sign.
    let lower = |part: &str| if part.starts_with('%') { part.to_ascii_lowercase() } else { part.to_owned() };
    let mut all = vec![
        secret.to_owned(),
        // Some write a slash as it is, some escape it.
        json.replace('/', "\\/"),
        json,
        percent_encoded(secret).to_string(),
        percent_encoded(secret).map(lower).collect(),
    ];
    all.sort_unstable_by(|a, b| a.len().cmp(&b.len()).then_with(|| a.cmp(b)));
    all.dedup();
    all
}

/// Finds every form of the secret at once (Aho and Corasick).
struct Search {
    automaton: NFA,
    start: StateID,
    /// For each state, how many bytes at the end of the text may belong to a form that is not complete yet.
    unfinished: HashMap<StateID, usize>,
}

impl Search {
    fn new(forms: &[String]) -> Result<Self, UnsearchableSecret> {
        let automaton = NFA::new(forms).map_err(|problem| UnsearchableSecret(problem.to_string()))?;
        let start = automaton.start_state(Anchored::No).map_err(|problem| UnsearchableSecret(problem.to_string()))?;
        let mut search = Search { automaton, start, unfinished: HashMap::new() };
        for form in forms {
            let mut state = start;
            for (length, byte) in form.bytes().enumerate() {
                if length > 0 {
                    search.unfinished.insert(state, length);
                }
                state = search.next(state, byte);
            }
        }
        // A complete form is finished, unless it begins a longer one; only its end may begin another. Shorter forms
        // come first, because a form may end with one.
        for form in forms {
            let walk = |bytes: &[u8]| bytes.iter().fold(start, |state, byte| search.next(state, *byte));
            let (whole, end) = (walk(form.as_bytes()), walk(&form.as_bytes()[1..]));
            let unfinished = search.unfinished(end);
            search.unfinished.entry(whole).or_insert(unfinished);
        }
        Ok(search)
    }

    fn next(&self, state: StateID, byte: u8) -> StateID {
        self.automaton.next_state(Anchored::No, state, byte)
    }

    fn unfinished(&self, state: StateID) -> usize {
        self.unfinished.get(&state).copied().unwrap_or(0)
    }

    /// The lengths of the forms that end in this state.
    fn ending(&self, state: StateID) -> impl Iterator<Item = usize> {
        let count = if self.automaton.is_match(state) { self.automaton.match_len(state) } else { 0 };
        (0..count).map(move |index| self.automaton.pattern_len(self.automaton.match_pattern(state, index)))
    }
}

/// A text on its way through. Places are counted in bytes from its beginning.
struct Text {
    /// The end of the text; what is before `given` in it is given out.
    kept: String,
    given: usize,
    /// The place where `kept` begins.
    begin: usize,
    /// Behind the last secret that was replaced: nothing before it counts any more.
    behind: usize,
    /// Where the search stands at the end of the text.
    state: StateID,
    /// Where forms were found that are not decided yet: from and to.
    found: Vec<(usize, usize)>,
}

impl Text {
    fn new(state: StateID) -> Self {
        Text { kept: String::new(), given: 0, begin: 0, behind: 0, state, found: Vec::new() }
    }

    fn push(&mut self, piece: &str, search: &Search) -> String {
        let mut end = self.begin + self.kept.len();
        self.kept.push_str(piece);
        for byte in piece.bytes() {
            end += 1;
            self.state = search.next(self.state, byte);
            self.found.extend(search.ending(self.state).map(|length| (end - length, end)));
        }
        // A form that is found later begins in the part that is not finished.
        self.give(end - search.unfinished(self.state))
    }

    fn end(&mut self) -> String {
        self.give(self.begin + self.kept.len())
    }

    /// Gives out the text up to a place before which all is decided.
    fn give(&mut self, sure: usize) -> String {
        // By their beginning, the longer one first.
        self.found.sort_unstable_by_key(|(from, to)| (*from, std::cmp::Reverse(*to)));
        let mut out = String::new();
        let mut at = self.begin + self.given;
        let decided = self.found.partition_point(|(from, _)| *from < sure);
        for (from, to) in self.found.drain(..decided) {
            if from >= self.behind {
                out.push_str(&self.kept[at - self.begin..from - self.begin]);
                out.push_str(MASK);
                self.behind = to;
                at = to;
            }
        }
        if at < sure {
            out.push_str(&self.kept[at - self.begin..sure - self.begin]);
            at = sure;
        }
        self.given = at - self.begin;
        // Not every time: what stays is moved, and a text may come letter by letter.
        if 2 * self.given >= self.kept.len() {
            self.kept.drain(..self.given);
            self.begin = at;
            self.given = 0;
        }
        out
    }
}
