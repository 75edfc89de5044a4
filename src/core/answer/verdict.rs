//! Decides what becomes of an answer: it is whole, it lacks something that is asked for once more, or it cannot be used.
//!
//! A refusal and silence are failures whatever was asked for. What a model was asked to mend is judged together with what it
//! wrote before, and is asked for only once. Never decides when a failure is tried again.

use super::{Answer, Unusable, merge, read};
use crate::json::Unreadable;
use crate::provider::{FinishReason, judge};
use serde_json::Value;

/// What a job wants of its answer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Wanted {
    /// The shape of the JSON; none for a plain text.
    pub shape: Option<Value>,
    /// The document it is for.
    pub document_key: Option<String>,
    /// What the model wrote before it was asked to mend it.
    pub before: Option<String>,
    /// Whether it may be asked again for what is missing.
    pub may_continue: bool,
}

/// What there is to keep of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// A text, as it is.
    Text,
    /// JSON in normal form with all that was asked for; not complete where it was cut off or may not be mended.
    Whole {
        /// The content.
        content: Value,
        /// Whether nothing is missing.
        is_complete: bool,
    },
    /// JSON that lacks these keys, which are asked for once more.
    Lacking {
        /// The keys.
        missing: Vec<String>,
    },
    /// Nothing that can be used.
    Refused {
        /// Why, in words.
        reason: String,
        /// Whether to ask once more would not help.
        is_final: bool,
    },
}

/// Judges what a model has answered.
pub fn verdict(finish_reason: FinishReason, text: &str, wanted: &Wanted) -> Verdict {
    if let Some(reason) = judge(finish_reason, text) {
        return Verdict::Refused { reason: reason.to_owned(), is_final: finish_reason == FinishReason::ContentFilter };
    }
    let Some(shape) = &wanted.shape else {
        // JSON shows by itself whether it is whole; a text does not.
        return match finish_reason {
            FinishReason::Unknown => Verdict::Refused {
                reason: "the model did not say why it stopped, or in a word that is not known".to_owned(),
                is_final: false,
            },
            _ => Verdict::Text,
        };
    };
    let key = wanted.document_key.as_deref();
    let is_cut = finish_reason == FinishReason::Length;
    let given = match opened(text, shape, key) {
        // A model that says it is done has not been cut off: it has written broken JSON, and is asked again.
        Ok((_, true)) if matches!(finish_reason, FinishReason::Stop | FinishReason::ToolUse) => {
            return Verdict::Refused {
                reason: "the JSON of the answer ends in the middle".to_owned(),
                is_final: false,
            };
        }
        given => given,
    };
    let (answer, is_cut) = match (given, &wanted.before) {
        (Ok((answer, cut)), None) => (answer, is_cut || cut),
        (Ok((answer, cut)), Some(before)) => match opened(before, shape, key) {
            // What the first was cut off in stays cut off.
            Ok((first, first_cut)) => {
                let merged = merge(first.content, answer.content).to_string();
                match read(&merged, Some(shape), key) {
                    Ok(whole) => (whole, is_cut || cut || first_cut),
                    Err(problem) => return refused(&problem),
                }
            }
            Err(_) => (answer, is_cut || cut),
        },
        // Nothing of what was asked for: what was there before is all there is.
        (Err(Unusable::NothingAsked { .. }), Some(before)) => match opened(before, shape, key) {
            Ok((first, first_cut)) => (first, is_cut || first_cut),
            Err(problem) => return refused(&problem),
        },
        (Err(problem), _) => return refused(&problem),
    };
    match (answer.missing.is_empty(), wanted.may_continue, wanted.before.is_some()) {
        (true, ..) => Verdict::Whole { content: answer.content, is_complete: !is_cut },
        (false, false, _) => Verdict::Whole { content: answer.content, is_complete: false },
        (false, true, false) => Verdict::Lacking { missing: answer.missing },
        (false, true, true) => {
            let reason = format!("the answer lacks {}, and did so again when asked for it", answer.missing.join(", "));
            Verdict::Refused { reason, is_final: true }
        }
    }
}

fn refused(problem: &Unusable) -> Verdict {
    Verdict::Refused { reason: problem.to_string(), is_final: false }
}

