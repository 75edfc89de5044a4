//! Decides how one connection goes: requests in, replies out at their pace, and when it is over.
//!
//! A client that goes away is noticed at once, also between two pieces and in silence: waiting is waiting for the client to go,
//! with a deadline. Never panics for anything that comes over the wire.

use super::Inner;
use super::act::End;
use super::gauge::UnderWay;
use super::http::{Incoming, Nothing};
use super::reply::{Reply, framed};
use std::io::{self, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How often a latch is looked at.
const MOMENT: Duration = Duration::from_millis(2);

/// Serves a connection until it ends.
pub(super) fn serve(inner: &Inner, socket: &TcpStream, number: u64) {
    let mut incoming = Incoming::new(socket);
    let mut is_used = false;
    loop {
        let request = match incoming.next() {
            Ok(request) => request,
            Err(Nothing::Gone) => return,
            Err(Nothing::Unreadable(what)) => {
                let _ = refuse(socket, what);
                return;
            }
        };
        // As if the request had crossed the end of the connection on its way.
        if is_used && inner.hangs_up() {
            return;
        }
        is_used = true;
        inner.is_busy(number, true);
        let begun = Instant::now();
        let decided = inner.decide(&request, number);
        inner.spent.fetch_add(begun.elapsed().as_nanos() as u64, Ordering::SeqCst);
        let Some((reply, under_way)) = decided else {
            let _ = refuse(socket, "JSON with a model");
            return;
        };
        if !matches!(send(inner, socket, &reply, request.is_last, under_way), Ok(true)) {
            return;
        }
        inner.is_busy(number, false);
    }
}

fn refuse(mut socket: &TcpStream, what: &str) -> io::Result<()> {
    let body = format!("{{\"error\":\"cannot read {what}\"}}").into_bytes();
    let headers =
        [("connection".to_owned(), "close".to_owned()), ("content-type".to_owned(), "application/json".to_owned())];
    let length = body.len() as u64;
    socket.write_all(&framed(400, &headers, &[body], Some(length), true).0)
}

/// Writes a reply; false when the connection ends with it.
fn send(
    inner: &Inner,
    mut socket: &TcpStream,
    reply: &Arc<Reply>,
    is_last: bool,
    under_way: UnderWay,
) -> io::Result<bool> {
    if gone_within(socket, reply.late) {
        return Ok(false);
    }
    let mut at = 0;
    let hold = |pieces: usize| match &reply.held {
        Some((after, latch)) if *after == pieces => {
            while latch.is_down() {
                if gone_within(socket, MOMENT) {
                    return true;
                }
            }
            false
        }
        _ => false,
    };
    if hold(0) {
        return Ok(false);
    }
    if is_last {
        socket.write_all(&reply.bytes[..reply.headers_end])?;
        socket.write_all(b"connection: close\r\n")?;
        at = reply.headers_end;
    }
    let is_whole = reply.end == End::Kept && reply.refrain.is_none();
    let mut under_way = Some(under_way);
    let speak = |letters: usize| inner.spoken.fetch_add(letters as u64, Ordering::SeqCst);
    if reply.every.is_zero() && reply.held.is_none() {
        if is_whole {
            under_way = None;
        }
        speak(reply.letters.iter().take(reply.ends.len()).sum());
        socket.write_all(&reply.bytes[at..])?;
    } else {
        // By the clock rather than by the gap, so that a busy machine does not stretch the whole.
        let mut due = Instant::now();
        for (piece, end) in reply.ends.iter().enumerate() {
            if gone_within(socket, due.saturating_duration_since(Instant::now())) || (piece > 0 && hold(piece)) {
                return Ok(false);
            }
            if is_whole && piece + 1 == reply.ends.len() {
                under_way = None;
            }
            speak(reply.letters.get(piece).copied().unwrap_or_default());
            socket.write_all(&reply.bytes[at..*end])?;
            at = *end;
            due += reply.every;
        }
    }
    if let Some(refrain) = &reply.refrain {
        loop {
            socket.write_all(refrain)?;
            if gone_within(socket, reply.every) {
                return Ok(false);
            }
        }
    }
    match reply.end {
        End::Kept => return Ok(!is_last),
        End::Silence(_) => while !gone_within(socket, Duration::from_secs(3600)) {},
        End::Closed(_) => {}
        End::Reset(_) => reset_on_close(socket)?,
    }
    drop(under_way);
    Ok(false)
}

/// Waits for so long; true as soon as the client is gone.
fn gone_within(socket: &TcpStream, time: Duration) -> bool {
    if time.is_zero() {
        return false;
    }
    let mut poll = libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLRDHUP, revents: 0 };
    let time = libc::timespec { tv_sec: time.as_secs() as libc::time_t, tv_nsec: i64::from(time.subsec_nanos()) };
    // SAFETY: one descriptor that is open as long as the socket is borrowed; no signal mask.
    unsafe { libc::ppoll(&mut poll, 1, &time, std::ptr::null()) > 0 }
}

/// Closing throws away what is not yet sent and tells the client so.
fn reset_on_close(socket: &TcpStream) -> io::Result<()> {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    // SAFETY: the option takes a `linger`, and its size is given.
    let said = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            std::ptr::from_ref(&linger).cast(),
            size_of::<libc::linger>() as libc::socklen_t,
        )
    };
    if said == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
