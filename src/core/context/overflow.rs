//! Decides what a user is told of a prompt that cannot be sent: the documents with their tokens, the limit, and what
//! would help. Never decides whether it can be sent.

use super::{Measured, Window};
use crate::definition::REQUEST_LABEL;
use crate::tokens::Measure;
use std::fmt;

/// So many documents are named one by one.
const NAMED: usize = 5;
/// The most that `tier2_max_ratio` may be: `_setting_bounds` in sql/configuration.sql.
const HIGHEST_RATIO: f64 = 16.0;

/// Why a prompt cannot be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// One line of each document is too long already.
    Floor,
    /// It is further over its limit than documents are condensed.
    Ratio,
    /// Condensing does not make it fit.
    Rounds,
    /// It is the prompt of a combine job.
    CombinePrompt,
    /// It was stored before, and its documents cannot be told apart.
    Stored,
}

/// A prompt that cannot be sent.
#[derive(Debug, Clone, PartialEq)]
pub struct Overflow {
    reason: Reason,
    tokens: u64,
    /// Without the documents that may shrink, and with one line of each.
    bare: u64,
    floor: u64,
    limit: u64,
    window: Window,
    /// Its documents with their tokens and whether they may shrink, the largest first.
    documents: Vec<(String, u64, bool)>,
}

/// A model that may be asked instead.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its window in the same stage.
    pub window: Window,
    /// How its tokens are counted.
    pub measure: Measure,
}

impl Overflow {
    pub(super) fn new(prompt: &Measured, window: &Window, reason: Reason) -> Self {
        let mut documents: Vec<(String, u64, bool)> =
            prompt.pieces.iter().map(|piece| (piece.name.clone(), piece.tokens, piece.may_shrink)).collect();
        if documents.iter().all(|(name, ..)| name != REQUEST_LABEL) {
            documents.push((REQUEST_LABEL.to_owned(), prompt.request, false));
        }
        documents.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        let Measured { total, bare, floor, .. } = *prompt;
        Self { reason, tokens: total, bare, floor, limit: window.limit(), window: *window, documents }
    }

    /// Of a prompt whose documents are not known.
    pub fn stored(tokens: u64, window: &Window) -> Self {
        let (limit, documents) = (window.limit(), Vec::new());
        Self { reason: Reason::Stored, tokens, bare: tokens, floor: tokens, limit, window: *window, documents }
    }

    /// What would help: the smallest of these models whose window the prompt fits, a smaller document, a setting. The
    /// prompt was counted by `measure`.
    pub fn hint<'a>(&self, measure: &Measure, models: impl Iterator<Item = Candidate<'a>>) -> String {
        let whole = measure.at_most(1_000_000) as f64;
        let tokens = |of: &Measure| (self.tokens as f64 * of.at_most(1_000_000) as f64 / whole).ceil() as u64;
        let larger = models
            .filter(|model| model.window.tokens > self.window.tokens && tokens(&model.measure) <= model.window.limit())
            .min_by(|a, b| a.window.tokens.cmp(&b.window.tokens).then_with(|| a.name.cmp(b.name)));
        let model = match larger {
            Some(model) => format!("Use model \"{}\", which reads {} tokens", model.name, model.window.tokens),
            None => "Add a model with a larger context_window".to_owned(),
        };
        match self.setting() {
            Some(setting) => format!("{model}, or {}, or {setting}", self.smaller()),
            None => format!("{model}, or {}.", self.smaller()),
        }
    }

    /// Which part of the prompt should be smaller.
    fn smaller(&self) -> String {
        let largest = self.documents.iter().find(|(.., may_shrink)| *may_shrink);
        match largest {
            _ if self.bare > self.limit => format!("shorten {REQUEST_LABEL}"),
            _ if self.reason == Reason::Floor => "attach fewer documents".to_owned(),
            Some((name, ..)) => format!("shorten {name}"),
            None => format!("shorten {REQUEST_LABEL}"),
        }
    }

    /// The setting that would help, if one would.
    fn setting(&self) -> Option<String> {
        let windows = self.tokens.saturating_sub(self.limit) as f64 / self.window.tokens.max(1) as f64;
        let ratio = (windows * 10.0).ceil() / 10.0;
        let reserve = self.window.output.min(self.window.tokens / 4);
        match self.reason {
            Reason::Ratio if ratio <= HIGHEST_RATIO => {
                Some(format!("SELECT dialectic.set_config('tier2_max_ratio', '{ratio:.1}');"))
            }
            Reason::Floor if self.floor - self.limit < reserve => {
                let output = reserve - (self.floor - self.limit);
                Some(format!("give generate() a max_output_tokens of {output} or less."))
            }
            _ => None,
        }
    }
}

impl fmt::Display for Overflow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let over = self.tokens.saturating_sub(self.limit);
        write!(
            f,
            "the prompt has {} tokens, {over} over the {} that fit a window of {}: ",
            self.tokens, self.limit, self.window.tokens
        )?;
        match self.reason {
            Reason::Floor => write!(f, "with one line of each document it would still have {}", self.floor)?,
            Reason::Ratio => write!(f, "more than {} windows over it is not condensed", self.window.ratio)?,
            Reason::Rounds => f.write_str("its documents cannot be condensed that far")?,
            Reason::CombinePrompt => f.write_str("it condenses documents and is not condensed itself")?,
            Reason::Stored => f.write_str("it was stored for another model")?,
        }
        for (at, (name, tokens, _)) in self.documents.iter().take(NAMED).enumerate() {
            write!(f, "{} {name} has {tokens} tokens", if at == 0 { ";" } else { "," })?;
        }
        match self.documents.len().saturating_sub(NAMED) {
            0 => Ok(()),
            more => write!(f, ", {more} more documents have fewer"),
        }
    }
}
