//! How much processor time some work takes: what a ratio of two measurements is made of. Other load on the machine makes
//! work take longer, but not more of the processor.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// Work is repeated until it has taken this long; the kernel counts in steps of some milliseconds.
const ENOUGH: Duration = Duration::from_millis(60);

/// The processor time that one run of some work takes on this thread.
pub(crate) fn cpu_time<T>(work: impl Fn() -> T) -> Duration {
    let begun = Instant::now();
    // Where the kernel does not say, the time that passes has to do.
    let used = || on_processor().unwrap_or_else(|| begun.elapsed());
    let before = used();
    let mut runs = 0;
    loop {
        black_box(work());
        runs += 1;
        let took = used() - before;
        if took >= ENOUGH {
            return took / runs;
        }
    }
}

/// How long this thread has been on a processor.
fn on_processor() -> Option<Duration> {
    let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    statistics.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}
