//! The side of the database: the process and the sessions of the model, and each action as the SQL verb it stands for.

use super::history::{Action, Facts, MAX_RETRIES, Outcome, SESSIONS, World};
use crate::by_hand;
use dialectic_core::job::{Kind, Status};
use dialectic_core::provider::Class;
use dialectic_core::queue::{Answer, Claim, JobId, Target};
use dialectic_tests::*;
use postgres::Client;
use serde_json::json;
use std::collections::HashMap;

/// A database that histories are done to.
pub(super) struct Replay<'a> {
    database: &'a Database,
    pub(super) client: Client,
    pub(super) sessions: Vec<Uuid>,
    /// The ids of the model's jobs, by their number.
    pub(super) jobs: Vec<Uuid>,
    /// The connections of claimers inside the server that live, each with the name of its claimer.
    inside: HashMap<usize, (Client, String)>,
    half_hour: i64,
}

/// The steps of `history::process` as a recipe.
fn stages() -> serde_json::Value {
    let step = |key: &str, strategy: &str, inputs: serde_json::Value| {
        json!({"key": key, "job_type": "execute", "prompt_template_name": "replay_step", "granularity_strategy": strategy,
               "inputs_required": [inputs], "output_type": key, "document_key": key, "file_type": "markdown"})
    };
    let mut document = step("cross", "all_to_one", json!({"type": "leaf", "from_models": "all", "multiple": true}));
    document["content_to_include"] = json!({"summary": "In a sentence"});
    json!([
        {"slug": "first", "seed_prompt_template": "replay_seed", "recipe": {"steps": [
            step("leaf", "per_source_document", json!({"type": "general_resource", "multiple": true})),
            document,
            step("own", "all_to_one", json!({"type": "cross", "from_models": "own"})),
        ]}},
        {"slug": "second", "seed_prompt_template": "replay_seed", "recipe": {"steps": [
            step("last", "all_to_one", json!({"type": "own", "stage": "first", "from_models": "all", "multiple": true})),
        ]}},
    ])
}

