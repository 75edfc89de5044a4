//! Whether a recipe makes sense.
//!
//! Decides whether every input has a producer, every step can run some day and every name stands for something. Reports
//! all it finds, each with its step and field. What the context leaves open is left unchecked; nothing is corrected,
//! and a sound recipe is never changed.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Context, HEADER_CONTEXT, Input, JobType, Origin, Output, Problems, Recipe, Step, Strategy, needs};

pub(super) fn recipe(recipe: &Recipe, context: &Context) -> Result<(), Problems> {
    let mut check = Check { steps: &recipe.steps, context, problems: Problems::default() };
    check.names();
    for (step, feeders) in recipe.steps.iter().zip(needs::feeders(&recipe.steps)) {
        check.template(step);
        check.output(step);
        check.inputs(step);
        check.needs(step, feeders.into_iter().map(|(key, _)| key));
        check.strategy(step);
        check.header(step);
    }
    check.cycles();
    if check.problems.0.is_empty() { Ok(()) } else { Err(check.problems) }
}

struct Check<'a> {
    steps: &'a [Step],
    context: &'a Context,
    problems: Problems,
}

impl Check<'_> {
    fn complain(&mut self, step: &Step, field: impl Into<String>, message: impl Into<String>) {
        self.problems.add(Some(&step.key), field, message);
    }

    fn names(&mut self) {
        let mut keys = BTreeSet::new();
        let mut products: BTreeMap<(&str, Option<&str>), &str> = BTreeMap::new();
        for step in self.steps {
            if !keys.insert(step.key.as_str()) {
                self.complain(step, "key", format!("another step is called {} too", step.key));
            }
            let product = (step.output_type.as_str(), step.document_key.as_deref());
            match products.get(&product) {
                Some(other) => {
                    let message = format!("{other} already produces {}", spell(product.0, product.1));
                    self.complain(step, "document_key", message);
                }
                None => {
                    products.insert(product, &step.key);
                }
            }
        }
    }

    fn template(&mut self, step: &Step) {
        let Some(templates) = &self.context.templates else {
            return;
        };
        if !templates.contains(&step.prompt_template_name) {
            let message = format!("there is no template {}", step.prompt_template_name);
            self.complain(step, "prompt_template_name", message);
        }
    }

    fn output(&mut self, step: &Step) {
        let is_header = step.output_type == HEADER_CONTEXT;
        let message = match (step.job_type, Origin::of(&step.output_type)) {
            (_, Origin::Prompt | Origin::ProjectResource) => {
                format!("{} is given by the user, not produced by a step", step.output_type)
            }
            (JobType::Plan, Origin::Step) if !is_header => {
                format!("a step of type plan produces {HEADER_CONTEXT}")
            }
            (JobType::Execute, Origin::Step) if is_header => {
                format!("only a step of type plan produces {HEADER_CONTEXT}")
            }
            (JobType::Plan | JobType::Execute, Origin::Step) => return,
        };
        self.complain(step, "output_type", message);
    }

    fn inputs(&mut self, step: &Step) {
        for (position, input) in step.inputs_required.iter().enumerate() {
            let Some((field, message)) = self.fault(step, input) else {
                continue;
            };
            self.complain(step, format!("inputs_required[{position}].{field}"), message);
        }
    }

    /// What is wrong with where an input comes from: the field and the reason.
    fn fault(&self, step: &Step, input: &Input) -> Option<(&'static str, String)> {
        if input.origin() != Origin::Step {
            return None;
        }
        let wanted = spell(&input.r#type, input.document_key.as_deref());
        if let Some(stage) = input.stage.as_deref() {
            if self.context.stage.as_deref() == Some(stage) {
                let message = format!("{stage} is the stage of this recipe; leave it out");
                return Some(("stage", message));
            }
            let upstream = self.context.upstream.as_ref()?;
            let here = |output: &&Output| output.stage == stage;
            if !upstream.iter().any(|output| here(&output)) {
                // A later stage of the iteration before is no stage upstream.
                return (!input.previous_iteration).then(|| ("stage", format!("{stage} is not an earlier stage")));
            }
            let products = upstream.iter().filter(here);
            let products = products.map(|output| (&output.output_type, &output.document_key));
            return unmade(input, products).map(|field| (field, format!("nothing in {stage} produces {wanted}")));
        }
        if !input.previous_iteration && step.produces(input) {
            return Some(("type", format!("{wanted} is what this step itself produces")));
        }
        let products = self.steps.iter().map(|step| (&step.output_type, &step.document_key));
        unmade(input, products).map(|field| (field, format!("no step produces {wanted}")))
    }

    fn needs(&mut self, step: &Step, feeders: impl Iterator<Item = String>) {
        for (position, need) in step.needs.iter().enumerate() {
            if !self.steps.iter().any(|other| other.key == need.step) {
                let message = format!("there is no step {}", need.step);
                self.complain(step, format!("needs[{position}]"), message);
            }
        }
        for feeder in feeders {
            if !step.needs.iter().any(|need| need.step == feeder) {
                let message = format!("leaves out {feeder}, which an input comes from");
                self.complain(step, "needs", message);
            }
        }
    }

    fn strategy(&mut self, step: &Step) {
        match step.granularity_strategy {
            Strategy::AllToOne | Strategy::PerModel => {}
            Strategy::PerSourceDocument | Strategy::PerSourceDocumentByLineage | Strategy::PerSourceGroup => {
                let is_source = |input: &Input| input.origin() != Origin::Prompt;
                if !step.inputs_required.iter().any(is_source) {
                    let message =
                        format!("{} needs an input that is neither a prompt nor feedback", step.granularity_strategy);
                    self.complain(step, "inputs_required", message);
                }
            }
            Strategy::PairwiseByOrigin => self.pairs(step),
        }
    }

    fn pairs(&mut self, step: &Step) {
        let Some(critique) = step.critique_input() else {
            let message = "pairwise_by_origin needs an input with an origin_type";
            self.complain(step, "inputs_required", message);
            return;
        };
        if step.original_input().is_none() {
            let field = format!("inputs_required[{critique}].origin_type");
            let message = "no other input has this type or document key";
            self.complain(step, field, message);
        }
    }

    /// A header that lists the documents it prepares must list those of the steps that read it.
    fn header(&mut self, step: &Step) {
        let given = step.content_to_include.as_ref();
        let Some(Value::Array(entries)) = given.and_then(|content| content.get("context_for_documents")) else {
            return;
        };
        // An empty list only says that the answer has such a list.
        if step.job_type != JobType::Plan || entries.is_empty() {
            return;
        }
        let mut listed = BTreeSet::new();
        for entry in entries {
            match entry.as_str().or_else(|| entry.get("document_key")?.as_str()) {
                Some(key) => {
                    listed.insert(key);
                }
                None => {
                    let message = "an entry of context_for_documents has no document_key";
                    self.complain(step, "content_to_include", message);
                }
            }
        }
        for reader in self.steps.iter().filter(|reader| reader.job_type == JobType::Execute) {
            let reads = |input: &Input| input.is_made_here() && step.produces(input);
            let document = reader.document_key.as_deref().unwrap_or(&reader.output_type);
            if reader.inputs_required.iter().any(reads) && !listed.contains(document) {
                let message = format!("context_for_documents lacks {document}, which {} writes", reader.key);
                self.complain(step, "content_to_include", message);
            }
        }
    }

    fn cycles(&mut self) {
        for cycle in needs::cycles(self.steps) {
            let Some(&first) = cycle.first() else {
                continue;
            };
            let mut keys: Vec<&str> = cycle.iter().map(|&step| self.steps[step].key.as_str()).collect();
            keys.push(&self.steps[first].key);
            let message = format!("a cycle: {}", keys.join(" needs "));
            self.complain(&self.steps[first], "needs", message);
        }
    }
}

/// The field of an input that no product answers.
fn unmade<'p>(input: &Input, products: impl Iterator<Item = (&'p String, &'p Option<String>)>) -> Option<&'static str> {
    let mut field = Some("type");
    for (output_type, document_key) in products {
        if *output_type != input.r#type {
            continue;
        }
        if input.document_key.is_none() || input.document_key == *document_key {
            return None;
        }
        field = Some("document_key");
    }
    field
}

fn spell(r#type: &str, document_key: Option<&str>) -> String {
    match document_key {
        Some(key) => format!("{type} {key}"),
        None => r#type.to_owned(),
    }
}
