//! What the engine promises in numbers, measured on a real server: one file a row.
//!
//! `dev/bench` gives the server. The rows named as arguments run in the order below, each in databases of its own; the table
//! goes to stdout, the JSON to the file that BENCH_JSON names. A row counts only if its rows add up and self_check() finds
//! nothing. The floors of a row are measured before and after it. Ends with 1 when a figure misses its bound; `compare`
//! judges the JSON of two builds instead. Decides no figure itself, and never makes the server less safe.

mod calls;
mod cancel;
mod claim;
mod compare;
mod fan_in;
mod figure;
mod floor;
mod ground;
mod http;
mod idle;
mod in_flight;
mod latency;
mod loopback;
mod memory;
mod pages;
mod process;
mod soak;
mod streams;
mod tokens;

use figure::Figure;
use floor::Floor;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::Instant;

/// A name, whether it runs without being named, what it measures, and the floors that its bounds are ratios to.
type Row = (&'static str, bool, fn() -> Vec<Figure>, &'static [Floor]);

const ROWS: [Row; 14] = [
    ("calls", true, calls::measure, &[Floor::Calls]),
    ("http", true, http::measure, &[Floor::Calls]),
    ("streams", true, streams::measure, &[Floor::Batch]),
    ("cancel", true, cancel::measure, &[Floor::Wake]),
    ("fan-in", true, fan_in::measure, &[]),
    ("in-flight", true, in_flight::measure, &[Floor::Calls]),
    ("latency", true, latency::measure, &[Floor::Wake, Floor::SlowWake]),
    ("idle", true, idle::measure, &[]),
    ("pages", true, pages::measure, &[]),
    ("claim", true, claim::measure, &[Floor::Claim]),
    ("tokens", true, tokens::measure, &[Floor::Connection]),
    ("memory", true, memory::measure, &[]),
    ("memory-index", false, memory::measure_index, &[]),
    ("soak", false, soak::measure, &[]),
];

fn main() -> ExitCode {
    let named: Vec<String> = std::env::args().skip(1).collect();
    if let [first, old, new] = named.as_slice()
        && first == "compare"
    {
        return compare::judge(old, new);
    }
    if let Some(unknown) = named.iter().find(|name| !ROWS.iter().any(|row| row.0 == *name)) {
        let known: Vec<&str> = ROWS.iter().map(|row| row.0).collect();
        eprintln!("error: no row {unknown}; there are: {}", known.join(" "));
        return ExitCode::from(2);
    }
    let load = ground::load();
    let mut figures = Vec::new();
    for (name, by_default, measure, floors) in ROWS {
        if named.is_empty() && !by_default || !named.is_empty() && !named.iter().any(|n| n == name) {
            continue;
        }
        eprintln!("…    {name}");
        let begun = Instant::now();
        // What broke a row has been printed; it takes no other row with it.
        let between = || (floor::measure(floors), measure(), floor::measure(floors));
        match catch_unwind(AssertUnwindSafe(between)) {
            Ok((before, measured, after)) => {
                let floors = [before, after];
                figures.extend(measured.into_iter().map(|figure| figure.of(name, &floors)));
            }
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
