//! The races that once stranded jobs, each run in every order in which its operations can fall.
//!
//! A race is a few scripts, one for each transaction involved; every merge of them starts from the same table, the
//! invariants hold after each operation, and the law named by the test holds at the end.

use dialectic_core::job::{Kind, Status};
use dialectic_core::queue::{Claim, Failure, Job, NewJob, Outcome, Pause, Planned, Queue, StageRun};
use std::collections::HashSet;

mod queue_rules;

const ME: u64 = 7;

fn job(kind: Kind, model: u64, step: Option<u64>) -> NewJob {
    NewJob {
        kind,
        parent: None,
        stage_run: 1,
        step,
        model,
        status: Status::Pending,
        max_retries: 1,
        run_at: 0,
        prerequisites: Vec::new(),
    }
}

fn queue_of(jobs: Vec<NewJob>) -> Queue {
    let mut queue = Queue::default();
    queue.claimer_starts(ME);
    for job in jobs {
        queue.insert(job).unwrap();
    }
    queue
}

/// Claims everything that is ready; the claim of job `n` is then found by its number.
fn claim_all(queue: &mut Queue) {
    queue.claim(ME, 0, usize::MAX);
}

fn claim_of(queue: &Queue, id: u64) -> u64 {
    queue.job(id).unwrap().claim_id.unwrap_or(u64::MAX)
}

fn complete(queue: &mut Queue, id: u64) -> Outcome {
    let claim = claim_of(queue, id);
    queue.complete(id, claim, vec![])
}

fn plan(queue: &mut Queue, id: u64, planned: Planned) -> Outcome {
    let claim = claim_of(queue, id);
    queue.plan(id, claim, planned)
}

fn status(queue: &Queue, id: u64) -> Status {
    queue.job(id).unwrap().status
}

/// A root (job 0) that waits for this many running children (jobs 1, 2, …).
fn family(children: usize) -> Queue {
    let mut queue = queue_of(vec![job(Kind::Plan, 0, None)]);
    claim_all(&mut queue);
    let child = job(Kind::Execute, 0, Some(0));
    assert_eq!(plan(&mut queue, 0, Planned::Children(vec![child; children])), Outcome::Done);
    claim_all(&mut queue);
    queue
}

type Act<'a> = &'a dyn Fn(&mut Queue);

/// Runs every merge of the scripts from the same start.
fn every_order(start: &Queue, scripts: &[Vec<Act>], law: &dyn Fn(&Queue)) {
    fn go(queue: Queue, at: &mut Vec<usize>, scripts: &[Vec<Act>], law: &dyn Fn(&Queue)) {
        assert_eq!(queue.invariants(), Vec::<String>::new());
        if at.iter().zip(scripts).all(|(at, script)| *at == script.len()) {
            return law(&queue);
        }
        for turn in 0..scripts.len() {
            if let Some(act) = scripts[turn].get(at[turn]) {
                let mut next = queue.clone();
                act(&mut next);
                at[turn] += 1;
                go(next, at, scripts, law);
                at[turn] -= 1;
            }
        }
    }
    go(start.clone(), &mut vec![0; scripts.len()], scripts, law);
}

#[test]
fn the_last_children_wake_their_parent_exactly_once() {
    let done = |id| move |queue: &mut Queue| drop(complete(queue, id));
    let (done_a, done_b, done_c) = (done(1), done(2), done(3));
    let scripts: [Vec<Act>; 3] = [vec![&done_a, &done_a], vec![&done_b], vec![&done_c]];
    every_order(&family(3), &scripts, &|queue| {
        assert_eq!(status(queue, 0), Status::PendingNextStep);
        assert_eq!(queue.job(0).unwrap().woken, 1);
        assert_eq!(queue.job(1).unwrap().answers, 1);
    });
}

#[test]
fn a_child_done_before_its_parent_waits_still_wakes_it() {
    let mut start = family(2);
    assert_eq!((complete(&mut start, 1), complete(&mut start, 2)), (Outcome::Done, Outcome::Done));
    assert_eq!(start.insert(NewJob { parent: Some(0), ..job(Kind::Render, 0, Some(0)) }), Ok(3));
    claim_all(&mut start);
    assert_eq!(status(&start, 0), Status::Processing);
    let done = |queue: &mut Queue| drop(complete(queue, 3));
    let wait = |queue: &mut Queue| drop(plan(queue, 0, Planned::NothingYet));
    every_order(&start, &[vec![&done], vec![&wait]], &|queue| {
        assert_eq!(status(queue, 0), Status::PendingNextStep);
        assert_eq!(queue.job(0).unwrap().woken, 2);
    });
}

#[test]
fn a_dependency_declared_after_its_job_has_ended_wakes_the_waiter_all_the_same() {
    let mut start = queue_of(vec![job(Kind::Combine, 0, None), job(Kind::Execute, 0, None)]);
    claim_all(&mut start);
    let done = |queue: &mut Queue| drop(complete(queue, 0));
    let wait = |queue: &mut Queue| drop(queue.wait_for(1, claim_of(queue, 1), &[0]));
    let late = |queue: &mut Queue| {
        let late = NewJob { prerequisites: vec![0], ..job(Kind::Index, 0, None) };
        assert_eq!(queue.insert(late), Ok(2));
    };
    every_order(&start, &[vec![&done], vec![&wait], vec![&late]], &|queue| {
        for waiter in [1, 2] {
            assert_eq!(status(queue, waiter), Status::Pending);
            assert_eq!(queue.job(waiter).unwrap().woken, 1);
        }
    });
}

