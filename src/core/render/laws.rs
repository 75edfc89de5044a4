//! The laws of rendering: nothing fails, nothing is lost, nothing leaves its place, nothing takes long.
//!
//! They decide nothing; they hold [`super`] to what its header says, on texts and values chosen to break it, as a
//! reader of Markdown sees the result. The layouts that ship have laws of their own in `tests/core/documents.rs`.

use super::*;
use crate::json::laws::any_value;
use proptest::prelude::*;
use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use serde_json::json;
use std::time::{Duration, Instant};

/// The deepest JSON that the server hands over, with and without a layout: half the stack of a thread is enough.
#[test]
fn deepest_content_is_rendered_on_a_small_stack() {
    let lists = (0..119).fold(json!("end"), |inner, _| json!([inner]));
    let objects = (0..119).fold(json!("end"), |inner, _| json!({ "a": inner }));
    let mixed = (0..60).fold(json!("end"), |inner, _| json!([{ "a": inner, "b": [1, "x"] }, "y"]));
    for content in [json!({ "a": lists }), json!({ "a": objects }), json!({ "a": mixed })] {
        let render = move || {
            for body in ["{{ md(doc) }}", "{{ rest(doc) }}", "{{ doc }}{{ doc.a|tojson }}", "{{ matrix(doc.a) }}"] {
                assert!(with(body, &content).markdown.contains("end"), "{body}");
            }
            shown(&content)
        };
        std::thread::Builder::new().stack_size(1 << 20).spawn(render).unwrap().join().unwrap();
    }
}

fn layouts(body: &str) -> Layouts {
    Layouts::new([("t".to_owned(), body.to_owned())]).unwrap()
}

fn with(body: &str, content: &Value) -> Rendered {
    markdown(Some((&layouts(body), "t")), content, &FrontMatter::default(), "Title")
}

fn body(rendered: &Rendered) -> &str {
    rendered.markdown.split_once("\n---\n\n").unwrap().1.trim_end()
}

fn shown(content: &Value) -> String {
    body(&markdown(None, content, &FrontMatter::default(), "T")).to_owned()
}

/// The headings of a page with their levels; no HTML but the line ends of tables may be in it.
fn outline(markdown: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut open = false;
    for event in Parser::new_ext(markdown, Options::ENABLE_TABLES | Options::ENABLE_TASKLISTS) {
        match event {
            Event::Start(Tag::Heading { level, .. }) => {
                found.push((level as usize, String::new()));
                open = true;
            }
            Event::End(TagEnd::Heading(_)) => open = false,
            Event::Text(text) | Event::Code(text) if open => found.last_mut().unwrap().1.push_str(&text),
            Event::Html(html) | Event::InlineHtml(html) => assert_eq!(&*html, "<br>", "{markdown}"),
            _ => {}
        }
    }
    found
}

#[test]
fn keys_are_said_to_people() {
    for (key, said) in [
        ("risks_and_mitigation", "Risks and mitigation"),
        ("primary_kpis", "Primary KPIs"),
        ("rootCause", "Root cause"),
        ("differentiation_&_value", "Differentiation and value"),
        ("non_functional_requirements", "Non-functional requirements"),
        ("Crew A", "Crew A"),
        ("", ""),
    ] {
        assert_eq!(title(key), said);
    }
}

#[test]
fn lists_tables_and_objects_look_as_such() {
    let flat = json!({"risks": [{"risk": "a|b", "level": 1}, {"risk": "c", "note": "d\ne", "level": null}]});
    assert_eq!(
        shown(&flat),
        "# T\n\n## Risks\n\n| Risk | Level | Note |\n|---|---|---|\n| a\\|b | 1 | — |\n| c | — | d<br>e |"
    );
    let long = "word ".repeat(100);
    let sections = shown(&json!({"risks": [{"risk": "A", "text": long}, {"risk": "B", "text": "short"}]}));
    assert_eq!(outline(&sections).iter().map(|(level, _)| *level).collect::<Vec<_>>(), [1, 2, 3, 4, 3]);
    assert_eq!(
        shown(&json!({"x": ["1. a", "2. b"], "y": ["- a", "b\n\nc"]})),
        "# T\n\n## X\n\n1. a\n2. b\n\n## Y\n\n- a\n- b\n\n  c"
    );
    assert_eq!(
        shown(&json!({"x": {"a": {"score": 1}, "b": {"score": 2}}})),
        "# T\n\n## X\n\n|  | Score |\n|---|---|\n| A | 1 |\n| B | 2 |"
    );
    assert_eq!(shown(&json!({"a": null, "b": [], "c": {"d": [null, " "]}, "e": false})), "# T\n\n- **E:** no");
    assert_eq!(shown(&json!(["a", 1, {"name": "n", "x": ["y"]}])), "# T\n\n- a\n- 1\n- **n**\n  - **X:**\n    - y");
    assert_eq!(shown(&json!("just text")), "# T\n\njust text");
}

