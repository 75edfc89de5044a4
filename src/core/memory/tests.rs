use super::ranking::{Candidate, Ranking, diverse, select};
use super::*;
use crate::tokens::{Encoding, count};
use proptest::prelude::*;

fn words(text: &str) -> u64 {
    text.split_whitespace().count() as u64
}

fn o200k(text: &str) -> u64 {
    count(Encoding::O200kBase, text)
}

fn contents(text: &str, chunk_tokens: u64, overlap_tokens: u64) -> Vec<String> {
    chunks(text, chunk_tokens, overlap_tokens, &words).into_iter().map(|chunk| chunk.content).collect()
}

#[test]
fn section_within_the_limit_is_one_chunk() {
    let text = "# A\n\none two three four\n\n# B\n\nfive\n";
    assert_eq!(contents(text, 6, 3), ["# A\n\none two three four", "# B\n\nfive"]);
    assert!(contents(" \n\n ", 6, 3).is_empty());
}

#[test]
fn chunks_overlap_inside_a_section_only() {
    let text = "# A\n\nOne two three. Four five. Six seven. Eight nine.\n\n# B\n\nten\n";
    assert_eq!(
        contents(text, 8, 3),
        ["# A\n\nOne two three.", "One two three. Four five. Six seven.", "Six seven. Eight nine.", "# B\n\nten"]
    );
}

#[test]
fn overlap_is_cut_at_a_word_when_no_sentence_fits() {
    let text = "one two three four five six seven eight nine ten";
    assert_eq!(
        contents(text, 6, 2),
        ["one two", "one two three four", "three four five six", "five six seven eight", "seven eight nine ten"]
    );
}

#[test]
fn chunk_of_a_table_repeats_head_and_last_rows() {
    let text = "| k | v |\n|---|---|\n| a | 1 |\n| b | 2 |\n| c | 3 |\n| d | 4 |\n";
    let chunks = contents(text, 22, 0);
    assert!(chunks.len() > 1, "{chunks:?}");
    assert!(chunks.iter().all(|chunk| chunk.starts_with("| k | v |\n|---|---|\n")), "{chunks:?}");
}

#[test]
fn overlap_does_not_reach_into_a_fence_that_has_ended() {
    let text = "# A\n\n```\none\ntwo\n```\n\nThree four five six seven. Eight nine ten.\n";
    for chunk in contents(text, 9, 4) {
        assert_eq!(chunk.matches("```").count() % 2, 0, "{chunk}");
    }
}

#[test]
fn chunk_has_the_headings_it_stands_under() {
    let text = "# A\n\n## B\n\none two three. four five six. seven eight nine.\n\n## C\n\nten\n";
    let paths: Vec<String> = chunks(text, 9, 2, &words).iter().map(|chunk| chunk.headings.join(" > ")).collect();
    assert_eq!(paths, ["A > B", "A > B", "A > C"]);
}

#[test]
fn function_words_tell_the_configuration() {
    let detect = |text: &str| TextConfig::detect(text).map(TextConfig::as_str);
    assert_eq!(detect("The pump is oiled by the crew before it starts."), Some("english"));
    assert_eq!(detect("Die Pumpe wird vor dem Start von der Mannschaft geölt."), Some("german"));
    assert_eq!(detect("let x = f(y); const CEILING: u32 = 900;"), None);
    assert_eq!(detect("| 690 | 27 | Brindle |"), None);
    assert_eq!(detect(""), None);
}

#[test]
fn chunk_that_does_not_tell_its_language_takes_that_of_the_text() {
    let text = "# Ölen\n\nDie Pumpe wird vor dem Start geölt.\n\n# Werte\n\n| 690 | 27 |\n";
    let configs: Vec<&str> = chunks(text, 50, 0, &words).iter().map(|chunk| chunk.text_config.as_str()).collect();
    assert_eq!(configs, ["german", "german"]);
    assert_eq!(chunks("x = 1;", 50, 0, &words)[0].text_config.as_str(), "simple");
}

const RANKING: Ranking = Ranking { rrf_k: 60.0, mmr_lambda: 1.0, match_count: 10 };

fn found(distance_rank: Option<u32>, text_rank: Option<u32>, content: &str) -> Candidate {
    Candidate { distance_rank, text_rank, content: content.to_owned(), ..Candidate::default() }
}

