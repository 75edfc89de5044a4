//! Decides whether a chunk goes on where a text stopped, and what of it is repetition, fence or lead-in.
//!
//! The evidence is the JSON itself: of all ways to set the chunk behind the text one is taken under which both are JSON
//! up to the end of the chunk. As it stands first; then without a fence around it; then without a sentence before it. A
//! repetition is trimmed where it is no accident ([`overlap::is_sure`]) or where the text is no JSON with it. Outside
//! of texts it is also kept when the same has stood in the document before: lists may hold equal items. Last, where a
//! value has just ended, the chunk is tried behind the comma that was due. Never looks at what the JSON says.

use super::overlap;
use super::prose;
use super::scan::Scanner;
use super::segment::Segment;

/// The most overlaps that are tried for one reading of a chunk.
const TRIED: usize = 24;
/// The longest sentence before the rest, in characters.
const LEAD_IN: usize = 240;

/// How a chunk goes on from a segment.
#[derive(Debug, Clone)]
pub(super) struct Onward<'a> {
    /// Whether a comma goes before it that nobody wrote.
    pub(super) has_comma: bool,
    /// What is to be put behind the segment.
    pub(super) text: &'a str,
    /// How far it is JSON then.
    pub(super) scanner: Scanner,
    /// Whether it ends what was open at the seam.
    pub(super) ends_open: bool,
    /// Whether it begins with a repetition that is no accident.
    pub(super) is_sure: bool,
    /// What stood around it and was not blank.
    pub(super) has_surroundings: bool,
    /// How much of the chunk was read.
    reading: usize,
}

/// The way in which a chunk goes on from a segment, if it does. The last chunk is expected to end the document.
pub(super) fn onward<'a>(segment: &Segment, chunk: &'a str, is_last: bool) -> Option<Onward<'a>> {
    let strict = segment.scanner.as_ref().filter(|scanner| !scanner.is_done())?;
    let readings: Vec<Reading> = readings(chunk).into_iter().map(|text| Reading::of(segment, text)).collect();
    let lenient = (!strict.is_lenient()).then(|| strict.lenient());
    for before in std::iter::once(strict).chain(&lenient) {
        let likely: Vec<Onward> = readings.iter().filter_map(|reading| reading.likely(segment, before)).collect();
        let possible = || readings.iter().flat_map(|reading| reading.possible(before));
        let is_end = |onward: &Onward| onward.scanner.is_done();
        let found = if is_last {
            let end = likely.iter().find(|onward| is_end(onward)).cloned();
            end.or_else(|| possible().find(is_end)).or_else(|| likely.into_iter().next())
        } else {
            likely.into_iter().next()
        };
        if let Some(found) = found.or_else(|| possible().next()) {
            return Some(Onward { has_surroundings: found.has_surroundings || found.reading < chunk.len(), ..found });
        }
    }
    let behind_comma = std::iter::once(strict).chain(&lenient).filter_map(Scanner::behind_comma);
    behind_comma.into_iter().find_map(|before| readings.iter().find_map(|reading| reading.behind_comma(&before, chunk)))
}

/// Whether nothing stands in a chunk, be it fenced or led in.
pub(super) fn is_blank(chunk: &str) -> bool {
    readings(chunk).into_iter().any(|reading| matches!(reading.trim(), "" | "```" | "~~~"))
}

/// Whether a chunk only repeats the end of a document that is complete.
pub(super) fn is_repetition(segment: &Segment, chunk: &str) -> bool {
    let end = segment.text.trim_end();
    let repeats = |reading: &str| !reading.trim().is_empty() && end.ends_with(reading.trim());
    segment.is_done() && readings(chunk).into_iter().any(repeats)
}

/// What is left of a chunk that is set behind a text of which nothing is known.
pub(super) fn blindly<'a>(before: &str, chunk: &'a str) -> &'a str {
    let overlaps = overlap::all(before, chunk);
    let length = overlap::sure(&overlaps, chunk).next().unwrap_or_default();
    &chunk[length..]
}

/// The object or list that a chunk begins with, behind its fence and lead-in.
pub(super) fn begins(chunk: &str) -> Option<Segment> {
    let reading = readings(chunk).into_iter().find(|reading| reading.trim_start().starts_with(['{', '[']))?;
    Segment::open(reading)
}

/// A chunk without anything that may be taken off before its JSON.
pub(super) fn barest(chunk: &str) -> &str {
    let is_json = |reading: &&str| reading.trim_start().starts_with(['{', '[']);
    readings(chunk).into_iter().rfind(is_json).unwrap_or(chunk)
}

/// A chunk as it may be meant, and what of its beginning repeats the end of a text.
struct Reading<'a> {
    text: &'a str,
    overlaps: Vec<usize>,
}

impl<'a> Reading<'a> {
    fn of(segment: &Segment, text: &'a str) -> Self {
        Self { text, overlaps: overlap::all_or_whole(&segment.text, text) }
    }

