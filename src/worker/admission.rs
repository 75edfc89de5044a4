//! Admission: which calls may leave now, and how many more jobs of each queue may be claimed.
//!
//! Caches the catalog and the cooldowns, and counts what the claimer's own calls have used of every limit. Several
//! claimers of one database share the cooldowns, not the counts. The core decides which model answers for another.
//! Never touches the database, never starts a call.

use crate::store::catalog::{Catalog, Cooldown, Model};
use crate::worker::in_flight::{InFlight, Kind};
use crate::worker::prepare::{Admission, Prepared};
use dialectic_core::cooldown::{self, Answering, Availability};
use dialectic_core::limits::{Allowance, Limits, Ticket, Wait};
use dialectic_core::provider::{Provider, Usage};
use dialectic_core::tokens::{Measure, Ratio};
use dialectic_net::ClaimId;
use pgrx::Uuid;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A call that would wait longer than this for admission returns to the queue.
const MAX_ADMISSION_WAIT: Duration = Duration::from_secs(2);
/// A queue that has room this soon is claimed from already.
const CLAIM_AHEAD: Duration = Duration::from_millis(50);
/// The pause of a provider that throttles and names no time, until its stored cooldown is read.
const UNNAMED_PAUSE: Duration = Duration::from_millis(100);
/// The pause of a provider that a person must correct.
const UNTIL_CORRECTED: Duration = Duration::from_secs(u32::MAX as u64);
/// The length of the first answer of a model, in tokens, before any is known.
const FIRST_ANSWER_TOKENS: u64 = 2_000;

pub(crate) struct Admissions {
    begun: Instant,
    catalog: Catalog,
    limits: Limits,
    cooldowns: Vec<Cooldown>,
    /// When the cooldowns were read: their pauses begin there.
    read_at: Duration,
    /// Providers that limit their calls or have a cooldown; only their queues are limited.
    watched: HashSet<String>,
    /// How long answers were of late, by model; kept where tokens are limited.
    answers: HashMap<String, u64>,
    /// Token ratios that its own calls have shown, and those of them that are not stored.
    ratios: HashMap<String, Ratio>,
    learned: HashMap<String, Ratio>,
}

/// What has changed in the tables.
#[derive(Default)]
pub(crate) struct News {
    pub(crate) catalog: Option<Catalog>,
    pub(crate) cooldowns: Option<Vec<Cooldown>>,
}

impl News {
    /// What was heard later counts.
    pub(crate) fn add(&mut self, later: News) {
        self.catalog = later.catalog.or(self.catalog.take());
        self.cooldowns = later.cooldowns.or(self.cooldowns.take());
    }
}

impl Admissions {
    pub(crate) fn new() -> Self {
        Admissions {
            begun: Instant::now(),
            catalog: Catalog::default(),
            limits: Limits::default(),
            cooldowns: Vec::new(),
            read_at: Duration::ZERO,
            watched: HashSet::new(),
            answers: HashMap::new(),
            ratios: HashMap::new(),
            learned: HashMap::new(),
        }
    }

    /// Takes in what has changed.
    pub(crate) fn hear(&mut self, news: News) {
        if news.catalog.is_none() && news.cooldowns.is_none() {
            return;
        }
        let now = self.now();
        if let Some(catalog) = news.catalog {
            for model in catalog.models.values() {
                let provider = &model.provider;
                self.limits.allow(&provider.name, &model.name, provider.allowance, model.allowance, now);
            }
            self.catalog = catalog;
        }
        if let Some(cooldowns) = news.cooldowns {
            for old in &self.cooldowns {
                self.limits.wake(&old.provider);
                self.limits.probe(&old.provider, false);
            }
            for cooldown in cooldowns.iter().filter(|cooldown| cooldown.model.is_empty()) {
                let of = cooldown.availability;
                self.limits.rest(&cooldown.provider, if of.is_paused { UNTIL_CORRECTED } else { now + of.pause });
                self.limits.probe(&cooldown.provider, of.has_open_circuit);
            }
            (self.cooldowns, self.read_at) = (cooldowns, now);
        }
        let is_limited = |model: &&Arc<Model>| {
            let free = Allowance::default();
            model.allowance != free || model.provider.allowance != free
        };
        let limited = self.catalog.models.values().filter(is_limited).map(|model| model.provider.name.clone());
        self.watched = limited.chain(self.cooldowns.iter().map(|cooldown| cooldown.provider.clone())).collect();
    }

