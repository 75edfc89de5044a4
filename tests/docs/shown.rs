//! The tables that pages show below their examples: each row is in what psql printed.
//!
//! Rows with a time, an id or an ellipsis are different every time and are not compared.

use crate::markdown::Document;
use std::collections::HashSet;

/// The rows of tables in `text` blocks, each with the number of its line. A table begins below a line of dashes.
fn rows(page: &Document) -> Vec<(usize, String)> {
    let mut rows = Vec::new();
    for block in page.blocks().into_iter().filter(|block| block.language == "text") {
        let mut is_table = false;
        for (number, line) in block.lines.iter().enumerate() {
            let is_rule = line.contains("--") && line.chars().all(|c| matches!(c, '-' | '+'));
            let is_end = line.trim().is_empty() || line.starts_with('(');
            if is_table && !is_end && is_fixed(line) {
                rows.push((block.line + number + 1, plain(line)));
            }
            is_table = is_rule || (is_table && !is_end);
        }
    }
    rows
}

fn is_fixed(line: &str) -> bool {
    let is_id = |word: &str| word.len() == 36 && word.matches('-').count() == 4;
    let is_time = |word: &str| word.contains(':') && word.chars().all(|c| c.is_ascii_digit() || matches!(c, ':' | '.'));
    let is_dated = line.split_whitespace().any(|word| word.starts_with("20") && word.matches('-').count() == 2);
    !line.contains('…') && !is_dated && !line.split([' ', '|', '(', ')']).any(|word| is_id(word) || is_time(word))
}

/// A row without the padding of its cells.
fn plain(line: &str) -> String {
    line.split('|').map(|cell| cell.trim().trim_end_matches('+').trim_end()).collect::<Vec<_>>().join("|")
}

/// Every row that the page shows is in the output.
pub(crate) fn check(page: &Document, output: &str) {
    let printed: HashSet<String> = output.lines().map(plain).collect();
    let missing: Vec<String> = rows(page)
        .into_iter()
        .filter(|(_, row)| !printed.contains(row))
        .map(|(line, row)| format!("{}:{line}: {row}", page.path))
        .collect();
    assert!(missing.is_empty(), "psql did not print these rows: {missing:#?}");
}

#[test]
fn rows_are_those_below_a_line_of_dashes() {
    let text = "```text\n name | n\n------+---\n a    | 1\n b    | 00:00:01.5\n(2 rows)\n\nNOTICE: x\n```\n";
    let page = Document { path: "page.md".to_owned(), text: text.to_owned() };
    assert_eq!(rows(&page), [(4, "a|1".to_owned())]);
    check(&page, "a|1\n");
}
