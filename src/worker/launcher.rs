//! The launcher: one process that gives every database with the extension its worker, and connects to none.
//!
//! It learns from shared memory which databases ask, and when the server starts it has each of them visited once, one
//! after the other; a visitor that finds the extension stays as the worker. It runs no SQL: of the catalogs it reads
//! pg_database alone. What a worker does is not decided here.

use crate::worker::shmem::{self, State};
use crate::worker::signals;
use pgrx::prelude::*;
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

/// How long a database whose worker fails is left alone, the first time; it doubles each time.
const FIRST_REST: Duration = Duration::from_millis(500);
const LONGEST_REST: Duration = Duration::from_secs(60);
/// A worker that lived this long did not fail to start.
const LIVED: Duration = Duration::from_secs(10);

/// Has the server start the launcher, as soon as it accepts writes: not on a standby, not while it is being upgraded.
pub(crate) fn register() {
    let mut launcher = described(c"pg_dialectic launcher", c"dialectic_launcher_main");
    launcher.bgw_restart_time = 1;
    // SAFETY: called from _PG_init while the postmaster loads the library.
    unsafe { pg_sys::RegisterBackgroundWorker(&mut launcher) };
}

fn described(name: &std::ffi::CStr, function: &std::ffi::CStr) -> pg_sys::BackgroundWorker {
    fn put(field: &mut [core::ffi::c_char], text: &std::ffi::CStr) {
        for (to, from) in field.iter_mut().zip(text.to_bytes_with_nul()) {
            *to = *from as core::ffi::c_char;
        }
    }
    let mut worker = pg_sys::BackgroundWorker {
        bgw_flags: (pg_sys::BGWORKER_SHMEM_ACCESS | pg_sys::BGWORKER_BACKEND_DATABASE_CONNECTION) as i32,
        bgw_start_time: pg_sys::BgWorkerStartTime::BgWorkerStart_RecoveryFinished,
        bgw_restart_time: pg_sys::BGW_NEVER_RESTART,
        ..Default::default()
    };
    put(&mut worker.bgw_name, name);
    put(&mut worker.bgw_type, name);
    put(&mut worker.bgw_library_name, c"pg_dialectic");
    put(&mut worker.bgw_function_name, function);
    worker
}

