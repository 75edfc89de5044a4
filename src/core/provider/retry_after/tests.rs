//! Every form of every header is understood, and no header makes us wait for nothing or retry too soon.

use super::*;
use proptest::prelude::*;

/// 6 November 1994, 08:49:37, the date that HTTP's own documents use.
const THEN: u64 = 784_111_777;
/// 1 January 2025.
const NOW: u64 = 1_735_689_600;

fn at(status: u16, now: u64, headers: &[(&str, &str)]) -> Option<Duration> {
    let headers: Vec<(String, String)> = headers.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    retry_after(status, &headers, Duration::from_secs(now))
}

fn millis(status: u16, headers: &[(&str, &str)]) -> Option<u128> {
    at(status, NOW, headers).map(|wait| wait.as_millis())
}

#[test]
fn milliseconds_and_seconds_are_asked_for_outright() {
    for (name, value, expected) in [
        ("retry-after-ms", "1500", 1500),
        ("retry-after-ms", "0.5", 0),
        ("Retry-After-Ms", " 250.75 ", 250),
        ("retry-after", "7", 7000),
        ("RETRY-AFTER", "1.25", 1250),
        ("retry-after", "0", 0),
        ("retry-after", "86401", 86_400_000),
        ("retry-after", "999999999999999", 86_400_000),
    ] {
        for status in [200, 429, 503] {
            assert_eq!(millis(status, &[(name, value)]), Some(expected), "{name}: {value}");
        }
    }
    assert_eq!(millis(429, &[("retry-after", "9"), ("retry-after-ms", "100")]), Some(100));
    assert_eq!(millis(429, &[("retry-after", "9"), ("retry-after-ms", "soon")]), Some(9000));
    assert_eq!(at(429, NOW, &[("retry-after-ms", "0.5")]), Some(Duration::from_micros(500)));
}

#[test]
fn a_date_is_read_in_all_three_forms_and_has_passed_or_not() {
    for date in ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"] {
        assert_eq!(at(503, THEN - 30, &[("retry-after", date)]), Some(Duration::from_secs(30)), "{date}");
        assert_eq!(at(503, THEN + 30, &[("retry-after", date)]), Some(Duration::ZERO), "{date}");
    }
    let new_year = [("retry-after", "Wed, 01 Jan 2025 00:00:59 GMT")];
    assert_eq!(millis(429, &new_year), Some(59_000));
    let leap_day = [("retry-after", "Thu, 29 Feb 2024 00:00:00 GMT")];
    assert_eq!(at(429, 1_709_164_800 - 1, &leap_day), Some(Duration::from_secs(1)));
}

#[test]
fn a_year_of_two_digits_is_of_the_century_that_is_near() {
    let rfc850 = |year: &str| date::http(&format!("Sunday, 01-Jan-{year} 00:00:00 GMT"), Duration::from_secs(NOW));
    let full = |year: &str| date::http(&format!("Sun, 01 Jan {year} 00:00:00 GMT"), Duration::ZERO);
    for (two, four) in [("25", "2025"), ("75", "2075"), ("76", "1976"), ("99", "1999"), ("00", "2000")] {
        assert_eq!(rfc850(two), full(four), "{two}");
        assert!(full(four).is_some());
    }
}

#[test]
fn a_date_that_no_calendar_has_is_not_known() {
    for date in [
        "Sun, 31 Nov 1994 08:49:37 GMT",
        "Wed, 29 Feb 2023 00:00:00 GMT",
        "Mon, 29 Feb 1900 00:00:00 GMT",
        "Sun, 00 Nov 2094 08:49:37 GMT",
        "Sun, 06 Nov 2094 24:00:00 GMT",
        "Sun, 06 Nov 2094 08:49 GMT",
        "Sun, 06 Nov 2094 08:49:37:00 GMT",
        "Sun, 06 Nov 2094 08:49:37 PST",
        "Sun, 06 Now 2094 08:49:37 GMT",
        "Sun, 06 Nov 94 20 08:49:37 GMT",
        "Sun Nov 6 2094 08:49:37",
    ] {
        assert_eq!(at(429, 0, &[("retry-after", date)]), None, "{date}");
    }
}

#[test]
fn what_is_no_time_is_not_known() {
    for value in [
        "",
        "-1",
        "-0",
        "n/a",
        "NaN",
        "inf",
        "1e300",
        "1e3",
        "+5",
        ".",
        "1.2.3",
        "0x10",
        "9999999999999999",
        "5 s",
        "٣",
    ] {
        assert_eq!(millis(429, &[("retry-after", value)]), None, "{value}");
        assert_eq!(millis(429, &[("retry-after-ms", value)]), None, "{value}");
        let headers = [("x-ratelimit-remaining-requests", "0"), ("x-ratelimit-reset-requests", value)];
        assert_eq!(millis(429, &headers), None, "{value}");
    }
    assert_eq!(millis(429, &[]), None);
}

