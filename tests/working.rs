//! Who works the queue: the worker of the database where the library is preloaded, `run_pending` in a connection of the test
//! everywhere else. The server is asked which; laws say `work` and hold for both.

use crate::{Database, eventually_within, one};
use postgres::{Client, Error};
use std::sync::OnceLock;
use std::thread::JoinHandle;
use std::time::Duration;

/// How long a queue may take to be worked.
const PATIENCE: Duration = Duration::from_secs(60);

/// Whether the library is preloaded, so that every database with the extension has a worker.
pub fn preloaded() -> bool {
    static PRELOADED: OnceLock<bool> = OnceLock::new();
    *PRELOADED.get_or_init(|| {
        let libraries: String = one(&mut crate::connect_to("postgres"), "show shared_preload_libraries", &[]);
        libraries.split(',').any(|library| library.trim() == "pg_dialectic")
    })
}

/// Returns when nothing is due within half a minute. A worker that is switched on is waited for; jobs of tests, and the queue
/// of a database whose worker is off, are worked here.
pub fn work(client: &mut Client) {
    let by_itself = preloaded() && one(client, "select dialectic.get_config('worker_enabled') = 'true'", &[]);
    let test_jobs = "select exists (select from dialectic.jobs j join dialectic.job_statuses s using (status) \
                     where j.is_test_job and s.phase = 'ready')";
    if !by_itself || one(client, test_jobs, &[]) {
        client.batch_execute(&format!("set statement_timeout = '{}s'", PATIENCE.as_secs())).expect("set");
        client.batch_execute("call dialectic.run_pending()").expect("run_pending");
        client.batch_execute("reset statement_timeout").expect("reset");
    }
    if by_itself {
        eventually_within(PATIENCE, "the worker has worked the queue", || is_at_rest(client));
    }
}

/// Whether nobody inside the server works on a job or has a claim that is over still listed, and none is due within half a minute.
pub fn is_at_rest(client: &mut Client) -> bool {
    one(
        client,
        "select not exists (select from dialectic.claims where lease_until is null) and not exists ( \
             select from dialectic.jobs j \
             join dialectic.job_statuses s using (status) \
             left join dialectic._current_models m on m.name = j.model and j.kind = 'execute' \
             left join dialectic.provider_cooldowns c on c.provider = m.provider \
             where (s.phase = 'running' and j.lease_until is null) \
                or (s.phase = 'ready' and not j.is_test_job and c.paused_reason is null \
                    and greatest(j.run_at, c.free_at) <= dialectic._now() + interval '30 s'))",
        &[],
    )
}

/// From here on the worker has the queue of a database that was worked by hand; returns as `work` does.
pub fn hand_over(client: &mut Client) {
    switch_on(client);
    work(client);
}

fn switch_on(client: &mut Client) {
    client.execute("select dialectic.set_config('worker_enabled', 'true')", &[]).expect("set_config");
}

/// Somebody who works the queue beside the test.
pub struct Working {
    client: Client,
    running: Option<JoinHandle<Result<(), Error>>>,
}

/// From here on the queue of a database that was worked by hand is worked beside the test.
pub fn set_to_work(database: &Database) -> Working {
    let mut client = database.connect();
    if preloaded() {
        switch_on(&mut client);
        return Working { client, running: None };
    }
    let mut other = database.connect();
    let running = std::thread::spawn(move || other.batch_execute("call dialectic.run_pending()"));
    Working { client, running: Some(running) }
}

impl Working {
    /// Returns when the queue is worked.
    pub fn end(mut self) {
        match self.running {
            Some(running) => running.join().expect("a thread").expect("run_pending"),
            None => work(&mut self.client),
        }
    }
}

/// How many connections are claimers; the worker, which is one as long as it lives, is not counted.
pub fn claimers(client: &mut Client) -> i64 {
    one(
        client,
        "select count(*) from dialectic._claimer_locks l join pg_stat_activity a using (pid) where a.backend_type = 'client backend'",
        &[],
    )
}
