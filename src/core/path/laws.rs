//! The laws of paths: the documented tree, no two artifacts in one place, no way out.
//!
//! They decide nothing; they hold [`super`] to what its header says. Distinctness is claimed for names whose slugs
//! differ, never for all names: what slugs cannot tell apart the shell numbers.

use super::*;
use proptest::prelude::*;

const ID: &str = "018f2a3b-0000-7000-8000-00001234abcd";

const DOCUMENT: Artifact<'static> = Artifact {
    project_name: "Sunday Library",
    session_id: ID,
    iteration: 1,
    stage_position: 1,
    stage: "thesis",
    kind: Kind::Document,
    model: "sim-a",
    work: Work::Alone,
    key: Key::Named("business_case"),
    version: 1,
    continuation: 0,
};

#[test]
fn the_tree_is_the_documented_one() {
    let root = "sunday_library/session_1234abcd/iteration_1/1_thesis";
    let at = |kind, continuation| Artifact { kind, continuation, ..DOCUMENT }.path();
    for (kind, continuation, path) in [
        (Kind::SeedPrompt, 0, "seed_prompt.md"),
        (Kind::UserFeedback, 0, "user_feedback.md"),
        (Kind::Document, 0, "documents/sim-a_1_business_case.md"),
        (Kind::DocumentFeedback, 0, "documents/sim-a_1_business_case_feedback.md"),
        (Kind::RawResponse, 0, "raw_responses/sim-a_1_business_case_raw.json"),
        (Kind::RawResponse, 2, "raw_responses/sim-a_1_business_case_continuation_2_raw.json"),
        (Kind::Prompt, 0, "_work/prompts/sim-a_1_business_case_prompt.md"),
        (Kind::PlannerPrompt, 1, "_work/prompts/sim-a_1_business_case_planner_continuation_1_prompt.md"),
        (Kind::HeaderContext, 0, "_work/context/sim-a_1_business_case_header_context.json"),
        (Kind::AssembledJson, 0, "_work/assembled_json/sim-a_1_business_case_assembled.json"),
    ] {
        assert_eq!(at(kind, continuation), format!("{root}/{path}"));
    }
    let combined = Artifact { kind: Kind::RawResponse, key: Key::Combined { job: ID }, ..DOCUMENT };
    assert!(combined.path().ends_with("raw_responses/sim-a_1_combined_1234abcd_raw.json"));
}

#[test]
fn a_name_tells_what_the_model_worked_on() {
    for (work, name) in [
        (Work::of("sim-b", None, None, None, false), "sim-b"),
        (Work::of("sim-b", Some("sim-b"), None, Some(ID), false), "sim-b"),
        (Work::of("sim-b", Some("sim-a"), Some("sim-b"), Some(ID), false), "sim-b_critiquing_sim-a"),
        (Work::of("sim-b", Some("sim-b"), Some("sim-b"), Some(ID), false), "sim-b_critiquing_sim-b"),
        (Work::of("sim-b", Some("sim-a"), Some("sim-c"), Some(ID), true), "sim-b_from_sim-a_sim-c"),
        (Work::of("sim-b", Some("sim-a"), Some("sim-b"), Some(ID), true), "sim-b_from_sim-a_sim-b"),
        (Work::of("sim-b", None, None, Some(ID), false), "sim-b_reducing_1234abcd"),
        (Work::of("sim-b", Some("sim-a"), None, Some(ID), false), "sim-b_reducing_1234abcd"),
    ] {
        assert_eq!(Who("sim-b", work).to_string(), name);
    }
}

#[test]
fn a_path_that_is_taken_gets_a_number() {
    assert_eq!(numbered("a/b.md", 1), "a/b.md");
    assert_eq!(numbered("a/b.md", 2), "a/b_2.md");
    assert_eq!(numbered("a.b/c", 3), "a.b/c_3");
}

type Facts = (String, u32, u32, String, usize, String, usize, String, u32, u32);

fn facts() -> impl Strategy<Value = Facts> {
    let name = || "[ab][0-9-]?[ab]";
    let n = || 1..4_u32;
    (name(), n(), n(), name(), 0..7_usize, name(), 0..4_usize, "[ab]{1,2}(_[ab]{1,2})?", n(), 0..3_u32)
}

fn path(facts: &Facts) -> (String, String) {
    let (project, iteration, position, stage, kind, model, work, key, version, continuation) = facts;
    let (source, reviewer, lineage) = (stage.as_str(), project.as_str(), "00000000ab");
    let artifact = Artifact {
        project_name: project,
        iteration: *iteration,
        stage_position: *position,
        stage,
        kind: [
            Kind::Document,
            Kind::DocumentFeedback,
            Kind::RawResponse,
            Kind::Prompt,
            Kind::PlannerPrompt,
            Kind::HeaderContext,
            Kind::AssembledJson,
        ][*kind],
        model,
        work: [Work::Alone, Work::Critiquing { source }, Work::Pair { source, reviewer }, Work::Reducing { lineage }]
            [*work],
        key: Key::Named(key),
        version: *version,
        // Only calls are continued; the other kinds are one per answer.
        continuation: if matches!(kind, 2..=4) { *continuation } else { 0 },
        ..DOCUMENT
    };
    (artifact.path(), format!("{artifact:?}"))
}

proptest! {
    #[test]
    fn different_artifacts_never_share_a_path(all in proptest::collection::vec(facts(), 2..40)) {
        let mut seen = std::collections::HashMap::new();
        for (path, identity) in all.iter().map(path) {
            let first = seen.entry(path).or_insert_with(|| identity.clone());
            prop_assert_eq!(&*first, &identity);
        }
    }

    #[test]
    fn a_hostile_name_cannot_leave_the_tree(
        name in prop_oneof![any::<String>(), "(\\.\\.|/|\\\\|:|\u{0}|con|~|\\$|é| ){0,80}"],
        version in any::<u32>(),
    ) {
        for kind in [Kind::Document, Kind::RawResponse, Kind::PlannerPrompt, Kind::HeaderContext] {
            let path = Artifact {
                project_name: &name,
                session_id: &name,
                stage: &name,
                kind,
                model: &name,
                work: Work::Pair { source: &name, reviewer: &name },
                key: Key::Named(&name),
                version,
                continuation: u32::MAX,
                ..DOCUMENT
            }
            .path();
            let depth = if path.contains("/_work/") { 7 } else { 6 };
            prop_assert_eq!(path.split('/').count(), depth);
            for part in path.split('/') {
                prop_assert!(!part.is_empty() && !part.starts_with('.') && part.len() <= 255, "{}", part);
                prop_assert!(part.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b)));
            }
        }
    }
}
