//! Reading the frozen definition of a session.

use crate::error::Error;
use pgrx::JsonB;
use pgrx::prelude::*;

const PROMPTS: &str = "select prompts from dialectic.definitions where id operator(pg_catalog.=) $1";

/// The templates of a definition, as `{name: body}`.
pub(crate) fn prompts(definition_id: &str) -> Result<serde_json::Value, Error> {
    Spi::get_one_with_args::<JsonB>(PROMPTS, &[definition_id.into()])
        .map_err(|error| match error {
            pgrx::spi::Error::InvalidPosition => Error::Gone(format!("definition \"{definition_id}\" does not exist")),
            other => Error::Spi(other),
        })?
        .map(|json| json.0)
        .ok_or_else(|| Error::Gone(format!("definition \"{definition_id}\" has no prompts")))
}
