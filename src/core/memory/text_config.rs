//! Decides by which text search configuration a text is indexed: that of the language whose function words it has.
//!
//! Function words that two of the languages share count for neither. Never reads more than words, so the same text has
//! the same configuration on every server.

/// A text search configuration of Postgres.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TextConfig {
    /// English stems and stop words.
    English,
    /// German stems and stop words.
    German,
    /// Words as they are.
    Simple,
}

/// A language is told from at least this many function words,
const LEAST_HITS: usize = 2;
/// and where at least one word in this many is one.
const ONE_WORD_IN: usize = 12;

const ENGLISH: &[&str] = &[
    "a", "about", "after", "all", "and", "any", "are", "as", "at", "be", "because", "been", "before", "between", "but",
    "by", "can", "do", "does", "each", "every", "for", "from", "has", "have", "how", "if", "into", "is", "it", "its",
    "may", "more", "must", "no", "not", "of", "on", "one", "only", "or", "other", "out", "should", "than", "that",
    "the", "their", "them", "then", "there", "these", "they", "this", "those", "to", "until", "up", "we", "were",
    "what", "when", "where", "which", "while", "who", "why", "with", "without", "would", "you", "your",
];

const GERMAN: &[&str] = &[
    "ab", "aber", "alle", "als", "auch", "auf", "aus", "bei", "beim", "bis", "da", "damit", "dann", "das", "dass",
    "dem", "den", "der", "des", "die", "diese", "dieser", "dieses", "durch", "ein", "eine", "einem", "einen", "einer",
    "eines", "er", "es", "für", "gegen", "haben", "hat", "ihre", "im", "ist", "jede", "jeder", "jedes", "kann", "kein",
    "keine", "können", "mit", "muss", "müssen", "nach", "nicht", "noch", "nur", "ob", "oder", "ohne", "pro", "sein",
    "seine", "seit", "sich", "sie", "sind", "soll", "sollen", "sowie", "um", "und", "unter", "vom", "von", "vor",
    "wann", "wenn", "wer", "werden", "wie", "wir", "wird", "wo", "wurde", "wurden", "zu", "zum", "zur", "zwischen",
    "über",
];

impl TextConfig {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::English, Self::German, Self::Simple];

    /// Its name in Postgres.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::English => "english",
            Self::German => "german",
            Self::Simple => "simple",
        }
    }

    /// The configuration of the language that a text is written in; none where its words do not tell.
    pub fn detect(text: &str) -> Option<TextConfig> {
        let (mut words, mut english, mut german) = (0, 0, 0);
        for word in text.split(|character: char| !character.is_alphabetic()).filter(|word| !word.is_empty()) {
            words += 1;
            english += usize::from(is_in(ENGLISH, word));
            german += usize::from(is_in(GERMAN, word));
        }
        let (config, hits) = match english.cmp(&german) {
            std::cmp::Ordering::Greater => (Self::English, english),
            std::cmp::Ordering::Less => (Self::German, german),
            std::cmp::Ordering::Equal => return None,
        };
        (hits >= LEAST_HITS && hits * ONE_WORD_IN >= words).then_some(config)
    }
}

/// Whether a word says little of what a text is about, in one of the languages.
pub(crate) fn is_function_word(word: &str) -> bool {
    is_in(ENGLISH, word) || is_in(GERMAN, word)
}

/// Whether a sorted list has a word, in whatever case it is written.
fn is_in(list: &[&str], word: &str) -> bool {
    const LONGEST: usize = 16;
    word.len() <= LONGEST && {
        let word = word.to_lowercase();
        list.binary_search(&word.as_str()).is_ok()
    }
}
