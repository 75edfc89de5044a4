//! The laws of the document layouts that ship: each shows everything, whatever the answer is like.
//!
//! What each of them looks like is kept in `tests/fixtures/documents`, with an answer of an invented project for every
//! document key; run with `UPDATE_GOLDEN=1` to rewrite the Markdown, and read the difference before it is committed.
//! Real answers are rendered too where they are at hand, as in `answers.rs`.

use dialectic_core::answer;
use dialectic_core::render::{self, FrontMatter, Layouts, Rendered};
use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

const KEYS: [&str; 18] = [
    "business_case",
    "feature_spec",
    "technical_approach",
    "success_metrics",
    "business_case_critique",
    "technical_feasibility_assessment",
    "risk_register",
    "non_functional_requirements",
    "dependency_map",
    "product_requirements",
    "system_architecture",
    "tech_stack",
    "technical_requirements",
    "master_plan",
    "milestone_schema",
    "actionable_checklist",
    "updated_master_plan",
    "advisor_recommendations",
];
/// A key that no layout is for.
const INVENTED: &str = "incident_report";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn fixture(name: &str) -> PathBuf {
    root().join("tests/fixtures/documents").join(name)
}

fn json_of(path: PathBuf) -> Value {
    serde_json::from_str(&fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))).unwrap()
}

fn layouts() -> Layouts {
    let files = fs::read_dir(root().join("sql/seed/documents")).unwrap().map(|file| file.unwrap().path());
    let bodies: Vec<(String, String)> = files
        .map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap().strip_suffix(".md.j2").unwrap().to_owned();
            (name, fs::read_to_string(path).unwrap())
        })
        .collect();
    assert_eq!(bodies.len(), KEYS.len());
    Layouts::new(bodies).unwrap()
}

fn front(key: &str) -> FrontMatter {
    FrontMatter {
        project: "Fieldbook".into(),
        session: "018f2a3b-0000-7000-8000-00001234abcd".into(),
        iteration: 1,
        stage: "thesis".into(),
        model: "sim-a".into(),
        document: key.into(),
        version: 1,
        tokens: Some(4213),
        cost: Some("0.031270".into()),
        sources: vec!["fieldbook/session_1234abcd/iteration_1/1_thesis/seed_prompt.md".into()],
        condensed: Vec::new(),
    }
}

fn show(layouts: &Layouts, key: &str, content: &Value) -> Rendered {
    render::markdown(Some((layouts, key)), content, &front(key), &render::title(key))
}

fn body(markdown: &str) -> &str {
    markdown.split_once("\n---\n").unwrap().1
}

fn events(markdown: &str) -> impl Iterator<Item = Event<'_>> {
    Parser::new_ext(body(markdown), Options::ENABLE_TABLES | Options::ENABLE_TASKLISTS)
}

/// The text a reader of the page sees, letters and digits only, all of them small.
fn seen(markdown: &str) -> String {
    let text = events(markdown).map(|event| match event {
        Event::Text(text) | Event::Code(text) | Event::InlineHtml(text) | Event::Html(text) => text.to_string(),
        _ => String::new(),
    });
    letters(&text.collect::<String>())
}

fn letters(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// Every line of every text of a value, as a reader of Markdown would see it.
fn lines(value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        match value {
            Value::String(text) => found.extend(text.lines().map(plain)),
            Value::Number(number) => found.push(letters(&number.to_string())),
            Value::Array(items) => open.extend(items),
            Value::Object(fields) => open.extend(fields.values()),
            _ => {}
        }
    }
    found
}

fn plain(line: &str) -> String {
    let line = line.trim().trim_start_matches(|c: char| c.is_ascii_digit() || "-*+.)#[ ]x".contains(c));
    letters(line.trim_start_matches("```kotlin").trim_start_matches("```"))
}

/// One first heading; none deeper than the one before by more than one; no HTML but the line ends of tables.
fn assert_page(name: &str, markdown: &str) {
    let mut last = 0;
    let mut firsts = 0;
    for event in events(markdown) {
        match event {
            Event::Start(Tag::Heading { level, .. }) => {
                firsts += usize::from(level == HeadingLevel::H1);
                assert!(
                    level as usize <= last + 1,
                    "{name}: a heading of level {level} below one of level {last}\n{markdown}"
                );
                last = level as usize;
            }
            Event::Html(html) | Event::InlineHtml(html) => assert_eq!(&*html, "<br>", "{name}\n{markdown}"),
            _ => {}
        }
    }
    assert_eq!(firsts, 1, "{name}\n{markdown}");
}

fn assert_nothing_lost(name: &str, content: &Value, markdown: &str) {
    let seen = seen(markdown);
    let lost: Vec<String> = lines(content).into_iter().filter(|line| !seen.contains(line)).collect();
    assert_eq!(lost, Vec::<String>::new(), "{name}\n{markdown}");
}

