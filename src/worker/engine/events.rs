//! What the engine gives to its threads and gets back from them: seed prompts and prompts to render, calls to make,
//! text as it is streamed.
//!
//! Nothing here touches the database: what comes back moves its job to a place from which the next transaction stores
//! it.

use super::Engine;
use crate::settings;
use crate::store::claim::{Claim, Work};
use crate::store::definition;
use crate::store::reply::Reply;
use crate::worker::admission::Admissions;
use crate::worker::in_flight::{Calling, Place};
use crate::worker::prepare::{Admission, Prepared, Preparing};
use dialectic_core::job_prompt::RenderedPrompt;
use dialectic_core::provider::Class;
use dialectic_net::{ClaimId, Finished, ModelCall, Route};
use pgrx::{Uuid, log};
use std::sync::Arc;
use std::time::Instant;

/// The text of at most this many calls is stored in one transaction.
const STREAMS_AT_ONCE: usize = 64;

impl Engine {
    /// Takes in what the threads have done.
    pub(super) fn listen(&mut self) {
        let missing = self.calls.start_missing_threads();
        if let (Some(problem), false) = (&missing, self.lacks_threads) {
            log!("pg_dialectic: no thread can be started, tried again every second: {problem}");
        }
        self.lacks_threads = missing.is_some();
        for finished in self.calls.finished() {
            match finished {
                Finished::Seed(id, rendered) => self.rendered_seed(id, rendered),
                Finished::Prompt(id, rendered) => self.rendered(id, rendered),
                Finished::Call(id, result, verdict) => {
                    let last_text = self.calls.remove(id);
                    let reply = Reply::from((result, verdict));
                    if let Some(claim) = self.in_flight.claim_of(id) {
                        self.note_last_text(claim, last_text, &reply);
                        self.replied(id, reply);
                    }
                }
                Finished::Document(id, Ok(text)) => drop(self.in_flight.advance(id, Place::Rendered(text))),
                Finished::Document(id, Err((class, problem))) => self.answered(id, Reply::failed(class, problem)),
            }
        }
    }

    fn answered(&mut self, id: ClaimId, reply: Reply) {
        self.in_flight.advance(id, Place::Answered(Box::new(reply)));
    }

    /// Keeps the last text of a call that broke off, because the next call continues it. A whole answer replaces it.
    fn note_last_text(&mut self, claim: Claim, text: Option<String>, reply: &Reply) {
        if reply.class().is_none() {
            self.partial_texts.retain(|(of, _)| of.id != claim.id);
        } else if let Some(text) = text.filter(|text| !text.is_empty()) {
            self.partial_texts.push((claim, text));
        }
    }

    /// A call ended: its usage is known, and a provider that asks for a pause gets it at once.
    fn replied(&mut self, id: ClaimId, reply: Reply) {
        let Some(Place::Calling(calling)) = self.in_flight.advance(id, Place::Claimed) else { return };
        let reply = reply.of_texts(calling.embedded);
        let end = &reply.end;
        self.admissions.learn(&calling.model, calling.counted, &end.usage);
        if let Some(ticket) = calling.ticket {
            self.admissions.settle(&calling.model, ticket, &end.usage);
        }
        let provider = &calling.model.provider.name;
        let is_throttled = reply.class() == Some(Class::Throttled);
        if is_throttled || (reply.class().is_none() && end.retry_after.is_some()) {
            self.admissions.rest(provider, end.retry_after);
        }
        if is_throttled {
            self.admissions.narrow(provider);
        } else if end.is_strike {
            self.admissions.strike(provider);
        }
        self.answered(id, reply);
    }

    /// Collects the text of calls whose time to be stored has come.
    pub(super) fn collect_partial_texts(&mut self) {
        let now = Instant::now();
        let held_up = self.unclaimable();
        let stored = self.partial_texts.iter().filter(|(claim, _)| !held_up.contains(&claim.session)).count();
        for _ in stored..STREAMS_AT_ONCE.min(self.batch) {
            if self.streaming.front().is_none_or(|(due, _)| now < *due) {
                break;
            }
            let Some((_, id)) = self.streaming.pop_front() else { break };
            if self.in_flight.calling(id).is_none() {
                continue;
            }
            // Text of a session that is held up stays with its call.
            if let Some(claim) = self.in_flight.claim_of(id)
                && !held_up.contains(&claim.session)
                && let Some(text) = self.calls.take_partial_text(id).filter(|text| !text.is_empty())
            {
                self.partial_texts.push((claim, text));
            }
            self.streaming.push_back((now + self.admissions.flush_every(), id));
        }
    }

