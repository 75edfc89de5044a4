//! Verbs against each other: isolation levels that would miss the other's work, cancelling against answering, claimers
//! side by side, keys used twice at once.

use crate::by_hand::*;
use dialectic_tests::*;
use postgres::Client;
use std::collections::BTreeSet;
use std::sync::Barrier;

#[test]
fn no_verb_works_above_read_committed() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let (_, leaves) = fanned(&mut client, 1);
    let job = leaves[0].job;
    let session: Uuid = one(&mut client, "select session_id from dialectic.jobs where id = $1", &[&job]);
    let claim = leaves[0].claim;
    for level in ["repeatable read", "serializable"] {
        for verb in [
            format!("select dialectic.complete_job('{job}', {claim}, 'done')"),
            format!("select dialectic.fail_job('{job}', {claim}, 'transient', 'no')"),
            format!("select dialectic.generate('{session}')"),
            format!("select dialectic.submit_stage('{session}')"),
            format!("select dialectic.cancel('{session}')"),
            format!("select dialectic.cancel('{job}')"),
            format!("select dialectic.pause('{session}')"),
            format!("select dialectic.resume('{session}')"),
            format!("select dialectic.retry('{session}')"),
            format!("select dialectic._wait_for('{job}', '{{}}')"),
            format!("select dialectic.job_request('{job}')"),
            "select dialectic.claim_jobs('late', 1)".to_owned(),
            format!("update dialectic.jobs set status = 'cancelled', completed_at = now() where id = '{job}'"),
        ] {
            client.batch_execute(&format!("begin isolation level {level}")).expect("begin");
            let error = refused_with(&mut client, &verb, &[], "25000", &level.to_uppercase());
            assert!(error.hint().is_some_and(|hint| hint.contains("READ COMMITTED")), "{verb}: {error:?}");
            client.batch_execute("rollback").expect("rollback");
        }
    }
    assert_eq!(status(&mut client, job), "processing");
}

fn cancel(client: &mut Client, job: Uuid) -> i32 {
    one(client, "select dialectic.cancel($1)", &[&job])
}

fn requested(client: &mut Client) -> Claim {
    let (_, leaves) = fanned(client, 2);
    client.query("select dialectic.job_request($1)", &[&leaves[0].job]).expect("job_request");
    leaves[0].clone()
}

fn kept(client: &mut Client, job: Uuid) -> (i64, String) {
    let row = client
        .query_one(
            "select (select count(*) from dialectic.contributions where job_id = $1), \
                    (select outcome from dialectic.model_calls where job_id = $1)",
            &[&job],
        )
        .expect("one call");
    (row.get(0), row.get(1))
}

#[test]
fn an_answer_that_comes_after_a_cancel_changes_nothing_but_its_call() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let leaf = requested(&mut client);
    let before = "select md5(string_agg(j::text, ',' order by j.id)) from dialectic.jobs j \
                  where j.id <> $1 and j.parent_job_id is not null";
    let others: String = one(&mut client, before, &[&leaf.job]);
    let (cancelled, outcome) = overlapping(&database, |a| cancel(a, leaf.job), |b| answer(b, &leaf, "late"));
    assert_eq!((cancelled, outcome.as_str()), (1, "stale"));
    assert_eq!(status(&mut client, leaf.job), "cancelled");
    assert_eq!(kept(&mut client, leaf.job), (0, "late".to_owned()));
    assert_eq!(one::<String>(&mut client, before, &[&leaf.job]), others);
    assert_sound(&mut client);
}

#[test]
fn a_cancel_that_comes_after_the_answer_finds_the_job_completed() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let leaf = requested(&mut client);
    let (outcome, cancelled) = overlapping(&database, |a| answer(a, &leaf, "in time"), |b| cancel(b, leaf.job));
    assert_eq!((outcome.as_str(), cancelled), ("completed", 0));
    assert_eq!(status(&mut client, leaf.job), "completed");
    assert_eq!(kept(&mut client, leaf.job), (1, "answered".to_owned()));
    assert_sound(&mut client);
}

#[test]
fn an_answer_that_comes_after_its_session_was_cancelled_is_late() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let leaf = requested(&mut client);
    let session: Uuid = one(&mut client, "select session_id from dialectic.jobs where id = $1", &[&leaf.job]);
    let (cancelled, outcome) = overlapping(&database, |a| cancel(a, session), |b| answer(b, &leaf, "late"));
    assert_eq!((cancelled, outcome.as_str()), (3, "stale"), "two leaves and their root");
    assert_eq!(kept(&mut client, leaf.job), (0, "late".to_owned()));
    assert_eq!(session_status(&mut client, session), "cancelled");
    assert_sound(&mut client);
}

