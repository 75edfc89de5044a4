//! The laws of chains whose model contradicts itself or writes what has no place: such an answer is kept, and is not
//! complete.

use super::*;

fn items(before: &[&str]) -> Wanted {
    Wanted { shape: Some(json!({"q": "", "items": [{"id": "", "t": ""}]})), ..last(wanted(before)) }
}

#[test]
fn items_that_come_again_otherwise_leave_no_complete_answer() {
    let before = r#"{"q":"w","items":[{"id":"1","t":"one"},{"id":"2","t":"two"}"#;
    let otherwise = r#"{"items":[{"id":"1","t":"uno"},{"id":"2","t":"due"},{"id":"3","t":"tre"}]}"#;
    let (content, is_complete, notes) = kept(verdict(Stop, otherwise, &items(&[before])));
    assert_eq!((content["items"][1]["t"].as_str(), is_complete), (Some("two"), false), "{notes}");
    assert!(notes.contains("2 complete values that came again otherwise"), "{notes}");
    let again = otherwise.replace("uno", "one").replace("due", "two");
    assert!(kept(verdict(Stop, &again, &items(&[before]))).1);
    // What was interrupted may be written again in other words.
    let cut = r#"{"q":"w","items":[{"id":"1","t":"one"},{"id":"2","t":"tw"#;
    let reworded = r#"{"items":[{"id":"2","t":"Second"},{"id":"3","t":"tre"}]}"#;
    assert!(kept(verdict(Stop, reworded, &items(&[cut]))).1);
}

#[test]
fn a_value_without_a_place_leaves_no_complete_answer() {
    let cut = r#"{"q":"w","items":[{"id":"1","t":"one"},{"id":"2","t":"tw"#;
    let stray = "{\"id\":\"2\",\"t\":\"two\"}\n{\"id\":\"9\",\"u\":1,\"v\":2,\"w\":3}";
    let (content, is_complete, notes) = kept(verdict(Stop, stray, &items(&[cut])));
    assert_eq!((content["items"][1]["t"].as_str(), is_complete), (Some("two"), false), "{notes}");
    assert!(notes.contains("left out"), "{notes}");
    let placed = "{\"id\":\"2\",\"t\":\"two\"}\n{\"id\":\"3\",\"t\":\"three\"}";
    assert!(kept(verdict(Stop, placed, &items(&[cut]))).1);
}

#[test]
fn a_header_that_goes_on_no_more_and_lacks_what_others_stand_on_fails() {
    let cut = r#"{"title": "T"#;
    let header = Wanted { is_header: true, ..last(wanted(&[cut])) };
    let told = verdict(Length, "he la", &header);
    assert!(matches!(&told, Verdict::Refused { reason, is_final: true } if reason.contains("points")), "{told:?}");
    let told = verdict(Length, "he la", &Wanted { is_header: false, ..header });
    assert!(matches!(told, Verdict::Kept { is_complete: false, .. }), "a document is kept: {told:?}");
}
