//! Call threads: tasks in, results out. This file knows nothing of Postgres and never waits for a thread.
//!
//! Every thread has all signals blocked, so that handlers of the server run on its main thread only; a call has a thread of its
//! own while it lasts. A thread that panics ends its own task and nothing else. Dropping the calls ends those that are under way
//! without waiting for them.

use dialectic_core::answer::{Verdict, Wanted, verdict};
use dialectic_core::definition::{Definition, Manuscript, Mending, Turn};
use dialectic_core::prompt::{Message, PromptError};
use dialectic_core::provider::{Class, Outcome, Reply, Request, Usage, simulator};
use std::collections::{HashMap, VecDeque};
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Room for a call.
const CALL_STACK: usize = 512 << 10;
/// Room for the deepest template there can be; only what is used of it is ever backed by memory.
pub(crate) const DEEP_STACK: usize = 256 << 20;
/// Rendering is work, not waiting: more threads than this would not make it faster.
const RENDERERS: usize = 2;
/// How long a thread without a task stays.
const IDLE: Duration = Duration::from_secs(5);

/// The claim that a task is done for.
pub(crate) type ClaimId = i64;

/// What a thread has done.
pub(crate) enum Event {
    /// The messages of a job and their JSON, or why there are none.
    Rendered(ClaimId, Result<(Vec<Message>, String), String>),
    /// What a model said, and what there is to keep of it.
    Replied(ClaimId, Outcome, Verdict),
    /// A document, or why there is none.
    Documented(ClaimId, Result<String, String>),
}

/// How the messages of a job come about.
pub(crate) enum Prompt {
    /// They were saved by an earlier attempt.
    Saved(String),
    /// They are made from the definition.
    New(Arc<Definition>, Box<Turn>),
    /// They ask for what an answer lacks, in this shape.
    Mend(Arc<Definition>, Box<Mending>, serde_json::Value),
}

enum Task {
    Render(ClaimId, Prompt),
    Call(ClaimId, Box<(Request, Wanted)>, Arc<Stop>),
    Document(ClaimId, Arc<Definition>, Box<Manuscript>),
}

/// The threads of one claimer and what they have under way.
pub(crate) struct Calls {
    callers: Pool,
    renderers: Pool,
    under_way: HashMap<ClaimId, Arc<Stop>>,
    receiver: Receiver<Event>,
    ear: UnixStream,
    bell: Arc<Bell>,
}

impl Calls {
    pub(crate) fn new() -> std::io::Result<Self> {
        let (mouth, ear) = UnixStream::pair()?;
        mouth.set_nonblocking(true)?;
        ear.set_nonblocking(true)?;
        let (sender, receiver) = channel();
        let bell = Arc::new(Bell { mouth, is_rung: AtomicBool::new(false) });
        let pool =
            |most, stack| Pool { most, stack, line: Arc::default(), sender: sender.clone(), bell: Arc::clone(&bell) };
        Ok(Calls {
            callers: pool(usize::MAX, CALL_STACK),
            renderers: pool(RENDERERS, DEEP_STACK),
            under_way: HashMap::new(),
            receiver,
            ear,
            bell,
        })
    }

    /// How many calls have not come back yet.
    pub(crate) fn under_way(&self) -> usize {
        self.under_way.len()
    }

    /// The socket on which a byte arrives when a thread is done with something.
    pub(crate) fn socket(&self) -> RawFd {
        self.ear.as_raw_fd()
    }

    /// Has the messages of a job made.
    pub(crate) fn render(&self, claim: ClaimId, prompt: Prompt) -> std::io::Result<()> {
        self.renderers.give(Task::Render(claim, prompt))
    }

    /// Has a document made.
    pub(crate) fn document(
        &self,
        claim: ClaimId,
        definition: Arc<Definition>,
        manuscript: Manuscript,
    ) -> std::io::Result<()> {
        self.renderers.give(Task::Document(claim, definition, Box::new(manuscript)))
    }

    /// Starts a call on a thread of its own; its answer is read there against what is wanted.
    pub(crate) fn call(&mut self, claim: ClaimId, request: Request, wanted: Wanted) -> std::io::Result<()> {
        let stop = Arc::new(Stop::default());
        self.callers.give(Task::Call(claim, Box::new((request, wanted)), Arc::clone(&stop)))?;
        self.under_way.insert(claim, stop);
        Ok(())
    }

    /// Ends a call that nobody waits for any more; it comes back as failed.
    pub(crate) fn stop(&self, claim: ClaimId) {
        if let Some(stop) = self.under_way.get(&claim) {
            stop.ask();
        }
    }

    /// What the threads have done since the last time.
    pub(crate) fn events(&mut self) -> Vec<Event> {
        let mut rung = [0u8; 64];
        while matches!((&self.ear).read(&mut rung), Ok(n) if n > 0) {}
        self.bell.is_rung.store(false, Ordering::SeqCst);
        let events: Vec<Event> = self.receiver.try_iter().collect();
        for event in &events {
            if let Event::Replied(claim, ..) = event {
                self.under_way.remove(claim);
            }
        }
        events
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        self.under_way.values().for_each(|stop| stop.ask());
        self.callers.close();
        self.renderers.close();
    }
}