#[pg_guard]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn dialectic_launcher_main(_arg: pg_sys::Datum) {
    signals::settle();
    // SAFETY: connects to the shared catalogs only; the latch and the callback live as long as the process.
    unsafe {
        pg_sys::BackgroundWorkerInitializeConnection(std::ptr::null(), std::ptr::null(), 0);
        shmem::set_launcher(pg_sys::MyLatch);
        pg_sys::before_shmem_exit(Some(on_exit), pg_sys::Datum::from(0));
    }
    let mut launcher = Launcher { to_visit: connectable().into(), ..Launcher::default() };
    loop {
        let rest = launcher.look_after_all();
        signals::wait(rest, None);
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn on_exit(_code: core::ffi::c_int, _arg: pg_sys::Datum) {
    shmem::set_launcher(std::ptr::null_mut());
}

#[derive(Default)]
struct Launcher {
    /// Databases that have not been looked at since the server started.
    to_visit: VecDeque<u32>,
    visiting: Option<u32>,
    started: HashMap<u32, Started>,
}

struct Started {
    handle: *mut pg_sys::BackgroundWorkerHandle,
    at: Instant,
    failures: u32,
    not_before: Instant,
}

impl Launcher {
    /// Starts what is wanted; returns how long there is nothing to do.
    fn look_after_all(&mut self) -> Option<Duration> {
        let now = Instant::now();
        self.next_visit();
        let mut rest = None::<Duration>;
        let mut present: Option<Vec<u32>> = None;
        let databases = shmem::databases();
        self.started.retain(|database, started| {
            let is_there = databases.iter().any(|(there, _)| there == database);
            if !is_there {
                release(started.handle);
            }
            is_there
        });
        for (database, state) in databases {
            match state {
                State::Fallen => self.failed(database, now),
                State::Starting if self.has_stopped(database) => self.failed(database, now),
                State::Wanted | State::Refused => {}
                _ => continue,
            }
            if let Some(left) = self.started.get(&database).and_then(|s| s.not_before.checked_duration_since(now)) {
                rest = Some(rest.map_or(left, |rest| rest.min(left)));
                continue;
            }
            if !present.get_or_insert_with(connectable).contains(&database) {
                shmem::give_up(database);
                self.started.remove(&database);
                continue;
            }
            self.start(database, now);
            if shmem::state(database) == Some(State::Refused) {
                rest = Some(rest.map_or(FIRST_REST, |rest| rest.min(FIRST_REST)));
            }
        }
        rest
    }

    /// One database is visited at a time; the next when this one is served, or has no use for a worker.
    fn next_visit(&mut self) {
        while self.visiting.is_none_or(|database| {
            !matches!(shmem::state(database), Some(State::Wanted | State::Starting | State::Fallen | State::Refused))
                || self.started.get(&database).is_some_and(|started| started.failures > 0)
        }) {
            self.visiting = self.to_visit.pop_front();
            match self.visiting {
                Some(database) => shmem::notify(database, i64::MAX, true, false),
                None => return,
            }
        }
    }

    /// The worker of a database ended with an error; how soon it is replaced depends on how long it lived.
    fn failed(&mut self, database: u32, now: Instant) {
        if let Some(started) = self.started.get_mut(&database) {
            release(std::mem::replace(&mut started.handle, std::ptr::null_mut()));
            started.failures = if now.duration_since(started.at) > LIVED { 1 } else { (started.failures + 1).min(16) };
            started.not_before = now + LONGEST_REST.min(FIRST_REST * 2u32.pow(started.failures - 1));
        }
        shmem::set_state(database, State::Wanted);
    }

    fn has_stopped(&self, database: u32) -> bool {
        let Some(started) = self.started.get(&database).filter(|started| !started.handle.is_null()) else {
            // Asked for by a launcher before this one: the worker sits down by itself, or nobody comes.
            return !self.started.contains_key(&database);
        };
        let mut pid = 0;
        // SAFETY: the handle was given by the server and is released only together with its entry.
        unsafe { pg_sys::GetBackgroundWorkerPid(started.handle, &mut pid) == pg_sys::BgwHandleStatus::BGWH_STOPPED }
    }

    fn start(&mut self, database: u32, now: Instant) {
        let mut worker = described(c"pg_dialectic worker", c"dialectic_worker_main");
        worker.bgw_main_arg = pg_sys::Datum::from(database);
        // SAFETY: the pid is our own, the handle is kept in a context that lives as long as the process.
        let (accepted, handle) = unsafe {
            worker.bgw_notify_pid = pg_sys::MyProcPid;
            let mut handle = std::ptr::null_mut();
            let before = pg_sys::MemoryContextSwitchTo(pg_sys::TopMemoryContext);
            let accepted = pg_sys::RegisterDynamicBackgroundWorker(&mut worker, &mut handle);
            pg_sys::MemoryContextSwitchTo(before);
            (accepted, handle)
        };
        if accepted {
            let failures = self.started.get(&database).map_or(0, |started| started.failures);
            if let Some(before) = self.started.insert(database, Started { handle, at: now, failures, not_before: now })
            {
                release(before.handle);
            }
            shmem::set_state(database, State::Starting);
        } else {
            if shmem::state(database) != Some(State::Refused) {
                log!(
                    "pg_dialectic: no process is left for the worker of database {database}; max_worker_processes is \
                     too low"
                );
            }
            shmem::set_state(database, State::Refused);
        }
    }
}

fn release(handle: *mut pg_sys::BackgroundWorkerHandle) {
    if !handle.is_null() {
        // SAFETY: allocated by the server for us.
        unsafe { pg_sys::pfree(handle.cast()) };
    }
}

/// The databases that may be connected to, templates left out: a connection there would be in the way of CREATE
/// DATABASE.
fn connectable() -> Vec<u32> {
    let mut found = Vec::new();
    // SAFETY: a scan of one shared catalog in a transaction of its own, as the launcher of autovacuum does it.
    unsafe {
        pg_sys::StartTransactionCommand();
        pg_sys::GetTransactionSnapshot();
        let relation = pg_sys::table_open(pg_sys::DatabaseRelationId, pg_sys::AccessShareLock as i32);
        let scan = pg_sys::table_beginscan_catalog(relation, 0, std::ptr::null_mut());
        loop {
            let tuple = pg_sys::heap_getnext(scan, pg_sys::ScanDirection::ForwardScanDirection);
            if tuple.is_null() {
                break;
            }
            let row: *const pg_sys::FormData_pg_database = pg_sys::GETSTRUCT(tuple).cast();
            // A limit of -2 marks a database whose drop was interrupted.
            if (*row).datallowconn && !(*row).datistemplate && (*row).datconnlimit != -2 {
                found.push((*row).oid.to_u32());
            }
        }
        pg_sys::table_endscan(scan);
        pg_sys::table_close(relation, pg_sys::AccessShareLock as i32);
        pg_sys::CommitTransactionCommand();
    }
    found
}
