//! The only user of SPI. One file per noun, typed values in and out; statements are constants beside their one user,
//! and each calls one function of `sql/`, for many jobs at once.

pub(crate) mod catalog;
pub(crate) mod claim;
pub(crate) mod definition;
pub(crate) mod document;
pub(crate) mod partial;
pub(crate) mod plan;
pub(crate) mod reply;
pub(crate) mod request;
pub(crate) mod schema;

use crate::error::{Error, Problem};
use pgrx::datum::DatumWithOid;
use pgrx::prelude::*;
use pgrx::spi::{OwnedPreparedStatement, SpiHeapTupleData};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

thread_local! {
    static PREPARED: RefCell<HashMap<&'static str, Rc<OwnedPreparedStatement>>> = RefCell::new(HashMap::new());
}

/// Runs a statement, which is planned once per process, and reads every row of its result. On a standby it may only
/// read: pgrx gives a statement that may write a transaction id, and a standby has none.
fn query<T>(
    statement: &'static str,
    args: &[DatumWithOid],
    mut read: impl FnMut(&SpiHeapTupleData) -> Result<T, pgrx::spi::Error>,
) -> Result<Vec<T>, Error> {
    // SAFETY: only asks in which state the server is.
    if unsafe { pg_sys::RecoveryInProgress() } {
        return Spi::connect(|client| client.select(statement, None, args)?.map(|row| Ok(read(&row)?)).collect());
    }
    Spi::connect_mut(|client| {
        // Nothing stays borrowed: what a statement calls may come here for one of its own.
        let prepared = match PREPARED.with_borrow(|prepared| prepared.get(statement).cloned()) {
            Some(prepared) => prepared,
            None => {
                let types: Vec<PgOid> = args.iter().map(|arg| PgOid::from(arg.oid())).collect();
                let kept = Rc::new(client.prepare_mut(statement, &types)?.keep());
                PREPARED.with_borrow_mut(|prepared| prepared.insert(statement, Rc::clone(&kept)));
                kept
            }
        };
        let rows = client.update(&*prepared, None, args)?;
        let mut read_rows = Vec::with_capacity(rows.len());
        for row in rows {
            read_rows.push(read(&row)?);
        }
        Ok(read_rows)
    })
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
        Err(error @ (Error::Spi(_) | Error::Gone(_))) => Err(error),
        Err(error) => Ok(Err(Problem::from(error))),
    }
}

/// A column that is never null.
fn must<T: FromDatum + IntoDatum>(row: &SpiHeapTupleData, column: usize) -> Result<T, pgrx::spi::Error> {
    row.get::<T>(column)?.ok_or(pgrx::spi::Error::InvalidPosition)
}
