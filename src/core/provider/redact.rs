//! Decides what of a text may be kept: all but the secret, which becomes `***`.
//!
//! The secret is found as it is, as JSON writes it inside a string, and as a URL does. The text may come in pieces; what is
//! given out is the same however it is cut. Of forms that overlap, the first counts, and of two that begin together the longer.
//! Time is linear in the text, whatever the secret: each form is followed by an automaton of its own (Knuth, Morris, Pratt).
//! Never holds back as much as the longest form, and never shows the secret itself.
//!
//! A secret that has `***` in it, or begins or ends with `*`, can come about anew where it was replaced; no key is made so.

#[cfg(test)]
mod laws;

use crate::percent::percent_encoded;
use std::fmt;

/// What stands where the secret was.
const MASK: &str = "***";
/// The characters of the shortest secret that is searched for. A shorter one, or none at all, would be found in almost every
/// text, so that little was left of an answer, and what was masked would give the secret away.
const SHORTEST: usize = 4;

/// Takes a secret out of a text that comes in pieces.
pub struct Redactor {
    forms: Vec<Form>,
    text: Text,
}

/// Says nothing: what is held back may be most of the secret.
impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor").finish_non_exhaustive()
    }
}

impl Redactor {
    /// For this secret.
    pub fn new(secret: &str) -> Self {
        let forms: Vec<Form> = spellings(secret).into_iter().map(Form::new).collect();
        let text = Text::new(forms.len());
        Redactor { forms, text }
    }

    /// The next piece, as far as it is certain to be free of the secret.
    pub fn push(&mut self, text: &str) -> String {
        self.text.push(text, &self.forms)
    }

    /// What was held back. The next piece begins another text.
    pub fn end(&mut self) -> String {
        let rest = self.text.end();
        self.text = Text::new(self.forms.len());
        rest
    }

    /// A whole text without the secret.
    pub fn whole(&self, text: &str) -> String {
        let mut whole = Text::new(self.forms.len());
        let mut out = whole.push(text, &self.forms);
        out.push_str(&whole.end());
        out
    }
}

/// The secret in each of its forms.
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
    all.sort_unstable();
    all.dedup();
    all
}

/// One form of the secret, with the automaton that finds it.
struct Form {
    bytes: Vec<u8>,
    /// For each number of bytes that fit: how many still fit when the next one does not.
    fallback: Vec<usize>,
}

impl Form {
    fn new(text: String) -> Self {
        let mut form = Form { bytes: text.into_bytes(), fallback: vec![0, 0] };
        let mut fit = 0;
        for place in 1..form.bytes.len() {
            fit = form.step(fit, form.bytes[place]);
            form.fallback.push(fit);
        }
        form
    }

    /// How many bytes fit after one more, if `fit` did before.
    fn step(&self, mut fit: usize, byte: u8) -> usize {
        loop {
            if self.bytes.get(fit) == Some(&byte) {
                return fit + 1;
            }
            if fit == 0 {
                return 0;
            }
            fit = self.fallback[fit];
        }
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
    /// For each form, how many of its bytes the text ends with.
    fits: Vec<usize>,
    /// Where forms were found that are not decided yet: from and to.
    found: Vec<(usize, usize)>,
}

impl Text {
    fn new(forms: usize) -> Self {
        Text { kept: String::new(), given: 0, begin: 0, behind: 0, fits: vec![0; forms], found: Vec::new() }
    }

    fn push(&mut self, piece: &str, forms: &[Form]) -> String {
        let before = self.begin + self.kept.len();
        self.kept.push_str(piece);
        for (form, fit) in forms.iter().zip(&mut self.fits) {
            for (place, byte) in piece.bytes().enumerate() {
                *fit = form.step(*fit, byte);
                if *fit == form.bytes.len() {
                    let to = before + place + 1;
                    self.found.push((to - form.bytes.len(), to));
                    *fit = form.fallback[*fit];
                }
            }
        }
        // Whatever is found later begins where a form has begun to fit, or behind that.
        let end = self.begin + self.kept.len();
        let sure = self.fits.iter().map(|fit| end - fit).min().unwrap_or(end);
        self.give(sure)
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
