//! Whether a new build is no slower than an old one: the figures of alternating runs of both, as ratios to their floors.
//!
//! A build is a folder of `*.json` as `make bench` writes them. Decides by the medians; runs nothing.

use crate::figure::median;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

/// A new build that keeps this share of the old one's speed is no slower.
const NO_SLOWER: f64 = 0.95;

/// The ratio of a figure in every run; more is faster.
type Speeds = BTreeMap<String, Vec<f64>>;

/// Prints a table of the figures that both builds have, and ends with 1 when the new build is slower in one of them.
pub(crate) fn judge(old: &str, new: &str) -> ExitCode {
    let (old, new) = match (speeds(Path::new(old)), speeds(Path::new(new))) {
        (Ok(old), Ok(new)) => (old, new),
        (Err(problem), _) | (_, Err(problem)) => {
            eprintln!("error: {problem}");
            return ExitCode::from(2);
        }
    };
    let mut is_slower = false;
    for (what, before) in &old {
        let Some(after) = new.get(what) else { continue };
        let share = median(after) / median(before);
        let verdict = if share >= NO_SLOWER { "yes" } else { "NO" };
        is_slower |= share < NO_SLOWER;
        println!("{share:5.2}  {verdict:3}  {what}  (old {before:.3?}, new {after:.3?})");
    }
    let is_empty = !old.keys().any(|what| new.contains_key(what));
    if is_empty {
        eprintln!("error: the builds have no figure in common");
    }
    if is_slower || is_empty { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn speeds(folder: &Path) -> Result<Speeds, String> {
    let told = |problem: &dyn std::fmt::Display| format!("{}: {problem}", folder.display());
    let mut speeds = Speeds::new();
    for file in std::fs::read_dir(folder).map_err(|problem| told(&problem))? {
        let path = file.map_err(|problem| told(&problem))?.path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let text = std::fs::read_to_string(&path).map_err(|problem| told(&problem))?;
        let run: Value = serde_json::from_str(&text).map_err(|problem| told(&problem))?;
        for figure in run["figures"].as_array().into_iter().flatten() {
            let Some(ratio) = figure["ratio"].as_f64().filter(|ratio| *ratio > 0.0) else { continue };
            // Of what is bounded from above, less is faster.
            let speed = if figure["at_least"].is_number() { ratio } else { 1.0 / ratio };
            let what = format!("{}: {}", figure["row"].as_str().unwrap_or(""), figure["what"].as_str().unwrap_or(""));
            speeds.entry(what).or_default().push(speed);
        }
    }
    Ok(speeds)
}