    /// How often streamed text is stored.
    pub(crate) fn flush_every(&self) -> Duration {
        self.catalog.flush_every
    }

    /// How the tokens of a model are counted.
    pub(crate) fn measure(&self, model: &Model) -> Measure {
        model.measure.with(self.ratios.get(&model.name).copied())
    }

    /// A call of a model whose messages were counted as so many tokens has come back.
    pub(crate) fn learn(&mut self, model: &Model, counted: u64, usage: &Usage) {
        if counted == 0 || usage.estimated {
            return;
        }
        if let Some(ratio) = self.measure(model).ratio() {
            let learned = ratio.learn(counted, usage.input_tokens);
            if learned != ratio {
                self.ratios.insert(model.name.clone(), learned);
                self.learned.insert(model.name.clone(), learned);
            }
        }
    }

    /// What was learned and is not stored.
    pub(crate) fn learned(&self) -> &HashMap<String, Ratio> {
        &self.learned
    }

    /// It is stored.
    pub(crate) fn mark_learned_stored(&mut self) {
        self.learned.clear();
    }

    /// All models that answer.
    pub(crate) fn models(&self) -> impl Iterator<Item = &Model> {
        self.catalog.models.values().map(Arc::as_ref).filter(|model| model.is_chat)
    }

    /// The model that is called for a job of this model: itself, or its fallback.
    pub(crate) fn answering(&self, name: &str, is_last_attempt: bool) -> Option<&Arc<Model>> {
        let model = self.catalog.models.get(name)?;
        let fallback = model.fallback.as_ref().and_then(|name| self.catalog.models.get(name));
        let available = fallback.map(|fallback| self.availability(fallback));
        match cooldown::answering(self.availability(model), available, is_last_attempt) {
            Answering::Own => Some(model),
            Answering::Fallback => fallback,
        }
    }

    /// A model that is not paused; its fallback does not count, because vectors of two models cannot be compared.
    pub(crate) fn callable(&self, name: &str) -> Option<&Arc<Model>> {
        self.catalog.models.get(name).filter(|model| !self.availability(model).is_paused)
    }

    /// Whether a model can be called now, as far as cooldowns say.
    fn availability(&self, model: &Model) -> Availability {
        let over = self.now().saturating_sub(self.read_at);
        let concerns = |cooldown: &&Cooldown| {
            cooldown.provider == model.provider.name && (cooldown.model.is_empty() || cooldown.model == model.name)
        };
        self.cooldowns
            .iter()
            .filter(concerns)
            .map(|cooldown| cooldown.availability)
            .fold(Availability::default(), |all, one| {
                all.and(Availability { pause: one.pause.saturating_sub(over), ..one })
            })
    }

    /// The provider that limits how many jobs of a queue may be called.
    pub(crate) fn limiting(&self, queue: &str) -> Option<Arc<Provider>> {
        if self.watched.is_empty() {
            return None;
        }
        let provider = &self.answering(queue, false)?.provider;
        self.watched.contains(&provider.name).then(|| Arc::clone(provider))
    }

    /// Admits calls in the order of their arrival until `most` are admitted and not sent; behind a provider without
    /// room the others of that provider wait as well. Calls of excluded sessions are not admitted. Returns the calls
    /// that would wait long.
    pub(crate) fn admit(&mut self, in_flight: &mut InFlight, excluded: &HashSet<Uuid>, most: usize) -> Vec<ClaimId> {
        let now = self.now();
        let (mut full, mut throttled) = (HashSet::new(), HashSet::new());
        let mut admitted = 0;
        for id in in_flight.ids(Kind::Prepared).collect::<Vec<_>>() {
            if admitted >= most {
                break;
            }
            let Some((claim, call)) = in_flight.prepared_mut(id) else { continue };
            if excluded.contains(&claim.session) {
                continue;
            }
            if call.waits_for_admission() {
                call.admission = Admission::WaitingForProvider;
                let (provider, model) = (call.model.provider.name.as_str(), call.model.name.as_str());
                if !full.contains(provider) && !self.availability(&call.model).is_closed() {
                    match self.limits.begin(provider, model, self.expected(call), now) {
                        Ok(ticket) => call.admission = Admission::Admitted(ticket),
                        Err(wait) => {
                            full.insert(provider.to_owned());
                            if matches!(wait, Wait::Until(then) if then.saturating_sub(now) > MAX_ADMISSION_WAIT) {
                                throttled.insert(provider.to_owned());
                            }
                        }
                    }
                }
            }
            admitted += usize::from(call.is_admitted());
        }
        let waits_long = |call: &Prepared| {
            let cooldown = self.availability(&call.model);
            throttled.contains(&call.model.provider.name) || cooldown.is_paused || cooldown.pause > MAX_ADMISSION_WAIT
        };
        let waiting = in_flight.prepared().filter(|(_, call)| !call.is_admitted() && waits_long(call));
        waiting.map(|(claim, _)| claim.id).collect()
    }

