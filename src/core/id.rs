//! The id of an artifact, a lineage or another row, as the core handles it.
//!
//! Decides only that an id is not a step key, a model or a stage. Never creates an id, and never checks its form.

use serde::{Deserialize, Serialize, Serializer};
use std::fmt;
use std::sync::Arc;

/// An id. It is text and not 16 bytes: users of `dialectic.plan` choose their own ids ("Aa"), and a forecast names
/// documents that have no row yet ("step/model/group"). It is shared, so that a clone allocates nothing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(from = "String")]
pub struct Id(Arc<str>);

impl Id {
    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Id {
    fn from(text: &str) -> Id {
        Id(text.into())
    }
}

impl From<String> for Id {
    fn from(text: String) -> Id {
        Id(text.into())
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Not derived: serde serializes an `Arc` only with its feature `rc`.
impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json, to_value};

    #[test]
    fn id_is_plain_text_in_json() {
        for text in ["Aa", "step/model/group", "01890a5d-ac96-774b-bcce-b302099a8057", ""] {
            let id: Id = from_value(json!(text)).unwrap();
            assert_eq!((id.as_str(), id.to_string().as_str()), (text, text));
            assert_eq!(to_value(&id).unwrap(), json!(text));
        }
    }

    #[test]
    fn json_that_is_not_text_is_refused_as_for_a_string() {
        let refused = |value: serde_json::Value| {
            let of_text = from_value::<String>(value.clone()).unwrap_err().to_string();
            assert_eq!(from_value::<Id>(value).unwrap_err().to_string(), of_text);
        };
        refused(json!(7));
        refused(json!({"id": "a"}));
    }

    #[test]
    fn ids_are_ordered_as_their_texts() {
        let mut ids = ["b", "Aa", "a/b", "a"].map(Id::from);
        ids.sort();
        assert_eq!(ids.each_ref().map(Id::as_str), ["Aa", "a", "a/b", "b"]);
    }
}
