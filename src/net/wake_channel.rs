//! A channel whose receiver waits on a socket, because the main thread waits for sockets and latches at once.
//!
//! One byte is written however many results there are, until the receiver has looked.

use std::io::{Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};

/// The end that threads send results on.
pub(crate) struct WakeSender<T> {
    sender: Sender<T>,
    wakeup: Arc<Wakeup>,
}

/// The end that the main thread reads; its socket is readable while there are results.
pub(crate) struct WakeReceiver<T> {
    receiver: Receiver<T>,
    socket: UnixStream,
    wakeup: Arc<Wakeup>,
}

struct Wakeup {
    socket: UnixStream,
    is_sent: AtomicBool,
}

/// A new channel.
pub(crate) fn wake_channel<T>() -> std::io::Result<(WakeSender<T>, WakeReceiver<T>)> {
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    theirs.set_nonblocking(true)?;
    let (sender, receiver) = mpsc::channel();
    let wakeup = Arc::new(Wakeup { socket: theirs, is_sent: AtomicBool::new(false) });
    Ok((WakeSender { sender, wakeup: Arc::clone(&wakeup) }, WakeReceiver { receiver, socket: ours, wakeup }))
}

impl<T> Clone for WakeSender<T> {
    fn clone(&self) -> Self {
        WakeSender { sender: self.sender.clone(), wakeup: Arc::clone(&self.wakeup) }
    }
}

impl<T> WakeSender<T> {
    pub(crate) fn send(&self, result: T) {
        // The receiver may be dropped; then nobody needs the result.
        let _ = self.sender.send(result);
        if !self.wakeup.is_sent.swap(true, Ordering::SeqCst) {
            // A full socket is readable already, and a closed one has no reader.
            let _ = (&self.wakeup.socket).write(&[1]);
        }
    }
}

impl<T> WakeReceiver<T> {
    pub(crate) fn socket(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// All results since the last time. A result that arrives meanwhile wakes again.
    pub(crate) fn drain(&self) -> Vec<T> {
        let mut buffer = [0u8; 64];
        while matches!((&self.socket).read(&mut buffer), Ok(count) if count > 0) {}
        self.wakeup.is_sent.store(false, Ordering::SeqCst);
        self.receiver.try_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readable_bytes<T>(receiver: &WakeReceiver<T>) -> usize {
        let mut buffer = [0u8; 64];
        (&receiver.socket).read(&mut buffer).unwrap_or(0)
    }

    #[test]
    fn many_results_write_one_byte_until_drained() {
        let (sender, receiver) = wake_channel().unwrap();
        (0..100).for_each(|number| sender.send(number));
        assert_eq!(readable_bytes(&receiver), 1);
        assert_eq!(receiver.drain(), (0..100).collect::<Vec<_>>());
        sender.send(100);
        assert_eq!(readable_bytes(&receiver), 1);
    }

    #[test]
    fn sending_to_a_dropped_receiver_is_no_error() {
        let (sender, receiver) = wake_channel().unwrap();
        drop(receiver);
        sender.send(1);
    }
}