#[test]
fn a_text_keeps_its_place() {
    for (text, expected) in [
        ("# One\ntext\n### Two", "### One\n\ntext\n\n##### Two"),
        ("###### Deep", "### Deep"),
        ("# a\n##### b", "### a\n\n**b**"),
        ("```rust\nlet a = \"<b>\";", "```rust\nlet a = \"<b>\";\n```"),
        ("a\n~~~~\n# no heading\n```\n~~~~\n<i>", "a\n~~~~\n# no heading\n```\n~~~~\n&lt;i>"),
        ("- ```\n  <b>\nout <b>", "- ```\n  <b>\n  ```\nout &lt;b>"),
        ("Title\n===\nother\n---", "Title\n\\===\nother\n\n---"),
        ("<script>x</script> 1 < 2 `<b>` <!-- c --> a<b", "&lt;script>x&lt;/script> 1 < 2 `<b>` &lt;!-- c --> a&lt;b"),
        ("a ` b\n<i> ` `<b>`", "a ` b\n&lt;i> ` `&lt;b>`"),
        ("\\`<b>`", "\\`&lt;b>`"),
        ("#hashtag\r\nline", "#hashtag\nline"),
    ] {
        assert_eq!(prose::blocks(text, Some(3)), expected, "{text}");
    }
    assert_eq!(prose::blocks("## In a list\ntext", None), "**In a list**\n\ntext");
}

#[test]
fn a_layout_leaves_nothing_behind() {
    let content = json!({"known": "k", "unknown": {"deep": ["u"]}, "list": [{"name": "n", "more": "m"}]});
    let rendered = with(
        "# {{ title }}\n{{ section('Known', doc.known) }}\n{% for r in records(doc.list) %}{{ heading(r, 2, 'name') }}{% endfor %}",
        &content,
    );
    let expected = "# Title\n\n## Known\n\nk\n\n## n\n\n## Further points\n\n### Unknown\n\n#### Deep\n\n- u\n\n### List\n\n#### Item 1\n\n##### More\n\nm";
    let expected = expected.replace("#### Item 1\n\n##### More\n\nm", "#### m");
    assert_eq!(body(&rendered), expected);
    assert_eq!(rendered.notes, Vec::<String>::new());
}

#[test]
fn a_layout_that_fails_gives_way_to_the_generic_one() {
    let content = json!({"a": "text"});
    for (layout, why) in [
        ("{{ doc.a.b.c() }}", "rendered without its layout"),
        ("{{ md(doc.a, style='odd') }}", "unknown style"),
        ("{% for x in range(9999) %}{% for y in range(9999) %}{% endfor %}{% endfor %}", "fuel"),
        ("{% include 'nowhere' %}", "nowhere"),
        ("{{ heading() }}", "missing argument"),
    ] {
        let rendered = with(layout, &content);
        assert_eq!(body(&rendered), "# Title\n\n- **A:** text", "{layout}");
        assert!(rendered.notes.len() == 1 && rendered.notes[0].contains(why), "{:?}", rendered.notes);
    }
    assert!(with("x", &json!([1])).notes[0].contains("no object"));
    assert!(check("t", "{% if %}").is_err() && check("t", "{{ section('A', doc.a) }}").is_ok());
    assert!(markdown(Some((&layouts("x"), "other")), &content, &FrontMatter::default(), "T").notes.is_empty());
}

#[test]
fn depth_is_bounded() {
    let mut deep = json!("end");
    for _ in 0..2_000 {
        deep = Value::Object([("k".to_owned(), Value::Array(vec![deep]))].into_iter().collect());
    }
    let rendered = with("{{ md(doc.k) }}", &deep);
    assert!(rendered.markdown.contains("end") && rendered.notes[0].contains("nested deeper"));
    assert!(rendered.markdown.len() < 1000, "{}", rendered.markdown);
}

