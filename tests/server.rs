//! A server of a test's own, with the library preloaded: made to be killed, stopped and started again.
//!
//! `dev/cluster run` makes it and removes it when its pipe is closed, so nothing stays behind however the test ends. Two
//! tests have a server at a time, however many run: most of them wait, and the machine may be small. Never touches any
//! other server.

use crate::one;
use postgres::{Client, Config, NoTls};
use std::io::{BufRead, BufReader, Write};
use std::ops::Deref;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How many servers may be started now, and who waits to start one.
static FREE: Mutex<usize> = Mutex::new(2);
static FREED: Condvar = Condvar::new();

/// Permission to have a server.
struct Permit;

impl Permit {
    fn wait() -> Permit {
        let free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
        let mut free = FREED.wait_while(free, |free| *free == 0).unwrap_or_else(PoisonError::into_inner);
        *free -= 1;
        Permit
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        *FREE.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        FREED.notify_one();
    }
}

/// What the command inside `dev/cluster run` does: says where the server is, and waits to be told how the test ended.
const HOLD: &str = r#"printf '%s\n' "$PGHOST" "$PGPORT" "$DIALECTIC_PGDATA" "$DIALECTIC_LOG" "$DIALECTIC_PGBIN"
                      read -r status; exit "${status:-1}""#;

/// Where a server is, whether it runs or not.
pub struct Place {
    socket: String,
    port: u16,
    data: PathBuf,
    log: PathBuf,
    bin: PathBuf,
}

/// A private server, removed at the end; its log is kept when the test fails.
pub struct Server {
    place: Place,
    held: Child,
    _permit: Permit,
}

/// A standby of a private server.
pub struct Standby(Place);

impl Server {
    /// A server with the library preloaded, fsync on, and these lines more in its configuration.
    pub fn with(configuration: &str) -> Server {
        Server::in_environment(configuration, &[])
    }

