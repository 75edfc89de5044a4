//! Cooldowns after replies: what is stored of the providers that replied, what the core makes of it, what is stored
//! then.

use super::{Reply, ReplyResult};
use crate::error::Error;
use crate::store::claim::Claim;
use crate::store::composite::{self, Composite};
use crate::store::{query, random};
use dialectic_core::cooldown::{self, Change, Record, Signal};
use dialectic_core::provider::{Class, Scope};
use dialectic_core::retry::Backoff;
use pgrx::Uuid;
use pgrx::datum::DatumWithOid;
use std::collections::BTreeMap;

const FACTS: &str = "select provider, model, is_news, throttles, failures, model_throttles, model_failures \
     from dialectic._cooldown_facts($1, $2)";
const SET: &str = "select dialectic._set_cooldowns($1)";

/// A provider, and one of its models or the empty name for all of them.
type Key = (String, String);

/// What the replies of a batch say of one provider or model.
#[derive(Default)]
struct Signals {
    record: Option<Record>,
    signals: Vec<Signal>,
    paused_reason: Option<String>,
}

struct Facts {
    provider: Option<String>,
    model: Option<String>,
    is_news: bool,
    of_provider: Option<Record>,
    of_model: Option<Record>,
}

struct Cooldown {
    key: Key,
    change: Change,
    paused_reason: Option<String>,
}

/// Updates the cooldowns of the providers that these replies came from.
pub(super) fn update(replies: &[(&Claim, &Reply)], backoff: &Backoff) -> Result<(), Error> {
    let mut by_key: BTreeMap<Key, Signals> = BTreeMap::new();
    for ((_, reply), facts) in replies.iter().zip(facts(replies)?) {
        let Some(provider) = facts.provider else { continue };
        let is_of_model = reply.class() == Some(Class::Configuration) && reply.end.scope == Scope::Model;
        let (model, record) = match is_of_model {
            true => (facts.model.unwrap_or_default(), facts.of_model),
            false => (String::new(), facts.of_provider),
        };
        let entry = by_key.entry((provider, model)).or_default();
        entry.record = record;
        entry.paused_reason = entry.paused_reason.take().max(paused_reason(reply));
        entry.signals.push(Signal {
            is_answer: reply.end.has_answered,
            class: reply.class(),
            retry_after: reply.end.retry_after,
            is_strike: reply.end.is_strike,
            is_news: facts.is_news,
        });
    }
    let changed = by_key.into_iter().filter_map(|(key, Signals { record, signals, paused_reason })| {
        let change = cooldown::after_replies(record, &signals, backoff, random())?;
        Some(Cooldown { key, change, paused_reason })
    });
    let changed: Vec<Cooldown> = changed.collect();
    if changed.is_empty() {
        return Ok(());
    }
    query(SET, &[composite::array(&changed)?], |_| Ok(())).map(drop)
}

/// Why a provider is paused. The words of a provider are for the owner of the call: they may repeat the prompt.
fn paused_reason(reply: &Reply) -> Option<String> {
    match (&reply.result, reply.end.http_status) {
        (ReplyResult::Failed { class: Class::Configuration, message, .. }, None) => Some(message.clone()),
        (ReplyResult::Failed { class: Class::Configuration, .. }, Some(status)) => {
            Some(format!("it answered with status {status}; the error_message of its calls says more"))
        }
        _ => None,
    }
}

fn facts(replies: &[(&Claim, &Reply)]) -> Result<Vec<Facts>, Error> {
    let (jobs, claims): (Vec<Uuid>, Vec<i64>) = replies.iter().map(|(claim, _)| (claim.job, claim.id)).unzip();
    query(FACTS, &[jobs.into(), claims.into()], |row| {
        let record = |throttles, failures| {
            let counts = (row.nullable::<i32>(throttles)?, row.nullable::<i32>(failures)?);
            Ok::<_, Error>(match counts {
                (Some(throttles), Some(failures)) => {
                    Some(Record { throttles: throttles.unsigned_abs(), failures: failures.unsigned_abs() })
                }
                _ => None,
            })
        };
        Ok(Facts {
            provider: row.nullable("provider")?,
            model: row.nullable("model")?,
            is_news: row.get("is_news")?,
            of_provider: record("throttles", "failures")?,
            of_model: record("model_throttles", "model_failures")?,
        })
    })
}

impl Composite for Cooldown {
    const TYPE: &'static str = "dialectic._cooldown";

    fn attributes(&self) -> Vec<DatumWithOid<'_>> {
        let count = |count: u32| i32::try_from(count).unwrap_or(i32::MAX);
        vec![
            self.key.0.as_str().into(),
            self.key.1.as_str().into(),
            self.change.free_after.map(|time| time.as_secs_f64()).into(),
            self.change.ends_pause.into(),
            count(self.change.record.throttles).into(),
            count(self.change.record.failures).into(),
            self.paused_reason.as_deref().into(),
        ]
    }
}
