//! From JSON to a recipe: form only.
//!
//! Decides whether each field is of the right kind and fills in what is absent. Every problem is reported, each with
//! its step and field, and an unknown field is one of them. Never recurses into what it is given and never repeats more
//! than a few words of it, so hostile JSON costs no more than its size.

use serde_json::Value;

use super::reader::{Reader, clip, is_key, kind};
use super::{
    FileType, FromModels, HEADER_CONTEXT, Input, JobType, MAX_INPUTS, MAX_STEPS, Need, Problems, Recipe, Step,
    Strategy, USER_FEEDBACK, needs,
};

const STEP_FIELDS: [&str; 14] = [
    "step",
    "key",
    "name",
    "job_type",
    "prompt_template_name",
    "inputs_required",
    "granularity_strategy",
    "output_type",
    "document_key",
    "file_type",
    "content_to_include",
    "content_order",
    "needs",
    "isolated_by",
];

const INPUT_FIELDS: [&str; 11] = [
    "type",
    "stage",
    "document_key",
    "part",
    "origin_type",
    "from_models",
    "required",
    "multiple",
    "relevance",
    "previous_iteration",
    "retrieve",
];

pub(super) fn recipe(value: &Value) -> Result<Recipe, Problems> {
    let mut problems = Problems::default();
    let steps = listed_steps(value, &mut problems);
    let mut read: Vec<Step> =
        steps.iter().enumerate().filter_map(|(position, value)| step(position, value, &mut problems)).collect();
    if !problems.0.is_empty() {
        return Err(problems);
    }
    needs::settle(&mut read);
    Ok(Recipe { steps: read })
}

fn listed_steps<'a>(value: &'a Value, problems: &mut Problems) -> &'a [Value] {
    let Value::Object(fields) = value else {
        problems.add(None, "recipe", format!("must be an object with steps, is {}", kind(value)));
        return &[];
    };
    for name in fields.keys().filter(|name| *name != "steps") {
        problems.add(None, clip(name), "is not a field of a recipe");
    }
    let message = match fields.get("steps") {
        None => "is missing".to_owned(),
        Some(Value::Array(steps)) if steps.is_empty() => "has no step".to_owned(),
        Some(Value::Array(steps)) if steps.len() > MAX_STEPS => {
            format!("has {} steps; at most {MAX_STEPS} are allowed", steps.len())
        }
        Some(Value::Array(steps)) => return steps,
        Some(other) => format!("must be a list, is {}", kind(other)),
    };
    problems.add(None, "steps", message);
    &[]
}

fn step(position: usize, value: &Value, problems: &mut Problems) -> Option<Step> {
    let place = format!("#{}", position + 1);
    let Value::Object(fields) = value else {
        let message = format!("must be an object, is {}", kind(value));
        problems.add(Some(&place), "steps", message);
        return None;
    };
    let key = fields.get("key").and_then(Value::as_str);
    let label = key.filter(|key| is_key(key)).unwrap_or(&place).to_owned();
    let mut reader = Reader { fields, step: label, prefix: String::new(), problems };
    reader.refuse_unknown(&STEP_FIELDS, "a step");

    // Every field is read before the first `?`, so that one bad field does not hide the next.
    let number = reader.whole_number("step");
    let key = reader.required("key", Reader::key);
    let name = reader.text("name");
    let job_type = reader.required("job_type", Reader::word::<JobType>);
    let prompt_template_name = reader.required("prompt_template_name", Reader::text);
    let strategy = reader.required("granularity_strategy", Reader::word::<Strategy>);
    let output_type = reader.required("output_type", Reader::key);
    let document_key = reader.key("document_key");
    let file_type = reader.word::<FileType>("file_type");
    let content_to_include = reader.content("content_to_include");
    let content_to_include = reader.ordered("content_order", content_to_include);
    let needs = reader.needs();
    let isolated_by = reader.text("isolated_by");
    let inputs_required = reader.inputs(strategy);

    let (key, job_type) = (key?, job_type?);
    Some(Step {
        step: number,
        name: name.unwrap_or_else(|| key.clone()),
        key,
        job_type,
        prompt_template_name: prompt_template_name?,
        inputs_required,
        granularity_strategy: strategy?,
        output_type: output_type?,
        document_key,
        file_type: file_type.unwrap_or(match job_type {
            JobType::Plan => FileType::Json,
            JobType::Execute => FileType::Markdown,
        }),
        content_to_include,
        needs_derived: needs.is_none(),
        needs: needs.unwrap_or_default(),
        isolated_by,
    })
}