#[test]
fn all_jobs_on_one_prerequisite_are_woken_or_fail_with_its_cause() {
    let mut start = queue_of(vec![job(Kind::Execute, 0, None); 4]);
    claim_all(&mut start);
    let wait = |id| move |queue: &mut Queue| drop(queue.wait_for(id, claim_of(queue, id), &[0]));
    let (a, b, c) = (wait(1), wait(2), wait(3));
    let done = |queue: &mut Queue| drop(complete(queue, 0));
    every_order(&start, &[vec![&a], vec![&b], vec![&c], vec![&done]], &|queue| {
        assert!((1..=3).all(|id| status(queue, id) == Status::Pending));
        assert!((1..=3).all(|id| queue.job(id).unwrap().woken == 1));
    });
    let fail = |queue: &mut Queue| drop(queue.fail(0, claim_of(queue, 0), Failure::Permanent));
    every_order(&start, &[vec![&a], vec![&b], vec![&c], vec![&fail]], &|queue| {
        assert!((1..=3).all(|id| status(queue, id) == Status::Failed));
        assert!((1..=3).all(|id| queue.job(id).unwrap().cause == Some(0)));
    });
}

#[test]
fn a_waiter_paused_while_its_prerequisite_ends_is_ready_when_resumed() {
    let mut start = queue_of(vec![job(Kind::Combine, 0, None), job(Kind::Execute, 0, None)]);
    claim_all(&mut start);
    let wait = |queue: &mut Queue| drop(queue.wait_for(1, claim_of(queue, 1), &[0]));
    let pause = |queue: &mut Queue| assert_eq!(queue.pause(1, Pause::User), Outcome::Done);
    let resume = |queue: &mut Queue| assert_eq!(queue.resume(1), Outcome::Done);
    let done = |queue: &mut Queue| drop(complete(queue, 0));
    every_order(&start, &[vec![&wait], vec![&pause, &resume], vec![&done]], &|queue| {
        assert_eq!(status(queue, 1), Status::Pending);
    });
}

/// The plan of a model whose second step needs the first of all models.
fn cross_model_plan(queue: &Queue, root: u64) -> Planned {
    let steps = |root: u64, step: u64| {
        let children = queue.job(root).unwrap().children.iter();
        children.filter_map(|id| queue.job(*id)).filter(move |job| job.spec.step == Some(step))
    };
    let done = |root, step| steps(root, step).count() > 0 && steps(root, step).all(|job| job.status.is_ended());
    let model = queue.job(root).unwrap().spec.model;
    let gone = |root| status(queue, root).is_ended();
    if steps(root, 0).count() == 0 {
        Planned::Children(vec![job(Kind::Execute, model, Some(0))])
    } else if done(root, 1) {
        Planned::NothingLeft
    } else if steps(root, 1).count() == 0 && [0, 1].into_iter().all(|r| gone(r) || done(r, 0)) {
        Planned::Children(vec![job(Kind::Execute, model, Some(1))])
    } else {
        Planned::NothingYet
    }
}

/// Every schedule of two claimers that each take one job, look, and later say what they found.
fn every_schedule(queue: Queue, held: Vec<(Claim, Planned)>, fails: bool, seen: &mut HashSet<String>) {
    assert_eq!(queue.invariants(), Vec::<String>::new());
    let told = |job: &Job| (job.status, job.news, job.status_before);
    let state: Vec<_> = queue.jobs().iter().map(told).collect();
    let holds: Vec<_> = held.iter().map(|(claim, planned)| (claim.job, planned)).collect();
    if !seen.insert(format!("{state:?} {holds:?}")) {
        return;
    }
    let mut taken = queue.clone();
    let claims = if held.len() < 2 { taken.claim(ME, 0, 1) } else { vec![] };
    if claims.is_empty() && held.is_empty() {
        assert!(queue.jobs().iter().all(|job| job.status.is_ended()), "{state:?}");
        assert!(fails || queue.stage_run(1, 2) == StageRun::Completed);
        return;
    }
    if let [claim] = claims[..] {
        let is_root = taken.job(claim.job).unwrap().is_root();
        let planned = if is_root { cross_model_plan(&taken, claim.job) } else { Planned::NothingLeft };
        let held = held.iter().cloned().chain([(claim, planned)]).collect();
        every_schedule(taken, held, fails, seen);
    }
    for turn in 0..held.len() {
        let mut rest = held.clone();
        let (claim, planned) = rest.remove(turn);
        if fails {
            let mut failed = queue.clone();
            let _ = failed.fail(claim.job, claim.claim_id, Failure::Permanent);
            every_schedule(failed, rest.clone(), fails, seen);
        }
        let mut next = queue.clone();
        let _ = next.plan(claim.job, claim.claim_id, planned);
        every_schedule(next, rest, fails, seen);
    }
}

fn states_of_two_roots(fails: bool) -> usize {
    let start = queue_of(vec![job(Kind::Plan, 0, None), job(Kind::Plan, 1, None)]);
    let mut seen = HashSet::new();
    every_schedule(start, vec![], fails, &mut seen);
    seen.len()
}

#[test]
fn two_roots_that_wait_for_each_others_steps_both_complete_in_every_schedule() {
    assert!(states_of_two_roots(false) > 50);
}

#[test]
fn a_model_that_fails_at_any_moment_leaves_nobody_waiting() {
    assert!(states_of_two_roots(true) > 200);
}
