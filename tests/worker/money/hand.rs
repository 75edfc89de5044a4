//! Those who work the queue: hands outside the server, which ask, answer, fail, forget, come too late and say everything twice; and
//! runners inside it, which do as they should and are killed.

use super::line::{Line, Storm};
use dialectic_tests::Uuid;
use rand::Rng;
use rand::rngs::StdRng;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// How long a hand has for what it takes.
const LEASE: Duration = Duration::from_secs(5);

/// What a hand says of a job, now or later.
#[derive(Clone)]
struct Word {
    job: Uuid,
    claim: i64,
    /// None: it failed.
    answer: Option<(&'static str, Value)>,
    class: &'static str,
}

/// A worker outside the server.
pub(super) fn hand(storm: &Storm<'_>, number: u64, mut random: StdRng) {
    let mut line = Line::mortal(storm);
    let name = format!("hand {number}");
    // What was not said in time, and when it will be said.
    let mut late: Vec<(Instant, Word)> = Vec::new();
    while !storm.is_over() {
        let (now, most) = (Instant::now(), random.random_range(1..=3));
        for (_, word) in late.extract_if(.., |(when, _)| *when <= now) {
            storm.note("said late");
            say(storm, &mut line, &word);
        }
        let claim = "select id, claim_id, kind from dialectic.claim_jobs($1, $2, make_interval(secs => $3))";
        let claimed = line.ask(claim, &[&name, &most, &LEASE.as_secs_f64()]).unwrap_or_default();
        for job in &claimed {
            let (job, claim, kind): (Uuid, i64, String) = (job.get(0), job.get(1), job.get(2));
            if kind == "plan" || kind == "render" {
                line.ask("select dialectic.complete_job($1, $2)", &[&job, &claim]);
                continue;
            }
            if random.random_bool(0.03) {
                storm.note("claimed and forgotten");
                continue;
            }
            match line.value::<Option<Value>>("select dialectic.job_request($1)", &[&job]) {
                Some(Some(_)) => {}
                Some(None) => {
                    storm.note("not asked: no funds");
                    continue;
                }
                None => continue,
            }
            let word = reply(&mut random, job, claim);
            if random.random_bool(0.04) {
                storm.note("asked and not answered in time");
                late.push((now + LEASE * random.random_range(1..=2), word));
                continue;
            }
            if random.random_bool(0.02) {
                storm.note("asked and forgotten");
                continue;
            }
            say(storm, &mut line, &word);
            if random.random_bool(0.15) {
                storm.note("said twice");
                let again = if random.random_bool(0.5) { word } else { reply(&mut random, job, claim) };
                if say(storm, &mut line, &again).is_some_and(|said| said != "stale") {
                    // The first may have been cut before it was heard; only then is the second not too late.
                    storm.note("heard the second time");
                }
            }
        }
        if claimed.is_empty() && storm.is_over_within(50) {
            break;
        }
    }
}

/// What became of a call: mostly an answer, with or without a word on what was used, or with one beyond all measure.
fn reply(random: &mut StdRng, job: Uuid, claim: i64) -> Word {
    let usage = match random.random_range(0..10) {
        0 | 1 => json!({}),
        2 => json!({"input_tokens": 500, "output_tokens": random.random_range(200..4_000)}),
        3 => json!({"input_tokens": 0, "output_tokens": 0}),
        _ => {
            json!({"input_tokens": 40, "output_tokens": random.random_range(1..=100), "cached_tokens": random.random_range(0..40)})
        }
    };
    let (answer, class) = match random.random_range(0..100) {
        0..8 => (None, "transient"),
        8 => (None, "permanent"),
        9..12 => (None, "content"),
        12..16 => (Some(("length", usage)), ""),
        16..18 => (Some(("error", usage)), ""),
        _ => (Some(("stop", usage)), ""),
    };
    Word { job, claim, answer, class }
}

fn say(storm: &Storm<'_>, line: &mut Line<'_>, word: &Word) -> Option<String> {
    let said: Option<String> = match &word.answer {
        Some((reason, usage)) => line.value(
            "select dialectic.complete_job($1, $2, 'A leaf is green, and then it is not.', $3, $4)",
            &[&word.job, &word.claim, reason, usage],
        ),
        None => line.value("select dialectic.fail_job($1, $2, $3, 'it broke')", &[&word.job, &word.claim, &word.class]),
    };
    if let Some(said) = &said {
        storm.note(&format!("said, and the job is {said}"));
    }
    said
}

/// Somebody who works the queue inside the server, until he is killed.
pub(super) fn runner(storm: &Storm<'_>, mut random: StdRng) {
    let mut line = Line::mortal(storm);
    while !storm.is_over_within(50) {
        line.call(&format!("call dialectic.run_pending({})", random.random_range(1..=12)));
    }
}
