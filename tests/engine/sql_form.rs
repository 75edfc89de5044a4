//! The form of the files below sql/: a function has at most 60 lines, a file at most 400, and the engine's SQL calls
//! Rust for little and has few functions that are planned at each call. Nothing of the engine runs here.

use dialectic_tests::*;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const FUNCTION_LINES: usize = 60;
const FILE_LINES: usize = 400;

fn sql_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder of sql/") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files.extend(sql_files(&path));
        } else if path.extension().is_some_and(|ending| ending == "sql") {
            files.push(path);
        }
    }
    files
}

/// The name and the number of lines of every function and procedure in a file.
fn functions(text: &str) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    let mut lines = text.lines();
    while let Some(first) = lines.next() {
        let Some(declared) = ["create function ", "create procedure "].iter().find_map(|verb| first.strip_prefix(verb))
        else {
            continue;
        };
        let name = declared.split('(').next().unwrap_or(declared).to_owned();
        let (mut count, mut line, mut end) = (1, first, None);
        loop {
            match line.trim() {
                "as $$" => end = Some("$$;"),
                "begin atomic" => end = Some("end;"),
                _ => {}
            }
            if end.map_or(line.ends_with(';'), |end| line == end) {
                break;
            }
            line = lines.next().unwrap_or_else(|| panic!("function {name} does not end"));
            count += 1;
        }
        found.push((name, count));
    }
    found
}

fn all() -> Vec<(PathBuf, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sql");
    let files: Vec<_> = sql_files(&folder)
        .into_iter()
        .map(|path| {
            let text = fs::read_to_string(&path).expect("a file of sql/");
            (path, text)
        })
        .collect();
    assert!(files.len() > 30, "{} files", files.len());
    files
}

#[test]
fn no_sql_function_is_longer_than_60_lines() {
    let mut count = 0;
    let mut long = Vec::new();
    for (path, text) in all() {
        for (name, lines) in functions(&text) {
            count += 1;
            if lines > FUNCTION_LINES {
                long.push(format!("{}: {name} has {lines} lines", path.display()));
            }
        }
    }
    assert!(long.is_empty(), "{long:#?}");
    assert!(count > 200, "only {count} functions were found");
}

#[test]
fn no_sql_file_is_longer_than_400_lines() {
    for (path, text) in all() {
        let lines = text.lines().count();
        assert!(lines <= FILE_LINES, "{} has {lines} lines", path.display());
    }
}

/// The Rust functions that the files of sql/engine call.
fn callbacks() -> BTreeSet<String> {
    let database = Database::unserved();
    let written_in_rust: Vec<String> = column(
        &mut database.connect(),
        "select p.proname::text from pg_proc p join pg_language l on l.oid = p.prolang \
         where p.pronamespace = 'dialectic'::regnamespace and l.lanname = 'c' and p.prosrc <> 'dialectic_call_as_owner' \
         and p.proname like '\\_%'",
        &[],
    );
    let engine = all().into_iter().filter(|(path, _)| path.components().any(|part| part.as_os_str() == "engine"));
    let code: String = engine
        .flat_map(|(_, text)| {
            text.lines().map(|line| line.split("--").next().unwrap_or_default().to_owned() + "\n").collect::<Vec<_>>()
        })
        .collect();
    let is_called = |name: &String| {
        code.match_indices(&format!("{name}(")).any(|(at, _)| {
            let before = code[..at].chars().next_back();
            !before.is_some_and(|letter| letter.is_alphanumeric() || letter == '_')
        })
    };
    written_in_rust.into_iter().filter(is_called).collect()
}

#[test]
fn sql_of_the_engine_calls_few_functions_of_rust() {
    let found: Vec<String> = callbacks().into_iter().collect();
    let expected = [
        "_catalog_changed",        // notification: caches of every process
        "_claim_with_lease",       // public verb claim_jobs, written in Rust
        "_core_breaker_threshold", // when the extension is installed: a constant for SQL
        "_has_fallback",           // view _closed_models, for blocked, health() and claim_jobs
        "_hold_claimer",           // server fact: the lock of a claimer
        "_notify_worker",          // notification: the worker
        "_now",
        "_plan_recipe",       // public function plan, written in Rust
        "_render_seed",       // public functions start_session, submit_stage and generate
        "_require_commits",   // server fact: whether maintain() may commit
        "_sent_messages",     // public function prompt, written in Rust
        "_settle_lost_calls", // deletion of a session with calls in flight
        "_uuid_v7",
        "_worker_state", // server fact
    ];
    assert_eq!(found, expected);
}

#[test]
fn few_functions_of_the_engine_are_planned_at_each_call() {
    let database = Database::unserved();
    // The planner does not inline a function in SQL that has settings or a subquery; each statement plans it again.
    let planned_again: Vec<String> = column(
        &mut database.connect(),
        "select p.proname::text from pg_proc p join pg_language l on l.oid = p.prolang \
         where p.pronamespace = 'dialectic'::regnamespace and l.lanname = 'sql' and not p.proretset \
         and (p.proconfig is not null or p.prosqlbody::text like '%:hasSubLinks true%')",
        &[],
    );
    let engine = all().into_iter().filter(|(path, _)| path.components().any(|part| part.as_os_str() == "engine"));
    let of_engine: BTreeSet<String> = engine.flat_map(|(_, text)| functions(&text)).map(|(name, _)| name).collect();
    let found: BTreeSet<&str> =
        planned_again.iter().map(String::as_str).filter(|name| of_engine.contains(*name)).collect();
    let expected = [
        "_claimer_key",      // when a claimer starts
        "_gap",              // a continuation
        "_insert_seed",      // a stage
        "_insert_stage_run", // a stage
        "_is_read",          // a further iteration
        "_live_claimers",    // another claimer is listed
        "_lock_void_claims", // a claimer died
        "_pause_after_loss", // a claimer died
        "_ready_status",     // resume, retry, the end of a prerequisite
        "_reopen_stage_run", // a regeneration
        "_server",           // when a claimer starts
    ];
    assert_eq!(found.into_iter().collect::<Vec<_>>(), expected);
}