#[test]
fn documents_look_as_kept() {
    let layouts = layouts();
    let mut changed = Vec::new();
    for key in KEYS.into_iter().chain([INVENTED]) {
        let content = json_of(fixture(&format!("{key}.json")));
        let rendered = show(&layouts, key, &content);
        assert_eq!(rendered.notes, Vec::<String>::new(), "{key}");
        assert!(key == INVENTED || !rendered.markdown.contains("Further points"), "{key}");
        assert_page(key, &rendered.markdown);
        assert_nothing_lost(key, &content, &rendered.markdown);
        let kept = fixture(&format!("{key}.md"));
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&kept, &rendered.markdown).unwrap();
        } else if fs::read_to_string(&kept).unwrap_or_default() != rendered.markdown {
            changed.push(key);
        }
    }
    assert!(changed.is_empty(), "not as kept: {changed:?}; UPDATE_GOLDEN=1 rewrites");
}

#[test]
fn the_answers_that_are_kept_are_as_asked() {
    let shapes = json_of(fixture("shapes.json"));
    for key in KEYS {
        let content = json_of(fixture(&format!("{key}.json")));
        let answer = answer::read(&content.to_string(), Some(&shapes[key]), Some(key)).unwrap();
        assert_eq!(answer.missing, Vec::<String>::new(), "{key}");
        assert_eq!(answer.content, content, "{key}");
    }
}

/// A value with a mark of its own at every end, of another type than asked for where `odd` says so.
fn marked(shape: &Value, mark: &mut usize, odd: usize) -> Value {
    let is_odd = odd > 0 && (*mark + odd).is_multiple_of(3);
    let mut next = || {
        *mark += 1;
        format!("mark{mark}x")
    };
    if is_odd {
        return match odd {
            1 => json!(next()),
            2 => json!([next(), next()]),
            3 => json!({"one": next(), "two": [next()]}),
            4 => json!([{"name": next(), "deep": {"er": [next(), {"still": next()}]}}, next()]),
            _ => json!([[next()], null, 7, {}]),
        };
    }
    match shape {
        Value::Object(fields) if !fields.is_empty() => {
            let mut out: Value = fields.iter().map(|(key, shape)| (key.clone(), marked(shape, mark, odd))).collect();
            *mark += 1;
            out["unasked_for"] = json!(format!("mark{mark}x"));
            out
        }
        Value::Object(_) => json!({"some": next(), "other": next()}),
        Value::Array(items) => {
            let item = items.first().cloned().unwrap_or_default();
            json!([marked(&item, mark, odd), marked(&item, mark, odd)])
        }
        Value::Number(_) => json!(4_000_000 + *mark),
        Value::Bool(_) => json!(true),
        _ => json!(next()),
    }
}

#[test]
fn whatever_the_types_nothing_is_lost() {
    let (layouts, shapes) = (layouts(), json_of(fixture("shapes.json")));
    for key in KEYS {
        for odd in 0..6 {
            for start in 0..3 {
                let mut mark = start;
                let fields = shapes[key].as_object().unwrap().iter();
                let content: Value = fields.map(|(key, shape)| (key.clone(), marked(shape, &mut mark, odd))).collect();
                let rendered = show(&layouts, key, &content);
                assert_eq!(rendered.notes, Vec::<String>::new(), "{key}");
                assert_nothing_lost(key, &content, &rendered.markdown);
                assert_page(key, &rendered.markdown);
            }
        }
    }
}

#[test]
fn an_answer_without_a_key_leaves_no_heading_behind() {
    let layouts = layouts();
    for key in KEYS {
        let rendered = show(&layouts, key, &json!({}));
        assert_eq!(body(&rendered.markdown).trim(), format!("# {}", render::title(key)));
        let content = json_of(fixture(&format!("{key}.json")));
        for gone in content.as_object().unwrap().keys() {
            let mut less = content.clone();
            less[gone] = Value::Null;
            let rendered = show(&layouts, key, &less);
            let mut after_heading: Option<usize> = None;
            for event in events(&rendered.markdown) {
                match event {
                    Event::Start(Tag::Heading { level, .. }) => {
                        let empty = after_heading.is_some_and(|above| above > 1 && level as usize <= above);
                        assert!(!empty, "{key} without {gone}\n{}", rendered.markdown);
                    }
                    Event::End(TagEnd::Heading(level)) => after_heading = Some(level as usize),
                    Event::Start(_) => after_heading = None,
                    _ => {}
                }
            }
        }
    }
}

#[test]
fn real_answers_are_shown_whole() {
    let named = std::env::var_os("DIALECTIC_SAMPLES").map(PathBuf::from);
    let folder = named.unwrap_or_else(|| root().join("../shared/samples")).join("real-run");
    let (layouts, shapes) = (layouts(), json_of(fixture("shapes.json")));
    let mut open = vec![folder];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
                continue;
            }
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            let key = name.split('.').next().unwrap();
            let text = fs::read_to_string(&path).unwrap();
            let read = answer::read(&text, shapes.get(key), Some(key)).map(|answer| answer.content);
            let Some(content) = read.ok().or_else(|| dialectic_core::json::close(&text)) else { continue };
            let rendered = show(&layouts, key, &content);
            assert_eq!(rendered.notes, Vec::<String>::new(), "{name}");
            assert_nothing_lost(&name, &content, &rendered.markdown);
            assert_page(&name, &rendered.markdown);
            if let Some(folder) = std::env::var_os("SHOW_SAMPLES") {
                fs::write(Path::new(&folder).join(format!("{name}.md")), &rendered.markdown).unwrap();
            }
        }
    }
}
