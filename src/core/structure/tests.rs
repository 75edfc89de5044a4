use super::*;
use crate::tokens::{Encoding, count};
use proptest::prelude::*;

fn words(text: &str) -> u64 {
    text.split_whitespace().count() as u64
}

fn o200k(text: &str) -> u64 {
    count(Encoding::O200kBase, text)
}

fn texts(text: &str, limit: u64, sections: Sections) -> Vec<String> {
    split(text, limit, sections, &words).iter().map(|part| part.text(text)).collect()
}

#[test]
fn text_within_the_limit_is_one_part() {
    let text = "# One\n\ntwo three\n\n## Four\n\nfive\n";
    assert_eq!(texts(text, 100, Sections::Joined), [text]);
    assert!(split("", 10, Sections::Joined, &words).is_empty());
}

#[test]
fn headings_are_cut_before_paragraphs() {
    let text = "# A\n\none two three\n\nfour five six\n\n# B\n\nseven eight\n";
    assert_eq!(texts(text, 8, Sections::Joined), ["# A\n\none two three\n\nfour five six\n\n", "# B\n\nseven eight\n"]);
    assert_eq!(
        texts(text, 5, Sections::Joined),
        ["# A\n\none two three\n\n", "four five six\n\n", "# B\n\nseven eight\n"]
    );
}

#[test]
fn heading_stays_with_the_text_below_it() {
    let text = "# A\n\n## B\n\none two three. four five six. seven eight nine.\n";
    assert_eq!(
        texts(text, 8, Sections::Apart),
        ["# A\n\n## B\n\none two three. ", "four five six. seven eight nine.\n"]
    );
}

#[test]
fn sections_apart_share_no_part() {
    let text = "# A\n\none\n\n## B\n\ntwo\n\n## C\n\nthree\n\n# D\n\nfour\n";
    let parts = split(text, 100, Sections::Apart, &words);
    let paths: Vec<String> = parts.iter().map(|part| part.headings.join(" > ")).collect();
    assert_eq!(paths, ["A", "A > B", "A > C", "D"]);
    assert_eq!(split(text, 100, Sections::Joined, &words).len(), 1);
}

#[test]
fn part_inside_a_table_repeats_its_head() {
    let text = "| k | v |\n|---|---|\n| a | 1 |\n| b | 2 |\n| c | 3 |\n";
    assert_eq!(
        texts(text, 17, Sections::Joined),
        ["| k | v |\n|---|---|\n| a | 1 |\n| b | 2 |\n", "| k | v |\n|---|---|\n| c | 3 |\n"]
    );
}

#[test]
fn part_inside_a_fence_is_fenced_itself() {
    let text = "```sql\nselect 1;\nselect 2;\nselect 3;\nselect 4;\n```\n\n# not code\n";
    assert_eq!(
        texts(text, 9, Sections::Joined),
        ["```sql\nselect 1;\nselect 2;\n```\n", "```sql\nselect 3;\nselect 4;\n```\n\n", "# not code\n"]
    );
}

#[test]
fn heading_in_a_fence_is_code() {
    let text = "# A\n\n~~~\n# a comment\n~~~\n\none\n";
    assert_eq!(split(text, 100, Sections::Apart, &words)[0].headings, ["A"]);
    assert_eq!(split(text, 100, Sections::Apart, &words).len(), 1);
}

#[test]
fn list_is_cut_between_items_and_nested_items_last() {
    let text = "- a one two\n  - b one\n  - c one\n- d one two\n- e one two\n";
    assert_eq!(
        texts(text, 10, Sections::Joined),
        ["- a one two\n  - b one\n  - c one\n", "- d one two\n- e one two\n"]
    );
    assert_eq!(texts(text, 8, Sections::Joined)[0], "- a one two\n  - b one\n");
}

#[test]
fn front_matter_is_no_heading() {
    let text = "---\ntitle: x\n---\n\n# A\n\none\n\nTitle\n=====\n\ntwo\n";
    let parts = split(text, 100, Sections::Apart, &words);
    assert_eq!(parts.iter().map(|part| part.headings.join("/")).collect::<Vec<_>>(), ["", "A", "Title"]);
}

#[test]
fn large_paragraph_is_cut_at_sentences_then_lines_words_characters() {
    assert_eq!(texts("One two. Three four. Five six.", 5, Sections::Joined), ["One two. Three four. ", "Five six."]);
    assert_eq!(texts("a,b\nc,d\ne,f\n", 2, Sections::Joined), ["a,b\n", "c,d\n", "e,f\n"]);
    assert_eq!(texts("a b c d", 3, Sections::Joined), ["a b ", "c d"]);
    let count = |text: &str| text.chars().count() as u64;
    let parts = split("äöüßäöüß", 3, Sections::Joined, &count);
    assert!(parts.iter().all(|part| count(&"äöüßäöüß"[part.range.clone()]) <= 3));
    assert_eq!(split("一二三。四五六。", 5, Sections::Joined, &count).len(), 2);
}

fn markdown() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        Just("# Heading one".to_owned()),
        Just("### Heading three".to_owned()),
        Just(String::new()),
        Just("| k | v |".to_owned()),
        Just("|---|---|".to_owned()),
        Just("```".to_owned()),
        Just("- item of a list".to_owned()),
        Just("  1. nested item".to_owned()),
        Just("====".to_owned()),
        "[a-zäß。. |#-]{0,60}",
        "\\PC{0,40}",
    ];
    prop::collection::vec(line, 0..40).prop_map(|lines| lines.join("\n"))
}

proptest! {
    #[test]
    fn parts_cover_the_text_and_keep_the_limit(text in markdown(), limit in 24_u64..200, is_joined in any::<bool>()) {
        let sections = if is_joined { Sections::Joined } else { Sections::Apart };
        let parts = split(&text, limit, sections, &o200k);
        let joined: String = parts.iter().map(|part| &text[part.range.clone()]).collect();
        prop_assert_eq!(&joined, &text);
        for part in &parts {
            let read = part.text(&text);
            prop_assert!(o200k(&read) <= limit, "{} of {limit}: {read:?}", o200k(&read));
        }
    }
}
