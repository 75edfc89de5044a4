//! The passages that a step reads in place of whole documents: what is searched for, how many, and among which chunks.
//!
//! Decides the form only. Never searches, and never renders the query.

use super::json::object;
use super::reader::{Reader, kind};
use crate::prompt::{self, UsedAs, unknown_variables};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The most passages one input may ask for.
pub const MAX_MATCHES: u32 = 1000;
/// The longest query template, in characters.
const MAX_QUERY_CHARS: usize = 4000;
const FIELDS: [&str; 3] = ["query", "match_count", "filter"];

/// What is retrieved for an input.
#[derive(Clone, Debug, PartialEq)]
pub struct Retrieve {
    /// The template of the query; it is given what the prompt of the step is given.
    pub query: String,
    /// How many passages at the most; the setting `match_count` where it is not given.
    pub match_count: Option<u32>,
    /// What the metadata of a chunk must contain.
    pub filter: Map<String, Value>,
}

impl Retrieve {
    pub(super) fn to_value(&self) -> Value {
        object([
            ("query", Some(Value::String(self.query.clone()))),
            ("match_count", self.match_count.map(Value::from)),
            ("filter", (!self.filter.is_empty()).then(|| Value::Object(self.filter.clone()))),
        ])
    }
}

impl Reader<'_> {
    /// The field `retrieve` of an input.
    pub(super) fn retrieve(&mut self, name: &str) -> Option<Retrieve> {
        let value = self.given(name)?;
        let Value::Object(fields) = value else {
            self.complain(name, format!("must be an object, is {}", kind(value)));
            return None;
        };
        let prefix = format!("{}{name}.", self.prefix);
        let mut reader = Reader { fields, step: self.step.clone(), prefix, problems: self.problems };
        reader.refuse_unknown(&FIELDS, "a retrieval");
        let query = reader.query();
        let match_count = reader.match_count();
        let filter = match reader.given("filter") {
            None => Map::new(),
            Some(Value::Object(filter)) => filter.clone(),
            Some(other) => {
                reader.complain("filter", format!("must be an object, is {}", kind(other)));
                return None;
            }
        };
        Some(Retrieve { query: query?, match_count, filter })
    }

    fn query(&mut self) -> Option<String> {
        let Some(query) = self.given("query").and_then(Value::as_str).filter(|query| !query.trim().is_empty()) else {
            self.complain("query", "must be the template of a query");
            return None;
        };
        if query.chars().count() > MAX_QUERY_CHARS {
            self.complain("query", format!("must be at most {MAX_QUERY_CHARS} characters long"));
            return None;
        }
        if let Err(problem) = prompt::check("query", query) {
            self.complain("query", problem.to_string());
            return None;
        }
        let bodies = BTreeMap::from([("query".to_owned(), query.to_owned())]);
        for unknown in unknown_variables(&bodies, "query", UsedAs::Step) {
            self.complain("query", format!("uses variable \"{}\", which does not exist", unknown.variable));
        }
        Some(query.to_owned())
    }

    fn match_count(&mut self) -> Option<u32> {
        let given = self.whole_number("match_count")?;
        let count = u32::try_from(given).ok().filter(|count| (1..=MAX_MATCHES).contains(count));
        if count.is_none() {
            self.complain("match_count", format!("must be from 1 to {MAX_MATCHES}"));
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::{Problems, Recipe};
    use serde_json::json;

    fn recipe(retrieve: Value) -> Value {
        json!({"steps": [{
            "key": "answer", "job_type": "execute", "prompt_template_name": "t", "granularity_strategy": "per_model",
            "output_type": "answer",
            "inputs_required": [{"type": "general_resource", "required": false, "retrieve": retrieve}]
        }]})
    }

    fn problems(retrieve: Value) -> Vec<String> {
        Recipe::parse(&recipe(retrieve))
            .map_or_else(|found: Problems| found.0, |_| Vec::new())
            .into_iter()
            .map(|problem| format!("{}: {}", problem.field, problem.message))
            .collect()
    }

    #[test]
    fn retrieval_is_read_back_as_it_was_written() {
        let given = json!({"query": "{{ original_user_request }}", "match_count": 20, "filter": {"kind": "thesis"}});
        let read = Recipe::parse(&recipe(given.clone())).unwrap();
        assert_eq!(read.steps[0].inputs_required[0].retrieve.as_ref().unwrap().to_value(), given);
        let again = Recipe::parse(&read.to_value()).unwrap();
        assert_eq!(again.steps[0].inputs_required, read.steps[0].inputs_required);
    }

    #[test]
    fn retrieval_of_wrong_form_names_its_field() {
        let field = "inputs_required[0].retrieve";
        assert_eq!(problems(json!("x")), [format!("{field}: must be an object, is text")]);
        assert_eq!(problems(json!({})), [format!("{field}.query: must be the template of a query")]);
        assert_eq!(
            problems(json!({"query": "q", "match_count": 0})),
            [format!("{field}.match_count: must be from 1 to 1000")]
        );
        assert_eq!(
            problems(json!({"query": "q", "limit": 1})),
            [format!("{field}.limit: is not a field of a retrieval")]
        );
        assert_eq!(
            problems(json!({"query": "{{ requset }}"})),
            [format!("{field}.query: uses variable \"requset\", which does not exist")]
        );
        assert!(problems(json!({"query": "{{ a"}))[0].starts_with(&format!("{field}.query: ")));
        assert_eq!(
            problems(json!({"query": "q", "filter": []})),
            [format!("{field}.filter: must be an object, is a list")]
        );
    }
}
