//! The slots in shared memory: which database wants a worker, who serves it, and what it should look at.
//!
//! A slot a database, taken when it first asks and given up when it has no use for a worker. Everything in shared
//! memory is changed under one lock that is held for nanoseconds. Nothing here raises an error, because commits notify
//! after they can no longer abort. Shared memory is lost with the server: whoever starts looks at the
//! tables, not at what was said here.

use crate::worker::hold_up::ShownHoldUp;
use crate::worker::in_flight::KINDS;
use crate::worker::waiters::Waiters;
use dialectic_core::histogram::Histogram;
use pgrx::pg_sys;
use std::sync::atomic::{AtomicPtr, Ordering};

/// How many databases of a server can be served.
pub(crate) const SLOTS: usize = 256;
const NAME: &std::ffi::CStr = c"pg_dialectic";

/// Where a database stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Asks for a worker; the launcher starts one.
    Wanted,
    /// The server was asked for a worker, which has not attached yet.
    Starting,
    /// Has its worker.
    Served,
    /// Its worker ended with an error; the launcher starts another after a rest.
    Fallen,
    /// Wants one, but the server has no process left for it.
    Refused,
    /// Somebody is dropping the database: no worker until it is known how that ends.
    Held,
}

/// What a worker is told when it looks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Notice {
    /// Jobs became ready.
    pub(crate) work: bool,
    /// Claims were taken away from whoever held them.
    pub(crate) revoked: bool,
    /// It is to go.
    pub(crate) leave: bool,
}

#[derive(Clone, Copy)]
struct Slot {
    database: u32,
    state: State,
    latch: *mut pg_sys::Latch,
    notice: Notice,
    /// No job is ready before this position, except those told of since the worker last asked.
    floor: i64,
    /// The lowest position told of since then.
    told: i64,
    /// How long the cycles of the worker took.
    turns: Histogram,
    /// How many jobs the worker has in flight, by place.
    in_flight: [u32; KINDS],
    /// What errors hold up, and how much more of it there is than fits here.
    hold_ups: [ShownHoldUp; SHOWN_HOLD_UPS],
    hold_up_count: usize,
}

/// How many hold-ups of a database are shown.
pub(crate) const SHOWN_HOLD_UPS: usize = 32;
const EMPTY: Slot = Slot {
    database: 0,
    state: State::Wanted,
    latch: std::ptr::null_mut(),
    notice: Notice { work: false, revoked: false, leave: false },
    floor: 0,
    told: i64::MAX,
    turns: Histogram::EMPTY,
    in_flight: [0; KINDS],
    hold_ups: [ShownHoldUp::NONE; SHOWN_HOLD_UPS],
    hold_up_count: 0,
};

pub(super) struct Shmem {
    launcher: *mut pg_sys::Latch,
    slots: [Slot; SLOTS],
    pub(super) waiters: Waiters,
}

static SHMEM: AtomicPtr<Shmem> = AtomicPtr::new(std::ptr::null_mut());
static LOCK: AtomicPtr<pg_sys::LWLock> = AtomicPtr::new(std::ptr::null_mut());

/// Asks the server for the memory; called where the library is preloaded.
pub(crate) fn request() {
    // SAFETY: called by the postmaster in its request hook, with constants.
    unsafe {
        pg_sys::RequestAddinShmemSpace(size_of::<Shmem>());
        pg_sys::RequestNamedLWLockTranche(NAME.as_ptr(), 1);
    }
}

/// Sets shared memory up, empty. The server does this again after a crash.
pub(crate) fn set_up() {
    // SAFETY: called by the postmaster in its startup hook, before it has any child; children inherit both addresses.
    unsafe {
        let mut found = false;
        let shmem: *mut Shmem = pg_sys::ShmemInitStruct(NAME.as_ptr(), size_of::<Shmem>(), &mut found).cast();
        shmem.write(Shmem { launcher: std::ptr::null_mut(), slots: [EMPTY; SLOTS], waiters: Waiters::empty() });
        LOCK.store(&raw mut (*pg_sys::GetNamedLWLockTranche(NAME.as_ptr())).lock, Ordering::Relaxed);
        SHMEM.store(shmem, Ordering::Relaxed);
    }
}

/// Whether shared memory is set up: only where the library is preloaded.
pub(crate) fn is_set_up() -> bool {
    !SHMEM.load(Ordering::Relaxed).is_null()
}

/// The table of waiters, for what it lets read without the lock.
pub(super) fn waiters() -> Option<&'static Waiters> {
    let shmem = SHMEM.load(Ordering::Relaxed);
    // SAFETY: shared memory lives as long as the process; other processes change the table under the lock.
    (!shmem.is_null()).then(|| unsafe { &(*shmem).waiters })
}