    /// As `with`, and these variables in the environment of the server.
    pub fn in_environment(configuration: &str, variables: &[(&str, &str)]) -> Server {
        let permit = Permit::wait();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the checkout");
        let mut held = Command::new(root.join("dev/cluster"))
            .args(["run", "worker", "--", "bash", "-c", HOLD])
            .env("CLUSTER_PRELOAD", "pg_dialectic")
            .env("CLUSTER_FSYNC", "on")
            .envs(variables.iter().copied())
            .env("CLUSTER_CONF", format!("log_line_prefix = '%n [%p] '\nmax_worker_processes = 32\n{configuration}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // A signal meant for the tests must not reach it: the end of the pipe does.
            .process_group(0)
            .spawn()
            .expect("dev/cluster");
        let mut lines = BufReader::new(held.stdout.take().expect("a pipe")).lines();
        let mut line = || lines.next().and_then(Result::ok).expect("dev/cluster says where the server is");
        let place = Place {
            socket: line(),
            port: line().parse().expect("a port"),
            data: line().into(),
            log: line().into(),
            bin: line().into(),
        };
        Server { place, held, _permit: permit }
    }

    /// As `with`, and a database `law` that has the extension and is served; a connection to it.
    pub fn serving(configuration: &str) -> (Server, Client) {
        let server = Server::with(configuration);
        let client = server.served("law");
        (server, client)
    }

    /// A copy of this server that follows it.
    pub fn standby(&self) -> Standby {
        let data = self.data.with_file_name("standby");
        let source = format!("host={} port={} user=postgres", self.socket, self.port);
        self.run(
            self.command("pg_basebackup")
                .args(["--checkpoint=fast", "--write-recovery-conf", "--dbname", &source, "--pgdata"])
                .arg(&data),
        );
        let free = std::net::TcpListener::bind(("127.0.0.1", 0)).and_then(|l| l.local_addr()).expect("a free port");
        let standby = Standby(Place {
            socket: self.socket.clone(),
            port: free.port(),
            log: self.data.with_file_name("standby.log"),
            bin: self.bin.clone(),
            data,
        });
        standby.start();
        standby
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Nobody needs what is in it: a stop that writes nothing is the quickest.
        let _ = self.control().args(["--silent", "--mode", "immediate", "stop"]).stderr(Stdio::null()).status();
        let status: &[u8] = if std::thread::panicking() { b"1\n" } else { b"0\n" };
        if let Some(mut pipe) = self.held.stdin.take() {
            let _ = pipe.write_all(status);
        }
        let _ = self.held.wait();
    }
}

impl Drop for Standby {
    fn drop(&mut self) {
        let _ = self.control().args(["stop", "--mode", "immediate"]).output();
    }
}

impl Deref for Server {
    type Target = Place;
    fn deref(&self) -> &Place {
        &self.place
    }
}

impl Deref for Standby {
    type Target = Place;
    fn deref(&self) -> &Place {
        &self.0
    }
}

impl Place {
    /// Where its files are.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// How a database is connected to as the superuser.
    pub fn config(&self, database: &str) -> Config {
        let mut config = Config::new();
        config.host(&self.socket).port(self.port).user("postgres").dbname(database);
        config
    }

    /// A connection as the superuser, as soon as the server gives one.
    pub fn connect(&self, database: &str) -> Client {
        let config = self.config(database);
        let mut client = None;
        within(Duration::from_secs(60), "a connection", || {
            client = match config.connect(NoTls) {
                Ok(client) => Some(client),
                // Starting up, or not even listening.
                Err(error) if error.as_db_error().is_none_or(|e| e.code().code().starts_with("57P")) => None,
                Err(error) => panic!("{database}: {error:?}"),
            };
            client.is_some()
        });
        client.expect("a connection")
    }

    /// A new database that has the extension and its worker; a connection to it.
    pub fn served(&self, database: &str) -> Client {
        let mut client = self.extended(database);
        soon("the new database is served", || worker(&mut client).is_some());
        client
    }

    /// A new database that has the extension, whether it is served or not; a connection to it.
    pub fn extended(&self, database: &str) -> Client {
        self.connect("postgres").batch_execute(&format!("create database {database}")).expect("a database");
        let mut client = self.connect(database);
        create_extension(&mut client);
        client
    }

    /// Where a program of the server is.
    pub fn program(&self, name: &str) -> PathBuf {
        self.bin.join(name)
    }

    /// The variables by which a client finds a database.
    pub fn environment(&self, database: &str) -> [(&'static str, String); 4] {
        let (socket, port) = (self.socket.clone(), self.port.to_string());
        [("PGHOST", socket), ("PGPORT", port), ("PGUSER", "postgres".to_owned()), ("PGDATABASE", database.to_owned())]
    }

    /// A program of the server, to be run as the user that the server runs as.
    fn command(&self, program: &str) -> Command {
        let owner = self.data.parent().and_then(|home| home.join("data").metadata().ok()).expect("a data directory");
        let mut command = Command::new(self.bin.join(program));
        command.uid(owner.uid()).gid(owner.gid()).current_dir("/").stdin(Stdio::null());
        command
    }

    fn control(&self) -> Command {
        let mut command = self.command("pg_ctl");
        command.arg("--pgdata").arg(&self.data).args(["--wait", "--timeout", "60"]);
        command
    }

    fn run(&self, command: &mut Command) {
        // A server that is started keeps what it inherits: no pipe may be among it.
        let status = command.stdout(Stdio::null()).status().expect("a program of the server");
        assert!(status.success(), "{command:?}: {status}");
    }

    /// Starts the server; returns when it accepts connections.
    pub fn start(&self) {
        let options = format!("-p {}", self.port);
        self.run(self.control().arg("--log").arg(&self.log).args(["--options", &options, "start"]));
    }

    /// Stops the server; returns when it is gone.
    pub fn stop(&self, mode: &str) {
        self.run(self.control().args(["--mode", mode, "stop"]));
    }

    /// Makes a standby a server of its own.
    pub fn promote(&self) {
        self.run(self.control().arg("promote"));
    }

    /// The first process of the server.
    pub fn postmaster(&self) -> i32 {
        let file = std::fs::read_to_string(self.data.join("postmaster.pid")).expect("a server that runs");
        file.lines().next().and_then(|pid| pid.parse().ok()).expect("a pid")
    }

    /// When the log says this, in seconds since 1970: all times, in order.
    pub fn said(&self, text: &str) -> Vec<f64> {
        let log = std::fs::read_to_string(&self.log).expect("the log");
        let moment = |line: &str| line.split(' ').next().and_then(|first| first.parse().ok());
        log.lines().filter(|line| line.contains(text)).filter_map(moment).collect()
    }

    /// All that the server has written to its log.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).expect("the log")).into_owned()
    }

    /// A dump of a database, in SQL.
    pub fn dump(&self, database: &str) -> String {
        let port = self.port.to_string();
        let mut dump = self.command("pg_dump");
        let made = dump.args(["-h", &self.socket, "-p", &port, "-U", "postgres", database]).output().expect("pg_dump");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        String::from_utf8_lossy(&made.stdout).into_owned()
    }

    /// When the server began to accept connections: each time, in order.
    pub fn beginnings(&self) -> Vec<f64> {
        self.said("database system is ready to accept connections")
    }
}

/// Gives the database of this connection the extension.
pub fn create_extension(client: &mut Client) {
    client
        .batch_execute("set client_min_messages = warning; create extension pg_dialectic cascade")
        .expect("CREATE EXTENSION pg_dialectic CASCADE");
}

/// The worker of the database that this connection is to.
pub fn worker(client: &mut Client) -> Option<i32> {
    one(
        client,
        "select (select pid from pg_stat_activity where backend_type = 'pg_dialectic worker' and datname = current_database())",
        &[],
    )
}

/// Changes a setting of the server while it runs; none takes it back.
pub fn set(client: &mut Client, setting: &str, value: Option<&str>) {
    let change = value.map_or(format!("reset {setting}"), |value| format!("set {setting} = '{value}'"));
    client.batch_execute(&format!("alter system {change}")).expect("ALTER SYSTEM");
    client.batch_execute("select pg_reload_conf()").expect("pg_reload_conf");
}

/// Sends a signal to a process of a private server.
pub fn signal(pid: i32, signal: i32) {
    assert!(pid > 1);
    // SAFETY: sends a signal; no memory is involved.
    let result = unsafe { libc::kill(pid, signal) };
    assert_eq!(result, 0, "kill -{signal} {pid}: {}", std::io::Error::last_os_error());
}

/// Whether there is such a process.
pub fn lives(pid: i32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

/// Looks every millisecond until the condition holds; returns how long that took. A failure when it does not hold in time.
pub fn within(limit: Duration, what: &str, mut condition: impl FnMut() -> bool) -> Duration {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < limit, "{what}: not within {limit:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
    begun.elapsed()
}

/// As `within`, for what takes as long as it takes: a failure after 20 seconds.
pub fn soon(what: &str, condition: impl FnMut() -> bool) {
    within(Duration::from_secs(20), what, condition);
}

/// The condition holds now and for this long: for what must not happen, where nothing says that it will not.
pub fn remains(time: Duration, what: &str, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while begun.elapsed() < time {
        assert!(condition(), "{what}: not for {time:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