    /// How many tokens a call will use, where that is limited: what it asks, and what its model answered of late.
    fn expected(&self, call: &Prepared) -> u64 {
        if !call.model.is_counted() {
            return 0;
        }
        let answer = self.answers.get(&call.model.name).copied().unwrap_or(FIRST_ANSWER_TOKENS);
        call.tokens + answer.min(call.request.max_output_tokens)
    }

    /// A call came back.
    pub(crate) fn settle(&mut self, model: &Model, ticket: Ticket, usage: &Usage) {
        let now = self.now();
        self.limits.settle(ticket, usage.input_tokens + usage.output_tokens, now);
        if model.is_counted() && usage.output_tokens > 0 {
            let answer = self.answers.entry(model.name.clone()).or_insert(usage.output_tokens);
            *answer = (*answer * 7 + usage.output_tokens) / 8;
        }
    }

    /// A call never left.
    pub(crate) fn withdraw(&mut self, ticket: Ticket) {
        let now = self.now();
        self.limits.give_back(ticket, now);
    }

    /// A provider failed: if that was a probe, no other call leaves until its cooldown is read again.
    pub(crate) fn strike(&mut self, provider: &str) {
        if self.cooldowns.iter().any(|one| one.availability.has_open_circuit && one.provider == provider) {
            self.rest(provider, None);
        }
    }

    /// A provider asks for a pause: no call leaves until it is over.
    pub(crate) fn rest(&mut self, provider: &str, time: Option<Duration>) {
        let until = self.now() + time.unwrap_or(UNNAMED_PAUSE);
        self.limits.rest(provider, until);
        self.watched.insert(provider.to_owned());
    }

    /// A provider throttled a call: half as many calls run at once, and one more for every answer.
    pub(crate) fn narrow(&mut self, provider: &str) {
        self.limits.narrow(provider);
    }

    /// The queues of which not all may be claimed that there is, each with how many may; `in_hand` tells how many calls
    /// of a provider are claimed already and have not left.
    pub(crate) fn queues<'a>(&self, in_hand: impl FnOnce() -> HashMap<&'a str, usize>) -> Vec<(String, usize)> {
        if self.watched.is_empty() {
            return Vec::new();
        }
        let (now, in_hand) = (self.now(), in_hand());
        let queue = |name: &String| {
            let model = self.answering(name, false)?;
            let provider = model.provider.name.as_str();
            if !self.watched.contains(provider) {
                return None;
            }
            if self.availability(model).is_closed() {
                return Some((name.clone(), 0));
            }
            let room = match self.limits.next(provider, &model.name, 0, now) {
                Some(Wait::Until(then)) if then.saturating_sub(now) <= CLAIM_AHEAD => 1,
                _ => self.limits.room(provider, &model.name, 0, now)?,
            };
            Some((name.clone(), room.saturating_sub(in_hand.get(provider).copied().unwrap_or(0))))
        };
        self.catalog.models.keys().filter_map(queue).collect()
    }

    /// How long until the first of these queues, or of these calls that wait, has room: none when only another call can
    /// make it.
    pub(crate) fn next<'a>(&self, full: &[String], prepared: impl Iterator<Item = &'a Prepared>) -> Option<Duration> {
        let now = self.now();
        let until = |model: &Model, tokens: u64| match self.limits.next(&model.provider.name, &model.name, tokens, now)
        {
            Some(Wait::Until(then)) => Some(then.saturating_sub(now)),
            Some(Wait::ForAnother) => None,
            None => Some(Duration::ZERO),
        };
        let of_queue = |model: &Arc<Model>| match self.availability(model) {
            closed if closed.is_paused => None,
            Availability { pause, .. } => until(model, 0).map(|room| room.max(pause)),
        };
        let of_queues = full.iter().filter_map(|name| self.answering(name, false)).filter_map(of_queue);
        let waiting = prepared.filter(|call| matches!(call.admission, Admission::WaitingForProvider));
        of_queues.chain(waiting.filter_map(|call| until(&call.model, self.expected(call)))).min()
    }

    fn now(&self) -> Duration {
        self.begun.elapsed()
    }
}
