//! The notice board in shared memory: which database wants a worker, who serves it, and what it should look at.
//!
//! A seat a database, taken when it first asks and given up when it has no use for a worker. Everything on the board is
//! changed under one lock that is held for nanoseconds; nothing here can raise an error, for commits pin up their
//! notices after they can no longer be undone. The board is lost with the server: whoever starts looks at the tables,
//! not at what was said here.

use crate::worker::hold_up::ShownHoldUp;
use crate::worker::in_flight::KINDS;
use dialectic_core::histogram::Histogram;
use pgrx::pg_sys;
use std::sync::atomic::{AtomicPtr, Ordering};

/// How many databases of a server can be served.
pub(crate) const SEATS: usize = 256;
const NAME: &std::ffi::CStr = c"pg_dialectic";

/// Where a database stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Asks for a worker; the launcher starts one.
    Wanted,
    /// A worker was asked of the server and has not sat down yet.
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
struct Seat {
    database: u32,
    state: State,
    latch: *mut pg_sys::Latch,
    notice: Notice,
    /// No job stands in line before this turn, but for those told of since the worker last asked.
    floor: i64,
    /// The lowest turn told of since then.
    told: i64,
    /// How long the turns of the worker took.
    turns: Histogram,
    /// How many jobs the worker has in flight, by place.
    in_flight: [u32; KINDS],
    /// What errors hold up, and how much more of it there is than fits here.
    hold_ups: [ShownHoldUp; SHOWN_HOLD_UPS],
    hold_up_count: usize,
}

