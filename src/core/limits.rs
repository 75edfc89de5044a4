//! Decides when the next call to a provider or a model may begin: concurrency, requests and tokens per minute, rests,
//! probes.
//!
//! Each call is counted by two clocks, its provider's and its model's, and begins in both or in neither. What nobody
//! limited has no limit, but is counted, so a limit that comes later finds what is under way. Time is an argument,
//! counted from any fixed start. Never waits, never reads a clock, never knows why a provider rests.

use bucket::Bucket;
use std::collections::HashMap;
use std::time::Duration;

mod bucket;
#[cfg(test)]
mod laws;

/// A window as wide as this is none.
const WIDEST: u64 = 256;

/// What a provider or a model allows; none means no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Allowance {
    /// Calls at once.
    pub concurrency: Option<u32>,
    /// Calls begun per minute, evenly.
    pub requests_per_minute: Option<u32>,
    /// Tokens per minute, reserved when a call begins and corrected when it comes back.
    pub tokens_per_minute: Option<u32>,
}

/// What holds a call back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Time alone: it may begin then, if no other call comes before it.
    Until(Duration),
    /// Another call must come back first, and nobody knows when.
    ForAnother,
}

/// A call under way. Whoever holds it owes [`Limits::settle`] or [`Limits::give_back`]; dropped, it counts as under way
/// for ever.
#[must_use]
#[derive(Debug)]
pub struct Ticket {
    provider: String,
    model: String,
    tokens: u64,
}

/// The clocks of all providers and their models, by name.
#[derive(Debug, Clone, Default)]
pub struct Limits {
    providers: HashMap<String, Provider>,
}

#[derive(Debug, Clone, Default)]
struct Provider {
    clock: Clock,
    rests_until: Duration,
    is_probing: bool,
    /// How many may call at once since somebody was turned away; none where nobody was, or all is well again.
    window: Option<u64>,
    models: HashMap<String, Clock>,
}

#[derive(Debug, Clone, Default)]
struct Clock {
    under_way: u64,
    concurrency: Option<u32>,
    requests: Option<Bucket>,
    tokens: Option<Bucket>,
}

impl Limits {
    /// Sets what a provider and one of its models allow, from now on. What is under way or owed stays counted; to say
    /// the same again changes nothing.
    pub fn allow(&mut self, provider: &str, model: &str, of_provider: Allowance, of_model: Allowance, now: Duration) {
        let provider = self.provider(provider);
        provider.clock.allow(of_provider, now);
        provider.model(model).allow(of_model, now);
    }

    /// Nobody calls the provider before this time. Of two rests the longer holds.
    pub fn rest(&mut self, provider: &str, until: Duration) {
        let provider = self.provider(provider);
        provider.rests_until = provider.rests_until.max(until);
    }

    /// A provider rests no longer, whatever was said before.
    pub fn wake(&mut self, provider: &str) {
        self.provider(provider).rests_until = Duration::ZERO;
    }

    /// While its circuit is half open, a provider is called by one at a time.
    pub fn probe(&mut self, provider: &str, is_probing: bool) {
        self.provider(provider).is_probing = is_probing;
    }

    /// A call was turned away: half as many at once as were under way, and one more for each that comes back well.
    pub fn narrow(&mut self, provider: &str) {
        let provider = self.provider(provider);
        let under_way = provider.window.unwrap_or(provider.clock.under_way);
        provider.window = Some((under_way / 2).max(1));
    }

    /// How many calls of so many tokens each could begin now; none where nothing limits them.
    pub fn room(&self, provider: &str, model: &str, tokens: u64, now: Duration) -> Option<usize> {
        let provider = self.providers.get(provider)?;
        if now < provider.rests_until {
            return Some(0);
        }
        let rooms = provider.clocks(model).map(|clock| clock.room(tokens, now)).chain([provider.lone()]);
        rooms.flatten().min().map(|room| room.try_into().unwrap_or(usize::MAX))
    }

    /// What holds back a call of so many tokens; none where it could begin now.
    pub fn next(&self, provider: &str, model: &str, tokens: u64, now: Duration) -> Option<Wait> {
        if self.room(provider, model, tokens, now) != Some(0) {
            return None;
        }
        let provider = self.providers.get(provider)?;
        // Asked first: while another must come back, the time is of no use to anybody.
        if provider.lone() == Some(0) || provider.clocks(model).any(|clock| clock.places() == Some(0)) {
            return Some(Wait::ForAnother);
        }
        let ready = provider.clocks(model).map(|clock| clock.ready(tokens, now));
        Some(Wait::Until(ready.fold(provider.rests_until, Duration::max)))
    }

