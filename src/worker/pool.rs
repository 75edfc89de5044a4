//! Threads that take tasks in turn and say when they are done. This file knows neither Postgres nor what a task is.
//!
//! Every thread has all signals blocked, so that handlers of the server run on its main thread only. Nobody waits for a thread:
//! what it has done arrives by a channel and one byte on a socket.

use std::collections::VecDeque;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a thread without a task stays.
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

/// As many threads as there are tasks, up to the most.
pub(super) struct Pool<Task, Done> {
    pub(super) most: usize,
    pub(super) stack: usize,
    /// How far its threads stand back behind the main thread, as `nice` counts it.
    pub(super) courtesy: i32,
    pub(super) run: fn(Task) -> Done,
    pub(super) line: Arc<Line<Task>>,
    pub(super) sender: Sender<Done>,
    pub(super) bell: Arc<Bell>,
}

/// The tasks that no thread has taken yet.
pub(super) struct Line<Task> {
    state: Mutex<State<Task>>,
    changed: Condvar,
}

struct State<Task> {
    tasks: VecDeque<Task>,
    threads: usize,
    idle: usize,
    is_closed: bool,
}

impl<Task> Default for Line<Task> {
    fn default() -> Self {
        let state = State { tasks: VecDeque::new(), threads: 0, idle: 0, is_closed: false };
        Line { state: Mutex::new(state), changed: Condvar::new() }
    }
}

impl<Task: Send + 'static, Done: Send + 'static> Pool<Task, Done> {
    pub(super) fn give(&self, task: Task) -> std::io::Result<()> {
        let mut state = lock(&self.line.state);
        state.tasks.push_back(task);
        if state.tasks.len() <= state.idle {
            self.line.changed.notify_one();
        } else if state.threads < self.most {
            if let Err(problem) = self.spawn() {
                state.tasks.pop_back();
                return Err(problem);
            }
            state.threads += 1;
        }
        Ok(())
    }

    fn spawn(&self) -> std::io::Result<()> {
        let (line, sender, bell, run) = (Arc::clone(&self.line), self.sender.clone(), Arc::clone(&self.bell), self.run);
        let courtesy = self.courtesy;
        let thread = move || {
            stand_back(courtesy);
            while let Some(task) = line.next() {
                // The claimer may be gone; then nobody wants to know.
                let _ = sender.send(run(task));
                bell.ring();
            }
        };
        let builder = std::thread::Builder::new().name("dialectic call".into()).stack_size(self.stack);
        with_signals_blocked(|| builder.spawn(thread)).map(drop)
    }

    pub(super) fn close(&self) {
        let mut state = lock(&self.line.state);
        state.is_closed = true;
        state.tasks.clear();
        self.line.changed.notify_all();
    }
}

impl<Task> Line<Task> {
    /// The next task; none when the thread is to end.
    fn next(&self) -> Option<Task> {
        let mut state = lock(&self.state);
        loop {
            if let Some(task) = state.tasks.pop_front() {
                return Some(task);
            }
            if state.is_closed {
                state.threads -= 1;
                return None;
            }
            state.idle += 1;
            let (woken, waited) = self.changed.wait_timeout(state, IDLE).unwrap_or_else(PoisonError::into_inner);
            state = woken;
            state.idle -= 1;
            if waited.timed_out() && state.tasks.is_empty() {
                state.threads -= 1;
                return None;
            }
        }
    }
}

/// The calling thread stands back behind the others: it gets less, and it interrupts nobody when it wakes.
fn stand_back(courtesy: i32) {
    if courtesy > 0 {
        let parameters = libc::sched_param { sched_priority: 0 };
        // SAFETY: on Linux both are about the calling thread alone, and to stand back needs no right; where it fails nothing changes.
        unsafe {
            libc::sched_setscheduler(0, libc::SCHED_BATCH, &parameters);
            libc::setpriority(libc::PRIO_PROCESS, 0, courtesy);
        }
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `spawn` with all signals blocked: the thread it starts inherits the mask and never runs a handler of the server.
pub(crate) fn with_signals_blocked<T>(spawn: impl FnOnce() -> T) -> T {
    // SAFETY: both sets are initialised by the calls that fill them, and the old mask is restored whatever spawn returns.
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
