//! The threads of one claimer: tasks in, results out. The main thread never waits for them.
//!
//! Each call has a thread of its own while it lasts. Seed prompts, prompts and documents, which are pure functions of
//! the core, are rendered on a few threads of their own. A task that panics comes back as a failure. Dropping the
//! threads cancels the calls without waiting for them.

use crate::cancel::CancelToken;
use crate::http::{CallResult, Http, Route};
use crate::os::raise_arena_limit;
use crate::partial_text::PartialText;
use crate::thread_pool::{PoolConfig, ThreadPool};
use crate::wake_channel::{WakeReceiver, wake_channel};
use dialectic_core::answer::{Verdict, Wanted, verdict};
use dialectic_core::definition::{Definition, Manuscript, SeedSource};
use dialectic_core::job_prompt::{PromptLimits, PromptSource, RenderedPrompt, render_job_prompt};
use dialectic_core::provider::simulator;
use dialectic_core::provider::{Class, Outcome, Request, Scope, Usage, storable};
use std::collections::HashMap;
use std::os::fd::RawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The stack of a call thread.
const CALL_STACK: usize = 512 << 10;
/// The stack of a thread that renders; tests show that the deepest template needs less than half of it.
const RENDER_STACK: usize = 2 << 20;
/// The niceness of call threads: the main thread, which serves them all, runs first.
const CALL_NICE: i32 = 15;
/// How many threads render. Rendering is CPU work, so more threads would not make it faster.
pub const RENDER_THREADS: usize = 2;

/// The claim that a task belongs to.
pub type ClaimId = i64;

/// A task that has ended.
#[derive(Debug)]
pub enum Finished {
    /// The seed prompt of a stage, or why it could not be rendered.
    Seed(ClaimId, Result<String, (Class, String)>),
    /// The prompt of a job.
    Prompt(ClaimId, RenderedPrompt),
    /// A call, and what is to be kept of its answer.
    Call(ClaimId, CallResult, Verdict),
    /// A document, or why it could not be rendered.
    Document(ClaimId, Result<String, (Class, String)>),
}

/// One call of a model.
#[derive(Debug)]
pub struct ModelCall {
    /// What the model is asked.
    pub request: Request,
    /// What its answer is read against.
    pub wanted: Wanted,
    /// Where the call goes; none for the simulator, which answers on the thread.
    pub route: Option<Route>,
}

struct CallTask {
    claim: ClaimId,
    call: Box<ModelCall>,
    http: Arc<Http>,
    handle: CallHandle,
}

enum RenderTask {
    Seed(ClaimId, Box<SeedSource>),
    Prompt(ClaimId, PromptSource, PromptLimits),
    Document(ClaimId, Arc<Definition>, Box<Manuscript>),
}

/// What the main thread shares with the thread of a call.
#[derive(Clone, Default)]
struct CallHandle {
    cancel: Arc<CancelToken>,
    partial_text: Arc<PartialText>,
}

/// The threads of one claimer and the calls they have in flight.
pub struct CallThreads {
    http: Arc<Http>,
    callers: ThreadPool<CallTask, Finished>,
    renderers: ThreadPool<RenderTask, Finished>,
    in_flight: HashMap<ClaimId, CallHandle>,
    results: WakeReceiver<Finished>,
}

impl CallThreads {
    /// Starts no thread yet; fails where no socket can be opened.
    pub fn new() -> std::io::Result<Self> {
        raise_arena_limit();
        let (sender, results) = wake_channel()?;
        let calls = PoolConfig {
            max_threads: usize::MAX,
            stack_size: CALL_STACK,
            nice: Some(CALL_NICE),
            run: run_call,
            reject: reject_call,
        };
        let renders = PoolConfig {
            max_threads: RENDER_THREADS,
            stack_size: RENDER_STACK,
            nice: None,
            run: run_render,
            reject: reject_render,
        };
        Ok(CallThreads {
            callers: ThreadPool::new(calls, sender.clone()),
            renderers: ThreadPool::new(renders, sender),
            http: Arc::default(),
            in_flight: HashMap::new(),
            results,
        })
    }

    /// How many calls are in flight.
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// The socket that is readable while there are finished tasks.
    pub fn socket(&self) -> RawFd {
        self.results.socket()
    }

    /// Renders the seed prompt of a stage for one of its plan jobs.
    pub fn render_seed(&self, claim: ClaimId, source: SeedSource) {
        self.renderers.submit(RenderTask::Seed(claim, Box::new(source)));
    }

    /// Renders the prompt of a job.
    pub fn render_prompt(&self, claim: ClaimId, source: PromptSource, limits: PromptLimits) {
        self.renderers.submit(RenderTask::Prompt(claim, source, limits));
    }

    /// Renders a document.
    pub fn render_document(&self, claim: ClaimId, definition: Arc<Definition>, manuscript: Manuscript) {
        self.renderers.submit(RenderTask::Document(claim, definition, Box::new(manuscript)));
    }

    /// Calls a model.
    pub fn call(&mut self, claim: ClaimId, call: ModelCall) {
        let handle = CallHandle::default();
        let http = Arc::clone(&self.http);
        self.callers.submit(CallTask { claim, call: Box::new(call), http, handle: handle.clone() });
        self.in_flight.insert(claim, handle);
    }

    /// Takes the text of a call that arrived since the last time; none while its thread writes it.
    pub fn take_partial_text(&self, claim: ClaimId) -> Option<String> {
        self.in_flight.get(&claim).and_then(|handle| handle.partial_text.take())
    }

