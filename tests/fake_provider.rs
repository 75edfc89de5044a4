//! A provider of models on loopback that speaks every dialect and misbehaves on command.
//!
//! A test gives each model a script: acts, one used up per request, the last repeated. The model's name in the request decides
//! whose script it is, the path decides the dialect. Threads and blocking sockets, and nothing else: it has to be cheap enough
//! to serve a benchmark beside what is measured. Never panics the test for what comes over the wire; never leaves the machine.

mod act;
mod author;
mod connection;
mod gauge;
mod heard;
mod http;
mod latch;
#[cfg(test)]
mod laws;
mod limit;
mod reply;
mod shape;
mod speech;
mod strict;
mod vectors;
mod wait;

pub use act::{Act, Answer, End, NUMBER, Tells};
pub use author::{Again, Author};
pub use heard::Seen;
pub use latch::Latch;
pub use limit::{Limit, Unit};
pub use reply::fixture;
pub use speech::{folder, length_word};
pub use strict::Strict;
pub use wait::Wait;

use dialectic_core::provider::dialect::Dialect;
use gauge::{Gauge, UnderWay};
use http::Request;
use limit::Bucket;
use reply::{Reply, reply};
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The stack of a connection's thread.
const STACK: usize = 128 * 1024;

/// An act of a script, with its bytes in each dialect once they are made.
struct Part {
    act: Act,
    ready: [OnceLock<Arc<Reply>>; Dialect::ALL.len()],
}

struct Script {
    parts: Vec<Arc<Part>>,
    next: usize,
}

#[derive(Default)]
struct Sockets {
    count: u64,
    open: HashMap<u64, Arc<TcpStream>>,
    /// Those on which a request is being answered.
    busy: HashSet<u64>,
}

struct Inner {
    scripts: Mutex<HashMap<String, Script>>,
    buckets: Mutex<Vec<Bucket>>,
    strict: Mutex<Option<Strict>>,
    seen: Mutex<Vec<Seen>>,
    /// How many answers were numbered.
    numbered: AtomicU64,
    is_recording: AtomicBool,
    is_stopping: AtomicBool,
    sockets: Mutex<Sockets>,
    closed: Condvar,
    gauge: Gauge,
    /// How many more requests on used connections find them closed.
    hang_ups: AtomicUsize,
    /// How many characters of answers were written.
    spoken: AtomicU64,
    /// How many nanoseconds it took to make them up.
    spent: AtomicU64,
}

/// The server; it ends, and closes all its sockets, when it is dropped.
pub struct Provider {
    inner: Arc<Inner>,
    address: SocketAddr,
    accepting: Option<JoinHandle<()>>,
}

