//! A stage that is generated without `continue_until_complete` asks for nothing twice: a document that lacks keys is kept as it
//! is and marked. The stage after it is mended again, which stands on the shipped prompt `repair_missing_keys`.

use super::*;
use crate::by_hand::session_status;
use serde_json::json;

#[test]
fn a_document_that_may_not_be_mended_is_kept_rendered_and_marked_incomplete() {
    let database = Database::new();
    let mut client = database.connect();
    let omitted = ["architecture", "context_for_documents[business_case]"];
    model(&mut client, "hasty", &json!({"marker": "auto", "omit_keys": omitted}));
    let session = start(&mut client, &["hasty"]);
    client
        .query("select * from dialectic.generate($1, continue_until_complete => false)", &[&session])
        .expect("generate");
    work(&mut client);
    let documents: Vec<String> = column(
        &mut client,
        "select concat_ws(' ', document_key, complete) from dialectic.documents where session_id = $1 order by 1",
        &[&session],
    );
    assert_eq!(documents, ["business_case t", "feature_spec t", "success_metrics t", "technical_approach f"]);
    let kept: String = one(
        &mut client,
        "select content from dialectic.resources where step_key = 'technical_approach' and resource_type = 'assembled_json' and not is_complete",
        &[],
    );
    let kept: Value = serde_json::from_str(&kept).expect("JSON");
    assert!(kept.get("architecture").is_none());
    let document: String =
        one(&mut client, "select content from dialectic.documents where document_key = 'technical_approach'", &[]);
    assert!(document.contains(kept["deployment"].as_str().expect("a text")), "{document}");
    let header: bool =
        one(&mut client, "select is_complete from dialectic.resources where resource_type = 'header_context'", &[]);
    assert!(!header, "nor is the header");

    for (what, query) in [
        ("jobs that mend", "select count(*) from dialectic.jobs where continuation_count > 0"),
        ("prompts that mend", "select count(*) from dialectic.resources where resource_type = 'continuation_prompt'"),
        ("calls beyond the five", "select count(*) - 5 from dialectic.model_calls"),
        ("failures", "select count(*) from dialectic.jobs where error_details is not null"),
    ] {
        assert_eq!(one::<i64>(&mut client, query, &[]), 0, "{what}");
    }

    // The next stage is asked for as a whole again, and reads what there is.
    next_stage(&mut client, session);
    assert_eq!(session_status(&mut client, session), "active");
    let mended: Vec<String> = column(
        &mut client,
        "select step_key from dialectic.jobs where continuation_count > 0 and kind = 'execute'",
        &[],
    );
    assert_eq!(mended, ["technical_feasibility_assessment"]);
    let reviewed = "select count(*) from dialectic.documents where stage = 'antithesis' and complete";
    assert_eq!(one::<i64>(&mut client, reviewed, &[]), 5);
    assert_sound(&mut client);
}
