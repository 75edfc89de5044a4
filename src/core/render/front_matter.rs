//! Decides what stands at the head of a document, as YAML.
//!
//! Every text is written in double quotes with everything escaped that could end them or that YAML will not have, so no
//! name can add a line, a key or an end of the front matter. What is not known is left out.

use std::fmt::{self, Write};

/// Where a document comes from.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FrontMatter {
    /// The project's name.
    pub project: String,
    /// The session's id.
    pub session: String,
    /// The iteration of the stage.
    pub iteration: i32,
    /// The stage.
    pub stage: String,
    /// The model that wrote it.
    pub model: String,
    /// The document key, or what else it is known by.
    pub document: String,
    /// The version of the artifact.
    pub version: i32,
    /// The tokens it took, both ways together.
    pub tokens: Option<i64>,
    /// What it cost, as the database writes the number.
    pub cost: Option<String>,
    /// The paths of what it was written from.
    pub sources: Vec<String>,
    /// Those of them that the model did not read as a whole.
    pub condensed: Vec<String>,
}

impl fmt::Display for FrontMatter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "---")?;
        writeln!(f, "project: {}", quoted(&self.project))?;
        writeln!(f, "session: {}", quoted(&self.session))?;
        writeln!(f, "iteration: {}", self.iteration)?;
        writeln!(f, "stage: {}", quoted(&self.stage))?;
        writeln!(f, "model: {}", quoted(&self.model))?;
        writeln!(f, "document: {}", quoted(&self.document))?;
        writeln!(f, "version: {}", self.version)?;
        if let Some(tokens) = self.tokens {
            writeln!(f, "tokens: {tokens}")?;
        }
        if let Some(cost) = &self.cost {
            let plain = !cost.is_empty()
                && cost.bytes().all(|b| b.is_ascii_digit() || b == b'.')
                && cost.parse::<f64>().is_ok();
            writeln!(f, "cost: {}", if plain { cost.clone() } else { quoted(cost) })?;
        }
        list(f, "sources", &self.sources)?;
        if !self.condensed.is_empty() {
            list(f, "condensed", &self.condensed)?;
        }
        writeln!(f, "---")
    }
}

fn list(f: &mut fmt::Formatter<'_>, key: &str, names: &[String]) -> fmt::Result {
    if names.is_empty() {
        return writeln!(f, "{key}: []");
    }
    writeln!(f, "{key}:")?;
    names.iter().try_for_each(|name| writeln!(f, "  - {}", quoted(name)))
}

fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            // What YAML takes for a line end or does not print.
            '\0'..='\u{1f}' | '\u{7f}'..='\u{a0}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}' => {
                let _ = write!(out, "\\u{:04X}", c as u32);
            }
            _ => out.push(c),
        }
    }
    out.push('"');
    out
}
