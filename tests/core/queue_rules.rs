//! The rules of the queue that need no race to be seen, each in the shortest life that shows it.

use super::{ME, claim_all, claim_of, complete, family, job, plan, queue_of, status};
use dialectic_core::job::{Kind, Status};
use dialectic_core::queue::Queue;
use dialectic_core::queue::{Failure, NewJob, Outcome, Pause, Planned, StageRun};

#[test]
fn a_child_that_fails_for_good_fails_its_parent_and_cancels_what_has_not_started() {
    let mut queue = family(2);
    assert_eq!(queue.insert(NewJob { parent: Some(0), ..job(Kind::Render, 0, Some(0)) }), Ok(3));
    let claim = claim_of(&queue, 1);
    assert_eq!(queue.fail(1, claim, Failure::Permanent), Outcome::Done);
    assert_eq!((status(&queue, 0), queue.job(0).unwrap().cause), (Status::Failed, Some(1)));
    assert_eq!((status(&queue, 2), status(&queue, 3)), (Status::Processing, Status::Cancelled));
    assert_eq!(queue.stage_run(1, 1), StageRun::Failed);
}

#[test]
fn a_stage_run_that_failed_once_completes_after_retry() {
    let mut queue = family(3);
    for id in [1, 2] {
        let claim = claim_of(&queue, id);
        assert_eq!(queue.fail(id, claim, Failure::Permanent), Outcome::Done);
    }
    assert_eq!(complete(&mut queue, 3), Outcome::Done);
    assert_eq!(queue.retry(1), Outcome::Done);
    // The other failure would fail the plan again at once, so it is retried with it.
    assert_eq!((status(&queue, 0), status(&queue, 2)), (Status::WaitingForChildren, Status::Pending));
    claim_all(&mut queue);
    assert_eq!((complete(&mut queue, 1), complete(&mut queue, 2)), (Outcome::Done, Outcome::Done));
    claim_all(&mut queue);
    assert_eq!(plan(&mut queue, 0, Planned::NothingLeft), Outcome::Done);
    assert_eq!(queue.stage_run(1, 1), StageRun::Completed);
}

#[test]
fn only_a_failed_attempt_is_charged() {
    let mut queue = queue_of(vec![job(Kind::Execute, 0, None)]);
    let attempts = |queue: &Queue| queue.job(0).unwrap().attempt_count;
    claim_all(&mut queue);
    let claim = claim_of(&queue, 0);
    assert_eq!(queue.fail(0, claim, Failure::Throttled { until: 5 }), Outcome::Done);
    assert_eq!((status(&queue, 0), attempts(&queue)), (Status::Pending, 0));
    assert_eq!(queue.claim(ME, 4, 1), []);
    let old = queue.claim(ME, 5, 1)[0];
    queue.claimer_dies(ME);
    assert_eq!(queue.claim(ME, 5, 1), []);
    queue.free_dead_claims();
    assert_eq!((status(&queue, 0), attempts(&queue)), (Status::Pending, 0));
    queue.claimer_starts(ME);
    for (attempt, to) in [(1, Status::Retrying), (2, Status::RetryLoopFailed)] {
        let claim = queue.claim(ME, 5, 1)[0];
        assert!(claim.claim_id > old.claim_id);
        assert_eq!(queue.complete(0, old.claim_id, vec![]), Outcome::Stale);
        assert_eq!(queue.fail(0, claim.claim_id, Failure::Transient { until: 5 }), Outcome::Done);
        assert_eq!((status(&queue, 0), attempts(&queue)), (to, attempt));
    }
}

#[test]
fn an_empty_wallet_stops_what_runs_and_nothing_that_waits_and_the_top_up_resumes_it() {
    let mut queue = family(1);
    assert!(matches!(queue.pause(0, Pause::Wallet), Outcome::Refused(_)));
    let late = claim_of(&queue, 1);
    assert_eq!(queue.pause(1, Pause::Wallet), Outcome::Done);
    assert_eq!((status(&queue, 0), status(&queue, 1)), (Status::WaitingForChildren, Status::PausedNsf));
    assert_eq!(queue.complete(1, late, vec![]), Outcome::Stale);
    assert_eq!(queue.claim(ME, 9, 9), []);
    assert_eq!(queue.resume(1), Outcome::Done);
    assert_eq!(status(&queue, 1), Status::Pending);
}

#[test]
fn cancelled_child_cancels_its_plan_and_retry_brings_both_back() {
    let mut queue = family(2);
    assert_eq!(queue.insert(NewJob { parent: Some(0), ..job(Kind::Render, 0, Some(0)) }), Ok(3));
    assert_eq!(queue.cancel(1), Outcome::Done);
    assert_eq!((status(&queue, 0), queue.job(0).unwrap().cause), (Status::Cancelled, Some(1)));
    assert_eq!((status(&queue, 2), status(&queue, 3)), (Status::Processing, Status::Cancelled));
    assert_eq!(queue.stage_run(1, 1), StageRun::Failed);
    assert_eq!(queue.retry(1), Outcome::Done);
    assert_eq!([0, 1, 3].map(|id| status(&queue, id)), [Status::WaitingForChildren, Status::Pending, Status::Pending]);
}

#[test]
fn no_job_waits_for_itself() {
    let mut queue = family(2);
    let claim = claim_of(&queue, 1);
    for above in [0, 1] {
        assert!(matches!(queue.wait_for(1, claim, &[above]), Outcome::Refused(_)));
    }
    assert_eq!(queue.wait_for(1, claim, &[2]), Outcome::Done);
    let claim = claim_of(&queue, 2);
    assert!(matches!(queue.wait_for(2, claim, &[1]), Outcome::Refused(_)));
}

#[test]
fn roots_that_wait_only_for_each_other_fail_instead_of_waiting_for_ever() {
    let mut queue = queue_of(vec![job(Kind::Plan, 0, None), job(Kind::Plan, 1, None)]);
    claim_all(&mut queue);
    assert_eq!(plan(&mut queue, 0, Planned::NothingYet), Outcome::Done);
    assert_eq!(queue.pause(0, Pause::User), Outcome::Done);
    // The other may still be resumed, so this one may wait for it.
    assert_eq!(plan(&mut queue, 1, Planned::NothingYet), Outcome::Done);
    assert_eq!(status(&queue, 1), Status::WaitingForChildren);
    assert_eq!(queue.resume(0), Outcome::Done);
    assert_eq!(queue.invariants(), Vec::<String>::new());
    claim_all(&mut queue);
    assert_eq!(plan(&mut queue, 0, Planned::NothingYet), Outcome::Done);
    assert_eq!((status(&queue, 0), status(&queue, 1)), (Status::Failed, Status::PendingNextStep));
}
