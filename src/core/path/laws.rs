//! The laws of paths: the documented tree, no two artifacts in one place, no way out.
//!
//! They decide nothing; they hold [`super`] to what its header says. A path by itself is distinct for names whose slugs
//! differ, never for all names: what slugs cannot tell apart is numbered, and then no two are equal.

use super::*;
use proptest::prelude::*;
use std::collections::HashSet;
use std::time::Instant;

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
        (Kind::Prompt, 3, "_work/prompts/sim-a_1_business_case_continuation_3_prompt.md"),
        (Kind::HeaderContext, 0, "_work/context/sim-a_1_business_case_header_context.json"),
        (Kind::RagContext, 0, "_work/context/sim-a_1_business_case_rag_context.md"),
        (Kind::AssembledJson, 0, "_work/assembled_json/sim-a_1_business_case_assembled.json"),
    ] {
        assert_eq!(at(kind, continuation), format!("{root}/{path}"));
    }
    let combined = Artifact { kind: Kind::RawResponse, key: Key::Combined { job: ID }, ..DOCUMENT };
    assert!(combined.path().ends_with("raw_responses/sim-a_1_combined_1234abcd_raw.json"));
}

#[test]
fn a_project_has_its_own_files() {
    for (kind, name, path) in [
        (Kind::ProjectReadme, "", "project_readme.md"),
        (Kind::ProjectSettings, "", "project_settings.json"),
        (Kind::InitialPrompt, "Open on Sundays?", "open_on_sundays.md"),
        (Kind::InitialPrompt, "", "initial_prompt.md"),
        (Kind::GeneralResource, "Opening hours.csv", "general_resource/opening_hours.csv"),
        (Kind::Pending, "Ask the union", "Pending/ask_the_union.md"),
        (Kind::Current, "Ask the union", "Current/ask_the_union.md"),
        (Kind::Complete, "Ask the union", "Complete/ask_the_union.md"),
    ] {
        assert_eq!(Artifact::of_project("Sunday Library", kind, name).path(), format!("sunday_library/{path}"));
    }
    let checklist = Artifact { kind: Kind::Pending, key: Key::Named("actionable_checklist"), version: 2, ..DOCUMENT };
    assert_eq!(checklist.path(), "sunday_library/Pending/sim-a_2_actionable_checklist.md");
    let seed = Artifact::of_stage("Sunday Library", ID, 2, (3, "synthesis"), Kind::SeedPrompt);
    assert_eq!(seed.path(), "sunday_library/session_1234abcd/iteration_2/3_synthesis/seed_prompt.md");
}

#[test]
fn every_type_of_resource_has_its_place() {
    for (resource, kind) in [
        ("initial_user_prompt", Kind::InitialPrompt),
        ("seed_prompt", Kind::SeedPrompt),
        ("planner_prompt", Kind::PlannerPrompt),
        ("turn_prompt", Kind::Prompt),
        ("continuation_prompt", Kind::Prompt),
        ("header_context", Kind::HeaderContext),
        ("assembled_json", Kind::AssembledJson),
        ("rendered_document", Kind::Document),
        ("user_feedback", Kind::UserFeedback),
        ("rag_context", Kind::RagContext),
        ("general_resource", Kind::GeneralResource),
        ("constraint_boundaries", Kind::GeneralResource),
        ("project_readme", Kind::ProjectReadme),
        ("project_settings", Kind::ProjectSettings),
        ("pending_file", Kind::Pending),
        ("current_file", Kind::Current),
        ("complete_file", Kind::Complete),
    ] {
        assert_eq!(Kind::of_resource(resource, false), Some(kind));
    }
    assert_eq!(Kind::of_resource("user_feedback", true), Some(Kind::DocumentFeedback));
    assert_eq!(Kind::of_resource("thesis", false), None);
}

