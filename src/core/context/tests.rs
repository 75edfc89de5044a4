use super::*;
use proptest::prelude::*;
use std::ops::Range;

const WINDOW: Window = Window { tokens: 10_000, output: 1_000, max_output: 1_000, safety: 1.0, ratio: 2.0 };
const FRAME: u64 = 600;
const TAG: u64 = 20;

fn piece(tokens: u64) -> Piece {
    let name = format!("text of {tokens}");
    Piece { name, tokens, may_shrink: true, relevance: 1.0, depth: 0, is_stuck: false }
}

fn pieces(tokens: &[u64]) -> Vec<Piece> {
    tokens.iter().map(|&tokens| piece(tokens)).collect()
}

/// A prompt with 500 tokens besides its documents.
fn prompt(pieces: Vec<Piece>) -> Measured {
    let sum = |of: &dyn Fn(&&Piece) -> bool| pieces.iter().filter(of).map(|piece| piece.tokens).sum::<u64>();
    let bare = 500 + sum(&|piece| !piece.may_shrink);
    let shrinking = pieces.iter().filter(|piece| piece.may_shrink);
    let floor = bare + shrinking.map(|piece| piece.tokens.min(10)).sum::<u64>();
    let total = bare + sum(&|piece| piece.may_shrink);
    Measured { total, bare, floor, frame: FRAME, tag: TAG, request: 40, pieces, is_combine: false }
}

/// A document of one byte a token, cut wherever the limit is.
fn cut(prompt: &Measured) -> impl Fn(usize, u64) -> Vec<(Range<usize>, u64)> + '_ {
    |at, limit| {
        let (all, most) = (prompt.pieces[at].tokens as usize, limit.saturating_sub(TAG).max(1) as usize);
        (0..all)
            .step_by(most)
            .map(|start| start..all.min(start + most))
            .map(|r| (r.clone(), r.len() as u64 + TAG))
            .collect()
    }
}

fn decided(prompt: &Measured, window: &Window) -> Decision {
    decide(prompt, window, &cut(prompt))
}

fn groups(prompt: &Measured, window: &Window) -> Vec<Group> {
    match decided(prompt, window) {
        Decision::Combine(groups) => groups,
        other => panic!("{other:?}"),
    }
}

#[test]
fn request_feedback_and_header_are_never_condensed() {
    let whole = ["initial_user_prompt", "seed_prompt", "user_feedback", "header_context"];
    assert!(!whole.into_iter().any(may_shrink));
    assert!(["general_resource", "thesis", "combined"].into_iter().all(may_shrink));
}

#[test]
fn prompt_within_the_limit_fits() {
    assert_eq!(WINDOW.limit(), 9_000);
    assert_eq!(decided(&prompt(pieces(&[8_500])), &WINDOW), Decision::Fits);
}

#[test]
fn only_as_much_is_condensed_as_is_needed() {
    let mut texts = pieces(&[900; 10]);
    texts[7].relevance = 0.2;
    let groups = groups(&prompt(texts), &WINDOW);
    assert!(groups.len() == 2, "{groups:?}");
    assert!(groups.iter().any(|group| group.members.iter().any(|member| member.document == 7)), "{groups:?}");
}

#[test]
fn document_beyond_a_combine_prompt_is_cut_into_parts() {
    let groups = groups(&prompt(pieces(&[100, 12_000])), &WINDOW);
    let parts: Vec<&Range<usize>> = groups.iter().filter_map(|group| group.members[0].range.as_ref()).collect();
    assert!(parts.len() >= 2 && parts[0].start == 0 && parts[parts.len() - 1].end == 12_000, "{parts:?}");
    assert!(parts.windows(2).all(|pair| pair[0].end == pair[1].start), "{parts:?}");
}

#[test]
fn text_of_a_group_can_be_written_in_one_call_where_it_is_as_long_as_it_should_be() {
    let groups = groups(&prompt(pieces(&[700; 30])), &WINDOW);
    assert!(groups.iter().all(|group| group.target <= WINDOW.max_output), "{groups:?}");
}

#[test]
fn what_does_not_fit_with_one_line_of_each_document_is_too_large() {
    let mut whole = piece(9_100);
    (whole.may_shrink, whole.name) = (false, "seed_prompt".to_owned());
    let decision = decided(&prompt(vec![whole, piece(300)]), &WINDOW);
    let Decision::TooLarge(overflow) = decision else { panic!("{decision:?}") };
    let said = overflow.to_string();
    assert!(said.contains("900 over the 9000 that fit") && said.contains("seed_prompt has 9100 tokens"), "{said}");
}

#[test]
fn what_is_too_far_over_needs_retrieval() {
    let decision = decided(&prompt(pieces(&[4_000; 8])), &WINDOW);
    let Decision::Retrieve(overflow) = decision else { panic!("{decision:?}") };
    assert!(overflow.to_string().contains("more than 2 windows over"), "{overflow}");
}

