//! Waiting without holding anything: on the latch of the process, so that Ctrl-C, time-outs and barriers are answered at once,
//! and on the socket of the call threads.
//!
//! Both are procedures, and where a procedure may commit they do so before they wait: a CALL takes a snapshot for its portal,
//! and only the end of the transaction lets go of it.

use crate::worker::claimer;
use pgrx::prelude::*;
use std::time::{Duration, Instant};

/// Returns when a call has come back, or after so many milliseconds.
#[pg_extern(
    sql = "create procedure _await_replies(milliseconds integer) language c as 'MODULE_PATHNAME', '_await_replies_wrapper';"
)]
fn _await_replies(milliseconds: i32, fcinfo: pg_sys::FunctionCallInfo) {
    if milliseconds > 0 {
        end_transaction(fcinfo);
        wait(milliseconds, claimer::socket());
    }
}

/// Returns after so many milliseconds.
#[pg_extern(sql = "create procedure _nap(milliseconds integer) language c as 'MODULE_PATHNAME', '_nap_wrapper';")]
fn _nap(milliseconds: i32, fcinfo: pg_sys::FunctionCallInfo) {
    end_transaction(fcinfo);
    wait(milliseconds, None);
}

/// Commits where the caller of the procedure would be allowed to, and so lets go of every snapshot.
fn end_transaction(fcinfo: pg_sys::FunctionCallInfo) {
    // SAFETY: the server passes a CallContext to a procedure, and says in it whether it may commit.
    unsafe {
        let context = (*fcinfo).context;
        let may_commit = !context.is_null()
            && pgrx::is_a(context, pg_sys::NodeTag::T_CallContext)
            && !(*context.cast::<pg_sys::CallContext>()).atomic;
        if may_commit && pg_sys::SPI_connect_ext(pg_sys::SPI_OPT_NONATOMIC as i32) == pg_sys::SPI_OK_CONNECT as i32 {
            pg_sys::SPI_commit();
            pg_sys::SPI_finish();
        }
    }
}

/// Whether COMMIT would be refused here because the user is in a transaction block.
#[pg_extern(volatile)]
fn _in_transaction_block() -> bool {
    // SAFETY: reads the state of the transaction.
    unsafe { pg_sys::IsTransactionBlock() }
}

fn wait(milliseconds: i32, socket: Option<i32>) {
    let until = Instant::now() + Duration::from_millis(u64::try_from(milliseconds).unwrap_or(0));
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        let mut events = pg_sys::WL_LATCH_SET | pg_sys::WL_TIMEOUT | pg_sys::WL_EXIT_ON_PM_DEATH;
        if socket.is_some() {
            events |= pg_sys::WL_SOCKET_READABLE;
        }
        // SAFETY: the latch is the process's own, and the socket lives as long as the claimer, which nothing ends meanwhile.
        let happened = unsafe {
            pg_sys::WaitLatchOrSocket(
                pg_sys::MyLatch,
                events as i32,
                socket.unwrap_or(pg_sys::PGINVALID_SOCKET),
                i64::try_from(left.as_millis()).unwrap_or(i64::MAX).max(1),
                pg_sys::PG_WAIT_EXTENSION,
            )
        };
        // SAFETY: as above.
        unsafe { pg_sys::ResetLatch(pg_sys::MyLatch) };
        pgrx::check_for_interrupts!();
        if happened as u32 & pg_sys::WL_SOCKET_READABLE != 0 {
            return;
        }
    }
}
