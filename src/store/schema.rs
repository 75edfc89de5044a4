//! The fingerprint that the install script has left in the schema, compared with the library's own.

use super::query;
use crate::error::Error;

/// Read from the catalog and not called: a schema of an older build may not have the function. Every name is qualified:
/// run_pending calls this with the search path of its caller.
const FOUND: &str = "select pg_catalog.current_database()::pg_catalog.text as database, \
     (select pg_catalog.substring(p.prosrc, '[0-9a-f]{16}') from pg_catalog.pg_proc p \
      join pg_catalog.pg_namespace n on n.oid operator(pg_catalog.=) p.pronamespace \
      where n.nspname operator(pg_catalog.=) 'dialectic' \
        and p.proname operator(pg_catalog.=) '_schema_fingerprint') as fingerprint";

/// The fingerprint of the sources that this library was built from.
const OF_LIBRARY: &str = env!("SCHEMA_FINGERPRINT");

/// Fails with `OtherSchema` when the schema of this database was made from other sources than the library.
pub(crate) fn check() -> Result<(), Error> {
    let found = query(FOUND, &[], |row| Ok((row.get::<String>("database")?, row.nullable::<String>("fingerprint")?)))?;
    match found.into_iter().next() {
        Some((_, Some(schema))) if schema == OF_LIBRARY => Ok(()),
        found => {
            let (database, schema) = found.unwrap_or_default();
            Err(Error::OtherSchema { database, schema, library: OF_LIBRARY })
        }
    }
}
