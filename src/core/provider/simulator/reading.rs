//! Decides what the simulated model makes of a prompt: its task, the request, and who wrote the texts before it.
//!
//! It reads what the shipped templates write: `Deliver: kind` in the system message, `<document …>` at the start of a
//! line, `<request>` around the request. Where these are missing it makes do with what there is. Never keeps more than
//! a glimpse of any text.

use crate::prompt::{Message, Role};

/// Sources that are named one by one.
pub(super) const NAMED: usize = 12;
/// Characters of a quotation.
const QUOTE: usize = 200;
/// Characters of a name.
const NAME: usize = 60;
/// Bytes of a text that are looked at for its first sentence.
const GLIMPSE: usize = 4096;

/// A text the model was given.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Source {
    /// What it is, in words.
    pub(super) kind: String,
    pub(super) author: Option<String>,
    /// Whose review it rests on, when that is someone other than its author.
    pub(super) reviewer: Option<String>,
    /// Its first sentence.
    pub(super) opening: String,
}

/// What is to be done.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Brief {
    /// The kind of text to deliver, in words.
    pub(super) task: String,
    /// The request, cut to a glimpse.
    pub(super) request: String,
    /// The first of the texts to work on, seed prompts aside.
    pub(super) sources: Vec<Source>,
    /// How many more there were.
    pub(super) more: usize,
}

impl Brief {
    pub(super) fn read(messages: &[Message]) -> Self {
        let of = |role| messages.iter().filter(move |m| m.role == role).map(|m| m.content.as_str());
        let mut sources = Vec::new();
        let mut more = 0;
        for tag in of(Role::User).flat_map(tags) {
            if matches!(tag.kind, "seed_prompt" | "initial_user_prompt") {
                continue;
            }
            if sources.len() < NAMED { sources.push(tag.source()) } else { more += 1 }
        }
        let task = of(Role::System).find_map(task).unwrap_or_else(|| "answer".to_owned());
        let request =
            of(Role::User).rev().find_map(marked_request).or_else(|| of(Role::User).next_back().map(unmarked_request));
        Self { task, request: glimpse(request.unwrap_or_default()).trim().to_owned(), sources, more }
    }
}

/// Spells a key such as `pairwise_synthesis_chunk` in words.
pub(super) fn spell(key: &str) -> String {
    key.chars().map(|c| if c == '_' { ' ' } else { c }).filter(|c| !c.is_control()).take(NAME).collect()
}

/// The first characters of a text on one line.
pub(super) fn excerpt(text: &str, limit: usize) -> String {
    let mut out = String::new();
    let mut left = limit;
    for word in glimpse(text).split_whitespace() {
        let gap = usize::from(!out.is_empty());
        let length = word.chars().count();
        if length + gap > left {
            if out.is_empty() {
                out.extend(word.chars().take(left));
            }
            out.push('…');
            return out;
        }
        if gap == 1 {
            out.push(' ');
        }
        out.push_str(word);
        left -= length + gap;
    }
    out
}

fn task(system: &str) -> Option<String> {
    if let Some(kind) = system.lines().find_map(|line| line.trim().strip_prefix("Deliver: ")) {
        let end = kind.find([' ', '(', '.', ',']).unwrap_or(kind.len());
        return Some(spell(&kind[..end])).filter(|kind| !kind.is_empty());
    }
    let head = glimpse(system).to_lowercase();
    ["antithesis", "critique", "review", "synthesis", "thesis", "plan"]
        .into_iter()
        .find(|word| head.contains(word))
        .map(str::to_owned)
}

fn marked_request(text: &str) -> Option<&str> {
    let start = text.rfind("<request>")? + "<request>".len();
    let rest = &text[start..];
    Some(&rest[..rest.rfind("</request>").unwrap_or(rest.len())])
}

