//! A recipe: the steps of one stage, kept as data.
//!
//! Decides what a step is, what it reads, what it produces and in which order steps stand. Every default is filled in
//! when a recipe is read, so whoever holds a [`Recipe`] never guesses what an absent field meant. Whether a recipe is
//! sound against templates and earlier stages is decided in `validate`; nothing here repairs or replaces a bad value.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

mod json;
mod needs;
mod parse;
mod reader;
mod retrieve;
mod validate;
mod words;

use json::{object, text};
pub use retrieve::{MAX_MATCHES, Retrieve};
pub use words::{FileType, FromModels, JobType, Makes, Strategy, UnknownWord};

/// The most steps one recipe may have.
pub const MAX_STEPS: usize = 1000;
/// The most inputs one step may ask for.
pub const MAX_INPUTS: usize = 200;

/// The type of what a step of type `plan` answers.
pub const HEADER_CONTEXT: &str = "header_context";
/// The key of a header under which every document of its stage has an entry.
pub const HEADER_DOCUMENTS: &str = "context_for_documents";
/// The prompt a stage begins with.
pub const SEED_PROMPT: &str = "seed_prompt";
/// What the user asked for in the first place.
pub const INITIAL_USER_PROMPT: &str = "initial_user_prompt";
/// What the user said about an artifact.
pub const USER_FEEDBACK: &str = "user_feedback";
/// Kinds of material a user attaches to a project.
pub const PROJECT_RESOURCES: [&str; 8] = [
    "deployment_context",
    "domain_standards",
    "success_criteria",
    "constraint_boundaries",
    "stakeholder_considerations",
    "reference_documents",
    "compliance_requirements",
    "general_resource",
];

/// Where an input comes from: it decides which stage, model and join rules apply to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A seed prompt, the user's prompt or feedback: never something to fan out over.
    Prompt,
    /// Material attached to the project, the same in every stage.
    ProjectResource,
    /// The answer of a step.
    Step,
}

impl Origin {
    /// The origin of anything of this type.
    pub fn of(r#type: &str) -> Origin {
        if [SEED_PROMPT, INITIAL_USER_PROMPT, USER_FEEDBACK].contains(&r#type) {
            Origin::Prompt
        } else if PROJECT_RESOURCES.contains(&r#type) {
            Origin::ProjectResource
        } else {
            Origin::Step
        }
    }
}

/// The steps of one stage.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "Value")]
pub struct Recipe {
    /// The steps as written; [`Recipe::order`] gives them as they run.
    pub steps: Vec<Step>,
}

/// One kind of model call.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// A number for people; nothing is decided by it.
    pub step: Option<i64>,
    /// The name other steps use for this one; unique in its recipe.
    pub key: String,
    /// The name shown to people; the key unless given.
    pub name: String,
    /// Whether it answers with a header or a document.
    pub job_type: JobType,
    /// The template of its prompt.
    pub prompt_template_name: String,
    /// What it reads.
    pub inputs_required: Vec<Input>,
    /// How it fans out.
    pub granularity_strategy: Strategy,
    /// The type of what it produces.
    pub output_type: String,
    /// Tells apart products of the same type.
    pub document_key: Option<String>,
    /// Whether the answer is rendered; `json` for a header and `markdown` for a document unless given.
    pub file_type: FileType,
    /// The keys the answer must have: an object or a list of names.
    pub content_to_include: Option<Value>,
    /// The steps that must be complete before this one is planned.
    pub needs: Vec<Need>,
    /// The configuration key that, when false, makes this step `all_to_one`.
    pub isolated_by: Option<String>,
    /// Whether `needs` came from the inputs rather than from the author.
    needs_derived: bool,
}

/// One thing a step reads.
#[derive(Clone, Debug, PartialEq)]
pub struct Input {
    /// The producer's `output_type`, or a type the shell provides.
    pub r#type: String,
    /// The stage it comes from; `None` is the stage of the recipe.
    pub stage: Option<String>,
    /// Narrows the type to one document.
    pub document_key: Option<String>,
    /// A JSON pointer to the part that is read.
    pub part: Option<String>,
    /// Marks a critique and names the type or document key of what it criticises.
    pub origin_type: Option<String>,
    /// Whose artifacts are read.
    pub from_models: FromModels,
    /// Whether planning fails without it. Feedback and the previous iteration are optional unless said otherwise,
    /// because a first run has neither.
    pub required: bool,
    /// Whether the prompt is to expect a list; planning never drops artifacts because of it.
    pub multiple: bool,
    /// How long compression keeps it, 0 to 1; 1 unless given.
    pub relevance: f64,
    /// Whether it is read from the iteration before.
    pub previous_iteration: bool,
    /// What is retrieved of it; without, whole documents are read.
    pub retrieve: Option<Retrieve>,
}