pub(super) fn with<T>(work: impl FnOnce(&mut Shmem) -> T) -> Option<T> {
    let (shmem, lock) = (SHMEM.load(Ordering::Relaxed), LOCK.load(Ordering::Relaxed));
    if shmem.is_null() {
        return None;
    }
    // SAFETY: both were set up by the postmaster; the lock makes this the only user of the slots, and no closure here
    // panics.
    unsafe {
        pg_sys::LWLockAcquire(lock, pg_sys::LWLockMode::LW_EXCLUSIVE);
        let result = work(&mut *shmem);
        pg_sys::LWLockRelease(lock);
        Some(result)
    }
}

impl Shmem {
    fn slot(&mut self, database: u32) -> Option<&mut Slot> {
        self.slots.iter_mut().find(|slot| slot.database == database)
    }

    fn seat_or_new(&mut self, database: u32) -> Option<&mut Slot> {
        let at = self
            .slots
            .iter()
            .position(|slot| slot.database == database)
            .or_else(|| self.slots.iter().position(|slot| slot.database == 0))?;
        let slot = &mut self.slots[at];
        if slot.database == 0 {
            *slot = Slot { database, ..EMPTY };
        }
        Some(slot)
    }

    fn call_launcher(&self) {
        set_latch(self.launcher);
    }
}

/// Latches are in shared memory, and their owners take them off the shmem before they go.
pub(super) fn set_latch(latch: *mut pg_sys::Latch) {
    if !latch.is_null() {
        // SAFETY: as above; the caller holds the lock of the shmem.
        unsafe { pg_sys::SetLatch(latch) };
    }
}

/// Tells the worker of a database that there is something to look at, and from which position on; one that has none yet
/// gets one.
pub(crate) fn notify(database: u32, first_position: i64, work: bool, revoked: bool) {
    with(|shmem| {
        let Some(slot) = shmem.seat_or_new(database) else {
            return;
        };
        slot.told = slot.told.min(first_position);
        let told = (slot.notice.work || !work) && (slot.notice.revoked || !revoked);
        slot.notice.work |= work;
        slot.notice.revoked |= revoked;
        match slot.state {
            State::Served if !told => set_latch(slot.latch),
            State::Wanted | State::Fallen | State::Refused => shmem.call_launcher(),
            _ => {}
        }
    });
}

/// Somebody drops the database: its worker is to go, and none comes until it is known how that ends.
pub(crate) fn ask_to_leave(database: u32) {
    with(|shmem| {
        if let Some(slot) = shmem.slot(database) {
            slot.notice.leave = true;
            if slot.latch.is_null() {
                slot.state = State::Held;
            }
            set_latch(slot.latch);
        }
    });
}

/// The drop of a database that a worker was asked to leave has failed: it wants its worker back.
pub(crate) fn ask_to_return(database: u32) {
    with(|shmem| {
        if let Some(slot) = shmem.slot(database) {
            slot.notice.leave = false;
            if slot.state == State::Held {
                slot.state = State::Wanted;
            }
        }
        shmem.call_launcher();
    });
}

/// Gives up the slot of a database that has no use for a worker.
pub(crate) fn give_up(database: u32) {
    with(|shmem| {
        if let Some(slot) = shmem.slot(database) {
            *slot = EMPTY;
        }
    });
}

/// As `give_up`, by a worker that found no extension; one that was told of work since it last looked found it too
/// early.
pub(crate) fn give_up_unless_told(database: u32) {
    with(|shmem| {
        if let Some(slot) = shmem.slot(database) {
            if slot.notice.work {
                slot.latch = std::ptr::null_mut();
                slot.state = State::Wanted;
            } else {
                *slot = EMPTY;
            }
        }
        shmem.call_launcher();
    });
}

/// The worker of a database sits down; false when the slot is taken.
pub(crate) fn attach(database: u32, latch: *mut pg_sys::Latch) -> bool {
    with(|shmem| match shmem.seat_or_new(database) {
        Some(slot) if slot.latch.is_null() => {
            slot.state = State::Served;
            slot.latch = latch;
            slot.notice.work = true;
            slot.floor = 0;
            slot.turns = Histogram::EMPTY;
            slot.hold_up_count = 0;
            shmem.call_launcher();
            true
        }
        _ => false,
    })
    .unwrap_or(false)
}