fn unmarked_request(text: &str) -> &str {
    let after = text.rfind("</document>").map_or(text, |at| &text[at + "</document>".len()..]);
    if after.trim().is_empty() { text } else { after }
}

struct Tag<'a> {
    kind: &'a str,
    attributes: &'a str,
    content: &'a str,
}

fn tags(text: &str) -> impl Iterator<Item = Tag<'_>> {
    text.match_indices("<document ").filter_map(move |(at, mark)| {
        if !(at == 0 || text[..at].ends_with('\n')) {
            return None;
        }
        let rest = glimpse(&text[at + mark.len()..]);
        let (attributes, content) = rest.split_once('>')?;
        let content = content.find("\n</document>").map_or(content, |end| &content[..end]);
        // A space before, so that every attribute begins alike.
        let attributes = &text[at + mark.len() - 1..at + mark.len() + attributes.len()];
        Some(Tag { kind: attribute(attributes, " type=\"").unwrap_or("document"), attributes, content })
    })
}

impl Tag<'_> {
    fn source(&self) -> Source {
        let name = |mark| attribute(self.attributes, mark).filter(|v| !v.is_empty()).map(|v| excerpt(v, NAME));
        let author = name(" author=\"");
        let reviewer = name(" reviewer=\"").filter(|reviewer| Some(reviewer) != author.as_ref());
        Source { kind: spell(self.kind), author, reviewer, opening: opening(self.content) }
    }
}

fn attribute<'a>(attributes: &'a str, mark: &str) -> Option<&'a str> {
    let value = &attributes[attributes.find(mark)? + mark.len()..];
    value.split('"').next()
}

/// The first sentence that is not a heading, a rule or a quotation; the first words where there is none.
fn opening(text: &str) -> String {
    let plain = |line: &&str| !line.is_empty() && !line.starts_with(['#', '-', '>', '<', '{']);
    let line = text.lines().map(str::trim).find(plain).unwrap_or(text);
    let end =
        line.char_indices().zip(line.chars().skip(1)).find(|((_, c), next)| ".?!".contains(*c) && next.is_whitespace());
    excerpt(end.map_or(line, |((at, _), _)| &line[..=at]), QUOTE)
}

fn glimpse(text: &str) -> &str {
    if text.len() <= GLIMPSE { text } else { &text[..text.floor_char_boundary(GLIMPSE)] }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(role: Role, content: &str) -> Message {
        Message { role, content: content.to_owned() }
    }

    #[test]
    fn a_shipped_prompt_is_understood() {
        let brief = Brief::read(&[
            message(Role::System, "You review.\n\nDeliver: antithesis (step \"Critique\")."),
            message(
                Role::User,
                "<document type=\"seed_prompt\">\nbrief\n</document>\n\
                 <document type=\"thesis\" author=\"sim-a\" reviewer=\"sim-b\">\n# T\n\nFirst one. Second one.\n</document>\n\
                 said of <document type=\"x\"> in passing\n<request>\nShould {{ it }} be?\n</request>",
            ),
        ]);
        assert_eq!(brief.task, "antithesis");
        assert_eq!(brief.request, "Should {{ it }} be?");
        assert_eq!(brief.sources.len(), 1);
        let source = &brief.sources[0];
        assert_eq!((source.author.as_deref(), source.reviewer.as_deref()), (Some("sim-a"), Some("sim-b")));
        assert_eq!(source.opening, "First one.");
    }

    #[test]
    fn a_bare_question_is_its_own_request() {
        let brief = Brief::read(&[message(Role::User, "Why is the sea salt?")]);
        assert_eq!((brief.task.as_str(), brief.request.as_str()), ("answer", "Why is the sea salt?"));
    }

    #[test]
    fn an_excerpt_is_never_longer_than_asked() {
        assert_eq!(excerpt("one two  three", 8), "one two…");
        assert_eq!(excerpt("ééééé", 3), "ééé…");
        assert_eq!(excerpt(" \n ", 3), "");
    }
}