/// A step that must be complete first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// The key of that step.
    pub step: String,
    /// For which models it must be complete.
    pub models: FromModels,
}

/// Something a stage produces, as later stages see it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Output {
    /// The stage that produces it.
    pub stage: String,
    /// Its type.
    pub output_type: String,
    /// Its document key, if it has one.
    #[serde(default)]
    pub document_key: Option<String>,
}

/// What a recipe is validated against.
#[derive(Clone, Debug, Default)]
pub struct Context {
    /// The templates that exist; `None` leaves templates unchecked.
    pub templates: Option<BTreeSet<String>>,
    /// What earlier stages produce; `None` leaves inputs from other stages unchecked.
    pub upstream: Option<Vec<Output>>,
    /// The stage the recipe belongs to.
    pub stage: Option<String>,
}

/// One thing wrong with a recipe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The step, by key, or by position (`#2`) while it has no usable key; `None` for the recipe itself.
    pub step: Option<String>,
    /// The field, as in `inputs_required[0].type`.
    pub field: String,
    /// What is wrong with it.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.step {
            Some(step) => write!(f, "step {step}, {}: {}", self.field, self.message),
            None => write!(f, "{}: {}", self.field, self.message),
        }
    }
}

/// Everything wrong with a recipe, in the order it was met.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Problems(pub Vec<Problem>);

impl Problems {
    fn add(&mut self, step: Option<&str>, field: impl Into<String>, message: impl Into<String>) {
        self.0.push(Problem { step: step.map(str::to_owned), field: field.into(), message: message.into() });
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [] => write!(f, "no problem"),
            [only] => write!(f, "{only}"),
            [first, second] => write!(f, "{first} (and one more problem: {second})"),
            [first, rest @ ..] => write!(f, "{first} (and {} more problems)", rest.len()),
        }
    }
}

impl std::error::Error for Problems {}

impl TryFrom<Value> for Recipe {
    type Error = Problems;

    fn try_from(value: Value) -> Result<Recipe, Problems> {
        Recipe::parse(&value)
    }
}

impl Serialize for Recipe {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_value().serialize(serializer)
    }
}

impl Recipe {
    /// Reads a recipe and fills in every default, or says everything that is wrong with its form.
    pub fn parse(value: &Value) -> Result<Recipe, Problems> {
        parse::recipe(value)
    }

    /// Whether the recipe makes sense: in itself, and against what exists around it.
    pub fn validate(&self, context: &Context) -> Result<(), Problems> {
        validate::recipe(self, context)
    }

    /// The recipe as it stands in `stage`: an input that names that very stage is one of this stage, and orders the
    /// steps.
    pub fn at_stage(mut self, stage: &str) -> Recipe {
        for step in &mut self.steps {
            for input in &mut step.inputs_required {
                if input.stage.as_deref() == Some(stage) {
                    input.stage = None;
                }
            }
        }
        needs::settle(&mut self.steps);
        self
    }

    /// The recipe to freeze: steps isolated by a setting that is off read everything at once.
    pub fn with_isolation(mut self, enabled: impl Fn(&str) -> bool) -> Recipe {
        for step in &mut self.steps {
            if step.isolated_by.as_deref().is_some_and(|key| !enabled(key)) {
                step.granularity_strategy = Strategy::AllToOne;
            }
        }
        self
    }

    /// What this recipe produces as a stage.
    pub fn outputs(&self, stage: &str) -> Vec<Output> {
        self.steps
            .iter()
            .map(|step| Output {
                stage: stage.to_owned(),
                output_type: step.output_type.clone(),
                document_key: step.document_key.clone(),
            })
            .collect()
    }

    /// The steps so that each comes after those it needs, otherwise as written. Steps of a cycle come last.
    pub fn order(&self) -> Vec<&Step> {
        needs::order(&self.steps).into_iter().map(|position| &self.steps[position]).collect()
    }

    /// The recipe as JSON with every default and every need written out; reading it back gives the same recipe.
    pub fn to_value(&self) -> Value {
        let steps = self.steps.iter().map(Step::to_value).collect();
        Value::Object(Map::from_iter([("steps".to_owned(), Value::Array(steps))]))
    }
}

