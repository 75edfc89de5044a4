//! Thousands of random lives of a queue: claimers die, answers come twice or late, people cancel, pause and retry, wallets run
//! empty, providers throttle, models wait for each other. After every step the invariants hold, and in the end
//! everything ends: nothing waits for ever.
//!
//! `SEED=n` starts from another seed; a failure prints the seed of its run.

use dialectic_core::job::{Kind, Status};
use dialectic_core::queue::{Claim, Failure, Job, NewJob, Outcome, Pause, Planned, Queue, StageRun};

const RUNS: u64 = 4_000;
const STEPS: usize = 300;
const MOST_JOBS: usize = 90;

/// A xorshift generator: the same seed gives the same life.
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Self {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 16) % n.max(1) as u64) as usize
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

/// A step needs the one before it: of its own model, or of all.
struct Step {
    all_models: bool,
    jobs: usize,
}

/// A claim, and for a plan what it found when it was claimed: by the time it says so, others have moved on.
struct Flight {
    claim: Claim,
    claimer: u64,
    planned: Option<Planned>,
}

struct World {
    dice: Dice,
    queue: Queue,
    recipe: Vec<Step>,
    stage_runs: u64,
    now: u64,
    claimers: Vec<u64>,
    flights: Vec<Flight>,
    /// Claims whose outcome was accepted or lost: they must stay without effect.
    spent: Vec<Claim>,
}

fn new_job(kind: Kind, stage_run: u64, step: Option<u64>, model: u64) -> NewJob {
    NewJob {
        kind,
        parent: None,
        stage_run,
        step,
        model,
        status: Status::Pending,
        max_retries: 2,
        run_at: 0,
        prerequisites: Vec::new(),
    }
}

impl World {
    fn new(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let recipe =
            (0..2 + dice.below(2)).map(|_| Step { all_models: dice.one_in(2), jobs: 1 + dice.below(3) }).collect();
        let stage_runs = 1 + dice.below(2) as u64;
        let mut queue = Queue::default();
        for run in 0..stage_runs {
            for model in 0..1 + dice.below(3) as u64 {
                queue.insert(new_job(Kind::Plan, run, None, model)).unwrap();
            }
        }
        queue.claimer_starts(0);
        let (flights, spent) = (Vec::new(), Vec::new());
        World { dice, queue, recipe, stage_runs, now: 0, claimers: vec![0], flights, spent }
    }

    fn jobs_of(&self, root: &Job, step: usize) -> Vec<&Job> {
        let children = root.children.iter().filter_map(|id| self.queue.job(*id));
        children.filter(|job| job.spec.step == Some(step as u64)).collect()
    }

    fn step_done(&self, root: &Job, step: usize) -> bool {
        let jobs = self.jobs_of(root, step);
        !jobs.is_empty() && jobs.iter().all(|job| job.status.is_ended())
    }

    /// The planner: the first step that is not planned, once the one before it is done where it must be.
    fn planned(&self, root: &Job) -> Planned {
        let Some(next) = (0..self.recipe.len()).find(|step| !self.step_done(root, *step)) else {
            return Planned::NothingLeft;
        };
        let step = &self.recipe[next];
        let waits = step.all_models
            && next > 0
            && self.queue.jobs().iter().any(|other| {
                let peer = other.is_root() && other.spec.stage_run == root.spec.stage_run;
                peer && !other.status.is_ended() && !self.step_done(other, next - 1)
            });
        if waits || !self.jobs_of(root, next).is_empty() {
            return Planned::NothingYet;
        }
        let kind = if next == 0 { Kind::Combine } else { Kind::Execute };
        let job = new_job(kind, root.spec.stage_run, Some(next as u64), root.spec.model);
        Planned::Children(vec![job; step.jobs])
    }

    fn some_job(&mut self) -> u64 {
        self.dice.below(self.queue.jobs().len()) as u64
    }

