//! Decides what the structure of a Markdown text is: its headings, the places where it may be cut and how willingly,
//! and its tables and fences. Never cuts.

use std::ops::Range;

/// How willingly a text is cut at a place: a lower level first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Level(u8);

impl Level {
    pub(super) const FIRST: Level = Level(1);
    /// Levels 1 to 6 are those of headings.
    pub(super) const LAST_HEADING: Level = Level(6);
    const BLOCK: Level = Level(7);
    const ITEM: Level = Level(8);
    const NESTED_ITEM: Level = Level(9);
    const ROW: Level = Level(10);
    const CODE_LINE: Level = Level(11);
    const SENTENCE: Level = Level(12);
    const LINE: Level = Level(13);
    const WORD: Level = Level(14);
    pub(super) const CHARACTER: Level = Level(15);

    /// The level after this one; characters have none.
    pub(super) fn next(self) -> Level {
        Level(self.0 + 1).min(Level::CHARACTER)
    }
}

/// A table or a fence.
#[derive(Debug)]
pub(super) struct Frame {
    /// The head of the table, or the first line of the fence.
    pub(super) lead: Range<usize>,
    /// What stands behind the lead.
    body: Range<usize>,
    /// The line that closes a fence.
    pub(super) closing: Option<String>,
}

struct Heading {
    line: Range<usize>,
    level: u8,
    title: String,
}

pub(super) struct Outline<'a> {
    pub(super) text: &'a str,
    /// Places in the text, ascending, where a block, an item, a row or a line of code begins.
    places: Vec<(usize, Level)>,
    headings: Vec<Heading>,
    frames: Vec<Frame>,
}

impl<'a> Outline<'a> {
    pub(super) fn read(text: &'a str) -> Self {
        let mut reader = Reader {
            outline: Outline { text, places: Vec::new(), headings: Vec::new(), frames: Vec::new() },
            lines: lines(text),
        };
        reader.read();
        reader.outline
    }

    /// The table or fence whose body a place stands in, behind its first byte.
    pub(super) fn frame_around(&self, at: usize) -> Option<&Frame> {
        let after = self.frames.partition_point(|frame| frame.body.start <= at);
        self.frames[..after].last().filter(|frame| at < frame.body.end && at > frame.lead.start)
    }

    /// The headings that the first text of a range which is no heading stands under.
    pub(super) fn heading_path(&self, range: &Range<usize>) -> Vec<String> {
        let mut at = range.start;
        let mut path: Vec<&Heading> = Vec::new();
        for heading in &self.headings {
            let is_at_start = self.text.get(at..heading.line.start).is_some_and(|between| between.trim().is_empty());
            if heading.line.start >= range.end || (heading.line.start > at && !is_at_start) {
                break;
            }
            if heading.line.start >= at {
                at = heading.line.end;
            }
            path.retain(|outer| outer.level < heading.level);
            path.push(heading);
        }
        path.into_iter().map(|heading| heading.title.clone()).collect()
    }

    fn headings_in(&self, range: &Range<usize>) -> &[Heading] {
        let first = self.headings.partition_point(|heading| heading.line.start < range.start);
        let last = self.headings.partition_point(|heading| heading.line.start < range.end);
        &self.headings[first..last]
    }

    /// Whether the first text of a range is a heading.
    pub(super) fn begins_with_heading(&self, range: &Range<usize>) -> bool {
        let first = self.headings_in(range).first();
        first.is_some_and(|heading| self.text[range.start..heading.line.start].trim().is_empty())
    }

    /// Whether a heading follows text of another section in this range.
    pub(super) fn has_heading_inside(&self, range: &Range<usize>) -> bool {
        let mut at = range.start;
        self.headings_in(range).iter().any(|heading| {
            let has_body = !self.text[at..heading.line.start.max(at)].trim().is_empty();
            at = heading.line.end;
            has_body
        })
    }

    /// Whether nothing but headings stands in this range.
    pub(super) fn is_only_headings(&self, range: &Range<usize>) -> bool {
        let headings = self.headings_in(range);
        let Some(last) = headings.last() else { return false };
        !self.has_heading_inside(range) && self.text[last.line.end.min(range.end)..range.end].trim().is_empty()
    }

