//! Call threads: a request in, a reply out. This file knows nothing of Postgres and never waits for a thread.
//!
//! One thread a call, with every signal blocked, so that handlers of the server run on its main thread only. A thread that
//! panics ends its own call and nothing else. Dropping the calls ends those that are under way without waiting for them.

use dialectic_core::provider::{Class, Outcome, Reply, Request, Usage, simulator};
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A request and the claim it is made for.
#[derive(Debug, Deserialize)]
pub(crate) struct Call {
    job_id: String,
    claim_id: i64,
    #[serde(flatten)]
    request: Request,
}

/// What a call brought back, in the shape that is kept.
#[derive(Debug, Serialize)]
pub(crate) struct Done {
    job_id: String,
    claim_id: i64,
    #[serde(flatten)]
    result: Brought,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Brought {
    Answer {
        answer: String,
        finish_reason: &'static str,
        usage: Usage,
    },
    Failure {
        class: &'static str,
        message: String,
        retry_after_ms: Option<u64>,
        http_status: Option<u16>,
        usage: Usage,
    },
}

/// The calls that one claimer has under way.
pub(crate) struct Calls {
    under_way: usize,
    sender: Sender<Done>,
    receiver: Receiver<Done>,
    bell: Arc<UnixStream>,
    ear: UnixStream,
    stop: Arc<Stop>,
}

/// Ends waiting threads early.
#[derive(Default)]
struct Stop {
    asked: Mutex<bool>,
    changed: Condvar,
}

impl Stop {
    /// Waits until the moment comes or a stop is asked for; true when it was.
    fn wait_until(&self, moment: Instant) -> bool {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        while !*asked {
            let Some(left) = moment.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) else {
                return false;
            };
            asked = self.changed.wait_timeout(asked, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

impl Calls {
    pub(crate) fn new() -> std::io::Result<Self> {
        let (bell, ear) = UnixStream::pair()?;
        bell.set_nonblocking(true)?;
        ear.set_nonblocking(true)?;
        let (sender, receiver) = channel();
        Ok(Calls { under_way: 0, sender, receiver, bell: Arc::new(bell), ear, stop: Arc::default() })
    }

    /// How many calls have not been taken back yet.
    pub(crate) fn under_way(&self) -> usize {
        self.under_way
    }

    /// The socket on which a byte arrives when a call has come back.
    pub(crate) fn socket(&self) -> RawFd {
        self.ear.as_raw_fd()
    }

    /// Starts a call on a thread of its own.
    pub(crate) fn start(&mut self, call: Call) -> std::io::Result<()> {
        let (sender, bell, stop) = (self.sender.clone(), Arc::clone(&self.bell), Arc::clone(&self.stop));
        let thread = move || {
            if let Some(done) = run(call, &stop) {
                // The claimer may be gone; then nobody wants the reply. A full socket rings already.
                let _ = sender.send(done);
                let _ = (&*bell).write(&[1]);
            }
        };
        with_signals_blocked(|| {
            std::thread::Builder::new().name("dialectic call".into()).stack_size(512 * 1024).spawn(thread)
        })?;
        self.under_way += 1;
        Ok(())
    }

    /// The calls that have come back since the last time.
    pub(crate) fn take_back(&mut self) -> Vec<Done> {
        let mut rung = [0u8; 256];
        while matches!((&self.ear).read(&mut rung), Ok(n) if n > 0) {}
        let done: Vec<Done> = self.receiver.try_iter().collect();
        self.under_way = self.under_way.saturating_sub(done.len());
        done
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        *self.stop.asked.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.stop.changed.notify_all();
    }
}

/// The whole life of a call; none when it was stopped.
fn run(call: Call, stop: &Stop) -> Option<Done> {
    let started = Instant::now();
    let reply = catch_unwind(AssertUnwindSafe(|| answer(&call.request)))
        .unwrap_or_else(|_| failure(Class::Transient, "the call thread panicked".to_owned()));
    if stop.wait_until(started + Duration::from_millis(reply.latency_ms)) {
        return None;
    }
    let result = match reply.outcome {
        Outcome::Answer { text, finish_reason, usage } => Brought::Answer {
            // The one character that Postgres cannot store.
            answer: text.replace('\0', "\u{fffd}"),
            finish_reason: finish_reason.as_str(),
            usage,
        },
        Outcome::Failure { class, message, retry_after_ms, http_status, usage } => {
            Brought::Failure { class: class.as_str(), message, retry_after_ms, http_status, usage }
        }
    };
    Some(Done { job_id: call.job_id, claim_id: call.claim_id, result })
}

fn answer(request: &Request) -> Reply {
    match request.api.as_str() {
        "simulator" => simulator::answer(request),
        other => failure(Class::Configuration, format!("providers of api \"{other}\" cannot be called yet")),
    }
}

fn failure(class: Class, message: String) -> Reply {
    Reply {
        latency_ms: 0,
        outcome: Outcome::Failure { class, message, retry_after_ms: None, http_status: None, usage: Usage::default() },
    }
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