    /// Cancels a call, which then comes back as failed.
    pub fn cancel(&self, claim: ClaimId) {
        if let Some(handle) = self.in_flight.get(&claim) {
            handle.cancel.cancel();
            self.callers.remove_queued(|task| task.claim == claim);
        }
    }

    /// Whether a call or a prompt waits for a thread that could not be started.
    pub fn is_short_of_threads(&self) -> bool {
        self.callers.is_short_of_threads() || self.renderers.is_short_of_threads()
    }

    /// Tries again to start threads that tasks wait for; returns why calls or prompts have none, where that is so.
    pub fn start_missing_threads(&self) -> Option<std::io::Error> {
        let (callers, renderers) = (self.callers.start_missing_thread(), self.renderers.start_missing_thread());
        callers.or(renderers)
    }

    /// The tasks that have ended since the last time.
    pub fn finished(&mut self) -> Vec<Finished> {
        self.results.drain()
    }

    /// Forgets a call that came back; returns its text since the last time.
    pub fn remove(&mut self, claim: ClaimId) -> Option<String> {
        self.in_flight.remove(&claim).and_then(|handle| handle.partial_text.take())
    }
}

impl Drop for CallThreads {
    fn drop(&mut self) {
        self.in_flight.values().for_each(|handle| handle.cancel.cancel());
        self.callers.close();
        self.renderers.close();
    }
}

fn run_render(task: RenderTask) -> Finished {
    match task {
        RenderTask::Seed(claim, source) => {
            let rendered = catch_unwind(AssertUnwindSafe(|| source.render().map_err(|problem| problem.to_string())));
            let rendered = rendered.unwrap_or_else(|_| Err("the template engine panicked".to_owned()));
            Finished::Seed(claim, rendered.map(storable).map_err(|problem| (Class::Permanent, problem)))
        }
        RenderTask::Prompt(claim, source, limits) => {
            let rendered = catch_unwind(AssertUnwindSafe(|| render_job_prompt(source, &limits)));
            let panicked = |_| RenderedPrompt::Failed(Class::Permanent, "the template engine panicked".to_owned());
            Finished::Prompt(claim, rendered.unwrap_or_else(panicked))
        }
        RenderTask::Document(claim, definition, manuscript) => {
            let rendered = catch_unwind(AssertUnwindSafe(|| definition.document(&manuscript).markdown));
            Finished::Document(claim, rendered.map_err(|_| (Class::Permanent, "the renderer panicked".to_owned())))
        }
    }
}

fn reject_render(task: RenderTask, problem: &std::io::Error) -> Finished {
    let problem = no_thread(problem);
    match task {
        RenderTask::Seed(claim, _) => Finished::Seed(claim, Err((Class::Transient, problem))),
        RenderTask::Prompt(claim, ..) => Finished::Prompt(claim, RenderedPrompt::Failed(Class::Transient, problem)),
        RenderTask::Document(claim, ..) => Finished::Document(claim, Err((Class::Transient, problem))),
    }
}

fn run_call(task: CallTask) -> Finished {
    let CallTask { claim, call, http, handle } = task;
    let result = catch_unwind(AssertUnwindSafe(|| make_call(&call, &http, &handle)));
    let result = result.unwrap_or_else(|_| failure("the call thread panicked", Usage::default()).into());
    let verdict = catch_unwind(AssertUnwindSafe(|| read_answer(&result.outcome, &call.wanted)));
    let verdict = verdict.unwrap_or_else(|_| refused("the answer could not be read: the reader panicked"));
    Finished::Call(claim, result, verdict)
}

fn reject_call(task: CallTask, problem: &std::io::Error) -> Finished {
    let problem = no_thread(problem);
    Finished::Call(task.claim, failure(&problem, Usage::default()).into(), refused(&problem))
}

fn no_thread(problem: &std::io::Error) -> String {
    format!("no thread for it: {problem}")
}

fn make_call(call: &ModelCall, http: &Http, handle: &CallHandle) -> CallResult {
    match &call.route {
        Some(route) => http.call(&call.request, route, &handle.cancel, &handle.partial_text),
        None => simulate(&call.request, &handle.cancel).into(),
    }
}

/// The simulator's answer after its latency.
fn simulate(request: &Request, cancel: &CancelToken) -> Outcome {
    let started = Instant::now();
    let reply = simulator::answer(request);
    if cancel.wait_until(started + Duration::from_millis(reply.latency_ms)) {
        // A model has read its prompt by the time its call is cancelled.
        let usage = match reply.outcome {
            Outcome::Answer { usage, .. } | Outcome::Vectors { usage, .. } => {
                Usage { input_tokens: usage.input_tokens, estimated: true, ..Usage::default() }
            }
            Outcome::Failure { usage, .. } => usage,
        };
        return failure("the call was stopped", usage);
    }
    match reply.outcome {
        Outcome::Answer { text, finish_reason, finish_raw, usage } => {
            Outcome::Answer { text: storable(text), finish_reason, finish_raw, usage }
        }
        outcome => outcome,
    }
}

fn read_answer(outcome: &Outcome, wanted: &Wanted) -> Verdict {
    match outcome {
        Outcome::Answer { text, finish_reason, .. } => verdict(*finish_reason, text, wanted),
        // Vectors are not read against anything: there are as many as there were texts.
        Outcome::Vectors { .. } => Verdict::Kept { content: None, is_complete: true, notes: Vec::new() },
        Outcome::Failure { message, .. } => refused(message),
    }
}

fn refused(reason: &str) -> Verdict {
    Verdict::Refused { reason: reason.to_owned(), is_final: false }
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
