//! Maintenance: when it is due, one batch of it, its end.

use super::query;
use crate::error::Error;

const DUE_IN: &str = "select dialectic._maintenance_due_in() as seconds";
const BATCH: &str = "select dialectic._maintain_batch() as rows";
const END: &str = "select dialectic._end_maintenance()";

/// Seconds until maintenance is due; none where the worker does not maintain.
pub(crate) fn due_in() -> Result<Option<f64>, Error> {
    let found = query(DUE_IN, &[], |row| row.nullable("seconds"))?;
    Ok(found.into_iter().next().flatten())
}

/// One batch; returns whether another one has something to do.
pub(crate) fn batch() -> Result<bool, Error> {
    let rows: Vec<i32> = query(BATCH, &[], |row| row.get("rows"))?;
    Ok(rows.into_iter().any(|rows| rows > 0))
}

/// Notes that maintenance has run to its end.
pub(crate) fn end() -> Result<(), Error> {
    query(END, &[], |_| Ok(())).map(drop)
}