impl Provider {
    /// A server without scripts on a free port.
    pub fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port on loopback");
        let address = listener.local_addr().expect("an address");
        let inner = Arc::new(Inner {
            scripts: Mutex::default(),
            buckets: Mutex::default(),
            strict: Mutex::default(),
            seen: Mutex::default(),
            numbered: AtomicU64::new(0),
            is_recording: AtomicBool::new(true),
            is_stopping: AtomicBool::new(false),
            sockets: Mutex::default(),
            closed: Condvar::new(),
            gauge: Gauge::default(),
            hang_ups: AtomicUsize::new(0),
            spoken: AtomicU64::new(0),
            spent: AtomicU64::new(0),
        });
        let accepting = {
            let inner = Arc::clone(&inner);
            std::thread::spawn(move || accept(&inner, &listener))
        };
        Provider { inner, address, accepting: Some(accepting) }
    }

    /// What requests for this model get, one act each; the last act repeats. A script that was there is replaced. The
    /// script of `*` is for models without one of their own.
    pub fn script(&self, model: &str, acts: Vec<Act>) {
        assert!(!acts.is_empty(), "a script has at least one act");
        let part = |act| Arc::new(Part { act, ready: Default::default() });
        let script = Script { parts: acts.into_iter().map(part).collect(), next: 0 };
        locked(&self.inner.scripts).insert(model.to_owned(), script);
    }

    /// Holds from now on, its bucket full.
    pub fn limit(&self, limit: Limit) {
        locked(&self.inner.buckets).push(Bucket::new(limit, Instant::now()));
    }

    /// Refuses from now on what this server refuses; only while requests are recorded.
    pub fn strict(&self, rules: Strict) {
        *locked(&self.inner.strict) = Some(rules);
    }

    /// Whether requests are kept for `requests`; they are unless switched off.
    pub fn record(&self, is_recording: bool) {
        self.inner.is_recording.store(is_recording, Ordering::Relaxed);
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address of a provider with this api.
    pub fn base_url(&self, api: &str) -> String {
        let path = match api {
            "openai" => "/v1",
            "anthropic" | "google" | "ollama" => "",
            _ => panic!("no such api: {api}"),
        };
        format!("http://{}{path}", self.address)
    }

    /// The requests so far, in the order they were decided.
    pub fn requests(&self) -> Vec<Seen> {
        locked(&self.inner.seen).clone()
    }

    /// How many requests there were so far, while recording.
    pub fn request_count(&self) -> usize {
        locked(&self.inner.seen).len()
    }

    /// How many requests for this model are under way now; with no name, of all models.
    pub fn under_way(&self, model: &str) -> usize {
        self.inner.gauge.now(model)
    }

    /// How many requests for this model were ever under way at once; with no name, of all models.
    pub fn most_at_once(&self, model: &str) -> usize {
        self.inner.gauge.most(model)
    }

    /// Counts anew how many are ever under way at once.
    pub fn reset_gauge(&self) {
        self.inner.gauge.reset();
    }

    /// How many characters of answers were put on the wire, over all connections, whether anybody heard them or not.
    pub fn spoken(&self) -> usize {
        self.inner.spoken.load(Ordering::SeqCst) as usize
    }

    /// How long the server itself took to read requests and make up what it says.
    pub fn spent(&self) -> Duration {
        Duration::from_nanos(self.inner.spent.load(Ordering::SeqCst))
    }

    /// Closes every connection on which nothing is being answered, as servers do after a while.
    pub fn close_idle(&self) {
        let sockets = locked(&self.inner.sockets);
        for (_, socket) in sockets.open.iter().filter(|(number, _)| !sockets.busy.contains(number)) {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    /// The next so many requests that come over connections that were used before find them closed, and are not seen.
    pub fn hang_up(&self, count: usize) {
        self.inner.hang_ups.store(count, Ordering::SeqCst);
    }

    /// Connections that were accepted and that neither side has closed.
    pub fn open_sockets(&self) -> usize {
        locked(&self.inner.sockets).open.len()
    }

    /// Connections that were ever accepted.
    pub fn accepted(&self) -> u64 {
        locked(&self.inner.sockets).count
    }

    /// Waits until every connection is closed and says how long that took; none when it took longer than this.
    pub fn closed_within(&self, patience: Duration) -> Option<Duration> {
        let begin = Instant::now();
        let sockets = locked(&self.inner.sockets);
        let waited = self.inner.closed.wait_timeout_while(sockets, patience, |sockets| !sockets.open.is_empty());
        let (sockets, _) = waited.unwrap_or_else(PoisonError::into_inner);
        sockets.open.is_empty().then(|| begin.elapsed())
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.inner.is_stopping.store(true, Ordering::SeqCst);
        // The thread that accepts sleeps until somebody comes.
        let _ = TcpStream::connect(self.address);
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
        for socket in locked(&self.inner.sockets).open.values() {
            let _ = socket.shutdown(Shutdown::Both);
        }
        self.closed_within(Duration::from_secs(5));
    }
}

fn accept(inner: &Arc<Inner>, listener: &TcpListener) {
    for socket in listener.incoming() {
        if inner.is_stopping.load(Ordering::SeqCst) {
            return;
        }
        let Ok(socket) = socket else {
            // Out of descriptors: those who wait may have better luck when somebody has gone.
            std::thread::yield_now();
            continue;
        };
        let _ = socket.set_nodelay(true);
        let socket = Arc::new(socket);
        let number = {
            let mut sockets = locked(&inner.sockets);
            sockets.count += 1;
            let number = sockets.count;
            sockets.open.insert(number, Arc::clone(&socket));
            number
        };
        let serving = Arc::clone(inner);
        let thread = std::thread::Builder::new().stack_size(STACK).spawn(move || {
            connection::serve(&serving, &socket, number);
            serving.close(number, socket);
        });
        if thread.is_err() {
            locked(&inner.sockets).open.remove(&number);
        }
    }
}

impl Inner {
    fn close(&self, number: u64, socket: Arc<TcpStream>) {
        let mut sockets = locked(&self.sockets);
        // Both hands let go of it before anybody is told that it is closed.
        sockets.open.remove(&number);
        sockets.busy.remove(&number);
        drop(socket);
        drop(sockets);
        self.closed.notify_all();
    }

    fn is_busy(&self, connection: u64, is_busy: bool) {
        let busy = &mut locked(&self.sockets).busy;
        if is_busy {
            busy.insert(connection)
        } else {
            busy.remove(&connection)
        };
    }

    /// Whether a request on a used connection finds it closed.
    fn hangs_up(&self) -> bool {
        let one_less = |left: usize| left.checked_sub(1);
        self.hang_ups.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok()
    }

    /// What a request gets; none where it cannot be understood.
    fn decide(&self, request: &Request, connection: u64) -> Option<(Arc<Reply>, UnderWay<'_>)> {
        let Some((dialect, named)) = speech::dialect_of(&request.target).filter(|_| request.method == "POST") else {
            let act = Act::body(
                404,
                "application/json",
                format!("{{\"error\":\"nothing at {}\"}}", request.target.escape_debug()),
            );
            return Some((Arc::new(reply(&act, Dialect::Chat, "", request)), self.gauge.enter("none")));
        };
        let is_recording = self.is_recording.load(Ordering::Relaxed);
        let body: Option<Value> = if is_recording { Some(serde_json::from_slice(&request.body).ok()?) } else { None };
        let model = match (named, &body) {
            (Some(model), _) => model.to_owned(),
            (None, Some(body)) => body["model"].as_str()?.to_owned(),
            (None, None) => model_in(&request.body)?,
        };
        let under_way = self.gauge.enter(&model);
        let rules = *locked(&self.strict);
        let reply = match rules.zip(body.as_ref()).and_then(|(rules, body)| rules.refusal(body)) {
            Some(act) => Arc::new(reply(&act, dialect, &model, request)),
            None => self.act(dialect, &model, request),
        };
        if let Some(body) = body {
            let (target, headers) = (request.target.clone(), request.headers.clone());
            let (at, status) = (Instant::now(), reply.status);
            locked(&self.seen).push(Seen { model, dialect, target, headers, body, at, connection, status });
        }
        Some((reply, under_way))
    }

    fn act(&self, dialect: Dialect, model: &str, request: &Request) -> Arc<Reply> {
        let part = {
            let mut scripts = locked(&self.scripts);
            let name = if scripts.contains_key(model) { model } else { "*" };
            let Some(script) = scripts.get_mut(name) else {
                if let Some(act) =
                    vectors::is_asked(&request.target).then(|| vectors::answer(dialect, &request.body)).flatten()
                {
                    return Arc::new(reply(&act, dialect, model, request));
                }
                let body =
                    format!("{{\"error\":{{\"message\":\"no script for the model {}\"}}}}", model.escape_debug());
                return Arc::new(reply(&Act::body(501, "application/json", body), dialect, model, request));
            };
            let part = Arc::clone(&script.parts[script.next]);
            // A request that is turned away uses nothing up.
            if let Some((says, wait)) = self.turned_away(model, &part.act) {
                return Arc::new(reply(&Act::throttled(says, wait), dialect, model, request));
            }
            script.next = (script.next + 1).min(script.parts.len() - 1);
            part
        };
        if !part.act.is_constant() {
            return Arc::new(reply(&part.act, dialect, model, request));
        }
        let ready = part.ready[dialect as usize].get_or_init(|| Arc::new(reply(&part.act, dialect, model, request)));
        match ready.number_at {
            Some(_) => Arc::new(ready.numbered(self.numbered.fetch_add(1, Ordering::Relaxed))),
            None => Arc::clone(ready),
        }
    }

    /// When to come back, where a limit is in the way.
    fn turned_away(&self, model: &str, act: &Act) -> Option<(Wait, Duration)> {
        let now = Instant::now();
        let mut buckets = locked(&self.buckets);
        let mut held = Vec::new();
        for bucket in buckets.iter_mut().filter(|bucket| bucket.limit.model.as_deref().is_none_or(|one| one == model)) {
            let cost = match bucket.limit.unit {
                Unit::Requests => 1.0,
                Unit::Tokens => act.tokens() as f64,
            };
            if let Some(wait) = bucket.wait(cost, now) {
                return Some((bucket.limit.says, wait));
            }
            held.push((bucket, cost));
        }
        held.into_iter().for_each(|(bucket, cost)| bucket.take(cost));
        None
    }
}

/// The model that a body names, without reading all of it: a quote inside a string is escaped, so this is a key.
fn model_in(body: &[u8]) -> Option<String> {
    let found = http::find(body, b"\"model\":")?;
    let rest = body[found + b"\"model\":".len()..].trim_ascii_start().strip_prefix(b"\"")?;
    let name = &rest[..rest.iter().position(|byte| *byte == b'"')?];
    if name.contains(&b'\\') {
        return serde_json::from_slice::<Value>(body).ok()?["model"].as_str().map(str::to_owned);
    }
    std::str::from_utf8(name).ok().map(str::to_owned)
}

/// A thread that panicked has left nothing half done that matters here.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
