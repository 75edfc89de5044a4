//! The essay process from end to end, and that it is planned from data.

use dialectic_tests::*;

#[test]
fn an_essay_takes_n_then_n_squared_then_n_cubed_plus_n_squared_plus_n_calls() {
    let database = Database::new();
    let mut client = database.connect();
    let all = ["sim-a", "sim-b", "sim-c"];
    for n in 1..=3usize {
        let session: Uuid =
            one(&mut client, "select dialectic.run('Why laws?', models => $1, process => 'essay')", &[&&all[..n]]);
        work(&mut client);
        let calls: Vec<i64> = column(
            &mut client,
            "select count(*) from dialectic.model_calls c join dialectic.jobs j on j.id = c.job_id \
             join dialectic.stage_runs r on r.id = j.stage_run_id where c.session_id = $1 group by r.stage, r.created_at order by r.created_at",
            &[&session],
        );
        let n = n as i64;
        assert_eq!(calls, [n, n * n, n * n * n + n * n + n]);
        assert_eq!(
            one::<String>(&mut client, "select status from dialectic.sessions where id = $1", &[&session]),
            "completed"
        );
        assert_eq!(
            one::<i64>(&mut client, "select count(*) from dialectic.documents where session_id = $1", &[&session]),
            n + n * n + n
        );
    }
    let claimer = if preloaded() { "worker" } else { "run_pending" };
    assert_eq!(
        column::<String>(&mut client, "select distinct split_part(claimed_by, ':', 1) from dialectic.model_calls", &[]),
        [claimer]
    );
    assert_sound(&mut client);
}
