//! A provider that turns calls away: what it allows is used, nobody is charged for waiting, and nobody else waits.

use crate::ground::*;
use dialectic_tests::provider::{Act, Answer, Limit, Provider, Seen, Unit, Wait};
use dialectic_tests::*;
use postgres::Client;
use std::time::Duration;

/// What the storm is made of.
const CALLS: i32 = 200;
const PER_SECOND: f64 = 60.0;
const BURST: f64 = 10.0;
/// What an answer of the storm costs where tokens are counted.
const TOKENS: u64 = 100;
/// The calls of the other provider.
const OTHERS: i32 = 50;

/// How long these requests took, from the first to the last.
fn span(requests: &[Seen]) -> Duration {
    let (first, last) = (requests.iter().map(|seen| seen.at).min(), requests.iter().map(|seen| seen.at).max());
    last.expect("a request") - first.expect("a request")
}

/// What came of a storm.
struct Storm {
    took: Duration,
    turned_away: usize,
}

/// A storm against a provider with this limit, beside another that has none: its jobs are done, all with one attempt, and the other
/// provider's calls took at most so many times as long as they do alone.
fn storm(limit: Limit, configured: &str, slower: f64) -> Storm {
    let (raging, calm, database) = (Provider::start(), Provider::start(), Database::new());
    let mut client = database.connect();
    process(&mut client);
    raging.script("storm", vec![Act::answer(Answer::of("Rain.").tokens(10, TOKENS - 10))]);
    calm.script("calm", vec![Act::text("Sun.").late(Duration::from_millis(50))]);
    chat(&mut client, "storm", &raging, configured);
    chat(&mut client, "calm", &calm, ", max_concurrency => 5");

    let alone = calls(&mut client, "calm", OTHERS);
    work(&mut client);
    let before = calm.requests();
    raging.limit(limit);
    client.batch_execute("begin").expect("begin");
    let beside = calls(&mut client, "calm", OTHERS);
    let session = calls(&mut client, "storm", CALLS);
    client.batch_execute("commit").expect("commit");
    work(&mut client);

    assert_eq!(jobs(&mut client, session), [format!("{CALLS} completed 1")], "nobody is charged");
    for other in [alone, beside] {
        assert_eq!(jobs(&mut client, other), [format!("{OTHERS} completed 1")]);
    }
    let without = span(&before);
    let with = span(&calm.requests()[before.len()..]);
    let all = raging.requests();
    let answered: Vec<Seen> = all.iter().filter(|seen| seen.status == 200).cloned().collect();
    let storm = Storm { took: span(&answered), turned_away: all.len() - answered.len() };
    println!(
        "{CALLS} calls in {:.3} s, {} turned away; {OTHERS} others in {:.3} s, alone in {:.3} s",
        storm.took.as_secs_f64(),
        storm.turned_away,
        with.as_secs_f64(),
        without.as_secs_f64()
    );
    assert_eq!(answered.len(), CALLS as usize);
    assert!(with <= without.mul_f64(slower), "the others took {with:?}, alone {without:?}");
    recorded(&mut client, session, storm.turned_away);
    storm
}

/// Every request is a call in the table.
fn recorded(client: &mut Client, session: Uuid, turned_away: usize) {
    let counted = |client: &mut Client, outcome: &str| -> i64 {
        let query = "select count(*) from dialectic.model_calls where session_id = $1 and concat_ws(' ', outcome, error_class) = $2";
        one(client, query, &[&session, &outcome])
    };
    assert_eq!(counted(client, "answered"), i64::from(CALLS));
    assert_eq!(counted(client, "failed throttled"), turned_away as i64);
    let all: i64 = one(client, "select count(*) from dialectic.model_calls where session_id = $1", &[&session]);
    assert_eq!(all, i64::from(CALLS) + turned_away as i64);
    assert_sound(client);
}

fn limit(unit: Unit, each: f64) -> Limit {
    Limit { model: None, unit, per_second: PER_SECOND * each, burst: BURST * each, says: Wait::Millis }
}

/// The least time that the limit leaves.
fn least() -> Duration {
    Duration::from_secs_f64((f64::from(CALLS) - BURST) / PER_SECOND)
}

#[test]
fn a_limit_of_requests_that_is_known_is_used_up_to_a_tenth_and_nobody_is_charged() {
    let storm = storm(limit(Unit::Requests, 1.0), ", requests_per_minute => 3600", 1.5);
    assert!(storm.took <= least().mul_f64(1.1), "{:?} of {:?}", storm.took, least());
}

#[test]
fn a_limit_of_tokens_that_is_known_is_used_up_to_a_tenth_and_nobody_is_charged() {
    let storm = storm(limit(Unit::Tokens, TOKENS as f64), ", tokens_per_minute => 360000", 1.5);
    assert!(storm.took <= least().mul_f64(1.1), "{:?} of {:?}", storm.took, least());
}

#[test]
fn a_limit_that_is_not_known_is_learned_by_being_turned_away_and_nobody_is_charged() {
    let storm = storm(limit(Unit::Requests, 1.0), "", 2.0);
    assert!(storm.turned_away > 0, "nobody was turned away");
}

#[test]
fn who_is_turned_away_asks_again_when_told_and_not_all_at_once() {
    let storm = storm(limit(Unit::Requests, 1.0), "", 2.0);
    assert!(storm.turned_away <= 2 * CALLS as usize, "{} requests were in vain", storm.turned_away);
}
