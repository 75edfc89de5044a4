//! What the engine gives to its threads, and takes in from them: prompts to render, calls to make, what is being said meanwhile.
//!
//! Nothing here touches the database: what came back is put in hand, and kept by the next transaction.

use super::Engine;
use crate::settings;
use crate::store::claim::Claim;
use crate::store::reply::Reply;
use crate::store::request::Draft;
use crate::worker::calls::{Event, Order, Rendered};
use crate::worker::draft::{Ready, Rendering};
use crate::worker::hand::Calling;
use crate::worker::http::Route;
use dialectic_core::provider::Class;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// So many are put down at once at the most; the others speak on meanwhile.
const SPEAKERS: usize = 64;

impl Engine {
    /// Takes in what the threads have done.
    pub(super) fn listen(&mut self) {
        for event in self.calls.events() {
            match event {
                Event::Rendered(id, made) => {
                    if let Some(rendering) = self.hand.rendering.remove(&id) {
                        self.rendered(rendering, made);
                    }
                }
                Event::Replied(id, heard, verdict) => {
                    let last_words = self.calls.ended(id);
                    if let Some(calling) = self.hand.calling.remove(&id) {
                        let reply = Reply::from((heard, verdict));
                        self.note_last_words(calling.claim, last_words, &reply);
                        self.replied(calling, reply);
                    }
                }
                Event::Documented(id, made) => match (self.hand.making.remove(&id), made) {
                    (Some(claim), Ok(text)) => self.hand.made.push((claim, text)),
                    (Some(claim), Err((class, problem))) => {
                        self.hand.replies.push((claim, Reply::failed(class, problem)))
                    }
                    (None, _) => {}
                },
            }
        }
    }

    /// What a call that broke off has said and nobody has put down is put down yet: the next one goes on from there. An answer is kept as
    /// a whole.
    fn note_last_words(&mut self, claim: Claim, words: Option<String>, reply: &Reply) {
        if reply.class.is_none() {
            self.hand.said.retain(|(of, _)| of.id != claim.id);
        } else if let Some(words) = words.filter(|words| !words.is_empty()) {
            self.hand.said.push((claim, words));
        }
    }

    /// A call came back: what it has used is known, and a provider that asks for patience gets it at once.
    fn replied(&mut self, calling: Calling, reply: Reply) {
        self.gate.learn(&calling.model, calling.counted, &reply.usage);
        if let Some(ticket) = calling.ticket {
            self.gate.settle(&calling.model, ticket, &reply.usage);
        }
        let is_throttled = reply.class == Some(Class::Throttled.as_str());
        if is_throttled || (reply.class.is_none() && reply.retry_after_ms.is_some()) {
            let time = reply.retry_after_ms.and_then(|ms| u64::try_from(ms).ok()).map(Duration::from_millis);
            self.gate.rest(&calling.model.provider.name, time);
        }
        if is_throttled {
            self.gate.narrow(&calling.model.provider.name);
        } else if reply.is_strike {
            self.gate.strike(&calling.model.provider.name);
        }
        self.hand.replies.push((calling.claim, reply));
    }

    /// Takes down, each in its time, what calls have said.
    pub(super) fn overhear(&mut self) {
        let now = Instant::now();
        for _ in self.hand.said.len()..SPEAKERS.min(self.batch) {
            if self.hand.speaking.front().is_none_or(|(due, _)| now < *due) {
                break;
            }
            let Some((_, id)) = self.hand.speaking.pop_front() else { break };
            let Some(calling) = self.hand.calling.get(&id) else { continue };
            if let Some(text) = self.calls.said(id).filter(|text| !text.is_empty()) {
                self.hand.said.push((calling.claim, text));
            }
            self.hand.speaking.push_back((now + self.gate.flush_every(), id));
        }
    }

    fn rendered(&mut self, of: Rendering, made: Rendered) {
        match made {
            Rendered::Ready(messages, json, tokens) => self.hand.ready.push_back(of.end(messages, json, tokens)),
            Rendered::Full => {
                let (claim, verdict) = of.end_as_it_is();
                self.hand.replies.push((claim, Reply::heard(verdict)));
            }
            Rendered::TooLong(groups) => self.hand.too_long.push((of.claim, of.groups(&groups))),
            Rendered::Refused(class, problem) => self.hand.replies.push((of.claim, Reply::failed(class, problem))),
        }
    }

    /// Lets calls through the gate for which there are threads; those that would wait there for long are given back.
    pub(super) fn admit(&mut self) {
        let free = self.free_threads();
        let shut = self.gate.admit(&mut self.hand.ready, &self.held, free);
        if shut.is_empty() {
            return;
        }
        let goes = |ready: &Ready| ready.ticket.is_none() && shut.contains(&ready.model.provider.name);
        let (back, stay): (VecDeque<Ready>, _) = std::mem::take(&mut self.hand.ready).into_iter().partition(goes);
        self.hand.ready = stay;
        let reply = || Reply { is_back: true, ..Reply::default() };
        self.hand.replies.extend(back.into_iter().map(|ready| (ready.claim, reply())));
    }

    /// Starts calls that are opened.
    pub(super) fn start(&mut self, opened: Vec<Ready>) {
        let policy = settings::policy();
        for ready in opened {
            let Ready { claim, model, request, wanted, counted, ticket, .. } = ready;
            let is_far = request.api != "simulator";
            let route = is_far.then(|| Route {
                provider: Arc::clone(&model.provider),
                policy: Arc::clone(&policy),
                measure: self.gate.measure(&model),
            });
            if is_far {
                self.hand.speaking.push_back((Instant::now() + self.gate.flush_every(), claim.id));
            }
            self.hand.calling.insert(claim.id, Calling { claim, model, counted, ticket });
            self.calls.call(claim.id, Order { request, wanted, route });
        }
    }

    pub(super) fn render(&mut self, draft: Draft) {
        let model = self.gate.answering(&draft.turn.model, draft.is_last_attempt).cloned();
        let asked = model.map(|model| (Arc::clone(&model), self.gate.measure(&model)));
        match Rendering::begin(draft, asked) {
            Ok((rendering, prompt, room)) => {
                self.calls.render(rendering.claim.id, prompt, room);
                self.hand.rendering.insert(rendering.claim.id, rendering);
            }
            Err((claim, problem)) => self.hand.replies.push((claim, Reply::failed(Class::Permanent, problem))),
        }
    }
}
