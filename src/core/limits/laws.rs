//! The laws of limits: never too many, never too fast, never slower than allowed, and nobody pays for another.
//!
//! They decide nothing; they hold [`super`] to what its header says. What a rate comes to is worked out here a second
//! time, from the numbers of the allowance alone.

use super::*;
use proptest::prelude::*;

mod histories;

const START: Duration = Duration::from_secs(1_000);
const NO_LIMIT: Allowance = Allowance { concurrency: None, requests_per_minute: None, tokens_per_minute: None };
/// Nanoseconds in a minute: with so many per minute, one takes `MINUTE / rate` nanoseconds.
const MINUTE: u128 = 60_000_000_000;

fn concurrency(most: u32) -> Allowance {
    Allowance { concurrency: Some(most), ..NO_LIMIT }
}

fn requests(per_minute: u32) -> Allowance {
    Allowance { requests_per_minute: Some(per_minute), ..NO_LIMIT }
}

fn tokens(per_minute: u32) -> Allowance {
    Allowance { tokens_per_minute: Some(per_minute), ..NO_LIMIT }
}

fn limits(of_provider: Allowance, of_model: Allowance) -> Limits {
    let mut limits = Limits::default();
    limits.allow("p", "m", of_provider, of_model, START);
    limits
}

/// Begins as soon as time allows it, and says when that was.
fn begin_in_time(limits: &mut Limits, size: u64, now: &mut Duration) -> Ticket {
    if let Some(Wait::Until(time)) = limits.next("p", "m", size, *now) {
        assert!(time > *now);
        let before = time - Duration::from_nanos(1);
        assert_eq!(limits.begin("p", "m", size, before).unwrap_err(), Wait::Until(time), "not a nanosecond early");
        *now = time;
    }
    limits.begin("p", "m", size, *now).expect("the time has come")
}

/// How many times a minute's nanoseconds a bucket holds: a tenth of a second of its rate, but at least one whole.
fn capacity(rate: u32) -> u128 {
    MINUTE.max(u128::from(rate) * 100_000_000)
}

#[test]
fn two_hundred_calls_at_sixty_a_second_take_what_they_must() {
    for (of_provider, of_model) in [(requests(3_600), NO_LIMIT), (NO_LIMIT, requests(3_600))] {
        let (mut limits, mut now) = (limits(of_provider, of_model), START);
        assert_eq!(limits.room("p", "m", 0, now), Some(6));
        for call in 0..200_u32 {
            let ticket = begin_in_time(&mut limits, 0, &mut now);
            if call >= 5 {
                assert_eq!(limits.room("p", "m", 0, now), Some(0), "one call for each that flows in");
            }
            limits.settle(ticket, 0, now);
        }
        assert_eq!(now - START, Duration::from_nanos(194_000_000_000_u64.div_ceil(60)));
    }
}

#[test]
fn a_call_larger_than_the_bucket_goes_when_it_is_full_and_delays_the_next() {
    // A hundred tokens a second: the bucket holds ten.
    let (mut limits, mut now) = (limits(tokens(6_000), NO_LIMIT), START);
    let large = limits.begin("p", "m", 1_000, now).expect("full");
    assert_eq!(limits.next("p", "m", 0, now), Some(Wait::Until(START + Duration::from_millis(9_900))), "in debt");
    assert_eq!(limits.next("p", "m", 5, now), Some(Wait::Until(START + Duration::from_millis(9_950))));
    assert_eq!(limits.next("p", "m", 1_000, now), Some(Wait::Until(START + Duration::from_secs(10))));
    now += Duration::from_millis(9_950);
    assert_eq!(limits.room("p", "m", 5, now), Some(1));
    assert_eq!(limits.room("p", "m", 1_000, now), Some(0));
    limits.settle(large, 1_000, now);
}

#[test]
fn what_was_reserved_too_much_comes_back_and_too_little_is_owed() {
    for (used, wait) in [(1_000, Some(9_910)), (500, Some(4_910)), (0, None), (1_500, Some(14_910)), (995, Some(9_860))]
    {
        let mut limits = limits(NO_LIMIT, tokens(6_000));
        let ticket = limits.begin("p", "m", 1_000, START).expect("full");
        limits.settle(ticket, used, START);
        let wait = wait.map(|millis| Wait::Until(START + Duration::from_millis(millis)));
        assert_eq!(limits.next("p", "m", 1, START), wait, "{used} used");
        if used == 0 {
            assert_eq!(limits.room("p", "m", 1, START), Some(10), "no more than it holds");
        }
    }
}

#[test]
fn a_place_is_free_again_only_when_a_call_comes_back() {
    let mut limits = limits(concurrency(2), NO_LIMIT);
    let later = START + Duration::from_secs(3_600);
    let first = limits.begin("p", "m", 1, START).expect("two places");
    let second = limits.begin("p", "other", 1, START).expect("one place");
    assert_eq!(limits.begin("p", "m", 1, later).unwrap_err(), Wait::ForAnother);
    limits.settle(first, 1, later);
    let third = limits.begin("p", "m", 1, later).expect("one came back");
    limits.give_back(second, later);
    assert_eq!(limits.room("p", "m", 1, later), Some(1));
    limits.settle(third, 1, later);
    assert_eq!(limits.room("p", "m", 1, later), Some(2));
}

