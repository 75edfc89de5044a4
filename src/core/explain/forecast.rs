//! Decides how many tokens the calls of each step will read and write, and how many at the most.
//!
//! What a call reads is its real prompt: the template is rendered, and what stands in it is counted as the model counts
//! it. A text that is there counts as it is. A prompt of each step is rendered whole, so whatever its template does
//! with texts is told; of the others long texts are left out and counted once. A text that will be made is as long as
//! such texts became before, of those that were made from as many others: texts of the same step and model, else of the
//! step by whichever model, else what the step asks for lets expect ([`crate::provider::expected`]), as it is with the
//! simulator in any case. So it is with what a call writes. Where texts do not fit, what it takes to condense them once
//! is added; where an answer is longer than a call may write, the calls that go on with it. Never asks a model, never
//! counts a call that repeats a failed one or mends an answer.

mod condensing;
mod reading;

use super::ground::{Given, Ground, Model, Past, Tokens};
use super::library::Library;
use super::{StagePlan, renamed};
use crate::context::{SEAM, StageLimits, most_groups};
use crate::definition::Manuscript;
use crate::id::Id;
use crate::json;
use crate::plan::{Child, Source};
use crate::prompt::Message;
use crate::provider::expected::{Asked, expected};
use crate::recipe::{Makes, Step};
use crate::render::{FrontMatter, body};
use condensing::{Condensed, Foreseen};
use reading::Template;
use std::collections::HashMap;

/// So many prompts of a step are rendered that read equally many texts; the others are like them.
const SAMPLES: u64 = 4;
/// What asks for the rest of an answer, in tokens, about.
const DIRECTIVE: u64 = 150;

/// A step of a stage, by a model.
type Writing<'a> = (&'a str, &'a str, &'a str);

/// The tokens of every step of these plans, by stage, step and model.
pub fn forecast<'a>(plans: &'a [StagePlan<'_>], ground: &'a Ground<'_>) -> HashMap<Writing<'a>, Tokens> {
    let mut desk = Desk::new(ground);
    let mut all: HashMap<Writing<'a>, Tokens> = HashMap::new();
    for plan in plans {
        desk.open(plan);
        let steps: HashMap<&str, &Step> = plan.recipe.steps.iter().map(|step| (step.key.as_str(), step)).collect();
        for child in &plan.children {
            let model = ground.models.iter().find(|model| model.name == child.model);
            if let (Some(step), Some(model)) = (steps.get(child.step_key.as_str()), model) {
                let call = Call { stage: plan.slug, step, model, child };
                let tokens = all.entry(call.writing()).or_default();
                desk.add(&call, tokens);
            }
        }
        desk.close(plan);
    }
    all
}

/// One call.
struct Call<'a> {
    stage: &'a str,
    step: &'a Step,
    model: &'a Model,
    child: &'a Child,
}

impl<'a> Call<'a> {
    fn writing(&self) -> Writing<'a> {
        (self.stage, &self.step.key, &self.model.name)
    }
}

/// What the prompts of a step by a model have in common that read equally many texts.
#[derive(Default)]
struct Sample {
    count: u64,
    /// The tokens around the texts, and those of the answers, of all samples together.
    frame: u64,
    output: u64,
    /// The most calls that one of the answers takes.
    chunks: u64,
    /// How often each text stands in the prompt, the request last.
    times: Vec<u64>,
    /// How those texts are made to fit, where they do not.
    condensed: Option<Condensed>,
}

/// What is known of an answer.
struct Answer<'a> {
    past: Option<&'a Past>,
    reasoning: u64,
    /// The text that others read, and the JSON of it.
    whole: usize,
    json: Option<String>,
    scale: f64,
    /// The most tokens it can have, where it is not there yet.
    most: Option<u64>,
    parts: HashMap<&'a str, usize>,
}

/// A source with the step that makes it, where one does.
type Made<'a> = (&'a Source, Option<(&'a str, &'a str)>);

