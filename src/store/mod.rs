//! Statements and what they read and write, one file per noun, typed values in and out. A statement is a constant beside
//! its one user. Only `worker/claimer.rs` and the commit of a procedure use SPI besides.

pub(crate) mod catalog;
pub(crate) mod claim;
pub(crate) mod combine;
mod composite;
pub(crate) mod definition;
pub(crate) mod document;
pub(crate) mod index;
pub(crate) mod maintenance;
pub(crate) mod opening;
pub(crate) mod partial;
pub(crate) mod plan;
pub(crate) mod reply;
pub(crate) mod request;
mod row;
pub(crate) mod schema;
pub(crate) mod sent_prompt;
pub(crate) mod settlement;

use crate::error::{Error, Problem};
use pgrx::datum::DatumWithOid;
use pgrx::prelude::*;
use pgrx::spi::{OwnedPreparedStatement, SpiTupleTable};
use row::Row;
use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

/// A statement that is planned once per process.
struct Prepared {
    plan: OwnedPreparedStatement,
    /// The names of the columns of its result, known when it was run once.
    columns: OnceCell<Vec<String>>,
}

thread_local! {
    static PREPARED: RefCell<HashMap<&'static str, Rc<Prepared>>> = RefCell::new(HashMap::new());
}

/// Runs a statement, which is planned once per process, and reads every row of its result. On a standby it may only
/// read: pgrx gives a statement that may write a transaction id, and a standby has none.
fn query<T>(
    statement: &'static str,
    args: &[DatumWithOid],
    read: impl FnMut(&Row) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    // SAFETY: only asks in which state the server is.
    if unsafe { pg_sys::RecoveryInProgress() } {
        return Spi::connect(|client| read_rows(client.select(statement, None, args)?, &OnceCell::new(), read));
    }
    Spi::connect_mut(|client| {
        // Nothing stays borrowed: what a statement calls may come here for one of its own.
        let prepared = match PREPARED.with_borrow(|prepared| prepared.get(statement).cloned()) {
            Some(prepared) => prepared,
            None => {
                let types: Vec<PgOid> = args.iter().map(|arg| PgOid::from(arg.oid())).collect();
                let plan = client.prepare_mut(statement, &types)?.keep();
                let prepared = Rc::new(Prepared { plan, columns: OnceCell::new() });
                PREPARED.with_borrow_mut(|all| all.insert(statement, Rc::clone(&prepared)));
                prepared
            }
        };
        read_rows(client.update(&prepared.plan, None, args)?, &prepared.columns, read)
    })
}

fn read_rows<T>(
    rows: SpiTupleTable,
    columns: &OnceCell<Vec<String>>,
    mut read: impl FnMut(&Row) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    let mut values = Vec::with_capacity(rows.len());
    if rows.is_empty() {
        return Ok(values);
    }
    if columns.get().is_none() {
        let names = (1..=rows.columns()?).map(|column| rows.column_name(column)).collect::<Result<_, _>>()?;
        columns.get_or_init(|| names);
    }
    let columns = columns.get().map_or(&[][..], Vec::as_slice);
    for tuple in rows {
        values.push(read(&Row { tuple: &tuple, columns })?);
    }
    Ok(values)
}

/// A random number from 0 to 1, for jitter.
fn random() -> f64 {
    let mut bytes = [0_u8; 4];
    // SAFETY: fills a buffer of the length that is given; a failure leaves it as it is.
    unsafe { pg_sys::pg_strong_random(bytes.as_mut_ptr().cast(), bytes.len()) };
    f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX)
}

/// Lets this transaction commit without waiting for the disk: for what comes about again by itself when it is lost.
pub(crate) fn commit_lazily() {
    // SAFETY: sets a setting that anyone may set, for this transaction only.
    unsafe {
        pg_sys::set_config_option(
            c"synchronous_commit".as_ptr(),
            c"off".as_ptr(),
            pg_sys::GucContext::PGC_USERSET,
            pg_sys::GucSource::PGC_S_SESSION,
            pg_sys::GucAction::GUC_ACTION_LOCAL,
            true,
            0,
            false,
        );
    }
}

/// Tells a value of one job that cannot be read, which fails that job, from an error that fails the transaction.
fn readable<T>(read: Result<T, Error>) -> Result<Result<T, Problem>, Error> {
    match read {
        Ok(value) => Ok(Ok(value)),
        Err(error @ (Error::Spi(_) | Error::Column { .. } | Error::Gone(_))) => Err(error),
        Err(error) => Ok(Err(Problem::from(error))),
    }
}