#[test]
fn resets_are_read_as_go_writes_them() {
    for (text, nanos) in [
        ("6m0s", 360_000_000_000),
        ("1s", 1_000_000_000),
        ("100ms", 100_000_000),
        ("1h2m3.5s", 3_723_500_000_000),
        ("17µs", 17_000),
        ("17μs", 17_000),
        ("17us", 17_000),
        ("3ns", 3),
        (".5s", 500_000_000),
        ("2m59.56s", 179_560_000_000),
        ("55", 55_000_000_000),
        ("48h", 86_400_000_000_000),
    ] {
        let headers = [("X-RateLimit-Remaining-Tokens", "0"), ("X-RateLimit-Reset-Tokens", text)];
        assert_eq!(at(429, NOW, &headers).map(|wait| wait.as_nanos()), Some(nanos), "{text}");
    }
    for text in ["1", "1735689660", "6m0", "s", "1 s", "1y", "m1", "-1s", "1ss"] {
        let headers = [("x-ratelimit-remaining-tokens", "0"), ("x-ratelimit-reset-tokens", text)];
        assert_eq!(millis(429, &headers).is_some(), text == "1", "{text}");
    }
}

#[test]
fn resets_are_read_as_instants() {
    for (text, expected) in [
        ("2025-01-01T00:00:30Z", Some(30_000)),
        ("2025-01-01t00:00:30.25z", Some(30_250)),
        ("2025-01-01 00:00:30.1234567891234+00:00", Some(30_123)),
        ("2025-01-01T01:00:30+01:00", Some(30_000)),
        ("2024-12-31T18:30:30-05:30", Some(30_000)),
        ("2024-12-31T23:59:60Z", None),
        ("2025-01-03T00:00:00Z", Some(86_400_000)),
        ("2024-12-31T23:59:59Z", None),
        ("1969-12-31T23:59:59.5Z", None),
        ("2025-01-01T00:00:30", None),
        ("2025-13-01T00:00:30Z", None),
        ("2025-02-29T00:00:30Z", None),
        ("2025-01-01T00:00:30.Z", None),
        ("2025-01-01T00:00:30Z and more", None),
        ("2025-01-01T00:00:30+0100", None),
        ("2025-01-0µT00:00:30Z", None),
    ] {
        for dimension in ["requests", "tokens", "input-tokens", "output-tokens"] {
            let name = |word| format!("Anthropic-RateLimit-{dimension}-{word}");
            let headers = [(&*name("remaining"), "0"), (&*name("reset"), text)];
            assert_eq!(millis(429, &headers), expected, "{dimension}: {text}");
        }
    }
}

#[test]
fn what_is_asked_for_outright_wins_over_every_reset() {
    let headers = [
        ("x-ratelimit-remaining-requests", "0"),
        ("x-ratelimit-reset-requests", "1h"),
        ("anthropic-ratelimit-tokens-remaining", "0"),
        ("anthropic-ratelimit-tokens-reset", "2025-01-01T00:10:00Z"),
        ("retry-after", "2"),
    ];
    assert_eq!(millis(429, &headers), Some(2000));
    assert_eq!(millis(429, &headers[..4]), Some(3_600_000));
}

#[test]
fn who_is_turned_away_waits_for_the_last_allowance_that_is_used_up_else_for_the_first_reset() {
    let headers = |requests, tokens| {
        [
            ("x-ratelimit-limit-requests", "60"),
            ("x-ratelimit-remaining-requests", requests),
            ("x-ratelimit-reset-requests", "10s"),
            ("x-ratelimit-limit-tokens", "1000"),
            ("x-ratelimit-remaining-tokens", tokens),
            ("x-ratelimit-reset-tokens", "1m0s"),
        ]
    };
    for status in [429, 503, 529] {
        assert_eq!(millis(status, &headers("0", "0")), Some(60_000));
        assert_eq!(millis(status, &headers("0", "7")), Some(10_000));
        assert_eq!(millis(status, &headers("7", "0")), Some(60_000));
        assert_eq!(millis(status, &headers("7", "7")), Some(10_000));
        assert_eq!(millis(status, &headers("n/a", "-1")), Some(10_000));
        assert_eq!(millis(status, &[("x-ratelimit-reset-tokens", "3s")]), Some(3000));
    }
}

