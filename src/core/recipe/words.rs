//! The closed vocabularies of a recipe: job types, strategies, file types, whose artifacts are read.
//!
//! Each is an enum that knows all its words. An unknown word is an error that lists the known ones; it never becomes
//! another word, since a recipe that fans out differently than written is worse than one that is refused.

use std::fmt;
use std::str::FromStr;

/// A word outside its vocabulary.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown {what} \"{word}\"; known are {}", known.join(", "))]
pub struct UnknownWord {
    /// What the word was to be.
    pub what: &'static str,
    /// The word, cut short when it is long.
    pub word: String,
    /// The words there are.
    pub known: Vec<&'static str>,
}

/// One enum with its words: `ALL`, `as_str`, `FromStr` and `Display` cannot drift apart.
macro_rules! vocabulary {
    ($(#[$about:meta])* $name:ident is $what:literal { $($(#[$doc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$doc])* $variant,)+
        }

        impl $name {
            /// Every word there is, in the order they are documented.
            pub const ALL: &'static [$name] = &[$($name::$variant,)+];

            /// The word as written in a recipe.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $($name::$variant => $word,)+
                }
            }
        }

        impl FromStr for $name {
            type Err = UnknownWord;

            fn from_str(word: &str) -> Result<$name, UnknownWord> {
                $name::ALL.iter().copied().find(|known| known.as_str() == word).ok_or_else(|| UnknownWord {
                    what: $what,
                    word: super::reader::clip(word),
                    known: $name::ALL.iter().map(|known| known.as_str()).collect(),
                })
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

vocabulary! {
    /// What a step answers with.
    JobType is "job type" {
        /// A header: the decisions its documents follow.
        Plan = "plan",
        /// A document.
        Execute = "execute",
    }
}

vocabulary! {
    /// How a step becomes jobs, for each model.
    Strategy is "strategy" {
        /// One job for everything.
        AllToOne = "all_to_one",
        /// One job over the model's own inputs.
        PerModel = "per_model",
        /// One job for each source document.
        PerSourceDocument = "per_source_document",
        /// One job for each lineage, with the documents of that lineage.
        PerSourceDocumentByLineage = "per_source_document_by_lineage",
        /// One job for each group of documents with the same origin.
        PerSourceGroup = "per_source_group",
        /// One job for each original and critique of it.
        PairwiseByOrigin = "pairwise_by_origin",
    }
}

vocabulary! {
    /// What becomes of an answer.
    FileType is "file type" {
        /// It is rendered for people.
        Markdown = "markdown",
        /// It stays JSON.
        Json = "json",
    }
}

vocabulary! {
    /// What the answer of a step is.
    Makes is "product" {
        /// A text, which is the document itself.
        Text = "text",
        /// The decisions that a model's documents share, as JSON.
        Header = "header",
        /// JSON that stays JSON.
        Json = "json",
        /// JSON that is rendered into a document for people.
        Document = "document",
    }
}

vocabulary! {
    /// Whose artifacts are meant.
    FromModels is "choice of models" {
        /// Those of the model that reads.
        Own = "own",
        /// Those of every model.
        All = "all",
    }
}