#[test]
fn chunk_in_both_lists_wins_over_the_first_of_one() {
    let candidates = [found(Some(1), None, "a"), found(None, Some(1), "b"), found(Some(2), Some(2), "c")];
    let chosen = select(&candidates, RANKING);
    assert_eq!(chosen.iter().map(|(position, _)| *position).collect::<Vec<_>>(), [2, 0, 1]);
    assert!((chosen[0].1 - 2.0 / 62.0).abs() < 1e-12);
}

#[test]
fn rrf_k_decides_how_much_the_first_ranks_count() {
    let candidates = [found(Some(1), None, "a"), found(Some(4), Some(4), "b")];
    let first = |rrf_k| select(&candidates, Ranking { rrf_k, ..RANKING })[0].0;
    assert_eq!((first(0.0), first(60.0)), (0, 1));
}

#[test]
fn copy_of_a_chosen_chunk_gives_way_to_another_chunk() {
    let texts = ["the pump is oiled daily", "the pump is oiled daily", "valves are checked"];
    let candidates: Vec<_> = (1..).zip(texts).map(|(rank, text)| found(None, Some(rank), text)).collect();
    let positions = |mmr_lambda| {
        let chosen = select(&candidates, Ranking { mmr_lambda, match_count: 2, ..RANKING });
        chosen.into_iter().map(|(position, _)| position).collect::<Vec<_>>()
    };
    assert_eq!((positions(1.0), positions(0.5)), (vec![0, 1], vec![0, 2]));
}

#[test]
fn distance_alone_scores_by_cosine_similarity() {
    let near = Candidate { distance: Some(0.25), vector: Some(vec![1.0, 0.0]), ..Candidate::default() };
    let far = Candidate { distance: Some(0.75), vector: Some(vec![0.0, 1.0]), ..Candidate::default() };
    assert_eq!(select(&[far, near], RANKING), [(1, 0.75), (0, 0.25)]);
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
        "[a-zäß。. |#-]{0,60}",
        "\\PC{0,40}",
    ];
    prop::collection::vec(line, 0..40).prop_map(|lines| lines.join("\n"))
}

proptest! {
    #[test]
    fn chunks_keep_the_limit_and_every_word(text in markdown(), limit in 24_u64..120, overlap in 0_u64..40) {
        let chunks = chunks(&text, limit, overlap, &o200k);
        for chunk in &chunks {
            prop_assert!(chunk.tokens <= limit, "{} of {limit}: {:?}", chunk.tokens, chunk.content);
            prop_assert_eq!(chunk.tokens, o200k(&chunk.content));
        }
        let all: String = chunks.iter().map(|chunk| chunk.content.as_str()).collect();
        let mut left = all.chars().filter(|character| !character.is_whitespace());
        for character in text.chars().filter(|character| !character.is_whitespace()) {
            prop_assert!(left.any(|found| found == character), "{character:?} of {text:?} is missing");
        }
    }

    #[test]
    fn chosen_candidates_are_distinct_and_as_many_as_wanted(
        ranks in prop::collection::vec((prop::option::of(1_u32..100), prop::option::of(1_u32..100)), 0..60),
        mmr_lambda in 0.0..=1.0,
        match_count in 0_usize..70,
    ) {
        let candidates: Vec<_> = ranks.iter().map(|(a, b)| found(*a, *b, &format!("{a:?} {b:?}"))).collect();
        let chosen = select(&candidates, Ranking { mmr_lambda, match_count, ..RANKING });
        prop_assert_eq!(chosen.len(), match_count.min(candidates.len()));
        let distinct: std::collections::BTreeSet<usize> = chosen.iter().map(|(position, _)| *position).collect();
        prop_assert_eq!(distinct.len(), chosen.len());
        prop_assert!(chosen.is_sorted_by(|a, b| a.1 >= b.1));
    }

    #[test]
    fn relevance_alone_decides_when_lambda_is_one(relevance in prop::collection::vec(0.0_f64..1.0, 1..40)) {
        let chosen = diverse(&relevance, |_, _| 0.9, 1.0, relevance.len());
        prop_assert!(chosen.is_sorted_by(|a, b| relevance[*a] >= relevance[*b]));
    }
}
