//! Decides what the messages of a request are to the model: the turn, a repair of its answer, what it has said so far.
//!
//! A repair is asked for after an answer, by a user message with a line `Missing keys: key_a, key_b`; this line is all
//! that is read of it. Whatever the model says after a repair belongs to the repair. Never looks for one inside the
//! turn itself, where such a line is material.

use crate::prompt::{Message, Role};

const MISSING: &str = "Missing keys:";

/// The messages of a request, told apart.
pub(super) struct Conversation<'a> {
    /// The messages that pose the task.
    pub(super) turn: &'a [Message],
    /// The names of what is missing in the answer, when that is what is asked for now.
    pub(super) missing: Option<Vec<&'a str>>,
    /// What the model has already said to what is asked now.
    pub(super) so_far: String,
}

impl<'a> Conversation<'a> {
    pub(super) fn read(messages: &'a [Message]) -> Self {
        let end = messages.iter().position(|m| m.role == Role::Assistant).unwrap_or(messages.len());
        let (turn, after) = messages.split_at(end);
        let repair = after.iter().enumerate().rev().find_map(|(at, message)| {
            let names = if message.role == Role::User { missing(&message.content) } else { None };
            names.map(|names| (at, names))
        });
        let (since, missing) = repair.map_or((0, None), |(at, names)| (at, Some(names)));
        let said = after[since..].iter().filter(|m| m.role == Role::Assistant);
        Self { turn, missing, so_far: said.map(|m| m.content.as_str()).collect() }
    }
}

fn missing(text: &str) -> Option<Vec<&str>> {
    let line = text.lines().find_map(|line| line.trim().strip_prefix(MISSING))?;
    let names = line.split(',').map(|name| name.trim().trim_end_matches('.').trim_matches(['`', '"']));
    let names: Vec<&str> = names.filter(|name| !name.is_empty()).collect();
    Some(names).filter(|names| !names.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(parts: &[(Role, &str)]) -> Vec<Message> {
        parts.iter().map(|(role, content)| Message { role: *role, content: (*content).to_owned() }).collect()
    }

    #[test]
    fn a_repair_is_what_was_asked_last() {
        let messages = said(&[
            (Role::User, "Missing keys: none_of_these"),
            (Role::Assistant, "{}"),
            (Role::User, "Your answer lacks some.\n  Missing keys: `a`, b[c], \"d\".\nAnswer with them alone."),
            (Role::Assistant, "{\"a\""),
            (Role::User, "Go on."),
        ]);
        let conversation = Conversation::read(&messages);
        assert_eq!(conversation.turn.len(), 1);
        assert_eq!(conversation.missing, Some(vec!["a", "b[c]", "d"]));
        assert_eq!(conversation.so_far, "{\"a\"");
    }

    #[test]
    fn without_names_nothing_is_repaired() {
        for text in ["Go on.", "Missing keys:", "Missing keys: , .", "The Missing keys: a"] {
            let messages = said(&[(Role::User, "q"), (Role::Assistant, "x"), (Role::User, text)]);
            let conversation = Conversation::read(&messages);
            assert_eq!((conversation.missing, conversation.so_far.as_str()), (None, "x"), "{text}");
        }
    }
}
