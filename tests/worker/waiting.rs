//! Waiting for a session, and how it ends.

use crate::load::*;
use dialectic_tests::server::*;
use dialectic_tests::*;

#[test]
fn cancelled_wait_gives_the_plain_error() {
    // The library must leave out what Rust would add here.
    let server = Server::in_environment("", &[("RUST_BACKTRACE", "1")]);
    let mut client = server.served("law");
    model(&mut client, "slow", "600000");
    single_calls(&mut client, "slow", 1);
    let session: Uuid = one(&mut client, "select id from dialectic.sessions", &[]);
    client.batch_execute("set statement_timeout = '300 ms'").expect("a timeout");
    for call in [format!("call dialectic.wait('{session}')"), format!("begin; call dialectic.wait('{session}')")] {
        let error = client.batch_execute(&call).expect_err("a timeout");
        let error = error.as_db_error().expect("an error of the server");
        assert_eq!(error.code().code(), "57014");
        assert_eq!((error.message(), error.detail()), ("canceling statement due to statement timeout", None));
        let _ = client.batch_execute("rollback");
    }
}
