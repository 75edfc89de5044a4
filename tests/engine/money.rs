//! Money: what a call may cost is held before it leaves and settled when it is over, from the wallet of the owner and from the budget of
//! the session. Here is the ground its laws stand on. What 32 connections do to it at once is in the suite of the worker.

mod budgets;
mod holds;
mod paying;
mod settling;
mod wallets;

use crate::by_hand::*;
use dialectic_tests::*;
use postgres::Client;
use serde_json::{Value, json};

/// The owner of all that a test makes.
const OWNER: &str = "role:postgres";
const OPENING: i64 = 1_000_000;
/// Prices of the model `dear`, in micro-dollars a token.
const READ: i64 = 2;
const WRITTEN: i64 = 10;

/// A database whose worker is off, with the model `dear` and a wallet that has this in it.
fn funded(amount: i64) -> (Database, Client) {
    let database = Database::by_hand();
    let mut client = database.connect();
    client
        .batch_execute(&format!(
            "select dialectic.add_model('dear', 'simulator', max_output_tokens => 200, input_price => {READ}, output_price => {WRITTEN}); \
             select dialectic.set_config('retry_base_seconds', '0')"
        ))
        .expect("a model that costs");
    assert_eq!(one::<i64>(&mut client, "select dialectic.open_wallet($1, $2)", &[&OWNER, &amount]), amount);
    (database, client)
}

/// A session with so many texts to write, and the claims on them.
fn leaves(client: &mut Client, texts: i32) -> (Uuid, Vec<Claim>) {
    let project = fan_project(client, texts);
    let session = begin(client, project, &["dear"]);
    plan_roots(client, 1, "waiting_for_children");
    let leaves = claim(client, "hand", texts);
    assert_eq!(leaves.len(), texts as usize);
    (session, leaves)
}

/// A new claim on this job.
fn leaf(client: &mut Client, job: Uuid) -> Claim {
    let claimed = claim(client, "hand", 10);
    claimed.into_iter().find(|claim| claim.job == job).expect("the job is due")
}

/// As `leaves`, with one that has been asked for.
fn asked(client: &mut Client) -> (Uuid, Claim) {
    let (session, mut leaves) = leaves(client, 1);
    assert!(ask(client, &leaves[0]).is_some(), "there are funds");
    (session, leaves.remove(0))
}

/// The request of a claimed job; none when it cannot be asked now.
fn ask(client: &mut Client, claim: &Claim) -> Option<Value> {
    one(client, "select dialectic.job_request($1)", &[&claim.job])
}

/// What the call of a text holds.
fn price() -> i64 {
    let (_database, mut client) = funded(OPENING);
    let (_, claim) = asked(&mut client);
    held(&mut client, &claim)
}

/// Finishes a claimed job that read and wrote so many tokens; returns what complete_job says.
fn answer_with(client: &mut Client, claim: &Claim, read: i64, written: i64) -> String {
    let usage = json!({"input_tokens": read, "output_tokens": written});
    one(
        client,
        "select dialectic.complete_job($1, $2, 'A leaf is green.', 'stop', $3)",
        &[&claim.job, &claim.claim, &usage],
    )
}

/// What is in the wallet, and what is held of it.
fn purse(client: &mut Client) -> (i64, i64) {
    let row = client.query_one("select balance, held from dialectic.wallets where owner = $1", &[&OWNER]);
    let row = row.expect("a wallet");
    (row.get(0), row.get(1))
}

/// What the calls put into the ledger, in order.
fn entries(client: &mut Client) -> Vec<(String, i64)> {
    let rows = client.query(
        "select kind, amount from dialectic.ledger where owner = $1 and call_id is not null order by id",
        &[&OWNER],
    );
    rows.expect("the ledger").iter().map(|row| (row.get(0), row.get(1))).collect()
}

fn entry(kind: &str, amount: i64) -> (String, i64) {
    (kind.to_owned(), amount)
}

/// What the last call of a job held.
fn held(client: &mut Client, claim: &Claim) -> i64 {
    one(
        client,
        "select coalesce(held, 0) from dialectic.model_calls where job_id = $1 order by id desc limit 1",
        &[&claim.job],
    )
}

/// The only call of a job in words: its outcome, what it cost and what of that was not billed.
fn call(client: &mut Client, claim: &Claim) -> (String, i64, i64) {
    let row = client
        .query_one("select outcome, cost, unbilled from dialectic.model_calls where job_id = $1", &[&claim.job])
        .expect("one call");
    (row.get(0), row.get(1), row.get(2))
}

/// The books are right: the balance is the sum of the ledger, and nothing is held but by open calls.
fn assert_balanced(client: &mut Client) {
    let wrong: Vec<String> = column(
        client,
        "select format('%s: balance %s, ledger %s, held %s, open calls hold %s', w.owner, w.balance, l.amount, w.held, coalesce(o.held, 0)) \
         from dialectic.wallets w \
         left join (select owner, sum(amount) as amount from dialectic.ledger group by owner) as l using (owner) \
         left join (select s.owner, sum(c.held) as held from dialectic.model_calls c join dialectic.sessions s on s.id = c.session_id \
                    where c.outcome = 'open' group by s.owner) as o using (owner) \
         where w.balance <> coalesce(l.amount, 0) or w.held <> coalesce(o.held, 0)",
        &[],
    );
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Two hours later somebody else looks for work, and the calls of those who are gone are closed.
fn two_hours_later(client: &mut Client) {
    client
        .batch_execute("set dialectic.clock_offset = 7200; select count(*) from dialectic.claim_jobs('other', 1)")
        .expect("a claim");
}
