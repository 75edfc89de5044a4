//! Decides what calls read: their prompts as the templates make them, each text in its place.
//!
//! One prompt of a step is rendered whole; of the others long texts are left out, and counted once for all. Never adds
//! anything up.

use super::{Call, Desk, Writing};
use crate::context::SEAM;
use crate::definition::{Document, Turn};
use crate::explain::library::Library;
use crate::explain::mark::{marked, unmarked};
use crate::json;
use crate::plan::{Child, ChildInput, Source};
use crate::prompt::Message;
use crate::recipe::SEED_PROMPT;
use std::sync::Arc;

/// What a template does with texts: how its prompts compare to what they would come to, were each text printed as it
/// is.
#[derive(Clone, Copy)]
pub(super) struct Template {
    factor: f64,
    /// Tokens besides, where texts are printed as they are and the signs around them join with theirs or not.
    besides: f64,
}

impl Template {
    /// By one prompt that was foreseen to have so many tokens, with so many texts in it, and has so many.
    fn of(foreseen: u64, texts: u64, whole: u64) -> Self {
        if whole.abs_diff(foreseen) <= SEAM * texts || foreseen == 0 {
            return Self { factor: 1.0, besides: whole as f64 - foreseen as f64 };
        }
        Self { factor: whole as f64 / foreseen as f64, besides: 0.0 }
    }

    pub(super) fn applied(&self, foreseen: u64) -> u64 {
        (foreseen as f64 * self.factor + self.besides).max(0.0).round() as u64
    }
}

/// The tokens that a condensed text should have, where only the digits of the number count.
const TARGET: u64 = 99_999;

/// A text that a call reads, by its number, and what the prompt calls it.
#[derive(Clone, Copy)]
pub(super) struct Reading<'a> {
    pub(super) source: &'a Source,
    pub(super) role: &'a str,
    pub(super) relevance: f64,
    pub(super) number: usize,
    /// Whether it is there, and no other in its place.
    pub(super) is_there: bool,
}

impl<'a> Desk<'a> {
    /// What the template of a call does with texts, as one prompt tells that is rendered whole.
    pub(super) fn template(&mut self, call: &Call<'a>, texts: &[Reading<'a>], key: &(Writing<'a>, usize)) -> Template {
        let step = (call.stage, call.step.key.as_str());
        if let Some(known) = self.templates.get(&step) {
            return *known;
        }
        let (measure, sample) = (&call.model.measure, &self.samples[key]);
        let (mut foreseen, times) = (sample.frame / sample.count, sample.times.clone());
        for (number, times) in texts.iter().map(|text| text.number).chain([Library::REQUEST]).zip(&times) {
            foreseen += self.library.counted_as_it_is(number, measure) * times;
        }
        let whole = self.messages(call, texts, false, |number, _| self.library.text(number).content.as_str().into());
        let whole = if whole.is_empty() { foreseen } else { measure.counted(&whole) };
        let template = Template::of(foreseen, times.iter().sum(), whole);
        self.templates.insert(step, template);
        template
    }

    /// The prompt of a call, or of one that condenses texts for it: the tokens around its texts, how often each stands
    /// there, the request last, and the messages with the first words of each.
    pub(super) fn rendered(
        &self,
        call: &Call<'a>,
        texts: &[Reading<'a>],
        is_combine: bool,
    ) -> (u64, Vec<u64>, Vec<Message>) {
        let glimpse = |number: usize| self.library.text(number).glimpse.as_str();
        let messages = self.messages(call, texts, is_combine, |number, at| marked(glimpse(number), at).into());
        let glimpses: Vec<&str> = texts.iter().map(|text| text.number).chain([Library::REQUEST]).map(glimpse).collect();
        let (bare, times) = match messages.is_empty() {
            true => (Vec::new(), vec![1; glimpses.len()]),
            false => unmarked(&messages, &glimpses),
        };
        let frame = call.model.measure.counted(&bare).saturating_sub(times.iter().sum());
        (frame, times, messages)
    }

    /// The messages of a call where each text, by its number and its place, stands as it is said; none where they
    /// cannot be rendered.
    fn messages(
        &self,
        call: &Call<'a>,
        texts: &[Reading<'a>],
        is_combine: bool,
        stands: impl Fn(usize, usize) -> Arc<str>,
    ) -> Vec<Message> {
        // What cannot be rendered will not be sent; what it would read is still told.
        self.ground.definition.messages(&self.turn(call, texts, is_combine, stands)).unwrap_or_default()
    }

    /// A call as its prompt sees it, where each text, by its number and its place, stands as it is said.
    pub(super) fn turn(
        &self,
        call: &Call<'a>,
        texts: &[Reading<'a>],
        is_combine: bool,
        stands: impl Fn(usize, usize) -> Arc<str>,
    ) -> Turn {
        let documents = texts.iter().enumerate().map(|(at, Reading { source, role, number, .. })| {
            let founder = source.lineage_id.as_ref().and_then(|id| self.founders.get(id).copied());
            Document {
                r#type: source.r#type.clone(),
                role: (*role).to_owned(),
                name: self.given.get(&source.id).and_then(|given| given.name.clone()),
                stage: source.stage.clone(),
                author: source.model.clone(),
                reviewer: source.reviewer.clone(),
                about: founder.filter(|model| Some(*model) != source.model.as_deref()).map(str::to_owned),
                document_key: source.document_key.clone(),
                content: stands(*number, at),
            }
        });
        Turn {
            stage: call.stage.to_owned(),
            iteration: self.ground.iteration,
            step_key: call.step.key.clone(),
            model: call.model.name.clone(),
            is_combine,
            target_tokens: is_combine.then_some(TARGET),
            documents: documents.collect(),
            original_user_request: stands(Library::REQUEST, texts.len()),
        }
    }

    /// What a call reads, each with the number of its text.
    pub(super) fn texts(&mut self, child: &'a Child) -> Vec<Reading<'a>> {
        let read = |input: &'a ChildInput| {
            let (source, maker) = *self.sources.get(&input.artifact)?;
            let (number, is_there) = self.number(source, maker, input.part.as_deref());
            Some(Reading { source, role: &input.role, relevance: input.relevance, number, is_there })
        };
        child.inputs.iter().filter_map(read).collect()
    }

    /// The number of a text, and whether it is there.
    fn number(
        &mut self,
        source: &'a Source,
        maker: Option<(&'a str, &'a str)>,
        part: Option<&'a str>,
    ) -> (usize, bool) {
        let writer = source.model.as_deref().unwrap_or_default();
        if let Some((stage, step)) = maker
            && let Some(answer) = self.answers.get_mut(&(stage, step, writer))
        {
            let (Some(part), Some(json)) = (part, &answer.json) else { return (answer.whole, false) };
            let (scale, most) = (answer.scale, answer.most);
            let put = || self.library.put(json::part(json, part), scale, most);
            return (*answer.parts.entry(part).or_insert_with(put), false);
        }
        let number = match self.given.get(&source.id) {
            Some(given) => {
                let content = || part.map_or_else(|| given.content.clone(), |part| json::part(&given.content, part));
                *self.known.entry((&given.id, part)).or_insert_with(|| self.library.add(content()))
            }
            None if source.r#type == SEED_PROMPT => self.seed,
            None => Library::REQUEST,
        };
        (number, maker.is_none())
    }
}
