//! docs/job-states.md says what the tables job_statuses and job_transitions say.

use crate::markdown::Document;
use dialectic_tests::server::Server;
use dialectic_tests::*;
use std::collections::BTreeSet;

const PAGE: &str = "docs/job-states.md";

/// The moves of the block whose lines are `from → to, to,`; a line without an arrow goes on with the one before.
fn moves(page: &Document) -> BTreeSet<(String, String)> {
    let blocks = page.blocks();
    let block = blocks.iter().find(|block| block.lines.first().is_some_and(|line| line.contains(" → ")));
    let (mut moves, mut from) = (BTreeSet::new(), String::new());
    for line in &block.unwrap_or_else(|| panic!("{PAGE}: a block of moves")).lines {
        let targets = match line.split_once(" → ") {
            Some((name, targets)) => {
                from = name.trim().to_owned();
                targets
            }
            None => line,
        };
        let names = targets.split(',').map(str::trim).filter(|name| !name.is_empty());
        moves.extend(names.map(|name| (from.clone(), name.to_owned())));
    }
    moves
}

/// Rows of the table whose first cell is a status: the status and its phase.
fn phases(page: &Document) -> Vec<(String, String)> {
    let row = |line: &String| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let status = cells.get(1)?.strip_prefix('`')?.strip_suffix('`')?;
        Some((status.to_owned(), (*cells.get(2)?).to_owned()))
    };
    page.prose().iter().filter_map(row).collect()
}

#[test]
fn job_states_are_those_of_the_database() {
    let page = Document::read(PAGE).expect(PAGE);
    let (_server, mut client) = Server::serving("");
    let pairs = |client: &mut postgres::Client, query: &str| -> Vec<(String, String)> {
        client.query(query, &[]).expect(query).iter().map(|row| (row.get(0), row.get(1))).collect()
    };
    let legal = pairs(&mut client, "select from_status, to_status from dialectic.job_transitions");
    let (legal, drawn) = (legal.into_iter().collect::<BTreeSet<_>>(), moves(&page));
    let (missing, wrong): (Vec<_>, Vec<_>) = (legal.difference(&drawn).collect(), drawn.difference(&legal).collect());
    assert!(missing.is_empty() && wrong.is_empty(), "not on the page: {missing:#?}\nnot in the table: {wrong:#?}");

    let mut statuses = pairs(&mut client, "select status, phase from dialectic.job_statuses");
    let mut listed = phases(&page);
    statuses.sort();
    listed.sort();
    assert_eq!(listed, statuses, "statuses and their phases");
    assert_sound(&mut client);
}
