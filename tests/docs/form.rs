//! How long pages and their lines may be, and which blocks they may have.

use crate::markdown::{Document, PROVIDER, documents};

/// Characters in a line, reference aside.
const WIDEST: usize = 120;
/// Blocks that run, and blocks that only show something.
const LANGUAGES: [&str; 12] =
    ["sql", "python", "js", "setup", PROVIDER, "text", "console", "ini", "json", "yaml", "jinja", "dockerfile"];

fn most_lines(path: &str) -> usize {
    match path {
        "README.md" => 200,
        "docs/README.md" => 60,
        "CONTRIBUTING.md" | "docs/architecture.md" | "docs/job-states.md" => 120,
        _ => 250,
    }
}

fn pages() -> Vec<Document> {
    documents().into_iter().filter(|page| !page.is_reference()).collect()
}

#[test]
fn pages_are_short() {
    let long: Vec<String> = pages()
        .iter()
        .filter(|page| page.line_count() > most_lines(&page.path))
        .map(|page| format!("{}: {} lines, at most {}", page.path, page.line_count(), most_lines(&page.path)))
        .collect();
    assert!(long.is_empty(), "{long:#?}");
}

#[test]
fn readme_has_at_most_ten_kilobytes() {
    let readme = Document::read("README.md").expect("README.md");
    assert!(readme.text.len() <= 10 * 1024, "README.md has {} bytes", readme.text.len());
}

#[test]
fn lines_are_short() {
    let mut long = Vec::new();
    for page in pages() {
        for (number, line) in page.text.lines().enumerate() {
            if line.chars().count() > WIDEST {
                long.push(format!("{}:{}: {} columns", page.path, number + 1, line.chars().count()));
            }
        }
    }
    assert!(long.is_empty(), "{long:#?}");
}

#[test]
fn pages_begin_with_their_title() {
    let without: Vec<String> =
        documents().into_iter().filter(|page| !page.text.starts_with("# ")).map(|page| page.path).collect();
    assert!(without.is_empty(), "{without:#?}");
}

/// A block in another language, such as psql or javascript, would not run.
#[test]
fn blocks_are_of_a_known_language() {
    let mut unknown = Vec::new();
    for page in pages() {
        for block in page.blocks() {
            if !LANGUAGES.contains(&block.language.as_str()) {
                unknown.push(format!("{}:{}: \"{}\"", page.path, block.line, block.language));
            }
        }
    }
    assert!(unknown.is_empty(), "{unknown:#?}");
}

#[test]
fn words_that_users_search_for_are_in_the_pages() {
    let words = [
        "LISTEN",
        "webhook",
        "Python",
        "Node",
        "cron",
        "delete",
        "retention",
        "export",
        "backup",
        "upgrade",
        "metrics",
        "alert",
        "judge",
        "batch",
        "troubleshooting",
        "RDS",
        "Supabase",
    ];
    let text: String = pages().iter().map(|page| page.prose().join("\n")).collect::<Vec<_>>().join("\n");
    // "alerts" will do for "alert", and "Batch" for "batch"; names are written as they are.
    let begins = |one: &str, word: &str| one.starts_with(word) || one.to_lowercase().starts_with(word);
    let is_word = |word: &str| text.split(|c: char| !c.is_alphanumeric()).any(|one| begins(one, word));
    let missing: Vec<&str> = words.into_iter().filter(|word| !is_word(word)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
