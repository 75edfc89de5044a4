//! Decides how long a provider, or one of its models, is not called after what it replied; which model answers a job
//! meanwhile; and which queues are closed.
//!
//! A provider that throttles names its time or gets a backoff; one that keeps failing has an open circuit; one that is
//! configured wrongly is paused until a person corrects it. Never reads a clock, never stores a cooldown, never decides
//! what becomes of a job.

#[cfg(test)]
mod tests;

use crate::breaker;
use crate::provider::Class;
use crate::retry::Backoff;
use std::time::Duration;

/// The first pause of a provider that throttles again right after the pause that it asked for.
const FIRST_REPEATED_PAUSE: Duration = Duration::from_millis(50);
/// The number of throttled replies beyond which the backoff does not grow.
const MOST_DOUBLINGS: u32 = 20;

/// What is stored of a provider, or of one of its models.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Record {
    /// Throttled replies in a row.
    pub throttles: u32,
    /// Failures in a row that the provider is to blame for.
    pub failures: u32,
}

/// What one reply says of the provider.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Signal {
    /// Whether the provider answered, however useful the answer is.
    pub is_answer: bool,
    /// The class of the failure, where it is one.
    pub class: Option<Class>,
    /// The pause that the provider asks for.
    pub retry_after: Option<Duration>,
    /// Whether the provider is to blame for the failure.
    pub is_strike: bool,
    /// Whether the call began after the record was last changed: a reply to an older call says nothing new.
    pub is_news: bool,
}

/// How a record changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// The new record.
    pub record: Record,
    /// No call before this much time has passed.
    pub free_after: Option<Duration>,
    /// Whether an earlier pause ends, because the circuit has closed.
    pub ends_pause: bool,
}

/// Whether a model can be called now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Availability {
    /// A person must correct its configuration first.
    pub is_paused: bool,
    /// Its provider failed too often: one call at a time is let through once the pause is over.
    pub has_open_circuit: bool,
    /// How long it is not called.
    pub pause: Duration,
}

/// Which model answers for a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answering {
    /// The model of the job.
    Own,
    /// Its fallback.
    Fallback,
}

impl Availability {
    /// Two cooldowns that both concern a model: its provider's and its own.
    pub fn and(self, other: Availability) -> Availability {
        Availability {
            is_paused: self.is_paused || other.is_paused,
            has_open_circuit: self.has_open_circuit || other.has_open_circuit,
            pause: self.pause.max(other.pause),
        }
    }

    /// Whether it cannot be called, and not only because of a rate limit: then a fallback answers.
    fn is_shut(&self) -> bool {
        self.is_paused || (self.has_open_circuit && !self.pause.is_zero())
    }

    /// Whether no call may begin.
    pub fn is_closed(&self) -> bool {
        self.is_paused || !self.pause.is_zero()
    }
}

/// Which model answers for a job: its own, or its fallback when the own model is shut or this is the last attempt. A
/// fallback that is shut itself never answers. One that is throttled answers for a shut model, when its pause is over,
/// and does not take a last attempt away from a model that can be called now.
pub fn answering(own: Availability, fallback: Option<Availability>, is_last_attempt: bool) -> Answering {
    match fallback {
        Some(fallback) if own.is_shut() && !fallback.is_shut() => Answering::Fallback,
        Some(fallback) if is_last_attempt && !fallback.is_closed() => Answering::Fallback,
        _ => Answering::Own,
    }
}

/// How a record changes by the replies of one batch; none when they change nothing.
pub fn after_replies(record: Option<Record>, signals: &[Signal], backoff: &Backoff, random: f64) -> Option<Change> {
    let counts = |signal: &&Signal| {
        matches!(signal.class, Some(Class::Throttled | Class::Configuration))
            || signal.is_strike
            || (signal.is_answer && (signal.retry_after.is_some() || record.is_some()))
    };
    let signals: Vec<&Signal> = signals.iter().filter(counts).collect();
    if signals.is_empty() {
        return None;
    }
    let before = record.unwrap_or_default();
    let is_throttled = |signal: &&&Signal| signal.class == Some(Class::Throttled);
    let has_answered = signals.iter().any(|signal| signal.is_answer);
    let is_throttled_again = signals.iter().filter(is_throttled).any(|signal| signal.is_news);
    let has_throttled = signals.iter().any(|signal| is_throttled(&signal));
    let strikes = u32::try_from(signals.iter().filter(|signal| signal.is_strike).count()).unwrap_or(u32::MAX);
    let grown = u32::from(is_throttled_again || (has_throttled && record.is_none()));
    let record = match has_answered {
        true => Record { throttles: u32::from(has_throttled), failures: 0 },
        false => Record {
            throttles: before.throttles.saturating_add(grown),
            failures: before.failures.saturating_add(strikes),
        },
    };

    let nth = before.throttles.min(MOST_DOUBLINGS) + 1;
    let asked = signals.iter().filter(|signal| signal.is_answer || is_throttled(signal));
    let asked = asked.filter_map(|signal| signal.retry_after).max();
    // A provider that throttles again gets a pause of its own, longer each time, even if it asks for none.
    let repeated = Backoff { base: FIRST_REPEATED_PAUSE, ..*backoff };
    let repeated = is_throttled_again.then(|| repeated.full_delay(nth));
    let names_no_time = signals.iter().filter(is_throttled).any(|signal| signal.retry_after.is_none());
    let unnamed = names_no_time.then(|| backoff.full_delay(nth));
    let circuit = if has_answered { None } else { breaker::opened(record.failures, backoff, random) };
    Some(Change {
        record,
        free_after: [asked, repeated, unnamed, circuit].into_iter().flatten().max(),
        ends_pause: before.failures >= breaker::THRESHOLD && record.failures == 0,
    })
}
