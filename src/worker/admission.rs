//! The gate before the providers: which model answers for another, which call may leave now, and how many more may be
//! claimed.
//!
//! Holds a claimer's copy of the catalog and of the clocks, and what its own calls have used of every limit. Several
//! claimers of one database share the clocks, not the counts. Never touches the database, never starts a call.

use crate::store::catalog::{Catalog, Clock, Model};
use crate::worker::in_flight::{InFlight, Kind};
use crate::worker::prepare::{Admission, Prepared};
use dialectic_core::limits::{Allowance, Limits, Ticket, Wait};
use dialectic_core::provider::{Provider, Usage};
use dialectic_core::tokens::{Measure, Ratio};
use pgrx::Uuid;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Who would wait longer than this at the gate goes back into the line.
const LONG: Duration = Duration::from_secs(2);
/// What will be free this soon is claimed already.
const SOON: Duration = Duration::from_millis(50);
/// How long a provider is left alone that asks for patience and does not say how much, until its clock has been moved.
const A_MOMENT: Duration = Duration::from_millis(100);
const FOR_EVER: Duration = Duration::from_secs(u32::MAX as u64);
/// How long the first answer of a model is expected to be, in tokens.
const FIRST_ANSWER: u64 = 2_000;

pub(crate) struct Gate {
    begun: Instant,
    catalog: Catalog,
    limits: Limits,
    clocks: Vec<Clock>,
    /// Providers that limit their calls or have a clock; only of these is anything held back.
    watched: HashSet<String>,
    /// How long answers were of late, by model; kept where tokens are limited.
    answers: HashMap<String, u64>,
    /// What its own calls have told of the tokens of models, and what of it nobody has put down.
    ratios: HashMap<String, Ratio>,
    learned: HashMap<String, Ratio>,
    /// Providers, or (with a name) models of them, that are paused or have an open circuit, and until when: a fallback
    /// answers for them.
    shut: HashMap<(String, String), Duration>,
}

/// What has changed in the tables.
#[derive(Default)]
pub(crate) struct News {
    pub(crate) catalog: Option<Catalog>,
    pub(crate) clocks: Option<Vec<Clock>>,
}

impl News {
    /// What was heard later counts.
    pub(crate) fn add(&mut self, later: News) {
        self.catalog = later.catalog.or(self.catalog.take());
        self.clocks = later.clocks.or(self.clocks.take());
    }
}

impl Gate {
    pub(crate) fn new() -> Self {
        Gate {
            begun: Instant::now(),
            catalog: Catalog::default(),
            limits: Limits::default(),
            clocks: Vec::new(),
            watched: HashSet::new(),
            answers: HashMap::new(),
            ratios: HashMap::new(),
            learned: HashMap::new(),
            shut: HashMap::new(),
        }
    }

