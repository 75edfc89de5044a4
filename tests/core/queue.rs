//! The model of the queue by itself: thousands of random histories keep its rules, and afterwards everything can end.
//!
//! That the database does the same is shown by `tests/engine/queue_replay`, in far fewer histories.

#[path = "queue/history.rs"]
mod history;

use dialectic_core::job::Status;
use dialectic_core::queue::{Answer, Claim, JobId, SessionStatus, Target};
use history::{Action, Claimer, Facts, Operation, SESSIONS, World, histories};
use proptest::prelude::*;

/// What the database would decide: a claim takes the oldest jobs, and a failed attempt is due two hours later.
fn facts(world: &World, action: Action, next_claim: i64) -> Facts {
    let mut released = world.clone();
    released.release();
    let most = match action {
        Action::Claim { most, .. } => most,
        Action::ClaimInside => 10,
        _ => 0,
    };
    let due = (0..released.queue.jobs().len()).filter(|job| released.queue.is_due(*job, world.half_hour));
    // Every other claimer inside the server works alone, on a job whose claimer died.
    let is_alone = matches!(action, Action::ClaimInside) && next_claim % 2 == 0;
    let most = if is_alone { 1 } else { most };
    let claim = |(nth, job): (usize, JobId)| {
        (job, Claim { id: next_claim + nth as i64, claimer: world.claimers.len(), is_alone })
    };
    Facts { claimed: due.take(most).enumerate().map(claim).collect(), run_at: world.half_hour + 4, delays: vec![] }
}

/// Does a history to the model; its rules hold after every action.
fn lived(history: &[Operation]) -> Result<World, TestCaseError> {
    let mut world = World::new();
    let mut next_claim = 1;
    for operation in history {
        let Some(action) = world.resolve(*operation) else { continue };
        let facts = facts(&world, action, next_claim);
        next_claim += facts.claimed.len() as i64;
        world.apply(action, &facts);
        prop_assert_eq!(world.queue.violations(), Vec::<String>::new(), "after {:?}", action);
    }
    Ok(world)
}

/// Resumes and retries everything, then claims and completes until nothing is due. Every claimer is gone by then.
fn finish(world: &mut World) {
    for claimer in &mut world.claimers {
        *claimer = Claimer::Inside { is_alive: false };
    }
    for session in 0..SESSIONS.len() {
        world.apply(Action::Resume(Target::Session(session)), &Facts::default());
        world.apply(Action::Retry(Target::Session(session)), &Facts::default());
    }
    for next_claim in 1_000_000.. {
        world.half_hour += 100;
        world.release();
        let due = (0..world.queue.jobs().len()).find(|job| world.queue.is_due(*job, world.half_hour));
        let Some(job) = due else { return };
        let claim = Claim { id: next_claim, claimer: usize::MAX, is_alone: false };
        world.queue.claim(job, claim);
        world.queue.complete(job, claim.id, Answer::Whole);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_history_can_be_brought_to_its_end(history in histories(150)) {
        let mut world = lived(&history)?;
        finish(&mut world);
        for (id, job) in world.queue.jobs().iter().enumerate() {
            prop_assert!(job.status.is_ended(), "job {} is {}", id, job.status);
        }
        for session in world.queue.sessions() {
            prop_assert_eq!(session.status, SessionStatus::Completed);
        }
    }
}

#[test]
fn without_failures_every_job_completes() {
    let mut world = World::new();
    finish(&mut world);
    assert!(world.queue.jobs().iter().all(|job| job.status == Status::Completed));
    // Each model of a session: two plans, two texts, a document with its rendering, a text, and the text of the last stage.
    assert_eq!(world.queue.jobs().len(), 8 * SESSIONS.concat().len());
}
