//! Decides which instant a date means, as time since the Unix epoch: in the three forms of HTTP and in that of RFC
//! 3339.
//!
//! A date before the epoch is the epoch: it has passed either way. Ignores the weekday. The crate `httpdate` refuses a
//! date with a wrong weekday, and reads the two digits of a year by a fixed century where RFC 9110 wants the nearest
//! one.

use std::time::Duration;
use time::format_description::BorrowedFormatItem;
use time::format_description::well_known::Rfc3339;
use time::macros::format_description;
use time::parsing::Parsed;
use time::{OffsetDateTime, PrimitiveDateTime};

/// `Sun, 06 Nov 1994 08:49:37 GMT`, `Sunday, 06-Nov-94 08:49:37 GMT`, `Sun Nov  6 08:49:37 1994`.
const HTTP_FORMS: [&[BorrowedFormatItem<'_>]; 3] = [
    format_description!(
        "[weekday repr:short case_sensitive:false], [day] [month repr:short case_sensitive:false] [year] \
         [hour]:[minute]:[second] GMT"
    ),
    format_description!(
        "[weekday repr:long case_sensitive:false], [day]-[month repr:short case_sensitive:false]-[year repr:last_two] \
         [hour]:[minute]:[second] GMT"
    ),
    format_description!(
        "[weekday repr:short case_sensitive:false] [month repr:short case_sensitive:false] [day padding:space] \
         [hour]:[minute]:[second] [year]"
    ),
];

/// A date of HTTP. `now` tells which century a year of two digits is of.
pub(super) fn http(text: &str, now: Duration) -> Option<Duration> {
    HTTP_FORMS.iter().find_map(|form| {
        let mut parsed = Parsed::new();
        let rest = parsed.parse_items(text.as_bytes(), form).ok()?;
        if !rest.is_empty() {
            return None;
        }
        if let Some(digits) = parsed.year_last_two() {
            parsed.set_year(nearest(digits.into(), year_of(now)))?;
        }
        Some(since_epoch(PrimitiveDateTime::try_from(parsed).ok()?.assume_utc()))
    })
}

/// A date of RFC 3339: `2024-02-29T23:59:59.5+01:00`.
pub(super) fn rfc3339(text: &str) -> Option<Duration> {
    OffsetDateTime::parse(text, &Rfc3339).ok().map(since_epoch)
}

fn since_epoch(date: OffsetDateTime) -> Duration {
    (date - OffsetDateTime::UNIX_EPOCH).try_into().unwrap_or(Duration::ZERO)
}

/// The year of an instant; after the last year of four digits, that one.
fn year_of(now: Duration) -> i32 {
    let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    OffsetDateTime::from_unix_timestamp(seconds).map_or(9999, OffsetDateTime::year)
}

/// The year with these last two digits that is at most fifty years ahead and less than fifty behind.
fn nearest(digits: i32, year: i32) -> i32 {
    let first = year - 49;
    first + (digits - first).rem_euclid(100)
}
