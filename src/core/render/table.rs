//! Decides when a list of objects is a table, and writes it.
//!
//! It is one when there are at least two rows, few columns, and every cell fits on a line. A cell without a value shows
//! a dash. Never cuts a cell short: what does not fit is no table.

use super::generic::{is_blank, scalar};
use super::prose;
use super::words::title;
use serde_json::Value;
use std::collections::HashMap;

/// The most columns that can be read side by side.
const COLUMNS: usize = 7;
/// The longest cell, in bytes.
const CELL: usize = 180;
/// The longest row that still reads as one, on average.
const ROW: usize = 420;

/// A list of objects as a table, if it is one.
pub(super) fn table(records: &[&Value]) -> Option<String> {
    if records.len() < 2 {
        return None;
    }
    let mut columns: HashMap<&str, usize> = HashMap::new();
    let mut headings: Vec<&str> = Vec::new();
    let mut rows: Vec<Vec<String>> = Vec::with_capacity(records.len());
    let mut size = 0;
    for record in records {
        let mut row = vec![String::new(); headings.len()];
        for (key, value) in record.as_object()?.iter().filter(|(_, value)| !is_blank(value)) {
            let column = *columns.entry(key).or_insert_with(|| {
                headings.push(key);
                headings.len() - 1
            });
            if headings.len() > COLUMNS {
                return None;
            }
            row.resize(headings.len(), String::new());
            row[column] = cell(value)?;
            size += row[column].len();
        }
        rows.push(row);
    }
    if headings.len() < 2 || size / records.len() > ROW {
        return None;
    }
    let headings: Vec<String> = headings.into_iter().map(title).collect();
    Some(write(&headings, rows))
}

/// A table of texts that are already fit for cells.
pub(super) fn write(headings: &[String], rows: Vec<Vec<String>>) -> String {
    let mut out = String::from("|");
    for heading in headings {
        out.push_str(&format!(" {} |", prose::cell(heading)));
    }
    out.push_str("\n|");
    out.push_str(&"---|".repeat(headings.len()));
    for mut row in rows {
        row.resize(headings.len(), String::new());
        out.push_str("\n|");
        for cell in row {
            out.push_str(&format!(" {} |", if cell.is_empty() { "—" } else { &cell }));
        }
    }
    out
}

fn cell(value: &Value) -> Option<String> {
    let text = match value {
        Value::Object(_) => return None,
        Value::Array(items) => {
            let nested = items.iter().any(|item| item.is_array() || item.is_object());
            let texts: Vec<String> = items.iter().map(scalar).filter(|text| !text.is_empty()).collect();
            if nested || texts.iter().any(|text| text.contains('\n')) {
                return None;
            }
            let short = texts.iter().all(|text| text.len() <= 30 && !text.contains(','));
            texts.join(if short { ", " } else { "\n" })
        }
        value => scalar(value),
    };
    let is_block = text.contains("```")
        || text.contains("~~~")
        || text.contains("\n\n")
        || text.lines().any(|l| l.starts_with('#'));
    (text.len() <= CELL && !is_block).then(|| prose::cell(&text))
}
