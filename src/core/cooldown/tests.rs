use super::*;
use proptest::prelude::*;

const BACKOFF: Backoff = Backoff { base: Duration::from_secs(2), max: Duration::from_secs(300) };
const MINUTE: Duration = Duration::from_secs(60);

fn throttled(retry_after: Option<Duration>, is_news: bool) -> Signal {
    Signal { class: Some(Class::Throttled), retry_after, is_news, ..Signal::default() }
}

fn strike() -> Signal {
    Signal { class: Some(Class::Transient), is_strike: true, ..Signal::default() }
}

fn answer() -> Signal {
    Signal { is_answer: true, ..Signal::default() }
}

fn change(record: Option<Record>, signals: &[Signal]) -> Option<Change> {
    after_replies(record, signals, &BACKOFF, 0.0)
}

#[test]
fn answer_of_a_provider_without_record_changes_nothing() {
    assert_eq!(change(None, &[answer(), answer()]), None);
    let content = Signal { class: Some(Class::Content), ..answer() };
    assert_eq!(change(None, &[content]), None);
}

#[test]
fn throttled_provider_gets_the_pause_it_asks_for() {
    let record = Record { throttles: 1, failures: 0 };
    let expected = Change { record, free_after: Some(MINUTE), ends_pause: false };
    assert_eq!(change(None, &[throttled(Some(MINUTE), false)]), Some(expected));
}

#[test]
fn throttled_provider_that_names_no_time_gets_a_growing_pause() {
    let pauses = (0..4).map(|throttles| {
        let record = (throttles > 0).then_some(Record { throttles, failures: 0 });
        change(record, &[throttled(None, true)]).unwrap().free_after.unwrap().as_secs()
    });
    assert_eq!(pauses.collect::<Vec<_>>(), [2, 4, 8, 16]);
}

#[test]
fn late_reply_to_an_older_call_does_not_grow_the_pause() {
    let record = Record { throttles: 3, failures: 0 };
    let late = change(Some(record), &[throttled(Some(Duration::ZERO), false)]).unwrap();
    assert_eq!((late.record, late.free_after), (record, Some(Duration::ZERO)));
    let again = change(Some(record), &[throttled(Some(Duration::ZERO), true)]).unwrap();
    assert_eq!((again.record.throttles, again.free_after), (4, Some(Duration::from_millis(400))));
}

#[test]
fn fifth_strike_opens_the_circuit_and_an_answer_closes_it() {
    let four = change(None, &[strike(); 4]).unwrap();
    assert_eq!((four.record.failures, four.free_after), (4, None));
    let five = change(Some(four.record), &[strike()]).unwrap();
    assert_eq!((five.record.failures, five.free_after), (5, Some(BACKOFF.base)));
    let closed = change(Some(five.record), &[answer()]).unwrap();
    assert_eq!(closed, Change { record: Record::default(), free_after: None, ends_pause: true });
}

#[test]
fn answer_in_the_same_batch_keeps_the_circuit_closed() {
    let mixed = change(Some(Record { throttles: 0, failures: 4 }), &[strike(), answer()]).unwrap();
    assert_eq!((mixed.record.failures, mixed.free_after), (0, None));
}

#[test]
fn pause_that_comes_with_an_answer_is_kept() {
    let patient = Signal { retry_after: Some(MINUTE), ..answer() };
    assert_eq!(change(None, &[patient]).unwrap().free_after, Some(MINUTE));
}

#[test]
fn fallback_answers_for_a_shut_model_unless_it_is_shut_itself() {
    let free = Availability::default();
    let paused = Availability { is_paused: true, ..free };
    let resting = Availability { pause: MINUTE, ..free };
    let open = Availability { has_open_circuit: true, ..resting };
    let probing = Availability { has_open_circuit: true, ..free };
    for (own, fallback, is_last_attempt, expected) in [
        (free, Some(free), false, Answering::Own),
        (free, Some(free), true, Answering::Fallback),
        (resting, Some(free), false, Answering::Own),
        (paused, Some(free), false, Answering::Fallback),
        (open, Some(free), false, Answering::Fallback),
        (probing, Some(free), false, Answering::Own),
        (paused, Some(resting), false, Answering::Fallback),
        (paused, Some(paused), false, Answering::Own),
        (free, Some(open), true, Answering::Own),
        (free, Some(resting), true, Answering::Own),
        (paused, None, true, Answering::Own),
    ] {
        assert_eq!(answering(own, fallback, is_last_attempt), expected, "{own:?} {fallback:?} {is_last_attempt}");
    }
}

proptest! {
    #[test]
    fn more_throttled_replies_never_shorten_the_pause(throttles in 0..100_u32, is_news: bool) {
        let pause = |throttles| {
            change(Some(Record { throttles, failures: 0 }), &[throttled(None, is_news)]).unwrap().free_after
        };
        prop_assert!(pause(throttles) <= pause(throttles + 1));
        prop_assert!(pause(throttles) <= Some(BACKOFF.max));
    }

    #[test]
    fn pause_is_never_shorter_than_the_provider_asks(asked in 0..1_000_u64, throttles in 0..30_u32, is_news: bool) {
        let asked = Duration::from_secs(asked);
        let signals = [throttled(Some(asked), is_news), strike()];
        let change = change(Some(Record { throttles, failures: 2 }), &signals).unwrap();
        prop_assert!(change.free_after >= Some(asked));
    }
}
