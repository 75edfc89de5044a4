//! Connections whose reads have a timeout and can be cancelled from another thread.
//!
//! A connection serves one call after another. Each read and write looks up the call of its thread, registers its
//! socket with the call's cancel token, and applies the call's read timeout. Decides how often a stream is read; never
//! decides a timeout.

use crate::cancel::CancelToken;
use crate::lock;
use std::cell::RefCell;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, DefaultConnector, NextTimeout, ShutdownHandle, Transport, time,
};
use ureq::{Error, Timeout};

/// A stream that has lasted this long is read at intervals, so that a thread does not wake for each token. What arrives
/// in between is lost if the peer resets the connection.
const COALESCE_AFTER: Duration = Duration::from_millis(200);
const COALESCE_INTERVAL: Duration = Duration::from_millis(30);
/// A read of at least this many bytes is no trickle of tokens, so the next one does not wait. One read of a TLS
/// connection returns at most what 4 KB of its records hold, so this is less.
const COALESCE_BELOW_BYTES: usize = 2 << 10;

thread_local! {
    static CALL: RefCell<Option<CallProgress>> = const { RefCell::new(None) };
}

/// The call that a thread makes now.
struct CallProgress {
    id: u64,
    cancel: Arc<CancelToken>,
    read_timeout: Duration,
    /// Whether it uses a connection that has served another call.
    is_reused: bool,
    /// Whether some of the request was written.
    is_sent: bool,
    first_read: Option<Instant>,
    last_read: Instant,
    /// Whether the last read returned many bytes.
    is_bulk: bool,
}

impl CallProgress {
    /// Waits until the next read of a long stream is due; a cancellation ends the wait.
    fn coalesce_reads(&self) {
        if !self.is_bulk && self.first_read.is_some_and(|first| first.elapsed() > COALESCE_AFTER) {
            self.cancel.wait_until(self.last_read + COALESCE_INTERVAL);
        }
    }

    fn note_read(&mut self, bytes: usize) {
        self.is_bulk = bytes >= COALESCE_BELOW_BYTES;
        self.last_read = Instant::now();
        self.first_read.get_or_insert(self.last_read);
    }
}

/// The reads and writes of this thread belong to one call while this lives.
pub(super) struct CurrentCall(Arc<CancelToken>);

impl CurrentCall {
    pub(super) fn begin(cancel: &Arc<CancelToken>, read_timeout: Duration) -> Self {
        static CALLS: AtomicU64 = AtomicU64::new(1);
        let call = CallProgress {
            id: CALLS.fetch_add(1, Ordering::Relaxed),
            cancel: Arc::clone(cancel),
            read_timeout,
            is_reused: false,
            is_sent: false,
            first_read: None,
            last_read: Instant::now(),
            is_bulk: false,
        };
        CALL.with_borrow_mut(|current| *current = Some(call));
        CurrentCall(Arc::clone(cancel))
    }

    /// How long each read may take from now on.
    pub(super) fn set_read_timeout(&self, timeout: Duration) {
        CALL.with_borrow_mut(|current| current.iter_mut().for_each(|call| call.read_timeout = timeout));
    }

    /// Whether it used a kept connection and not a byte came back: the provider had closed it, and has not seen the
    /// request.
    pub(super) fn is_unseen(&self) -> bool {
        CALL.with_borrow(|current| current.as_ref().is_some_and(|call| call.is_reused && call.first_read.is_none()))
    }

    /// Whether some of the request was written.
    pub(super) fn is_sent(&self) -> bool {
        CALL.with_borrow(|current| current.as_ref().is_some_and(|call| call.is_sent))
    }
}

impl Drop for CurrentCall {
    fn drop(&mut self) {
        self.0.detach_socket();
        CALL.with_borrow_mut(|current| *current = None);
    }
}

/// Opens connections whose socket can be shut down.
#[derive(Debug, Default)]
pub(super) struct CancellableConnector(DefaultConnector);

impl Connector for CancellableConnector {
    type Out = CancellableTransport;

    fn connect(&self, details: &ConnectionDetails, chained: Option<()>) -> Result<Option<CancellableTransport>, Error> {
        let socket: Arc<Mutex<Option<Weak<dyn ShutdownHandle>>>> = Arc::default();
        let (seen, register) = (Arc::clone(&socket), Arc::clone(&details.register_shutdown));
        let details = ConnectionDetails {
            uri: details.uri,
            addrs: details.addrs.clone(),
            config: details.config,
            request_level: details.request_level,
            resolver: details.resolver,
            now: details.now,
            timeout: details.timeout,
            current_time: Arc::clone(&details.current_time),
            run_connector: Arc::clone(&details.run_connector),
            register_shutdown: Arc::new(move |handle| {
                *lock(&seen) = Some(Weak::clone(&handle));
                register(handle)
            }),
        };
        let transport = self.0.connect(&details, chained)?;
        let socket = lock(&socket).take();
        Ok(transport.map(|transport| CancellableTransport { transport, socket, last_call: None }))
    }
}

/// One connection.
pub(super) struct CancellableTransport {
    transport: Box<dyn Transport>,
    socket: Option<Weak<dyn ShutdownHandle>>,
    /// The call that used it last.
    last_call: Option<u64>,
}

impl fmt::Debug for CancellableTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancellableTransport").finish_non_exhaustive()
    }
}

impl CancellableTransport {
    /// Registers the socket with the call of this thread; returns the read timeout, or an error if it is cancelled.
    fn attach(&mut self) -> Result<Duration, Error> {
        CALL.with_borrow_mut(|current| match current {
            Some(call) => {
                call.is_reused |= self.last_call.is_some_and(|last| last != call.id);
                self.last_call = Some(call.id);
                match self.socket.as_ref().is_none_or(|socket| call.cancel.attach_socket(socket)) {
                    true => Ok(call.read_timeout),
                    false => Err(std::io::Error::from(std::io::ErrorKind::ConnectionAborted).into()),
                }
            }
            None => Ok(Duration::MAX),
        })
    }
}

impl Transport for CancellableTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        self.transport.buffers()
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.attach()?;
        self.transport.transmit_output(amount, timeout)?;
        CALL.with_borrow_mut(|current| current.iter_mut().for_each(|call| call.is_sent = true));
        Ok(())
    }

    fn await_input(&mut self, mut timeout: NextTimeout) -> Result<bool, Error> {
        let read_timeout = self.attach()?;
        CALL.with_borrow(|current| current.iter().for_each(CallProgress::coalesce_reads));
        if *timeout.after > read_timeout {
            timeout.after = time::Duration::Exact(read_timeout);
            timeout.reason = Timeout::PerRead;
        }
        let before = self.transport.buffers().input().len();
        let is_more = self.transport.await_input(timeout)?;
        if is_more {
            let bytes = self.transport.buffers().input().len().saturating_sub(before);
            CALL.with_borrow_mut(|current| current.iter_mut().for_each(|call| call.note_read(bytes)));
        }
        Ok(is_more)
    }

    fn is_open(&mut self) -> bool {
        self.transport.is_open()
    }

    fn is_tls(&self) -> bool {
        self.transport.is_tls()
    }
}
