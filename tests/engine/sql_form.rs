//! The form of the files below sql/: a function has at most 60 lines, a file at most 400. Nothing runs here.

use std::fs;
use std::path::{Path, PathBuf};

const FUNCTION_LINES: usize = 60;
const FILE_LINES: usize = 400;

/// Longer functions that are still to be taken apart.
const LONG_FUNCTIONS: [&str; 5] =
    ["_keep_replies", "_update_cooldowns", "handle_job_completion", "_settle", "_open_calls"];

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
            if lines > FUNCTION_LINES && !LONG_FUNCTIONS.contains(&name.as_str()) {
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
