//! A process as a session started with it, ready for use: its stages with their recipes, its templates, its overlays;
//! and what a prompt of it may say.
//!
//! Read once from what is stored and never changed afterwards. Decides which values a template is given; how they
//! become text is decided in [`crate::prompt`]. Never decides which documents a job reads.

mod continuing;

pub use continuing::{Continuing, so_far};

use crate::prompt::{self, Message, PromptError, Templates};
use crate::recipe::{HEADER_CONTEXT, INITIAL_USER_PROMPT, Makes, Problems, Recipe, Step};
use crate::render::{self, FrontMatter, Layouts, Rendered};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The template that has documents condensed.
const COMBINE: &str = "tier2_document_combiner";
/// What a user knows the request by.
pub(crate) const REQUEST_LABEL: &str = "the request";
/// The type of a condensed text.
const COMBINED: &str = "combined";

/// A process, its stages, templates and overlays.
#[derive(Debug)]
pub struct Definition {
    /// The name of the process.
    pub process: String,
    /// The domain it was started in.
    pub domain: String,
    /// Its stages, in order.
    pub stages: Vec<Stage>,
    overlays: Map<String, Value>,
    templates: Templates,
    layouts: Layouts,
}

/// One stage.
#[derive(Debug)]
pub struct Stage {
    /// Its name.
    pub slug: String,
    /// Its name for people.
    pub display_name: String,
    /// What it runs.
    pub recipe: Recipe,
    seed_prompt_template: String,
}

/// A text that a job reads.
#[derive(Debug, Clone)]
pub struct Document {
    /// Its type: an output type, or that of a resource.
    pub r#type: String,
    /// What the prompt calls it.
    pub role: String,
    /// Its name, if it has one.
    pub name: Option<String>,
    /// The stage it was made in.
    pub stage: Option<String>,
    /// The model that wrote it.
    pub author: Option<String>,
    /// The model whose view it carries.
    pub reviewer: Option<String>,
    /// The model whose proposal it is about, where that is not its author.
    pub about: Option<String>,
    /// Its document key.
    pub document_key: Option<String>,
    /// The text.
    pub content: Arc<str>,
}

/// One job as its prompt sees it.
#[derive(Debug, Clone)]
pub struct Turn {
    /// The stage it belongs to.
    pub stage: String,
    /// The iteration of that stage.
    pub iteration: i32,
    /// The step it does.
    pub step_key: String,
    /// The model that is asked.
    pub model: String,
    /// Whether its documents are only to be condensed, for another job of the step.
    pub is_combine: bool,
    /// Of a combine job: the tokens that its text should have.
    pub target_tokens: Option<u64>,
    /// What the user asked for.
    pub original_user_request: Arc<str>,
    /// What it was planned with, in order.
    pub documents: Vec<Document>,
}

/// What a job searches for, where an input of its step is read as passages.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    /// The input of the step, counted from 1.
    pub number: u32,
    /// The text to search for.
    pub text: String,
    /// How many passages at the most; the setting `match_count` where it is not given.
    pub match_count: Option<u32>,
    /// What the metadata of a chunk must contain.
    pub filter: Map<String, Value>,
}

/// An answer that is to become a document.
#[derive(Debug, Clone)]
pub struct Manuscript {
    /// The step that wrote it.
    pub step_key: String,
    /// What the head of the document says.
    pub front: FrontMatter,
    /// The answer in normal form, as it was saved.
    pub content: String,
}

/// What the seed prompt of a stage is rendered from.
#[derive(Debug, Clone)]
pub struct SeedSource {
    /// The process of the session.
    pub definition: Arc<Definition>,
    /// The stage that the seed prompt opens.
    pub stage: String,
    /// The iteration of that stage.
    pub iteration: i32,
    /// What the user asked for.
    pub original_user_request: Arc<str>,
}

impl SeedSource {
    /// Renders the seed prompt.
    pub fn render(&self) -> Result<String, PromptError> {
        self.definition.seed_prompt(&self.stage, self.iteration, &self.original_user_request)
    }
}