impl Reader<'_> {
    fn needs(&mut self) -> Option<Vec<Need>> {
        let value = self.given("needs")?;
        let Value::Array(keys) = value else {
            self.complain("needs", format!("must be a list, is {}", kind(value)));
            return None;
        };
        if keys.len() > MAX_STEPS {
            self.complain("needs", format!("names more than {MAX_STEPS} steps"));
            return None;
        }
        let mut needs: Vec<Need> = Vec::with_capacity(keys.len());
        for (position, key) in keys.iter().enumerate() {
            let field = format!("needs[{position}]");
            match key.as_str().filter(|key| is_key(key)) {
                None => self.complain(&field, "must be the key of a step"),
                Some(key) if needs.iter().any(|need| need.step == key) => {
                    self.complain(&field, format!("names {key} twice"));
                }
                Some(key) => needs.push(Need { step: key.to_owned(), models: FromModels::Own }),
            }
        }
        Some(needs)
    }

    fn inputs(&mut self, strategy: Option<Strategy>) -> Vec<Input> {
        let list = match self.given("inputs_required") {
            Some(Value::Array(list)) if list.len() <= MAX_INPUTS => list,
            Some(Value::Array(_)) => {
                self.complain("inputs_required", format!("has more than {MAX_INPUTS} inputs"));
                return Vec::new();
            }
            Some(other) => {
                self.complain("inputs_required", format!("must be a list, is {}", kind(other)));
                return Vec::new();
            }
            None => {
                self.complain("inputs_required", "is missing");
                return Vec::new();
            }
        };
        list.iter().enumerate().filter_map(|(position, value)| self.input(position, value, strategy)).collect()
    }

    fn input(&mut self, position: usize, value: &Value, strategy: Option<Strategy>) -> Option<Input> {
        let place = format!("inputs_required[{position}]");
        let Value::Object(fields) = value else {
            self.complain(&place, format!("must be an object, is {}", kind(value)));
            return None;
        };
        let mut reader =
            Reader { fields, step: self.step.clone(), prefix: format!("{place}."), problems: self.problems };
        reader.refuse_unknown(&INPUT_FIELDS, "an input");
        let r#type = reader.required("type", Reader::key);
        let stage = reader.text("stage");
        let document_key = reader.key("document_key");
        let part = reader.pointer("part");
        let origin_type = reader.key("origin_type");
        let from_models = reader.word::<FromModels>("from_models");
        let required = reader.flag("required");
        let multiple = reader.flag("multiple").unwrap_or(false);
        // Absent relevance is full relevance: weight zero would throw the input away first.
        let relevance = reader.relevance().unwrap_or(1.0);
        let previous_iteration = reader.flag("previous_iteration").unwrap_or(false);
        let retrieve = reader.retrieve("retrieve");

        let r#type = r#type?;
        let reads_its_own = strategy == Some(Strategy::PerModel) || r#type == HEADER_CONTEXT;
        Some(Input {
            stage,
            document_key,
            part,
            origin_type,
            from_models: from_models.unwrap_or(if reads_its_own { FromModels::Own } else { FromModels::All }),
            required: required.unwrap_or(r#type != USER_FEEDBACK && !previous_iteration),
            r#type,
            multiple,
            relevance,
            previous_iteration,
            retrieve,
        })
    }
}