    /// Reserves a request and so many tokens with the provider and the model, or nothing at all.
    pub fn begin(&mut self, provider: &str, model: &str, tokens: u64, now: Duration) -> Result<Ticket, Wait> {
        if let Some(wait) = self.next(provider, model, tokens, now) {
            return Err(wait);
        }
        let ticket = Ticket { provider: provider.to_owned(), model: model.to_owned(), tokens };
        self.each(&ticket, |clock| clock.begin(tokens, now));
        Ok(ticket)
    }

    /// The call came back having used so many tokens: the difference to what was reserved is returned, or owed. One
    /// that used any went well.
    pub fn settle(&mut self, ticket: Ticket, used: u64, now: Duration) {
        if used > 0 {
            let provider = self.provider(&ticket.provider);
            provider.window = provider.window.map(|window| window + 1).filter(|window| *window < WIDEST);
        }
        self.each(&ticket, |clock| {
            clock.come_back();
            if let Some(tokens) = &mut clock.tokens {
                tokens.put(ticket.tokens.saturating_sub(used), now);
                // What nobody expected delays the others for a minute at most.
                let most = u64::from(tokens.per_minute());
                tokens.take(used.saturating_sub(ticket.tokens).min(most), now);
            }
        });
    }

    /// The call never left: all it reserved is returned, up to what a clock can hold.
    ///
    /// Meant for at once: as if it had never begun. If others began in between, what is returned comes on top of their
    /// burst.
    pub fn give_back(&mut self, ticket: Ticket, now: Duration) {
        self.each(&ticket, |clock| {
            clock.come_back();
            clock.buckets_mut(ticket.tokens).for_each(|(bucket, size)| bucket.put(size, now));
        });
    }

    fn each(&mut self, ticket: &Ticket, mut change: impl FnMut(&mut Clock)) {
        let provider = self.provider(&ticket.provider);
        change(&mut provider.clock);
        change(provider.model(&ticket.model));
    }

    fn provider(&mut self, name: &str) -> &mut Provider {
        self.providers.entry(name.to_owned()).or_default()
    }
}

impl Provider {
    fn model(&mut self, name: &str) -> &mut Clock {
        self.models.entry(name.to_owned()).or_default()
    }

    fn clocks(&self, model: &str) -> impl Iterator<Item = &Clock> {
        [Some(&self.clock), self.models.get(model)].into_iter().flatten()
    }

    /// The places left to a probe, or in the window.
    fn lone(&self) -> Option<u64> {
        let places = if self.is_probing { Some(1) } else { self.window };
        places.map(|places| places.saturating_sub(self.clock.under_way))
    }
}

impl Clock {
    fn allow(&mut self, allowance: Allowance, now: Duration) {
        self.concurrency = allowance.concurrency;
        for (bucket, per_minute) in
            [(&mut self.requests, allowance.requests_per_minute), (&mut self.tokens, allowance.tokens_per_minute)]
        {
            match (&mut *bucket, per_minute) {
                (Some(bucket), Some(per_minute)) => bucket.change(per_minute, now),
                (_, per_minute) => *bucket = per_minute.map(|per_minute| Bucket::new(per_minute, now)),
            }
        }
    }

    fn places(&self) -> Option<u64> {
        self.concurrency.map(|most| u64::from(most).saturating_sub(self.under_way))
    }

    fn room(&self, tokens: u64, now: Duration) -> Option<u64> {
        let rooms = self.buckets(tokens).map(|(bucket, size)| bucket.room(size, now));
        rooms.chain([self.places()]).flatten().min()
    }

    fn ready(&self, tokens: u64, now: Duration) -> Duration {
        self.buckets(tokens).map(|(bucket, size)| bucket.ready(size, now)).fold(now, Duration::max)
    }

    fn begin(&mut self, tokens: u64, now: Duration) {
        self.under_way += 1;
        self.buckets_mut(tokens).for_each(|(bucket, size)| bucket.take(size, now));
    }

    fn come_back(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
    }

    /// From which bucket a call of so many tokens takes how much.
    fn buckets(&self, tokens: u64) -> impl Iterator<Item = (&Bucket, u64)> {
        self.requests.iter().map(|bucket| (bucket, 1)).chain(self.tokens.iter().map(move |bucket| (bucket, tokens)))
    }

    fn buckets_mut(&mut self, tokens: u64) -> impl Iterator<Item = (&mut Bucket, u64)> {
        let (requests, tokens_left) = (self.requests.iter_mut(), self.tokens.iter_mut());
        requests.map(|bucket| (bucket, 1)).chain(tokens_left.map(move |bucket| (bucket, tokens)))
    }
}
