//! Daily maintenance by the worker: the batches of `maintain()`, one transaction each, between cycles of the engine.
//!
//! When it is due the database decides, which stores the last run: a restart neither skips a run nor repeats it. An
//! error ends the run, never the worker; the next attempt comes after a while.

use crate::api::clock;
use crate::error::Problem;
use crate::store::maintenance;
use crate::worker::engine::Host;
use pgrx::prelude::*;
use std::time::Duration;

/// How long the worker waits before it asks again whether maintenance is due, after an error or while it is switched
/// off.
const RETRY_INTERVAL: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86400);

/// Where the worker is with maintenance.
pub(crate) enum Maintenance {
    /// The database is asked at this moment of the clock of SQL, in microseconds.
    Asks { at: i64 },
    /// It runs, batch by batch.
    Runs,
}

impl Maintenance {
    /// The database is asked at once.
    pub(crate) fn new() -> Self {
        Maintenance::Asks { at: i64::MIN }
    }

    /// Does one transaction of it where it is due; returns how long there is nothing to do.
    pub(crate) fn step(&mut self, host: &mut impl Host) -> Duration {
        match self.advance(host) {
            Ok(rest) => rest,
            Err(problem) => {
                log!("pg_dialectic worker: maintenance failed and is tried again in an hour: {}", problem.message);
                self.ask_after(RETRY_INTERVAL)
            }
        }
    }

    fn advance(&mut self, host: &mut impl Host) -> Result<Duration, Problem> {
        match self {
            Maintenance::Asks { at } => {
                let rest = at.saturating_sub(clock::now_micros());
                if rest > 0 {
                    return Ok(Duration::from_micros(rest.unsigned_abs()));
                }
                Ok(match host.transaction(maintenance::due_in)? {
                    // Whatever wakes the worker may have switched it on.
                    None => RETRY_INTERVAL,
                    Some(seconds) if seconds > 0.0 => self.ask_after(Duration::from_secs_f64(seconds.min(1e6))),
                    Some(_) => {
                        *self = Maintenance::Runs;
                        Duration::ZERO
                    }
                })
            }
            Maintenance::Runs => {
                if host.transaction(maintenance::batch)? {
                    return Ok(Duration::ZERO);
                }
                host.transaction(maintenance::end)?;
                Ok(self.ask_after(DAY))
            }
        }
    }

    fn ask_after(&mut self, rest: Duration) -> Duration {
        let micros = i64::try_from(rest.as_micros()).unwrap_or(i64::MAX);
        *self = Maintenance::Asks { at: clock::now_micros().saturating_add(micros) };
        rest
    }
}
