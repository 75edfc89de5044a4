//! Who reads what: of all 237 prompts of three models each holds the texts that the standard process gives it, whole, and
//! nothing of any other.

use super::calls::{BRIEFED, Call, Reading, first_iteration};
use super::*;
use std::collections::BTreeMap;

/// What came of a call, and the prompt it was asked with.
pub(super) struct Made {
    /// Of the prompt: all its messages, one after the other.
    pub(super) prompt: String,
    /// The mark that only this answer carries.
    pub(super) mark: String,
    /// What later calls read of it.
    pub(super) text: String,
}

/// Everything that was asked and answered in a session.
pub(super) fn made(client: &mut Client, session: Uuid) -> BTreeMap<Call, Made> {
    let rows = client
        .query(
            "select j.step_key, j.model, origin.model, j.reviewer, run.iteration, run.stage, p.content, c.content, made.content \
             from dialectic.jobs j \
             join dialectic.stage_runs run on run.id = j.stage_run_id \
             join dialectic.resources p on p.job_id = j.id and p.resource_type in ('turn_prompt', 'planner_prompt') \
             join dialectic.contributions c on c.job_id = j.id \
             join lateral (select r.content from dialectic.resources r where r.source_contribution_id = c.id \
                           order by r.resource_type = 'rendered_document' desc limit 1) as made on true \
             left join dialectic.jobs origin on origin.id = j.lineage_id \
             where j.session_id = $1",
            &[&session],
        )
        .expect("prompts and answers");
    let mut calls = BTreeMap::new();
    for row in rows {
        let (step, stage): (String, String) = (row.get(0), row.get(5));
        let is_about = stage == "antithesis" || step.starts_with("pairwise_") && step != "pairwise_header";
        let call = Call {
            step,
            model: row.get(1),
            about: row.get::<_, Option<String>>(2).filter(|_| is_about),
            reviewer: row.get::<_, Option<String>>(3).filter(|_| is_about),
            iteration: row.get(4),
        };
        let messages: Vec<Value> = serde_json::from_str(row.get(6)).expect("messages");
        let prompt = messages.iter().filter_map(|message| message["content"].as_str()).collect::<Vec<_>>().join("\n");
        let own = marks(row.get(7));
        assert_eq!(own.len(), 1, "{call:?} carries {own:?}");
        let mark = own.into_iter().next().unwrap_or_default();
        let text = body(row.get(8)).to_owned();
        assert!(text.contains(&mark), "{call:?}: what is read of it has lost its mark");
        let twice = calls.insert(call.clone(), Made { prompt, mark, text });
        assert!(twice.is_none(), "{call:?} was made twice");
    }
    let distinct: BTreeSet<&str> = calls.values().map(|made| made.mark.as_str()).collect();
    assert_eq!(distinct.len(), calls.len(), "every answer has a mark of its own");
    calls
}

/// The prompts of these calls hold the texts they are to hold, and the mark of no other answer.
pub(super) fn assert_read(made: &BTreeMap<Call, Made>, reading: &Reading) {
    for (call, reads) in reading {
        let prompt = &made[call].prompt;
        let expected: BTreeSet<String> = reads.iter().map(|read| made[read].mark.clone()).collect();
        let name = |mark: &String| made.iter().find(|(_, made)| made.mark == *mark).map(|(call, _)| call);
        let found = marks(prompt);
        let missing: Vec<_> = expected.difference(&found).map(name).collect();
        let foreign: Vec<_> = found.difference(&expected).map(name).collect();
        assert!(
            missing.is_empty() && foreign.is_empty(),
            "{call:?}\ndoes not read {missing:#?}\nand reads {foreign:#?}"
        );
        for read in reads {
            assert!(prompt.contains(&made[read].text), "{call:?} does not read the whole of {read:?}");
        }
        assert!(prompt.contains(REQUEST), "{call:?} does not know the request");
    }
}

#[test]
fn each_of_237_prompts_holds_exactly_the_texts_that_are_its_own() {
    let database = Database::new();
    let mut client = database.connect();
    let models = ["m-a", "m-b", "m-c"];
    marked_models(&mut client, &models);
    let session = run(&mut client, &models);
    work(&mut client);
    let (made, reading) = (made(&mut client, session), first_iteration(&models));
    assert_eq!(reading.len(), 237);
    assert_eq!(made.keys().collect::<Vec<_>>(), reading.keys().collect::<Vec<_>>());
    assert_read(&made, &reading);

    let briefs: Vec<String> = column(
        &mut client,
        "select content from dialectic.resources where session_id = $1 and resource_type = 'seed_prompt'",
        &[&session],
    );
    assert_eq!(briefs.len(), 5);
    for (call, made) in &made {
        let held = briefs.iter().filter(|brief| made.prompt.contains(brief.trim())).count();
        assert_eq!(held, usize::from(BRIEFED.contains(&call.step.as_str())), "{call:?}");
    }
    assert_sound(&mut client);
}
