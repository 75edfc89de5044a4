//! Decides how many tokens a text is, and a list of messages.
//!
//! Exact for the encodings of OpenAI: as tiktoken counts, text that looks like a special token being text as any other.
//! For models of others the count is a measure of the text, and a [`Ratio`] says what it comes to. The vocabularies are
//! read-only data of the library: nothing is loaded, and a new process counts at once. No text makes
//! it panic or take more than time in proportion. Never knows a model, a price or a window.
//!
//! Why a counter of its own: measured in one release build on two cores, with equal counts on every text, in MB/s for
//! prose, Markdown, dense JSON, Rust, Chinese with Japanese, and emoji; then ms to load, MB private to each process,
//! and MB of the stripped library.
//!
//! | counter | prose | md | json | code | cjk | emoji | load | private | library |
//! |---|---|---|---|---|---|---|---|---|---|
//! | this one | 103 | 93 | 112 | 88 | 24 | 35 | 0 | 0.004 | 6.4 |
//! | tiktoken-rs 0.12.1 | 30 | 21 | 16 | 20 | 13 | 15 | 130 | 41 | 7.9 |
//! | bpe-openai 0.3.2 | 43 | 32 | 37 | 35 | 31 | 29 | 51 | 35 | 49.7 |
//!
//! | module | decides |
//! |---|---|
//! | `pieces` | where a text is split before anything is counted |
//! | `merge` | how many tokens a piece is |
//! | `vocabulary` | what is a token, and which comes first |
//! | `sorts` | what is a letter, a digit, white space |
//! | `measure` | how the tokens of one model are counted |
//! | `ratio` | what a count comes to for a model that counts otherwise |

mod hash;
mod layout;
mod measure;
mod merge;
mod pieces;
mod ratio;
mod sorts;
mod vocabulary;

#[cfg(test)]
mod laws;

pub use measure::Measure;
pub use ratio::Ratio;

use crate::prompt::Message;
use crate::provider::simulator;
use pieces::Split;
use std::str::FromStr;
use vocabulary::{CL100K_BASE, O200K_BASE, Vocabulary};

/// What a message takes beside its role and its content: the signs that set it off.
const FRAME: u64 = 3;
/// What the role of a message takes: each of them is one token.
const ROLE: u64 = 1;
/// What begins the answer.
const PRIMING: u64 = 3;

/// How texts become tokens; `models.tokenizer` names one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// Of OpenAI's models from GPT-4o on, and the measure for everybody else's.
    O200kBase,
    /// Of GPT-4, GPT-3.5 and the embeddings.
    Cl100kBase,
    /// Of the simulator.
    Simulator,
}

impl Encoding {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::O200kBase, Self::Cl100kBase, Self::Simulator];

    /// The word for it in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::O200kBase => "o200k_base",
            Self::Cl100kBase => "cl100k_base",
            Self::Simulator => "simulator",
        }
    }

    fn tables(self) -> Option<(&'static Vocabulary, Split)> {
        match self {
            Self::O200kBase => Some((&O200K_BASE, pieces::o200k_base)),
            Self::Cl100kBase => Some((&CL100K_BASE, pieces::cl100k_base)),
            Self::Simulator => None,
        }
    }
}

impl FromStr for Encoding {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|one| one.as_str() == word).ok_or_else(|| {
            let known = Self::ALL.map(Self::as_str).join(", ");
            format!("unknown tokenizer \"{word}\": one of {known} is expected")
        })
    }
}

/// How many tokens a text is.
pub fn count(encoding: Encoding, text: &str) -> u64 {
    match encoding.tables() {
        Some((vocabulary, split)) => sum(vocabulary, split, text),
        None => simulator::tokens(text),
    }
}

fn sum(vocabulary: &Vocabulary, split: Split, text: &str) -> u64 {
    let (mut tokens, mut at) = (0, 0);
    while at < text.len() {
        let end = split(text, at);
        tokens += merge::tokens(vocabulary, &text.as_bytes()[at..end]);
        at = end;
    }
    tokens
}

/// How many tokens a model reads when it is sent messages: their contents and, but for the simulator, what the chat
/// format of OpenAI puts around each and after the last.
pub fn count_messages(encoding: Encoding, messages: &[Message]) -> u64 {
    let contents = messages.iter().map(|message| count(encoding, &message.content)).sum::<u64>();
    match encoding {
        Encoding::Simulator => contents,
        Encoding::O200kBase | Encoding::Cl100kBase => contents + (FRAME + ROLE) * messages.len() as u64 + PRIMING,
    }
}

/// Reads through what counting reads. Done once where all processes come from, it spares the first of them the disk.
pub fn warm(encoding: Encoding) {
    if let Some((vocabulary, _)) = encoding.tables() {
        vocabulary.touch();
    }
}
