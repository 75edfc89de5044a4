//! Counting tokens for SQL. What was learned of a model is looked up there.

use crate::error::Error;
use dialectic_core::prompt::Message;
use dialectic_core::tokens::{Encoding, Measure, Ratio, warm};
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

/// Reads what counting reads where all processes come from, so that none of them has to.
pub(crate) fn init() {
    // SAFETY: a flag of this process that only the postmaster ever sets.
    if unsafe { pg_sys::process_shared_preload_libraries_in_progress } {
        [Encoding::O200kBase, Encoding::Cl100kBase].into_iter().for_each(warm);
    }
}

fn measure(tokenizer: &str, api_model: &str, factor: Option<f64>, samples: Option<i32>) -> Measure {
    let learned = factor.map(|factor| Ratio::new(factor, samples.and_then(|n| u32::try_from(n).ok()).unwrap_or(0)));
    Measure::new(tokenizer, api_model, learned)
}

fn number(tokens: u64) -> i64 {
    i64::try_from(tokens).unwrap_or(i64::MAX)
}

/// The tokens of a text.
#[pg_extern(immutable, parallel_safe)]
pub(crate) fn _count_tokens(
    text: &str,
    tokenizer: &str,
    api_model: &str,
    factor: Option<f64>,
    samples: Option<i32>,
) -> i64 {
    number(measure(tokenizer, api_model, factor, samples).text(text))
}

/// The tokens of messages.
#[pg_extern(immutable, parallel_safe)]
pub(crate) fn _count_message_tokens(
    messages: &str,
    tokenizer: &str,
    api_model: &str,
    factor: Option<f64>,
    samples: Option<i32>,
) -> Result<i64, ErrorReport> {
    let messages: Vec<Message> =
        serde_json::from_str(messages).map_err(|source| Error::Json { what: "messages", source })?;
    Ok(number(measure(tokenizer, api_model, factor, samples).messages(&messages)))
}
