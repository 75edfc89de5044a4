//! Decides, chunk by chunk, how an answer goes on, and puts the document together.
//!
//! Every object begun afresh is a segment of its own; chunks that go onward lengthen the last one. Segments are merged into
//! the document in their order. Never asks for anything.

use super::kin::{self, Kin, Wanted};
use super::merge::{self, Open, Outcome};
use super::scan::{Cut, Step};
use super::seam;
use super::segment::{Content, Segment};
use super::{Joint, Knitted};
use crate::answer::CONTROL;
use crate::json::{self, Unreadable};
use serde_json::{Map, Value};

/// The segments before the last as one document.
#[derive(Debug, Clone)]
pub(super) struct Document {
    pub(super) value: Value,
    pub(super) cut: Option<Cut>,
    /// The wrappers around what was asked for.
    pub(super) around: Vec<String>,
    /// Other documents that the model said it would go on with.
    pub(super) elsewhere: Vec<String>,
    is_forgiven: bool,
    /// Texts that were cut off and never completed.
    fragments: usize,
}

impl Document {
    fn new(content: Content, wanted: &Wanted) -> Self {
        let around = kin::wrappers(&content.value, wanted);
        let Content { value, cut, is_forgiven } = content;
        let mut document = Self { value, cut, around, elsewhere: Vec::new(), is_forgiven, fragments: 0 };
        document.elsewhere.extend(elsewhere(&document.value, &document.around, wanted));
        document
    }

    /// What was asked for, without its wrappers.
    pub(super) fn inner(&self) -> &Value {
        kin::inside(&self.value, &self.around).unwrap_or(&self.value)
    }

    pub(super) fn inner_cut(&self) -> Option<Cut> {
        kin::cut_inside(self.cut.as_ref(), &self.around)
    }

    /// Puts a segment into it; whether that brought anything.
    fn add(&mut self, content: Content, wanted: &Wanted, notes: &mut Vec<String>) -> bool {
        let around = kin::wrappers(&content.value, wanted);
        let control = control(&content.value, &around);
        let other = elsewhere(&content.value, &around, wanted);
        let was = self.inner_cut();
        let theirs = match kin::judge(self.inner(), was.as_ref(), content, wanted, &self.elsewhere, notes) {
            Kin::Same(theirs) => theirs,
            Kin::Other(name) => {
                notes.push(format!("other document \"{name}\" left out"));
                self.elsewhere.extend(other);
                return false;
            }
            Kin::Nothing => return false,
        };
        let mut outcome = Outcome::default();
        let mut inner = &mut self.value;
        for key in &self.around {
            inner = match inner {
                Value::Object(fields) => fields.entry(key.clone()).or_insert(Value::Null),
                other => other,
            };
        }
        let (ours_open, theirs_open) = (open(was.as_ref()), open(theirs.cut.as_ref()));
        let way = merge::merge(inner, theirs.value, ours_open, theirs_open, false, &mut outcome);
        let was_text = was.is_some_and(|cut| cut.is_text);
        let keeps_cut = theirs.cut.is_some() && way.is_none();
        self.fragments += usize::from(was_text && !outcome.is_text_completed && !keeps_cut);
        if outcome.left_out > 0 {
            notes.push(format!("{} complete values that came again otherwise left out", outcome.left_out));
        }
        self.is_forgiven |= theirs.is_forgiven;
        match (theirs.cut, way) {
            (None, _) => self.cut = None,
            (Some(cut), Some(way)) => {
                let around = self.around.iter().cloned().map(Step::Key);
                self.cut = Some(Cut { path: around.chain(way).collect(), ..cut });
            }
            // It came less far than what was there.
            (Some(_), None) => {}
        }
        self.set_control(control, other, notes);
        outcome.is_changed
    }