impl Step {
    /// The keys its answer must have; none for a plain text.
    pub fn content_keys(&self) -> Vec<String> {
        match &self.content_to_include {
            Some(Value::Object(fields)) => fields.keys().cloned().collect(),
            Some(Value::Array(names)) => names.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect(),
            _ => Vec::new(),
        }
    }

    /// What its answer is: JSON where it asks for keys, else a text.
    pub fn makes(&self) -> Makes {
        match (self.content_keys().is_empty(), self.job_type, self.file_type) {
            (true, ..) => Makes::Text,
            (false, JobType::Plan, _) => Makes::Header,
            (false, JobType::Execute, FileType::Json) => Makes::Json,
            (false, JobType::Execute, FileType::Markdown) => Makes::Document,
        }
    }

    /// Whether this step produces what `input` asks of its own stage.
    pub fn produces(&self, input: &Input) -> bool {
        self.output_type == input.r#type && (input.document_key.is_none() || input.document_key == self.document_key)
    }

    /// Which input is the critique of a pair: the first that names its origin.
    pub fn critique_input(&self) -> Option<usize> {
        self.inputs_required.iter().position(|input| input.origin_type.is_some())
    }

    /// Which input is the original of a pair: the first other one, prompts aside, that the critique's origin names.
    pub fn original_input(&self) -> Option<usize> {
        let critique = self.critique_input()?;
        let origin = self.inputs_required[critique].origin_type.as_deref();
        self.inputs_required.iter().enumerate().position(|(position, input)| {
            let named = Some(input.r#type.as_str()) == origin
                || (input.document_key.is_some() && input.document_key.as_deref() == origin);
            position != critique && named && input.origin() != Origin::Prompt
        })
    }

    /// The order of the keys, written out where there is one to keep.
    fn content_order(&self) -> Option<Value> {
        match &self.content_to_include {
            Some(Value::Object(fields)) if fields.len() > 1 => Some(fields.keys().map(|key| text(key)).collect()),
            _ => None,
        }
    }

    fn to_value(&self) -> Value {
        let inputs = self.inputs_required.iter().map(Input::to_value).collect();
        let needs = self.needs.iter().map(|need| text(&need.step)).collect();
        object([
            ("step", self.step.map(Value::from)),
            ("key", Some(text(&self.key))),
            ("name", Some(text(&self.name))),
            ("job_type", Some(text(self.job_type.as_str()))),
            ("prompt_template_name", Some(text(&self.prompt_template_name))),
            ("inputs_required", Some(Value::Array(inputs))),
            ("granularity_strategy", Some(text(self.granularity_strategy.as_str()))),
            ("output_type", Some(text(&self.output_type))),
            ("document_key", self.document_key.as_deref().map(text)),
            ("file_type", Some(text(self.file_type.as_str()))),
            ("content_to_include", self.content_to_include.clone()),
            ("content_order", self.content_order()),
            ("needs", Some(Value::Array(needs))),
            ("isolated_by", self.isolated_by.as_deref().map(text)),
        ])
    }
}

impl Input {
    /// What the prompt calls it: the document key, else the type.
    pub fn role(&self) -> &str {
        self.document_key.as_deref().unwrap_or(&self.r#type)
    }

    /// Where it comes from.
    pub fn origin(&self) -> Origin {
        Origin::of(&self.r#type)
    }

    /// Whether a step of this stage and iteration must have produced it.
    fn is_made_here(&self) -> bool {
        self.stage.is_none() && !self.previous_iteration && self.origin() == Origin::Step
    }

    fn to_value(&self) -> Value {
        object([
            ("type", Some(text(&self.r#type))),
            ("stage", self.stage.as_deref().map(text)),
            ("document_key", self.document_key.as_deref().map(text)),
            ("part", self.part.as_deref().map(text)),
            ("origin_type", self.origin_type.as_deref().map(text)),
            ("from_models", Some(text(self.from_models.as_str()))),
            ("required", Some(Value::Bool(self.required))),
            ("multiple", Some(Value::Bool(self.multiple))),
            ("relevance", Some(Value::from(self.relevance))),
            ("previous_iteration", Some(Value::Bool(self.previous_iteration))),
            ("retrieve", self.retrieve.as_ref().map(Retrieve::to_value)),
        ])
    }
}