    /// Without the longest repetition that is no accident; as it is where there is none, or where the text is of one
    /// piece with it and has repeated itself like that before.
    fn likely(&self, segment: &Segment, before: &Scanner) -> Option<Onward<'a>> {
        let whole = try_at(before, self.text, 0);
        let sure = overlap::sure(&self.overlaps, self.text)
            .find_map(|length| Some((length, try_at(before, self.text, length)?)));
        let is_habit = |length: usize| {
            let earlier = &segment.text[..segment.text.len() - length];
            !before.is_in_text() && earlier.contains(&self.text[..length])
        };
        match (sure, whole) {
            (Some((length, _)), Some(whole)) if is_habit(length) => Some(whole),
            (Some((_, trimmed)), _) => Some(Onward { is_sure: true, ..trimmed }),
            (None, whole) => whole,
        }
    }

    /// As it is behind a comma, if it begins with what cannot stand there without one.
    fn behind_comma(&self, before: &Scanner, chunk: &str) -> Option<Onward<'a>> {
        let found = self.text.trim_start().starts_with(['"', '{', '[']).then(|| try_at(before, self.text, 0))??;
        let has_surroundings = found.has_surroundings || found.reading < chunk.len();
        Some(Onward { has_comma: true, has_surroundings, ..found })
    }

    /// Without a repetition that proves nothing by its length.
    fn possible(&self, before: &Scanner) -> impl Iterator<Item = Onward<'a>> {
        // What a chunk begins itself, it may end without going onward.
        let begins = self.text.starts_with(['{', '[']);
        let trimmed = self.overlaps.iter().take(TRIED).filter_map(|length| try_at(before, self.text, *length));
        trimmed.map(move |onward| Onward { ends_open: onward.ends_open && !begins, ..onward })
    }
}

/// The chunk without its first bytes behind the text, if that is JSON.
fn try_at<'a>(before: &Scanner, reading: &'a str, length: usize) -> Option<Onward<'a>> {
    let text = &reading[length..];
    let mut scanner = before.clone();
    let depth = scanner.depth();
    scanner.floor = depth;
    let taken = scanner.feed(text).ok()?;
    let rest = text[taken..].trim_start();
    // More ends than there were beginnings: not this way.
    if rest.starts_with(['}', ']', ',', ':', '"']) {
        return None;
    }
    let ends_open = scanner.floor < depth;
    let text = if rest.is_empty() { text } else { &text[..taken] };
    Some(Onward {
        has_comma: false,
        text,
        scanner,
        ends_open,
        is_sure: false,
        has_surroundings: !rest.is_empty(),
        reading: reading.len(),
    })
}

/// A chunk as it stands, without its fence, and without a sentence before it.
fn readings(chunk: &str) -> Vec<&str> {
    let mut readings = Vec::new();
    // Inside a text any words are JSON, so the unmistakable ones go before they are tried.
    readings.extend(behind_lead_in(chunk).last().filter(|rest| {
        let lead = &chunk[..chunk.len() - rest.len()];
        lead.ends_with(": ") && prose::is_lead_in(lead)
    }));
    for reading in std::iter::once(chunk).chain(behind_lead_in(chunk)) {
        for reading in [Some(reading), unfenced(reading)].into_iter().flatten() {
            readings.push(reading);
            readings.extend(closing_fence(reading).map(|end| &reading[..end]));
        }
    }
    readings
}

/// What stands behind the line that opens a fence.
pub(super) fn unfenced(text: &str) -> Option<&str> {
    let (line, rest) = text.trim_start().split_once('\n')?;
    let info = line.trim().strip_prefix("```").or_else(|| line.trim().strip_prefix("~~~"))?;
    (info.len() < 20 && !info.contains(['`', '"', '{', '['])).then_some(rest)
}

/// Where a fence is closed, with nothing but a little prose behind it.
pub(super) fn closing_fence(text: &str) -> Option<usize> {
    // Most chunks have none, and a byte is found faster than a line.
    if !text.as_bytes().contains(&b'`') && !text.as_bytes().contains(&b'~') {
        return None;
    }
    let end = text.rfind("\n```").max(text.rfind("\n~~~"))?;
    let (line, rest) = text[end + 4..].split_once('\n').unwrap_or((&text[end + 4..], ""));
    (line.trim().is_empty() && !rest.contains(['{', '}', '[', ']'])).then_some(end)
}

/// What stands behind a sentence that leads in: behind its paragraph, its line, or its colon.
fn behind_lead_in(chunk: &str) -> impl Iterator<Item = &str> {
    let is_sentence = |lead: &str| {
        let lead = lead.trim();
        lead.starts_with(|c: char| c.is_alphabetic())
            && lead.ends_with([':', '.', '!', '…'])
            && lead.contains(' ')
            && lead.chars().count() <= LEAD_IN
            && !lead.contains(['{', '[', ']', '}'])
    };
    let head = overlap::first(chunk, 2 * LEAD_IN);
    ["\n\n", "\n", ": "].into_iter().filter_map(move |end| {
        let at = head.find(end)?;
        let lead = &chunk[..at + usize::from(end == ": ")];
        let is_plain = end != ": " || !lead.contains(['"', '\n']);
        (is_plain && is_sentence(lead)).then(|| &chunk[at + end.len()..])
    })
}
