//! Waking under contention: however the ends of children, parents that begin to wait and late dependencies interleave,
//! every job that waits is woken, and woken once.

use crate::by_hand::*;
use dialectic_tests::*;
use postgres::Client;
use rand::Rng;
use rand::seq::SliceRandom;
use std::sync::Barrier;

#[test]
fn two_siblings_that_complete_at_once_wake_their_parent_exactly_once() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let (root, leaves) = fanned(&mut client, 2);
    record_moves(&mut client);
    let (first, second) = overlapping(&database, |a| answer(a, &leaves[0], "one"), |b| answer(b, &leaves[1], "two"));
    assert_eq!((first.as_str(), second.as_str()), ("completed", "completed"));
    assert_eq!(status(&mut client, root), "pending_next_step");
    assert_eq!(wakings(&mut client, root), (1, 0));
    plan_roots(&mut client, 1, "completed");
    assert_sound(&mut client);
}

#[test]
fn a_child_that_fails_while_its_sibling_completes_fails_their_parent_and_nobody_wakes_it() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let (root, leaves) = fanned(&mut client, 2);
    record_moves(&mut client);
    let (first, second) =
        overlapping(&database, |a| fail(a, &leaves[0], "permanent", "no"), |b| answer(b, &leaves[1], "two"));
    assert_eq!((first.as_str(), second.as_str()), ("failed", "completed"));
    assert_eq!(moves(&mut client, root), ["failed"]);
    assert_sound(&mut client);
}

/// A root that is planned again while its last child runs: the child is claimed, and so is the root.
fn root_claimed_beside_its_last_child(client: &mut Client) -> (Claim, Claim) {
    let (root, leaves) = fanned(client, 1);
    client
        .execute("update dialectic.jobs set status = 'pending_next_step' where id = $1", &[&root])
        .expect("a legal move");
    let claimed = claim(client, "planner", 10);
    assert_eq!(claimed.len(), 1);
    assert_eq!(claimed[0].job, root);
    record_moves(client);
    (claimed[0].clone(), leaves[0].clone())
}

fn plan(client: &mut Client, root: &Claim) -> String {
    one(client, "select dialectic.complete_job($1, $2)", &[&root.job, &root.claim])
}

#[test]
fn a_child_that_ends_before_its_parent_begins_to_wait_does_not_strand_it() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let (root, leaf) = root_claimed_beside_its_last_child(&mut client);
    let (child, parent) = overlapping(&database, |a| answer(a, &leaf, "done"), |b| plan(b, &root));
    assert_eq!((child.as_str(), parent.as_str()), ("completed", "completed"));
    assert_eq!(moves(&mut client, root.job), ["completed"]);
    assert_sound(&mut client);
}

#[test]
fn a_parent_that_begins_to_wait_while_its_last_child_ends_is_woken_once() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let (root, leaf) = root_claimed_beside_its_last_child(&mut client);
    let (parent, child) = overlapping(&database, |a| plan(a, &root), |b| answer(b, &leaf, "done"));
    assert_eq!((parent.as_str(), child.as_str()), ("waiting_for_children", "completed"));
    assert_eq!(moves(&mut client, root.job), ["waiting_for_children", "pending_next_step"]);
    plan_roots(&mut client, 1, "completed");
    assert_sound(&mut client);
}

fn wait_for(client: &mut Client, job: &Claim, prerequisites: &[Uuid]) -> String {
    one(client, "select dialectic._wait_for($1, $2)", &[&job.job, &prerequisites])
}

#[test]
fn all_three_jobs_that_wait_for_one_prerequisite_are_woken() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let (root, leaves) = fanned(&mut client, 5);
    for waiter in &leaves[1..4] {
        assert_eq!(wait_for(&mut client, waiter, &[leaves[0].job]), "waiting_for_prerequisite");
    }
    assert_eq!(wait_for(&mut client, &leaves[4], &[leaves[0].job, leaves[1].job]), "waiting_for_prerequisite");
    record_moves(&mut client);
    assert_eq!(answer(&mut client, &leaves[0], "done"), "completed");
    for waiter in &leaves[1..4] {
        assert_eq!(moves(&mut client, waiter.job), ["pending"]);
    }
    assert_eq!(moves(&mut client, leaves[4].job), [""; 0], "one of its two prerequisites has not ended");
    let woken = claim(&mut client, "hand", 100);
    assert_eq!(woken.iter().map(|c| c.job).collect::<Vec<_>>(), leaves[1..4].iter().map(|c| c.job).collect::<Vec<_>>());
    for leaf in &woken {
        answer(&mut client, leaf, "done");
    }
    let last = claim(&mut client, "hand", 100);
    assert_eq!((last.len(), last[0].job), (1, leaves[4].job));
    answer(&mut client, &last[0], "done");
    assert_eq!(wakings(&mut client, root), (1, 0));
    plan_roots(&mut client, 1, "completed");
    assert_sound(&mut client);
}

#[test]
fn a_dependency_on_a_job_that_has_ended_does_not_wait() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let (_, leaves) = fanned(&mut client, 2);
    answer(&mut client, &leaves[0], "done");
    assert_eq!(wait_for(&mut client, &leaves[1], &[leaves[0].job]), "pending");
    assert_eq!(claim(&mut client, "hand", 10).len(), 1);
    assert_sound(&mut client);
}

#[test]
fn a_dependency_declared_while_its_prerequisite_ends_does_not_wait() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let (_, leaves) = fanned(&mut client, 2);
    let (_, outcome) =
        overlapping(&database, |a| answer(a, &leaves[0], "done"), |b| wait_for(b, &leaves[1], &[leaves[0].job]));
    assert_eq!(outcome, "pending");
    assert_sound(&mut client);
}

