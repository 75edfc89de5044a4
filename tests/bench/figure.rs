//! A figure, the bound it must keep, and how both are shown: a table for people, JSON for scripts.
//!
//! Decides whether a figure holds; a row that broke never does. A bound on speed is a ratio to a floor of the same run
//! (`floor`); the figure itself is shown beside it. Measures nothing.

use crate::floor::Floor;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const COLUMNS: usize = 7;

/// What a figure must not cross.
#[derive(Clone, Copy)]
pub(crate) enum Bound {
    AtLeast(f64),
    AtMost(f64),
    Below(f64),
    /// For information.
    Free,
}

pub(crate) struct Figure {
    row: &'static str,
    what: String,
    unit: &'static str,
    measured: Option<f64>,
    bound: Bound,
    /// What the bound is a ratio to, and what that was before and after the row.
    floor: Option<Floor>,
    floors: Vec<f64>,
    with: Value,
}

impl Figure {
    /// `with` is what a script may want to know besides.
    pub(crate) fn new(what: impl Into<String>, measured: f64, unit: &'static str, bound: Bound, with: Value) -> Figure {
        let measured = Some(measured);
        Figure { row: "", what: what.into(), unit, measured, bound, floor: None, floors: Vec::new(), with }
    }

    /// A row without a figure, since what it measured was not sound.
    pub(crate) fn broken(row: &'static str, why: &str) -> Figure {
        let what = format!("broken: {}", why.lines().next().unwrap_or_default());
        let (floor, floors) = (None, Vec::new());
        Figure { row, what, unit: "", measured: None, bound: Bound::Free, floor, floors, with: Value::Null }
    }

    /// The bound is a ratio to this floor.
    pub(crate) fn against(self, floor: Floor) -> Figure {
        Figure { floor: Some(floor), ..self }
    }

    /// Of this row, which ran between these measurements of its floors.
    pub(crate) fn of(self, row: &'static str, measured: &[BTreeMap<Floor, f64>]) -> Figure {
        let floors = measured.iter().filter_map(|floors| floors.get(&self.floor?).copied()).collect();
        Figure { row, floors, ..self }
    }

    /// How many times the floor it is, between the floors before and after it.
    fn ratio(&self) -> Option<f64> {
        let mean = self.floors.iter().sum::<f64>() / self.floors.len() as f64;
        self.measured.map(|measured| measured / mean).filter(|ratio| ratio.is_finite())
    }

    pub(crate) fn holds(&self) -> bool {
        let judged = if self.floor.is_some() { self.ratio() } else { self.measured };
        judged.is_some_and(|measured| match self.bound {
            Bound::AtLeast(bound) => measured >= bound,
            Bound::AtMost(bound) => measured <= bound,
            Bound::Below(bound) => measured < bound,
            Bound::Free => true,
        })
    }

    fn verdict(&self) -> &'static str {
        match (self.holds(), self.bound) {
            (false, _) => "NO",
            (true, Bound::Free) => "",
            (true, _) => "yes",
        }
    }

    fn bound(&self) -> (&'static str, Option<f64>) {
        match self.bound {
            Bound::AtLeast(bound) => ("at_least", Some(bound)),
            Bound::AtMost(bound) => ("at_most", Some(bound)),
            Bound::Below(bound) => ("below", Some(bound)),
            Bound::Free => ("bound", None),
        }
    }

    fn cells(&self) -> [String; COLUMNS] {
        let with_unit = |number: f64| format!("{} {}", spell(number), self.unit).trim_end().to_owned();
        let bound = match (self.bound(), self.floor) {
            ((word, Some(bound)), None) => format!("{} {}", word.replace('_', " "), with_unit(bound)),
            ((word, Some(bound)), Some(_)) => format!("{} {} × floor", word.replace('_', " "), spell(bound)),
            ((_, None), _) => String::new(),
        };
        let measured = self.measured.map_or("-".to_owned(), with_unit);
        let between = self.floors.iter().map(|floor| spell(*floor)).collect::<Vec<_>>().join(", ");
        let floor = self.floor.map_or(String::new(), |floor| format!("{between} {}", floor.what()));
        let ratio = self.ratio().map_or(String::new(), |ratio| format!("{} ×", spell(ratio)));
        [self.row.to_owned(), self.what.clone(), measured, floor, ratio, bound, self.verdict().to_owned()]
    }

    fn json(&self) -> Value {
        let (word, bound) = self.bound();
        json!({
            "row": self.row, "what": self.what, "measured": self.measured, "unit": self.unit, word: bound,
            "floor": self.floor.map(Floor::what), "floors": self.floors, "ratio": self.ratio(),
            "ok": self.holds(), "with": self.with
        })
    }
}

/// Three digits that count, thousands apart.
fn spell(number: f64) -> String {
    let digits = match number.abs() {
        n if n >= 100.0 || n == n.trunc() => 0,
        n if n >= 10.0 => 1,
        _ => 2,
    };
    let plain = format!("{number:.digits$}");
    let (whole, rest) = plain.split_once('.').map_or((plain.as_str(), String::new()), |(w, r)| (w, format!(".{r}")));
    let mut grouped = String::new();
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place) % 3 == 0 && !grouped.ends_with('-') {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped + &rest
}

pub(crate) fn table(figures: &[Figure], machine: &Value) -> String {
    let head = ["", "what", "measured", "floor before, after", "ratio", "at least / at most", "ok"].map(str::to_owned);
    let lines: Vec<[String; COLUMNS]> = std::iter::once(head).chain(figures.iter().map(Figure::cells)).collect();
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..COLUMNS).map(width).collect();
    let mut out = String::new();
    for line in &lines {
        // Numbers stand at the right.
        let cell = |column: usize| match column {
            2 | 4 => format!("{:>width$}", line[column], width = widths[column]),
            _ => format!("{:<width$}", line[column], width = widths[column]),
        };
        out += (0..COLUMNS).map(cell).collect::<Vec<_>>().join("  ").trim_end();
        out.push('\n');
    }
    if let Value::Object(facts) = machine {
        let shown = |value: &Value| value.as_str().map_or(value.to_string(), str::to_owned);
        let facts: Vec<String> = facts.iter().map(|(name, value)| format!("{name} {}", shown(value))).collect();
        out += &format!("{}\n", facts.join(", "));
    }
    out
}

pub(crate) fn json(figures: &[Figure], machine: &Value) -> Value {
    json!({
        "ok": figures.iter().all(Figure::holds),
        "machine": machine,
        "figures": figures.iter().map(Figure::json).collect::<Vec<_>>()
    })
}

/// The middle one; of an even number the lower of the two.
pub(crate) fn median(values: &[f64]) -> f64 {
    percentile(values, 50)
}

/// The smallest value that so many in a hundred do not exceed.
pub(crate) fn percentile(values: &[f64], hundredths: usize) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[(sorted.len() * hundredths).div_ceil(100).saturating_sub(1)]
}