/// Reads an answer, and what there is of one that was cut off; true when it was.
fn opened(text: &str, shape: &Value, key: Option<&str>) -> Result<(Answer, bool), Unusable> {
    match read(text, Some(shape), key) {
        Err(Unusable::Json(Unreadable::Cut { partial, .. })) => {
            Ok((read(&partial.to_string(), Some(shape), key)?, true))
        }
        read => Ok((read?, false)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn wanted(before: Option<&str>) -> Wanted {
        Wanted {
            shape: Some(json!({"title": "", "points": []})),
            document_key: Some("note".into()),
            before: before.map(str::to_owned),
            may_continue: true,
        }
    }

    fn missing(verdict: &Verdict) -> &[String] {
        match verdict {
            Verdict::Lacking { missing } => missing,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_model_that_mends_nothing_is_not_asked_again() {
        for text in ["{}", r#"{"other": 1}"#] {
            let told = verdict(FinishReason::Stop, text, &wanted(Some(r#"{"title": "T"}"#)));
            let Verdict::Refused { reason, is_final } = told else { panic!("{told:?}") };
            assert!(is_final && reason.contains("lacks points"), "{text}: {reason}");
        }
    }

    #[test]
    fn an_answer_with_all_that_was_asked_for_is_whole() {
        let text = r#"{"title": "T", "points": ["a"]}"#;
        let content = json!({"title": "T", "points": ["a"]});
        assert_eq!(verdict(FinishReason::Stop, text, &wanted(None)), Verdict::Whole { content, is_complete: true });
        assert_eq!(verdict(FinishReason::Stop, text, &Wanted::default()), Verdict::Text);
    }

    #[test]
    fn what_is_missing_is_asked_for_once_and_merged() {
        let first = r#"{"title": "T"}"#;
        assert_eq!(missing(&verdict(FinishReason::Stop, first, &wanted(None))), ["points"]);
        let mended = verdict(FinishReason::Stop, r#"{"points": ["a"]}"#, &wanted(Some(first)));
        assert_eq!(mended, Verdict::Whole { content: json!({"title": "T", "points": ["a"]}), is_complete: true });
        for nothing in [r#"{"title": "again"}"#, "{}", r#"{"colour": "red"}"#] {
            match verdict(FinishReason::Stop, nothing, &wanted(Some(first))) {
                Verdict::Refused { reason, is_final } => assert!(is_final && reason.contains("points"), "{reason}"),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn what_was_cut_off_is_not_made_complete_by_what_is_added() {
        let mended = verdict(FinishReason::Stop, r#"{"points": ["a"]}"#, &wanted(Some(r#"{"title": "The beginn"#)));
        assert!(matches!(mended, Verdict::Whole { is_complete: false, .. }), "{mended:?}");
    }

    #[test]
    fn what_may_not_be_mended_is_kept_and_incomplete() {
        let wanted = Wanted { may_continue: false, ..wanted(None) };
        let kept = verdict(FinishReason::Stop, r#"{"title": "T"}"#, &wanted);
        assert_eq!(kept, Verdict::Whole { content: json!({"title": "T"}), is_complete: false });
    }

    #[test]
    fn what_was_cut_off_is_kept_as_far_as_it_goes() {
        let cut = verdict(FinishReason::Length, r#"{"title": "T", "points": ["a", "b"#, &wanted(None));
        assert!(matches!(cut, Verdict::Whole { is_complete: false, .. }), "{cut:?}");
        assert_eq!(missing(&verdict(FinishReason::Length, r#"{"title": "T", "po"#, &wanted(None))), ["points"]);
    }

    #[test]
    fn broken_json_of_a_model_that_says_it_is_done_is_asked_for_again() {
        let first = r#"{"title": "T"}"#;
        for (text, before) in [
            (r#"{"title": "T", "points": ["a", "b"#, None),
            (r#"{"title": "T", "po"#, None),
            (r#"{"points": ["a"#, Some(first)),
        ] {
            let heard = verdict(FinishReason::Stop, text, &wanted(before));
            assert!(matches!(heard, Verdict::Refused { is_final: false, .. }), "{text}: {heard:?}");
        }
    }

    #[test]
    fn a_refusal_is_final_and_prose_is_not() {
        let is_final = |reason, text| match verdict(reason, text, &wanted(None)) {
            Verdict::Refused { is_final, .. } => is_final,
            other => panic!("{other:?}"),
        };
        assert!(is_final(FinishReason::ContentFilter, "{}"));
        assert!(!is_final(FinishReason::Stop, "I would rather talk about the sea."));
    }
}
