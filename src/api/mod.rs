//! Functions of the SQL surface that need Rust. Each decodes its arguments, asks the core and encodes the answer; none
//! decides anything, and none but those that fill a cache read a table. Names with a leading underscore are ours,
//! called from `sql/`.

pub(crate) mod claim;
pub(crate) mod clock;
pub(crate) mod entry;
pub(crate) mod explain;
pub(crate) mod external_worker;
pub(crate) mod identity;
pub(crate) mod job;
pub(crate) mod knit;
pub(crate) mod memory;
pub(crate) mod path;
pub(crate) mod plan;
pub(crate) mod prompt;
pub(crate) mod provider;
pub(crate) mod recipe;
pub(crate) mod schema;
pub(crate) mod tokens;

use crate::error::Error;
use pgrx::JsonB;
use serde::de::DeserializeOwned;

/// An argument of a function, from JSON.
fn decode<T: DeserializeOwned>(what: &'static str, value: JsonB) -> Result<T, Error> {
    serde_json::from_value(value.0).map_err(|source| Error::Json { what, source })
}

/// A result of a function, as JSON.
fn encode<T: serde::Serialize>(what: &'static str, value: &T) -> Result<JsonB, Error> {
    serde_json::to_value(value).map(JsonB).map_err(|source| Error::Json { what, source })
}
