//! The worker of a database whose schema was made by another build: it waits until the schema is updated, and does
//! nothing else meanwhile. Decides how often it looks and logs. Never opens a transaction itself.

use crate::error::Error;
use crate::worker::{shmem, signals};
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;
use std::time::Duration;

/// How often it looks without being woken. An update script that notifies the worker is seen at once.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// Returns true when the schema fits, false when the worker is to leave. `check` runs `store::schema::check` in a
/// transaction; errors of any other kind are left to what the worker does next.
pub(crate) fn wait_until_it_fits(database: u32, mut check: impl FnMut() -> Result<(), Error>) -> bool {
    let mut is_logged = false;
    while let Err(problem @ Error::OtherSchema { .. }) = check() {
        if !is_logged {
            ErrorReport::from(problem).report(PgLogLevel::LOG);
            is_logged = true;
        }
        let doing = c"waiting for a schema of this build";
        // SAFETY: outside of a transaction, with a string that is copied.
        unsafe { pg_sys::pgstat_report_activity(pg_sys::BackendState::STATE_IDLE, doing.as_ptr()) };
        signals::wait(Some(LOOK_AGAIN), None);
        if shmem::look(database).leave {
            return false;
        }
    }
    true
}