    /// What the last answer said about itself counts, unless it speaks of another document.
    fn set_control(&mut self, control: Map<String, Value>, other: Option<String>, notes: &mut Vec<String>) {
        let mut level = Some(&mut self.value);
        let mut keys = self.around.iter();
        while let Some(Value::Object(fields)) = level {
            CONTROL.iter().for_each(|key| drop(fields.shift_remove(*key)));
            level = keys.next().and_then(|key| fields.get_mut(key));
        }
        match (other, &mut self.value) {
            (Some(name), _) => {
                notes.push(format!("it would go on with \"{name}\", which was not asked for"));
                self.elsewhere.push(name);
            }
            (None, Value::Object(fields)) => fields.extend(control),
            _ => {}
        }
    }
}

fn open(cut: Option<&Cut>) -> Option<Open<'_>> {
    cut.map(|cut| Open { path: &cut.path, is_text: cut.is_text })
}

/// The other document that an answer would go on with.
fn elsewhere(value: &Value, around: &[String], wanted: &Wanted) -> Option<String> {
    let key = wanted.document_key?;
    kin::cursor(value, around).filter(|name| !kin::same(name, key))
}

/// What an answer says about itself.
fn control(value: &Value, around: &[String]) -> Map<String, Value> {
    let levels = (0..=around.len()).filter_map(|depth| kin::inside(value, &around[..depth])?.as_object());
    let said = levels.flat_map(|fields| fields.iter().filter(|(key, _)| kin::is_control(key)));
    said.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// The chunks so far.
pub(super) struct Chain<'a> {
    wanted: Wanted<'a>,
    /// What came before any JSON did.
    pending: String,
    document: Option<Document>,
    segment: Option<Segment>,
    joints: Vec<Joint>,
    /// The joint at which the last segment begins.
    begun_at: Option<usize>,
    /// Other documents that were begun and left out.
    elsewhere: Vec<String>,
    notes: Vec<String>,
}

/// Joins chunks: as one text where that is a complete document, and otherwise by what each of them is.
pub(super) fn run<'a>(chunks: &[&str], wanted: &Wanted<'a>) -> Chain<'a> {
    let last = chunks.iter().rposition(|chunk| !chunk.trim().is_empty()).unwrap_or_default();
    let new = || Chain {
        wanted: *wanted,
        pending: String::new(),
        document: None,
        segment: None,
        joints: Vec::new(),
        begun_at: None,
        elsewhere: Vec::new(),
        notes: Vec::new(),
    };
    let mut through = new();
    let goes_through = chunks.iter().enumerate().all(|(at, chunk)| through.go_on(at, chunk, at == last));
    if goes_through && (through.segment.as_ref().is_some_and(Segment::is_done) || chunks.len() < 2) {
        return through;
    }
    let mut chain = new();
    for (at, chunk) in chunks.iter().enumerate() {
        chain.take(at, chunk);
    }
    chain
}

