//! The laws of counting tokens; that the counts are the right ones is shown outside, against the reference.

use super::*;
use crate::prompt::Role;
use fancy_regex::Regex;
use proptest::prelude::*;
use std::sync::LazyLock;

const EXACT: [Encoding; 2] = [Encoding::O200kBase, Encoding::Cl100kBase];

fn message(role: Role, content: &str) -> Message {
    Message { role, content: content.to_owned() }
}

#[test]
fn an_encoding_is_known_by_its_word_and_by_no_other() {
    for encoding in Encoding::ALL {
        assert_eq!(encoding.as_str().parse(), Ok(encoding));
    }
    let unknown = "gpt2".parse::<Encoding>().unwrap_err();
    assert_eq!(unknown, "unknown tokenizer \"gpt2\": one of o200k_base, cl100k_base, simulator is expected");
}

#[test]
fn every_model_that_ships_names_an_encoding() {
    let seed: serde_json::Value = serde_json::from_str(include_str!("../../../sql/seed/models.json")).unwrap();
    let models = seed["models"].as_array().unwrap();
    assert!(models.len() > 20);
    for model in models {
        let encoding: Encoding = model["tokenizer"].as_str().unwrap().parse().unwrap();
        assert_eq!(encoding == Encoding::Simulator, model["provider"] == "simulator", "{}", model["name"]);
    }
}

#[test]
fn text_that_looks_like_a_special_token_is_text() {
    for encoding in EXACT {
        assert_eq!(count(encoding, "<|endoftext|>"), 7);
        assert!(count(encoding, "<|im_start|>") > 1);
    }
}

#[test]
fn the_simulator_counts_as_it_bills() {
    let text = "Two words, and 12345678 more.";
    assert_eq!(count(Encoding::Simulator, text), simulator::tokens(text));
    let messages = [message(Role::System, text), message(Role::User, text)];
    assert_eq!(count_messages(Encoding::Simulator, &messages), 2 * simulator::tokens(text));
}

#[test]
fn a_message_takes_four_tokens_beside_its_content_and_an_answer_three() {
    for encoding in EXACT {
        assert_eq!(count_messages(encoding, &[]), 3);
        let messages =
            [message(Role::System, "hello"), message(Role::User, ""), message(Role::Assistant, "hello hello")];
        assert_eq!(count_messages(encoding, &messages), (3 + 1 + 1) + (3 + 1) + (3 + 1 + 2) + 3);
    }
}

#[test]
fn every_role_is_one_token() {
    for encoding in EXACT {
        for role in [Role::System, Role::User, Role::Assistant] {
            let word = serde_json::to_value(role).unwrap();
            assert_eq!(count(encoding, word.as_str().unwrap()), ROLE);
        }
        // What some models call the system.
        assert_eq!(count(encoding, "developer"), ROLE);
    }
}

#[test]
fn a_piece_that_is_too_long_is_counted_all_the_same() {
    for encoding in EXACT {
        // Eight of them are a token, and no token reaches over the cut: here it falls between two.
        assert_eq!(count(encoding, &"a".repeat((1 << 20) + 8)), (1 << 17) + 1);
        assert_eq!(count(encoding, &"a".repeat((1 << 20) + 1)), (1 << 17) + 1);
    }
}

proptest! {
    #[test]
    fn a_text_has_no_more_tokens_than_bytes_and_none_only_if_it_is_empty(text in any::<String>()) {
        for encoding in EXACT {
            let tokens = count(encoding, &text);
            prop_assert!(tokens <= text.len() as u64);
            prop_assert_eq!(tokens == 0, text.is_empty());
        }
    }

    #[test]
    fn joined_texts_have_hardly_more_tokens_than_they_had_apart(a in ".{0,60}", b in "[a-zA-Z0-9 '\n.é中]{0,60}") {
        for encoding in EXACT {
            let (apart, joined) = (count(encoding, &a) + count(encoding, &b), count(encoding, &format!("{a}{b}")));
            prop_assert!(joined <= apart + 4, "{joined} joined, {apart} apart");
        }
    }
}

/// The patterns of the encodings, as OpenAI's tiktoken has them.
fn patterns() -> [(Split, Regex); 2] {
    let word = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?";
    let o200k_base = [
        &format!(
            r"[^\r\n\p{{L}}\p{{N}}]?[\p{{Lu}}\p{{Lt}}\p{{Lm}}\p{{Lo}}\p{{M}}]*[\p{{Ll}}\p{{Lm}}\p{{Lo}}\p{{M}}]+{word}"
        ),
        &format!(
            r"[^\r\n\p{{L}}\p{{N}}]?[\p{{Lu}}\p{{Lt}}\p{{Lm}}\p{{Lo}}\p{{M}}]+[\p{{Ll}}\p{{Lm}}\p{{Lo}}\p{{M}}]*{word}"
        ),
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    ];
    let cl100k_base = [
        r"'(?i:[sdmt]|ll|ve|re)",
        r"[^\r\n\p{L}\p{N}]?+\p{L}++",
        r"\p{N}{1,3}+",
        r" ?[^\s\p{L}\p{N}]++[\r\n]*+",
        r"\s++$",
        r"\s*[\r\n]",
        r"\s+(?!\S)",
        r"\s",
    ];
    let regex = |alternatives: &[&str]| Regex::new(&alternatives.join("|")).unwrap();
    [(pieces::o200k_base, regex(&o200k_base)), (pieces::cl100k_base, regex(&cl100k_base))]
}

/// Few characters, of every sort: what a pattern tells apart stands side by side.
const TELLING: &str = "[aszlLVEdʰǅABªא中文\u{301}\u{903}09٣ⅷ \t\n\r\u{a0}\u{3000}'ſ/.<|😀\u{200d}\0\u{e000}]{0,24}";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn pieces_are_what_the_pattern_matches(text in prop_oneof![4 => TELLING, 1 => ".{0,24}"]) {
        static PATTERNS: LazyLock<[(Split, Regex); 2]> = LazyLock::new(patterns);
        for (split, pattern) in &*PATTERNS {
            let mut at = 0;
            for found in pattern.find_iter(&text) {
                let found = found.unwrap();
                prop_assert_eq!((at, split(&text, at)), (found.start(), found.end()), "{:?}", pattern);
                at = found.end();
            }
            prop_assert_eq!(at, text.len());
        }
    }
}
