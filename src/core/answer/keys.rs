//! Decides which given key stands for which wanted one.
//!
//! The same spelling first, then the same words, then the same words but for number and fill words; last, for what is
//! left on both sides, a close variant, and that only where exactly one fits. Never gives one key to two.

use serde_json::{Map, Value};
use std::collections::HashMap;

/// More keys than these are not searched for close variants.
const SEARCHED: usize = 200;
/// Words that say nothing about what is meant when they stand beside it.
const NEUTRAL: [&str; 16] = [
    "description",
    "detail",
    "field",
    "id",
    "item",
    "json",
    "key",
    "list",
    "markdown",
    "md",
    "name",
    "section",
    "slug",
    "string",
    "text",
    "value",
];

/// For each wanted key the place of the given one that stands for it.
pub(super) fn pair(wanted: &[&str], given: &Map<String, Value>) -> Vec<Option<usize>> {
    let mut pairs: Vec<Option<usize>> = vec![None; wanted.len()];
    let given: Vec<&str> = given.keys().map(String::as_str).collect();
    let mut taken = vec![false; given.len()];
    let forms: [fn(&str) -> String; 3] = [str::to_owned, |key| words(key).concat(), |key| essence(key).concat()];
    for form in forms {
        if pairs.iter().all(Option::is_some) {
            return pairs;
        }
        let mut places: HashMap<String, usize> = HashMap::new();
        for (place, key) in given.iter().enumerate().filter(|(place, _)| !taken[*place]) {
            let form = form(key);
            if !form.is_empty() || key.is_empty() {
                places.entry(form).or_insert(place);
            }
        }
        for (pair, key) in pairs.iter_mut().zip(wanted).filter(|(pair, _)| pair.is_none()) {
            let form = form(key);
            if let Some(place) = places.get(&form).copied().filter(|place| !taken[*place]) {
                *pair = Some(place);
                taken[place] = true;
            }
        }
    }
    close_variants(wanted, &given, &taken, &mut pairs);
    pairs
}

/// Whether two names are the same words.
pub(super) fn same(one: &str, other: &str) -> bool {
    essence(one) == essence(other)
}

fn close_variants(wanted: &[&str], given: &[&str], taken: &[bool], pairs: &mut [Option<usize>]) {
    let free: Vec<(usize, Vec<String>)> = given
        .iter()
        .enumerate()
        .filter(|(place, _)| !taken[*place])
        .map(|(place, key)| (place, essence(key)))
        .collect();
    if free.is_empty() || free.len() > SEARCHED {
        return;
    }
    let mut fitting: Vec<(usize, usize)> = Vec::new();
    for (at, key) in wanted.iter().enumerate().filter(|(at, _)| pairs[*at].is_none()) {
        let key = essence(key);
        fitting.extend(free.iter().filter(|(_, other)| is_close(&key, other)).map(|(place, _)| (at, *place)));
    }
    for (at, place) in &fitting {
        let rivals = fitting.iter().filter(|(a, p)| a == at || p == place).count();
        if rivals == 1 {
            pairs[*at] = Some(*place);
        }
    }
}

/// One word more at the front, one neutral word more at the end, or one letter wrong.
fn is_close(one: &[String], other: &[String]) -> bool {
    let (short, long) = if one.len() < other.len() { (one, other) } else { (other, one) };
    if short.is_empty() {
        return false;
    }
    if long.len() == short.len() + 1 {
        let tail_is_neutral = long.last().is_some_and(|word| NEUTRAL.contains(&word.as_str()));
        return long.ends_with(short) || (long.starts_with(short) && tail_is_neutral);
    }
    let (one, other) = (one.concat(), other.concat());
    one.len().min(other.len()) >= 6 && differ_by_one(&one, &other)
}

fn differ_by_one(one: &str, other: &str) -> bool {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    if one.len().abs_diff(other.len()) > 1 {
        return false;
    }
    let same = one.iter().zip(&other).take_while(|(a, b)| a == b).count();
    let (one, other) = (&one[same..], &other[same..]);
    let tail = one.iter().rev().zip(other.iter().rev()).take_while(|(a, b)| a == b).count();
    one.len().max(other.len()) - tail <= 1
}

/// The words of a key in small letters: `differentiationAnd-Value` and `Differentiation & value` have the same.
fn words(key: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let (mut open, mut small) = (false, false);
    for c in key.chars().take(200) {
        if c == '&' {
            words.push("and".to_owned());
            open = false;
        } else if c.is_alphanumeric() {
            let begins = !open || (small && c.is_uppercase());
            if begins {
                words.push(String::new());
            }
            if let Some(word) = words.last_mut() {
                word.extend(c.to_lowercase());
            }
            open = true;
        } else if c != '\'' && c != '’' {
            open = false;
        }
        small = c.is_lowercase();
    }
    words
}

/// The words that carry the meaning, each in the singular.
fn essence(key: &str) -> Vec<String> {
    let mut words = words(key);
    words.retain(|word| !["a", "and", "for", "of", "or", "the", "to"].contains(&word.as_str()));
    words.iter_mut().for_each(singular);
    words
}

fn singular(word: &mut String) {
    if word.len() < 4 || ["ss", "us", "is"].iter().any(|end| word.ends_with(end)) {
        return;
    }
    if let Some(stem) = word.strip_suffix("ies") {
        *word = format!("{stem}y");
    } else if ["sses", "xes", "ches", "shes"].iter().any(|end| word.ends_with(end)) {
        word.truncate(word.len() - 2);
    } else if word.ends_with('s') {
        word.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn paired(wanted: &[&str], given: &Value) -> Vec<Option<String>> {
        let given = given.as_object().unwrap();
        let names: Vec<&String> = given.keys().collect();
        pair(wanted, given).into_iter().map(|place| place.map(|place| names[place].clone())).collect()
    }

    #[test]
    fn the_same_words_are_the_same_key() {
        for spelling in [
            "risks_and_mitigation",
            "risks_&_mitigation",
            "Risks & Mitigation",
            "risksAndMitigation",
            "RISKS-AND-MITIGATION",
            "risk_mitigations",
            "risk mitigation",
            "risks_and_mitigaton",
        ] {
            let found = paired(&["risks_and_mitigation"], &json!({"other": 1, spelling: 1}));
            assert_eq!(found, [Some(spelling.to_owned())]);
        }
    }

    #[test]
    fn a_close_variant_counts_only_where_nothing_else_fits() {
        assert_eq!(paired(&["source_model"], &json!({"source_model_slug": 1})), [Some("source_model_slug".into())]);
        assert_eq!(paired(&["source_model"], &json!({"source_model_slug": 1, "source_model_name": 1})), [None]);
        assert_eq!(paired(&["executive_summary"], &json!({"summary": 1})), [Some("summary".into())]);
        assert_eq!(paired(&["open_questions", "hard_questions"], &json!({"questions": 1})), [None, None]);
        assert_eq!(paired(&["architecture"], &json!({"architecture_alignment": 1})), [None]);
        assert_eq!(paired(&["risks", "risk"], &json!({"risk": 1})), [None, Some("risk".into())]);
        assert_eq!(paired(&["", "a"], &json!({"": 1, "_": 2})), [Some("".into()), None]);
    }
}