#[test]
fn eight_claimers_at_once_get_every_job_and_none_twice() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let project = fan_project(&mut client, 40);
    for _ in 0..3 {
        begin(&mut client, project, &["sim-a", "sim-b"]);
    }
    plan_roots(&mut client, 6, "waiting_for_children");
    let ready = "select count(*) from dialectic.jobs where status = 'pending'";
    assert_eq!(one::<i64>(&mut client, ready, &[]), 240);
    let claimers: Vec<Client> = (0..8).map(|_| database.connect()).collect();
    let start = Barrier::new(8);
    let taken: Vec<Claim> = std::thread::scope(|scope| {
        let running: Vec<_> = claimers
            .into_iter()
            .enumerate()
            .map(|(number, mut claimer)| {
                let start = &start;
                scope.spawn(move || {
                    let mut own = Vec::new();
                    start.wait();
                    eventually("nothing is left to claim", || {
                        own.extend(claim(&mut claimer, &format!("claimer {number}"), 7));
                        one::<i64>(&mut claimer, ready, &[]) == 0
                    });
                    own
                })
            })
            .collect();
        running.into_iter().flat_map(|one| one.join().expect("a claimer")).collect()
    });
    assert_eq!(taken.len(), 240);
    assert_eq!(taken.iter().map(|c| c.job).collect::<BTreeSet<_>>().len(), 240, "jobs");
    assert_eq!(taken.iter().map(|c| c.claim).collect::<BTreeSet<_>>().len(), 240, "fences");
    assert_sound(&mut client);
}

#[test]
fn a_job_that_another_claimer_is_taking_is_passed_over_and_not_waited_for() {
    let database = Database::by_hand();
    let (mut client, mut other) = (database.connect(), database.connect());
    let project = fan_project(&mut client, 3);
    begin(&mut client, project, &["sim-a"]);
    plan_roots(&mut client, 1, "waiting_for_children");
    client.batch_execute("begin").expect("begin");
    let first = claim(&mut client, "first", 1);
    other.batch_execute("set lock_timeout = '1s'").expect("set");
    let rest = claim(&mut other, "second", 10);
    client.batch_execute("commit").expect("commit");
    assert_eq!((first.len(), rest.len()), (1, 2));
    assert!(rest.iter().all(|taken| taken.job != first[0].job));
}

#[test]
fn a_key_used_twice_at_once_makes_one_project() {
    let database = Database::new();
    let mut client = database.connect();
    let create = |client: &mut Client| -> Uuid {
        one(
            client,
            "select dialectic.create_project('Law', 'One?', process => 'essay', idempotency_key => 'once')",
            &[],
        )
    };
    let (first, second) = overlapping(&database, create, create);
    assert_eq!(first, second);
    assert_eq!(one::<i64>(&mut client, "select count(*) from dialectic.projects", &[]), 1);
    assert_eq!(one::<i64>(&mut client, "select count(*) from dialectic.resources", &[]), 1);
}

#[test]
fn a_stage_generated_twice_at_once_has_one_root_for_each_model() {
    let database = Database::new();
    let mut client = database.connect();
    let project = fan_project(&mut client, 1);
    let session: Uuid = one(&mut client, "select dialectic.start_session($1, '{sim-a,sim-b}')", &[&project]);
    let generate = |client: &mut Client| -> Vec<Uuid> {
        column(client, "select job_id from dialectic.generate($1, idempotency_key => 'once')", &[&session])
    };
    let (first, second) = overlapping(&database, generate, generate);
    assert_eq!(first, second);
    assert_eq!(one::<i64>(&mut client, "select count(*) from dialectic.jobs where parent_job_id is null", &[]), 2);
}

#[test]
fn a_second_generate_without_a_key_is_refused_while_the_first_runs() {
    let database = Database::new();
    let mut client = database.connect();
    let project = fan_project(&mut client, 1);
    let session: Uuid = one(&mut client, "select dialectic.start_session($1, '{sim-a,sim-b}')", &[&project]);
    let generate = "select job_id from dialectic.generate($1)";
    let (roots, error) = overlapping(
        &database,
        |a| column::<Uuid>(a, generate, &[&session]),
        |b| refused_with(b, generate, &[&session], "55006", "fan"),
    );
    assert_eq!(roots.len(), 2);
    assert!(error.hint().is_some_and(|hint| hint.contains("dialectic.wait")), "{error:?}");
    assert_eq!(one::<i64>(&mut client, "select count(*) from dialectic.jobs where parent_job_id is null", &[]), 2);
}