struct Desk<'a> {
    ground: &'a Ground<'a>,
    library: Library,
    given: HashMap<&'a Id, &'a Given>,
    /// The numbers of texts that are there, by id and part.
    known: HashMap<(&'a Id, Option<&'a str>), usize>,
    past: HashMap<(bool, Writing<'a>), &'a Past>,
    /// By the id that later stages know it by, which step made a text.
    makers: HashMap<Id, (&'a str, &'a str)>,
    /// The model that began a lineage.
    founders: HashMap<Id, &'a str>,
    answers: HashMap<Writing<'a>, Answer<'a>>,
    samples: HashMap<(Writing<'a>, usize), Sample>,
    /// What templates do with the texts they are given, by stage and step.
    templates: HashMap<(&'a str, &'a str), Template>,
    /// What the stage at hand may read.
    sources: HashMap<&'a Id, Made<'a>>,
    seed: usize,
}

impl<'a> Desk<'a> {
    fn new(ground: &'a Ground<'a>) -> Self {
        let past = ground.past.iter().map(|past| {
            let writing = (past.stage.as_str(), past.step_key.as_str(), past.model.as_str());
            ((past.is_own, writing), past)
        });
        Self {
            library: Library::new(&ground.request),
            given: ground.given.iter().map(|given| (&given.id, given)).collect(),
            known: HashMap::new(),
            past: past.collect(),
            makers: HashMap::new(),
            founders: HashMap::new(),
            answers: HashMap::new(),
            samples: HashMap::new(),
            templates: HashMap::new(),
            sources: HashMap::new(),
            seed: Library::REQUEST,
            ground,
        }
    }

    /// Begins a stage.
    fn open(&mut self, plan: &'a StagePlan<'_>) {
        let seed = self.ground.definition.seed_prompt(plan.slug, self.ground.iteration, &self.ground.request);
        self.seed = self.library.add(seed.unwrap_or_default());
        let before = plan.sources.iter().map(|source| (&source.id, (source, self.makers.get(&source.id).copied())));
        let own = plan.products.iter().zip(&plan.children);
        let own = own.map(|(source, child)| (&source.id, (source, Some((plan.slug, child.step_key.as_str())))));
        self.sources = before.chain(own).collect();
        for (source, child) in plan.products.iter().zip(&plan.children).filter(|(_, child)| child.starts_lineage) {
            self.founders.insert(source.id.clone(), &child.model);
            self.founders.insert(renamed(plan.slug, &source.id), &child.model);
        }
    }

    /// Leaves a stage: what it made is for later ones.
    fn close(&mut self, plan: &'a StagePlan<'_>) {
        for (source, child) in plan.products.iter().zip(&plan.children) {
            self.makers.insert(renamed(plan.slug, &source.id), (plan.slug, &child.step_key));
        }
    }

    /// Adds one call.
    fn add(&mut self, call: &Call<'a>, tokens: &mut Tokens) {
        let (model, measure) = (call.model, &call.model.measure);
        let output = self.ground.limits.get(call.stage).copied();
        let limits = StageLimits { output, safety: self.ground.safety, ratio: self.ground.ratio };
        let window = limits.window(model.context_window, model.max_output_tokens);
        let most_output = window.output;
        let texts = self.texts(call.child);
        let key = (call.writing(), texts.len());
        if self.samples.get(&key).is_none_or(|sample| sample.count < SAMPLES) {
            let (frame, times, messages) = self.rendered(call, &texts, false);
            let (output, chunks) = self.answer(call, texts.len(), &messages, most_output);
            let sample = self.samples.entry(key).or_default();
            sample.count += 1;
            sample.frame += frame;
            sample.output += output;
            sample.chunks = sample.chunks.max(chunks);
            sample.times = times;
        }
        let template = self.template(call, &texts, &key);
        let Some(sample) = self.samples.get(&key) else { return };
        let frame = sample.frame / sample.count;
        let (mut read, mut most_read) = (frame, frame + SEAM * sample.times.iter().sum::<u64>());
        let numbers = texts.iter().map(|text| text.number).chain([Library::REQUEST]);
        for (number, times) in numbers.zip(&sample.times) {
            let counted = self.library.counted(number, measure);
            read += counted * times;
            most_read += self.library.text(number).most.unwrap_or(counted) * times;
        }
        let read = template.applied(read);
        let most_read = template.applied(most_read).max(most_read);
        let (output, chunks) = (sample.output / sample.count, sample.chunks);
        let mut input = measure.estimate(read);
        let mut most_input = measure.worst(most_read);
        let mut most_condensed = match most_input > window.limit() {
            true => {
                let (frame, around) = self.combine_frame(call, &texts);
                let tags = measure.worst(around.iter().sum());
                let (input, output) = most_groups(most_input, measure.worst(frame), tags, &window);
                Condensed { input, output, ..Condensed::default() }
            }
            false => Condensed::default(),
        };
        most_input = most_input.min(window.limit());
        let foreseen = Foreseen { read, window: &window, sample: &key };
        if let Some(condensed) = self.condensed(call, &texts, &foreseen) {
            tokens.tier = tokens.tier.max(condensed.tier);
            tokens.input += condensed.input;
            tokens.output += condensed.output;
            // What is not sent is told as it is: how much too large it is can be seen.
            if condensed.is_sent() {
                input = input.saturating_sub(condensed.less).min(window.limit());
                most_condensed.input = most_condensed.input.max(condensed.input);
                most_condensed.output = most_condensed.output.max(condensed.output);
            } else {
                most_condensed = Condensed::default();
            }
        }
        tokens.most_input += most_condensed.input;
        tokens.most_output += most_condensed.output;
        most_input = most_input.max(input);
        // Each call that goes on reads what was read before and all that was written so far.
        let again = |prompt: u64, written: u64| chunks * prompt + (chunks - 1) * (DIRECTIVE + written * chunks / 2);
        tokens.calls += chunks;
        tokens.input += again(input, output / chunks);
        tokens.output += output;
        tokens.reasoning += self.answers.get(&call.writing()).map_or(0, |answer| answer.reasoning.min(output));
        tokens.most_input += again(most_input, most_output);
        tokens.most_output += (chunks * most_output).max(output);
    }

    /// The tokens of the answer, and in how many calls it is written; what others will read of it is put into the
    /// library the first time.
    fn answer(&mut self, call: &Call<'a>, texts: usize, messages: &[Message], most: u64) -> (u64, u64) {
        let writing = call.writing();
        let shape = call.step.content_to_include.as_ref().filter(|_| call.step.makes() != Makes::Text);
        let model = call.model;
        let asked = Asked { api: &model.api, model: &model.name, settings: &model.settings, content: shape, messages };
        let calls = 1 + self.ground.continuations.get(call.stage).copied().unwrap_or_default();
        // What there is to write, how much is thought before it each time, and how much there is room for then.
        let written = |text: u64, reasoning: u64, room: u64| {
            let chunks = text.div_ceil(room.max(1)).clamp(1, calls);
            (chunks * reasoning + text.min(chunks * room), chunks)
        };
        let by_past = |past: &Past| written(past.took(texts).output.round() as u64, 0, most);
        if let Some(past) = self.answers.get(&writing).and_then(|answer| answer.past) {
            return by_past(past);
        }
        let past = self.past_of(&writing, model).filter(|past| past.json.is_some() == shape.is_some());
        let (mut text, mut json, mut scale) = (String::new(), None, 1.0);
        let (output, reasoning) = match past {
            Some(past) => {
                (text, json, scale) = (past.text.clone(), past.json.clone(), past.scale(texts));
                (by_past(past), past.took(texts).reasoning.round() as u64)
            }
            None => {
                let expected = expected(&asked);
                let reasoning = expected.reasoning_tokens.min(most);
                let room = expected.cut_after.unwrap_or(u64::MAX).min(most - reasoning);
                let (output, chunks) = written(model.measure.text(&expected.text), reasoning, room);
                if !self.answers.contains_key(&writing) {
                    (text, json) = self.read_by_others(call, expected.text);
                }
                ((output, chunks), chunks * reasoning)
            }
        };
        if !self.answers.contains_key(&writing) {
            let own = self.past.get(&(true, writing));
            if let Some(own) = own {
                (text, json, scale) = (own.text.clone(), own.json.clone(), own.scale);
            }
            // What is there already does not grow any more.
            let most = own.is_none().then_some(output.1 * most);
            let whole = self.library.put(text, scale, most);
            self.answers.insert(writing, Answer { past, reasoning, whole, json, scale, most, parts: HashMap::new() });
        }
        output
    }

    /// What the same step came to before: by the model, else by any. The simulator is known better, from its settings.
    fn past_of(&self, writing: &Writing<'a>, model: &Model) -> Option<&'a Past> {
        let (stage, step, _) = *writing;
        let of_step = |past: &&Past| !past.is_own && (past.stage.as_str(), past.step_key.as_str()) == (stage, step);
        let by_itself = self.past.get(&(false, *writing)).copied();
        by_itself.or_else(|| self.ground.past.iter().find(of_step)).filter(|_| model.api != "simulator")
    }

    /// An answer as others read it, and the JSON of it.
    fn read_by_others(&self, call: &Call<'_>, answer: String) -> (String, Option<String>) {
        let makes = call.step.makes();
        let Some(value) = json::close(&answer).filter(|_| makes != Makes::Text) else { return (answer, None) };
        let content = value.to_string();
        if makes != Makes::Document {
            return (content.clone(), Some(content));
        }
        let document = call.step.document_key.clone().unwrap_or_else(|| call.step.output_type.clone());
        let front = FrontMatter { stage: call.stage.to_owned(), document, ..FrontMatter::default() };
        let manuscript = Manuscript { step_key: call.step.key.clone(), front, content: content.clone() };
        let made = self.ground.definition.document(&manuscript);
        (body(&made.markdown).to_owned(), Some(content))
    }
}
