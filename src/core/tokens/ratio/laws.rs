//! The laws of ratios.

use super::*;
use proptest::prelude::*;

#[test]
fn a_model_of_openai_has_no_ratio() {
    for name in [
        "gpt-5.6",
        "gpt-4o-mini",
        "gpt-3.5-turbo",
        "gpt-oss:20b",
        "openai/gpt-oss-120b",
        "openai/gpt-5",
        "o3",
        "o4-mini",
        "chatgpt-4o-latest",
        "codex-mini-latest",
        "ft:gpt-4o:house::1",
        "text-embedding-3-small",
        "GPT-4.1",
    ] {
        assert_eq!(Ratio::of(name), None, "{name}");
    }
}

#[test]
fn a_ratio_starts_with_what_is_known_of_the_model() {
    let known = [
        ("claude-3-5-sonnet-20241022", CLAUDE),
        ("claude-sonnet-4-20250514", CLAUDE),
        ("claude-haiku-4-5", CLAUDE),
        ("anthropic/claude-opus-4.6", CLAUDE),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", CLAUDE),
        ("claude-opus-4-7", CLAUDE_4_7),
        ("claude-opus-4-8-20260601", CLAUDE_4_7),
        ("claude-sonnet-5", CLAUDE_4_7),
        ("claude-fable-5", CLAUDE_4_7),
        ("claude-latest", CLAUDE_4_7),
        ("gemini-3.5-flash", OTHERS),
        ("deepseek-chat", OTHERS),
        ("meta-llama/llama-4", OTHERS),
        ("EleutherAI/gpt-neox-20b", OTHERS),
        ("olmo-2", OTHERS),
        ("text-embedding-004", OTHERS),
        ("", OTHERS),
    ];
    for (name, factor) in known {
        assert_eq!(Ratio::of(name), Some(Ratio { factor, samples: 0 }), "{name}");
    }
}

#[test]
fn an_estimate_is_rounded_up_and_never_overflows() {
    let ratio = Ratio::new(1.15, 20);
    assert_eq!(ratio.estimate(0), 0);
    assert_eq!(ratio.estimate(1), 2);
    assert_eq!(ratio.estimate(1_000), 1_150);
    assert_eq!(Ratio::new(3.0, 0).at_most(u64::MAX), u64::MAX);
}

#[test]
fn a_ratio_is_trusted_after_twenty_calls() {
    let mut ratio = Ratio::new(1.0, 0);
    for _ in 0..20 {
        assert_eq!(ratio.at_most(1_000), 1_100);
        ratio = ratio.learn(1_000, 1_000);
    }
    assert_eq!(ratio.at_most(1_000), 1_000);
}

#[test]
fn the_start_is_one_sample_among_the_first() {
    let ratio = Ratio::new(1.0, 0).learn(1_000, 2_000);
    assert_eq!((ratio.factor(), ratio.samples()), (1.5, 1));
    let ratio = ratio.learn(1_000, 1_500).learn(1_000, 1_500);
    assert!((ratio.factor() - 1.5).abs() < 1e-9);
}

#[test]
fn an_old_ratio_follows_a_model_that_changed() {
    let mut ratio = Ratio::new(1.1, u32::MAX);
    for _ in 0..100 {
        ratio = ratio.learn(10_000, 14_000);
    }
    assert!((ratio.factor() - 1.4).abs() < 0.01, "{}", ratio.factor());
}

#[test]
fn a_short_prompt_and_a_report_of_nothing_teach_nothing() {
    let ratio = Ratio::new(1.2, 7);
    assert_eq!(ratio.learn(TELLING - 1, 4_000), ratio);
    assert_eq!(ratio.learn(4_000, 0), ratio);
    assert_ne!(ratio.learn(TELLING, 4_000), ratio);
}

#[test]
fn what_was_kept_wrongly_becomes_a_ratio_again() {
    assert_eq!(Ratio::new(f64::NAN, 3).factor(), OTHERS);
    assert_eq!(Ratio::new(f64::INFINITY, 3).factor(), HIGHEST);
    assert_eq!(Ratio::new(-1.0, 3).factor(), LOWEST);
}

proptest! {
    #[test]
    fn learning_comes_to_the_truth(start in LOWEST..HIGHEST, truth in 0.6_f64..2.5, noise in prop::collection::vec(-0.05_f64..0.05, 150)) {
        let mut ratio = Ratio::new(start, 0);
        for noise in noise {
            ratio = ratio.learn(100_000, (100_000.0 * (truth + noise)) as u64);
        }
        prop_assert!((ratio.factor() - truth).abs() < 0.06, "{} instead of {truth}", ratio.factor());
    }

    #[test]
    fn no_history_leaves_the_bounds_and_no_call_moves_far(calls in prop::collection::vec((any::<u64>(), any::<u64>()), 0..60)) {
        let mut ratio = Ratio::new(1.1, TRUSTED);
        for (counted, actual) in calls {
            let next = ratio.learn(counted, actual);
            prop_assert!((LOWEST..=HIGHEST).contains(&next.factor()));
            prop_assert!((next.factor() - ratio.factor()).abs() <= (HIGHEST - LOWEST) / f64::from(TRUSTED) + 1e-9);
            prop_assert!(next.samples() >= ratio.samples());
            ratio = next;
        }
    }

    #[test]
    fn more_text_is_never_estimated_as_less(factor in LOWEST..HIGHEST, samples in 0_u32..40, a in 0_u64..1 << 40, b in 0_u64..1 << 40) {
        let ratio = Ratio::new(factor, samples);
        let (less, more) = (a.min(b), a.max(b));
        prop_assert!(ratio.estimate(less) <= ratio.estimate(more));
        prop_assert!(ratio.estimate(less) <= ratio.at_most(less));
    }

    #[test]
    fn nobody_makes_calls_cheaper_by_teaching_a_ratio_to_be_low(
        model in prop::sample::select(vec!["claude-haiku-4-5", "claude-opus-4-8", "mistral-large"]),
        taught in prop::collection::vec((TELLING..1 << 30, 1_u64..1 << 30), 0..60),
        counted in 0_u64..1 << 40,
    ) {
        let first = Ratio::of(model).expect("a ratio");
        let learned = taught.into_iter().fold(first, |ratio, (counted, actual)| ratio.learn(counted, actual));
        let worst = learned.worst(first, counted);
        prop_assert!(worst >= first.worst(first, counted), "less than at the start");
        prop_assert!(worst >= learned.at_most(counted), "less than what is known");
    }
}
