//! A figure, the bound it must keep, and how both are shown: a table for people, JSON for scripts.
//!
//! Decides whether a figure holds; a row that broke never does. Measures nothing.

use serde_json::{Value, json};

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
    with: Value,
}

impl Figure {
    /// `with` is what a script may want to know besides.
    pub(crate) fn new(what: impl Into<String>, measured: f64, unit: &'static str, bound: Bound, with: Value) -> Figure {
        Figure { row: "", what: what.into(), unit, measured: Some(measured), bound, with }
    }

    /// A row without a figure, since what it measured was not sound.
    pub(crate) fn broken(row: &'static str, why: &str) -> Figure {
        let what = format!("broken: {}", why.lines().next().unwrap_or_default());
        Figure { row, what, unit: "", measured: None, bound: Bound::Free, with: Value::Null }
    }

    pub(crate) fn of(self, row: &'static str) -> Figure {
        Figure { row, ..self }
    }

    pub(crate) fn holds(&self) -> bool {
        self.measured.is_some_and(|measured| match self.bound {
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

    fn cells(&self) -> [String; 5] {
        let with_unit = |number: f64| format!("{} {}", spell(number), self.unit).trim_end().to_owned();
        let bound = match self.bound() {
            (word, Some(bound)) => format!("{} {}", word.replace('_', " "), with_unit(bound)),
            (_, None) => String::new(),
        };
        let measured = self.measured.map_or("-".to_owned(), with_unit);
        [self.row.to_owned(), self.what.clone(), measured, bound, self.verdict().to_owned()]
    }

    fn json(&self) -> Value {
        let (word, bound) = self.bound();
        json!({
            "row": self.row, "what": self.what, "measured": self.measured, "unit": self.unit, word: bound,
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
    let head = ["", "what", "measured", "at least / at most", "ok"].map(str::to_owned);
    let lines: Vec<[String; 5]> = std::iter::once(head).chain(figures.iter().map(Figure::cells)).collect();
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..5).map(width).collect();
    let mut out = String::new();
    for line in &lines {
        let shown = format!(
            "{:<a$}  {:<b$}  {:>c$}  {:<d$}  {}",
            line[0],
            line[1],
            line[2],
            line[3],
            line[4],
            a = widths[0],
            b = widths[1],
            c = widths[2],
            d = widths[3]
        );
        out += shown.trim_end();
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
