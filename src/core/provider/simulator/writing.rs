//! Decides the words of a simulated answer: a modest document that shows who wrote it, on what, and about which texts.
//!
//! Each model has a voice, each answer its own sentences, made from the words of the request and chosen by the digest
//! of the prompt. Never quotes more of a source than its first sentence, never writes a text that depends on a limit.

mod length;
mod object;
mod phrases;

use super::mix;
use super::reading::{Brief, Source, excerpt};
use phrases::{ADJECTIVES, COMMON, CONDITIONS, Frames, NOUNS, SPARE, VERBS, VOICES, Voice};
use std::fmt::Write;

/// Words of the request that an answer turns around.
const TOPICS: usize = 12;
/// Words of the list and the conclusion of a document, about.
const LIST_AND_END: usize = 70;

/// Writes one answer.
pub(super) struct Pen<'a> {
    model: &'a str,
    brief: &'a Brief,
    topics: Vec<&'a str>,
    voice: &'static Voice,
    frames: &'static Frames,
    words: usize,
    /// What every answer carries, with a space after it; empty where there is nothing to carry.
    mark: String,
    state: u64,
    topic: usize,
    start: usize,
    sentences: usize,
}

impl<'a> Pen<'a> {
    pub(super) fn new(model: &'a str, brief: &'a Brief, hash: u64, words: usize, marker: Option<String>) -> Self {
        // The sum, not a hash: models that differ in one letter, as test models do, always get different voices.
        let voice = model.bytes().map(usize::from).sum::<usize>() % VOICES.len();
        let frames = Frames::of(&brief.task, !brief.sources.is_empty());
        let state = mix(hash);
        Self {
            model,
            brief,
            topics: topics(&brief.request),
            voice: &VOICES[voice],
            frames,
            words,
            mark: marker.map_or_else(String::new, |marker| marker + " "),
            state,
            topic: 0,
            start: (state >> 40) as usize,
            sentences: 0,
        }
    }

    /// A Markdown document.
    pub(super) fn document(mut self) -> String {
        let mut out = String::with_capacity(1024 + self.words * 7);
        let _ = write!(out, "# {}\n\n{}\n", self.title(), self.introduction());
        if !self.brief.sources.is_empty() {
            let _ = write!(out, "\n## {}\n\n", self.voice.sources);
            self.sources(&mut out);
        }
        let _ = write!(out, "\n## {}\n", self.voice.body);
        let enough = self.words.saturating_sub(LIST_AND_END + out.split_whitespace().count());
        let mut written = 0;
        let mut paragraphs = 0;
        while paragraphs < 2 || written < enough {
            if paragraphs > 0 && paragraphs % 4 == 0 {
                let _ = write!(out, "\n## On {}, further\n", self.topic());
            }
            let paragraph = self.paragraph();
            written += paragraph.split(' ').count();
            let _ = write!(out, "\n{paragraph}\n");
            paragraphs += 1;
        }
        let _ = write!(out, "\n{}\n\n", self.voice.list);
        for _ in 0..3 {
            let (verb, topic, condition) = (self.pick(VERBS), self.topic(), self.pick(CONDITIONS));
            let _ = writeln!(out, "- {verb} {topic} {condition}.");
        }
        let _ = write!(out, "\n## Conclusion\n\n{} {}\n", self.voice.conclusion, self.text(2));
        out
    }

    fn title(&self) -> String {
        let mut task = self.brief.task.clone();
        capitalise(&mut task);
        let sources = &self.brief.sources;
        match sources.as_slice() {
            [] if self.brief.request.is_empty() => format!("{task} by {}", self.model),
            [] => format!("{task} by {}: {}", self.model, excerpt(&self.brief.request, 70)),
            [one] => format!("{task} by {} on the {}", self.model, name(one)),
            [one, two] if self.brief.more == 0 => {
                format!("{task} by {} on the {} and the {}", self.model, name(one), name(two))
            }
            _ => {
                let mut authors: Vec<&str> = sources.iter().filter_map(|s| s.author.as_deref()).collect();
                authors.sort_unstable();
                authors.dedup();
                let by = if authors.is_empty() { String::new() } else { format!(" by {}", authors.join(", ")) };
                format!("{task} by {} over {} texts{by}", self.model, sources.len() + self.brief.more)
            }
        }
    }

