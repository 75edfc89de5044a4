//! What the engine promises in numbers, measured on a real server: one file a row.
//!
//! `dev/bench` gives the server. The rows named as arguments run in the order below, each in databases of its own; the table
//! goes to stdout, the JSON to the file that BENCH_JSON names. A row counts only if its rows add up and self_check() finds
//! nothing. Ends with 1 when a figure misses its bound. Decides no figure itself, and never makes the server less safe.

mod calls;
mod cancel;
mod claim;
mod fan_in;
mod figure;
mod ground;
mod http;
mod idle;
mod in_flight;
mod latency;
mod loopback;
mod pages;
mod process;
mod soak;
mod streams;
mod tokens;

use figure::Figure;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::Instant;

/// A name, whether it runs without being named, and what it measures.
type Row = (&'static str, bool, fn() -> Vec<Figure>);

const ROWS: [Row; 12] = [
    ("calls", true, calls::measure),
    ("http", true, http::measure),
    ("streams", true, streams::measure),
    ("cancel", true, cancel::measure),
    ("fan-in", true, fan_in::measure),
    ("in-flight", true, in_flight::measure),
    ("latency", true, latency::measure),
    ("idle", true, idle::measure),
    ("pages", true, pages::measure),
    ("claim", true, claim::measure),
    ("tokens", true, tokens::measure),
    ("soak", false, soak::measure),
];

fn main() -> ExitCode {
    let named: Vec<String> = std::env::args().skip(1).collect();
    if let Some(unknown) = named.iter().find(|name| !ROWS.iter().any(|row| row.0 == *name)) {
        let known: Vec<&str> = ROWS.iter().map(|row| row.0).collect();
        eprintln!("error: no row {unknown}; there are: {}", known.join(" "));
        return ExitCode::from(2);
    }
    let load = ground::load();
    let mut figures = Vec::new();
    for (name, by_default, measure) in ROWS {
        if named.is_empty() && !by_default || !named.is_empty() && !named.iter().any(|n| n == name) {
            continue;
        }
        eprintln!("…    {name}");
        let begun = Instant::now();
        // What broke a row has been printed; it takes no other row with it.
        match catch_unwind(AssertUnwindSafe(measure)) {
            Ok(measured) => figures.extend(measured.into_iter().map(|figure| figure.of(name))),
            Err(why) => figures.push(Figure::broken(name, &message(why.as_ref()))),
        }
        eprintln!("     {name}: {:.1} s", begun.elapsed().as_secs_f64());
    }
    let machine = catch_unwind(|| ground::machine(load)).unwrap_or_default();
    print!("{}", figure::table(&figures, &machine));
    if let Ok(path) = std::env::var("BENCH_JSON") {
        let json = serde_json::to_string_pretty(&figure::json(&figures, &machine)).unwrap_or_default();
        if let Err(error) = std::fs::write(&path, json + "\n") {
            eprintln!("error: {path}: {error}");
            return ExitCode::FAILURE;
        }
    }
    if figures.iter().all(Figure::holds) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| Some((*panic.downcast_ref::<&str>()?).to_owned())).unwrap_or_default()
}
