//! Decides where a text is cut: at headings, then paragraphs, list items, table rows and lines of fenced code, and
//! between sentences, lines, words and characters only where a block alone is too large.
//!
//! Parts follow each other without gap or overlap, so their ranges joined are the text. A part that begins inside a
//! table or a fence repeats the table's head or the fence's first line. Never counts tokens itself and never drops text.

mod outline;
#[cfg(test)]
mod tests;

use outline::{Level, Outline};
use std::ops::Range;

/// Whether sections may share a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sections {
    /// Small neighbouring sections share a part: as few parts as possible.
    Joined,
    /// No part reaches into the next section: each part has one heading path.
    Apart,
}

/// A part of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Its bytes in the text.
    pub range: Range<usize>,
    /// Whether it continues the section of the part before it.
    pub continues: bool,
    /// The headings that its first body text stands under, outermost first.
    pub headings: Vec<String>,
    /// What it repeats from before its range: the head of a table, or the first line of a fence.
    pub lead: Option<Range<usize>>,
    /// The line that closes a fence which the part leaves open.
    pub closing: Option<String>,
}

impl Part {
    /// The part as a text that can be read alone: with what it repeats, and with its fence closed.
    pub fn text(&self, source: &str) -> String {
        let mut text = String::with_capacity(self.range.len() + 64);
        if let Some(lead) = &self.lead {
            text.push_str(&source[lead.clone()]);
        }
        text.push_str(&source[self.range.clone()]);
        if let Some(closing) = &self.closing {
            if !text.ends_with('\n') {
                text.push('\n');
            }
            text.push_str(closing);
        }
        text
    }
}

/// Cuts a text into parts of at most `limit` tokens as `count` counts them, each as [`Part::text`] gives it. Only a
/// single character, or a part whose repeated head leaves no room, may exceed the limit.
pub fn split(text: &str, limit: u64, sections: Sections, count: &dyn Fn(&str) -> u64) -> Vec<Part> {
    let cutter = Cutter { outline: Outline::read(text), limit, sections, count };
    let mut ranges = Vec::new();
    if !text.is_empty() {
        cutter.cut(0..text.len(), Level::FIRST, &mut ranges);
    }
    ranges.into_iter().map(|range| cutter.part(range)).collect()
}

/// A range of a text as [`Part::text`] gives it: with the head of the table or the first line of the fence that it
/// begins in, and with its fence closed. A range that does not lie on characters is moved to those before it.
pub fn excerpt(text: &str, range: Range<usize>) -> String {
    let place = |at: usize| text.floor_char_boundary(at.min(text.len()));
    let range = place(range.start)..place(range.end.max(range.start));
    let cutter = Cutter { outline: Outline::read(text), limit: u64::MAX, sections: Sections::Joined, count: &|_| 0 };
    cutter.part(range).text(text)
}

struct Cutter<'a> {
    outline: Outline<'a>,
    limit: u64,
    sections: Sections,
    count: &'a dyn Fn(&str) -> u64,
}

impl Cutter<'_> {
    fn part(&self, range: Range<usize>) -> Part {
        let (lead, closing) = self.surroundings(&range);
        let headings = self.outline.heading_path(&range);
        let continues = range.start > 0 && !self.outline.begins_with_heading(&range);
        Part { range, continues, headings, lead, closing }
    }

    /// What a part of this range repeats before itself and adds behind itself.
    fn surroundings(&self, range: &Range<usize>) -> (Option<Range<usize>>, Option<String>) {
        let lead = self.outline.frame_around(range.start).map(|frame| frame.lead.clone());
        // A head that fills half of a part would leave little room for what it heads.
        let lead = lead.filter(|lead| (self.count)(&self.outline.text[lead.clone()]) <= self.limit / 2);
        let is_readable = lead.is_some() || self.outline.frame_around(range.start).is_none();
        let closing = self.outline.frame_around(range.end).filter(|_| is_readable);
        (lead, closing.and_then(|frame| frame.closing.clone()))
    }

    /// The tokens of a range alone.
    fn tokens(&self, range: &Range<usize>) -> u64 {
        (self.count)(&self.outline.text[range.clone()])
    }

    /// The tokens that a part of this range repeats and adds, at the most: a join may cost a token.
    fn extra(&self, range: &Range<usize>) -> u64 {
        let (lead, closing) = self.surroundings(range);
        let lead = lead.map_or(0, |lead| self.tokens(&lead) + 1);
        lead + closing.map_or(0, |closing| (self.count)(&closing) + 2)
    }

    fn fits(&self, range: &Range<usize>) -> bool {
        match self.extra(range) {
            0 => self.tokens(range) <= self.limit,
            _ => (self.count)(&self.part(range.clone()).text(self.outline.text)) <= self.limit,
        }
    }

    /// Cuts a range at the first level, from this one on, that has a place to cut in it.
    fn cut(&self, range: Range<usize>, from: Level, parts: &mut Vec<Range<usize>>) {
        let is_one_section = from > Level::LAST_HEADING || !self.outline.has_heading_inside(&range);
        if (self.sections == Sections::Joined || is_one_section) && self.fits(&range) {
            return parts.push(range);
        }
        let Some((level, places)) = self.outline.first_places(&range, from) else {
            return parts.push(range);
        };
        let mut open: Option<(Range<usize>, u64)> = None;
        let bounds = std::iter::once(range.start).chain(places.iter().copied());
        for (start, end) in bounds.zip(places.iter().copied().chain([range.end])) {
            let mut segment = start..end;
            let mut tokens = self.tokens(&segment);
            if let Some((held, held_tokens)) = open.take() {
                let both = held_tokens + tokens + 1;
                let fits = both + self.extra(&(held.start..end)) <= self.limit;
                let is_heading = self.outline.is_only_headings(&held);
                let may_join = is_heading || self.sections == Sections::Joined || level > Level::LAST_HEADING;
                if may_join && level < Level::CHARACTER && (fits || is_heading) {
                    (segment, tokens) = (held.start..end, both);
                } else {
                    self.close(held, level, parts);
                }
            }
            match tokens + self.extra(&segment) <= self.limit || self.outline.is_only_headings(&segment) {
                true => open = Some((segment, tokens)),
                false => self.cut(segment, level.next(), parts),
            }
        }
        if let Some((held, _)) = open {
            self.close(held, level, parts);
        }
    }

    /// Takes a range that was joined from segments; one of several sections, or too large after all, is cut further.
    fn close(&self, range: Range<usize>, level: Level, parts: &mut Vec<Range<usize>>) {
        let is_one_section = level > Level::LAST_HEADING || !self.outline.has_heading_inside(&range);
        let is_whole = self.sections == Sections::Joined || is_one_section;
        if is_whole && self.fits(&range) {
            parts.push(range);
        } else {
            self.cut(range, level.next(), parts);
        }
    }
}
