//! A pool of threads that run tasks in the order of submission. It does not know what a task is.
//!
//! Results are sent on a channel; nobody joins a thread. Every thread has all signals blocked, so that handlers of the
//! server run on its main thread only.

use crate::lock;
use crate::os::{lower_thread_priority, with_signals_blocked};
use crate::wake_channel::WakeSender;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a thread without a task lives; the last thread lives as long as the pool.
const IDLE_TIMEOUT: Duration = Duration::from_secs(5);

/// What the threads of a pool are like, and what they do.
pub(crate) struct PoolConfig<Task, Done> {
    pub(crate) max_threads: usize,
    pub(crate) stack_size: usize,
    /// The niceness of its threads; none leaves their priority as it is.
    pub(crate) nice: Option<i32>,
    pub(crate) run: fn(Task) -> Done,
    /// The result of a task that was removed before it ran.
    pub(crate) reject: fn(Task, &std::io::Error) -> Done,
}

/// As many threads as tasks, up to a maximum. Starting a thread takes about as long as opening a call, so `submit`
/// starts one if none is idle, and the threads start each other. Where no thread can be started, tasks wait for the
/// existing ones, or until one can be started.
pub(crate) struct ThreadPool<Task, Done>(Arc<Shared<Task, Done>>);

struct Shared<Task, Done> {
    config: PoolConfig<Task, Done>,
    state: Mutex<State<Task>>,
    changed: Condvar,
    results: WakeSender<Done>,
}

struct State<Task> {
    /// Tasks that no thread has taken yet.
    queue: VecDeque<Task>,
    threads: usize,
    /// Threads that are starting or wait for a task.
    idle: usize,
    is_closed: bool,
}

type Guard<'a, Task> = MutexGuard<'a, State<Task>>;

impl<Task: Send + 'static, Done: Send + 'static> ThreadPool<Task, Done> {
    pub(crate) fn new(config: PoolConfig<Task, Done>, results: WakeSender<Done>) -> Self {
        let state = Mutex::new(State { queue: VecDeque::new(), threads: 0, idle: 0, is_closed: false });
        ThreadPool(Arc::new(Shared { config, state, changed: Condvar::new(), results }))
    }

    pub(crate) fn submit(&self, task: Task) {
        let mut state = lock(&self.0.state);
        state.queue.push_back(task);
        if state.idle > 0 {
            self.0.changed.notify_one();
        } else if state.threads < self.0.config.max_threads {
            drop(self.0.start_thread(state));
        }
    }

    /// Tries again to start a thread if tasks wait for one; returns why no task can run, where that is so.
    pub(crate) fn start_missing_thread(&self) -> Option<std::io::Error> {
        let state = lock(&self.0.state);
        if !self.0.lacks_thread(&state) {
            return None;
        }
        let (state, started) = self.0.start_thread(state);
        started.err().filter(|_| state.threads == 0)
    }

    /// Whether tasks wait for a thread that could not be started.
    pub(crate) fn is_short_of_threads(&self) -> bool {
        self.0.lacks_thread(&lock(&self.0.state))
    }

    /// Rejects a task if no thread has taken it yet.
    pub(crate) fn remove_queued(&self, is_wanted: impl Fn(&Task) -> bool) {
        let mut state = lock(&self.0.state);
        let task = state.queue.iter().position(is_wanted).and_then(|at| state.queue.remove(at));
        drop(state);
        if let Some(task) = task {
            let removed = std::io::Error::other("it was stopped before there was one");
            self.0.results.send((self.0.config.reject)(task, &removed));
        }
    }

    /// Drops queued tasks; each thread ends after its current task.
    pub(crate) fn close(&self) {
        let mut state = lock(&self.0.state);
        state.is_closed = true;
        state.queue.clear();
        self.0.changed.notify_all();
    }
}

impl<Task: Send + 'static, Done: Send + 'static> Shared<Task, Done> {
    fn lacks_thread(&self, state: &State<Task>) -> bool {
        state.queue.len() > state.idle && state.threads < self.config.max_threads
    }

