//! The tree of files: every artifact of a project stands in it once, in the place that is documented, and nowhere do two share a
//! path, not even where case does not count. `documents` and `storage_path` name the same places.
//!
//! Most laws look at one project: resources of every kind under the same and under hostile names, three models of which one
//! leaves keys out, the process `dialectic` with feedback, a second iteration, a regeneration, and a second session.

use crate::odd_processes::{all, define, run, seed, step};
use dialectic_tests::*;
use postgres::Client;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

const KINDS: [&str; 8] = [
    "deployment_context",
    "domain_standards",
    "success_criteria",
    "constraint_boundaries",
    "stakeholder_considerations",
    "reference_documents",
    "compliance_requirements",
    "general_resource",
];
const NAMES: [&str; 5] = ["Same name", "same NAME", "../../etc/passwd", "計画", "project_readme.md"];

struct World {
    database: Database,
    project: Uuid,
    session: Uuid,
}

/// Made once, for the laws only look at it.
fn world() -> &'static World {
    static WORLD: OnceLock<World> = OnceLock::new();
    WORLD.get_or_init(|| {
        let database = Database::new();
        let mut client = database.connect();
        client
            .execute("select dialectic.add_model('lax', 'simulator', settings => '{\"omit_keys\": [\"executive_summary\"]}')", &[])
            .expect("add_model");
        let project: Uuid = one(&mut client, "select dialectic.create_project('Ärger & Co', 'Plan a thing.')", &[]);
        for (kind, name) in KINDS.iter().flat_map(|kind| NAMES.map(|name| (kind, name))) {
            one::<Uuid>(&mut client, "select dialectic.add_resource($1, $2, $3, $4)", &[&project, &name, &"A text.", kind]);
        }
        let session: Uuid = one(&mut client, "select dialectic.start_session($1, '{sim-a,sim-b,lax}')", &[&project]);
        for stage in ["thesis", "antithesis", "synthesis", "parenthesis", "paralysis"] {
            generate(&mut client, session, stage);
            if stage != "paralysis" {
                one::<Option<String>>(&mut client, "select dialectic.submit_stage($1, 'Shorter, please.')", &[&session]);
            }
        }
        generate(&mut client, session, "paralysis");
        one::<Uuid>(&mut client, "select dialectic.regenerate($1, 'business_case', 'sim-a')", &[&session]);
        let second: Uuid = one(&mut client, "select dialectic.start_session($1, '{sim-a}')", &[&project]);
        generate(&mut client, second, "thesis");
        let failed: Vec<String> = column(
            &mut client,
            "select format('%s %s: %s', model, step_key, error_details ->> 'message') from dialectic.jobs where status not in ('completed', 'superseded')",
            &[],
        );
        assert_eq!(failed, [] as [String; 0]);
        assert_sound(&mut client);
        World { database, project, session }
    })
}

fn generate(client: &mut Client, session: Uuid, stage: &str) {
    client.query("select * from dialectic.generate($1, $2)", &[&session, &stage]).expect("generate");
    work(client);
}

fn files(client: &mut Client, id: Uuid) -> BTreeMap<String, (String, String)> {
    let rows = client.query("select path, mime_type, content from dialectic.files($1)", &[&id]).expect("files");
    let files: BTreeMap<_, _> = rows.iter().map(|row| (row.get(0), (row.get(1), row.get(2)))).collect();
    assert_eq!(files.len(), rows.len(), "two artifacts share a path");
    files
}

fn short(id: Uuid) -> String {
    let hex = id.simple().to_string();
    hex[hex.len() - 8..].to_owned()
}

#[test]
fn every_artifact_has_a_path_of_its_own() {
    let World { database, project, .. } = world();
    let mut client = database.connect();
    let files = files(&mut client, *project);
    let lower: BTreeSet<String> = files.keys().map(|path| path.to_lowercase()).collect();
    assert_eq!(lower.len(), files.len(), "where case does not count");
    let count = |client: &mut Client, query: &str| one::<i64>(client, query, &[project]);
    let resources = count(&mut client, "select count(*) from dialectic.resources where project_id = $1");
    let answers = count(
        &mut client,
        "select count(*) from dialectic.contributions c join dialectic.sessions s on s.id = c.session_id where s.project_id = $1",
    );
    let checklists = count(
        &mut client,
        "select count(*) from dialectic.resources where project_id = $1 and resource_type = 'rendered_document' and document_key = 'actionable_checklist'",
    );
    assert_eq!(checklists, 6, "three models, two iterations");
    // And the readme and the settings.
    assert_eq!(files.len() as i64, resources + answers + checklists + 2);
    for path in files.keys() {
        assert!(path.starts_with("aerger_co/"), "{path}");
        let safe = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
        assert!(
            path.split('/').all(|part| !part.is_empty() && !part.starts_with('.') && part.chars().all(safe)),
            "{path}"
        );
    }
}