#[test]
fn text_that_did_not_shrink_is_not_condensed_again() {
    let mut texts = pieces(&[6_000, 6_000]);
    texts.iter_mut().for_each(|piece| (piece.depth, piece.is_stuck) = (1, true));
    assert!(matches!(decided(&prompt(texts.clone()), &WINDOW), Decision::Retrieve(_)));
    texts[1].is_stuck = false;
    assert!(groups(&prompt(texts), &WINDOW).iter().all(|group| group.members[0].document == 1));
}

#[test]
fn combine_prompt_is_not_condensed() {
    let prompt = Measured { is_combine: true, ..prompt(pieces(&[6_000, 6_000])) };
    assert!(matches!(decided(&prompt, &WINDOW), Decision::TooLarge(_)));
}

#[test]
fn smallest_model_that_would_do_is_named() {
    let Decision::Retrieve(overflow) = decided(&prompt(pieces(&[40_000])), &WINDOW) else { panic!() };
    let measure = crate::tokens::Measure::new("simulator", "x", None);
    let of = |name, tokens| Candidate { name, window: Window { tokens, ..WINDOW }, measure };
    let models = [of("huge", 1_000_000), of("narrow", 20_000), of("wide", 50_000), of("wider", 60_000)];
    let hint = overflow.hint(&measure, models.into_iter());
    assert!(hint.contains("\"wide\", which reads 50000 tokens") && hint.contains("shorten text of 40000"), "{hint}");
    assert!(hint.contains("'tier2_max_ratio', '3.2'"), "{hint}");
}

#[test]
fn rounds_are_counted_by_how_much_each_leaves() {
    assert_eq!([1.0, 0.9, 0.7, 0.69, 0.49, 0.34, 0.0].map(rounds), [0, 1, 1, 2, 2, 4, u32::MAX]);
    assert_eq!(WINDOW.rounds(), 4);
}

#[test]
fn setting_is_named_only_where_it_would_help() {
    let measure = crate::tokens::Measure::new("simulator", "x", None);
    let hint = |whole: u64| {
        let prompt = prompt(vec![Piece { may_shrink: false, ..piece(whole) }]);
        let Decision::TooLarge(overflow) = decided(&prompt, &WINDOW) else { panic!() };
        overflow.hint(&measure, std::iter::empty())
    };
    assert!(hint(9_000).ends_with("shorten the request, or give generate() a max_output_tokens of 500 or less."));
    assert!(hint(9_600).ends_with("or shorten the request."), "{}", hint(9_600));
}

proptest! {
    #[test]
    fn every_combine_prompt_fits_and_every_byte_is_in_one_at_most(
        sizes in prop::collection::vec(1_u64..9_000, 1..40),
        whole in 0_u64..5_000,
        max_output in 200_u64..9_000,
    ) {
        let window = Window { output: max_output, max_output, ..WINDOW };
        let mut texts = pieces(&sizes);
        texts.push(Piece { may_shrink: false, ..piece(whole) });
        let prompt = prompt(texts);
        if let Decision::Combine(groups) = decided(&prompt, &window) {
            let mut reached = vec![0; prompt.pieces.len()];
            for group in &groups {
                prop_assert!(group.read + FRAME <= window.filled() - window.combine_output());
                prop_assert!(group.target <= group.most && group.most < group.read);
                for member in &group.members {
                    let range = member.range.clone().unwrap_or(0..sizes[member.document] as usize);
                    prop_assert_eq!(range.start, reached[member.document]);
                    reached[member.document] = range.end;
                }
            }
            for (reached, size) in reached.iter().zip(&sizes) {
                prop_assert!(*reached == 0 || *reached == *size as usize);
            }
        }
    }

    /// However much of their limits the texts of each round have, rounds end as computed, and the prompt fits then.
    #[test]
    fn rounds_end_with_a_prompt_that_fits(
        sizes in prop::collection::vec(30_u64..9_000, 1..40),
        filled in prop::collection::vec(0.01_f64..=1.0, 200),
    ) {
        let mut texts = pieces(&sizes);
        let mut filled = filled.into_iter().cycle();
        let begun = decided(&prompt(texts.clone()), &WINDOW);
        for round in 0..=WINDOW.rounds() {
            let prompt = prompt(texts.clone());
            let groups = match decided(&prompt, &WINDOW) {
                Decision::Combine(groups) => groups,
                Decision::Fits => break,
                // Only where the first round was not begun.
                other => {
                    prop_assert!(round == 0, "round {}: {:?} after {:?}", round, other, begun);
                    break;
                }
            };
            prop_assert!(round < WINDOW.rounds(), "still over after {} rounds", round);
            let condensed: Vec<usize> =
                groups.iter().flat_map(|group| &group.members).map(|member| member.document).collect();
            let rest = texts.iter().enumerate().filter(|(at, _)| !condensed.contains(at));
            let mut next: Vec<Piece> = rest.map(|(_, piece)| piece.clone()).collect();
            for group in groups {
                let text = (group.most as f64 * filled.next().unwrap()) as u64;
                let depth = group.members.iter().map(|member| texts[member.document].depth).max().unwrap() + 1;
                next.push(Piece { depth, ..piece(text + TAG) });
            }
            texts = next;
        }
    }
}
