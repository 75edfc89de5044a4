//! Connections that can be ended from outside, and that give up when nothing comes for too long.
//!
//! Connections are kept and used by one call after another. Each read and write looks up the call of its own thread,
//! tells it which socket it waits on, and keeps to the limit that holds for it now. Decides how often a stream is
//! listened to, and never what a limit is.

use crate::worker::stop::Stop;
use std::cell::RefCell;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, DefaultConnector, NextTimeout, ShutdownHandle, Transport, time,
};
use ureq::{Error, Timeout};

/// Who has been speaking for so long is listened to every so often: what comes word by word is then heard several words
/// at a time, and a thread does not wake for each. What has come meanwhile is not heard where the other end resets the
/// connection.
const SETTLED: Duration = Duration::from_millis(200);
const BREATH: Duration = Duration::from_millis(30);
/// So many bytes at once are no words any more: who sends as much is listened to without a pause. A look at a
/// connection that is encrypted brings what 4 KB of its records hold, however much has come, so this is less.
const MUCH: usize = 2 << 10;

thread_local! {
    static CALL: RefCell<Option<Call>> = const { RefCell::new(None) };
}

/// The call that a thread makes now.
struct Call {
    id: u64,
    stop: Arc<Stop>,
    /// How long the next read may take.
    patience: Duration,
    /// Whether it goes over a connection that others have used before.
    is_reused: bool,
    /// Whether some of it has left.
    is_sent: bool,
    /// When the first byte came back, and when the last.
    answered: Option<Instant>,
    heard: Instant,
    /// Whether much came at once.
    is_hurried: bool,
}

impl Call {
    /// Waits a moment before it listens on to a stream, unless it is to end.
    fn take_breath(&self) {
        if !self.is_hurried && self.answered.is_some_and(|since| since.elapsed() > SETTLED) {
            self.stop.wait_until(self.heard + BREATH);
        }
    }

    fn hear(&mut self, bytes: usize) {
        self.is_hurried = bytes >= MUCH;
        self.heard = Instant::now();
        self.answered.get_or_insert(self.heard);
    }
}

/// Makes the thread's reads and writes those of a call, for as long as this lives.
pub(super) struct OnCall(Arc<Stop>);

impl OnCall {
    pub(super) fn begin(stop: &Arc<Stop>, patience: Duration) -> Self {
        static CALLS: AtomicU64 = AtomicU64::new(1);
        let id = CALLS.fetch_add(1, Ordering::Relaxed);
        let call = Call {
            id,
            stop: Arc::clone(stop),
            patience,
            is_reused: false,
            is_sent: false,
            answered: None,
            heard: Instant::now(),
            is_hurried: false,
        };
        CALL.with_borrow_mut(|now| *now = Some(call));
        OnCall(Arc::clone(stop))
    }

    /// How long each read may take from now on.
    pub(super) fn be_patient(&self, patience: Duration) {
        CALL.with_borrow_mut(|now| now.iter_mut().for_each(|call| call.patience = patience));
    }

    /// Whether it went over a connection that others have used before, and not a byte came back: it was closed by then,
    /// and nobody has seen the request.
    pub(super) fn is_unseen(&self) -> bool {
        CALL.with_borrow(|now| now.as_ref().is_some_and(|call| call.is_reused && call.answered.is_none()))
    }

    /// Whether the request, or some of it, has left.
    pub(super) fn is_sent(&self) -> bool {
        CALL.with_borrow(|now| now.as_ref().is_some_and(|call| call.is_sent))
    }
}

impl Drop for OnCall {
    fn drop(&mut self) {
        self.0.detach();
        CALL.with_borrow_mut(|now| *now = None);
    }
}

/// Makes connections whose socket is known.
#[derive(Debug, Default)]
pub(super) struct Lines(DefaultConnector);

impl Connector for Lines {
    type Out = Line;

    fn connect(&self, details: &ConnectionDetails, chained: Option<()>) -> Result<Option<Line>, Error> {
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
                *seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(Weak::clone(&handle));
                register(handle)
            }),
        };
        let made = self.0.connect(&details, chained)?;
        let socket = socket.lock().unwrap_or_else(PoisonError::into_inner).take();
        Ok(made.map(|transport| Line { transport, socket, used_by: None }))
    }
}

/// One connection.
pub(super) struct Line {
    transport: Box<dyn Transport>,
    socket: Option<Weak<dyn ShutdownHandle>>,
    /// The call that went over it last.
    used_by: Option<u64>,
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Line").finish_non_exhaustive()
    }
}

impl Line {
    /// Tells the call of this thread what it waits on; how long it may.
    fn attach(&mut self) -> Result<Duration, Error> {
        CALL.with_borrow_mut(|now| match now {
            Some(call) => {
                call.is_reused |= self.used_by.is_some_and(|before| before != call.id);
                self.used_by = Some(call.id);
                match self.socket.as_ref().is_none_or(|socket| call.stop.attach(socket)) {
                    true => Ok(call.patience),
                    false => Err(std::io::Error::from(std::io::ErrorKind::ConnectionAborted).into()),
                }
            }
            None => Ok(Duration::MAX),
        })
    }
}

impl Transport for Line {
    fn buffers(&mut self) -> &mut dyn Buffers {
        self.transport.buffers()
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.attach()?;
        self.transport.transmit_output(amount, timeout)?;
        CALL.with_borrow_mut(|now| now.iter_mut().for_each(|call| call.is_sent = true));
        Ok(())
    }

    fn await_input(&mut self, mut timeout: NextTimeout) -> Result<bool, Error> {
        let patience = self.attach()?;
        CALL.with_borrow(|now| now.iter().for_each(Call::take_breath));
        if *timeout.after > patience {
            timeout.after = time::Duration::Exact(patience);
            timeout.reason = Timeout::PerRead;
        }
        let before = self.transport.buffers().input().len();
        let is_more = self.transport.await_input(timeout)?;
        if is_more {
            let heard = self.transport.buffers().input().len().saturating_sub(before);
            CALL.with_borrow_mut(|now| now.iter_mut().for_each(|call| call.hear(heard)));
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
