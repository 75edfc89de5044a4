//! To be written.
use std::time::Duration;
/// How long the headers of a response ask us to stay away. `now` is the time since the Unix epoch.
pub fn patience(status: u16, headers: &[(String, String)], now: Duration) -> Option<Duration> {
    let _ = (status, headers, now);
    None
}
