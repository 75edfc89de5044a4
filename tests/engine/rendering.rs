//! Rendering never fails: whatever an answer holds becomes Markdown, by the layout of its key where that works and by its own
//! shape where not; and a document says in YAML at its head where it comes from. A layout is checked when it is stored and
//! holds for sessions that begin afterwards.

use crate::odd_processes::{define, run, seed, step};
use dialectic_tests::*;
use postgres::Client;
use serde_json::{Value, json};

/// The keys that ship with a layout, and one that nobody has heard of.
fn keys(client: &mut Client) -> Vec<String> {
    let mut keys: Vec<String> =
        column(client, "select distinct key from dialectic.document_templates where is_shipped order by 1", &[]);
    assert_eq!(keys.len(), 18);
    keys.push("invented_key".to_owned());
    keys
}

fn rendered(client: &mut Client, content: &Value, key: &str) -> String {
    client
        .query_one("select dialectic.render_markdown($1::text::jsonb, $2)", &[&content.to_string(), &key])
        .unwrap_or_else(|error| panic!("{key}: {error:?}\n{:.300}", content.to_string()))
        .get(0)
}

fn odd_texts() -> [&'static str; 7] {
    [
        "<script>alert(1)</script> <img src=x onerror=y> </details>",
        "```\nan open fence",
        "# A heading\n---\nproject: \"evil\"\n---\n",
        "{{ 7 * 7 }} {% raw %} {# gone #} {% include 'x' %}",
        "| a | b |\n|---|",
        "\u{202e}gpj.exe \u{1}\u{85}\u{feff}",
        "",
    ]
}

/// The lines of a document that are not code.
fn outside_of_code(text: &str) -> String {
    let mut in_code = false;
    let mut kept = Vec::new();
    for line in text.lines() {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        if !in_code && !is_fence {
            kept.push(line);
        }
    }
    kept.join("\n")
}

#[test]
fn odd_content_is_rendered_under_every_key() {
    let database = Database::new();
    let mut client = database.connect();
    let shipped: Vec<String> = column(
        &mut client,
        "select jsonb_object_agg(k, null)::text from (select distinct step -> 'content_to_include' as asked \
         from dialectic.stages s, jsonb_array_elements(s.recipe -> 'steps') as step) as a, jsonb_object_keys(asked) as k \
         where jsonb_typeof(asked) = 'object'",
        &[],
    );
    let members: Vec<String> = serde_json::from_str::<Value>(&shipped[0])
        .expect("JSON")
        .as_object()
        .expect("an object")
        .keys()
        .cloned()
        .collect();
    assert!(members.len() > 50, "{members:?}");
    let with = |value: Value| Value::Object(members.iter().map(|key| (key.clone(), value.clone())).collect());
    let mut contents = vec![json!(null), json!(7), json!("text"), json!([]), json!({}), json!([[[]], {}, null, "x"])];
    contents.extend(
        [json!(null), json!(true), json!(-1.5e300), json!([]), json!({}), json!([null, [null], {"a": null}])].map(with),
    );
    contents.extend(odd_texts().map(|text| with(json!(text))));
    contents.push(with(json!([odd_texts(), {"name": odd_texts()}, {"": ""}])));
    contents.push(with(json!({"rank": {"why": [1, 2]}, "scores": [{"dimension": [], "value": {}}], "nodes": "text"})));
    for key in keys(&mut client) {
        for content in &contents {
            let text = rendered(&mut client, content, &key);
            assert!(text.starts_with("# "), "{key}: {text:.200}");
            assert!(!outside_of_code(&text).contains("<script>"), "{key}: {text}");
        }
    }
}

#[test]
fn a_list_of_ten_thousand_is_rendered_whole_under_every_key() {
    let database = Database::new();
    let mut client = database.connect();
    let items: Vec<Value> = (0..10_000).map(|n| json!({"name": format!("item{n}"), "title": n, "deps": [n]})).collect();
    let names: Vec<String> = (0..10_000).map(|n| format!("line{n}")).collect();
    for key in keys(&mut client) {
        let text =
            rendered(&mut client, &json!({"features": items, "risks": names, "nodes": items, "more": names}), &key);
        for last in ["item9999", "line9999"] {
            assert!(text.contains(last), "{key} has lost {last}");
        }
    }
}

#[test]
fn what_is_no_argument_is_refused() {
    let database = Database::new();
    let mut client = database.connect();
    refused_with(&mut client, "select dialectic.render_markdown(null, 'x')", &[], "22004", "content");
    refused_with(&mut client, "select dialectic.render_markdown('{}', null)", &[], "22004", "document_key");
}

#[test]
fn a_layout_holds_for_sessions_that_begin_after_it() {
    let database = Database::new();
    let mut client = database.connect();
    define(&mut client, "noted", &[("only", vec![step("note", "all_to_one", seed())])]);
    let set = "select dialectic.set_document_template('note', $1)";
    assert_eq!(one::<i32>(&mut client, set, &[&"# First layout\n\n{{ section('Points', doc.points) }}"]), 1);
    let early = run(&mut client, "noted", &["sim-a"], 0);
    assert_eq!(one::<i32>(&mut client, set, &[&"# Second layout"]), 2);
    let late = run(&mut client, "noted", &["sim-a"], 0);
    one::<Uuid>(&mut client, "select dialectic.regenerate($1, 'note', 'sim-a')", &[&early]);
    work(&mut client);
    let content = "select content from dialectic.documents where session_id = $1";
    let (early, late): (String, String) = (one(&mut client, content, &[&early]), one(&mut client, content, &[&late]));
    assert!(early.contains("# First layout") && early.contains("version: 2"), "{early}");
    assert!(late.contains("# Second layout"), "{late}");
    // What a layout does not mention follows behind it.
    assert!(late.contains("## Further points") && late.contains("Summary"), "{late}");
    let now: String = one(&mut client, "select dialectic.render_markdown('{\"a\": 1}', 'note')", &[]);
    assert!(now.contains("# Second layout"), "{now}");
}

