//! The law of knitting held against a real chain of answers, where it is at hand.
//!
//! What is expected is read from the raw answers by a reader of its own, line by line: no text of them is repeated here.

use dialectic_core::knit::{self, Joint};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn chain() -> Option<Vec<String>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let named = std::env::var_os("DIALECTIC_SAMPLES").map(PathBuf::from);
    let folder = named.unwrap_or_else(|| root.join("../shared/samples")).join("real-run/5_paralysis/answers");
    let names = ["", ".continuation_1", ".continuation_2", ".continuation_3", ".continuation_4"];
    names.iter().map(|name| fs::read_to_string(folder.join(format!("actionable_checklist{name}.json"))).ok()).collect()
}

/// The lines of every field of every node.
type Nodes = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

/// The fields of every node, by its path: read by their indentation, from answers that are written one value in a line.
/// Under each field the lines of its list that are complete.
fn expected(chunks: &[String]) -> (Vec<String>, Nodes) {
    let (mut order, mut nodes) = (Vec::new(), Nodes::new());
    let (mut node, mut field) = (String::new(), String::new());
    for chunk in chunks {
        for line in chunk.lines() {
            let text = line.trim();
            let key = text.strip_prefix('"').and_then(|text| text.split_once("\":"));
            match (line.len() - line.trim_start().len(), key) {
                (8, Some(("path", value))) => {
                    node = serde_json::from_str(value.trim().trim_end_matches(',')).unwrap();
                    if !nodes.contains_key(&node) {
                        order.push(node.clone());
                    }
                    nodes.entry(node.clone()).or_default().entry("path".into()).or_default();
                }
                (8, Some((key, _))) => {
                    field = key.to_owned();
                    nodes.entry(node.clone()).or_default().entry(field.clone()).or_default();
                }
                (10, _) => {
                    // A line that was cut is no JSON.
                    if let Ok(Value::String(item)) = serde_json::from_str(text.trim_end_matches(',')) {
                        nodes.entry(node.clone()).or_default().entry(field.clone()).or_default().insert(item);
                    }
                }
                _ => {}
            }
        }
    }
    (order, nodes)
}

#[test]
fn a_real_chain_of_answers_becomes_one_checklist() {
    let Some(chunks) = chain() else { return };
    let (order, nodes) = expected(&chunks[..4]);
    assert_eq!(order.len(), 6, "what was counted by hand");
    let borrowed: Vec<&str> = chunks.iter().map(String::as_str).collect();
    let shape = json!({"nodes": []});
    for (shape, key) in
        [(Some(&shape), Some("actionable_checklist")), (None, Some("actionable_checklist")), (None, None)]
    {
        let knitted = knit::json(&borrowed, shape, key);
        assert_eq!(knitted.joints, [Joint::Afresh, Joint::Afresh, Joint::Afresh, Joint::Nothing]);
        println!("{:?}", knitted.notes);
        assert!(knitted.notes.iter().any(|note| note.contains("updated_master_plan") && note.contains("left out")));
        let document: Value = serde_json::from_str(&knitted.text).unwrap();
        let content = &document["content"];
        let first: Value = knit::repair(&chunks[0]).unwrap().0;
        let outer = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!(outer(content), outer(&first["content"]));
        assert_eq!(document.get("updated_master_plan"), None);
        if key.is_some() {
            assert_eq!(outer(&document), ["content"], "nothing that asks to go on with another document");
            assert!(knit::standing(&borrowed, shape, key).is_whole);
        }
        let got = content["nodes"].as_array().unwrap();
        let paths: Vec<&str> = got.iter().map(|node| node["path"].as_str().unwrap()).collect();
        assert_eq!(paths, order);
        let titles: BTreeSet<&str> = got.iter().map(|node| node["title"].as_str().unwrap()).collect();
        assert_eq!(titles.len(), order.len());
        for node in got {
            let wanted = &nodes[node["path"].as_str().unwrap()];
            let fields: BTreeSet<String> = outer(node).into_iter().collect();
            assert_eq!(fields, wanted.keys().cloned().collect(), "{}", node["path"]);
            for (field, lines) in wanted.iter().filter(|(_, lines)| !lines.is_empty()) {
                let items: Vec<&str> =
                    node[field].as_array().unwrap().iter().map(|item| item.as_str().unwrap()).collect();
                assert_eq!(items.len(), lines.len(), "{field} of {}", node["path"]);
                assert!(items.iter().all(|item| lines.contains(*item)), "{field} of {}", node["path"]);
            }
        }
    }
}

#[test]
fn a_real_chain_stands_where_it_was_cut_off() {
    let Some(chunks) = chain() else { return };
    let borrowed: Vec<&str> = chunks.iter().map(String::as_str).collect();
    let shape = json!({"nodes": [], "never": ""});
    for (answers, complete) in [(1, 4), (2, 4), (3, 4)] {
        let standing = knit::standing(&borrowed[..answers], Some(&shape), Some("actionable_checklist"));
        let open = standing.open_list.unwrap();
        assert!(!standing.is_whole);
        assert_eq!(
            (open.path.as_str(), open.items, standing.missing.as_slice()),
            ("nodes", complete, &["never".to_owned()][..])
        );
        let (order, _) = expected(&chunks[..1]);
        assert_eq!(open.last_complete.as_deref(), Some(order[3].as_str()));
        assert_eq!(open.interrupted.as_deref(), Some(order[4].as_str()));
    }
    let standing = knit::standing(&borrowed[..4], None, Some("actionable_checklist"));
    assert_eq!(standing.elsewhere.as_deref(), Some("updated_master_plan"));
    assert!(standing.is_whole && standing.open_list.is_none());
}
