//! What the engine does when a transaction is committed: jobs that are stored leave, the others advance.
//!
//! Nothing here touches the database, and nothing here can fail.

use super::isolate::Only;
use super::work::Done;
use super::{Engine, Host, Report};
use crate::error::Problem;
use crate::store::claim::{Claim, Read};
use crate::store::document;
use crate::store::index::IndexDraft;
use crate::store::opening::Opened;
use crate::store::reply::Reply;
use crate::store::request::Draft;
use crate::worker::cache_invalidation;
use crate::worker::in_flight::{Kind, Place};
use crate::worker::prepare::{Admission, Prepared, Preparing, embedding_call};
use dialectic_core::definition::SeedSource;
use dialectic_core::provider::Class;
use dialectic_net::{ClaimId, RENDER_THREADS};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

impl Engine {
    /// A transaction is committed.
    pub(super) fn apply(&mut self, host: &mut impl Host, only: Only, mut done: Done, report: &mut Report) {
        let (stored, claimed) = (done.stored.len(), done.claimed());
        self.admissions.hear(done.news);
        self.partial_texts.retain(|(claim, _)| !done.partial_texts.contains(&claim.id));
        if done.has_learned {
            self.admissions.mark_learned_stored();
        }
        self.in_flight.forget_batches(done.finished_batches);
        for id in &done.stored {
            self.in_flight.finish(*id);
        }
        for id in &done.revoked {
            self.calls.cancel(*id);
        }
        let opened = self.apply_opened(done.opened, &done.tried, &done.busy);
        if stored > 0 {
            self.in_flight.retry_unfunded();
        }
        let read = done.read.len();
        for (claim, run, source) in done.seedless {
            done.read.remove(&claim.id);
            self.render_seed(host, claim, run, source);
        }
        for draft in done.index_drafts {
            done.read.remove(&draft.claim.id);
            self.prepare_index(draft);
        }
        self.apply_read(host, done.read, &done.left, done.unplannable, done.drafts, done.sources);
        if !opened.is_empty() {
            host.at("prompt_saved");
        }
        let sent = opened.len();
        self.start(opened);
        if sent > 0 {
            host.at("calling");
        }
        if stored > 0 {
            host.at("between_batches");
        }
        if done.taken.is_alone {
            self.alone = done.taken.claims.first().map(|(claim, _)| claim.id);
        }
        if let Some(batch) = done.taken.batch {
            let admissions = &self.admissions;
            let claims = done.taken.claims.into_iter().map(|(claim, queue)| (claim, admissions.limiting(&queue)));
            self.in_flight.claim(batch, claims);
        }
        self.alone = self.alone.filter(|id| self.in_flight.claim_of(*id).is_some());
        if claimed > 0 {
            host.at("claimed");
        }
        if only == Only::All {
            self.busy.retain(|session| !done.wanted.contains(session));
        }
        self.busy.extend(done.busy);
        self.busy.retain(|session| self.in_flight.needs_transaction(*session));
        report.claimed += claimed;
        // Where each prompt has a thread at once, it is rendered before a claim would end.
        let rendering = self.in_flight.count(Kind::Preparing);
        report.awaits_prompts = done.has_put_off_claim && (1..=RENDER_THREADS).contains(&rendering);
        let finished = self.in_flight.finished_batches().len();
        report.is_busy |= stored + sent + claimed + read + finished > 0;
    }

    /// Sorts admitted calls by what became of them; returns those that are open.
    fn apply_opened(&mut self, opened: Opened, tried: &HashSet<ClaimId>, busy: &HashSet<pgrx::Uuid>) -> Vec<ClaimId> {
        let mut open = Vec::new();
        // A job that was cancelled and retried may be in flight under two claims: only the newest one is the job's.
        let mut newest: HashMap<pgrx::Uuid, ClaimId> = HashMap::new();
        for id in tried {
            if let Some(claim) = self.in_flight.claim_of(*id) {
                newest.entry(claim.job).and_modify(|last| *last = (*last).max(*id)).or_insert(*id);
            }
        }
        for id in self.in_flight.ids(Kind::Prepared).collect::<Vec<_>>() {
            let Some((claim, prepared)) = self.in_flight.prepared_mut(id) else { continue };
            let mut ticket = None;
            if opened.open.contains(&claim.job) && newest.get(&claim.job) == Some(&id) {
                open.push(id);
            } else if let Some(payer) = opened.waiting.get(&claim.job) {
                ticket = prepared.withdraw(Admission::WaitingForMoney);
                prepared.payer = Some(payer.clone());
            } else if tried.contains(&id) {
                // Paused for want of money, given back, or its claim was revoked.
                ticket = prepared.withdraw(Admission::Queued);
                self.in_flight.finish(id);
            } else if prepared.is_admitted() && busy.contains(&claim.session) {
                // A call that cannot be opened must not take the room of one that can.
                ticket = prepared.withdraw(Admission::Queued);
            }
            if let Some(ticket) = ticket {
                self.admissions.withdraw(ticket);
            }
        }
        open
    }