#[test]
fn the_tree_is_the_documented_one() {
    let World { database, project, session } = world();
    let mut client = database.connect();
    let files = files(&mut client, *project);
    let stage = |iteration: i32, folder: &str| format!("session_{}/iteration_{iteration}/{folder}", short(*session));
    let (one, two, three, five) =
        (stage(1, "1_thesis"), stage(1, "2_antithesis"), stage(1, "3_synthesis"), stage(1, "5_paralysis"));
    let there = [
        "project_readme.md".to_owned(),
        "project_settings.json".to_owned(),
        "initial_prompt.md".to_owned(),
        "general_resource/same_name.md".to_owned(),
        "general_resource/same_name_16.md".to_owned(),
        "general_resource/etc_passwd_8.md".to_owned(),
        "general_resource/project_readme.md".to_owned(),
        "Pending/lax_1_actionable_checklist.md".to_owned(),
        "Pending/lax_1_actionable_checklist_2.md".to_owned(),
        format!("{one}/seed_prompt.md"),
        format!("{one}/user_feedback.md"),
        format!("{one}/documents/sim-b_1_business_case.md"),
        format!("{one}/documents/sim-a_1_business_case.md"),
        format!("{one}/documents/sim-a_2_business_case.md"),
        format!("{one}/raw_responses/sim-b_1_business_case_raw.json"),
        format!("{one}/raw_responses/lax_1_business_case_continuation_1_raw.json"),
        format!("{one}/raw_responses/sim-b_1_thesis_header_raw.json"),
        format!("{one}/_work/prompts/sim-b_1_thesis_header_planner_prompt.md"),
        format!("{one}/_work/prompts/sim-b_1_business_case_prompt.md"),
        format!("{one}/_work/prompts/sim-a_2_business_case_prompt.md"),
        format!("{one}/_work/prompts/lax_1_business_case_continuation_1_prompt.md"),
        format!("{one}/_work/context/sim-b_1_thesis_header_header_context.json"),
        format!("{one}/_work/assembled_json/lax_1_business_case_assembled.json"),
        format!("{two}/documents/sim-b_critiquing_sim-a_1_risk_register.md"),
        format!("{two}/documents/sim-b_critiquing_sim-b_1_risk_register.md"),
        format!("{two}/_work/context/lax_critiquing_sim-a_1_review_header_header_context.json"),
        format!("{two}/_work/assembled_json/sim-b_critiquing_sim-a_1_comparison_vector_assembled.json"),
        format!("{three}/_work/assembled_json/sim-a_from_sim-b_lax_1_pairwise_business_case_assembled.json"),
        format!("{three}/_work/context/sim-a_1_pairwise_header_header_context.json"),
        format!("{three}/_work/context/sim-a_1_final_header_header_context.json"),
        format!("{three}/documents/sim-a_1_tech_stack.md"),
        format!("{five}/documents/sim-a_1_actionable_checklist.md"),
        format!("{}/documents/sim-a_1_actionable_checklist.md", stage(2, "5_paralysis")),
    ];
    for path in there {
        assert!(files.contains_key(&format!("aerger_co/{path}")), "{path} is not there: {:#?}", files.keys());
    }
    let json_only =
        files.keys().filter(|path| path.contains("/documents/") && path.contains("comparison_vector")).count();
    assert_eq!(json_only, 0, "JSON that nobody renders is no document");
    for (path, (mime_type, content)) in &files {
        let is_json = path.ends_with(".json");
        if is_json && !path.contains("/raw_responses/") {
            assert!(
                mime_type == "application/json" && serde_json::from_str::<Value>(content).is_ok(),
                "{path}: {mime_type}"
            );
        }
        assert!(!content.is_empty(), "{path}");
    }
    let settings: Value = serde_json::from_str(&files["aerger_co/project_settings.json"].1).expect("JSON");
    assert_eq!(settings["project"]["process"], "dialectic");
    assert_eq!(settings["models"].as_array().map(Vec::len), Some(3));
}

#[test]
fn the_files_of_a_session_are_a_part_of_those_of_its_project() {
    let World { database, project, session } = world();
    let mut client = database.connect();
    let whole = files(&mut client, *project);
    let part = files(&mut client, *session);
    let folder = format!("aerger_co/session_{}/", short(*session));
    let expected: BTreeMap<_, _> = whole.into_iter().filter(|(path, _)| path.starts_with(&folder)).collect();
    assert!(part.len() > 800, "{}", part.len());
    assert_eq!(part, expected);
}