#[test]
fn a_layout_that_does_not_parse_is_refused_with_its_name_and_line() {
    let database = Database::new();
    let mut client = database.connect();
    let before = mark(&mut client);
    for body in ["# Title\n\n{% for x in doc.points %}\nno end", "# Title\n\n{{ 1 + }}", "# Title\n\n{% nonsense %}"] {
        let error =
            refused_with(&mut client, "select dialectic.set_document_template('note', $1)", &[&body], "22023", "note");
        let told = format!("{} {}", error.message(), error.detail().unwrap_or_default());
        assert!(
            told.contains("line 3") || told.contains("line 4") || told.contains(":3") || told.contains(":4"),
            "{body}: {error:?}"
        );
    }
    for key in ["", "Big", "a b", "../x"] {
        refused(&mut client, "select dialectic.set_document_template($1, 'x')", &[&key]);
    }
    assert_eq!(mark(&mut client), before);
}

#[test]
fn a_layout_that_fails_on_its_content_still_gives_a_document() {
    let database = Database::new();
    let mut client = database.connect();
    let fail = [
        "{{ doc.summary.nothing() }}",
        "{{ unheard_of(doc) }}",
        "{{ section('Points', doc.points, style='unheard-of') }}",
        "{% for a in range(10000) %}{% for b in range(10000) %}{{ b }}{% endfor %}{% endfor %}",
        "{% include 'elsewhere' %}",
    ];
    for (n, body) in fail.iter().enumerate() {
        define(&mut client, &format!("failing_{n}"), &[("only", vec![step("note", "all_to_one", seed())])]);
        one::<i32>(&mut client, "select dialectic.set_document_template('note', $1)", &[body]);
        let session = run(&mut client, &format!("failing_{n}"), &["sim-a"], 0);
        let text: String =
            one(&mut client, "select content from dialectic.documents where session_id = $1", &[&session]);
        assert!(text.contains("# Note") && text.contains("## Summary") && text.contains("## Points"), "{body}: {text}");
    }
    assert_sound(&mut client);
}

/// The front matter of a document: every line is a key and a JSON value, or an item of the list before it.
pub(crate) fn head(document: &str) -> Vec<(String, Value)> {
    let (head, _) = document.strip_prefix("---\n").and_then(|rest| rest.split_once("\n---\n")).expect("a head");
    let mut values: Vec<(String, Value)> = Vec::new();
    let value = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    for line in head.lines() {
        match (line.strip_prefix("  - "), line.split_once(':')) {
            (Some(item), _) => {
                values.last_mut().and_then(|(_, list)| list.as_array_mut()).expect("a list").push(value(item))
            }
            (None, Some((key, ""))) => values.push((key.to_owned(), json!([]))),
            (None, Some((key, text))) => values.push((key.to_owned(), value(text.trim_start()))),
            _ => panic!("no line of YAML: {line}"),
        }
    }
    values
}

#[test]
fn every_document_says_where_it_comes_from_whatever_the_project_is_called() {
    let database = Database::new();
    let mut client = database.connect();
    define(&mut client, "noted", &[("only", vec![step("note", "all_to_one", seed())])]);
    let names = [
        "Plain",
        "a: b # c",
        "---\nmodel: \"evil\"\n---",
        "\"quoted\" \\ 'back'",
        "{{ x }} 計画 👩‍👩‍👧‍👦 \u{202e}",
        "- &a *b !c |",
        "null",
        "\u{85}\u{2028}\t\r\n\u{feff}x",
    ];
    for name in names {
        let project: Uuid =
            one(&mut client, "select dialectic.create_project($1, 'Why?', process => 'noted')", &[&name]);
        let session: Uuid = one(&mut client, "select dialectic.start_session($1, '{sim-a}')", &[&project]);
        client.execute("select dialectic.generate($1)", &[&session]).expect("generate");
    }
    work(&mut client);
    let documents = client
        .query(
            "select p.name, d.content, d.session_id::text, d.tokens, d.cost::text from dialectic.documents d \
             join dialectic.sessions s on s.id = d.session_id join dialectic.projects p on p.id = s.project_id",
            &[],
        )
        .expect("documents");
    assert_eq!(documents.len(), names.len());
    for row in documents {
        let (name, content, cost): (String, String, String) = (row.get(0), row.get(1), row.get(4));
        let head = head(&content);
        let keys: Vec<&str> = head.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(
            keys,
            ["project", "session", "iteration", "stage", "model", "document", "version", "tokens", "cost", "sources"],
            "{content}"
        );
        let of =
            |key: &str| head.iter().find(|(known, _)| known == key).map(|(_, value)| value.clone()).unwrap_or_default();
        assert_eq!(of("project"), json!(name), "{content}");
        assert_eq!(of("session"), json!(row.get::<_, String>(2)));
        assert_eq!((of("iteration"), of("stage"), of("model")), (json!(1), json!("only"), json!("sim-a")));
        assert_eq!(
            (of("document"), of("version"), of("tokens")),
            (json!("note"), json!(1), json!(row.get::<_, i64>(3)))
        );
        assert_eq!(of("cost").as_f64(), cost.parse().ok());
        assert_eq!(of("sources"), json!(["only/seed_prompt"]));
    }
}
