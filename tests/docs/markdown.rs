//! Reads Markdown as far as the tests need it: blocks, headings with their anchors, links.
//!
//! Decides what counts as a block that runs. Never runs anything.

use std::path::{Path, PathBuf};

/// A file of the checkout, by its path from the root.
pub(crate) struct Document {
    pub(crate) path: String,
    pub(crate) text: String,
}

/// A fenced block or a setup comment.
pub(crate) struct Block {
    /// The word after the fence, `setup` for a comment, or `setup provider`.
    pub(crate) language: String,
    /// The number of its first line, the fence or the comment's opening, from 1 on.
    pub(crate) line: usize,
    /// The lines between the first and the last.
    pub(crate) lines: Vec<String>,
}

pub(crate) const PROVIDER: &str = "setup provider";

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the checkout")
}

impl Document {
    pub(crate) fn read(path: &str) -> Option<Document> {
        let text = std::fs::read_to_string(root().join(path)).ok()?;
        Some(Document { path: path.to_owned(), text })
    }

    pub(crate) fn is_reference(&self) -> bool {
        self.path.starts_with("docs/reference/")
    }

    pub(crate) fn line_count(&self) -> usize {
        self.text.lines().count()
    }

    /// Fenced blocks and setup comments, in order.
    pub(crate) fn blocks(&self) -> Vec<Block> {
        let mut blocks: Vec<Block> = Vec::new();
        let mut end: Option<String> = None;
        for (number, line) in self.text.lines().enumerate() {
            let trimmed = line.trim();
            if let Some(closing) = &end {
                if trimmed == closing {
                    end = None;
                } else if let Some(block) = blocks.last_mut() {
                    block.lines.push(line.to_owned());
                }
                continue;
            }
            let language = if let Some(word) = trimmed.strip_prefix("```") {
                end = Some("```".to_owned());
                word
            } else if trimmed == "<!-- setup provider -->" {
                PROVIDER
            } else if trimmed == "<!-- setup" {
                end = Some("-->".to_owned());
                "setup"
            } else {
                continue;
            };
            blocks.push(Block { language: language.to_owned(), line: number + 1, lines: Vec::new() });
        }
        assert!(end.is_none(), "{}: the last block has no end", self.path);
        blocks
    }

    /// The lines with those of blocks left empty.
    pub(crate) fn prose(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.text.lines().map(str::to_owned).collect();
        for block in self.blocks().iter().filter(|block| block.language != PROVIDER) {
            lines[block.line - 1..=block.line + block.lines.len()].iter_mut().for_each(String::clear);
        }
        lines
    }

    /// The anchors that a code host gives to the headings, and those that are written out.
    pub(crate) fn anchors(&self) -> Vec<String> {
        let mut anchors: Vec<String> = Vec::new();
        for line in self.prose() {
            if let Some(heading) = line.strip_prefix('#') {
                let slug = slug(heading.trim_start_matches('#').trim());
                let same = anchors.iter().filter(|anchor| is_numbered(anchor, &slug)).count();
                anchors.push(if same == 0 { slug } else { format!("{slug}-{same}") });
            }
            let written = ["id=\"", "name=\""].iter().filter_map(|mark| line.split_once(mark)?.1.split('"').next());
            anchors.extend(written.map(str::to_owned).collect::<Vec<_>>());
        }
        anchors
    }

    /// Where links and images lead, each with the number of its line.
    pub(crate) fn links(&self) -> Vec<(usize, String)> {
        let mut links = Vec::new();
        for (number, line) in self.prose().iter().enumerate() {
            let line = without_code(line);
            let targets = line.match_indices("](").filter_map(|(at, _)| line[at + 2..].split([')', ' ']).next());
            let images = line.match_indices("src=\"").filter_map(|(at, _)| line[at + 5..].split('"').next());
            links.extend(targets.chain(images).map(|target| (number + 1, target.to_owned())));
        }
        links
    }
}

/// README.md, the other pages at the root, and all of docs/, in order.
pub(crate) fn documents() -> Vec<Document> {
    let mut paths: Vec<String> =
        ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"].map(str::to_owned).into();
    let mut folders = vec![root().join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("docs/") {
            let path: PathBuf = entry.expect("an entry of docs/").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "md") {
                let path = path.strip_prefix(root()).expect("a path in the checkout");
                paths.push(path.to_str().expect("UTF-8").to_owned());
            }
        }
    }
    paths.sort();
    paths.iter().filter_map(|path| Document::read(path)).collect()
}

fn is_numbered(anchor: &str, slug: &str) -> bool {
    match anchor.strip_prefix(slug) {
        Some("") => true,
        Some(rest) => rest.strip_prefix('-').is_some_and(|number| number.parse::<u32>().is_ok()),
        None => false,
    }
}

/// What GitHub makes of a heading.
fn slug(heading: &str) -> String {
    let mut text = String::new();
    let mut rest = heading;
    // Of a link the words stay.
    while let Some((before, link)) = rest.split_once('[') {
        let Some((words, after)) = link.split_once("](") else { break };
        text.push_str(before);
        text.push_str(words);
        rest = after.split_once(')').map_or("", |(_, after)| after);
    }
    text.push_str(rest);
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    text.to_lowercase().chars().filter(kept).map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("``")
}

#[test]
fn headings_become_the_anchors_of_github() {
    let text = "# What it is, & why?\n## `run()` and [wait](x.md)\n## Same\n## Same\n```text\n# not a heading\n```\n";
    let document = Document { path: "page.md".to_owned(), text: text.to_owned() };
    assert_eq!(document.anchors(), ["what-it-is--why", "run-and-wait", "same", "same-1"]);
}

#[test]
fn blocks_have_their_language_and_their_lines() {
    let text =
        "<!-- setup\ncreate role app;\n-->\n\n```sql\nselect 1;\n```\n<!-- setup provider -->\n[a](b.md) `[c](d.md)`\n";
    let document = Document { path: "page.md".to_owned(), text: text.to_owned() };
    let blocks: Vec<(String, usize, usize)> =
        document.blocks().into_iter().map(|block| (block.language, block.line, block.lines.len())).collect();
    let expected = [("setup", 1, 1), ("sql", 5, 1), (PROVIDER, 8, 0)];
    assert_eq!(blocks, expected.map(|(language, line, lines)| (language.to_owned(), line, lines)));
    assert_eq!(document.links(), [(9, "b.md".to_owned())]);
}
