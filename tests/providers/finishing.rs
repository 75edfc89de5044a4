//! A reason to stop that nobody knows is no success, in any dialect; the provider's own word for it is kept.

use crate::ground::*;
use dialectic_core::provider::dialect::Dialect;
use dialectic_tests::fake_provider::{Act, Answer, Provider, folder};
use dialectic_tests::*;

/// Words that look like reasons to stop and are none.
fn strangers(dialect: Dialect) -> [&'static str; 3] {
    match dialect {
        Dialect::Chat => ["novel_reason", "STOP", "Length"],
        // The server puts any other word as the reason why an answer is incomplete.
        Dialect::Responses => ["novel_reason", "Completed", "MAX_OUTPUT_TOKENS"],
        Dialect::Anthropic => ["novel_reason", "END_TURN", "Max_Tokens"],
        Dialect::Google => ["NOVEL_REASON", "stop", "Max_Tokens"],
        Dialect::Ollama => ["novel_reason", "STOP", "Length"],
    }
}

#[test]
fn a_reason_to_stop_that_nobody_knows_is_no_success_and_its_word_is_kept() {
    let (provider, database) = (Provider::start(), Database::new());
    let mut client = database.connect();
    process(&mut client);
    let project = project(&mut client, 1);
    let mut cells = Vec::new();
    for dialect in Dialect::ALL {
        let (api, settings) = catalogued(dialect);
        for (number, word) in strangers(dialect).into_iter().enumerate() {
            let name = format!("{}-{number}", folder(dialect));
            provider.script(&name, vec![Act::answer(Answer::of("Half a.").finish(word)), Act::text("A whole.")]);
            provide(&mut client, &name, api, &provider, "");
            model(&mut client, &name, &name, &format!(", settings => '{settings}'"));
            cells.push((name, word));
        }
    }
    let names: Vec<String> = cells.iter().map(|(name, _)| name.clone()).collect();
    let sessions = begin_all(&mut client, project, &names);
    work(&mut client);
    for ((name, word), session) in cells.into_iter().zip(sessions) {
        let calls: Vec<String> = column(
            &mut client,
            "select concat_ws(' ', outcome, error_class, finish_reason, finish_reason_raw) from dialectic.model_calls \
             where session_id = $1 order by started_at, claim_id",
            &[&session],
        );
        assert_eq!(calls.first(), Some(&format!("failed content unknown {word}")), "{name}: {calls:?}");
        assert!(calls.len() == 2 && calls[1].starts_with("answered stop"), "{name}: {calls:?}");
        let kept: Vec<String> =
            column(&mut client, "select content from dialectic.contributions where session_id = $1", &[&session]);
        assert_eq!(kept, ["A whole."], "{name}");
        assert_eq!(jobs(&mut client, session), ["1 completed 2"], "{name}");
    }
    assert_sound(&mut client);
}
