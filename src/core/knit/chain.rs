//! Decides, chunk by chunk, how an answer goes on, and puts the document together.
//!
//! Every object begun afresh is a segment of its own; chunks that go onward lengthen the last one. Segments are merged
//! into the document in their order. Never asks for anything.

use super::document::Document;
use super::kin::{self, Wanted};
use super::overlap;
use super::scan;
use super::seam::{self, Onward};
use super::segment::{Content, Segment};
use super::several;
use super::{Ending, Joint, Knitted};
use crate::json::{self, Unreadable};

/// The chunks so far.
#[derive(Clone)]
pub(super) struct Chain<'a> {
    wanted: Wanted<'a>,
    /// What came before any JSON did.
    pending: String,
    /// The segments before the last.
    document: Option<Document>,
    segment: Option<Segment>,
    /// The last chunk.
    previous: String,
    joints: Vec<Joint>,
    /// The joint at which the last segment begins.
    begun_at: Option<usize>,
    /// Whether the chunk it begins with brought something before it.
    has_brought: bool,
    /// Whether a comma was supplied.
    has_comma: bool,
    /// Other documents that were begun and left out.
    elsewhere: Vec<String>,
    /// Whether what was left out then puts the document in doubt.
    is_doubtful: bool,
    notes: Vec<String>,
}

/// What a chunk may be to the chunks before it.
enum Turn<'a> {
    /// Nothing new.
    Nothing,
    /// The chunk before it once more.
    Again,
    /// The first of the JSON, or still none of it.
    Begin,
    /// This, behind the text.
    Onward(Onward<'a>),
    /// An object, which may also stand behind the text.
    Object(Option<Onward<'a>>, Segment),
    /// None of these.
    Blind,
}

/// Joins chunks: as one text where that is a complete document, and otherwise by what each of them is.
pub(super) fn run<'a>(chunks: &[&str], wanted: &Wanted<'a>) -> Chain<'a> {
    let last = chunks.iter().rposition(|chunk| !seam::is_blank(chunk)).unwrap_or_default();
    let mut chain = Chain::new(wanted);
    // As one text it is the same as long as there is nothing to choose.
    let mut through: Option<Chain> = None;
    let mut goes_through = true;
    for (at, chunk) in chunks.iter().enumerate() {
        let turn = chain.turn(chunk);
        if through.is_none() && !turn.is_the_same_as_one_text(at == last) {
            through = Some(chain.clone());
        }
        if let Some(through) = &mut through {
            goes_through = goes_through && through.go_on(at, chunk, at == last);
        }
        chain.take(at, chunk, turn);
    }
    match through {
        Some(through) if goes_through && through.segment.as_ref().is_some_and(Segment::is_done) => through,
        _ => chain,
    }
}

/// Whether a chunk is blank where blanks say nothing, or only repeats the end.
fn is_nothing(segment: &Segment, chunk: &str) -> bool {
    let is_blank = chunk.is_empty() || (segment.is_done() && seam::is_blank(chunk));
    is_blank || seam::is_repetition(segment, chunk)
}

impl Turn<'_> {
    /// Whether the chunk goes the same way where all chunks are to be one text. The last is then expected to end it.
    fn is_the_same_as_one_text(&self, is_last: bool) -> bool {
        match self {
            Turn::Nothing | Turn::Begin => true,
            Turn::Onward(onward) => !is_last || onward.scanner.is_done(),
            Turn::Again | Turn::Object(..) | Turn::Blind => false,
        }
    }
}

impl<'a> Chain<'a> {
    fn new(wanted: &Wanted<'a>) -> Self {
        Self {
            wanted: *wanted,
            pending: String::new(),
            document: None,
            segment: None,
            previous: String::new(),
            joints: Vec::new(),
            begun_at: None,
            has_brought: false,
            has_comma: false,
            elsewhere: Vec::new(),
            is_doubtful: false,
            notes: Vec::new(),
        }
    }

    /// Takes a chunk onward, or not at all.
    fn go_on(&mut self, at: usize, chunk: &str, is_last: bool) -> bool {
        let Some(segment) = &self.segment else {
            self.begin(at, chunk);
            return true;
        };
        if is_nothing(segment, chunk) {
            self.take_nothing(chunk);
            return true;
        }
        let onward = seam::onward(segment, chunk, is_last);
        let goes_on = onward.is_some();
        onward.into_iter().for_each(|onward| self.lengthen(onward));
        goes_on
    }

    fn begin(&mut self, at: usize, chunk: &str) {
        self.pending.push_str(chunk);
        self.segment = Segment::open(&self.pending);
        if at > 0 {
            self.joints.push(if chunk.trim().is_empty() { Joint::Nothing } else { Joint::Onward });
        }
    }

