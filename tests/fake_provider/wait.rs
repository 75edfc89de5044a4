//! Decides how a 429 says when to come back: every form that providers have for it.
//!
//! Forms that know only whole seconds round up, as providers do. Never decides how long the wait is.

use serde_json::{Value, json};
use std::time::{Duration, SystemTime};

/// The form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Not at all.
    Unsaid,
    /// `retry-after: 2`.
    Seconds,
    /// `retry-after: 1.500`.
    Float,
    /// `retry-after: Sun, 06 Nov 1994 08:49:37 GMT`.
    Date,
    /// `retry-after-ms: 1500`.
    Millis,
    /// `x-ratelimit-reset-requests: 1m1.5s`, with nothing remaining.
    ResetRequests,
    /// `x-ratelimit-reset-tokens: 1500ms`, with nothing remaining.
    ResetTokens,
    /// `anthropic-ratelimit-requests-reset: 1994-11-06T08:49:37Z`, with nothing remaining.
    AnthropicReset,
    /// `google.rpc.RetryInfo` in the body.
    RetryInfo,
}

impl Wait {
    pub const ALL: [Self; 9] = [
        Self::Unsaid,
        Self::Seconds,
        Self::Float,
        Self::Date,
        Self::Millis,
        Self::ResetRequests,
        Self::ResetTokens,
        Self::AnthropicReset,
        Self::RetryInfo,
    ];

    /// What is added to the headers.
    pub(super) fn headers(self, wait: Duration, now: SystemTime) -> Vec<(String, String)> {
        let pairs: Vec<(&str, String)> = match self {
            Self::Unsaid | Self::RetryInfo => Vec::new(),
            Self::Seconds => vec![("retry-after", whole_seconds(wait).to_string())],
            Self::Float => vec![("retry-after", format!("{:.3}", wait.as_secs_f64()))],
            Self::Date => vec![("retry-after", http_date(now + wait))],
            Self::Millis => vec![("retry-after-ms", wait.as_micros().div_ceil(1000).to_string())],
            Self::ResetRequests => vec![
                ("x-ratelimit-limit-requests", "60".to_owned()),
                ("x-ratelimit-remaining-requests", "0".to_owned()),
                ("x-ratelimit-reset-requests", go_duration(wait)),
            ],
            Self::ResetTokens => vec![
                ("x-ratelimit-limit-tokens", "150000".to_owned()),
                ("x-ratelimit-remaining-tokens", "0".to_owned()),
                ("x-ratelimit-reset-tokens", go_duration(wait)),
            ],
            Self::AnthropicReset => vec![
                ("anthropic-ratelimit-requests-limit", "50".to_owned()),
                ("anthropic-ratelimit-requests-remaining", "0".to_owned()),
                ("anthropic-ratelimit-requests-reset", rfc_3339(now + wait)),
            ],
        };
        pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// What is added to the details of the error.
    pub(super) fn details(self, wait: Duration) -> Vec<Value> {
        match self {
            Self::RetryInfo => vec![json!({
                "@type": "type.googleapis.com/google.rpc.RetryInfo",
                "retryDelay": format!("{}s", wait.as_secs_f64()),
            })],
            _ => Vec::new(),
        }
    }
}

fn whole_seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

/// As Go prints it: `6m0s`, `1.5s`, `100ms`.
fn go_duration(time: Duration) -> String {
    let millis = time.as_micros().div_ceil(1000);
    let (minutes, seconds) = (millis / 60_000, (millis % 60_000) as f64 / 1000.0);
    match millis {
        0..1000 => format!("{millis}ms"),
        1000..60_000 => format!("{seconds}s"),
        _ => format!("{minutes}m{seconds}s"),
    }
}

/// Year, month, day, weekday counted from Sunday, and the second of the day, rounded up to a whole second.
fn civil(time: SystemTime) -> (i64, usize, i64, usize, u64) {
    let seconds = whole_seconds(time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default());
    let days = (seconds / 86_400) as i64;
    // Counted from 1 March of the year 0, a leap day is the last of its year, and eras of 400 years are equally long.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month as usize, day_of_year - (153 * from_march + 2) / 5 + 1, (days + 4) as usize % 7, seconds % 86_400)
}

pub(super) fn http_date(time: SystemTime) -> String {
    const DAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (year, month, day, weekday, second) = civil(time);
    let (hours, minutes, seconds) = (second / 3600, second / 60 % 60, second % 60);
    format!("{}, {day:02} {} {year} {hours:02}:{minutes:02}:{seconds:02} GMT", DAYS[weekday], MONTHS[month - 1])
}

pub(super) fn rfc_3339(time: SystemTime) -> String {
    let (year, month, day, _, second) = civil(time);
    let (hours, minutes, seconds) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}Z")
}

#[cfg(test)]
mod laws {
    use super::*;

    #[test]
    fn dates_are_those_of_the_standard() {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        assert_eq!(http_date(time), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(rfc_3339(time), "1994-11-06T08:49:37Z");
        assert_eq!(rfc_3339(SystemTime::UNIX_EPOCH + Duration::from_secs(951_782_399)), "2000-02-28T23:59:59Z");
        assert_eq!(rfc_3339(SystemTime::UNIX_EPOCH + Duration::from_millis(951_782_399_001)), "2000-02-29T00:00:00Z");
    }

    #[test]
    fn every_form_but_silence_says_the_wait() {
        let wait = Duration::from_millis(61_500);
        let said = |form: Wait| {
            let headers = form.headers(wait, SystemTime::UNIX_EPOCH);
            headers.last().map(|(name, value)| format!("{name}: {value}"))
        };
        let said: Vec<_> = Wait::ALL.into_iter().map(said).collect();
        let expected = [
            None,
            Some("retry-after: 62"),
            Some("retry-after: 61.500"),
            Some("retry-after: Thu, 01 Jan 1970 00:01:02 GMT"),
            Some("retry-after-ms: 61500"),
            Some("x-ratelimit-reset-requests: 1m1.5s"),
            Some("x-ratelimit-reset-tokens: 1m1.5s"),
            Some("anthropic-ratelimit-requests-reset: 1970-01-01T00:01:02Z"),
            None,
        ];
        assert_eq!(said, expected.map(|line| line.map(str::to_owned)));
        assert_eq!(Wait::RetryInfo.details(wait)[0]["retryDelay"], "61.5s");
        assert_eq!(go_duration(Duration::from_millis(100)), "100ms");
    }
}