#[test]
fn long_lists_take_linear_time() {
    let began = Instant::now();
    let many = |item: Value| Value::Array(vec![item; 10_000]);
    let content = json!({"texts": many(json!("a text")), "rows": many(json!({"a": 1, "b": "x"})),
        "records": many(json!({"name": "n", "text": "word ".repeat(60), "list": ["a"]})), "mixed": many(json!([["a", ["b"]], {"x": {"y": 1}}]))});
    assert!(shown(&content).len() > 1_000_000);
    let layout =
        "{% for r in records(doc.records) %}{{ heading(r, 2, 'name') }}{{ md(r.text) }}{{ rest(r) }}{% endfor %}";
    let rendered = with(layout, &content);
    assert_eq!(rendered.notes, Vec::<String>::new());
    let wide: Value = (0..10_000).map(|n| (format!("key_{n}"), json!("v"))).collect();
    shown(&json!({"wide": wide, "x": "`a <b".repeat(100_000)}));
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

#[test]
fn front_matter_is_read_back_whatever_the_names() {
    let hostile = [
        "plain",
        "a: b # c",
        "---",
        "\"quoted\" 'too' \\",
        "line\nbreak\r\n---\nevil: 1",
        "é 計画 😀 \u{85}\u{2028}\u{feff}\u{0}\u{7f}",
        "",
        "null",
        "- x",
        "{{ a }}",
    ];
    for name in hostile {
        let front = FrontMatter {
            project: name.into(),
            session: name.into(),
            iteration: 2,
            stage: name.into(),
            model: name.into(),
            document: name.into(),
            version: 3,
            tokens: Some(12),
            cost: Some(if name == "plain" { "0.0123".into() } else { name.into() }),
            sources: hostile.map(str::to_owned).into(),
            condensed: Vec::new(),
        };
        let rendered = markdown(None, &json!({"a": "---\nb"}), &front, name);
        let yaml = rendered.markdown.strip_prefix("---\n").unwrap().split_once("\n---\n").unwrap().0;
        let read: serde_yaml_ng::Value = serde_yaml_ng::from_str(yaml).unwrap_or_else(|e| panic!("{yaml}: {e}"));
        for key in ["project", "session", "stage", "model", "document"] {
            assert_eq!(read[key].as_str(), Some(name), "{yaml}");
        }
        assert_eq!(
            (read["iteration"].as_i64(), read["version"].as_i64(), read["tokens"].as_i64()),
            (Some(2), Some(3), Some(12))
        );
        let sources: Vec<&str> = read["sources"].as_sequence().unwrap().iter().filter_map(|s| s.as_str()).collect();
        assert_eq!(sources, hostile);
    }
}

/// Texts made of what means something in Markdown.
fn hostile_text() -> impl Strategy<Value = String> {
    let part = prop::sample::select(vec![
        "#",
        "# ",
        "```",
        "~~~",
        "`",
        "``",
        "\n",
        "\n\n",
        "- ",
        "1. ",
        "> ",
        "<b>",
        "</div>",
        "<!-- ",
        "-->",
        "<?",
        "<a href=\"`\">",
        "<script>",
        "|",
        "---",
        "===",
        "    ",
        "  ",
        "\t",
        "\\",
        "*",
        "**",
        "word",
        "[x](y)",
        "[a]: b",
        "&lt;",
        "é",
        "\r",
        "<https://x>",
        "- ```\n",
        "    ~~~\n",
    ]);
    prop::collection::vec(part, 0..14).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_text_leaves_its_place(text in hostile_text(), other in hostile_text(), way in 0..8) {
        let inner = match way {
            0 => json!(text),
            1 => json!([text, other]),
            2 => json!([text]),
            3 => json!({"a": text, "b": {"c": other, "d": [text]}}),
            4 => json!([{"name": other, "b": text}, {"a": other, "b": text}]),
            5 => json!([{"name": text, "b": [[text], {"c": {"d": other}}]}, other]),
            6 => json!([[text, [other]], {"x": [text, {"y": other}]}]),
            _ => json!({"k": {"a": text}, other.clone(): {"a": other}}),
        };
        let content = json!({"before": inner, "sentinel": ["last"]});
        let page = shown(&content);
        let headings = outline(&page);
        prop_assert_eq!(headings.iter().filter(|(level, _)| *level == HeadingLevel::H1 as usize).count(), 1, "{}", page);
        prop_assert_eq!(headings.iter().filter(|(level, name)| *level == 2 && name == "Sentinel").count(), 1, "{}", page);
        prop_assert_eq!(headings.iter().filter(|(level, _)| *level == 2).count() <= 2, true, "{}", page);
        let layout = "# T\n{{ section('Before', doc.before) }}\n{{ section('Tasks', doc.before, style='tasks') }}\n{{ section('Code', doc.before, style='code') }}\n{{ rest(doc, 2) }}";
        let page = with(layout, &content);
        let headings = outline(body(&page));
        prop_assert_eq!(headings.iter().filter(|(level, name)| *level == 2 && name == "Sentinel").count(), 1, "{}", page.markdown);
    }

    #[test]
    fn any_value_is_rendered(value in any_value(), title in any::<String>()) {
        let content = json!({"value": value, "last": "sentence"});
        let rendered = markdown(None, &content, &FrontMatter::default(), &title);
        prop_assert!(rendered.markdown.contains("sentence"));
        let rendered = with("{{ matrix(doc.value) }}{% for r in records(doc.value) %}{{ heading(r, 2, 'a') }}{{ facts(r, 'b') }}{{ rest(r) }}{% endfor %}", &content);
        prop_assert!(rendered.markdown.contains("sentence") && rendered.notes.is_empty());
    }
}