    fn claim(&mut self, n: usize) -> usize {
        let claimer = self.claimers[self.dice.below(self.claimers.len())];
        let claims = self.queue.claim(claimer, self.now, n);
        for claim in &claims {
            let job = self.queue.job(claim.job).unwrap();
            let planned = (job.spec.kind == Kind::Plan).then(|| self.planned(job));
            self.flights.push(Flight { claim: *claim, claimer, planned });
        }
        claims.len()
    }

    fn succeed(&mut self, flight: Flight) {
        let Claim { job, claim_id } = flight.claim;
        if let Some(planned) = flight.planned {
            let outcome = self.queue.plan(job, claim_id, planned);
            let root = self.queue.job(job).unwrap();
            let stranded = root.status == Status::Failed && root.cause.is_none();
            assert!(outcome != Outcome::Done || !stranded, "root {job} had nobody to wait for");
            return;
        }
        let spec = &self.queue.job(job).unwrap().spec;
        let mut follower = new_job(Kind::Render, spec.stage_run, spec.step, spec.model);
        if spec.kind == Kind::Execute && self.dice.one_in(3) {
            follower.kind = Kind::Execute;
            follower.status = Status::PendingContinuation;
        }
        let room = self.queue.jobs().len() < MOST_JOBS && spec.kind != Kind::Render;
        let followers = if room && self.dice.one_in(3) { vec![follower] } else { vec![] };
        let outcome = self.queue.complete(job, claim_id, followers);
        assert!(!matches!(outcome, Outcome::Refused(_)), "{outcome:?}");
    }

    fn finish(&mut self) {
        if self.flights.is_empty() {
            return;
        }
        let flight = self.flights.swap_remove(self.dice.below(self.flights.len()));
        let Claim { job, claim_id } = flight.claim;
        self.spent.push(flight.claim);
        let until = self.now + self.dice.below(20) as u64;
        let _ = match self.dice.below(24) {
            0 => self.queue.fail(job, claim_id, Failure::Permanent),
            1..=3 => self.queue.fail(job, claim_id, Failure::Transient { until }),
            4..=6 => self.queue.fail(job, claim_id, Failure::Throttled { until }),
            7 | 8 => {
                let prerequisites = [self.some_job(), self.some_job()];
                let outcome = self.queue.wait_for(job, claim_id, &prerequisites);
                if matches!(outcome, Outcome::Refused(_)) {
                    return self.succeed(flight);
                }
                outcome
            }
            9 => self.queue.pause(job, Pause::Wallet),
            _ => return self.succeed(flight),
        };
    }

    /// Says again what was said before, or what was lost: only a claim nobody has freed yet may still count.
    fn speak_late(&mut self) {
        if self.spent.is_empty() {
            return;
        }
        let Claim { job, claim_id } = self.spent[self.dice.below(self.spent.len())];
        if self.queue.job(job).unwrap().claim_id == Some(claim_id) {
            return;
        }
        let before = self.queue.jobs().to_vec();
        let outcome = match self.dice.below(3) {
            0 => self.queue.fail(job, claim_id, Failure::Permanent),
            1 => self.queue.plan(job, claim_id, Planned::NothingLeft),
            _ => self.queue.complete(job, claim_id, vec![]),
        };
        assert_eq!(outcome, Outcome::Stale);
        assert_eq!(before, self.queue.jobs(), "a late answer changed something");
    }

    fn kill(&mut self) {
        let claimer = self.claimers.swap_remove(self.dice.below(self.claimers.len()));
        self.queue.claimer_dies(claimer);
        let lost = self.flights.extract_if(.., |flight| flight.claimer == claimer);
        self.spent.extend(lost.map(|flight| flight.claim));
        if self.claimers.is_empty() {
            self.hire();
        }
    }

    fn hire(&mut self) {
        let next = self.now * 1_000 + self.claimers.len() as u64 + 1;
        self.queue.claimer_starts(next);
        self.claimers.push(next);
    }

