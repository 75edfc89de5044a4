//! Decides how options are compared side by side.
//!
//! Options with scores by dimension become one table, a row for each dimension, and the reasons follow under each
//! option. Whatever does not have that form is shown as it is. Never computes a total: the weights are the model's, not
//! ours.

use super::generic::{Page, is_blank, is_short, labelled_blocks, scalar};
use super::layout::{on_its_own, taken};
use super::{prose, table};
use serde_json::{Map, Value};

/// Options compared by scores, as a function of layouts.
pub(super) fn of(options: minijinja::Value, level: Option<usize>) -> String {
    let level = level.unwrap_or(2);
    let value = taken(&options);
    let mut page = Page::default();
    match value.as_array().and_then(|items| items.iter().map(Choice::of).collect::<Option<Vec<_>>>()) {
        Some(choices) if (1..=5).contains(&choices.len()) => compare(&mut page, &choices, level),
        _ => page.value(&value, level),
    }
    on_its_own(page)
}

struct Choice<'a> {
    id: String,
    preferred: bool,
    scores: Vec<Score<'a>>,
    rest: Map<String, Value>,
}

struct Score<'a> {
    dimension: String,
    weight: String,
    value: String,
    rationale: Option<&'a Value>,
}

impl<'a> Choice<'a> {
    /// `None` when it is not of this form, or has a score with more to it than the form holds.
    fn of(value: &'a Value) -> Option<Self> {
        let fields = value.as_object()?;
        let id = fields.get("id").filter(|id| is_short(id, 80))?;
        let scores: Option<Vec<Score>> = fields.get("scores")?.as_array()?.iter().map(Score::of).collect();
        let preferred = fields.get("preferred");
        let known = preferred.is_none_or(Value::is_boolean);
        let rest = fields.iter().filter(|(key, _)| !["id", "scores", "preferred"].contains(&key.as_str()));
        Some(Self {
            id: scalar(id),
            preferred: preferred == Some(&Value::Bool(true)),
            scores: scores.filter(|scores| known && !scores.is_empty())?,
            rest: rest.map(|(key, value)| (key.clone(), value.clone())).collect(),
        })
    }
}

impl<'a> Score<'a> {
    fn of(value: &'a Value) -> Option<Self> {
        let fields = value.as_object()?;
        let known = ["dimension", "weight", "value", "rationale"];
        if fields.get("rationale").is_some_and(|rationale| rationale.is_array() || rationale.is_object()) {
            return None;
        }
        let plain = |key: &str| fields.get(key).map_or(Some(String::new()), |v| is_short(v, 60).then(|| scalar(v)));
        let score = Self {
            dimension: plain("dimension")?,
            weight: plain("weight")?,
            value: plain("value")?,
            rationale: fields.get("rationale").filter(|rationale| !is_blank(rationale)),
        };
        (fields.keys().all(|key| known.contains(&key.as_str())) && !score.dimension.is_empty()).then_some(score)
    }
}

fn compare(page: &mut Page, choices: &[Choice], level: usize) {
    let mut dimensions: Vec<(&str, &str)> = Vec::new();
    for score in choices.iter().flat_map(|choice| &choice.scores) {
        // A weight that differs between options makes a row of its own, rather than being lost.
        if !dimensions.contains(&(&score.dimension, &score.weight)) {
            dimensions.push((&score.dimension, &score.weight));
        }
    }
    let mut headings = vec!["Dimension".to_owned(), "Weight".to_owned()];
    headings.extend(
        choices.iter().map(|choice| format!("{}{}", choice.id, if choice.preferred { " (preferred)" } else { "" })),
    );
    let rows = dimensions.iter().map(|(dimension, weight)| {
        let scores = choices.iter().map(|choice| {
            let here = choice.scores.iter().filter(|score| score.dimension == *dimension && score.weight == *weight);
            here.map(|score| prose::cell(&score.value)).collect::<Vec<_>>().join(", ")
        });
        [super::words::title(dimension), (*weight).to_owned()]
            .map(|text| prose::cell(&text))
            .into_iter()
            .chain(scores)
            .collect()
    });
    page.block(&table::write(&headings, rows.collect()));
    for choice in choices {
        let reasons = choice.scores.iter().filter_map(|score| {
            let label = super::words::title(&score.dimension);
            let reason = labelled_blocks(&label, &scalar(score.rationale?));
            Some(format!("- {}", prose::indent(&reason, 2)))
        });
        let reasons = reasons.collect::<Vec<_>>().join("\n");
        if reasons.is_empty() && choice.rest.is_empty() {
            continue;
        }
        page.heading(&choice.id, level);
        page.block(&reasons);
        page.value(&Value::Object(choice.rest.clone()), level + 1);
    }
}