#[test]
fn a_prerequisite_that_ends_while_a_dependency_on_it_is_declared_wakes_the_waiter() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let (_, leaves) = fanned(&mut client, 2);
    record_moves(&mut client);
    let (outcome, _) =
        overlapping(&database, |a| wait_for(a, &leaves[1], &[leaves[0].job]), |b| answer(b, &leaves[0], "done"));
    assert_eq!(outcome, "waiting_for_prerequisite");
    assert_eq!(moves(&mut client, leaves[1].job), ["waiting_for_prerequisite", "pending"]);
    assert_sound(&mut client);
}

#[test]
fn in_200_rounds_eight_last_children_at_the_same_instant_wake_their_parent_once() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let project = fan_project(&mut client, 8);
    record_moves(&mut client);
    let mut finishers: Vec<Client> = (0..8).map(|_| database.connect()).collect();
    let mut random = rand::rng();
    for round in 0..200 {
        begin(&mut client, project, &["sim-a"]);
        let root = plan_roots(&mut client, 1, "waiting_for_children")[0].job;
        let mut leaves = claim(&mut client, "hand", 100);
        assert_eq!(leaves.len(), 8);
        leaves.shuffle(&mut random);
        let start = Barrier::new(8);
        std::thread::scope(|scope| {
            for (finisher, leaf) in finishers.iter_mut().zip(&leaves) {
                let (start, late) = (&start, random.random_range(0..20_000));
                scope.spawn(move || {
                    start.wait();
                    (0..late).for_each(|_| std::hint::spin_loop());
                    assert_eq!(answer(finisher, leaf, "done"), "completed");
                });
            }
        });
        assert_eq!(wakings(&mut client, root), (1, 0), "round {round}");
        plan_roots(&mut client, 1, "completed");
    }
    assert_eq!(one::<i64>(&mut client, "select count(*) from dialectic.contributions", &[]), 1600);
    assert_eq!(one::<i64>(&mut client, "select count(*) from dialectic.sessions where status = 'completed'", &[]), 200);
    assert_sound(&mut client);
}

#[test]
fn two_roots_that_wait_for_each_others_steps_both_complete() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let session = generated(&mut client, &["sim-a", "sim-b"]);
    for _ in 0..2 {
        work(&mut client);
        client.query("select dialectic.submit_stage($1)", &[&session]).expect("submit_stage");
        client.query("select * from dialectic.generate($1)", &[&session]).expect("generate");
    }
    record_moves(&mut client);
    plan_roots(&mut client, 2, "waiting_for_children");
    let (mut a, mut b): (Vec<_>, Vec<_>) =
        claim(&mut client, "hand", 100).into_iter().partition(|c| c.model == "sim-a");
    assert_eq!((a.len(), b.len()), (4, 4), "pairwise: two theses, two reviewers");
    let (last_a, last_b) = (a.pop().expect("one"), b.pop().expect("one"));
    for leaf in a.iter().chain(&b) {
        answer(&mut client, leaf, "a pair");
    }
    let in_stage = "select count(*) from public.moves m where root and status = 'pending_next_step'";
    assert_eq!(one::<i64>(&mut client, in_stage, &[]), 0);
    overlapping(&database, |one| answer(one, &last_a, "a pair"), |other| answer(other, &last_b, "a pair"));
    // The first to come woke its own root, which had no job left; the second woke the other.
    assert_eq!(one::<i64>(&mut client, in_stage, &[]), 2);

    let roots = claim(&mut client, "planner", 10);
    assert_eq!(roots.len(), 2);
    let (first, second) = overlapping(&database, |one| plan(one, &roots[0]), |other| plan(other, &roots[1]));
    assert_eq!((first.as_str(), second.as_str()), ("waiting_for_children", "waiting_for_children"));
    assert_eq!(one::<i64>(&mut client, "select count(*) from dialectic.jobs where step_key = 'reduce'", &[]), 4);
    hand_over(&mut client);
    let ended: Vec<String> = column(
        &mut client,
        "select j.status from dialectic.jobs j join dialectic.stage_runs r on r.id = j.stage_run_id \
         where r.session_id = $1 and r.stage = 'synthesis' and j.parent_job_id is null",
        &[&session],
    );
    assert_eq!(ended, ["completed", "completed"]);
    assert_eq!(session_status(&mut client, session), "completed");
    assert_sound(&mut client);
}

#[test]
fn a_root_with_nothing_left_to_do_waits_for_the_other_model_and_is_woken_by_it() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let session = generated(&mut client, &["sim-a", "sim-b"]);
    for _ in 0..2 {
        work(&mut client);
        client.query("select dialectic.submit_stage($1)", &[&session]).expect("submit_stage");
        client.query("select * from dialectic.generate($1)", &[&session]).expect("generate");
    }
    let roots = plan_roots(&mut client, 2, "waiting_for_children");
    let root_a = roots.iter().find(|root| root.model == "sim-a").expect("a root").job;
    let (a, b): (Vec<_>, Vec<_>) = claim(&mut client, "hand", 100).into_iter().partition(|c| c.model == "sim-a");
    record_moves(&mut client);
    for leaf in &a {
        answer(&mut client, leaf, "a pair");
    }
    // Woken because its own jobs are done, it finds nothing to plan and waits with none running.
    assert_eq!(plan_roots(&mut client, 1, "waiting_for_children")[0].job, root_a);
    for leaf in &b {
        answer(&mut client, leaf, "a pair");
    }
    let alternating = ["pending_next_step", "processing", "waiting_for_children", "pending_next_step"];
    assert_eq!(moves(&mut client, root_a), alternating);
    assert_sound(&mut client);
}