    /// The plan that had the seed prompt rendered stores it; the other plans of the stage run are read again after it.
    /// A template that fails fails them all.
    fn rendered_seed(&mut self, id: ClaimId, rendered: Result<String, (Class, String)>) {
        let Some(Place::RenderingSeed(run)) = self.in_flight.advance(id, Place::Claimed) else { return };
        let others = self.in_flight.rendering_seed(run);
        match rendered {
            Ok(seed) => {
                self.in_flight.advance(id, Place::SeedRendered(seed));
                for other in others {
                    self.in_flight.advance(other, Place::Claimed);
                }
            }
            Err((class, problem)) => {
                definition::forget();
                for plan in [id].into_iter().chain(others) {
                    self.answered(plan, Reply::failed(class, problem.clone()));
                }
            }
        }
    }

    fn rendered(&mut self, id: ClaimId, rendered: RenderedPrompt) {
        if matches!(rendered, RenderedPrompt::Failed(..)) {
            definition::forget();
        }
        let admissions = &self.admissions;
        self.in_flight.advance_with(id, |place| match place {
            Place::Preparing(preparing) => place_of(*preparing, rendered, admissions),
            other => other,
        });
    }

    /// Admits calls for which there are threads, also of a held-up session that is to be tried now; those that would
    /// wait long for their provider are given back.
    pub(super) fn admit(&mut self, due_session: Option<Uuid>) {
        let free = self.free_threads();
        let mut excluded = self.unclaimable();
        excluded.retain(|session| Some(*session) != due_session);
        for id in self.admissions.admit(&mut self.in_flight, &excluded, free) {
            let reply = self.without_admission(id);
            self.answered(id, reply);
        }
    }

    /// What becomes of a call that would wait long for its provider. Texts are not embedded by a paused one.
    fn without_admission(&mut self, id: ClaimId) -> Reply {
        let Some((claim, prepared)) = self.in_flight.prepared_mut(id) else { return Reply::returned() };
        match &prepared.model.name {
            _ if claim.work != Work::Index => Reply::returned(),
            name if self.admissions.callable(name).is_some() => Reply::postponed(),
            name => Reply::indexed(Some(format!("embedding model \"{name}\" is paused"))),
        }
    }

    /// Starts calls that are open.
    pub(super) fn start(&mut self, opened: Vec<ClaimId>) {
        let policy = settings::policy();
        for id in opened {
            let Some(Place::Prepared(prepared)) = self.in_flight.advance(id, Place::Claimed) else { continue };
            let is_remote = prepared.request.api != "simulator";
            let route = is_remote.then(|| Route {
                provider: Arc::clone(&prepared.model.provider),
                policy: Arc::clone(&policy),
                measure: self.admissions.measure(&prepared.model),
            });
            if is_remote {
                self.streaming.push_back((Instant::now() + self.admissions.flush_every(), id));
            }
            let ticket = match prepared.admission {
                Admission::Admitted(ticket) => Some(ticket),
                _ => None,
            };
            let Prepared { model, counted, embedded, request, wanted, .. } = *prepared;
            let calling = Calling { model, counted, ticket, embedded };
            self.in_flight.advance(id, Place::Calling(Box::new(calling)));
            self.calls.call(id, ModelCall { request, wanted, route });
        }
    }
}

/// Where a job goes whose prompt was rendered.
fn place_of(preparing: Preparing, rendered: RenderedPrompt, admissions: &Admissions) -> Place {
    match rendered {
        RenderedPrompt::Ready { messages, json, tokens } => {
            Place::Prepared(Box::new(preparing.end(messages, json, tokens)))
        }
        RenderedPrompt::WindowFull => Place::Answered(Box::new(Reply::without_call(preparing.end_without_call()))),
        RenderedPrompt::TooLong(groups) => Place::Oversized(preparing.combine_jobs(&groups)),
        RenderedPrompt::Overflow(overflow) => {
            let hint = preparing.hint(&overflow, admissions);
            Place::Answered(Box::new(Reply::too_large(overflow.to_string(), hint)))
        }
        RenderedPrompt::Unindexed(queries) => Place::Unindexed(queries),
        RenderedPrompt::Failed(class, problem) => Place::Answered(Box::new(Reply::failed(class, problem))),
    }
}
