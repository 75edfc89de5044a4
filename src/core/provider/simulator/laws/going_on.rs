//! The laws of a simulated model that goes on: where it stopped, or with a new object; and of one that thinks first.

use super::*;

fn asked(settings: Value) -> Request {
    let content =
        json!({"summary": "", "risks": ["Each in a sentence"], "steps": [{"title": "", "text": ""}], "notes": ""});
    Request { content: Some(content), ..critique("sim-a", settings) }
}

/// The same request with what the model said put before it, and a directive.
fn after(request: &Request, said: &str) -> Request {
    let mut request = request.clone();
    request.messages.push(message(Role::Assistant, said));
    request.messages.push(message(Role::User, "Go on."));
    request
}

fn cuts(text: &str) -> impl Iterator<Item = &str> {
    (1..text.len()).filter(|at| text.is_char_boundary(*at)).map(|at| &text[..at])
}

#[test]
fn what_is_left_is_a_new_object_with_the_same_outer_keys() {
    for wrap in [json!({}), json!({"wrap": "content"}), json!({"wrap": "fence"}), json!({"wrap": "prose"})] {
        let mut settings = wrap;
        settings["continue"] = json!("afresh");
        let request = asked(settings.clone());
        let whole = said(&request).0;
        let document = crate::json::read(&whole).unwrap().value;
        let mut begun = 0;
        for so_far in cuts(&whole) {
            let Some((there, _)) = knit::repair(so_far) else { continue };
            let (text, finish, _) = said(&after(&request, so_far));
            assert_eq!(finish, FinishReason::Stop);
            assert_eq!(text.contains("```"), settings["wrap"] == "fence", "{text}");
            let rest = crate::json::read(&text).unwrap().value;
            begun += usize::from(rest != document);
            let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
            assert!(keys(&rest).iter().all(|key| document.get(key).is_some()), "{text}");
            let inner = |value: &Value| value.get("content").unwrap_or(value).clone();
            let (there, rest, all) = (inner(&there), inner(&rest), inner(&document));
            for (key, value) in all.as_object().unwrap() {
                match (there.get(key), rest.get(key)) {
                    (Some(there), None) => assert_eq!(there, value, "{key} is complete and left out"),
                    (None, Some(rest)) => assert_eq!(rest, value, "{key} comes whole"),
                    (Some(Value::Array(there)), Some(Value::Array(rest))) => {
                        assert!(value.as_array().unwrap().ends_with(rest), "{key} goes on with whole items");
                        assert!(
                            there.len() + rest.len() <= value.as_array().unwrap().len() + 1,
                            "{key} is not repeated"
                        );
                    }
                    (Some(_), Some(rest)) => assert_eq!(rest, value, "{key} was interrupted and comes again"),
                    (None, None) => panic!("{key} is lost"),
                }
            }
        }
        assert!(begun > 100, "{begun}");
    }
}

#[test]
fn a_model_that_goes_onward_does_so_from_its_own_words_and_a_directive() {
    for settings in [json!({}), json!({"continue": "onward", "wrap": "fence"}), json!({"wrap": "prose"})] {
        let request = asked(settings);
        let whole = said(&request).0;
        for so_far in cuts(&whole) {
            assert_eq!(format!("{so_far}{}", said(&after(&request, so_far)).0), whole);
        }
    }
}

#[test]
fn plain_texts_go_onward_in_any_case() {
    let request = critique("sim-a", json!({"continue": "afresh"}));
    let whole = said(&request).0;
    let half = &whole[..whole.floor_char_boundary(whole.len() / 2)];
    assert_eq!(format!("{half}{}", said(&after(&request, half)).0), whole);
}

#[test]
fn json_that_is_shown_in_another_form_is_completed_afresh() {
    let request = asked(json!({}));
    let whole: Value = serde_json::from_str(&said(&request).0).unwrap();
    let mut shown = whole.clone();
    shown.as_object_mut().unwrap().shift_remove("notes");
    shown["risks"].as_array_mut().unwrap().truncate(1);
    let rest: Value = serde_json::from_str(&said(&after(&request, &shown.to_string())).0).unwrap();
    assert_eq!(rest, json!({"risks": &whole["risks"].as_array().unwrap()[1..], "notes": whole["notes"]}));
    assert_eq!(said(&after(&request, &whole.to_string())).0, "{}\n");
}

#[test]
fn a_repair_that_was_begun_is_completed() {
    let request = asked(json!({"omit_keys": ["notes"]}));
    let mut shown: Value = serde_json::from_str(&said(&request).0).unwrap();
    let mut repair = after(&request, &shown.to_string());
    repair.messages[3].content = "Missing keys: notes".into();
    let repaired: Value = serde_json::from_str(&said(&repair).0).unwrap();
    shown["notes"] = json!(repaired["notes"].as_str().unwrap()[..20]);
    let rest: Value = serde_json::from_str(&said(&after(&request, &shown.to_string())).0).unwrap();
    assert_eq!(rest, repaired);
}

#[test]
fn what_is_thought_first_is_paid_for_and_leaves_less_room() {
    for request in [asked(json!({"thinks_tokens": 500})), critique("sim-a", json!({"thinks_tokens": 500}))] {
        let whole = said(&request);
        assert_eq!((whole.1, whole.2.reasoning_tokens), (FinishReason::Stop, 500));
        assert_eq!(whole.2.output_tokens, 500 + tokens(&whole.0));
        for most in [1, 499, 500] {
            let (text, finish, usage) = said(&Request { max_output_tokens: most, ..request.clone() });
            assert_eq!((text.as_str(), finish), ("", FinishReason::Length));
            assert_eq!((usage.output_tokens, usage.reasoning_tokens), (most, most));
        }
        let (text, finish, usage) = said(&Request { max_output_tokens: 520, ..request.clone() });
        assert!(finish == FinishReason::Length && !text.is_empty() && whole.0.starts_with(&text), "{text}");
        assert!(usage.output_tokens <= 520 && usage.reasoning_tokens == 500, "{usage:?}");
    }
}
