//! The laws of knitting where a model goes on untidily: without the comma that was due, with several values, with words
//! before the rest, or with nothing but what was there.

use super::{joined, knitted};
use crate::knit::{Joint, json, standing, text};
use serde_json::{Value, json};

const CUT: &str = r#"{"q":"w","items":[{"id":"1","t":"one"},{"id":"2","t":"tw"#;
const SUPPLIED: &str = "a comma that was left out between two chunks supplied";

fn item(id: &str, t: &str) -> Value {
    json!({"id": id, "t": t})
}

#[test]
fn a_comma_that_was_left_out_at_the_seam_is_supplied() {
    let between = r#"{"q":"w","items":[{"id":"1","t":"one"},{"id":"2","t":"two"}"#;
    let objects = |items: Value| json!({"q": "w", "items": items, "tail": "end"});
    let four = [("1", "one"), ("2", "two"), ("3", "x"), ("4", "y")].map(|(id, t)| item(id, t));
    let five = [&four[..], &[item("5", "cut here")]].concat();
    for (chunks, whole) in [
        (&[between, r#"{"id":"3","t":"x"},{"id":"4","t":"y"}],"tail":"end"}"#][..], objects(json!(four))),
        (
            &[between, r#"{"id":"3","t":"x"},{"id":"4","t":"y"},{"id":"5","t":"cut he"#, r#"re"}],"tail":"end"}"#],
            objects(json!(five)),
        ),
        (&[between, r#"{"id":"3","t":"#, "\n", r#""x"},{"id":"4","t":"y"}],"tail":"end"}"#], objects(json!(four))),
        (&[r#"{"q":"w""#, r#""items":["c","d"],"tail":"end"}"#], objects(json!(["c", "d"]))),
        (&[r#"{"q":"w","items":["a","b""#, r#""c","d"],"tail":"end"}"#], objects(json!(["a", "b", "c", "d"]))),
        (&[r#"{"q":"w","items":["c","d"]"#, "```json\n\"tail\":\"end\"}\n```"], objects(json!(["c", "d"]))),
    ] {
        let found = json(chunks, None, None);
        assert_eq!(serde_json::from_str::<Value>(&found.text).unwrap(), whole, "{chunks:?}");
        assert!(found.is_repaired && found.notes.iter().any(|note| note == SUPPLIED), "{chunks:?}: {:?}", found.notes);
        assert!(!found.joints.contains(&Joint::Afresh), "{chunks:?}");
    }
    // Open at its end it goes on all the same.
    let open = json(&[between, r#"{"id":"3","t":"x"},{"id":"4","t":"y"},{"id":"5","t":"cut he"#], None, None);
    assert_eq!(serde_json::from_str::<Value>(&open.text).unwrap()["items"].as_array().map(Vec::len), Some(5));
}

#[test]
fn no_comma_makes_an_item_of_the_document_begun_again() {
    let between = r#"{"q":"w","items":[{"id":"1","t":"one"},{"id":"2","t":"two"}"#;
    for again in [
        r#"{"q":"w","items":[{"id":"3","t":"x"}],"tail":"end"}"#,
        r#"{"items":[{"id":"2","t":"two"},{"id":"3","t":"x"}],"tail":"end"}"#,
    ] {
        let found = json(&[between, again], None, None);
        let items = [item("1", "one"), item("2", "two"), item("3", "x")];
        let whole = json!({"q": "w", "items": items, "tail": "end"});
        assert_eq!((serde_json::from_str::<Value>(&found.text).unwrap(), found.joints), (whole, vec![Joint::Afresh]));
        assert!(!found.notes.iter().any(|note| note == SUPPLIED), "{again}");
    }
    // An item that came again is not doubled.
    let again = json(&[between, r#"{"id":"2","t":"two"}"#], None, None);
    assert_eq!(serde_json::from_str::<Value>(&again.text).unwrap()["items"].as_array().map(Vec::len), Some(2));
}

#[test]
fn of_several_values_in_one_chunk_none_is_lost() {
    let (two, three) = (r#"{"id":"2","t":"two"}"#, r#"{"id":"3","t":"three"}"#);
    let items = json!([item("1", "one"), item("2", "two"), item("3", "three")]);
    for chunk in [
        format!("{two}\n{three}"),
        format!("{two}\nAnd the next one:\n{three}"),
        format!("```json\n{two}\n```\n\n```json\n{three}\n```"),
        format!("Here is the rest:\n```json\n{two}\n```\nand\n```json\n{three}\n```\nThat is all."),
        format!("[{two}]\n[{three}]"),
    ] {
        let found = json(&[CUT, &chunk], None, None);
        let whole = json!({"q": "w", "items": items});
        assert_eq!(
            (serde_json::from_str::<Value>(&found.text).unwrap(), found.joints),
            (whole, vec![Joint::Afresh]),
            "{chunk}"
        );
    }
    let whole = json!({"q": "w", "items": items, "tail": "end"});
    for chunk in [
        format!("{{\"items\":[{two},{three}]}}\n{{\"tail\":\"end\"}}"),
        format!("{two}\n{three}\n{{\"tail\":\"end\"}}"),
        format!("{{\"items\":[{two},{three}]}}\n{{\"tail\":\"end\"}}\n{{\"continuation_needed\":false}}"),
    ] {
        for shape in [None, Some(&json!({"q": "", "items": [], "tail": ""}))] {
            let text = json(&[CUT, &chunk], shape, None).text;
            let mut found = serde_json::from_str::<Value>(&text).unwrap();
            found.as_object_mut().unwrap().remove("continuation_needed");
            assert_eq!(found, whole, "{chunk}");
        }
    }
    // The last of them may be cut off in its turn.
    let open = json(&[CUT, &format!("{two}\n{{\"id\":\"3\",\"t\":\"thr")], None, None);
    let found = serde_json::from_str::<Value>(&open.text).unwrap();
    assert_eq!((found["items"][2].clone(), open.is_repaired), (item("3", "thr"), true));
}

#[test]
fn what_only_repeats_the_end_is_nothing() {
    let long = "All of this was said before, and is said once more. ".replace("once", &"at length, ".repeat(2));
    let words: String = (0..60).map(|n| format!("word{n} ")).collect();
    for end in [long.as_str(), words.as_str(), "twelve chars"] {
        let cut = format!("{{\"b\": \"It began. {end}");
        assert_eq!(json(&[&cut, end], None, None).joints, [Joint::Nothing], "{end}");
        assert_eq!(json(&[&cut, end, end], None, None).joints, [Joint::Nothing; 2], "{end}");
        assert_eq!(text(&[&cut, end]).joints, [Joint::Nothing], "{end}");
        assert_eq!(text(&[&cut, end]).text, cut);
    }
    // Twice in a row the same chunk, be it a rhythm.
    for chunk in ["na na na na na na ", "and then again and then "] {
        let chunks = ["{\"b\": \"It began: ", chunk, chunk];
        assert_eq!(json(&chunks, None, None).joints, [Joint::Onward, Joint::Nothing], "{chunk}");
        assert_eq!(text(&chunks).joints, [Joint::Onward, Joint::Nothing], "{chunk}");
    }
    // A document that is complete with it keeps it.
    let row = "0, 0, 0, 0, 0, 0, ";
    assert_eq!(joined(&["[", row, row, "1]"]), format!("[{row}{row}1]"));
}

#[test]
fn a_plain_text_goes_on_within_a_word_and_within_a_line() {
    let sentence = "The committee considered the matter at great length, weighing every argum";
    let again = "mittee considered the matter at great length, weighing every argument.";
    for (chunks, whole) in [
        ([sentence, again], "The committee considered the matter at great length, weighing every argument."),
        (["- one\n- two\n- thr", "- three\n- four"], "- one\n- two\n- three\n- four"),
        (["Text.\n\n## Ris", "## Risks\n\nMany."], "Text.\n\n## Risks\n\nMany."),
        (["| a | b |\n| one | tw", "| one | two |\n"], "| a | b |\n| one | two |\n"),
        (["1. one\n2. two p", "2. two pears\n3. four"], "1. one\n2. two pears\n3. four"),
        // Too little to tell, or no such line.
        (["- one\n- t", "- two\n"], "- one\n- t- two\n"),
        (["He said: so", "so be it"], "He said: soso be it"),
        (["- one\n- three", "- three\n- four"], "- one\n- three- three\n- four"),
    ] {
        assert_eq!(text(&chunks).text, whole, "{chunks:?}");
    }
}

#[test]
fn words_before_the_rest_go_away() {
    let found = json(&[r#"{"a": "hello wor"#, r#"Here is the rest: ld", "b": 2}"#], None, None);
    assert_eq!(serde_json::from_str::<Value>(&found.text).unwrap(), json!({"a": "hello world", "b": 2}));
    assert!(!found.notes.is_empty());
    // What only looks a little like it is the text.
    assert_eq!(knitted(&[r#"{"a": "Note: "#, r#"the rest: of it"}"#])["a"], "Note: the rest: of it");
    assert_eq!(text(&["It was la", "Here is the rest:\nte, and dark."]).text, "It was late, and dark.");
    assert_eq!(
        text(&["It was.\n", "Here is the rest.\nIt was late."]).text,
        "It was.\nHere is the rest.\nIt was late."
    );
}

#[test]
fn a_place_to_resume_at_may_be_said_in_many_ways() {
    let shape = json!({"title": "", "points": [{"deep_point": ""}]});
    let stands = |cursor: Value, rest: Value| {
        let mut document = json!({"title": "T", "points": [{"deep_point": "a"}], "resume_cursor": cursor});
        if !rest.is_null() {
            document["continuation_needed"] = rest;
        }
        let standing = standing(&[&document.to_string()], Some(&shape), Some("note"));
        (standing.would_go_on, standing.elsewhere)
    };
    for nothing in [json!(false), json!(""), json!("none"), json!("End"), json!("complete"), json!("done"), json!(null)]
    {
        assert_eq!(stands(nothing.clone(), Value::Null), (false, None), "{nothing}");
    }
    assert_eq!(stands(json!("master_plan"), json!(true)), (false, Some("master_plan".into())));
    for here in ["note", "points", "deep_point", "at the second point", "item 2"] {
        assert_eq!(stands(json!(here), Value::Null), (true, None), "{here}");
    }
    for yes in [json!(1), json!("yes"), json!("TRUE"), json!(true)] {
        assert_eq!(stands(Value::Null, yes.clone()), (true, None), "{yes}");
    }
    for no in [json!(0), json!("no"), json!(false)] {
        assert_eq!(stands(Value::Null, no.clone()), (false, None), "{no}");
    }
}

#[test]
fn a_fence_or_a_lead_in_around_nothing_is_nothing() {
    for nothing in ["```json\n\n```", "```\n```", "Here is the rest of it:\n\n", "That is all.\n```\n\n```"] {
        let chunks = [r#"{"a":"#, "```json\n{}\n```", "```json\n}\n```", nothing];
        let found = json(&chunks, None, None);
        let joints = vec![Joint::Onward, Joint::Onward, Joint::Nothing];
        assert_eq!((found.text.as_str(), found.joints), (r#"{"a":{}}"#, joints), "{nothing:?}");
    }
}

#[test]
fn a_list_begun_again_and_cut_off_before_the_interrupted_item_adds_nothing_to_it() {
    let first = r#"{"s":"","nodes":[{"id":"N1","list":[{"k":null,"a":"one"},{"k":null"#;
    let last = r#"{"nodes":[{"id":"N1","list":[{"k":null,"a":"one"},{"k":null,"b":1}]}]}"#;
    let whole = json!({"s": "", "nodes": [{"id": "N1", "list": [{"k": null, "a": "one"}, {"k": null, "b": 1}]}]});
    for text in ["", "on", "one"] {
        let again = format!(r#"{{"nodes":[{{"list":[{{"k":null,"a":"{text}"#);
        assert_eq!(knitted(&[first, &again, last]), whole, "{text:?}");
    }
    // One that is complete, or says something else, is the interrupted item.
    let item = |text: &str| json!({"k": null, "a": text});
    for (again, text) in
        [(r#"{"nodes":[{"list":[{"k":null,"a":"one"}]}]}"#, "one"), (r#"{"nodes":[{"list":[{"k":null,"a":"tw"#, "tw")]
    {
        let found = json(&[first, again], None, None).text;
        let found: Value = serde_json::from_str(&found).unwrap();
        assert_eq!(found["nodes"][0]["list"], json!([item("one"), item(text)]));
    }
}

#[test]
fn a_document_begun_again_by_its_name_is_no_item_even_if_cut_off_in_the_name() {
    let first = r#"{"s":"","nodes":[{"id":"N1","t":"one"}"#;
    let last = r#"{"project_checklist":{"nodes":[{"id":"N1","t":"one"},{"id":"N2","t":"two"}],"tail":[1]}}"#;
    let whole = json!({"s": "", "nodes": [item("N1", "one"), item("N2", "two")], "tail": [1]});
    for due in [r#"{"nodes":"#, r#"{"content":{"nodes":"#, r#"{"nodes":["#, r#"{"content":{"nodes":["#] {
        for begun in ["{", r#"{"proj"#, r#"{"project_check"#, r#"{"project_checklist"#, r#"{"project_checklist":"#] {
            let found = json(&[first, due, begun, last], None, Some("project_checklist")).text;
            assert_eq!(serde_json::from_str::<Value>(&found).unwrap(), whole, "{due}, {begun}");
        }
    }
}
