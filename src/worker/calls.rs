//! Call threads: tasks in, results out. This file knows nothing of Postgres and never waits for a thread.
//!
//! Prompts and documents are rendered, models called and their answers read; a call has a thread of its own while it
//! lasts, and waits for one where no more can be started. A thread that panics ends its own task and nothing else.
//! Dropping the calls ends those that are under way without waiting for them.

use crate::worker::http::{Heard, Http, Route};
use crate::worker::pool::{Bell, Manner, Pool};
use crate::worker::stop::Stop;
use crate::worker::tail::Tail;
use dialectic_core::answer::{Verdict, Wanted, verdict};
use dialectic_core::context::{Window, groups, measure_pieces};
use dialectic_core::definition::{Continuing, Definition, Manuscript, Turn};
use dialectic_core::prompt::{Message, PromptError};
use dialectic_core::provider::simulator;
use dialectic_core::provider::{Class, Outcome, Request, Scope, Usage, storable};
use dialectic_core::tokens::Measure;
use std::collections::HashMap;
use std::io::Read;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Room for a call.
const CALL_STACK: usize = 512 << 10;
/// Room for the deepest template there can be; only what is used of it is ever backed by memory.
pub(crate) const DEEP_STACK: usize = 256 << 20;
/// However many calls there are, the main thread has its turn before them.
const COURTESY: i32 = 15;
/// Rendering is work, not waiting: more threads than this would not make it faster.
const RENDERERS: usize = 2;

/// Arenas of memory, at most.
#[cfg(target_env = "gnu")]
const ARENAS: i32 = 128;

/// The claim that a task is done for.
pub(crate) type ClaimId = i64;

/// What a thread has done.
pub(crate) enum Event {
    /// What the prompt of a job has become.
    Rendered(ClaimId, Rendered),
    /// What a model said, and what there is to keep of it.
    Replied(ClaimId, Heard, Verdict),
    /// A document, or why there is none.
    Documented(ClaimId, Result<String, (Class, String)>),
}

/// What a prompt has become.
pub(crate) enum Rendered {
    /// Its messages, the JSON that is saved of them, and their tokens where those are counted.
    Ready(Vec<Message>, String, u64),
    /// With what was written so far it does not fit.
    Full,
    /// It does not fit: these groups of its documents, by position, are to be condensed first.
    TooLong(Vec<Vec<usize>>),
    /// Nothing, and why.
    Refused(Class, String),
}

/// What a prompt has to fit into.
pub(crate) struct Room {
    pub(crate) window: Window,
    /// How often each of its documents was condensed.
    pub(crate) depths: Vec<u32>,
    /// How tokens are counted.
    pub(crate) measure: Measure,
    /// Whether its tokens are counted in any case.
    pub(crate) is_counted: bool,
}

/// What a call thread is given.
pub(crate) struct Order {
    pub(crate) request: Request,
    /// What its answer is read against.
    pub(crate) wanted: Wanted,
    /// Where it goes; a model without a provider is asked here.
    pub(crate) route: Option<Route>,
}

/// How the messages of a job come about.
pub(crate) enum Prompt {
    /// They were saved by an earlier attempt.
    Saved(String),
    /// They are made from the definition.
    New(Arc<Definition>, Box<Turn>),
    /// They ask for the rest of an answer.
    GoOn(Arc<Definition>, Box<Continuing>),
}

enum Task {
    Render(ClaimId, Prompt, Room),
    Call(ClaimId, Box<Order>, Arc<Http>, Line),
    Document(ClaimId, Arc<Definition>, Box<Manuscript>),
}

/// What is shared with the thread of a call.
#[derive(Clone, Default)]
struct Line {
    stop: Arc<Stop>,
    tail: Arc<Tail>,
}

/// The threads of one claimer and what they have under way.
pub(crate) struct Calls {
    http: Arc<Http>,
    callers: Pool<Task, Event>,
    renderers: Pool<Task, Event>,
    under_way: HashMap<ClaimId, Line>,
    receiver: Receiver<Event>,
    ear: UnixStream,
    bell: Arc<Bell>,
}