    /// The first level, from this one on, that has places inside a range, and those places.
    pub(super) fn first_places(&self, range: &Range<usize>, from: Level) -> Option<(Level, Vec<usize>)> {
        let first = self.places.partition_point(|(at, _)| *at <= range.start);
        let last = self.places.partition_point(|(at, _)| *at < range.end);
        let inside = &self.places[first..last.max(first)];
        if let Some(level) = inside.iter().map(|(_, level)| *level).filter(|level| *level >= from).min() {
            let at = |(at, of): &(usize, Level)| (*of <= level).then_some(*at);
            return Some((level, inside.iter().filter_map(at).collect()));
        }
        [Level::SENTENCE, Level::LINE, Level::WORD, Level::CHARACTER]
            .into_iter()
            .filter(|level| *level >= from)
            .map(|level| (level, self.places_in_text(range, level)))
            .find(|(_, places)| !places.is_empty())
    }

    /// The places of a level that only text has.
    fn places_in_text(&self, range: &Range<usize>, level: Level) -> Vec<usize> {
        let text = &self.text[range.clone()];
        if level == Level::CHARACTER {
            return middle(text).map(|at| range.start + at).into_iter().collect();
        }
        let mut places = Vec::new();
        let (mut before, mut is_space) = (' ', false);
        for (at, character) in text.char_indices() {
            let begins = match level {
                Level::LINE => before == '\n',
                _ => is_space && !character.is_whitespace(),
            };
            let is_wide_end = level == Level::SENTENCE && at > 0 && matches!(before, '。' | '！' | '？');
            if (begins && at > 0) || (is_wide_end && !character.is_whitespace()) {
                places.push(range.start + at);
            }
            is_space = match level {
                // Whitespace counts for a sentence only where it follows the sign that ends one.
                Level::SENTENCE if character.is_whitespace() => {
                    is_space || matches!(before, '.' | '!' | '?' | '…' | '。' | '！' | '？')
                }
                _ => character.is_whitespace(),
            };
            before = character;
        }
        places
    }
}

/// The character boundary nearest to the middle of a text of several characters.
fn middle(text: &str) -> Option<usize> {
    let half = text.len() / 2;
    let before = (1..=half).rev().find(|at| text.is_char_boundary(*at));
    before.or_else(|| (half + 1..text.len()).find(|at| text.is_char_boundary(*at)))
}

/// The lines of a text with their ends.
fn lines(text: &str) -> Vec<Range<usize>> {
    let mut at = 0;
    text.split_inclusive('\n')
        .map(|line| {
            let start = at;
            at += line.len();
            start..at
        })
        .collect()
}

/// What the line before was, as far as the next one needs it.
#[derive(Clone, Copy, PartialEq)]
enum Before {
    Blank,
    Paragraph,
    Item,
    Heading,
    /// A table or a fence ended.
    Frame,
}

struct Reader<'a> {
    outline: Outline<'a>,
    lines: Vec<Range<usize>>,
}