/// What is wrong with a stored definition.
#[derive(Debug, thiserror::Error)]
pub enum DefinitionError {
    /// A template does not compile.
    #[error("{0}")]
    Prompt(#[from] PromptError),
    /// A recipe is not sound.
    #[error("{0}")]
    Recipe(#[from] Problems),
}

impl Definition {
    /// Reads a definition from its stored parts.
    pub fn read(
        process: String,
        domain: String,
        stages: &Value,
        prompts: Value,
        documents: Value,
        overlays: Value,
    ) -> Result<Self, DefinitionError> {
        let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
        let stages = stages.as_array().into_iter().flatten().map(|stage| {
            Ok(Stage {
                slug: text(stage, "slug"),
                display_name: text(stage, "display_name"),
                recipe: Recipe::parse(&stage["recipe"])?,
                seed_prompt_template: text(stage, "seed_prompt_template"),
            })
        });
        let bodies = |templates| {
            let templates = match templates {
                Value::Object(bodies) => bodies,
                _ => Map::new(),
            };
            templates.into_iter().filter_map(|(name, body)| Some((name, body.as_str()?.to_owned())))
        };
        let mut prompts: BTreeMap<String, String> = bodies(prompts).collect();
        prompts.entry(continuing::CONTINUE.to_owned()).or_insert_with(|| continuing::SHIPPED.to_owned());
        Ok(Definition {
            process,
            domain,
            stages: stages.collect::<Result<_, DefinitionError>>()?,
            overlays: match overlays {
                Value::Object(overlays) => overlays,
                _ => Map::new(),
            },
            templates: Templates::new(prompts)?,
            layouts: Layouts::new(bodies(documents))?,
        })
    }

    /// A stage by its name.
    pub fn stage(&self, slug: &str) -> Option<&Stage> {
        self.stages.iter().find(|stage| stage.slug == slug)
    }

    /// Whether any of its steps answers in JSON.
    pub fn makes_json(&self) -> bool {
        self.stages.iter().flat_map(|stage| &stage.recipe.steps).any(|step| step.makes() != Makes::Text)
    }

    /// A step of a stage by its key.
    pub fn step(&self, stage: &str, key: &str) -> Option<&Step> {
        self.stage(stage)?.recipe.steps.iter().find(|step| step.key == key)
    }

    /// The seed prompt of a stage.
    pub fn seed_prompt(&self, stage: &str, iteration: i32, request: &str) -> Result<String, PromptError> {
        let of = self.stage(stage).ok_or_else(|| PromptError::missing("stage", stage))?;
        self.templates.render(&of.seed_prompt_template, &Value::Object(self.stage_values(of, iteration, request)))
    }

    /// The messages of a job.
    pub fn messages(&self, turn: &Turn) -> Result<Vec<Message>, PromptError> {
        let (step, values) = self.turn_values(turn)?;
        let template = if turn.is_combine { COMBINE } else { &step.prompt_template_name };
        self.templates.messages(template, &Value::Object(values))
    }

    /// What a job searches for: of these inputs of its step, counted from 1.
    pub fn queries(&self, turn: &Turn, numbers: &[u32]) -> Result<Vec<Query>, PromptError> {
        let (step, values) = self.turn_values(turn)?;
        let values = Value::Object(values);
        let query = |number: &u32| {
            let input = (*number as usize).checked_sub(1).and_then(|at| step.inputs_required.get(at));
            let retrieve = input.and_then(|input| input.retrieve.as_ref());
            let retrieve = retrieve.ok_or_else(|| PromptError::missing("retrieval", &number.to_string()))?;
            Ok(Query {
                number: *number,
                text: prompt::render_once("query", &retrieve.query, &values)?,
                match_count: retrieve.match_count,
                filter: retrieve.filter.clone(),
            })
        };
        numbers.iter().map(query).collect()
    }

    /// The step of a job, and what its templates may say.
    fn turn_values(&self, turn: &Turn) -> Result<(&Step, Map<String, Value>), PromptError> {
        let stage = self.stage(&turn.stage).ok_or_else(|| PromptError::missing("stage", &turn.stage))?;
        let step =
            self.step(&turn.stage, &turn.step_key).ok_or_else(|| PromptError::missing("step", &turn.step_key))?;
        let mut values = self.stage_values(stage, turn.iteration, &turn.original_user_request);
        values.insert("model".into(), json!(turn.model));
        let (output_type, name) = match turn.is_combine {
            true => (COMBINED, format!("Condensed documents for {}", step.name)),
            false => (step.output_type.as_str(), step.name.clone()),
        };
        let document_key = step.document_key.as_ref().filter(|_| !turn.is_combine);
        values.insert(
            "step".into(),
            json!({"key": step.key, "name": name, "output_type": output_type, "document_key": document_key}),
        );
        let shape = step.content_to_include.as_ref().filter(|_| !turn.is_combine);
        let keys = if turn.is_combine { Vec::new() } else { step.content_keys() };
        values.insert("content_keys".into(), json!(keys));
        values.insert("content_to_include".into(), json!(shape));
        values.insert("target_words".into(), json!(turn.target_tokens.map(words)));
        let header = turn.header();
        values.insert("header_context".into(), json!(header.map(|header| &*header.content)));
        let material =
            turn.documents.iter().filter(|document| !header.is_some_and(|header| std::ptr::eq(header, *document)));
        values.insert("documents".into(), material.map(Document::values).collect());
        Ok((step, values))
    }

    /// The document that an answer becomes, titled as its step is. Content that is not even JSON is shown as it is.
    pub fn document(&self, manuscript: &Manuscript) -> Rendered {
        let front = &manuscript.front;
        let content = serde_json::from_str(&manuscript.content).unwrap_or_else(|_| json!(manuscript.content));
        let title = match self.step(&front.stage, &manuscript.step_key) {
            Some(step) if step.name != step.key => step.name.clone(),
            _ => render::title(&front.document),
        };
        render::markdown(Some((&self.layouts, &front.document)), &content, front, &title)
    }

    /// What every prompt of a stage may say: the request, the place in the process, the overlay of the domain.
    fn stage_values(&self, stage: &Stage, iteration: i32, request: &str) -> Map<String, Value> {
        let mut overlay = Map::new();
        for part in ["*", &stage.slug] {
            if let Some(Value::Object(values)) = self.overlays.get(part) {
                overlay.extend(values.clone());
            }
        }
        let Value::Object(values) = json!({
            "original_user_request": request,
            "process": self.process,
            "domain": self.domain,
            "iteration": iteration,
            "stage": {"slug": stage.slug, "display_name": stage.display_name},
            "overlay": overlay,
        }) else {
            return Map::new();
        };
        values
    }
}

impl Turn {
    /// The header this job follows. Where several are bound none of them leads, and they are material like the rest.
    fn header(&self) -> Option<&Document> {
        let mut headers = self.documents.iter().filter(|document| document.r#type == HEADER_CONTEXT);
        headers.next().filter(|_| headers.next().is_none())
    }
}

/// The words that so many tokens are, about.
fn words(tokens: u64) -> u64 {
    (tokens * 3 / 4).max(1)
}

impl Document {
    /// A condensed text that is not written yet, as the job of this turn will read it.
    pub(crate) fn condensed(turn: &Turn) -> Self {
        Self {
            r#type: COMBINED.to_owned(),
            role: COMBINED.to_owned(),
            name: None,
            stage: Some(turn.stage.clone()),
            author: Some(turn.model.clone()),
            reviewer: None,
            about: None,
            document_key: None,
            content: "".into(),
        }
    }

    /// What a user knows it by: its file name, else its document key or type, with its author.
    pub fn label(&self) -> String {
        if self.r#type == INITIAL_USER_PROMPT {
            return REQUEST_LABEL.to_owned();
        }
        let kind = self.document_key.as_ref().unwrap_or(&self.r#type);
        match (&self.name, &self.author) {
            (Some(name), _) => name.clone(),
            (None, Some(author)) => format!("{kind} by {author}"),
            (None, None) => kind.clone(),
        }
    }

    fn values(&self) -> Value {
        json!({
            "type": self.r#type, "role": self.role, "name": self.name, "stage": self.stage, "author": self.author,
            "reviewer": self.reviewer, "about": self.about, "document_key": self.document_key, "content": &*self.content,
        })
    }
}