impl Calls {
    pub(crate) fn new() -> std::io::Result<Self> {
        keep_arenas_apart();
        let (mouth, ear) = UnixStream::pair()?;
        mouth.set_nonblocking(true)?;
        ear.set_nonblocking(true)?;
        let (sender, receiver) = channel();
        let bell = Arc::new(Bell::new(mouth));
        let pool = |most, stack, courtesy| {
            Pool::new(Manner { most, stack, courtesy, run, refuse }, sender.clone(), Arc::clone(&bell))
        };
        Ok(Calls {
            callers: pool(usize::MAX, CALL_STACK, COURTESY),
            renderers: pool(RENDERERS, DEEP_STACK, 0),
            http: Arc::default(),
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
    pub(crate) fn render(&self, claim: ClaimId, prompt: Prompt, room: Room) {
        self.renderers.give(Task::Render(claim, prompt, room));
    }

    /// Has a document made.
    pub(crate) fn document(&self, claim: ClaimId, definition: Arc<Definition>, manuscript: Manuscript) {
        self.renderers.give(Task::Document(claim, definition, Box::new(manuscript)));
    }

    /// Has a call made on a thread of its own; its answer is read there against what is wanted.
    pub(crate) fn call(&mut self, claim: ClaimId, order: Order) {
        let line = Line::default();
        self.callers.give(Task::Call(claim, Box::new(order), Arc::clone(&self.http), line.clone()));
        self.under_way.insert(claim, line);
    }

    /// What a call has said since the last time; none when it is speaking in this very moment.
    pub(crate) fn said(&self, claim: ClaimId) -> Option<String> {
        self.under_way.get(&claim).and_then(|line| line.tail.take())
    }

    /// Ends a call that nobody waits for any more; it comes back as failed.
    pub(crate) fn stop(&self, claim: ClaimId) {
        if let Some(line) = self.under_way.get(&claim) {
            line.stop.ask();
            self.callers.withdraw(|task| matches!(task, Task::Call(id, ..) if *id == claim));
        }
    }

    /// Whether a call waits for a thread, which could not be started.
    pub(crate) fn waits_for_a_thread(&self) -> bool {
        self.callers.is_short_of_threads()
    }

    /// What the threads have done since the last time.
    pub(crate) fn events(&mut self) -> Vec<Event> {
        let mut rung = [0u8; 64];
        while matches!((&self.ear).read(&mut rung), Ok(n) if n > 0) {}
        self.bell.heard();
        self.callers.tend();
        self.receiver.try_iter().collect()
    }

    /// A call has come back; what it has said since the last time.
    pub(crate) fn ended(&mut self, claim: ClaimId) -> Option<String> {
        self.under_way.remove(&claim).and_then(|line| line.tail.take())
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        self.under_way.values().for_each(|line| line.stop.ask());
        self.callers.close();
        self.renderers.close();
    }
}

/// Gives the threads so many arenas of memory that hardly one of them shares that of the main thread: who stands back
/// while he has the lock of an arena holds up all that use it.
fn keep_arenas_apart() {
    #[cfg(target_env = "gnu")]
    // SAFETY: sets a limit of this process alone; where that fails the old one stands.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, ARENAS);
    }
}

fn run(task: Task) -> Event {
    match task {
        Task::Render(claim, prompt, room) => {
            let made = catch_unwind(AssertUnwindSafe(|| rendered(prompt, &room)));
            let panicked = |_| Rendered::Refused(Class::Permanent, "the template engine panicked".to_owned());
            Event::Rendered(claim, made.unwrap_or_else(panicked))
        }
        Task::Call(claim, order, http, line) => {
            let heard = catch_unwind(AssertUnwindSafe(|| call(&order, &http, &line)));
            let heard = heard.unwrap_or_else(|_| Heard::from(failure("the call thread panicked", Usage::default())));
            let verdict = catch_unwind(AssertUnwindSafe(|| judged(&heard.outcome, &order.wanted)));
            let verdict = verdict.unwrap_or_else(|_| refused("the answer could not be read: the reader panicked"));
            Event::Replied(claim, heard, verdict)
        }
        Task::Document(claim, definition, manuscript) => {
            let made = catch_unwind(AssertUnwindSafe(|| definition.document(&manuscript).markdown));
            Event::Documented(claim, made.map_err(|_| (Class::Permanent, "the renderer panicked".to_owned())))
        }
    }
}

/// A task for which there is no thread.
fn refuse(task: Task, problem: &std::io::Error) -> Event {
    let problem = format!("no thread for it: {problem}");
    match task {
        Task::Render(claim, ..) => Event::Rendered(claim, Rendered::Refused(Class::Transient, problem)),
        Task::Call(claim, ..) => Event::Replied(claim, failure(&problem, Usage::default()).into(), refused(&problem)),
        Task::Document(claim, ..) => Event::Documented(claim, Err((Class::Transient, problem))),
    }
}

/// The messages of a job, if they fit. Of those that go on with an answer the last is saved: the others are there
/// already.
pub(crate) fn rendered(prompt: Prompt, room: &Room) -> Rendered {
    let goes_on = matches!(prompt, Prompt::GoOn(..));
    let (made, turn) = match prompt {
        Prompt::Saved(json) => match serde_json::from_str(&json) {
            Ok(messages) => (Ok((messages, json)), None),
            Err(problem) => (Err(format!("the saved prompt cannot be read: {problem}")), None),
        },
        Prompt::New(definition, turn) => (with_json(definition.messages(&turn), usize::MAX), Some((definition, turn))),
        Prompt::GoOn(definition, continuing) => (with_json(definition.go_on(&continuing), 1), None),
    };
    let (messages, json) = match made {
        Ok(made) => made,
        Err(problem) => return Rendered::Refused(Class::Permanent, problem),
    };
    // A token has a byte at least, so what is short enough in bytes need not be counted.
    let bytes: usize = messages.iter().map(|message| message.content.len()).sum();
    if bytes as u64 <= room.window.limit() && !room.is_counted {
        return Rendered::Ready(messages, json, 0);
    }
    let counted = room.measure.counted(&messages);
    let total = room.measure.at_most(counted);
    if goes_on {
        let has_room = room.window.has_room_after(total);
        return if has_room { Rendered::Ready(messages, json, counted) } else { Rendered::Full };
    }
    // Most prompts fit: then nobody asks how much of them each document is.
    if total <= room.window.limit() {
        return Rendered::Ready(messages, json, counted);
    }
    let pieces = turn.as_ref().map(|(definition, turn)| measure_pieces(definition, turn, &room.depths, &room.measure));
    let (frame, pieces) = match pieces.transpose() {
        Ok(pieces) => pieces.unwrap_or_default(),
        Err(problem) => return Rendered::Refused(Class::Permanent, problem.to_string()),
    };
    match groups(total, frame, &pieces, &room.window) {
        Ok(groups) => Rendered::TooLong(groups),
        Err(overflow) => Rendered::Refused(Class::ContextWindow, overflow.to_string()),
    }
}

/// Messages, and the last so many of them as JSON.
fn with_json(made: Result<Vec<Message>, PromptError>, last: usize) -> Result<(Vec<Message>, String), String> {
    let messages = made.map_err(|problem| problem.to_string())?;
    let saved = &messages[messages.len().saturating_sub(last)..];
    let json = serde_json::to_string(saved).map_err(|problem| problem.to_string())?;
    Ok((messages, json))
}

/// What there is to keep of what came back.
fn judged(outcome: &Outcome, wanted: &Wanted) -> Verdict {
    match outcome {
        Outcome::Answer { text, finish_reason, .. } => verdict(*finish_reason, text, wanted),
        Outcome::Failure { message, .. } => refused(message),
    }
}

fn refused(reason: &str) -> Verdict {
    Verdict::Refused { reason: reason.to_owned(), is_final: false }
}

/// The whole life of a call.
fn call(order: &Order, http: &Http, line: &Line) -> Heard {
    if let Some(route) = &order.route {
        return http.call(&order.request, route, &line.stop, &line.tail);
    }
    let started = Instant::now();
    let reply = simulator::answer(&order.request);
    if line.stop.wait_until(started + Duration::from_millis(reply.latency_ms)) {
        // What it was sent it has read.
        let usage = match reply.outcome {
            Outcome::Answer { usage, .. } => {
                Usage { input_tokens: usage.input_tokens, estimated: true, ..Usage::default() }
            }
            Outcome::Failure { usage, .. } => usage,
        };
        return failure("the call was stopped", usage).into();
    }
    match reply.outcome {
        Outcome::Answer { text, finish_reason, finish_raw, usage } => {
            Outcome::Answer { text: storable(text), finish_reason, finish_raw, usage }
        }
        outcome => outcome,
    }
    .into()
}

fn failure(message: &str, usage: Usage) -> Outcome {
    Outcome::Failure {
        class: Class::Transient,
        message: message.to_owned(),
        retry_after_ms: None,
        http_status: None,
        scope: Scope::Provider,
        usage,
    }
}
