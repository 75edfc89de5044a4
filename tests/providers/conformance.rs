//! Dialects × cases: every cell is a job worked end to end against a scripted provider, and compared with what has to come of it.
//!
//! Each cell has a provider and a model of its own, so that no clock moves another's. The table of what was seen is printed and
//! kept in target/test-logs/conformance.md. Never looks inside the server: the tables say all there is to compare.

use crate::cases::{Case, PATIENCE, Row, all};
use crate::ground;
use dialectic_core::provider::dialect::Dialect;
use dialectic_tests::fake_provider::{Provider, folder};
use dialectic_tests::*;
use postgres::Client;
use std::collections::HashSet;
use std::path::PathBuf;

/// A job of one case in one dialect.
struct Cell {
    dialect: Dialect,
    case: usize,
    /// The provider's name and the model's.
    name: String,
    session: Uuid,
}

fn begin(
    client: &mut Client,
    provider: &Provider,
    project: Uuid,
    dialect: Dialect,
    number: usize,
    case: &Case,
) -> Cell {
    let name = format!("{}-{number}", folder(dialect));
    let (api, settings) = ground::catalogued(dialect);
    provider.script(&name, case.acts.clone());
    client
        .execute(
            "select dialectic.add_provider($1, $2, $3, settings => $4::text::jsonb)",
            &[&name, &api, &provider.base_url(api), &case.settings],
        )
        .expect("add_provider");
    client
        .execute("select dialectic.add_model($1, $1, $1, settings => $2::text::jsonb)", &[&name, &settings])
        .expect("add_model");
    let session = ground::begin(client, project, &name);
    Cell { dialect, case: number, name, session }
}

/// What the tables say of a cell.
fn seen(client: &mut Client, cell: &Cell) -> Row {
    let job = client
        .query_one(
            "select j.status, j.attempt_count, \
                    (select c.content from dialectic.contributions c where c.job_id = j.id order by c.chunk_no desc limit 1) \
             from dialectic.jobs j where j.session_id = $1 and j.kind = 'execute'",
            &[&cell.session],
        )
        .expect("one job");
    let calls = column(
        client,
        "select concat_ws(' ', c.outcome, c.error_class, c.http_status, c.finish_reason, \
                          case when c.outcome = 'answered' and c.is_estimated then 'estimated' end) \
         from dialectic.model_calls c where c.session_id = $1 order by c.started_at, c.claim_id",
        &[&cell.session],
    );
    Row { job: job.get(0), attempts: job.get(1), calls, clock: clock(client, cell), text: job.get(2) }
}

fn clock(client: &mut Client, cell: &Cell) -> String {
    let found = client
        .query_opt(
            "select c.paused_reason is not null, c.model <> '', \
                    extract(epoch from c.free_at - (select max(m.finished_at) from dialectic.model_calls m \
                                                    where m.session_id = $2))::float8 \
             from dialectic.provider_cooldowns c where c.provider = $1",
            &[&cell.name, &cell.session],
        )
        .expect("one clock at most");
    let Some(found) = found else { return "still".to_owned() };
    match (found.get(0), found.get(1), found.get::<_, Option<f64>>(2)) {
        (true, false, _) => "paused".to_owned(),
        (true, true, _) => "paused for the model".to_owned(),
        // Forms that know whole seconds round up.
        (false, _, Some(by)) if (by - PATIENCE.as_secs_f64()).abs() < 2.0 => {
            format!("moved by {} s", PATIENCE.as_secs())
        }
        (false, _, Some(by)) if by > 0.0 => format!("moved by {by:.1} s"),
        _ => "still".to_owned(),
    }
}

/// The table in Markdown; a cell that is not as it has to be says what it has to be.
fn table(cases: &[Case], rows: &[(Dialect, usize, Row)]) -> String {
    let mut out = String::from("| case |");
    Dialect::ALL.iter().for_each(|dialect| out.push_str(&format!(" {} |", folder(*dialect))));
    out.push_str(&format!("\n|---{}|\n", "|---".repeat(Dialect::ALL.len())));
    for (number, case) in cases.iter().enumerate() {
        out.push_str(&format!("| {} |", case.name));
        for dialect in Dialect::ALL {
            let row = rows.iter().find(|(one, of, _)| (*one, *of) == (dialect, number)).map(|(.., row)| row);
            let expected = (case.expected)(dialect);
            match row {
                Some(row) if *row == expected => out.push_str(&format!(" {row} |")),
                Some(row) => out.push_str(&format!(" **{row}** but has to be: {expected} |")),
                None => out.push_str(" **empty** |"),
            }
        }
        out.push('\n');
    }
    out
}

fn keep(table: &str) {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target.unwrap_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../target")));
    let folder = target.join("test-logs");
    std::fs::create_dir_all(&folder).expect("target/test-logs");
    std::fs::write(folder.join("conformance.md"), table).expect("conformance.md");
}

#[test]
fn every_case_has_a_name_of_its_own_and_says_what_has_to_come_of_it_in_every_dialect() {
    let cases = all();
    let names: HashSet<&str> = cases.iter().map(|case| case.name.as_str()).collect();
    assert_eq!(names.len(), cases.len());
    for (case, dialect) in cases.iter().flat_map(|case| Dialect::ALL.map(|dialect| (case, dialect))) {
        let row = (case.expected)(dialect);
        assert_eq!(row.job == "completed", row.text.is_some_and(|text| !text.is_empty()), "{dialect:?} {}", case.name);
    }
}

#[test]
fn every_case_comes_to_what_it_has_to_in_every_dialect() {
    let (provider, database) = (Provider::start(), Database::new());
    let mut client = database.connect();
    ground::process(&mut client);
    // One answer is one call here; how an answer that was cut off goes on has laws of its own.
    ground::configure(&mut client, "max_continuations", "0");
    let project = ground::project(&mut client, 1);
    let cases = all();
    let mut cells = Vec::new();
    for dialect in Dialect::ALL {
        for (number, case) in cases.iter().enumerate() {
            cells.push(begin(&mut client, &provider, project, dialect, number, case));
        }
    }
    work(&mut client);
    let rows: Vec<(Dialect, usize, Row)> =
        cells.iter().map(|cell| (cell.dialect, cell.case, seen(&mut client, cell))).collect();
    let table = table(&cases, &rows);
    println!("{table}");
    keep(&table);
    let requests = provider.requests();
    for (cell, (.., row)) in cells.iter().zip(&rows) {
        let came = requests.iter().filter(|request| request.model == cell.name).count();
        assert_eq!(came, row.calls.len(), "{}: every request is a call in the table, and none is followed", cell.name);
    }
    let wrong: Vec<String> = cells
        .iter()
        .zip(&rows)
        .filter(|(cell, (dialect, _, row))| *row != (cases[cell.case].expected)(*dialect))
        .map(|(cell, (dialect, _, row))| format!("{dialect:?}, {}: {row:?}", cases[cell.case].name))
        .collect();
    assert!(wrong.is_empty(), "{} cells of {}: {wrong:#?}", wrong.len(), cells.len());
    assert_sound(&mut client);
}
