//! A call thread that panics ends its own call and nothing else.

use crate::load::*;
use dialectic_tests::server::*;
use dialectic_tests::*;
use std::time::Duration;

#[test]
fn a_call_that_panics_fails_its_job_and_not_the_server() {
    let (server, mut client) = Server::serving("");
    let pid = worker(&mut client);
    add_model(&mut client, "panicky", r#"{"panic": true}"#);
    client.execute("select dialectic.set_config('retry_base_seconds', '0')", &[]).expect("set_config");
    let session = essay(&mut client, &["panicky"]);
    essay(&mut client, &["sim-a"]);
    let status = "select status from dialectic.sessions where id = $1";
    within(Duration::from_secs(20), "the session fails", || {
        one::<String>(&mut client, status, &[&session]) == "failed"
    });
    let job: String =
        one(&mut client, "select status from dialectic.jobs where session_id = $1 and kind = 'execute'", &[&session]);
    assert_eq!(job, "retry_loop_failed");
    let calls: Vec<String> = column(
        &mut client,
        "select distinct format('%s %s', outcome, error_class) from dialectic.model_calls where session_id = $1",
        &[&session],
    );
    assert_eq!(calls, ["failed transient"]);
    soon("the other session is done", || {
        one(&mut client, "select count(*) = 1 from dialectic.sessions where status = 'completed'", &[])
    });
    assert_eq!(worker(&mut client), pid);
    assert_eq!(server.beginnings().len(), 1, "the server did not go down");
    assert_sound(&mut client);
}