    fn step(&mut self) {
        self.now += 1;
        let job = self.some_job();
        let _ = match self.dice.below(60) {
            0..=17 => {
                let n = 1 + self.dice.below(3);
                self.claim(n);
                return;
            }
            18..=39 => return self.finish(),
            40..=43 => return self.speak_late(),
            44 => return self.kill(),
            45 if self.claimers.len() < 3 => return self.hire(),
            45..=47 => return self.queue.free_dead_claims(),
            48 => self.queue.cancel(job),
            49 | 50 => self.queue.pause(job, Pause::User),
            51 => self.queue.pause(job, Pause::Wallet),
            52..=54 => self.queue.resume(job),
            55..=57 => self.queue.retry(job),
            58 if self.dice.one_in(4) => self.queue.supersede(job),
            58 | 59 => {
                let run = self.dice.below(self.stage_runs as usize) as u64;
                let mut new = new_job(Kind::Index, run, None, 0);
                new.prerequisites = vec![job];
                if self.queue.jobs().len() < MOST_JOBS {
                    let _ = self.queue.insert(new);
                }
                return;
            }
            other => unreachable!("no face {other}"),
        };
    }

    fn check(&self) {
        let broken = self.queue.invariants();
        assert!(broken.is_empty(), "{broken:#?}");
    }

    /// From here on everything succeeds, in random order.
    fn drain(&mut self) {
        for _ in 0..10_000 {
            self.now += 100;
            for id in 0..self.queue.jobs().len() as u64 {
                let _ = self.queue.resume(id);
            }
            self.queue.free_dead_claims();
            self.claim(3);
            self.check();
            if self.flights.is_empty() {
                break;
            }
            let flight = self.flights.swap_remove(self.dice.below(self.flights.len()));
            self.spent.push(flight.claim);
            self.succeed(flight);
            self.check();
        }
        for job in self.queue.jobs() {
            assert!(job.status.is_ended(), "{} waits for ever: {job:?}", job.id);
        }
        for run in 0..self.stage_runs {
            assert_ne!(self.queue.stage_run(run, 1), StageRun::Active, "stage run {run}");
        }
    }
}

fn seeds() -> impl Iterator<Item = u64> {
    let base = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok());
    let base: u64 = base.unwrap_or(1);
    base..base + RUNS
}

/// Prints the seed when the run it stands for panics.
struct Named(u64);

impl Drop for Named {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("SEED={} fails", self.0);
        }
    }
}

#[test]
fn whatever_happens_the_invariants_hold_and_everything_ends() {
    let mut completed = 0;
    let mut woken = 0;
    for seed in seeds() {
        let _named = Named(seed);
        let mut world = World::new(seed);
        for _ in 0..STEPS {
            world.step();
            world.check();
        }
        world.drain();
        for (job, from, to) in world.queue.moves() {
            assert!(from.may_become(*to), "job {job} went from {from} to {to}");
        }
        let done = |run: &u64| world.queue.stage_run(*run, 1) == StageRun::Completed;
        completed += (0..world.stage_runs).filter(done).count();
        woken += world.queue.jobs().iter().map(|job| job.woken as usize).sum::<usize>();
    }
    // Otherwise the simulation had become one of failures, and would prove nothing about the rest.
    assert!(completed as u64 > RUNS / 4, "only {completed} stage runs completed");
    assert!(woken as u64 > RUNS * 4, "only {woken} jobs were ever woken");
}

#[test]
fn without_accidents_every_stage_run_completes_with_all_its_models() {
    for seed in seeds().take(500) {
        let _named = Named(seed);
        let mut world = World::new(seed);
        world.drain();
        assert!(world.queue.jobs().iter().all(|job| job.status == Status::Completed));
        for run in 0..world.stage_runs {
            assert_eq!(world.queue.stage_run(run, 1), StageRun::Completed);
        }
    }
}