impl Reader<'_> {
    fn line(&self, number: usize) -> &str {
        self.lines.get(number).map_or("", |line| &self.outline.text[line.clone()])
    }

    fn read(&mut self) {
        let mut number = self.front_matter();
        let mut before = Before::Blank;
        while number < self.lines.len() {
            (number, before) = self.block(number, before);
        }
    }

    fn place(&mut self, number: usize, level: Level) {
        self.outline.places.push((self.lines[number].start, level));
    }

    /// The line behind the front matter.
    fn front_matter(&mut self) -> usize {
        if self.line(0).trim_end() != "---" {
            return 0;
        }
        let end = (1..self.lines.len()).find(|number| matches!(self.line(*number).trim_end(), "---" | "..."));
        end.map_or(0, |end| end + 1)
    }

    /// Reads what begins at a line; returns the line behind it.
    fn block(&mut self, number: usize, before: Before) -> (usize, Before) {
        let line = self.line(number);
        if line.trim().is_empty() {
            return (number + 1, Before::Blank);
        }
        if let Some(fence) = fence(line) {
            self.place(number, Level::BLOCK);
            return (self.fenced(number, fence), Before::Frame);
        }
        if let Some((level, title)) = heading(line) {
            self.heading(number, number + 1, level, title);
            return (number + 1, Before::Heading);
        }
        let is_text = item_indent(line).is_none();
        if let Some(level) = underline(self.line(number + 1)).filter(|_| is_text && before != Before::Paragraph) {
            let title = line.trim().to_owned();
            self.heading(number, number + 2, level, title);
            return (number + 2, Before::Heading);
        }
        if line.contains('|') && is_delimiter_row(self.line(number + 1)) {
            self.place(number, Level::BLOCK);
            return (self.table(number), Before::Frame);
        }
        if let Some(indent) = item_indent(line) {
            let level = match before {
                _ if indent > 0 => Level::NESTED_ITEM,
                Before::Paragraph | Before::Heading | Before::Frame => Level::BLOCK,
                Before::Blank | Before::Item => Level::ITEM,
            };
            self.place(number, level);
            return (number + 1, Before::Item);
        }
        match before {
            Before::Blank if line.starts_with([' ', '\t']) => self.place(number, Level::NESTED_ITEM),
            Before::Blank | Before::Heading | Before::Frame => self.place(number, Level::BLOCK),
            Before::Paragraph | Before::Item => {}
        }
        (number + 1, if before == Before::Item { Before::Item } else { Before::Paragraph })
    }

    fn heading(&mut self, from: usize, to: usize, level: u8, title: String) {
        self.place(from, Level(level));
        let line = self.lines[from].start..self.lines[to - 1].end;
        self.outline.headings.push(Heading { line, level, title });
    }

    /// Reads a fence that is not closed to the end of the text.
    fn fenced(&mut self, number: usize, (sign, length): (char, usize)) -> usize {
        let closes = |line: &str| {
            let line = line.trim();
            line.len() >= length && line.chars().all(|character| character == sign)
        };
        let end = (number + 1..self.lines.len()).find(|at| closes(self.line(*at)));
        let last = end.unwrap_or(self.lines.len());
        let mut is_after_blank = false;
        for at in number + 2..last {
            is_after_blank |= self.line(at - 1).trim().is_empty();
            self.place(at, if is_after_blank { Level::ROW } else { Level::CODE_LINE });
            is_after_blank = false;
        }
        let closing = Some(sign.to_string().repeat(length) + "\n");
        self.frame(number, number + 1, last, closing);
        end.map_or(last, |end| end + 1)
    }

    fn table(&mut self, number: usize) -> usize {
        let is_row = |line: &str| line.contains('|') && !line.trim().is_empty();
        let end = (number + 2..self.lines.len()).find(|at| !is_row(self.line(*at))).unwrap_or(self.lines.len());
        for row in number + 3..end {
            self.place(row, Level::ROW);
        }
        self.frame(number, number + 2, end, None);
        end
    }

    fn frame(&mut self, lead: usize, body: usize, end: usize, closing: Option<String>) {
        let end = self.lines.get(end).map_or(self.outline.text.len(), |line| line.start);
        let body = self.lines.get(body).map_or(end, |line| line.start);
        if body < end {
            let lead = self.lines[lead].start..body;
            self.outline.frames.push(Frame { lead, body: body..end, closing });
        }
    }
}

/// The level and the title of a heading in the `#` style.
fn heading(line: &str) -> Option<(u8, String)> {
    let marks = line.bytes().take_while(|byte| *byte == b'#').count();
    let title = &line[marks..];
    let is_heading = (1..=6).contains(&marks) && (title.trim().is_empty() || title.starts_with([' ', '\t']));
    is_heading.then(|| (marks as u8, title.trim().trim_end_matches('#').trim_end().to_owned()))
}

/// The level of the heading that a line of `=` or `-` makes of the line above it.
fn underline(line: &str) -> Option<u8> {
    let line = line.trim_end();
    let is_all = |sign: char| line.len() >= 3 && line.chars().all(|character| character == sign);
    if is_all('=') { Some(1) } else { is_all('-').then_some(2) }
}

fn fence(line: &str) -> Option<(char, usize)> {
    let inner = line.trim_start_matches(' ');
    let sign = inner.chars().next().filter(|sign| matches!(sign, '`' | '~'))?;
    let length = inner.chars().take_while(|character| *character == sign).count();
    (length >= 3 && line.len() - inner.len() <= 3).then_some((sign, length))
}

/// The indent of a list item.
fn item_indent(line: &str) -> Option<usize> {
    let inner = line.trim_start();
    let digits = inner.bytes().take_while(u8::is_ascii_digit).count();
    let behind = match digits {
        0 => inner.strip_prefix(['-', '*', '+']),
        1..=9 => inner[digits..].strip_prefix(['.', ')']),
        _ => None,
    };
    behind.filter(|rest| rest.starts_with([' ', '\t'])).map(|_| line.len() - inner.len())
}

fn is_delimiter_row(line: &str) -> bool {
    let line = line.trim();
    line.contains('-') && line.contains('|') && line.chars().all(|sign| matches!(sign, '|' | '-' | ':' | ' '))
}