#[test]
fn a_model_does_not_hold_back_its_sibling_and_the_provider_holds_back_both() {
    for narrow in [concurrency(1), requests(60), tokens(60)] {
        let mut of_model = limits(NO_LIMIT, narrow);
        let _first = of_model.begin("p", "m", 1, START).expect("room for one");
        assert!(of_model.begin("p", "m", 1, START).is_err());
        assert!(of_model.begin("p", "sibling", 1, START).is_ok());

        let mut of_provider = limits(narrow, NO_LIMIT);
        let _first = of_provider.begin("p", "m", 1, START).expect("room for one");
        assert!(of_provider.begin("p", "sibling", 1, START).is_err());
        assert_eq!(of_provider.room("other", "m", 1, START), None);
    }
}

#[test]
fn the_last_of_all_that_hold_a_call_back_decides() {
    // The slowest lets one begin each minute, the others each second; it may be any of the four.
    for slowest in 0..4 {
        let rate = |which| Some(if which == slowest { 1 } else { 60 });
        let of = |first| Allowance {
            concurrency: None,
            requests_per_minute: rate(first),
            tokens_per_minute: rate(first + 1),
        };
        let mut limits = limits(of(0), of(2));
        let _first = limits.begin("p", "m", 1, START).expect("all full");
        assert_eq!(limits.next("p", "m", 1, START), Some(Wait::Until(START + Duration::from_secs(60))));
        limits.rest("p", START + Duration::from_secs(90));
        assert_eq!(limits.next("p", "m", 1, START), Some(Wait::Until(START + Duration::from_secs(90))));
    }
}

#[test]
fn a_call_refused_by_one_clock_takes_nothing_from_the_other() {
    let mut limits = limits(requests(60_000), requests(60));
    let _only = limits.begin("p", "m", 0, START).expect("room for one");
    for _ in 0..1_000 {
        assert!(limits.begin("p", "m", 0, START).is_err());
    }
    assert_eq!(limits.room("p", "sibling", 0, START), Some(99));
}

#[test]
fn a_new_limit_holds_at_once_and_finds_what_is_under_way() {
    let mut limits = Limits::default();
    let early = limits.begin("p", "m", 1, START).expect("no limit");
    let allow = |limits: &mut Limits, allowance| limits.allow("p", "m", allowance, NO_LIMIT, START);
    allow(&mut limits, concurrency(1));
    assert_eq!(limits.next("p", "m", 1, START), Some(Wait::ForAnother));
    allow(&mut limits, concurrency(3));
    assert_eq!(limits.room("p", "m", 1, START), Some(2));
    limits.settle(early, 1, START);

    allow(&mut limits, requests(1));
    let _slow = limits.begin("p", "m", 1, START).expect("full");
    assert_eq!(limits.next("p", "m", 1, START), Some(Wait::Until(START + Duration::from_secs(60))));
    allow(&mut limits, requests(60));
    assert_eq!(limits.next("p", "m", 1, START), Some(Wait::Until(START + Duration::from_secs(1))));
    allow(&mut limits, NO_LIMIT);
    assert_eq!(limits.room("p", "m", 1, START), None);
}

#[test]
fn nobody_calls_a_resting_provider_and_the_longer_rest_holds() {
    let mut limits = limits(NO_LIMIT, NO_LIMIT);
    let end = START + Duration::from_secs(30);
    limits.rest("p", end);
    limits.rest("p", START + Duration::from_secs(10));
    let just_before = end - Duration::from_nanos(1);
    assert_eq!(limits.room("p", "m", 1, just_before), Some(0));
    assert_eq!(limits.begin("p", "sibling", 1, just_before).unwrap_err(), Wait::Until(end));
    assert_eq!(limits.room("other", "m", 1, START), None);
    assert!(limits.begin("p", "m", 1, end).is_ok());
}

#[test]
fn who_was_turned_away_comes_back_by_half_and_one_more_for_each_answer() {
    let mut limits = Limits::default();
    let start = Duration::ZERO;
    let mut tickets: Vec<Ticket> = (0..8).map(|_| limits.begin("p", "m", 0, start).unwrap()).collect();
    limits.narrow("p");
    for ticket in tickets.drain(..) {
        limits.settle(ticket, 0, start);
    }
    assert_eq!(limits.room("p", "m", 0, start), Some(4), "half of what was under way, and nothing for what went wrong");
    limits.narrow("p");
    limits.narrow("p");
    limits.narrow("p");
    assert_eq!(limits.room("p", "m", 0, start), Some(1), "never none");
    let ticket = limits.begin("p", "m", 0, start).unwrap();
    assert_eq!(limits.next("p", "m", 0, start), Some(Wait::ForAnother));
    limits.settle(ticket, 5, start);
    assert_eq!(limits.room("p", "m", 0, start), Some(2));
    for _ in 0..300 {
        let ticket = limits.begin("p", "m", 0, start).unwrap();
        limits.settle(ticket, 5, start);
    }
    assert_eq!(limits.room("p", "m", 0, start), None, "all is well again");
}