impl Chain<'_> {
    /// Takes a chunk onward, or not at all.
    fn go_on(&mut self, at: usize, chunk: &str, is_last: bool) -> bool {
        let Some(segment) = &mut self.segment else {
            self.begin(at, chunk);
            return true;
        };
        if chunk.is_empty() || (segment.is_done() && chunk.trim().is_empty()) {
            segment.text.push_str(chunk);
            self.joints.push(Joint::Nothing);
            return true;
        }
        if seam::is_repetition(segment, chunk) {
            self.joints.push(Joint::Nothing);
            return true;
        }
        match seam::onward(segment, chunk, is_last) {
            Some(onward) => {
                self.lengthen(onward);
                true
            }
            None => false,
        }
    }

    fn begin(&mut self, at: usize, chunk: &str) {
        self.pending.push_str(chunk);
        self.segment = Segment::open(&self.pending);
        if at > 0 {
            self.joints.push(if chunk.trim().is_empty() { Joint::Nothing } else { Joint::Onward });
        }
    }

    fn lengthen(&mut self, onward: seam::Onward) {
        let Some(segment) = &mut self.segment else { return };
        segment.text.push_str(onward.text);
        segment.scanner = Some(onward.scanner);
        if onward.has_surroundings {
            self.notes.push("text around the JSON of a chunk left out".to_owned());
        }
        self.joints.push(if onward.text.is_empty() { Joint::Nothing } else { Joint::Onward });
    }

    /// Takes a chunk as whatever it is.
    fn take(&mut self, at: usize, chunk: &str) {
        let Some(segment) = &self.segment else { return self.begin(at, chunk) };
        let is_blank = chunk.is_empty() || (segment.is_done() && chunk.trim().is_empty());
        if is_blank || seam::is_repetition(segment, chunk) {
            return self.joints.push(Joint::Nothing);
        }
        let due = segment.due();
        let onward = seam::onward(segment, chunk, false);
        if onward.as_ref().is_some_and(|onward| onward.ends_open || onward.is_sure) {
            return onward.into_iter().for_each(|onward| self.lengthen(onward));
        }
        let again = seam::begins(chunk);
        let so_far = if again.is_some() { self.document() } else { None };
        match (onward, again, so_far) {
            (Some(onward), Some(again), Some(so_far)) => {
                let begun = again.due();
                let is_document = again.content().is_some_and(|theirs| {
                    kin::is_document_rather(&so_far, [due.as_deref(), begun.as_deref()], &theirs.value, &self.wanted)
                });
                if is_document {
                    self.begin_again(again, so_far);
                } else {
                    self.lengthen(onward);
                }
            }
            (None, Some(again), Some(so_far)) => self.begin_again(again, so_far),
            (Some(onward), ..) => self.lengthen(onward),
            (None, ..) => self.take_blindly(chunk),
        }
    }

    fn begin_again(&mut self, again: Segment, so_far: Document) {
        // What is complete stays as it was written, as long as nothing is added to it.
        if self.document.is_none() && self.segment.as_ref().is_some_and(Segment::is_done) {
            let mut document = so_far.clone();
            let is_changed = again.content().is_some_and(|more| document.add(more, &self.wanted, &mut self.notes));
            if !is_changed {
                self.elsewhere = document.elsewhere;
                return self.joints.push(Joint::Nothing);
            }
        }
        self.document = Some(so_far);
        self.segment = Some(again);
        self.begun_at = Some(self.joints.len());
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
        let Some(mut document) = self.document.clone() else {
            let mut document = Document::new(content?, &self.wanted);
            document.elsewhere.extend(self.elsewhere.iter().cloned());
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
                *joint = if is_changed { Joint::Afresh } else { Joint::Nothing };
            }
        }
        Some(document)
    }

    /// The last of what was written.
    pub(super) fn tail(&self) -> &str {
        self.segment.as_ref().map_or(&self.pending, |segment| &segment.text)
    }

    /// The text of it all.
    pub(super) fn finish(mut self) -> Knitted {
        if self.document.is_none()
            && let Some(segment) = &self.segment
            && let Some(text) = segment.verbatim()
        {
            let text = text.to_owned();
            if segment.has_surroundings {
                self.notes.push("text around the JSON left out".to_owned());
            }
            return Knitted { text, joints: self.joints, is_repaired: false, notes: self.notes };
        }
        match self.document() {
            Some(document) => {
                let is_repaired = document.cut.is_some() || document.is_forgiven || document.fragments > 0;
                if document.cut.is_some() {
                    self.notes.push("closed where it was cut off".to_owned());
                }
                if document.fragments > 0 {
                    self.notes.push("a text that was cut off was not completed".to_owned());
                }
                if document.is_forgiven {
                    self.notes.push("JSON that is not quite JSON forgiven".to_owned());
                }
                Knitted { text: document.value.to_string(), joints: self.joints, is_repaired, notes: self.notes }
            }
            None => {
                let text = self.tail().to_owned();
                Knitted { text, joints: self.joints, is_repaired: false, notes: self.notes }
            }
        }
    }
}
