//! Decides which facts of its input a simulated model repeats: lines, or their ends, of the form `FACT-12: text`.
//!
//! So a test can tell whether condensing keeps what is unique. Never changes a fact and never repeats one twice.

use crate::prompt::{Message, Role};
use std::collections::HashSet;

const MARK: &str = "FACT-";

/// A document with the facts of its input below its title: what is cut off at an output limit is then noise first.
pub(super) fn with_facts(document: String, turn: &[Message]) -> String {
    let facts = facts(turn);
    let (title, body) = document.split_once('\n').unwrap_or((&document, ""));
    match facts.is_empty() {
        true => document,
        false => format!("{title}\n\n{}\n{body}", facts.join("\n")),
    }
}

/// The facts of the texts that a model was given, each once, in their order.
fn facts(turn: &[Message]) -> Vec<&str> {
    let mut known = HashSet::new();
    let texts = turn.iter().filter(|message| message.role == Role::User);
    texts.flat_map(|message| message.content.lines()).filter_map(fact).filter(|fact| known.insert(*fact)).collect()
}

/// The fact that a line has.
fn fact(line: &str) -> Option<&str> {
    let fact = line[line.find(MARK)?..].trim_end();
    let (number, text) = fact[MARK.len()..].split_once(':')?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && !text.trim().is_empty()).then_some(fact)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(role: Role, content: &str) -> Message {
        Message { role, content: content.to_owned() }
    }

    #[test]
    fn every_fact_is_repeated_once_below_the_title() {
        let turn = [
            said(Role::System, "FACT-1: not material"),
            said(Role::User, "Words.\n- FACT-2: two  \nFACT-2: two\nFACT-x: none\nFACT-3:\n"),
            said(Role::User, "FACT-10: ten: exactly"),
        ];
        assert_eq!(
            with_facts("# T\n\nText.\n".to_owned(), &turn),
            "# T\n\nFACT-2: two\nFACT-10: ten: exactly\n\nText.\n"
        );
        assert_eq!(with_facts("# T\n".to_owned(), &[]), "# T\n");
    }
}