    /// Takes in what has changed.
    pub(crate) fn hear(&mut self, news: News) {
        if news.catalog.is_none() && news.clocks.is_none() {
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
        if let Some(clocks) = news.clocks {
            for old in &self.clocks {
                self.limits.wake(&old.provider);
                self.limits.probe(&old.provider, false);
            }
            self.shut.clear();
            for clock in &clocks {
                let until = if clock.is_paused { FOR_EVER } else { now + clock.rests };
                if clock.model.is_empty() {
                    self.limits.rest(&clock.provider, until);
                    self.limits.probe(&clock.provider, clock.is_tried);
                }
                if clock.is_paused || clock.is_tried {
                    self.shut.insert((clock.provider.clone(), clock.model.clone()), until);
                }
            }
            self.clocks = clocks;
        }
        let is_limited = |model: &&Arc<Model>| {
            let free = Allowance::default();
            model.allowance != free || model.provider.allowance != free
        };
        let limited = self.catalog.models.values().filter(is_limited).map(|model| model.provider.name.clone());
        self.watched = limited.chain(self.clocks.iter().map(|clock| clock.provider.clone())).collect();
    }

    /// How often what is being said is put down.
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

    /// What was learned and nobody has put down.
    pub(crate) fn learned(&self) -> &HashMap<String, Ratio> {
        &self.learned
    }

    /// It is put down.
    pub(crate) fn is_put_down(&mut self) {
        self.learned.clear();
    }

    /// The model that is called for a job of this model: itself, or its fallback, when it cannot be or has used up its
    /// attempts.
    pub(crate) fn answering(&self, name: &str, is_last_attempt: bool) -> Option<&Arc<Model>> {
        let model = self.catalog.models.get(name)?;
        let fallback = model.fallback.as_ref().and_then(|name| self.catalog.models.get(name));
        match fallback {
            Some(fallback) if (is_last_attempt || self.is_shut(model)) && !self.is_shut(fallback) => Some(fallback),
            _ => Some(model),
        }
    }

    /// The provider that limits how many jobs of a queue may be called.
    pub(crate) fn limiting(&self, queue: &str) -> Option<Arc<Provider>> {
        if self.watched.is_empty() {
            return None;
        }
        let provider = &self.answering(queue, false)?.provider;
        self.watched.contains(&provider.name).then(|| Arc::clone(provider))
    }

    fn is_shut(&self, model: &Model) -> bool {
        let is_shut = |name: &str| {
            let until = self.shut.get(&(model.provider.name.clone(), name.to_owned()));
            until.is_some_and(|until| self.now() < *until)
        };
        !self.shut.is_empty() && (is_shut("") || is_shut(&model.name))
    }

    /// Admits calls in the order of their arrival until `most` are admitted and not sent; behind a provider without
    /// room the others of that provider wait as well. Calls of excluded sessions are not admitted. Returns the
    /// providers that will not have room for long.
    pub(crate) fn admit(&mut self, in_flight: &mut InFlight, excluded: &HashSet<Uuid>, most: usize) -> HashSet<String> {
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
                let (provider, model) = (call.model.provider.name.as_str(), call.model.name.as_str());
                if full.contains(provider) {
                    call.admission = Admission::WaitingForProvider;
                } else {
                    match self.limits.begin(provider, model, self.expected(call), now) {
                        Ok(ticket) => call.admission = Admission::Admitted(ticket),
                        Err(wait) => {
                            full.insert(provider.to_owned());
                            if matches!(wait, Wait::Until(then) if then.saturating_sub(now) > LONG) {
                                throttled.insert(provider.to_owned());
                            }
                            call.admission = Admission::WaitingForProvider;
                        }
                    }
                }
            }
            admitted += usize::from(call.is_admitted());
        }
        throttled
    }

    /// How many tokens a call will use, where that is limited: what it asks, and what its model answered of late.
    fn expected(&self, call: &Prepared) -> u64 {
        if !call.model.is_counted() {
            return 0;
        }
        let answer = self.answers.get(&call.model.name).copied().unwrap_or(FIRST_ANSWER);
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
    pub(crate) fn give_back(&mut self, ticket: Ticket) {
        let now = self.now();
        self.limits.give_back(ticket, now);
    }

    /// A provider failed: if that was a probe, no other leaves until its clock says more.
    pub(crate) fn strike(&mut self, provider: &str) {
        if self.clocks.iter().any(|clock| clock.is_tried && clock.provider == provider) {
            self.rest(provider, None);
        }
    }

    /// A provider asks for patience: no call leaves until its clock says more, and then not as many at once as before.
    pub(crate) fn rest(&mut self, provider: &str, time: Option<Duration>) {
        let until = self.now() + time.unwrap_or(A_MOMENT);
        self.limits.rest(provider, until);
        self.watched.insert(provider.to_owned());
    }

    /// A provider turned a call away: it is called by half as many at once, and by one more for every answer.
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
            let room = match self.limits.next(provider, &model.name, 0, now) {
                Some(Wait::Until(then)) if then.saturating_sub(now) <= SOON => 1,
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
        let of_queues = full.iter().filter_map(|name| self.answering(name, false)).filter_map(|model| until(model, 0));
        let waiting = prepared.filter(|call| matches!(call.admission, Admission::WaitingForProvider));
        of_queues.chain(waiting.filter_map(|call| until(&call.model, self.expected(call)))).min()
    }

    fn now(&self) -> Duration {
        self.begun.elapsed()
    }
}