    /// Jobs that were read go to a thread; those that could not be read are read again, or fail.
    fn apply_read(
        &mut self,
        host: &mut impl Host,
        mut read: HashSet<ClaimId>,
        left: &HashSet<ClaimId>,
        unplannable: Vec<(Claim, Problem)>,
        drafts: Vec<Read<Draft>>,
        sources: Vec<Read<document::Source>>,
    ) {
        read.retain(|id| !left.contains(id));
        for (claim, problem) in unplannable {
            read.remove(&claim.id);
            self.in_flight.note_failed_read(claim.id, problem);
        }
        if !drafts.is_empty() {
            host.at("read");
        }
        for (claim, draft) in drafts {
            read.remove(&claim.id);
            match draft {
                Ok(draft) => self.prepare(draft),
                Err(problem) => self.in_flight.note_failed_read(claim.id, problem),
            }
        }
        for (claim, source) in sources {
            read.remove(&claim.id);
            match source {
                Ok(source) => {
                    self.calls.render_document(claim.id, source.definition, source.manuscript);
                    self.in_flight.advance(claim.id, Place::Rendering);
                }
                Err(problem) => self.in_flight.note_failed_read(claim.id, problem),
            }
        }
        // Planned, or no longer claimed.
        for id in read {
            self.in_flight.finish(id);
        }
    }

    /// Has the seed prompt of a stage run rendered, unless another plan in flight has that done already.
    fn render_seed(&mut self, host: &mut impl Host, claim: Claim, run: pgrx::Uuid, source: SeedSource) {
        if self.in_flight.rendering_seed(run).is_empty() {
            self.calls.render_seed(claim.id, source);
        }
        self.in_flight.advance(claim.id, Place::RenderingSeed(run));
        host.at("rendering_seed");
    }

    /// Prepares the next call of an index job. Where nothing is left to embed, or nothing can be, the job is complete.
    fn prepare_index(&mut self, draft: IndexDraft) {
        let id = draft.claim.id;
        let reply = match draft.model.clone() {
            _ if !draft.is_leased => Reply::postponed(),
            Some(name) if !draft.texts.is_empty() => {
                if let Some(prepared) = self.embedding_call(&name, draft) {
                    return drop(self.in_flight.advance(id, Place::Prepared(Box::new(prepared))));
                }
                Reply::indexed(Some(format!("embedding model \"{name}\" cannot be called")))
            }
            _ => Reply::indexed(draft.note),
        };
        self.in_flight.advance(id, Place::Answered(Box::new(reply)));
    }

    fn embedding_call(&self, model: &str, draft: IndexDraft) -> Option<Prepared> {
        let model = self.admissions.callable(model)?;
        embedding_call(draft, Arc::clone(model), &self.admissions.measure(model))
    }

    /// Has the prompt of a job made. A model that the cached catalog does not know may have been added just now.
    fn prepare(&mut self, draft: Draft) {
        let claim = draft.claim;
        let Some(model) = self.admissions.answering(&draft.turn.model, draft.is_last_attempt).cloned() else {
            cache_invalidation::forget();
            let message = format!("model \"{}\" does not exist", draft.turn.model);
            let hint = "SELECT dialectic.add_model(…) adds it, then dialectic.retry(session) tries again.";
            let problem = Problem { sqlstate: *b"42704", message, detail: None, hint: Some(hint.to_owned()) };
            return self.in_flight.note_failed_read(claim.id, problem);
        };
        let measure = self.admissions.measure(&model);
        match Preparing::begin(draft, (Arc::clone(&model), measure)) {
            Ok((preparing, source, limits)) => {
                self.calls.render_prompt(claim.id, source, limits);
                self.in_flight.advance(claim.id, Place::Preparing(Box::new(preparing)));
            }
            Err(message) => {
                let reply = Reply::failed(Class::Permanent, message);
                self.in_flight.advance(claim.id, Place::Answered(Box::new(reply)));
            }
        }
    }
}