impl Replay<'_> {
    pub(super) fn new(database: &Database) -> Replay<'_> {
        let mut client = database.connect();
        client
            .batch_execute(
                "select dialectic.set_prompt('replay_seed', 'Brief.'); \
                 select dialectic.set_prompt('replay_step', \
                     '{% block user %}{% include \"shared_documents\" %}Go on.{% endblock %}'); \
                 select dialectic.add_provider('p' || n, 'simulator'), dialectic.add_model('m' || n, 'p' || n) \
                 from generate_series(0, 2) as n",
            )
            .expect("prompts and models");
        client.execute("select dialectic.define_process('replay', $1)", &[&stages()]).expect("a process");
        let mut replay =
            Replay { database, client, sessions: vec![], jobs: vec![], inside: HashMap::new(), half_hour: 0 };
        for models in SESSIONS {
            replay.start_session(models);
        }
        replay
    }

    fn start_session(&mut self, models: &[usize]) {
        let client = &mut self.client;
        let names: Vec<String> = models.iter().map(|model| format!("m{model}")).collect();
        let project: Uuid = one(client, "select dialectic.create_project('Replay', 'Go.', process => 'replay')", &[]);
        client
            .execute(
                "select dialectic.add_resource($1, 'text ' || n, 'Text') from generate_series(1, 2) as n",
                &[&project],
            )
            .expect("reference texts");
        let session: Uuid =
            one(client, "select dialectic.start_session($1, $2, auto_advance => true)", &[&project, &names]);
        let retries = i32::try_from(MAX_RETRIES).expect("a small number");
        client.execute("select dialectic.generate($1, max_retries => $2)", &[&session, &retries]).expect("generate");
        self.sessions.push(session);
    }

    /// Does the action to the database and to the model; both return the same.
    pub(super) fn act(&mut self, world: &mut World, action: Action) -> Result<(), String> {
        let (outcome, facts) = match action {
            Action::Claim { most, half_hours } => (Outcome::Nothing, self.claim(world, most, half_hours)?),
            Action::ClaimInside => (Outcome::Nothing, self.claim_inside(world)?),
            Action::KillInside { claimer } => (self.kill(claimer), Facts::default()),
            Action::PassHour => (self.pass_hour(), Facts::default()),
            Action::RepairProvider { model } => (self.repair(model), Facts::default()),
            Action::Complete { job, claim_id, answer } => {
                (self.complete(world, job, claim_id, answer), Facts::default())
            }
            Action::Fail { job, claim_id, class, is_delayed } => self.fail(job, claim_id, class, is_delayed)?,
            Action::Cancel(target) => (self.control("cancel", target), Facts::default()),
            Action::Pause(target) => (self.control("pause", target), Facts::default()),
            Action::Resume(target) => (self.control("resume", target), Facts::default()),
            Action::Retry(target) => (self.control("retry", target), Facts::default()),
        };
        let modelled = world.apply(action, &facts);
        if modelled == outcome { Ok(()) } else { Err(format!("the verb returned {outcome:?}, the model {modelled:?}")) }
    }

    fn control(&mut self, verb: &str, target: Target) -> Outcome {
        let id = match target {
            Target::Session(session) => self.sessions[session],
            Target::Job(job) => self.jobs[job],
        };
        match self.client.query_one(&format!("select dialectic.{verb}($1)"), &[&id]) {
            Ok(row) => Outcome::Moved(usize::try_from(row.get::<_, i32>(0)).expect("a number of jobs")),
            Err(error) => {
                let code = error.code().map(|code| code.code().to_owned());
                assert_eq!(code.as_deref(), Some("55000"), "{verb}: {error:?}");
                Outcome::Refused
            }
        }
    }

    fn complete(&mut self, world: &World, job: JobId, claim_id: i64, answer: Answer) -> Outcome {
        let text = match world.queue.jobs()[job].kind {
            Kind::Plan | Kind::Render => None,
            Kind::Execute | Kind::Combine | Kind::Index => Some(r#"{"summary": "Enough."}"#),
        };
        let reason = if answer == Answer::CutOff { "length" } else { "stop" };
        let verb = "select dialectic.complete_job($1, $2, $3, $4)";
        told(&one::<String>(&mut self.client, verb, &[&self.jobs[job], &claim_id, &text, &reason]))
    }

    /// Fails a job; a next attempt is due within the delay that was asked for or the longest backoff.
    fn fail(&mut self, job: JobId, claim_id: i64, class: Class, is_delayed: bool) -> Result<(Outcome, Facts), String> {
        let delay = if is_delayed { 5400 } else { 0 };
        let verb = "select dialectic.fail_job($1, $2, $3, 'a reason', case when $4::float8 > 0 then make_interval(secs => $4) end)";
        let before = self.now();
        let said: String =
            one(&mut self.client, verb, &[&self.jobs[job], &claim_id, &class.as_str(), &f64::from(delay)]);
        let outcome = told(&said);
        let run_at = self.run_at(job);
        let seconds = (run_at - before) / 1_000_000;
        if outcome == Outcome::Status(Status::Retrying)
            && !(i64::from(delay)..=i64::from(delay).max(301)).contains(&seconds)
        {
            return Err(format!("job {job} is due again in {seconds} s"));
        }
        Ok((outcome, Facts { run_at, ..Facts::default() }))
    }

    fn claim(&mut self, world: &World, most: usize, half_hours: i64) -> Result<Facts, String> {
        let claimer = world.claimers.len();
        let before = self.now();
        let claimed = self
            .client
            .query(
                "select id, claim_id from dialectic.claim_jobs($1, $2, make_interval(mins => $3))",
                &[
                    &format!("outside {claimer}"),
                    &i32::try_from(most).expect("small"),
                    &i32::try_from(half_hours * 30 - 5).expect("small"),
                ],
            )
            .expect("claim_jobs");
        let after = self.now();
        let claimed: Vec<(Uuid, i64, bool)> = claimed.iter().map(|row| (row.get(0), row.get(1), false)).collect();
        let (due, facts) = self.claimed(world, claimer, &claimed, before, after)?;
        let missed: Vec<&JobId> =
            due.iter().filter(|job| facts.claimed.iter().all(|(taken, _)| taken != *job)).collect();
        if claimed.len() > most || (claimed.len() < most && !missed.is_empty()) {
            return Err(format!("{} of {most} jobs were claimed, but not {missed:?}", claimed.len()));
        }
        Ok(facts)
    }

    fn claim_inside(&mut self, world: &World) -> Result<Facts, String> {
        let claimer = world.claimers.len();
        let (mut connection, name) = by_hand::claimer(self.database);
        set_clock(&mut connection, self.half_hour);
        let before = self.now();
        let claimed = by_hand::take_jobs(&mut connection, &name);
        let after = self.now();
        self.inside.insert(claimer, (connection, name));
        Ok(self.claimed(world, claimer, &claimed, before, after)?.1)
    }

    /// What a claim took, all of which was due; and the jobs that were due before it.
    fn claimed(
        &mut self,
        world: &World,
        claimer: usize,
        claimed: &[(Uuid, i64, bool)],
        before: i64,
        after: i64,
    ) -> Result<(Vec<JobId>, Facts), String> {
        let mut released = world.clone();
        released.release();
        let losses = |world: &World, job: JobId| world.queue.jobs()[job].losses;
        let lost = (0..self.jobs.len()).filter(|job| losses(&released, *job) > losses(world, *job));
        let lost: Vec<JobId> = lost.collect();
        let mut facts = Facts::default();
        for job in lost {
            let run_at = self.run_at(job);
            released.queue.delay(job, run_at);
            facts.delays.push((job, run_at));
        }
        let rests = self.rests();
        let is_due = |job: JobId, now: i64| {
            let of = &released.queue.jobs()[job];
            let calls = !matches!(of.kind, Kind::Plan | Kind::Render);
            released.queue.is_due(job, now) && !(calls && rests.get(&of.model).is_some_and(|until| *until > now))
        };
        for (id, claim_id, is_alone) in claimed {
            let job = self.jobs.iter().position(|known| known == id).ok_or_else(|| format!("unknown job {id}"))?;
            if !is_due(job, after) {
                return Err(format!("job {job} was claimed: {:?}", released.queue.jobs()[job]));
            }
            facts.claimed.push((job, Claim { id: *claim_id, claimer, is_alone: *is_alone }));
        }
        Ok(((0..self.jobs.len()).filter(|job| is_due(*job, before)).collect(), facts))
    }

    /// Until when providers are left alone, by the number of their model.
    fn rests(&mut self) -> HashMap<usize, i64> {
        let rows = self.client.query(
            "select substr(provider, 2)::int, paused_reason is not null, (extract(epoch from free_at) * 1e6)::bigint \
             from dialectic.provider_cooldowns",
            &[],
        );
        let until = |row: &postgres::Row| if row.get(1) { i64::MAX } else { row.get::<_, Option<i64>>(2).unwrap_or(0) };
        let rows = rows.expect("provider_cooldowns");
        rows.iter().map(|row| (usize::try_from(row.get::<_, i32>(0)).expect("a model"), until(row))).collect()
    }

    fn kill(&mut self, claimer: usize) -> Outcome {
        let (connection, name) = self.inside.remove(&claimer).expect("a claimer that lives");
        drop(connection);
        let lives = "select exists (select from pg_stat_activity where pid::text = split_part($1, ':', 2))";
        eventually("the claimer is gone", || !one::<bool>(&mut self.client, lives, &[&name]));
        Outcome::Nothing
    }

    fn pass_hour(&mut self) -> Outcome {
        self.half_hour += 2;
        let inside = self.inside.values_mut().map(|(connection, _)| connection);
        for connection in inside.chain([&mut self.client]) {
            set_clock(connection, self.half_hour);
        }
        Outcome::Nothing
    }

    fn repair(&mut self, model: usize) -> Outcome {
        self.client
            .execute("select dialectic.add_provider($1, 'simulator')", &[&format!("p{model}")])
            .expect("a provider");
        Outcome::Nothing
    }

    fn now(&mut self) -> i64 {
        one(&mut self.client, "select (extract(epoch from dialectic._now()) * 1e6)::bigint", &[])
    }

    fn run_at(&mut self, job: JobId) -> i64 {
        one(
            &mut self.client,
            "select (extract(epoch from run_at) * 1e6)::bigint from dialectic.jobs where id = $1",
            &[&self.jobs[job]],
        )
    }
}

fn set_clock(client: &mut Client, half_hour: i64) {
    client.batch_execute(&format!("set dialectic.clock_offset = {}", half_hour * 1800)).expect("superuser");
}

fn told(said: &str) -> Outcome {
    said.parse().map_or(Outcome::Stale, Outcome::Status)
}
