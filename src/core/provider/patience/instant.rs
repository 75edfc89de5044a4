//! Decides which instant a date means, as time since the Unix epoch: in the three forms of HTTP and in that of the internet
//! (RFC 3339).
//!
//! A date before the epoch is the epoch: it has passed either way. The name of a weekday is not held against its date. Never
//! guesses at a date that no calendar has.

use std::time::Duration;

const DAY: i64 = 24 * 60 * 60;
const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

/// A date of HTTP. `now` tells which century a year of two digits is of.
///
/// ```text
/// Sun, 06 Nov 1994 08:49:37 GMT
/// Sunday, 06-Nov-94 08:49:37 GMT
/// Sun Nov  6 08:49:37 1994
/// ```
pub(super) fn http(text: &str, now: Duration) -> Option<Duration> {
    let mut words = [""; 6];
    let mut count = 0;
    for word in text.split([' ', ',', '-']).filter(|word| !word.is_empty()) {
        *words.get_mut(count)? = word;
        count += 1;
    }
    let (day, month, year, time) = match (count, words) {
        (6, [_, day, month, year, time, zone]) if ["GMT", "UTC"].contains(&zone) => (day, month, year, time),
        (5, [_, month, day, time, year, _]) => (day, month, year, time),
        _ => return None,
    };
    let month = MONTHS.iter().position(|name| name.eq_ignore_ascii_case(month))? as i64 + 1;
    let year = match year.len() {
        4 => number(year)?,
        2 => nearest(number(year)?, year_of(now)),
        _ => return None,
    };
    let seconds = days(year, month, number(day)?)? * DAY + clock(time)?;
    Some(Duration::from_secs(seconds.try_into().unwrap_or(0)))
}

/// A date of the internet: `2024-02-29T23:59:59.5+01:00`.
pub(super) fn internet(text: &str) -> Option<Duration> {
    let (date, rest) = text.split_at_checked(10)?;
    let mut date = date.split('-');
    let mut next = |width| date.next().filter(|digits| digits.len() == width).and_then(number);
    let days = days(next(4)?, next(2)?, next(2)?)?;
    let rest = rest.strip_prefix(['T', 't', ' '])?;
    let (time, rest) = rest.split_at_checked(8)?;
    let end = rest.find(['Z', 'z', '+', '-'])?;
    let (part, zone) = rest.split_at(end);
    let nanos = match part.strip_prefix('.') {
        None if part.is_empty() => 0,
        None => return None,
        Some(digits) if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) => return None,
        Some(digits) => digits.bytes().chain([b'0'; 9]).take(9).fold(0, |sum, b| sum * 10 + u32::from(b - b'0')),
    };
    let seconds = days * DAY + clock(time)? - offset(zone)?;
    // Before the epoch the part of a second does not matter either.
    Some(u64::try_from(seconds).map_or(Duration::ZERO, |seconds| Duration::new(seconds, nanos)))
}

/// The seconds that a zone is ahead.
fn offset(zone: &str) -> Option<i64> {
    if zone.eq_ignore_ascii_case("z") {
        return Some(0);
    }
    let (sign, hours) = zone.split_at_checked(1)?;
    let seconds = clock(&format!("{hours}:00")).filter(|_| hours.len() == 5)?;
    Some(if sign == "-" { -seconds } else { seconds })
}

/// The seconds of a day at `hh:mm:ss`, which may be a leap second.
fn clock(time: &str) -> Option<i64> {
    let mut parts = time.split(':');
    let mut next = |most| parts.next().filter(|digits| digits.len() == 2).and_then(number).filter(|n| *n <= most);
    let seconds = next(23)? * 3600 + next(59)? * 60 + next(60)?;
    if parts.next().is_some() { None } else { Some(seconds) }
}

/// At most four digits.
fn number(digits: &str) -> Option<i64> {
    let are_digits = (1..=4).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
    if are_digits { digits.parse().ok() } else { None }
}

/// The days from the epoch to a date of the calendar.
fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    if !(1..=12).contains(&month) {
        return None;
    }
    let first = first_of(year, month);
    let next = if month == 12 { first_of(year + 1, 1) } else { first_of(year, month + 1) };
    if (1..=next - first).contains(&day) { Some(first + day - 1) } else { None }
}

/// The days from the epoch to the first of a month. Years begin in March here, so that the odd day is the last of its year,
/// and the lengths of the months from March on follow one line: 153 days in five of them.
fn first_of(year: i64, month: i64) -> i64 {
    const EPOCH: i64 = 719_468;
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leap_days + (153 * month + 2) / 5 - EPOCH
}

/// The year of an instant; after the last that has four digits, that one.
fn year_of(now: Duration) -> i64 {
    let days = i64::try_from(now.as_secs()).unwrap_or(i64::MAX) / DAY;
    // Never more than the true year, and only a few less as long as years have four digits.
    let guess = (1970 + days / 366).min(9999);
    (guess..=9999).take_while(|year| first_of(*year, 1) <= days).last().unwrap_or(guess)
}

/// The year with these last two digits that is at most fifty years ahead and less than fifty behind.
fn nearest(digits: i64, year: i64) -> i64 {
    let first = year - 49;
    first + (digits - first).rem_euclid(100)
}