#[test]
fn a_half_open_circuit_lets_one_call_through_at_a_time() {
    let mut limits = limits(concurrency(9), NO_LIMIT);
    let before = limits.begin("p", "m", 1, START).expect("closed");
    limits.probe("p", true);
    assert_eq!(limits.begin("p", "m", 1, START).unwrap_err(), Wait::ForAnother, "one is under way");
    limits.settle(before, 1, START);
    assert_eq!(limits.room("p", "m", 1, START), Some(1));
    let _probe = limits.begin("p", "m", 1, START).expect("the probe");
    assert_eq!(limits.begin("p", "sibling", 1, START).unwrap_err(), Wait::ForAnother);
    limits.probe("p", false);
    assert_eq!(limits.room("p", "m", 1, START), Some(8));
}

#[test]
fn a_clock_that_goes_back_allows_nothing_twice() {
    let mut limits = limits(requests(60), NO_LIMIT);
    let ticket = limits.begin("p", "m", 0, START).expect("full");
    let (back, ready) = (START - Duration::from_secs(10), START + Duration::from_secs(1));
    assert_eq!(limits.next("p", "m", 0, back), Some(Wait::Until(ready)));
    limits.give_back(ticket, back);
    let _again = limits.begin("p", "m", 0, back).expect("given back");
    assert_eq!(limits.next("p", "m", 0, START), Some(Wait::Until(ready)));
}

#[test]
fn where_nothing_is_allowed_nothing_begins() {
    assert_eq!(limits(requests(0), NO_LIMIT).begin("p", "m", 0, START).unwrap_err(), Wait::Until(Duration::MAX));
    assert_eq!(limits(NO_LIMIT, tokens(0)).begin("p", "m", 0, START).unwrap_err(), Wait::Until(Duration::MAX));
    assert_eq!(limits(concurrency(0), NO_LIMIT).begin("p", "m", 0, START).unwrap_err(), Wait::ForAnother);
}

proptest! {
    #[test]
    fn no_window_sees_more_than_a_burst_and_the_rate(
        rate in prop_oneof![1..100_u32, 100..10_000_u32, any::<u32>()],
        of_provider in any::<bool>(),
        pauses in proptest::collection::vec(prop_oneof![Just(0), 0..1_000_u64, 0..3_000_000_000_u64], 1..120),
    ) {
        let (of_provider, of_model) = if of_provider { (requests(rate), NO_LIMIT) } else { (NO_LIMIT, requests(rate)) };
        let (mut limits, mut now, mut begun) = (limits(of_provider, of_model), START, Vec::new());
        for (turn, pause) in pauses.iter().enumerate() {
            now += Duration::from_nanos(*pause);
            for _ in 0..20 {
                let Ok(ticket) = limits.begin("p", "m", 0, now) else { break };
                // Some never leave and count for nothing; the others come back at once.
                if turn % 3 == 0 { limits.give_back(ticket, now) } else { limits.settle(ticket, 0, now); begun.push(now) }
            }
        }
        for (first, from) in begun.iter().enumerate() {
            for (last, to) in begun.iter().enumerate().skip(first) {
                let count = (last - first + 1) as u128;
                prop_assert!(count * MINUTE <= capacity(rate) + u128::from(rate) * (*to - *from).as_nanos());
            }
        }
    }

    #[test]
    fn whoever_always_waits_gets_the_whole_rate(
        rate in prop_oneof![1..100_u32, 100..10_000_u32, 10_000..10_000_000_u32],
        size in prop_oneof![Just(None), (1..3_000_u64).prop_map(Some)],
        calls in 2..400_u64,
    ) {
        let allowance = if size.is_some() { tokens(rate) } else { requests(rate) };
        let (mut limits, mut now) = (limits(allowance, NO_LIMIT), START);
        for _ in 0..calls {
            let ticket = begin_in_time(&mut limits, size.unwrap_or(0), &mut now);
            limits.settle(ticket, size.unwrap_or(0), now);
        }
        // The last goes when all before it are paid for and the bucket holds it, or is full.
        let each = u128::from(size.unwrap_or(1)) * MINUTE;
        let owed = (u128::from(calls) - 1) * each + each.min(capacity(rate));
        let least = owed.saturating_sub(capacity(rate)).div_ceil(u128::from(rate));
        let took = (now - START).as_nanos();
        prop_assert!(took >= least, "took {took}, at least {least}");
        // A call that needs the whole bucket waits for a whole nanosecond; nothing else is ever lost.
        let slack = if each >= capacity(rate) { u128::from(calls) } else { 0 };
        prop_assert!(took <= least + slack, "took {took}, at least {least}");
    }
}