#[test]
fn documents_and_storage_path_name_the_places_of_the_tree() {
    let World { database, project, .. } = world();
    let mut client = database.connect();
    let files = files(&mut client, *project);
    let documents = client.query("select id, path, content from dialectic.documents", &[]).expect("documents");
    // Of 3 models 84, of the second iteration 9, of the second session 4.
    assert_eq!(documents.len(), 97);
    for row in &documents {
        let (path, content): (String, String) = (row.get(1), row.get(2));
        assert_eq!(files.get(&path).map(|(_, there)| there), Some(&content), "{path}");
    }
    for row in documents.iter().step_by(20) {
        assert_eq!(
            one::<String>(&mut client, "select dialectic.storage_path($1)", &[&row.get::<_, Uuid>(0)]),
            row.get::<_, String>(1)
        );
    }
    // One of each type besides.
    let artifacts = client
        .query(
            "(select distinct on (resource_type) id, content from dialectic.resources where project_id = $1 order by resource_type, id desc) \
             union all (select id, content from dialectic.contributions order by id desc limit 1)",
            &[project],
        )
        .expect("artifacts");
    assert!(artifacts.len() > 15);
    for row in artifacts {
        let path: String = one(&mut client, "select dialectic.storage_path($1)", &[&row.get::<_, Uuid>(0)]);
        assert_eq!(files[&path].1, row.get::<_, String>(1), "{path}");
    }
    for call in ["select dialectic.storage_path($1)", "select * from dialectic.files($1)"] {
        refused_with(&mut client, call, &[&Uuid::nil()], "P0002", &Uuid::nil().to_string());
        refused_with(&mut client, call, &[&None::<Uuid>], "P0002", "null");
    }
}

#[test]
fn documents_of_one_name_are_numbered_as_the_tree_numbers_them() {
    let database = Database::new();
    let mut client = database.connect();
    let texts = || json!([{"type": "general_resource", "multiple": true}]);
    let steps = ["leaf", "leaf_2"].map(|key| step(key, "per_source_document", texts()));
    define(&mut client, "leaves", &[("only", steps.into())]);
    let session = run(&mut client, "leaves", &["sim-a"], 4);
    let lineage: Uuid = one(
        &mut client,
        "select lineage from dialectic.documents where document_key = 'leaf' order by created_at, id limit 1",
        &[],
    );
    one::<Uuid>(&mut client, "select dialectic.regenerate($1, 'leaf', 'sim-a', $2)", &[&session, &lineage]);
    work(&mut client);
    let files = files(&mut client, session);
    let documents = client.query("select path, content from dialectic.documents", &[]).expect("documents");
    let paths: BTreeSet<String> = documents.iter().map(|row| row.get(0)).collect();
    assert_eq!((documents.len(), paths.len()), (8, 8), "{paths:#?}");
    for row in documents {
        let (path, content): (String, String) = (row.get(0), row.get(1));
        assert_eq!(files[&path].1, content, "{path}");
    }
}

#[test]
fn every_group_of_a_step_is_a_document_of_its_own_and_is_read_by_what_follows() {
    let database = Database::new();
    let mut client = database.connect();
    let origin = json!({"type": "reply", "origin_type": "claim", "from_models": "all", "multiple": true});
    define(
        &mut client,
        "deep",
        &[(
            "only",
            vec![
                step("claim", "all_to_one", seed()),
                step("reply", "per_source_document", json!([all("claim")])),
                step("pair", "pairwise_by_origin", json!([all("claim"), origin])),
                // Of one lineage and one reviewer there is a pair by every model.
                step("echo", "per_source_document", json!([all("pair")])),
                step("end", "all_to_one", json!([all("echo")])),
            ],
        )],
    );
    run(&mut client, "deep", &["sim-a", "sim-b"], 0);
    let counts: Vec<String> = column(
        &mut client,
        "select format('%s %s %s', document_key, count(*), count(distinct path)) from dialectic.documents group by document_key order by 1",
        &[],
    );
    assert_eq!(counts, ["claim 2 2", "echo 16 16", "end 2 2", "pair 8 8", "reply 4 4"]);
    let read: Vec<i64> = column(
        &mut client,
        "select count(*) from dialectic.job_inputs i join dialectic.jobs j on j.id = i.job where j.step_key = 'end' group by j.id",
        &[],
    );
    assert_eq!(read, [16, 16]);
    let pairs: Vec<String> = column(
        &mut client,
        "select split_part(path, '/documents/', 2) from dialectic.documents where document_key = 'pair' and model = 'sim-a' order by 1",
        &[],
    );
    let names =
        ["sim-a_sim-a", "sim-a_sim-b", "sim-b_sim-a", "sim-b_sim-b"].map(|of| format!("sim-a_from_{of}_1_pair.md"));
    assert_eq!(pairs, names);
}

#[test]
fn long_names_of_models_stay_apart_and_fit_a_file_system() {
    let database = Database::new();
    let mut client = database.connect();
    let names = ["x", "y"].map(|end| format!("{}{end}", "very/long.model:".repeat(7).get(..99).expect("long enough")));
    for name in &names {
        one::<String>(&mut client, "select dialectic.add_model($1, 'simulator')", &[name]);
    }
    let session: Uuid = one(
        &mut client,
        "select dialectic.run('Why?', models => $1, process => 'essay', name => $2)",
        &[&names.as_slice(), &"名".repeat(100)],
    );
    work(&mut client);
    let files = files(&mut client, session);
    assert_eq!(one::<String>(&mut client, "select status from dialectic.sessions", &[]), "completed");
    assert!(
        files.keys().flat_map(|path| path.split('/')).all(|part| part.len() <= 255 && part.is_ascii()),
        "{files:#?}"
    );
    let numbered = files.keys().filter(|path| path.contains("/documents/") && path.ends_with("_2.md")).count();
    assert_eq!(numbered, 0, "names of models are told apart by their slugs");
}
