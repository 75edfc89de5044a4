//! A provider that turns calls away: what it allows is used, nobody is charged for waiting, and nobody else waits.

use crate::ground::*;
use dialectic_tests::fake_provider::{Act, Answer, Limit, Provider, Seen, Unit, Wait};
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
#[derive(Debug)]
struct Storm {
    took: Duration,
    turned_away: usize,
    /// How long the calls of the other provider took, and how long alone.
    others: (Duration, Duration),
}

impl Storm {
    /// Whether the other provider's calls took more than so many times as long as they do alone.
    fn slows_others(&self, at_most: f64) -> bool {
        self.others.0 > self.others.1.mul_f64(at_most)
    }

    /// Whether it took a tenth longer than the limit leaves.
    fn wastes_time(&self) -> bool {
        self.took > least().mul_f64(1.1)
    }
}

/// One of three storms is well: the machine may have stood still for a moment in one of them, and what is wrong is so in all.
fn one_of_three(storm: impl Fn() -> Storm, is_well: impl Fn(&Storm) -> bool) {
    let mut seen = Vec::new();
    while seen.last().is_none_or(|last| !is_well(last)) {
        assert!(seen.len() < 3, "{seen:#?}");
        seen.push(storm());
    }
}

/// A storm against a provider with this limit, beside another that has none: its jobs are done, all with one attempt.
fn storm(limit: Limit, configured: &str) -> Storm {
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
    let storm = Storm { took: span(&answered), turned_away: all.len() - answered.len(), others: (with, without) };
    println!(
        "{CALLS} calls in {:.3} s, {} turned away; {OTHERS} others in {:.3} s, alone in {:.3} s",
        storm.took.as_secs_f64(),
        storm.turned_away,
        with.as_secs_f64(),
        without.as_secs_f64()
    );
    assert_eq!(answered.len(), CALLS as usize);
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
    one_of_three(
        || storm(limit(Unit::Requests, 1.0), ", requests_per_minute => 3600"),
        |storm| !storm.wastes_time() && !storm.slows_others(1.5),
    );
}

#[test]
fn a_limit_of_tokens_that_is_known_is_used_up_to_a_tenth_and_nobody_is_charged() {
    one_of_three(
        || storm(limit(Unit::Tokens, TOKENS as f64), ", tokens_per_minute => 360000"),
        |storm| !storm.wastes_time() && !storm.slows_others(1.5),
    );
}

#[test]
fn a_limit_that_is_not_known_is_learned_by_being_turned_away_and_nobody_is_charged() {
    one_of_three(|| storm(limit(Unit::Requests, 1.0), ""), |storm| storm.turned_away > 0 && !storm.slows_others(2.0));
}

#[test]
fn who_is_turned_away_asks_again_when_told_and_not_all_at_once() {
    one_of_three(
        || storm(limit(Unit::Requests, 1.0), ""),
        |storm| storm.turned_away <= 2 * CALLS as usize && !storm.slows_others(2.0),
    );
}
