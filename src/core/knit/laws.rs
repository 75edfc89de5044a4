//! The laws of knitting on single cases, each with the evidence that decides it; on many documents they are held in
//! `tests/core/knitting.rs`.

mod untidy;

use super::*;
use serde_json::json;

fn knitted(chunks: &[&str]) -> Value {
    let text = json(chunks, None, None).text;
    serde_json::from_str(&text).unwrap_or_else(|problem| panic!("{text}: {problem}"))
}

fn joined(chunks: &[&str]) -> String {
    json(chunks, None, None).text
}

#[test]
fn a_text_goes_on_where_it_stopped() {
    for chunks in [
        &["{\"a\": \"caf\\u00", "e9\"}"][..],
        &["{\"a\": \"\\ud83d", "\\ude00\"}"],
        &["{\"a\": \"\\", "\\u00e9\"}"],
        &["{\"a\": 1", "2.5e", "3}"],
        &["{\"a\": tr", "ue, \"b", "\": nul", "l}"],
        &["", "{", "\"a\"", ":", " ", "[", "]", "}", ""],
        &["{\"a\": \"two ", " ", "blanks\"}\n"],
    ] {
        let whole = chunks.concat();
        let knitted = json(chunks, None, None);
        assert_eq!((knitted.text, knitted.is_repaired), (whole, false), "{chunks:?}");
        assert!(!knitted.joints.contains(&Joint::Afresh), "{chunks:?}");
    }
}

#[test]
fn a_legitimate_repetition_is_kept() {
    // A few characters, and any number of them in a rhythm, say nothing.
    assert_eq!(joined(&["{\"a\": \"aaaa", "aaaa\"}"]), "{\"a\": \"aaaaaaaa\"}");
    assert_eq!(joined(&["{\"a\": \"can", "canned\"}"]), "{\"a\": \"cancanned\"}");
    assert_eq!(joined(&["{\"a\": \"so be it", "be it so\"}"]), "{\"a\": \"so be itbe it so\"}");
    let zeros = "0, ".repeat(30);
    assert_eq!(joined(&[&format!("[{zeros}"), &format!("{zeros}0]")]), format!("[{zeros}{zeros}0]"));
    // The same pair of escapes twice is two characters, however long they are.
    assert_eq!(joined(&["[\"\\ud83d\\ude00", "\\ud83d\\ude00\"]"]), "[\"\\ud83d\\ude00\\ud83d\\ude00\"]");
    // Equal items are the habit of this list.
    let row = "{\"risk\": \"low\"}, ";
    let before = format!("[{row}{row}{{\"risk\": \"high\"}}, {row}");
    assert_eq!(joined(&[&before, &format!("{row}1]")]), format!("{before}{row}1]"));
}

#[test]
fn a_repetition_beyond_accident_is_trimmed() {
    assert_eq!(knitted(&["{\"a\": \"one two three four", "two three four five\"}"])["a"], "one two three four five");
    // However short, where the text is JSON only without it.
    assert_eq!(knitted(&["{\"a\": 1, \"b", "\"b\": 2}"]), json!({"a": 1, "b": 2}));
    assert_eq!(knitted(&["{\"a\": 1", "\"a\": 15}"]), json!({"a": 15}));
}

#[test]
fn the_next_item_is_not_the_document_again() {
    let before = "{\"title\": \"T\", \"parts\": [{\"title\": \"a\"}, ";
    let whole = json!({"title": "T", "parts": [{"title": "a"}, {"title": "b"}]});
    assert_eq!(knitted(&[before, "{\"title\": \"b\"}]}"]), whole);
    assert_eq!(knitted(&[before, "{\"title\": \"b\"}", "]}"]), whole);
    // Cut off for good: the keys decide.
    let onward = json(&[before, "{\"title\": \"b\", \"bo"], None, None);
    assert_eq!((onward.joints, onward.is_repaired), (vec![Joint::Onward], true));
    let afresh = json(&[before, "{\"title\": \"T\", \"parts\": [{\"title\": \"b\"}, {\"ti"], None, None);
    assert_eq!(afresh.joints, [Joint::Afresh]);
    assert_eq!(serde_json::from_str::<Value>(&afresh.text).unwrap(), whole);
}

#[test]
fn an_interrupted_item_is_repeated_resumed_or_skipped_and_never_doubled() {
    let before = "{\"nodes\": [{\"id\": 1, \"a\": \"x\"}, {\"id\": 2, \"a\": \"y\", \"b\": [\"p\", \"q";
    let rest = "{\"id\": 3, \"a\": \"z\"}]}";
    let third = json!({"id": 3, "a": "z"});
    for (again, b) in [
        ("{\"id\": 2, \"a\": \"y\", \"b\": [\"p\", \"quite\"]}, ", json!(["p", "quite"])),
        ("{\"b\": [\"p\", \"quite\"]}, ", json!(["p", "quite"])),
        ("{\"b\": [\"quite\", \"r\"]}, ", json!(["p", "quite", "r"])),
        ("", json!(["p", "q"])),
    ] {
        let chunk = format!("```json\n{{\"nodes\": [{again}{rest}\n```");
        let knitted = json(&[before, &chunk], None, None);
        let nodes = json!({"nodes": [{"id": 1, "a": "x"}, {"id": 2, "a": "y", "b": b}, third]});
        assert_eq!(serde_json::from_str::<Value>(&knitted.text).unwrap(), nodes, "{chunk}");
        assert_eq!((knitted.joints, knitted.is_repaired), (vec![Joint::Afresh], again.is_empty()), "{chunk}");
    }
}