    fn introduction(&mut self) -> String {
        let request = excerpt(&self.brief.request, 160);
        let about =
            if request.is_empty() { "an empty request".to_owned() } else { format!("the request “{request}”") };
        let sentence = self.sentence();
        format!("{}{} takes up {about} {}. {sentence}", self.mark, self.model, self.voice.manner)
    }

    /// The texts it was given, each with its first words and a remark.
    fn sources(&mut self, out: &mut String) {
        let brief = self.brief;
        for source in &brief.sources {
            let (name, quote) = (name(source), source.opening.as_str());
            let remark = self.fill_next(self.frames.remarks);
            let _ = match quote {
                "" => writeln!(out, "- The **{name}** is empty. {remark}"),
                quote => writeln!(out, "- The **{name}** opens: “{quote}” {remark}"),
            };
        }
        if brief.more > 0 {
            let _ = writeln!(out, "- … and {} more.", brief.more);
        }
    }

    fn paragraph(&mut self) -> String {
        let sentences = 2 + (self.draw() % 2) as usize;
        self.text(sentences)
    }

    fn text(&mut self, sentences: usize) -> String {
        (0..sentences).map(|_| self.sentence()).collect::<Vec<_>>().join(" ")
    }

    fn sentence(&mut self) -> String {
        self.fill_next(self.frames.sentences)
    }

    /// Goes through the frames in an order of its own, so that none returns before all had their turn.
    fn fill_next(&mut self, frames: &'static [&'static str]) -> String {
        let step = 1 + self.voice.stride % (frames.len() - 1);
        self.sentences += 1;
        let frame = frames[(self.start + self.sentences * step) % frames.len()];
        self.fill(frame)
    }

    fn fill(&mut self, frame: &str) -> String {
        let mut out = String::with_capacity(frame.len() + 40);
        let mut parts = frame.split('{');
        out.push_str(parts.next().unwrap_or_default());
        for part in parts {
            let (slot, text) = part.split_once('}').unwrap_or(("", part));
            let word = match slot {
                "noun" => self.pick(NOUNS),
                "adjective" => self.pick(ADJECTIVES),
                "condition" => self.pick(CONDITIONS),
                _ => self.topic(),
            };
            let article = out.ends_with(" a ") || out == "A ";
            if article && word.starts_with(['a', 'e', 'i', 'o', 'u']) {
                out.insert(out.len() - 1, 'n');
            }
            out.push_str(word);
            out.push_str(text);
        }
        out
    }

    fn topic(&mut self) -> &'a str {
        // Never the same twice running: a sentence with two topics wants two.
        self.topic += 1 + self.draw() as usize % (self.topics.len() - 1);
        self.topic %= self.topics.len();
        self.topics[self.topic]
    }

    fn pick(&mut self, list: &'static [&'static str]) -> &'static str {
        list[self.draw() as usize % list.len()]
    }

    fn draw(&mut self) -> u32 {
        self.state = mix(self.state);
        (self.state >> 32) as u32
    }
}

fn capitalise(text: &mut str) {
    if let Some(first) = text.get_mut(..1) {
        first.make_ascii_uppercase();
    }
}

fn name(source: &Source) -> String {
    let mut name = source.kind.clone();
    if let Some(author) = &source.author {
        let _ = write!(name, " of {author}");
    }
    if let Some(reviewer) = &source.reviewer {
        let _ = write!(name, " after the review of {reviewer}");
    }
    name
}

/// The words of the request that carry it, with some of our own where it has few.
fn topics(request: &str) -> Vec<&str> {
    let mut topics: Vec<&str> = Vec::with_capacity(TOPICS);
    let long = |word: &&str| (5..=30).contains(&word.chars().count());
    let words = request.split(|c: char| !c.is_alphanumeric() && c != '-').filter(long);
    for word in words.filter(|w| !COMMON.iter().any(|common| common.eq_ignore_ascii_case(w))) {
        if topics.len() == TOPICS {
            break;
        }
        if !topics.iter().any(|known| known.eq_ignore_ascii_case(word)) {
            topics.push(word);
        }
    }
    let missing = SPARE.len().saturating_sub(topics.len());
    topics.extend(&SPARE[..missing]);
    topics
}