/// The worker of a database detaches, on purpose or not; the launcher decides when another one starts.
pub(crate) fn detach(database: u32, latch: *mut pg_sys::Latch, is_on_purpose: bool) {
    with(|shmem| {
        if let Some(slot) = shmem.slot(database).filter(|slot| slot.latch == latch) {
            slot.latch = std::ptr::null_mut();
            slot.in_flight = [0; KINDS];
            slot.hold_up_count = 0;
            slot.state = match (slot.notice.leave, is_on_purpose) {
                (true, _) => State::Held,
                (false, true) => State::Wanted,
                (false, false) => State::Fallen,
            };
        }
        shmem.call_launcher();
    });
}

/// What the worker of a database has been told since it last looked.
pub(crate) fn look(database: u32) -> Notice {
    with(|shmem| {
        shmem.slot(database).map(|slot| {
            let notice = slot.notice;
            slot.notice.work = false;
            slot.notice.revoked = false;
            notice
        })
    })
    .flatten()
    .unwrap_or(Notice { work: true, revoked: true, leave: true })
}

/// The position from which a claim searches. Only the worker raises the floor; it takes in what it was told of.
pub(crate) fn floor(database: u32, is_worker: bool) -> i64 {
    with(|shmem| {
        shmem.slot(database).map(|slot| {
            let floor = slot.floor.min(slot.told);
            if is_worker {
                (slot.floor, slot.told) = (floor, i64::MAX);
            }
            floor
        })
    })
    .flatten()
    .unwrap_or(0)
}

/// The worker has seen, and committed, that nothing stands before this position.
pub(crate) fn raise_floor(database: u32, floor: i64) {
    with(|shmem| {
        if let Some(slot) = shmem.slot(database) {
            slot.floor = floor;
        }
    });
}

/// A cycle of the worker took this long, and left this many jobs in each place.
pub(crate) fn count_cycle(database: u32, micros: u64, in_flight: [u32; KINDS]) {
    with(|shmem| {
        if let Some(slot) = shmem.slot(database) {
            slot.turns.count(micros);
            slot.in_flight = in_flight;
        }
    });
}

/// Shows what errors hold up in a database; an empty list when nothing is held up any more.
pub(crate) fn show_hold_ups(database: u32, hold_ups: &[ShownHoldUp]) {
    with(|shmem| {
        if let Some(slot) = shmem.slot(database) {
            slot.hold_up_count = hold_ups.len();
            for (shown, hold_up) in slot.hold_ups.iter_mut().zip(hold_ups) {
                *shown = *hold_up;
            }
        }
    });
}

/// What errors hold up in a database, and how many hold-ups there are in all.
pub(crate) fn hold_ups(database: u32) -> (Vec<ShownHoldUp>, usize) {
    let mut shown = Vec::with_capacity(SHOWN_HOLD_UPS);
    let count = with(|shmem| {
        shmem.slot(database).map_or(0, |slot| {
            shown.extend_from_slice(&slot.hold_ups[..slot.hold_up_count.min(SHOWN_HOLD_UPS)]);
            slot.hold_up_count
        })
    });
    (shown, count.unwrap_or(0))
}

/// How many jobs the worker of a database has in flight, by place.
pub(crate) fn in_flight(database: u32) -> Option<[u32; KINDS]> {
    with(|shmem| shmem.slot(database).filter(|slot| !slot.latch.is_null()).map(|slot| slot.in_flight)).flatten()
}

/// How long the cycles of the worker took since it attached.
pub(crate) fn turns(database: u32) -> Option<Histogram> {
    with(|shmem| shmem.slot(database).map(|slot| slot.turns)).flatten()
}

/// Where a database stands; none when it has no slot.
pub(crate) fn state(database: u32) -> Option<State> {
    with(|shmem| shmem.slot(database).map(|slot| slot.state)).flatten()
}

/// Sets the state of a database, unless its worker has attached meanwhile.
pub(crate) fn set_state(database: u32, state: State) {
    with(|shmem| {
        if let Some(slot) = shmem.slot(database).filter(|slot| slot.latch.is_null() && slot.state != State::Held) {
            slot.state = state;
        }
    });
}

/// Every database with a slot.
pub(crate) fn databases() -> Vec<(u32, State)> {
    let mut taken = Vec::with_capacity(SLOTS);
    with(|shmem| taken.extend(shmem.slots.iter().filter(|s| s.database != 0).map(|s| (s.database, s.state))));
    taken
}

/// The launcher says where it can be called, or that it has gone.
pub(crate) fn set_launcher(latch: *mut pg_sys::Latch) {
    with(|shmem| shmem.launcher = latch);
}