    /// Starts a thread if possible. The lock is free meanwhile.
    fn start_thread<'a>(self: &'a Arc<Self>, mut state: Guard<'a, Task>) -> (Guard<'a, Task>, std::io::Result<()>) {
        state.threads += 1;
        state.idle += 1;
        drop(state);
        let shared = Arc::clone(self);
        let builder = std::thread::Builder::new().name("dialectic call".into()).stack_size(self.config.stack_size);
        let started = with_signals_blocked(|| builder.spawn(move || shared.run_tasks()));
        let mut state = lock(&self.state);
        if started.is_err() {
            state.threads -= 1;
            state.idle -= 1;
        }
        (state, started.map(drop))
    }

    /// The body of a thread. Before it takes a task, it starts threads for the other queued tasks.
    fn run_tasks(self: &Arc<Self>) {
        if let Some(nice) = self.config.nice {
            lower_thread_priority(nice);
        }
        let mut state = lock(&self.state);
        loop {
            while self.lacks_thread(&state) {
                let (after, started) = self.start_thread(state);
                state = after;
                if started.is_err() {
                    break;
                }
            }
            if let Some(task) = state.queue.pop_front() {
                state.idle -= 1;
                drop(state);
                self.results.send((self.config.run)(task));
                state = lock(&self.state);
                state.idle += 1;
                continue;
            }
            let (after, is_timed_out) = self.wait_for_task(state);
            state = after;
            if state.is_closed || is_timed_out && state.threads > 1 {
                state.threads -= 1;
                state.idle -= 1;
                return;
            }
        }
    }

    /// Waits for a task; true when none came before the idle timeout.
    fn wait_for_task<'a>(&self, state: Guard<'a, Task>) -> (Guard<'a, Task>, bool) {
        if state.is_closed {
            return (state, true);
        }
        if state.threads == 1 {
            return (self.changed.wait(state).unwrap_or_else(PoisonError::into_inner), false);
        }
        let (state, waited) = self.changed.wait_timeout(state, IDLE_TIMEOUT).unwrap_or_else(PoisonError::into_inner);
        let is_timed_out = waited.timed_out() && state.queue.is_empty();
        (state, is_timed_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wake_channel::{WakeReceiver, wake_channel};
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// Reports that it runs, then waits for permission to end.
    type Task = (u32, Sender<u32>, Arc<Mutex<Receiver<()>>>);

    /// The number of a task that ran, or of one that was rejected.
    type Done = Result<u32, u32>;

    fn run((number, started, permission): Task) -> Done {
        started.send(number).unwrap();
        lock(&permission).recv().unwrap();
        Ok(number)
    }

    fn pool(max_threads: usize, stack_size: usize) -> (ThreadPool<Task, Done>, WakeReceiver<Done>) {
        let (sender, receiver) = wake_channel().unwrap();
        let config = PoolConfig { max_threads, stack_size, nice: Some(1), run, reject: |task, _| Err(task.0) };
        (ThreadPool::new(config, sender), receiver)
    }

    fn collect(receiver: &WakeReceiver<Done>, count: usize) -> Vec<Done> {
        let mut results = Vec::new();
        while results.len() < count {
            results.extend(receiver.drain());
            std::thread::yield_now();
        }
        results.sort_unstable();
        results
    }

    #[test]
    fn tasks_run_at_once_each_on_a_thread_of_its_own() {
        let (pool, results) = pool(usize::MAX, 64 << 10);
        let (started, running) = channel();
        let (permit, permission) = channel();
        let permission = Arc::new(Mutex::new(permission));
        (0..8).for_each(|number| pool.submit((number, started.clone(), Arc::clone(&permission))));
        // No task has ended, so each of these runs beside the others.
        let mut numbers: Vec<u32> = running.iter().take(8).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..8).collect::<Vec<_>>());
        (0..8).for_each(|_| permit.send(()).unwrap());
        assert_eq!(collect(&results, 8), (0..8).map(Ok).collect::<Vec<_>>());
        pool.close();
    }

    #[test]
    fn no_more_threads_are_started_than_the_maximum() {
        let (pool, results) = pool(1, 64 << 10);
        let (started, running) = channel();
        let (permit, permission) = channel();
        let permission = Arc::new(Mutex::new(permission));
        (0..2).for_each(|number| pool.submit((number, started.clone(), Arc::clone(&permission))));
        assert_eq!(running.recv(), Ok(0));
        assert!(!pool.is_short_of_threads());
        assert_eq!(lock(&pool.0.state).threads, 1);
        (0..2).for_each(|_| permit.send(()).unwrap());
        assert_eq!(collect(&results, 2), [Ok(0), Ok(1)]);
        pool.close();
    }

    #[test]
    fn queued_task_can_be_removed_and_a_running_one_cannot() {
        let (pool, results) = pool(1, 64 << 10);
        let (started, running) = channel();
        let (permit, permission) = channel();
        let permission = Arc::new(Mutex::new(permission));
        (0..2).for_each(|number| pool.submit((number, started.clone(), Arc::clone(&permission))));
        assert_eq!(running.recv(), Ok(0));
        (0..2).for_each(|number| pool.remove_queued(|task| task.0 == number));
        permit.send(()).unwrap();
        assert_eq!(collect(&results, 2), [Ok(0), Err(1)]);
        pool.close();
    }

    #[test]
    fn task_waits_when_no_thread_can_be_started() {
        // More stack than the address space has.
        let (pool, results) = pool(1, 1 << 50);
        let (started, _running) = channel();
        let (_permit, permission) = channel();
        pool.submit((7, started, Arc::new(Mutex::new(permission))));
        assert!(pool.is_short_of_threads());
        assert!(pool.start_missing_thread().is_some(), "the reason is known");
        pool.remove_queued(|task| task.0 == 7);
        assert_eq!(collect(&results, 1), [Err(7)]);
    }
}