    /// Blanks behind a document that is complete stay, as everything stays where it is one text.
    fn take_nothing(&mut self, chunk: &str) {
        if let Some(segment) = self.segment.as_mut().filter(|_| chunk.trim().is_empty()) {
            segment.text.push_str(chunk);
        }
        self.joints.push(Joint::Nothing);
    }

    fn lengthen(&mut self, onward: Onward) {
        let Some(segment) = &mut self.segment else { return };
        if onward.has_comma {
            segment.text.push(',');
            self.has_comma = true;
            self.notes.push("a comma that was left out between two chunks supplied".to_owned());
        }
        segment.text.push_str(onward.text);
        segment.scanner = Some(onward.scanner);
        if onward.has_surroundings {
            self.notes.push("text around the JSON of a chunk left out".to_owned());
        }
        self.joints.push(if onward.text.is_empty() { Joint::Nothing } else { Joint::Onward });
    }

    /// What a chunk may be.
    fn turn<'c>(&self, chunk: &'c str) -> Turn<'c> {
        let Some(segment) = &self.segment else { return Turn::Begin };
        if is_nothing(segment, chunk) {
            return Turn::Nothing;
        }
        if overlap::is_once_more(&self.previous, chunk) {
            return Turn::Again;
        }
        match seam::onward(segment, chunk, false) {
            Some(onward) if onward.ends_open || onward.is_sure => Turn::Onward(onward),
            onward => match (onward, seam::begins(chunk)) {
                (onward, Some(again)) => Turn::Object(onward, again),
                (Some(onward), None) => Turn::Onward(onward),
                (None, None) => Turn::Blind,
            },
        }
    }

    /// Takes a chunk as what it is.
    fn take(&mut self, at: usize, chunk: &str, turn: Turn) {
        chunk.clone_into(&mut self.previous);
        match turn {
            Turn::Nothing | Turn::Again => self.take_nothing(chunk),
            Turn::Begin => self.begin(at, chunk),
            Turn::Onward(onward) => self.lengthen(onward),
            Turn::Object(None, again) => match self.take_document() {
                Some(so_far) => self.begin_values(chunk, again, so_far),
                None => self.take_blindly(chunk),
            },
            Turn::Object(Some(onward), again) => match self.document() {
                Some(so_far) if self.is_afresh(&onward, &so_far, &again) => self.begin_values(chunk, again, so_far),
                _ => self.lengthen(onward),
            },
            Turn::Blind => self.take_blindly(chunk),
        }
    }

    fn is_afresh(&self, onward: &Onward, so_far: &Document, again: &Segment) -> bool {
        // One whole object goes into its place by itself; a comma is supplied only for more items than that.
        let is_next_item = || {
            let is_alone = again.is_done() && !again.has_surroundings;
            let theirs = again.content().filter(|_| !is_alone);
            theirs.is_some_and(|theirs| kin::is_next_item(so_far.inner(), so_far.inner_cut().as_ref(), &theirs.value))
        };
        self.is_document_rather(so_far, again) || (onward.has_comma && !is_next_item())
    }

    fn is_document_rather(&self, so_far: &Document, again: &Segment) -> bool {
        let due = self.segment.as_ref().and_then(Segment::due);
        let begun = again.last_key();
        again.content().is_some_and(|theirs| {
            // An object that says nothing is no item either: there is nothing left.
            (again.is_done() && kin::says_nothing(&theirs.value))
                || kin::is_document_rather(so_far, [due.as_deref(), begun.as_deref()], &theirs.value, &self.wanted)
        })
    }

    /// Begins again with every value of a chunk, the last of which may go on.
    fn begin_values(&mut self, chunk: &str, again: Segment, mut so_far: Document) {
        let mut parts = if again.has_surroundings { several::parts(chunk, &so_far, &self.wanted) } else { Vec::new() };
        let last = parts.pop().unwrap_or(again);
        let mut has_brought = false;
        for content in parts.iter().filter_map(Segment::content) {
            has_brought |= so_far.add(content, &self.wanted, &mut self.notes);
        }
        self.begin_again(last, so_far, has_brought);
    }

    fn begin_again(&mut self, again: Segment, so_far: Document, has_brought: bool) {
        // What is complete stays as it was written, as long as nothing is added to it.
        if !has_brought && self.begun_at.is_none() && self.segment.as_ref().is_some_and(Segment::is_done) {
            let mut document = so_far.clone();
            let is_changed = again.content().is_some_and(|more| document.add(more, &self.wanted, &mut self.notes));
            if !is_changed {
                self.is_doubtful |= document.is_doubtful;
                self.elsewhere = document.elsewhere;
                return self.joints.push(Joint::Nothing);
            }
        }
        self.document = Some(so_far);
        self.segment = Some(again);
        self.begun_at = Some(self.joints.len());
        self.has_brought = has_brought;
        self.joints.push(Joint::Afresh);
    }

    /// A chunk that is no JSON behind the text: kept where a forgiving reader makes something of both.
    fn take_blindly(&mut self, chunk: &str) {
        let Some(segment) = &mut self.segment else { return };
        let rest = if segment.is_done() { "" } else { seam::blindly(&segment.text, chunk) };
        let joined = format!("{}{rest}", segment.text);
        let is_read = || matches!(json::read(&joined), Ok(_) | Err(Unreadable::Cut { .. } | Unreadable::TooDeep));
        if rest.trim().is_empty() || !is_read() {
            self.notes.push("a chunk without anything of the document left out".to_owned());
            return self.joints.push(Joint::Nothing);
        }
        (segment.text, segment.scanner) = (joined, None);
        self.joints.push(Joint::Onward);
    }

    /// Everything so far as one document.
    pub(super) fn document(&mut self) -> Option<Document> {
        let content = self.segment.as_ref().and_then(Segment::content);
        self.merged(self.document.clone(), content)
    }

    /// The same, where nobody asks for the segments before the last any more.
    fn take_document(&mut self) -> Option<Document> {
        let content = self.segment.as_ref().and_then(Segment::content);
        let document = self.document.take();
        self.merged(document, content)
    }

    fn merged(&mut self, document: Option<Document>, content: Option<Content>) -> Option<Document> {
        let Some(mut document) = document else {
            let mut document = Document::new(content?, &self.wanted);
            document.elsewhere.extend(self.elsewhere.iter().cloned());
            document.is_doubtful = self.is_doubtful;
            return Some(document);
        };
        if let Some(content) = content {
            let mut notes = Vec::new();
            let is_changed = document.add(content, &self.wanted, &mut notes);
            for note in notes {
                if !self.notes.contains(&note) {
                    self.notes.push(note);
                }
            }
            if let Some(joint) = self.begun_at.and_then(|at| self.joints.get_mut(at)) {
                *joint = if is_changed || self.has_brought { Joint::Afresh } else { Joint::Nothing };
            }
        }
        Some(document)
    }

    /// The last of what was written.
    pub(super) fn tail(&self) -> &str {
        self.segment.as_ref().map_or(&self.pending, |segment| &segment.text)
    }

    /// What was written, as one text: as the model wrote it while it went onward, and knitted since it began afresh.
    pub(super) fn so_far(mut self) -> String {
        match &self.segment {
            None => self.pending,
            Some(_) if self.begun_at.is_some() => {
                self.take_document().map(|document| document.value.to_string()).unwrap_or_default()
            }
            Some(segment) => format!("{}{}", &self.pending[..segment.start], segment.text),
        }
    }

    /// The text of it all, and what is open where it ends.
    pub(super) fn finish(mut self) -> (Knitted, Ending) {
        let Some(document) = self.take_document() else {
            let text = self.tail().to_owned();
            let knitted = Knitted { text, joints: self.joints, is_repaired: false, notes: self.notes };
            return (knitted, Ending::default());
        };
        let ending = Ending {
            is_object: document.inner().is_object(),
            is_open: document.is_open(),
            is_between: document.cut.as_ref().is_some_and(|cut| cut.is_between),
            is_torn: document.fragments > 0,
            is_doubtful: document.is_doubtful,
            open_at: document.inner_cut().map(|cut| scan::way(&cut.path)),
            would_go_on: document.would_go_on(),
            elsewhere: document.elsewhere.last().cloned(),
        };
        let is_as_written = self.begun_at.is_none() && !document.is_forgiven;
        let verbatim = self.segment.filter(|segment| is_as_written && segment.is_strict());
        if let Some(segment) = verbatim {
            if segment.has_surroundings {
                self.notes.push("text around the JSON left out".to_owned());
            }
            let knitted =
                Knitted { text: segment.text, joints: self.joints, is_repaired: self.has_comma, notes: self.notes };
            return (knitted, ending);
        }
        let is_repaired = self.has_comma || document.cut.is_some() || document.is_forgiven || document.fragments > 0;
        for (is_so, note) in [
            (document.cut.is_some(), "closed where it was cut off"),
            (document.fragments > 0, "a text that was cut off was not completed"),
            (document.is_forgiven, "JSON that is not quite JSON forgiven"),
        ] {
            if is_so {
                self.notes.push(note.to_owned());
            }
        }
        let text = document.value.to_string();
        (Knitted { text, joints: self.joints, is_repaired, notes: self.notes }, ending)
    }
}