#[test]
fn a_header_is_called_by_its_step_and_a_combination_by_its_job() {
    for (key, name) in [
        (Key::of(Some("business_case"), "document", None, None), "business_case"),
        (Key::of(None, "reduced_synthesis", None, None), "reduced_synthesis"),
        (Key::of(None, "header_context", Some("final_header"), None), "final_header"),
        (Key::of(Some("business_case"), "document", None, Some(ID)), "combined_1234abcd"),
    ] {
        assert_eq!(key.to_string(), name);
    }
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

#[test]
fn equal_paths_are_numbered_in_the_order_given() {
    let named = |name| Artifact::of_project("p", Kind::GeneralResource, name);
    let given = [named("a"), named("A"), named("a_2"), named("a "), named("a_2"), named("b")];
    let names = ["a.md", "a_2.md", "a_2_2.md", "a_3.md", "a_2_3.md", "b.md"];
    assert_eq!(paths(&given), names.map(|name| format!("p/general_resource/{name}")));
}

#[test]
fn numbering_takes_time_by_the_number_of_artifacts() {
    let names: Vec<String> = (0..20_000).map(|n| format!("a_{n}")).collect();
    let named = |name| Artifact::of_project("p", Kind::GeneralResource, name);
    let given: Vec<Artifact<'_>> =
        names.iter().map(|name| named(name)).chain((0..20_000).map(|_| named("a"))).collect();
    let started = Instant::now();
    assert_eq!(paths(&given).into_iter().collect::<HashSet<_>>().len(), given.len());
    assert!(started.elapsed().as_secs() < 2, "{:?}", started.elapsed());
}

const KINDS: [Kind; 17] = [
    Kind::ProjectReadme,
    Kind::ProjectSettings,
    Kind::InitialPrompt,
    Kind::GeneralResource,
    Kind::Pending,
    Kind::Current,
    Kind::Complete,
    Kind::SeedPrompt,
    Kind::UserFeedback,
    Kind::Document,
    Kind::DocumentFeedback,
    Kind::RawResponse,
    Kind::Prompt,
    Kind::PlannerPrompt,
    Kind::HeaderContext,
    Kind::RagContext,
    Kind::AssembledJson,
];

/// Names that are alike, that imitate what stands beside them, and that want to get out.
fn hostile() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "(\\.\\.|/|\\\\|:|\u{0}|con|nul|\\.txt|~|\\$|é| ){0,80}",
        "[aA](_[1-3]|_feedback|_raw|_prompt|_continuation_1| |\\.md){0,3}",
        "(project_readme|Pending|com1|COM¹|LPT9\\.json|aux\\.|initial_prompt|general_resource)",
    ]
}

type Hostile = (usize, String, String, usize, String, u32, u32);

fn artifact(facts: &Hostile) -> Artifact<'_> {
    let (kind, model, source, work, key, version, continuation) = facts;
    let (source, reviewer, lineage) = (source.as_str(), model.as_str(), key.as_str());
    Artifact {
        project_name: source,
        kind: KINDS[*kind],
        model,
        work: [Work::Alone, Work::Critiquing { source }, Work::Pair { source, reviewer }, Work::Reducing { lineage }]
            [*work],
        key: if *version == 3 { Key::Combined { job: key } } else { Key::Named(key) },
        version: *version,
        continuation: *continuation,
        ..DOCUMENT
    }
}

/// Whether any file system takes it and no device answers to it.
fn is_safe(part: &str) -> bool {
    let stem = part.split('.').next().unwrap_or_default().to_ascii_lowercase();
    let devices = ["con", "prn", "aux", "nul", "conin", "conout", "clock"];
    let numbered = stem.strip_prefix("com").or(stem.strip_prefix("lpt")).is_some_and(|n| n.len() == 1);
    (1..=255).contains(&part.len())
        && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b))
        && !part.starts_with(['.', '-'])
        && !part.ends_with('.')
        && !part.contains("..")
        && !devices.contains(&stem.as_str())
        && !numbered
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
    fn no_two_paths_are_equal_and_none_leaves_the_tree(
        all in proptest::collection::vec(
            (0..KINDS.len(), hostile(), hostile(), 0..4_usize, hostile(), 0..4_u32, 0..3_u32), 1..40),
        again in proptest::collection::vec(any::<usize>(), 0..20),
        cut in any::<usize>(),
    ) {
        let mut artifacts: Vec<Artifact<'_>> = all.iter().map(artifact).collect();
        artifacts.extend(again.iter().map(|at| artifact(&all[at % all.len()])));
        let paths = paths(&artifacts);
        prop_assert_eq!(paths.len(), artifacts.len());
        let files: HashSet<String> = paths.iter().map(|path| path.to_lowercase()).collect();
        prop_assert_eq!(files.len(), paths.len(), "two are equal: {:?}", paths);
        for (path, artifact) in paths.iter().zip(&artifacts) {
            prop_assert!(path.split('/').all(is_safe), "{}", path);
            prop_assert!(path.starts_with(&format!("{}/", slug(artifact.project_name))), "{}", path);
            let folders = path.match_indices('/').map(|(at, _)| path[..at].to_lowercase());
            for folder in folders {
                prop_assert!(!files.contains(&folder), "{} is a file and a folder", folder);
            }
        }
        let cut = cut % artifacts.len();
        prop_assert_eq!(&super::paths(&artifacts[..cut])[..], &paths[..cut], "what comes later moves what is there");
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
