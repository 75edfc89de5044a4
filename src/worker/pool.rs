//! Threads that take tasks in turn and say when they are done. This file knows neither Postgres nor what a task is.
//!
//! Every thread has all signals blocked, so that handlers of the server run on its main thread only. Nobody waits for a
//! thread: what it has done arrives by a channel and one byte on a socket.

use std::collections::VecDeque;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a thread without a task stays; the last one stays as long as the pool.
const IDLE: Duration = Duration::from_secs(5);

/// Rings once, however many have something to say, until somebody has listened.
pub(super) struct Bell {
    mouth: UnixStream,
    is_rung: AtomicBool,
}

impl Bell {
    pub(super) fn new(mouth: UnixStream) -> Self {
        Bell { mouth, is_rung: AtomicBool::new(false) }
    }

    /// Somebody listens: what is said from now on rings again.
    pub(super) fn heard(&self) {
        self.is_rung.store(false, Ordering::SeqCst);
    }

    fn ring(&self) {
        if !self.is_rung.swap(true, Ordering::SeqCst) {
            // A full socket rings already, and one that is closed has nobody to hear it.
            let _ = (&self.mouth).write(&[1]);
        }
    }
}

/// What the threads of a pool are like, and what they do.
pub(super) struct Manner<Task, Done> {
    pub(super) most: usize,
    pub(super) stack: usize,
    /// How far its threads stand back behind the main thread, as `nice` counts it.
    pub(super) courtesy: i32,
    pub(super) run: fn(Task) -> Done,
    /// What becomes of a task when there is no thread and none can be started, or that is withdrawn before one has
    /// taken it.
    pub(super) refuse: fn(Task, &std::io::Error) -> Done,
}

/// As many threads as there are tasks, up to the most. To start a thread takes as long as to open a call: whoever gives
/// tasks starts one if nobody is idle, and the threads start each other. Where none can be started, tasks wait for
/// those that are there.
pub(super) struct Pool<Task, Done>(Arc<Crew<Task, Done>>);

struct Crew<Task, Done> {
    manner: Manner<Task, Done>,
    state: Mutex<State<Task>>,
    changed: Condvar,
    sender: Sender<Done>,
    bell: Arc<Bell>,
}

struct State<Task> {
    /// Those that no thread has taken yet.
    tasks: VecDeque<Task>,
    threads: usize,
    /// Threads that are on their way to take a task, or wait for one.
    idle: usize,
    is_closed: bool,
}

type Guard<'a, Task> = MutexGuard<'a, State<Task>>;

impl<Task: Send + 'static, Done: Send + 'static> Pool<Task, Done> {
    pub(super) fn new(manner: Manner<Task, Done>, sender: Sender<Done>, bell: Arc<Bell>) -> Self {
        let state = Mutex::new(State { tasks: VecDeque::new(), threads: 0, idle: 0, is_closed: false });
        Pool(Arc::new(Crew { manner, state, changed: Condvar::new(), sender, bell }))
    }

    pub(super) fn give(&self, task: Task) {
        let mut state = lock(&self.0.state);
        state.tasks.push_back(task);
        if state.idle > 0 {
            self.0.changed.notify_one();
        } else if state.threads < self.0.manner.most
            && let (mut state, Err(problem)) = self.0.start_one(state)
            && state.threads == 0
            && let Some(task) = state.tasks.pop_back()
        {
            drop(state);
            self.0.report((self.0.manner.refuse)(task, &problem));
        }
    }

    /// Tries again to start a thread where tasks wait for one.
    pub(super) fn tend(&self) {
        let state = lock(&self.0.state);
        if state.tasks.len() > state.idle && state.threads < self.0.manner.most {
            drop(self.0.start_one(state));
        }
    }

    /// Whether tasks wait for a thread.
    pub(super) fn is_short_of_threads(&self) -> bool {
        let state = lock(&self.0.state);
        state.tasks.len() > state.idle
    }