/// How many hold-ups of a database are shown.
pub(crate) const SHOWN_HOLD_UPS: usize = 32;
const EMPTY: Seat = Seat {
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

struct Board {
    launcher: *mut pg_sys::Latch,
    seats: [Seat; SEATS],
}

static BOARD: AtomicPtr<Board> = AtomicPtr::new(std::ptr::null_mut());
static LOCK: AtomicPtr<pg_sys::LWLock> = AtomicPtr::new(std::ptr::null_mut());

/// Asks the server for the memory; called where the library is preloaded.
pub(crate) fn request() {
    // SAFETY: called by the postmaster in its request hook, with constants.
    unsafe {
        pg_sys::RequestAddinShmemSpace(size_of::<Board>());
        pg_sys::RequestNamedLWLockTranche(NAME.as_ptr(), 1);
    }
}

/// Sets the board up, empty. The server does this again after a crash.
pub(crate) fn set_up() {
    // SAFETY: called by the postmaster in its startup hook, before it has any child; children inherit both addresses.
    unsafe {
        let mut found = false;
        let board: *mut Board = pg_sys::ShmemInitStruct(NAME.as_ptr(), size_of::<Board>(), &mut found).cast();
        board.write(Board { launcher: std::ptr::null_mut(), seats: [EMPTY; SEATS] });
        LOCK.store(&raw mut (*pg_sys::GetNamedLWLockTranche(NAME.as_ptr())).lock, Ordering::Relaxed);
        BOARD.store(board, Ordering::Relaxed);
    }
}

/// Whether there is a board: only where the library is preloaded.
pub(crate) fn is_set_up() -> bool {
    !BOARD.load(Ordering::Relaxed).is_null()
}

fn with<T>(work: impl FnOnce(&mut Board) -> T) -> Option<T> {
    let (board, lock) = (BOARD.load(Ordering::Relaxed), LOCK.load(Ordering::Relaxed));
    if board.is_null() {
        return None;
    }
    // SAFETY: both were set up by the postmaster; the lock makes this the only user of the board, and no closure here
    // panics.
    unsafe {
        pg_sys::LWLockAcquire(lock, pg_sys::LWLockMode::LW_EXCLUSIVE);
        let result = work(&mut *board);
        pg_sys::LWLockRelease(lock);
        Some(result)
    }
}

impl Board {
    fn seat(&mut self, database: u32) -> Option<&mut Seat> {
        self.seats.iter_mut().find(|seat| seat.database == database)
    }

    fn seat_or_new(&mut self, database: u32) -> Option<&mut Seat> {
        let at = self
            .seats
            .iter()
            .position(|seat| seat.database == database)
            .or_else(|| self.seats.iter().position(|seat| seat.database == 0))?;
        let seat = &mut self.seats[at];
        if seat.database == 0 {
            *seat = Seat { database, ..EMPTY };
        }
        Some(seat)
    }

    fn call_launcher(&self) {
        ring(self.launcher);
    }
}

/// Latches are in shared memory, and their owners take them off the board before they go.
fn ring(latch: *mut pg_sys::Latch) {
    if !latch.is_null() {
        // SAFETY: as above; the caller holds the lock of the board.
        unsafe { pg_sys::SetLatch(latch) };
    }
}

/// Tells the worker of a database that there is something to look at, and from which turn on; one that has none yet
/// gets one.
pub(crate) fn pin(database: u32, first_turn: i64, work: bool, revoked: bool) {
    with(|board| {
        let Some(seat) = board.seat_or_new(database) else {
            return;
        };
        seat.told = seat.told.min(first_turn);
        let told = (seat.notice.work || !work) && (seat.notice.revoked || !revoked);
        seat.notice.work |= work;
        seat.notice.revoked |= revoked;
        match seat.state {
            State::Served if !told => ring(seat.latch),
            State::Wanted | State::Fallen | State::Refused => board.call_launcher(),
            _ => {}
        }
    });
}

/// Somebody drops the database: its worker is to go, and none comes until it is known how that ends.
pub(crate) fn ask_to_leave(database: u32) {
    with(|board| {
        if let Some(seat) = board.seat(database) {
            seat.notice.leave = true;
            if seat.latch.is_null() {
                seat.state = State::Held;
            }
            ring(seat.latch);
        }
    });
}

/// The drop of a database that a worker was asked to leave has failed: it wants its worker back.
pub(crate) fn ask_to_return(database: u32) {
    with(|board| {
        if let Some(seat) = board.seat(database) {
            seat.notice.leave = false;
            if seat.state == State::Held {
                seat.state = State::Wanted;
            }
        }
        board.call_launcher();
    });
}

/// Gives up the seat of a database that has no use for a worker.
pub(crate) fn give_up(database: u32) {
    with(|board| {
        if let Some(seat) = board.seat(database) {
            *seat = EMPTY;
        }
    });
}

/// As `give_up`, by a worker that found no extension; one that was told of work since it last looked found it too
/// early.
pub(crate) fn give_up_unless_told(database: u32) {
    with(|board| {
        if let Some(seat) = board.seat(database) {
            if seat.notice.work {
                seat.latch = std::ptr::null_mut();
                seat.state = State::Wanted;
            } else {
                *seat = EMPTY;
            }
        }
        board.call_launcher();
    });
}

/// The worker of a database sits down; false when the seat is taken.
pub(crate) fn sit_down(database: u32, latch: *mut pg_sys::Latch) -> bool {
    with(|board| match board.seat_or_new(database) {
        Some(seat) if seat.latch.is_null() => {
            seat.state = State::Served;
            seat.latch = latch;
            seat.notice.work = true;
            seat.floor = 0;
            seat.turns = Histogram::EMPTY;
            seat.hold_up_count = 0;
            board.call_launcher();
            true
        }
        _ => false,
    })
    .unwrap_or(false)
}

/// The worker of a database gets up, on purpose or not; the launcher decides when it comes back.
pub(crate) fn stand_up(database: u32, latch: *mut pg_sys::Latch, is_on_purpose: bool) {
    with(|board| {
        if let Some(seat) = board.seat(database).filter(|seat| seat.latch == latch) {
            seat.latch = std::ptr::null_mut();
            seat.in_flight = [0; KINDS];
            seat.hold_up_count = 0;
            seat.state = match (seat.notice.leave, is_on_purpose) {
                (true, _) => State::Held,
                (false, true) => State::Wanted,
                (false, false) => State::Fallen,
            };
        }
        board.call_launcher();
    });
}

/// What the worker of a database has been told since it last looked.
pub(crate) fn look(database: u32) -> Notice {
    with(|board| {
        board.seat(database).map(|seat| {
            let notice = seat.notice;
            seat.notice.work = false;
            seat.notice.revoked = false;
            notice
        })
    })
    .flatten()
    .unwrap_or(Notice { work: true, revoked: true, leave: true })
}

/// Where in line a claim may begin. The worker, who alone raises the floor, takes in what it was told of.
pub(crate) fn floor(database: u32, is_worker: bool) -> i64 {
    with(|board| {
        board.seat(database).map(|seat| {
            let floor = seat.floor.min(seat.told);
            if is_worker {
                (seat.floor, seat.told) = (floor, i64::MAX);
            }
            floor
        })
    })
    .flatten()
    .unwrap_or(0)
}

/// The worker has seen, and committed, that nothing stands before this turn.
pub(crate) fn raise_floor(database: u32, floor: i64) {
    with(|board| {
        if let Some(seat) = board.seat(database) {
            seat.floor = floor;
        }
    });
}

/// A cycle of the worker took this long, and left this many jobs in each place.
pub(crate) fn count_cycle(database: u32, micros: u64, in_flight: [u32; KINDS]) {
    with(|board| {
        if let Some(seat) = board.seat(database) {
            seat.turns.count(micros);
            seat.in_flight = in_flight;
        }
    });
}

/// Shows what errors hold up in a database; an empty list when nothing is held up any more.
pub(crate) fn show_hold_ups(database: u32, hold_ups: &[ShownHoldUp]) {
    with(|board| {
        if let Some(seat) = board.seat(database) {
            seat.hold_up_count = hold_ups.len();
            for (shown, hold_up) in seat.hold_ups.iter_mut().zip(hold_ups) {
                *shown = *hold_up;
            }
        }
    });
}

/// What errors hold up in a database, and how many hold-ups there are in all.
pub(crate) fn hold_ups(database: u32) -> (Vec<ShownHoldUp>, usize) {
    let mut shown = Vec::with_capacity(SHOWN_HOLD_UPS);
    let count = with(|board| {
        board.seat(database).map_or(0, |seat| {
            shown.extend_from_slice(&seat.hold_ups[..seat.hold_up_count.min(SHOWN_HOLD_UPS)]);
            seat.hold_up_count
        })
    });
    (shown, count.unwrap_or(0))
}

/// How many jobs the worker of a database has in flight, by place.
pub(crate) fn in_flight(database: u32) -> Option<[u32; KINDS]> {
    with(|board| board.seat(database).filter(|seat| !seat.latch.is_null()).map(|seat| seat.in_flight)).flatten()
}

/// How long the turns of the worker took since it sat down.
pub(crate) fn turns(database: u32) -> Option<Histogram> {
    with(|board| board.seat(database).map(|seat| seat.turns)).flatten()
}

/// Where a database stands; none when it has no seat.
pub(crate) fn state(database: u32) -> Option<State> {
    with(|board| board.seat(database).map(|seat| seat.state)).flatten()
}

/// Says where a database stands now, unless its worker has sat down meanwhile.
pub(crate) fn set_state(database: u32, state: State) {
    with(|board| {
        if let Some(seat) = board.seat(database).filter(|seat| seat.latch.is_null() && seat.state != State::Held) {
            seat.state = state;
        }
    });
}

/// Every database with a seat.
pub(crate) fn databases() -> Vec<(u32, State)> {
    let mut taken = Vec::with_capacity(SEATS);
    with(|board| taken.extend(board.seats.iter().filter(|s| s.database != 0).map(|s| (s.database, s.state))));
    taken
}

/// The launcher says where it can be called, or that it has gone.
pub(crate) fn set_launcher(latch: *mut pg_sys::Latch) {
    with(|board| board.launcher = latch);
}
