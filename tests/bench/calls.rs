//! Model calls per second: essays by four models, all begun at once, with prompts and answers as long as real ones.
//!
//! From the first call that was opened to the last that was kept, as the engine recorded them. The simulator answers at once, so
//! all of the time is the engine's.

use crate::figure::{Bound, Figure, median};
use crate::floor::Floor;
use crate::ground::{Setting, WEALTH, all_completed, assert_done, assert_paid, fresh, model, sized, unlimited, worker};
use crate::process;
use dialectic_tests::*;
use postgres::Client;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

pub(crate) const MODELS: [&str; 4] = ["bench-a", "bench-b", "bench-c", "bench-d"];
/// n, then n², then n³+n²+n.
const CALLS_PER_ESSAY: i32 = 4 + 16 + 64 + 16 + 4;
/// Enough for the shortest answer, hardly more.
pub(crate) const WORDS: i32 = 375;
/// The shortest prompt and the shortest answer that count.
const PROMPT: i32 = 4096;
const ANSWER: i32 = 2048;

/// The least share of the floor.
const CALLS_RATIO: f64 = 0.35;

pub(crate) fn measure() -> Vec<Figure> {
    let essays = sized(50, 2);
    let (rate, details) = median_of_three(essays, simulated);
    let wide = {
        let _setting = Setting::new("dialectic.max_concurrent_calls", 256);
        run(essays, simulated)
    };
    let unpaid = run_in(unlimited(), essays, simulated, None);
    vec![
        Figure::new(
            format!("model calls per second, {essays} essays by 4 models at once"),
            rate,
            "/s",
            Bound::AtLeast(CALLS_RATIO),
            details,
        )
        .against(Floor::Calls),
        Figure::new("the same with 256 calls under way at most", wide.0, "/s", Bound::Free, json!({"runs": [wide.1]})),
        Figure::new("the same without wallet and budgets", unpaid.0, "/s", Bound::Free, json!({"runs": [unpaid.1]})),
    ]
}

fn simulated(client: &mut Client) {
    MODELS.iter().for_each(|name| model(client, name, 0, WORDS));
}

/// The rate of the run in the middle, and what there is to know of all three. `add_models` adds the models to a database.
pub(crate) fn median_of_three(essays: i32, add_models: impl Fn(&mut Client)) -> (f64, Value) {
    let runs: Vec<(f64, Value)> = (0..3).map(|_| run(essays, &add_models)).collect();
    let rates: Vec<f64> = runs.iter().map(|run| run.0).collect();
    let details: Vec<&Value> = runs.iter().map(|run| &run.1).collect();
    (median(&rates), json!({"runs": details}))
}

/// Calls per second of one run in a database of its own, each paid by a wallet and within the budget of its session.
pub(crate) fn run(essays: i32, add_models: impl Fn(&mut Client)) -> (f64, Value) {
    run_in(fresh(), essays, add_models, Some(WEALTH))
}

fn run_in(
    (_database, mut client): (Database, Client),
    essays: i32,
    add_models: impl Fn(&mut Client),
    budget: Option<i64>,
) -> (f64, Value) {
    add_models(&mut client);
    let commits = "select xact_commit from pg_stat_database where datname = current_database()";
    let commits_before: i64 = one(&mut client, commits, &[]);
    let wal: String = one(&mut client, "select pg_current_wal_insert_lsn()::text", &[]);
    let mut transaction = client.transaction().expect("a transaction");
    for essay in 0..essays {
        let prompt = request(essay);
        transaction
            .execute(
                "select dialectic.run($1, models => $2, process => 'essay', budget => $3)",
                &[&prompt.as_str(), &MODELS.as_slice(), &budget],
            )
            .expect("run");
    }
    transaction.commit().expect("commit");
    all_completed(&mut client);
    let pid = worker(&mut client);
    let cpu = process::cpu_seconds(pid);
    let wal: f64 =
        one(&mut client, "select (pg_current_wal_insert_lsn() - $1::text::pg_lsn)::double precision", &[&wal]);
    let calls = essays * CALLS_PER_ESSAY;
    assert_done(&mut client, calls);
    if budget.is_some() {
        assert_paid(&mut client, calls);
    }
    let sizes = assert_real(&mut client, calls);
    let seconds: f64 = one(
        &mut client,
        "select extract(epoch from max(finished_at) - min(started_at))::double precision from dialectic.model_calls",
        &[],
    );
    let commits: i64 = one::<i64>(&mut client, commits, &[]) - commits_before;
    let rate = f64::from(calls) / seconds;
    let details = json!({
        "calls": calls, "seconds": seconds, "per_second": rate, "bytes": sizes,
        "worker_cpu_ms_per_call": cpu * 1000.0 / f64::from(calls), "wal_bytes_per_call": wal / f64::from(calls), "commits": commits
    });
    (rate, details)
}

/// Prompts and answers are as long as promised, and no answer is there twice.
fn assert_real(client: &mut Client, calls: i32) -> Value {
    let mut sizes = json!({});
    for (what, from, least) in [
        ("prompts", "dialectic.resources where resource_type = 'turn_prompt'", PROMPT),
        ("answers", "dialectic.contributions", ANSWER),
    ] {
        let row = client
            .query_one(
                &format!(
                    "select min(octet_length(content)), avg(octet_length(content))::double precision, \
                     max(octet_length(content)), count(distinct md5(content)) from {from}"
                ),
                &[],
            )
            .expect("sizes");
        let smallest: i32 = row.get(0);
        assert!(smallest >= least, "one of the {what} has {smallest} bytes only");
        assert_eq!(row.get::<_, i64>(3), i64::from(calls), "different {what}");
        sizes[what] = json!({"least": smallest, "mean": row.get::<_, f64>(1), "most": row.get::<_, i32>(2)});
    }
    sizes
}

/// A request of its own for each essay, just long enough for a prompt of 4 kB around it.
fn request(essay: i32) -> String {
    const NOUNS: [&str; 24] = [
        "harbour",
        "ledger",
        "orchard",
        "signal",
        "timber",
        "village",
        "engine",
        "archive",
        "meadow",
        "charter",
        "bridge",
        "granary",
        "compass",
        "workshop",
        "estuary",
        "almanac",
        "furnace",
        "lantern",
        "quarry",
        "reservoir",
        "schedule",
        "tariff",
        "union",
        "vineyard",
    ];
    let mut random = StdRng::seed_from_u64(essay as u64);
    let mut text =
        format!("Essay {essay}: how should a town of {} people decide about its", random.random_range(900..90_000));
    while text.len() < 230 {
        text.push(' ');
        text.push_str(NOUNS.choose(&mut random).expect("a word"));
    }
    text.push('?');
    text
}