#[test]
fn what_is_complete_is_kept_and_what_was_cut_is_completed() {
    let first = "{\"title\": \"First words\", \"summary\": \"It began";
    let again = "{\"title\": \"Other words\", \"summary\": \"It began and ended.\"}";
    let knitted = json(&[first, again], None, None);
    let expected = json!({"title": "First words", "summary": "It began and ended."});
    assert_eq!(serde_json::from_str::<Value>(&knitted.text).unwrap(), expected);
    assert!(knitted.notes.iter().any(|note| note.contains("came again otherwise")), "{:?}", knitted.notes);
}

#[test]
fn a_list_that_was_asked_for_alone_goes_into_its_place() {
    let before = "{\"title\": \"T\", \"nodes\": [{\"id\": 1}, {\"id\": 2, \"a\": ";
    let whole = json!({"title": "T", "nodes": [{"id": 1}, {"id": 2, "a": 5}, {"id": 3}]});
    for rest in ["[{\"id\": 2, \"a\": 5}, {\"id\": 3}]", "{\"content\": {\"nodes\": [{\"a\": 5}, {\"id\": 3}]}}"] {
        let shape = json!({"title": "", "nodes": []});
        let text = json(&[&before[..before.len() - 5], rest], Some(&shape), None).text;
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), whole, "{rest}");
    }
}

#[test]
fn other_documents_stay_out() {
    let shape = json!({"nodes": []});
    let first = "{\"nodes\": [1, 2], \"resume_cursor\": {\"document_key\": \"plan\"}}";
    for other in ["{\"plan\": {\"nodes\": [3]}}", "{\"phases\": [1], \"goals\": [2], \"nodes\": [3]}"] {
        let knitted = json(&[first, other], Some(&shape), Some("list"));
        assert_eq!((knitted.text.as_str(), knitted.joints), (first, vec![Joint::Nothing]), "{other}");
        assert!(knitted.notes.iter().any(|note| note.contains("left out")), "{other}");
    }
    let beside = "{\"list\": {\"nodes\": [2, 3]}, \"plan\": {\"phases\": []}}";
    let knitted = json(&["{\"nodes\": [1, 2", beside], Some(&shape), Some("list"));
    assert_eq!(serde_json::from_str::<Value>(&knitted.text).unwrap(), json!({"nodes": [1, 2, 3]}));
    let standing = standing(&[first], Some(&shape), Some("list"));
    assert_eq!((standing.is_whole, standing.elsewhere.as_deref()), (true, Some("plan")));
}

#[test]
fn nothing_new_is_told() {
    let whole = "{\"a\": [1, 2], \"b\": \"text enough to be sure of\"}";
    for chunk in ["", " ", whole, "of\"}", "```json\n{\"a\": [1, 2]}\n```", "I have nothing to add."] {
        let knitted = json(&[whole, chunk], None, None);
        assert_eq!((knitted.text.trim(), knitted.joints), (whole, vec![Joint::Nothing]), "{chunk}");
    }
    let cut = "{\"b\": \"text enough to be sure of";
    assert_eq!(json(&[cut, "enough to be sure of"], None, None).joints, [Joint::Nothing]);
}

#[test]
fn repair_keeps_what_is_complete_and_makes_nothing_up() {
    for (text, expected) in [
        ("{\"a\": 12", json!({})),
        ("{\"a\": 12, \"b\": tr", json!({"a": 12})),
        ("{\"a\": [1, {\"b\": \"x\\ud83d", json!({"a": [1, {"b": "x"}]})),
        ("{\"a\": [{\"b\": 1}, {", json!({"a": [{"b": 1}]})),
        ("Sure:\n```json\n{\"a\": \"x\ny", json!({"a": "x\ny"})),
    ] {
        assert_eq!(repair(text), Some((expected, true)), "{text}");
    }
    assert_eq!(repair("Sure: {\"a\": 1} as asked."), Some((json!({"a": 1}), false)));
    assert_eq!(repair("{\"a\": 1,}"), Some((json!({"a": 1}), true)));
    assert_eq!(repair("nothing"), None);
}

