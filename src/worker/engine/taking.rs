//! What the engine does with a transaction that is committed: what it kept is let go, what it claimed and opened is in hand.
//!
//! Nothing here touches the database, and nothing here can fail.

use super::Engine;
use crate::worker::turn::{Done, Host, Parts, Report};
use std::collections::VecDeque;

impl Engine {
    /// What was done is committed.
    pub(super) fn take_in(&mut self, host: &mut impl Host, parts: &Parts, done: Done, report: &mut Report) {
        let kept = done.kept.len();
        self.gate.hear(done.news);
        self.hand.said.clear();
        self.gate.is_put_down();
        self.hand.replies.retain(|(claim, _)| !done.kept.contains(&claim.id));
        self.hand.made.retain(|(claim, _)| !done.kept.contains(&claim.id));
        self.hand.too_long.retain(|(claim, _)| !done.kept.contains(&claim.id));
        self.hand.empty.clear();
        self.hand.batches.extend(done.batches);
        if parts.claim {
            self.hand.plans = done.plans;
        }
        for id in &done.revoked {
            self.calls.stop(*id);
        }
        let mut opened = Vec::new();
        let mut waiting = VecDeque::with_capacity(self.hand.ready.len());
        for mut ready in std::mem::take(&mut self.hand.ready) {
            if done.opened.open.contains(&ready.claim.job) {
                opened.push(ready);
            } else if let Some(purse) = done.opened.short.get(&ready.claim.job) {
                if let Some(ticket) = ready.ticket.take() {
                    self.gate.give_back(ticket);
                }
                ready.is_short = true;
                ready.purse = Some(purse.clone());
                waiting.push_back(ready);
            } else if !done.tried.contains(&ready.claim.id) {
                // No place is kept for who cannot take it.
                if done.held.contains(&ready.claim.session)
                    && let Some(ticket) = ready.ticket.take()
                {
                    self.gate.give_back(ticket);
                }
                waiting.push_back(ready);
            } else if let Some(ticket) = ready.ticket {
                self.gate.give_back(ticket);
            }
        }
        self.hand.ready = waiting;
        if kept > 0 {
            self.hand.try_short();
        }
        if !done.drafts.is_empty() {
            host.at("claimed");
        }
        for draft in done.drafts {
            self.render(draft);
        }
        for source in done.sources {
            let claim = source.claim;
            self.calls.document(claim.id, source.definition, source.manuscript);
            self.hand.making.insert(claim.id, claim);
        }
        if !opened.is_empty() {
            host.at("prompt_saved");
        }
        let sent = opened.len();
        self.start(opened);
        if sent > 0 {
            host.at("calling");
        }
        if kept > 0 {
            host.at("between_batches");
        }
        self.hand.find_empty();
        self.held.retain(|session| !done.asked.contains(session));
        self.held.extend(done.held);
        self.held.retain(|session| self.hand.has_of(*session));
        report.claimed += done.claimed;
        // Batches that are over are struck off at once, not when somebody wakes the worker again.
        report.is_busy |= kept + sent + done.claimed + done.planned + self.hand.empty.len() > 0;
    }
}
