//! Decides how long a provider asks us to wait, from the headers of its response.
//!
//! | header | form |
//! |---|---|
//! | `retry-after-ms` | milliseconds |
//! | `retry-after` | seconds, or a date as HTTP writes it |
//! | `x-ratelimit-{limit,remaining,reset}-{requests,tokens}` | reset as `1h2m3.5s`; Azure: plain seconds |
//! | `anthropic-ratelimit-{requests,tokens,input-tokens,output-tokens}-{limit,remaining,reset}` | reset as an instant |
//!
//! An explicit `retry-after` wins. Otherwise an allowance that is used up makes us wait for its reset, whatever the
//! status: after a success that saves a call that the provider would throttle. If the provider throttles and no
//! allowance is used up, the first reset is the time to try again.
//!
//! A value that is negative or not a number is ignored, and so is a reset in the past: it is no reason to retry at
//! once. Never reads a clock, never waits, and never asks for more than a day.

mod date;
#[cfg(test)]
mod tests;

use std::time::Duration;

/// The longest wait. A provider that asks for more is tried once a day.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
/// Digits before the point; a number with more is no time.
const DIGITS: usize = 15;
const SECOND: u64 = 1_000_000_000;

/// The allowances of a provider: what stands before and behind the words limit, remaining and reset.
const ALLOWANCES: [(&str, &str); 6] = [
    ("x-ratelimit-", "-requests"),
    ("x-ratelimit-", "-tokens"),
    ("anthropic-ratelimit-requests-", ""),
    ("anthropic-ratelimit-tokens-", ""),
    ("anthropic-ratelimit-input-tokens-", ""),
    ("anthropic-ratelimit-output-tokens-", ""),
];

/// How long the headers of a response ask us to wait. `now` is the time since the Unix epoch.
pub fn retry_after(status: u16, headers: &[(String, String)], now: Duration) -> Option<Duration> {
    let wait = asked(headers, now).or_else(|| reset(status, headers, now))?;
    Some(wait.min(LONGEST))
}

/// The wait that is asked for outright.
fn asked(headers: &[(String, String)], now: Duration) -> Option<Duration> {
    let millis = || amount(value(headers, "retry-after-ms")?, SECOND / 1000);
    let wait = || {
        let text = value(headers, "retry-after")?;
        amount(text, SECOND).or_else(|| Some(date::http(text, now)?.saturating_sub(now)))
    };
    millis().or_else(wait)
}

/// The wait until an allowance is there again.
fn reset(status: u16, headers: &[(String, String)], now: Duration) -> Option<Duration> {
    let resets = || {
        ALLOWANCES.iter().filter_map(|(before, behind)| {
            let said = |word: &str| value(headers, &format!("{before}{word}{behind}"));
            // Azure says 0 or -1 of an allowance it does not count.
            if said("limit").is_some_and(|limit| is_zero(limit) || is_negative(limit)) {
                return None;
            }
            let wait = until(said("reset")?, now).filter(|wait| !wait.is_zero())?;
            Some((said("remaining").is_some_and(is_zero), wait))
        })
    };
    let used_up = resets().filter(|(is_used_up, _)| *is_used_up).map(|(_, wait)| wait).max();
    let turned_away = matches!(status, 429 | 503 | 529);
    used_up.or_else(|| if turned_away { resets().map(|(_, wait)| wait).min() } else { None })
}

/// The time until a reset, in each of its forms.
fn until(text: &str, now: Duration) -> Option<Duration> {
    // A plain number of more than a day is an instant in some count of its own.
    let seconds = || amount(text, SECOND).filter(|wait| *wait <= LONGEST);
    let instant = || Some(date::rfc3339(text)?.saturating_sub(now));
    span(text).or_else(seconds).or_else(instant)
}

/// The first header of that name, names being the same in any case.
fn value<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(given, _)| given.trim().eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}

fn is_zero(text: &str) -> bool {
    amount(text, SECOND).is_some_and(|amount| amount.is_zero())
}

fn is_negative(text: &str) -> bool {
    text.strip_prefix('-').is_some_and(|rest| amount(rest, SECOND).is_some())
}

/// A decimal number of units of so many nanoseconds. Digits rather than a float: nothing to round, no NaN, no exponent.
fn amount(text: &str, unit: u64) -> Option<Duration> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let are_digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let is_number = are_digits(whole) && are_digits(part) && !(whole.is_empty() && part.is_empty());
    if !is_number || whole.len() > DIGITS {
        return None;
    }
    let digits = |text: &str| text.bytes().fold(0_u128, |sum, b| sum * 10 + u128::from(b - b'0'));
    // Nobody tells the digits apart that come after these.
    let part = &part[..part.len().min(DIGITS)];
    let nanos = digits(whole) * u128::from(unit) + digits(part) * u128::from(unit) / 10_u128.pow(part.len() as u32);
    Some(duration(nanos))
}

/// A time as Go writes it: numbers, each with its unit.
fn span(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut sum = Duration::ZERO;
    while !rest.is_empty() {
        let number = rest.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
        let (number, behind) = rest.split_at(number);
        let unit = behind.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(behind.len());
        let (unit, behind) = behind.split_at(unit);
        sum = sum.saturating_add(amount(number, nanos_of(unit)?)?);
        rest = behind;
    }
    if text.is_empty() { None } else { Some(sum) }
}

fn nanos_of(unit: &str) -> Option<u64> {
    Some(match unit {
        "ns" => 1,
        // The micro sign, and the Greek letter it looks like.
        "us" | "\u{b5}s" | "\u{3bc}s" => 1000,
        "ms" => SECOND / 1000,
        "s" => SECOND,
        "m" => 60 * SECOND,
        "h" => 3600 * SECOND,
        _ => return None,
    })
}

fn duration(nanos: u128) -> Duration {
    let second = u128::from(SECOND);
    Duration::new((nanos / second).try_into().unwrap_or(u64::MAX), (nanos % second) as u32)
}
