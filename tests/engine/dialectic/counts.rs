//! How many calls a dialectic takes and how many documents it gives, and that `explain` knows it before anything has run.

use super::*;
use std::collections::BTreeMap;

/// By stage and step.
type Counts = BTreeMap<(String, String), i64>;

fn counts(client: &mut Client, query: &str, session: Uuid) -> Counts {
    let rows = client.query(query, &[&session]).expect("counts");
    rows.iter().map(|row| ((row.get(0), row.get(1)), row.get(2))).filter(|(_, count)| *count > 0).collect()
}

#[test]
fn a_dialectic_takes_33_104_and_237_calls_for_18_46_and_84_documents_and_explain_foretells_each_step() {
    let all = ["sim-a", "sim-b", "sim-c"];
    for (models, calls, documents) in [(&all[..1], 33, 18), (&all[..2], 104, 46), (&all[..], 237, 84)] {
        let database = Database::by_hand();
        let mut client = database.connect();
        let session = run(&mut client, models);
        let explained = "select stage, step_key, calls from dialectic.explain($1)";
        let expected = counts(&mut client, explained, session);
        let promised = counts(&mut client, "select stage, step_key, documents from dialectic.explain($1)", session);
        assert_eq!((expected.len(), expected.values().sum::<i64>()), (33, calls));
        assert_eq!((promised.len(), promised.values().sum::<i64>()), (18, documents));
        assert_eq!(one::<i64>(&mut client, "select count(*) from dialectic.model_calls", &[]), 0);

        hand_over(&mut client);
        let called = "select run.stage, j.step_key, count(*) from dialectic.model_calls c \
                      join dialectic.jobs j on j.id = c.job_id join dialectic.stage_runs run on run.id = j.stage_run_id \
                      where c.session_id = $1 and c.outcome = 'answered' group by 1, 2";
        assert_eq!(counts(&mut client, called, session), expected);
        let written = "select stage, document_key, count(*) from dialectic.documents \
                       where session_id = $1 and complete and not stale group by 1, 2";
        assert_eq!(counts(&mut client, written, session), promised);
        let actual = "select stage, step_key, actual_calls from dialectic.explain($1)";
        assert_eq!(counts(&mut client, actual, session), expected);
        assert_eq!(counts(&mut client, explained, session), expected, "a run does not change what was explained");
        for stage in STAGES {
            let of_stage = format!("select stage, step_key, calls from dialectic.explain($1, '{stage}')");
            let expected = expected.clone().into_iter().filter(|((of, _), _)| of == stage).collect();
            assert_eq!(counts(&mut client, &of_stage, session), expected);
        }
        let made: i64 = one(&mut client, "select count(*) from dialectic.model_calls", &[]);
        assert_eq!(made, calls, "no call was made twice");
        let status: String = one(&mut client, "select status from dialectic.sessions where id = $1", &[&session]);
        assert_eq!(status, "completed");
        assert_sound(&mut client);
    }
}
