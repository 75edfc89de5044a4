//! Every row of jobs, stage runs and sessions against the model.

use super::database::Replay;
use super::history::World;
use dialectic_core::queue::{Job, RunStatus, SessionStatus};
use dialectic_tests::*;
use std::collections::HashMap;

/// The names of the steps, by stage.
const STEPS: [&[&str]; 2] = [&["leaf", "cross", "own"], &["last"]];

/// What a job is, in the words of the database.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Identity {
    session: Uuid,
    stage: i32,
    parent: Option<Uuid>,
    kind: String,
    step: Option<String>,
    model: String,
    version: i32,
    continuation: i32,
}

/// What of a job changes.
type State = (String, i32, Option<i64>);

impl Replay<'_> {
    /// What differs between the database and the model.
    pub(super) fn compare(&mut self, world: &World) -> Result<(), String> {
        let mut rows = self.read_jobs();
        self.match_new_jobs(world, &rows)?;
        let mut differences: Vec<String> = world.queue.violations();
        for (number, (id, job)) in self.jobs.iter().zip(world.queue.jobs()).enumerate() {
            let expected: State = (
                job.status.to_string(),
                i32::try_from(job.attempts).expect("few attempts"),
                job.claim.map(|claim| claim.id),
            );
            let (identity, found) = rows.remove(id).expect("the job is there");
            if found != expected {
                let Identity { kind, step, .. } = identity;
                differences.push(format!("job {number} ({kind} {step:?}) is {found:?}, the model says {expected:?}"));
            }
        }
        differences.extend(rows.values().map(|(identity, _)| format!("the model does not have {identity:?}")));
        differences.extend(self.compare_sessions(world));
        if differences.is_empty() { Ok(()) } else { Err(differences.join("\n")) }
    }

    fn read_jobs(&mut self) -> HashMap<Uuid, (Identity, State)> {
        let rows = self
            .client
            .query(
                "select j.id, j.session_id, r.position, j.parent_job_id, j.kind, j.step_key, j.model, j.version, \
                        j.continuation_count, j.status, j.attempt_count, j.claim_id \
                 from dialectic.jobs j join dialectic.stage_runs r on r.id = j.stage_run_id",
                &[],
            )
            .expect("jobs");
        let of = |row: &postgres::Row| {
            let identity = Identity {
                session: row.get(1),
                stage: row.get(2),
                parent: row.get(3),
                kind: row.get(4),
                step: row.get(5),
                model: row.get(6),
                version: row.get(7),
                continuation: row.get(8),
            };
            (row.get(0), (identity, (row.get(9), row.get(10), row.get(11))))
        };
        rows.iter().map(of).collect()
    }

    /// Finds the rows of the jobs that the model has inserted. Jobs of one step that are new together are alike.
    fn match_new_jobs(&mut self, world: &World, rows: &HashMap<Uuid, (Identity, State)>) -> Result<(), String> {
        for job in &world.queue.jobs()[self.jobs.len()..] {
            let wanted = self.identity(world, job);
            let fits = |id: &&Uuid| rows[*id].0 == wanted && !self.jobs.contains(*id);
            let found =
                rows.keys().filter(fits).min().ok_or_else(|| format!("the database does not have {wanted:?}"))?;
            self.jobs.push(*found);
        }
        Ok(())
    }

    fn identity(&self, world: &World, job: &Job) -> Identity {
        let run = &world.queue.runs()[job.run];
        Identity {
            session: self.sessions[run.session],
            stage: i32::try_from(run.stage).expect("few stages") + 1,
            parent: job.parent.map(|parent| self.jobs[parent]),
            kind: job.kind.to_string(),
            step: job.step.map(|step| STEPS[run.stage][step].to_owned()),
            model: format!("m{}", job.model),
            version: i32::try_from(job.version).expect("few versions"),
            continuation: i32::try_from(job.continuation).expect("few continuations"),
        }
    }

    fn compare_sessions(&mut self, world: &World) -> Vec<String> {
        let mut differences = Vec::new();
        for (number, session) in world.queue.sessions().iter().enumerate() {
            let id = self.sessions[number];
            let status = match session.status {
                SessionStatus::Active => "active",
                SessionStatus::Completed => "completed",
                SessionStatus::Failed => "failed",
                SessionStatus::Cancelled => "cancelled",
            };
            let of_session = world.queue.runs().iter().filter(|run| run.session == number);
            let runs = of_session.map(|run| match run.status {
                RunStatus::Running => "running",
                RunStatus::Completed => "completed",
                RunStatus::Failed => "failed",
            });
            let expected: Vec<&str> = [status].into_iter().chain(runs).collect();
            let found: Vec<String> = column(
                &mut self.client,
                "select status from (select 0, status from dialectic.sessions where id = $1 \
                 union all select position, status from dialectic.stage_runs where session_id = $1) as s(n, status) order by n",
                &[&id],
            );
            if found != expected {
                differences.push(format!("session {number} is {found:?}, the model says {expected:?}"));
            }
        }
        differences
    }
}
