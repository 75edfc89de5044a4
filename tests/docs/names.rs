//! Every `dialectic.name` that is written exists, and the reference names everything that is public.

use crate::markdown::{Document, documents};
use dialectic_tests::server::Server;
use dialectic_tests::*;
use postgres::Client;
use std::collections::HashSet;

/// A database with the extension whose connection has loaded the library, which brings the settings.
fn extended() -> (Server, Client) {
    let (server, mut client) = Server::serving("");
    client.execute("select dialectic._now()", &[]).expect("the library is loaded");
    (server, client)
}

const FUNCTIONS: &str = "select distinct proname::text from pg_proc where pronamespace = 'dialectic'::regnamespace \
                         and proname not like '\\_%' and prorettype <> 'trigger'::regtype";
const RELATIONS: &str = "select relname::text from pg_class where relnamespace = 'dialectic'::regnamespace \
                         and relkind in ('r', 'v') and relname not like '\\_%'";
const SETTINGS: &str = "select name from pg_settings where name like 'dialectic.%' \
                        union all select key from dialectic.configuration where is_shipped";

/// The names that follow `dialectic.`, each with the number of its line. A file name in a path is none.
fn named(page: &Document) -> Vec<(usize, String)> {
    let mut names = Vec::new();
    for (number, line) in page.text.lines().enumerate() {
        for (at, mark) in line.match_indices("dialectic.") {
            let before = line[..at].chars().next_back();
            let is_other = before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '/' | '.' | '-'));
            let rest = &line[at + mark.len()..];
            let name: String = rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
            if !is_other && !name.is_empty() {
                names.push((number + 1, name));
            }
        }
    }
    names
}

#[test]
fn names_in_the_pages_exist() {
    let (_server, mut client) = extended();
    let known: HashSet<String> = column(
        &mut client,
        "select proname::text from pg_proc where pronamespace = 'dialectic'::regnamespace \
         union select relname::text from pg_class where relnamespace = 'dialectic'::regnamespace \
         union select typname::text from pg_type where typnamespace = 'dialectic'::regnamespace",
        &[],
    )
    .into_iter()
    .collect();
    let mut unknown = Vec::new();
    for page in documents() {
        for (line, name) in named(&page) {
            let is_known = known.contains(&name)
                || one(&mut client, "select current_setting('dialectic.' || $1, true) is not null", &[&name]);
            if !is_known {
                unknown.push(format!("{}:{line}: dialectic.{name}", page.path));
            }
        }
    }
    assert!(unknown.is_empty(), "{unknown:#?}");
}

#[test]
fn reference_names_everything_public() {
    let (_server, mut client) = extended();
    let mut missing = Vec::new();
    for (path, query, form) in [
        ("docs/reference/functions.md", FUNCTIONS, "\n## NAME\n"),
        ("docs/reference/views.md", &*format!("{RELATIONS} and relkind = 'v'"), "\n## NAME\n"),
        ("docs/reference/tables.md", &*format!("{RELATIONS} and relkind = 'r'"), "\n## NAME\n"),
        ("docs/reference/settings.md", SETTINGS, "\n| `NAME` |"),
    ] {
        let page = Document::read(path).unwrap_or_else(|| panic!("{path}: make docs writes it"));
        for name in column::<String>(&mut client, query, &[]) {
            if !page.text.contains(&form.replace("NAME", &name)) {
                missing.push(format!("{path}: {name}"));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}
