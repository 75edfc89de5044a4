//! What is changed in the catalog holds from the next job on: the worker knows a new model, and a provider that was mended.

use crate::ground::*;
use dialectic_tests::fake_provider::{Act, Provider};
use dialectic_tests::*;
use std::time::Duration;

#[test]
fn a_model_is_known_to_the_first_job_that_wants_it() {
    let database = Database::new();
    let mut client = database.connect();
    process(&mut client);
    let project = project(&mut client, 1);
    for number in 0..50 {
        let name = format!("new-{number}");
        client.execute("select dialectic.add_provider($1, 'simulator')", &[&name]).expect("add_provider");
        model(&mut client, &name, &name, "");
        begin(&mut client, project, &name);
    }
    work(&mut client);
    let failed: Vec<String> = column(
        &mut client,
        "select error_details ->> 'message' from dialectic.jobs where kind = 'execute' and status <> 'completed'",
        &[],
    );
    assert_eq!(failed, [""; 0]);
}

#[test]
fn a_provider_that_was_paused_goes_on_as_soon_as_it_is_mended() {
    let (provider, database) = (Provider::start(), Database::new());
    let mut client = database.connect();
    process(&mut client);
    provider.script("mended", vec![Act::text("Mended.")]);
    chat(&mut client, "mended", &provider, "");
    let project = project(&mut client, 2);
    for round in 0..50 {
        client.execute("select dialectic.set_secret('mended', 'env:DIALECTIC_LAW_NONE')", &[]).expect("set_secret");
        let session = begin(&mut client, project, "mended");
        work(&mut client);
        assert_eq!(jobs(&mut client, session), ["2 pending 0"], "round {round}");
        client.execute("select dialectic.set_secret('mended', null)", &[]).expect("set_secret");
        if !preloaded() {
            work(&mut client);
        }
        eventually_within(Duration::from_secs(10), &format!("round {round}: it goes on"), || {
            jobs(&mut client, session) == ["2 completed 1"]
        });
    }
}