#[test]
fn a_standing_names_what_is_to_come() {
    let shape = json!({"title": "", "nodes": [], "notes": ""});
    let text = "{\"title\": \"T\", \"nodes\": [{\"id\": \"n1\"}, {\"id\": \"n2\", \"text\": \"half of i";
    let standing = standing(&[text], Some(&shape), None);
    let open =
        OpenList { path: "nodes".into(), items: 1, last_complete: Some("n1".into()), interrupted: Some("n2".into()) };
    assert_eq!((standing.is_whole, standing.missing, standing.open_list), (false, vec!["notes".into()], Some(open)));
    assert_eq!(standing.tail, text);
}

#[test]
fn a_plain_text_loses_and_doubles_nothing() {
    for (chunks, whole) in [
        (&["One two", " three."][..], "One two three."),
        (&["the cat ", "cat flap"], "the cat cat flap"),
        (&["Rain fell on the old bridge", "on the old bridge all night."], "Rain fell on the old bridge all night."),
        (&["Text.\n\n## Risks\n", "## Risks\n\nMany."], "Text.\n\n## Risks\n\nMany."),
        (&["Done.", "## Next\n"], "Done.\n\n## Next\n"),
        (&["It was", "Here is the rest of the text:\n\n late."], "It was late."),
        (&["- yes\n- yes\n", "- yes\n- no\n"], "- yes\n- yes\n- yes\n- no\n"),
        (
            &["It was late.\n\n", "Here is the rest home of the poor.\n"],
            "It was late.\n\nHere is the rest home of the poor.\n",
        ),
        (&["End of it.\n", "```markdown\n# More\n```"], "End of it.\n# More"),
    ] {
        assert_eq!(text(chunks).text, whole, "{chunks:?}");
    }
}

#[test]
fn a_list_without_identities_that_comes_again_twice_is_not_doubled() {
    let list = "\"tail\": [\"x\", {\"y\": null}, {\"a\": {\n";
    let rest = "\"b\": -1, \"k\": null, \"c\": -1}";
    let first = format!("{{\"content\": {{\"s\": \"\", {list}{rest}");
    let second = format!("{{\"content\": {{{list}");
    let third = format!("{{\n\"checklist\": {{{list}{rest}, \"k\": 1, \"d\": false}}, null]}}}}");
    let text = json(&[&first, &second, &third], None, Some("checklist")).text;
    let item = json!({"a": {"b": -1, "k": null, "c": -1}, "k": 1, "d": false});
    let whole = json!({"content": {"s": "", "tail": ["x", {"y": null}, item, null]}});
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), whole);
}

#[test]
fn entries_of_a_header_are_known_by_their_document_and_other_items_are_not() {
    let entry = |key: &str, text: &str| json!({"document_key": key, "content": {"summary": text}});
    let first = "{\"entries\": [{\"document_key\": \"plan\", \"content\": {\"summary\": \"Old\"}}, \
                 {\"document_key\": \"spec\", \"content\": {\"summary\": \"Half of i";
    // Written again in other words, it is the same entry.
    let again = json!({"entries": [entry("spec", "All of it."), entry("plan", "New"), entry("list", "L")]}).to_string();
    let knitted = knitted(&[first, &again]);
    assert_eq!(knitted, json!({"entries": [entry("plan", "Old"), entry("spec", "All of it."), entry("list", "L")]}));
    // What is about the same document twice is two things.
    let finding = |text: &str| json!({"document_key": "plan", "finding": text});
    let first = json!({"findings": [finding("a"), finding("b")]}).to_string();
    let chunks = [&first[..first.len() - 2], &json!({"findings": [finding("c")]}).to_string()];
    let text = json(&chunks, None, None).text;
    let findings = json!({"findings": [finding("a"), finding("b"), finding("c")]});
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), findings);
}

#[test]
fn what_a_model_is_shown_is_what_it_wrote_until_it_began_afresh() {
    let shape = json!({"title": "", "nodes": []});
    let shown = |chunks: &[&str]| so_far(chunks, Some(&shape), Some("list"));
    let (fenced, rest) =
        ("Sure:\n\n```json\n{\"title\": \"T\", \"nodes\": [\"one and a half loaf", "and a half loaf more\", \"tw");
    assert_eq!(shown(&[fenced]), fenced);
    assert_eq!(shown(&["", fenced, " "]), format!("{fenced} "));
    assert_eq!(shown(&[fenced, rest]), format!("{fenced} more\", \"tw"));
    assert_eq!(shown(&[fenced, "```json\n more\", \"tw\n```"]), format!("{fenced} more\", \"tw"));
    assert_eq!(shown(&["Sure, here"]), "Sure, here");
    assert_eq!(shown(&[]), "");
    let afresh = shown(&[fenced, "{\"nodes\": [\"one and a half loaf more\", \"tw"]);
    assert_eq!(afresh, json!({"title": "T", "nodes": ["one and a half loaf more", "tw"]}).to_string());
    // What brought nothing is not shown.
    assert_eq!(shown(&["{\"title\": \"T\", \"nodes\": []}", "{}"]), "{\"title\": \"T\", \"nodes\": []}");
}