    /// Refuses a task if no thread has taken it yet.
    pub(super) fn withdraw(&self, which: impl Fn(&Task) -> bool) {
        let mut state = lock(&self.0.state);
        let task = state.tasks.iter().position(which).and_then(|at| state.tasks.remove(at));
        drop(state);
        if let Some(task) = task {
            let stopped = std::io::Error::other("it was stopped before there was one");
            self.0.report((self.0.manner.refuse)(task, &stopped));
        }
    }

    pub(super) fn close(&self) {
        let mut state = lock(&self.0.state);
        state.is_closed = true;
        state.tasks.clear();
        self.0.changed.notify_all();
    }
}

impl<Task: Send + 'static, Done: Send + 'static> Crew<Task, Done> {
    /// Starts a thread if that is possible. Nobody waits meanwhile for the state.
    fn start_one<'a>(self: &'a Arc<Self>, mut state: Guard<'a, Task>) -> (Guard<'a, Task>, std::io::Result<()>) {
        state.threads += 1;
        state.idle += 1;
        drop(state);
        let crew = Arc::clone(self);
        let builder = std::thread::Builder::new().name("dialectic call".into()).stack_size(self.manner.stack);
        let started = with_signals_blocked(|| builder.spawn(move || crew.work()));
        let mut state = lock(&self.state);
        if started.is_err() {
            state.threads -= 1;
            state.idle -= 1;
        }
        (state, started.map(drop))
    }

    /// The life of a thread: it sees to it that one is there or on its way for every task, as far as that is possible,
    /// then takes one.
    fn work(self: &Arc<Self>) {
        stand_back(self.manner.courtesy);
        let mut state = lock(&self.state);
        loop {
            while state.tasks.len() > state.idle && state.threads < self.manner.most {
                let (after, started) = self.start_one(state);
                state = after;
                if started.is_err() {
                    break;
                }
            }
            if let Some(task) = state.tasks.pop_front() {
                state.idle -= 1;
                drop(state);
                self.report((self.manner.run)(task));
                state = lock(&self.state);
                state.idle += 1;
                continue;
            }
            let (rested, is_in_vain) = self.rest(state);
            state = rested;
            if state.is_closed || is_in_vain && state.threads > 1 {
                state.threads -= 1;
                state.idle -= 1;
                return;
            }
        }
    }

    /// Waits for a task; says whether that was long enough.
    fn rest<'a>(&self, state: Guard<'a, Task>) -> (Guard<'a, Task>, bool) {
        if state.is_closed {
            return (state, true);
        }
        if state.threads == 1 {
            return (self.changed.wait(state).unwrap_or_else(PoisonError::into_inner), false);
        }
        let (state, waited) = self.changed.wait_timeout(state, IDLE).unwrap_or_else(PoisonError::into_inner);
        let is_in_vain = waited.timed_out() && state.tasks.is_empty();
        (state, is_in_vain)
    }

    fn report(&self, done: Done) {
        // The claimer may be gone; then nobody wants to know.
        let _ = self.sender.send(done);
        self.bell.ring();
    }
}

/// The calling thread stands back behind the others: it gets less, and it interrupts nobody when it wakes.
fn stand_back(courtesy: i32) {
    if courtesy > 0 {
        let parameters = libc::sched_param { sched_priority: 0 };
        // SAFETY: on Linux both are about the calling thread alone, and to stand back needs no right; where it fails
        // nothing changes.
        unsafe {
            libc::sched_setscheduler(0, libc::SCHED_BATCH, &parameters);
            libc::setpriority(libc::PRIO_PROCESS, 0, courtesy);
        }
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `spawn` with all signals blocked: the thread it starts inherits the mask and never runs a handler of the
/// server.
pub(crate) fn with_signals_blocked<T>(spawn: impl FnOnce() -> T) -> T {
    // SAFETY: both sets are initialised by the calls that fill them, and the old mask is restored whatever spawn
    // returns.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let result = spawn();
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        result
    }
}
