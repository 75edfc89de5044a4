//! Decides how retrieved passages stand in a prompt: in the order of their document, below their headings, with `[…]`
//! where something was left out. Never chooses passages.

/// What stands for a document of which nothing was retrieved.
pub const NOTHING_SENT: &str = "(nothing of it was sent)";
/// What stands for text that was left out.
const LEFT_OUT: &str = "[…]";

/// A chunk of a document that was retrieved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passage {
    /// Its number in the document, from 1 on.
    pub chunk_no: u32,
    /// The headings that it stands under, outermost first.
    pub headings: Vec<String>,
    /// Its text.
    pub content: String,
}

/// The passages of one document as one text.
pub fn assemble(passages: &[Passage]) -> String {
    let mut sorted: Vec<&Passage> = passages.iter().collect();
    sorted.sort_by_key(|passage| passage.chunk_no);
    sorted.dedup_by_key(|passage| passage.chunk_no);
    let mut text = String::new();
    let mut before: Option<&Passage> = None;
    for passage in sorted {
        let follows = before.is_some_and(|before| before.chunk_no + 1 == passage.chunk_no);
        let is_same_section = before.is_some_and(|before| before.headings == passage.headings);
        let shared =
            before.filter(|_| follows && is_same_section).map_or(0, |before| overlap(&before.content, passage));
        if !follows && (before.is_some() || passage.chunk_no > 1) {
            push_block(&mut text, LEFT_OUT);
        }
        if !is_same_section && !passage.headings.is_empty() && !passage.content.starts_with('#') {
            push_block(&mut text, &format!("## {}", passage.headings.join(" > ")));
        }
        match shared {
            0 => push_block(&mut text, &passage.content),
            shared => text.push_str(&passage.content[shared..]),
        }
        before = Some(passage);
    }
    if text.is_empty() { NOTHING_SENT.to_owned() } else { text }
}

fn push_block(text: &mut String, block: &str) {
    if !text.is_empty() {
        text.push_str("\n\n");
    }
    text.push_str(block);
}

/// How many bytes of a passage the passage before it ends with.
fn overlap(before: &str, passage: &Passage) -> usize {
    let mut ends = passage.content.char_indices().map(|(at, character)| at + character.len_utf8());
    ends.rfind(|end| before.ends_with(&passage.content[..*end])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passage(chunk_no: u32, heading: &str, content: &str) -> Passage {
        Passage { chunk_no, headings: vec![heading.to_owned()], content: content.to_owned() }
    }

    #[test]
    fn passages_stand_in_document_order_with_marks_between() {
        let text = assemble(&[passage(7, "B", "seven"), passage(2, "A", "# A\n\ntwo"), passage(8, "B", "eight")]);
        assert_eq!(text, "[…]\n\n# A\n\ntwo\n\n[…]\n\n## B\n\nseven\n\neight");
    }

    #[test]
    fn text_that_neighbours_share_stands_once() {
        let text = assemble(&[passage(1, "A", "one two. three four."), passage(2, "A", "three four. five.")]);
        assert_eq!(text, "## A\n\none two. three four. five.");
    }

    #[test]
    fn document_without_passages_says_so() {
        assert_eq!(assemble(&[]), NOTHING_SENT);
    }
}