#[test]
fn a_success_waits_only_for_what_it_used_up() {
    let headers = |remaining| [("x-ratelimit-remaining-tokens", remaining), ("x-ratelimit-reset-tokens", "1m0s")];
    for status in [200, 400, 500] {
        assert_eq!(millis(status, &headers("0")), Some(60_000));
        for remaining in ["1", "-1", "n/a", "", "NaN", "0.5"] {
            assert_eq!(millis(status, &headers(remaining)), None, "{status}: {remaining}");
        }
        assert_eq!(millis(status, &headers("0")[1..]), None);
    }
}

#[test]
fn an_allowance_that_is_not_counted_is_never_used_up() {
    for limit in ["0", "-1"] {
        for remaining in ["0", "-1"] {
            for reset in ["0", "55", "1m0s"] {
                let headers = [
                    ("x-ratelimit-limit-tokens", limit),
                    ("x-ratelimit-remaining-tokens", remaining),
                    ("x-ratelimit-reset-tokens", reset),
                ];
                assert_eq!(millis(200, &headers), None);
                assert_eq!(millis(429, &headers), None, "nothing is known, and so the usual wait is better");
            }
        }
    }
    let limit_unknown = [
        ("x-ratelimit-limit-tokens", "n/a"),
        ("x-ratelimit-remaining-tokens", "0"),
        ("x-ratelimit-reset-tokens", "5s"),
    ];
    assert_eq!(millis(200, &limit_unknown), Some(5000));
}

#[test]
fn a_reset_that_has_passed_is_no_reason_to_come_back_at_once() {
    for reset in ["0s", "0", "0ms"] {
        let headers = [("x-ratelimit-remaining-requests", "0"), ("x-ratelimit-reset-requests", reset)];
        assert_eq!(millis(429, &headers), None, "{reset}");
    }
}

/// The calendar, counted day by day.
#[test]
fn every_day_of_four_centuries_follows_the_one_before() {
    let mut expected = 0_u64;
    for year in 1970..2370 {
        let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        for (month, length) in [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31].into_iter().enumerate() {
            for day in 1..=length + u64::from(is_leap && month == 1) {
                let date = format!("{year}-{:02}-{day:02}T00:00:00Z", month + 1);
                assert_eq!(date::rfc3339(&date), Some(Duration::from_secs(expected)), "{date}");
                expected += 86_400;
            }
        }
    }
}

fn names() -> impl Strategy<Value = String> {
    let allowance = (0..ALLOWANCES.len(), prop::sample::select(vec!["limit", "remaining", "reset"]))
        .prop_map(|(place, word)| format!("{}{word}{}", ALLOWANCES[place].0, ALLOWANCES[place].1));
    prop_oneof![Just("retry-after".to_owned()), Just("Retry-After-MS".to_owned()), allowance, ".{0,12}"]
}

fn values() -> impl Strategy<Value = String> {
    prop_oneof![
        ".{0,40}",
        any::<f64>().prop_map(|n| n.to_string()),
        any::<i64>().prop_map(|n| n.to_string()),
        "[0-9.]{1,40}",
        "([0-9.]{1,20}(h|m|s|ms|us|µs|ns)){1,4}",
        "[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{0,12})?(Z|[+-][0-9]{2}:[0-9]{2})",
        "(Sun|Sunday),? [0-9]{2}[ -](Jan|Feb|Dec|Foo)[ -][0-9]{1,5} [0-9]{2}:[0-9]{2}:[0-9]{2} GMT",
        "Sun (Jan|Feb|Dec) [ 0-9][0-9] [0-9]{2}:[0-9]{2}:[0-9]{2} [0-9]{4}",
    ]
}

proptest! {
    #[test]
    fn no_header_panics_or_keeps_us_away_for_more_than_a_day(
        status in any::<u16>(),
        headers in prop::collection::vec((names(), values()), 0..8),
        now in prop_oneof![any::<u64>(), 0..4_000_000_000_u64],
    ) {
        if let Some(wait) = retry_after(status, &headers, Duration::new(now, 999_999_999)) {
            prop_assert!(wait <= LONGEST);
        }
    }

    #[test]
    fn the_case_of_a_name_does_not_matter(header in (names(), values()), status in prop::sample::select(vec![200, 429])) {
        let (name, value) = header;
        let now = Duration::from_secs(NOW);
        let upper = retry_after(status, &[(name.to_ascii_uppercase(), value.clone())], now);
        prop_assert_eq!(retry_after(status, &[(name, value)], now), upper);
    }

    #[test]
    fn a_year_is_found_for_every_instant(year in 1970..10_000_i64, part in 0..365_u64) {
        let date = date::rfc3339(&format!("{year}-01-01T00:00:00Z")).unwrap();
        let now = date + Duration::from_secs(part * 86_400);
        // The same two digits in the same year are that year.
        let short = format!("Sunday, 01-Jan-{:02} 00:00:00 GMT", year % 100);
        prop_assert_eq!(date::http(&short, now), Some(date));
    }
}
