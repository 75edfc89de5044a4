//! What the kernel knows about the processes of the server: their memory, threads and context switches.
//!
//! Reads /proc and nothing else; never signals a process.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Between two looks at a process that works.
const SAMPLING: Duration = Duration::from_millis(2);
/// A process that did not run for so long is at rest.
const QUIET: Duration = Duration::from_millis(20);

/// Memory in kB, and the number of threads.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Memory {
    pub(crate) rss: u64,
    pub(crate) anonymous: u64,
    pub(crate) shared: u64,
    pub(crate) threads: u64,
}

impl Memory {
    /// What is the process's own: the buffers of the server are everybody's.
    pub(crate) fn own(self) -> u64 {
        self.rss - self.shared
    }
}

fn status(path: impl AsRef<Path>) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

fn field(status: &str, name: &str) -> u64 {
    let of = |line: &str| line.strip_prefix(name)?.strip_prefix(':')?.split_whitespace().next()?.parse().ok();
    status.lines().find_map(of).unwrap_or(0)
}

pub(crate) fn memory(pid: i32) -> Memory {
    let status = status(format!("/proc/{pid}/status")).expect("the process runs");
    Memory {
        rss: field(&status, "VmRSS"),
        anonymous: field(&status, "RssAnon"),
        shared: field(&status, "RssShmem"),
        threads: field(&status, "Threads"),
    }
}

/// Processor time of all threads since the process began, in seconds.
pub(crate) fn cpu_seconds(pid: i32) -> f64 {
    // The kernel counts in hundredths for every program.
    const TICKS: f64 = 100.0;
    let stat = status(format!("/proc/{pid}/stat")).expect("the process runs");
    // The name is in brackets and may hold anything; user and system time are the 12th and 13th after it.
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks = after_name.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<f64>().ok());
    ticks.sum::<f64>() / TICKS
}

/// How often each thread of a process was switched, by its own will or not.
pub(crate) type Switches = BTreeMap<OsString, u64>;

pub(crate) fn switches(pid: i32) -> Switches {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).expect("the process runs");
    let count =
        |status: String| field(&status, "voluntary_ctxt_switches") + field(&status, "nonvoluntary_ctxt_switches");
    threads
        .filter_map(|thread| {
            let thread = thread.ok()?;
            Some((thread.file_name(), count(status(thread.path().join("status"))?)))
        })
        .collect()
}

/// The switches between two looks, of the main thread and of all; a thread that ended meanwhile counts as one.
pub(crate) fn between(pid: i32, before: &Switches, after: &Switches) -> (u64, u64) {
    let main = OsString::from(pid.to_string());
    let more = |thread: &OsString| after[thread] - before.get(thread).unwrap_or(&0);
    let gone = before.keys().filter(|thread| !after.contains_key(*thread)).count() as u64;
    (more(&main), after.keys().map(more).sum::<u64>() + gone)
}

/// Returns when the process has not run for a moment.
pub(crate) fn at_rest(pid: i32) {
    let mut before = switches(pid);
    loop {
        std::thread::sleep(QUIET);
        let now = switches(pid);
        if now == before {
            return;
        }
        before = now;
    }
}

/// The most that a process had of each while `work` was done.
pub(crate) fn peak<T>(pid: i32, work: impl FnOnce() -> T) -> (T, Memory, u64) {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let (mut peak, mut own) = (Memory::default(), 0);
            while !done.load(Ordering::Relaxed) {
                let now = memory(pid);
                own = own.max(now.own());
                peak = Memory {
                    rss: peak.rss.max(now.rss),
                    anonymous: peak.anonymous.max(now.anonymous),
                    shared: peak.shared.max(now.shared),
                    threads: peak.threads.max(now.threads),
                };
                std::thread::sleep(SAMPLING);
            }
            (peak, own)
        });
        let result = work();
        done.store(true, Ordering::Relaxed);
        let (peak, own) = watcher.join().expect("the watcher");
        (result, peak, own)
    })
}
