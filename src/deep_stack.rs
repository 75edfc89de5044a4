//! Where templates are compiled and filled: on a thread with a deep stack, which sees no Postgres.

use crate::error::Error;
use dialectic_net::{DEEP_STACK, with_signals_blocked};

/// Runs work on a thread with a deep stack; a panic there is an error here.
pub(crate) fn deep<T: Send>(work: impl FnOnce() -> Result<T, Error> + Send) -> Result<T, Error> {
    let no_thread = |problem: std::io::Error| Error::Gone(format!("no thread to render on: {problem}"));
    std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().stack_size(DEEP_STACK);
        let thread = with_signals_blocked(|| builder.spawn_scoped(scope, work)).map_err(no_thread)?;
        thread.join().unwrap_or_else(|_| Err(Error::Gone("the template engine panicked".to_owned())))
    })
}
