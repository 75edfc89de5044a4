//! Runs the blocks of a page in order: SQL in one psql session, Python and Node.js as a file each, in their place.
//!
//! Each page has a private server, because pages create roles and change settings of the server. No call leaves the
//! machine: only 127.0.0.1 may be called, and a page that wants a model of OpenAI asks for the scripted provider. The
//! script that psql reads has the same line numbers as the page.

use crate::markdown::{Block, Document, PROVIDER, root};
use crate::shown;
use dialectic_tests::fake_provider::{Act, Provider, Seen};
use dialectic_tests::server::{Server, worker};
use dialectic_tests::*;
use postgres::Client;
use std::path::PathBuf;
use std::process::Command;

const DATABASE: &str = "page";
/// Seconds that a page may take.
const LONGEST: &str = "120";
const CONFIGURATION: &str = "shared_preload_libraries = 'pg_dialectic, pg_cron'\ncron.database_name = 'page'\n\
                             cron.use_background_workers = on\ndialectic.allowed_hosts = '127.0.0.1'";
/// The variable of the server that holds the key of the scripted provider.
const VARIABLE: &str = "DIALECTIC_OPENAI_API_KEY";
const KEY: &str = "sk-of-the-docs";
const PYTHON: &str = "/usr/bin/python3";

/// A page that was run without an error.
pub(crate) struct Ran {
    /// What psql and the programs printed, without headers and with | between columns.
    pub(crate) output: String,
    /// A connection to the database of the page.
    pub(crate) client: Client,
    _server: Server,
}

/// Runs a page; an error of a block is a failure.
pub(crate) fn run(path: &str) -> Ran {
    let page = Document::read(path).unwrap_or_else(|| panic!("there is no page {path}"));
    let blocks = page.blocks();
    let server = Server::in_environment(CONFIGURATION, &[(VARIABLE, KEY)]);
    server.connect("postgres").batch_execute(&format!("create database {DATABASE}")).expect("a database");
    if !creates_extension(&blocks) {
        let mut client = server.connect(DATABASE);
        server::create_extension(&mut client);
        server::soon("the database is served", || worker(&mut client).is_some());
    }
    let provider = Provider::start();
    provider.script("*", vec![Act::shaped("The scripted provider answers.")]);
    let output = printed(&page, &server, &provider).unwrap_or_else(|problem| panic!("{path}: {problem}"));

    shown::check(&page, &output);
    let mut client = server.connect(DATABASE);
    if one(&mut client, "select exists (select from pg_extension where extname = 'pg_dialectic')", &[]) {
        assert_sound(&mut client);
    }
    if blocks.iter().any(|block| block.language == PROVIDER) {
        let requests = provider.requests();
        assert!(!requests.is_empty(), "{path}: no model of the scripted provider was called");
        let is_keyed = |one: &Seen| one.header("authorization") == Some(&format!("Bearer {KEY}"));
        assert!(requests.iter().all(is_keyed), "{path}: a request without the key of the server's environment");
    }
    Ran { output, client, _server: server }
}

/// What psql and the programs print for a page, or what went wrong.
fn printed(page: &Document, server: &Server, provider: &Provider) -> Result<String, String> {
    let blocks = page.blocks();
    let name = page.path.replace('/', "-");
    let folder = Folder::new(&name);
    let write = |file: &str, text: String| std::fs::write(folder.0.join(file), text).expect("a file for psql");
    write(&name, script_of(page, &blocks, &provider.base_url("openai")));
    blocks
        .iter()
        .filter(|block| program(block).is_some())
        .for_each(|block| write(&file_of(block), block.lines.join("\n")));
    // `timeout` ends the programs too: they are in its process group.
    let done = Command::new("timeout")
        .arg(LONGEST)
        .arg(server.program("psql"))
        .args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--set", "ON_ERROR_STOP=1", "--file", &name])
        .envs(server.environment(DATABASE))
        .current_dir(&folder.0)
        .output()
        .expect("psql");
    let output = String::from_utf8_lossy(&done.stdout).into_owned();
    let failed = std::fs::read_to_string(folder.0.join("failed")).unwrap_or_default();
    if done.status.success() && failed.is_empty() {
        return Ok(output);
    }
    let late = if done.status.code() == Some(124) { "it took too long\n" } else { "" };
    let errors = String::from_utf8_lossy(&done.stderr);
    Err(format!("{}\n{failed}{late}{errors}\nthe end of the output:\n{}", done.status, tail(&output)))
}

fn creates_extension(blocks: &[Block]) -> bool {
    let creates = |line: &String| {
        let line = line.to_lowercase();
        line.contains("create extension") && line.contains("pg_dialectic")
    };
    blocks.iter().any(|block| is_sql(block) && block.lines.iter().any(creates))
}

fn is_sql(block: &Block) -> bool {
    ["sql", "setup"].contains(&block.language.as_str())
}

/// What runs a block that is a program.
fn program(block: &Block) -> Option<&'static str> {
    match block.language.as_str() {
        "python" => Some(PYTHON),
        "js" => Some("node"),
        _ => None,
    }
}

fn file_of(block: &Block) -> String {
    let ending = if block.language == "js" { "cjs" } else { "py" };
    format!("line-{}.{ending}", block.line)
}

/// What psql reads: the lines that run, each at its place in the page, and empty lines for the others.
fn script_of(page: &Document, blocks: &[Block], base_url: &str) -> String {
    let mut lines = vec![String::new(); page.line_count()];
    for block in blocks {
        let first = block.line - 1;
        if is_sql(block) {
            lines[first + 1..].iter_mut().zip(&block.lines).for_each(|(line, sql)| line.clone_from(sql));
        } else if block.language == PROVIDER {
            let secret = format!("env:{VARIABLE}");
            lines[first] =
                format!("select dialectic.add_provider('openai', 'openai', '{base_url}', secret => '{secret}');");
        } else if let Some(program) = program(block) {
            let (line, file) = (block.line, file_of(block));
            lines[first] = format!(r"\! {program} {file} || echo '{}:{line}: the program failed' >>failed", page.path);
        }
    }
    lines.join("\n") + "\n"
}

fn tail(output: &str) -> String {
    let lines: Vec<&str> = output.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}

/// A folder under target/, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
        let folder = target.join(format!("docs-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        Folder(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn errors_name_the_line_of_the_page() {
    let text = "# Page\n\n```sql\nselect 40 + 2;\n```\n```python\nraise SystemExit(3)\n```\n\n```js\nrequire('pg');\n\
                ```\n<!-- setup\nselect 1;\nselect 1 / 0;\n-->\n";
    let page = Document { path: "docs/page.md".to_owned(), text: text.to_owned() };
    let server = Server::with("");
    server.connect("postgres").batch_execute(&format!("create database {DATABASE}")).expect("a database");
    let problem = printed(&page, &server, &Provider::start()).expect_err("a page with two errors");
    for part in ["docs/page.md:6: the program failed", "psql:docs-page.md:15: ERROR:  division by zero", "\n42"] {
        assert!(problem.contains(part), "no \"{part}\" in {problem}");
    }
    assert!(!problem.contains("docs/page.md:10"), "{problem}");
}
