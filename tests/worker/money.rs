//! Money in a storm: 32 connections call, fail, crash, replay, cancel, pause, top up and change budgets at once, and nobody's wallet is
//! ever overdrawn, nobody is charged twice, and no hold outlives its call. Who does what is in the files below; what is looked at, and
//! what must be true when all is over, is in `books`.

mod books;
mod hand;
mod line;
mod people;

use dialectic_tests::server::*;
use dialectic_tests::*;
use line::Storm;
use postgres::Client;
use rand::SeedableRng;
use rand::rngs::StdRng;
use std::time::{Duration, Instant};

const SEED: u64 = 20_260_214;
/// How many calls the storm makes before it ends.
const CALLS: i64 = 5_000;
/// However slow the machine is, the storm ends.
const LIMIT: Duration = Duration::from_secs(240);

/// Who does what: 32 connections in all.
const HANDS: u64 = 12;
const RUNNERS: u64 = 3;
const PEOPLE: u64 = 6;
const BANKERS: u64 = 8;

/// How many owners have more than they need, how many have next to nothing, and how many have no wallet.
const RICH: usize = 12;
const POOR: usize = 6;
const FREE: usize = 2;

/// What the wallet of an owner is opened with; a call holds some 1,300.
pub(crate) fn opening(number: usize) -> Option<i64> {
    match number {
        0..RICH => Some(1_000_000_000),
        RICH..WALLETS => Some((number - RICH) as i64 * 500),
        _ => None,
    }
}

/// How many owners have a wallet: the first ones.
const WALLETS: usize = RICH + POOR;

pub(crate) fn owner(number: usize) -> String {
    format!("role:owner_{number}")
}

const TEXTS: i32 = 30;
const FAN: &str = r#"
    select dialectic.set_prompt('fan_seed', 'Brief.');
    select dialectic.set_prompt('fan_leaf', '{% block system %}Be brief.{% endblock %}{% block user %}{% include "shared_documents" %}Go on.{% endblock %}');
    select dialectic.define_process('fan', '[{"slug": "fan", "seed_prompt_template": "fan_seed", "recipe": {"steps": [
        {"step": 1, "key": "leaf", "name": "Leaf", "job_type": "execute", "prompt_template_name": "fan_leaf",
         "inputs_required": [{"type": "general_resource", "multiple": true}],
         "granularity_strategy": "per_source_document",
         "output_type": "leaf", "document_key": "leaf", "file_type": "markdown"}]}}]');
    select dialectic.add_model('dear', 'simulator', max_output_tokens => 100, input_price => 2, output_price => 12,
                               settings => '{"latency_ms": [5, 40], "answer_words": 40}');
    select dialectic.add_model('weak', 'simulator', max_output_tokens => 100, input_price => 1.5, output_price => 9,
                               settings => '{"latency_ms": [0, 60], "answer_words": 40, "fail_first": 1}');
    select dialectic.set_config('retry_base_seconds', '0');
"#;

/// The models, the process, a project of so many texts for each owner, and the wallets; returns the projects.
fn prepare(server: &Server, admin: &mut Client) -> Vec<Uuid> {
    admin.batch_execute(FAN).expect("the process fan");
    let mut projects = Vec::new();
    for number in 0..WALLETS + FREE {
        admin
            .batch_execute(&format!("create role owner_{number}; select dialectic.grant_user('owner_{number}')"))
            .expect("an owner");
        if let Some(amount) = opening(number) {
            let balance: i64 = one(admin, "select dialectic.open_wallet($1, $2)", &[&owner(number), &amount]);
            assert_eq!(balance, amount);
        }
        let mut client = server.connect("law");
        client.batch_execute(&format!("set session authorization owner_{number}")).expect("the owner");
        let project: Uuid =
            one(&mut client, "select dialectic.create_project('Fan', 'Fan out.', process => 'fan')", &[]);
        client
            .execute(
                "select dialectic.add_resource($1, 'text ' || n, 'Text ' || n) from generate_series(1, $2) as n",
                &[&project, &TEXTS],
            )
            .expect("texts");
        projects.push(project);
    }
    projects
}

#[test]
fn no_wallet_is_overdrawn_or_charged_twice_whatever_happens() {
    let (server, mut admin) = Server::serving("fsync = off\ndialectic.max_concurrent_calls = 4");
    let projects = prepare(&server, &mut admin);
    let storm = Storm::new(&server, projects);
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let storm = &storm;
        let random = |number: u64| StdRng::seed_from_u64(SEED + number);
        scope.spawn(move || people::keeper(storm, random(0), begun));
        scope.spawn(move || people::killer(storm, random(1)));
        scope.spawn(move || books::observer(storm));
        (0..HANDS).for_each(|n| drop(scope.spawn(move || hand::hand(storm, n, random(100 + n)))));
        (0..RUNNERS).for_each(|n| drop(scope.spawn(move || hand::runner(storm, random(200 + n)))));
        (0..PEOPLE).for_each(|n| drop(scope.spawn(move || people::person(storm, random(300 + n)))));
        (0..BANKERS).for_each(|n| drop(scope.spawn(move || people::banker(storm, random(400 + n)))));
    });
    println!("{} calls in {:?}: {:?}", storm.calls(), begun.elapsed(), storm.deeds());
    storm.assert_well();
    assert!(storm.calls() >= CALLS, "{} calls within {LIMIT:?}", storm.calls());
    // The one from before did not live through the crashes.
    let mut admin = server.connect("law");
    people::calm(&mut admin);
    println!("calm after {:?}", begun.elapsed());
    books::assert_settled(&mut admin, &storm);
    for wrong in ["deadlock detected", "wallets_balance_check", "cannot go from", "only added to"] {
        assert!(server.said(wrong).is_empty(), "the log of the server says: {wrong}");
    }
}
