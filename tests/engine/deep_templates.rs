//! Templates that are nested too deep are refused; the deepest ones run on the stacks of a backend and of the worker.

use dialectic_tests::*;
use serde_json::json;

/// Nested `depth` levels deep, each in another way, with the limit of that way.
fn nested(depth: usize) -> [(usize, String); 5] {
    let around = |open: &str, close: &str| format!("{}1{}", open.repeat(depth), close.repeat(depth));
    [
        (400, format!("{{{{ 1{} }}}}", "+1".repeat(depth))),
        (400, format!("{{{{ {}1 }}}}", "-".repeat(depth))),
        (20, format!("{{{{ {} }}}}", around("(", ")"))),
        (50, around("{% if 1 %}", "{% endif %}")),
        (50, format!("{{% if 0 %}}{}{{% endif %}}1", "{% elif 0 %}".repeat(depth - 1))),
    ]
}

#[test]
fn template_nested_ten_thousand_deep_is_refused() {
    let database = Database::new();
    let mut client = database.connect();
    for (_, body) in nested(10_000) {
        // The limit of 64 KiB comes first for some of them.
        refused_with(&mut client, "select dialectic.set_prompt('deep', $1)", &[&body], "22023", "deep");
        let set_layout = "select dialectic.set_document_template('deep', $1)";
        refused_with(&mut client, set_layout, &[&body], "22023", "deep");
    }
    for (most, body) in nested(1_000) {
        let named = format!("nested deeper than {most} levels");
        let error = refused_with(&mut client, "select dialectic.set_prompt('deep', $1)", &[&body], "22023", &named);
        assert!(error.hint().is_some_and(|hint| hint.contains("move inner blocks")), "{error:?}");
        // As a dump of an earlier version may bring it.
        let insert = "insert into dialectic.prompt_templates (name, version, body) values ('deep', 1, $1) \
                      on conflict (name, is_shipped, version) do update set body = excluded.body";
        client.execute(insert, &[&body]).expect("a row");
        refused_with(&mut client, "select dialectic.render_prompt('deep', '{}')", &[], "22023", &named);
    }
}

#[test]
fn deepest_accepted_template_renders_in_a_backend() {
    let database = Database::new();
    let mut client = database.connect();
    for (most, _) in nested(2) {
        for (_, body) in nested(most).into_iter().filter(|(limit, _)| *limit == most) {
            client.execute("select dialectic.set_prompt('deep', $1)", &[&body]).expect("a template");
            let text: String = one(&mut client, "select dialectic.render_prompt('deep', '{}')", &[]);
            assert!(!text.trim().is_empty(), "{body}");
        }
    }
}

#[test]
fn deepest_accepted_template_renders_for_a_job() {
    let database = Database::new();
    let mut client = database.connect();
    let parts = [400, 20, 50].map(|most| nested(most).into_iter().filter(move |(limit, _)| *limit == most));
    let body: String = parts.into_iter().flatten().map(|(_, body)| body + "\n").collect();
    client.execute("select dialectic.set_prompt('deep', $1)", &[&body]).expect("a template");
    let layout = body + "{{ md(doc) }}";
    client.execute("select dialectic.set_document_template('note', $1)", &[&layout]).expect("a layout");
    let stages = json!([{"slug": "only", "seed_prompt_template": "deep", "recipe": {"steps": [
        {"step": 1, "key": "note", "name": "Note", "job_type": "execute", "prompt_template_name": "deep",
         "inputs_required": [{"type": "seed_prompt"}], "granularity_strategy": "all_to_one", "output_type": "note",
         "document_key": "note", "file_type": "markdown", "content_to_include": {"summary": "text"}}]}}]);
    client.execute("select dialectic.define_process('deep', $1)", &[&stages]).expect("define_process");
    let run = "select dialectic.run('Is this deep?', array['sim-a'], process => 'deep')";
    let session: Uuid = one(&mut client, run, &[]);
    work(&mut client);
    let documents = "select count(*) from dialectic.documents where session_id = $1";
    assert_eq!(one::<i64>(&mut client, documents, &[&session]), 1);
    assert_sound(&mut client);
}
