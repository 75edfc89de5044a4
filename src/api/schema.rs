//! Whether the schema fits the library, for functions of SQL: `run` refuses, `health` reports.

use crate::error::Error;
use crate::store::schema;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

/// Refuses when the schema was made by another build than the library.
#[pg_extern(stable, parallel_restricted)]
pub(crate) fn _check_schema() -> Result<(), ErrorReport> {
    Ok(schema::check()?)
}

/// What `_check_schema` would raise, with its hint; null when the schema fits.
#[pg_extern(stable, parallel_restricted)]
pub(crate) fn _schema_problem() -> Result<Option<String>, ErrorReport> {
    match schema::check() {
        Ok(()) => Ok(None),
        Err(error @ Error::OtherSchema { .. }) => {
            let report = ErrorReport::from(error);
            Ok(Some(format!("{}: {}", report.message(), report.hint().unwrap_or_default())))
        }
        Err(error) => Err(error.into()),
    }
}

/// The version of the library, which may differ from that of the extension. A schema that was made before there were
/// fingerprints compares this with its own version: it is given one that never fits.
#[pg_extern(stable, parallel_restricted)]
pub(crate) fn _library_version() -> Result<String, ErrorReport> {
    let version = env!("CARGO_PKG_VERSION");
    Ok(match schema::check() {
        Err(Error::OtherSchema { schema: None, .. }) => format!("{version} of a later build"),
        _ => version.to_owned(),
    })
}
