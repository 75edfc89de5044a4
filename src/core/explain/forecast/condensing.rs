//! Decides what it takes to make the texts of a call fit that do not, by asking what the worker asks ([`fit`]).
//!
//! Where all texts of a call are there, they are measured as the worker measures them, and the decision is the same.
//! Where some are not written yet, it is made on the tokens that are expected of them. One round is foreseen.

use super::reading::Reading;
use super::{Call, Desk, Writing};
use crate::context::{Decision, Group, InputFacts, Measured, Piece, SEAM, Window, decide, fit, line, may_shrink};
use crate::explain::ground::Tier;
use crate::explain::library::Library;
use crate::provider::expected::{Asked, expected};
use std::ops::Range;

/// A prompt is measured exactly from this part of its limit on.
const NEARLY: f64 = 0.9;

/// How a prompt is made to fit: the tokens of the calls that condense texts for it, and how many less it reads then.
#[derive(Clone, Copy, Default)]
pub(super) struct Condensed {
    pub(super) tier: Tier,
    pub(super) input: u64,
    pub(super) output: u64,
    pub(super) less: u64,
}

impl Condensed {
    pub(super) fn is_sent(&self) -> bool {
        self.tier <= Tier::Condensed
    }
}

/// What is foreseen of a prompt.
pub(super) struct Foreseen<'a, 'b> {
    /// Its tokens, before any ratio.
    pub(super) read: u64,
    pub(super) window: &'b Window,
    /// The prompts that it is like.
    pub(super) sample: &'b (Writing<'a>, usize),
}

impl<'a> Desk<'a> {
    /// The tokens of the prompt that condenses texts of a call, before any ratio: without a text, and what stands
    /// around each.
    pub(super) fn combine_frame(&mut self, call: &Call<'a>, texts: &[Reading<'a>]) -> (u64, Vec<u64>) {
        let (bare, times, _) = self.rendered(call, &[], true);
        let around = |text: &Reading<'a>| match may_shrink(&text.source.r#type) {
            true => self.rendered(call, std::slice::from_ref(text), true).0.saturating_sub(bare) + SEAM,
            false => 0,
        };
        let around = texts.iter().map(around).collect();
        let request = self.library.counted(Library::REQUEST, &call.model.measure);
        (bare + request * times.last().copied().unwrap_or(1), around)
    }

    /// How the texts of a call are made to fit; nothing where they do.
    pub(super) fn condensed(
        &mut self,
        call: &Call<'a>,
        texts: &[Reading<'a>],
        foreseen: &Foreseen<'a, '_>,
    ) -> Option<Condensed> {
        let at_most = call.model.measure.at_most(foreseen.read);
        let limit = foreseen.window.limit();
        if texts.iter().all(|text| text.is_there) {
            let is_near = at_most as f64 >= limit as f64 * NEARLY;
            return is_near.then(|| self.exactly(call, texts, foreseen.window)).flatten();
        }
        if at_most <= limit {
            return None;
        }
        let known = self.samples.get(foreseen.sample).and_then(|sample| sample.condensed);
        let condensed = known.or_else(|| self.expectedly(call, texts, foreseen, at_most));
        if let Some(sample) = self.samples.get_mut(foreseen.sample) {
            sample.condensed = condensed;
        }
        condensed
    }

    /// The decision of the worker, on the same texts.
    fn exactly(&mut self, call: &Call<'a>, texts: &[Reading<'a>], window: &Window) -> Option<Condensed> {
        let (definition, measure) = (self.ground.definition, &call.model.measure);
        let turn = self.turn(call, texts, false, |number, _| self.library.text(number).content.as_str().into());
        let facts: Vec<InputFacts> =
            texts.iter().map(|text| InputFacts { relevance: text.relevance, ..InputFacts::default() }).collect();
        let total = measure.at_most(measure.counted(&definition.messages(&turn).ok()?));
        let decision = fit(definition, &turn, &facts, total, (measure, window)).ok()?;
        let (frame, _) = self.combine_frame(call, texts);
        self.taken(call, texts, decision, measure.estimate(frame))
    }

    /// The decision on texts of which some are only expected.
    fn expectedly(
        &mut self,
        call: &Call<'a>,
        texts: &[Reading<'a>],
        foreseen: &Foreseen<'a, '_>,
        total: u64,
    ) -> Option<Condensed> {
        let measure = &call.model.measure;
        let (frame, around) = self.combine_frame(call, texts);
        let pieces: Vec<Piece> = texts
            .iter()
            .zip(&around)
            .map(|(text, around)| Piece {
                name: text.role.to_owned(),
                tokens: measure.at_most(self.library.counted(text.number, measure) + around),
                may_shrink: may_shrink(&text.source.r#type),
                relevance: text.relevance,
                depth: 0,
                is_stuck: false,
            })
            .collect();
        let shrinking = || pieces.iter().filter(|piece| piece.may_shrink);
        let bare = total.saturating_sub(shrinking().map(|piece| piece.tokens).sum());
        let lines: u64 = shrinking().map(|piece| measure.at_most(measure.counted_text(&line(&piece.name)))).sum();
        let tag = measure.at_most(around.iter().copied().max().unwrap_or(SEAM) + SEAM);
        let floor = (bare + lines).min(total);
        let tokens: Vec<u64> = pieces.iter().map(|piece| piece.tokens).collect();
        let frame_at_most = measure.at_most(frame);
        let request = measure.at_most(self.library.counted(Library::REQUEST, measure));
        let measured = Measured { total, bare, floor, frame: frame_at_most, tag, request, pieces, is_combine: false };
        // A text that is not there is cut evenly.
        let cut = |at: usize, limit: u64| -> Vec<(Range<usize>, u64)> {
            let parts = tokens[at].div_ceil(limit.saturating_sub(tag).max(1));
            (0..parts).map(|_| (0..0, tokens[at] / parts + tag)).collect()
        };
        let decision = decide(&measured, foreseen.window, &cut);
        self.taken(call, texts, decision, measure.estimate(frame))
    }

    /// What a decision takes.
    fn taken(&self, call: &Call<'a>, texts: &[Reading<'a>], decision: Decision, frame: u64) -> Option<Condensed> {
        match decision {
            Decision::Fits => None,
            Decision::Combine(groups) => {
                let mut condensed = Condensed { tier: Tier::Condensed, ..Condensed::default() };
                groups.iter().for_each(|group| self.add_group(call, texts, group, frame, &mut condensed));
                Some(condensed)
            }
            Decision::Retrieve(_) => Some(Condensed { tier: Tier::Retrieved, ..Condensed::default() }),
            Decision::TooLarge(_) => Some(Condensed { tier: Tier::TooLarge, ..Condensed::default() }),
        }
    }

    fn add_group(&self, call: &Call<'a>, texts: &[Reading<'a>], group: &Group, frame: u64, to: &mut Condensed) {
        let (model, measure) = (call.model, &call.model.measure);
        let members: Vec<Reading<'a>> = group.members.iter().map(|member| texts[member.document]).collect();
        let (_, _, messages) = self.rendered(call, &members, true);
        let asked = Asked {
            api: &model.api,
            model: &model.name,
            settings: &model.settings,
            content: None,
            messages: &messages,
        };
        let expected = expected(&asked);
        let text = measure.text(&expected.text).min(group.most);
        let read = measure.likely(group.read);
        to.input += frame + read;
        to.output += expected.reasoning_tokens.min(model.max_output_tokens) + text;
        to.less += read.saturating_sub(text);
    }
}
