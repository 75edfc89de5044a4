//! A recipe, a prompt and a layout that are edited while a session runs: it keeps those it started with, the next session has
//! the new ones.

use super::*;
use crate::by_hand::session_status;

/// What a session made of its planning and implementation.
struct Facts {
    calls: i64,
    master_plan_prompt: String,
    master_plan: String,
    last_documents: Vec<String>,
}

fn facts(client: &mut Client, session: Uuid) -> Facts {
    assert_eq!(session_status(client, session), "completed");
    let of = |client: &mut Client, r#type: &str| {
        one(
            client,
            "select content from dialectic.resources where session_id = $1 and step_key = 'master_plan' and resource_type = $2",
            &[&session, &r#type],
        )
    };
    Facts {
        calls: one(client, "select count(*) from dialectic.model_calls where session_id = $1", &[&session]),
        master_plan_prompt: of(client, "turn_prompt"),
        master_plan: of(client, "rendered_document"),
        last_documents: column(
            client,
            "select document_key from dialectic.documents where session_id = $1 and stage = 'paralysis' order by 1",
            &[&session],
        ),
    }
}

/// A step less, another prompt, another layout.
fn edit(client: &mut Client) {
    client
        .batch_execute(
            r#"
            select dialectic.define_stage('dialectic', 'paralysis', (
                select jsonb_build_object('steps', jsonb_agg(step order by nth) filter (where step ->> 'key' <> 'advisor_recommendations'))
                from jsonb_array_elements(dialectic._stored_stages('dialectic')) as stage,
                     jsonb_array_elements(stage -> 'recipe' -> 'steps') with ordinality as listed(step, nth)
                where stage ->> 'slug' = 'paralysis'));
            select dialectic.set_prompt('dialectic_master_plan', (
                select replace(body, 'Write the master plan.', 'Write the master plan in verse.')
                from dialectic._current_prompts where name = 'dialectic_master_plan'));
            select dialectic.set_document_template('master_plan', E'# In verse\n\n{{ doc.executive_summary }}\n');
            "#,
        )
        .expect("edits");
}

#[test]
fn a_session_keeps_the_recipe_prompt_and_layout_it_started_with_and_the_next_has_the_new_ones() {
    let database = Database::new();
    let mut client = database.connect();
    let session = start(&mut client, &["sim-a"]);
    generate(&mut client, session);
    work(&mut client);
    edit(&mut client);
    for _ in 1..STAGES.len() {
        next_stage(&mut client, session);
    }
    let later = run(&mut client, &["sim-a"]);
    work(&mut client);

    let (before, after) = (facts(&mut client, session), facts(&mut client, later));
    assert_eq!((before.calls, after.calls), (33, 32));
    assert_eq!(before.last_documents, ["actionable_checklist", "advisor_recommendations", "updated_master_plan"]);
    assert_eq!(after.last_documents, ["actionable_checklist", "updated_master_plan"]);
    for (what, old, new) in [
        ("Write the master plan in verse.", &before.master_plan_prompt, &after.master_plan_prompt),
        ("# In verse", &before.master_plan, &after.master_plan),
    ] {
        assert!(!old.contains(what), "the session that ran has what came later: {what}");
        assert!(new.contains(what), "the session that came later has what was before: {what}");
    }
    // A new iteration of the old session is still of the old session.
    client.query("select * from dialectic.generate($1, stage => 'paralysis')", &[&session]).expect("generate");
    work(&mut client);
    let again =
        "select count(*) from dialectic.documents where session_id = $1 and stage = 'paralysis' and iteration = 2";
    assert_eq!(one::<i64>(&mut client, again, &[&session]), 3);
    assert_sound(&mut client);
}