/// Rings once, however many have something to say, until somebody has listened.
struct Bell {
    mouth: UnixStream,
    is_rung: AtomicBool,
}

impl Bell {
    fn ring(&self) {
        if !self.is_rung.swap(true, Ordering::SeqCst) {
            // A full socket rings already, and one that is closed has nobody to hear it.
            let _ = (&self.mouth).write(&[1]);
        }
    }
}

/// Ends a waiting thread early.
#[derive(Default)]
struct Stop {
    asked: Mutex<bool>,
    changed: Condvar,
}

impl Stop {
    fn ask(&self) {
        *lock(&self.asked) = true;
        self.changed.notify_all();
    }

    /// Waits until the moment comes or a stop is asked for; true when it was.
    fn wait_until(&self, moment: Instant) -> bool {
        let mut asked = lock(&self.asked);
        while !*asked {
            let Some(left) = moment.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) else {
                return false;
            };
            asked = self.changed.wait_timeout(asked, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

/// Threads that take tasks in turn: as many as there are tasks, up to the most.
struct Pool {
    most: usize,
    stack: usize,
    line: Arc<Line>,
    sender: Sender<Event>,
    bell: Arc<Bell>,
}

#[derive(Default)]
struct Line {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    tasks: VecDeque<Task>,
    threads: usize,
    idle: usize,
    is_closed: bool,
}

impl Pool {
    fn give(&self, task: Task) -> std::io::Result<()> {
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
        let (line, sender, bell) = (Arc::clone(&self.line), self.sender.clone(), Arc::clone(&self.bell));
        let thread = move || {
            while let Some(task) = line.next() {
                // The claimer may be gone; then nobody wants to know.
                let _ = sender.send(run(task));
                bell.ring();
            }
        };
        let builder = std::thread::Builder::new().name("dialectic call".into()).stack_size(self.stack);
        with_signals_blocked(|| builder.spawn(thread)).map(drop)
    }

    fn close(&self) {
        let mut state = lock(&self.line.state);
        state.is_closed = true;
        state.tasks.clear();
        self.line.changed.notify_all();
    }
}

impl Line {
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn run(task: Task) -> Event {
    match task {
        Task::Render(claim, prompt) => {
            let made = catch_unwind(AssertUnwindSafe(|| messages(prompt)));
            Event::Rendered(claim, made.unwrap_or_else(|_| Err("the template engine panicked".to_owned())))
        }
        Task::Call(claim, asked, stop) => {
            let outcome = call(&asked.0, &stop);
            let heard = catch_unwind(AssertUnwindSafe(|| heard(&outcome, &asked.1)));
            let heard = heard.unwrap_or_else(|_| refused("the answer could not be read: the reader panicked"));
            Event::Replied(claim, outcome, heard)
        }
        Task::Document(claim, definition, manuscript) => {
            let made = catch_unwind(AssertUnwindSafe(|| definition.document(&manuscript).markdown));
            Event::Documented(claim, made.map_err(|_| "the renderer panicked".to_owned()))
        }
    }
}

/// The messages of a job and their JSON.
pub(crate) fn messages(prompt: Prompt) -> Result<(Vec<Message>, String), String> {
    match prompt {
        Prompt::Saved(json) => match serde_json::from_str(&json) {
            Ok(messages) => Ok((messages, json)),
            Err(problem) => Err(format!("the saved prompt cannot be read: {problem}")),
        },
        Prompt::New(definition, turn) => with_json(definition.messages(&turn)),
        Prompt::Mend(definition, mending, shape) => with_json(definition.repair(&mending, &shape)),
    }
}

fn with_json(made: Result<Vec<Message>, PromptError>) -> Result<(Vec<Message>, String), String> {
    let messages = made.map_err(|problem| problem.to_string())?;
    let json = serde_json::to_string(&messages).map_err(|problem| problem.to_string())?;
    Ok((messages, json))
}

/// What there is to keep of what came back.
pub(crate) fn heard(outcome: &Outcome, wanted: &Wanted) -> Verdict {
    match outcome {
        Outcome::Answer { text, finish_reason, .. } => verdict(*finish_reason, text, wanted),
        Outcome::Failure { message, .. } => refused(message),
    }
}

fn refused(reason: &str) -> Verdict {
    Verdict::Refused { reason: reason.to_owned(), is_final: false }
}

/// The whole life of a call.
fn call(request: &Request, stop: &Stop) -> Outcome {
    let started = Instant::now();
    let reply = catch_unwind(AssertUnwindSafe(|| answer(request)))
        .unwrap_or_else(|_| failure(Class::Transient, "the call thread panicked".to_owned()));
    if stop.wait_until(started + Duration::from_millis(reply.latency_ms)) {
        return failure(Class::Transient, "the call was stopped".to_owned()).outcome;
    }
    match reply.outcome {
        // The one character that Postgres cannot store.
        Outcome::Answer { text, finish_reason, usage } if text.contains('\0') => {
            Outcome::Answer { text: text.replace('\0', "\u{fffd}"), finish_reason, usage }
        }
        outcome => outcome,
    }
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
