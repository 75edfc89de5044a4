//! Laws of the model with one document: in every dialect it goes on from its own words, in the way it was given, and what it
//! says is counted whether it is heard or not.

use super::*;
use dialectic_core::prompt::{Message, Role};
use dialectic_core::provider::FinishReason;
use dialectic_core::provider::traits::Traits;
use serde_json::json;

const WHOLE: &str = r#"{"title":"A “title”","items":[{"id":"one","say":"Grün \\ und\n\"gut\" 🦀"},{"id":"two","say":"some more words here"},{"id":"three","say":"the last of them"}],"end":"That is all."}"#;

/// A request as the product would put it: a frame, a question, and then these words of the model and a nudge.
fn asking(dialect: Dialect, said: Option<&str>) -> Vec<u8> {
    let message = |role, content: &str| Message { role, content: content.to_owned() };
    let mut messages = vec![message(Role::System, "Frame."), message(Role::User, "Question?")];
    if let Some(said) = said {
        messages.extend([message(Role::Assistant, said), message(Role::User, "Go on.")]);
    }
    let request = dialectic_core::provider::Request {
        api: String::new(),
        model: "m".to_owned(),
        api_model: "m".to_owned(),
        messages,
        max_output_tokens: 100,
        context_window: 1000,
        content: None,
        settings: json!({}),
        call_no: 1,
        embeds: None,
    };
    let wire = dialect.wire(&request, &Traits::default());
    let path = if matches!(dialect, Dialect::Chat | Dialect::Responses) { "/v1" } else { "" };
    let body = wire.body.to_string();
    format!("POST {path}{} HTTP/1.1\r\nHost: here\r\nContent-Length: {}\r\n\r\n{body}", wire.path, body.len())
        .into_bytes()
}

/// What it answers, and whether it was cut off.
fn answered(provider: &Provider, dialect: Dialect, said: Option<&str>) -> (String, bool) {
    let mut client = Client::new(provider);
    client.say(&asking(dialect, said));
    match read(dialect, &client.hear().body) {
        Outcome::Answer { text, finish_reason, .. } => (text, finish_reason == FinishReason::Length),
        failure => panic!("{dialect:?}: {failure:?}"),
    }
}

#[test]
fn an_author_goes_onward_from_its_own_words_in_every_dialect_until_all_is_said() {
    let provider = Provider::start();
    let mut spoken = 0;
    for dialect in Dialect::ALL {
        for most in [1, 7, 50, WHOLE.len()] {
            provider.script("m", vec![Act::author(Author::of(WHOLE).at_most(most))]);
            let (mut said, mut is_cut) = answered(&provider, dialect, None);
            while is_cut {
                let (more, again) = answered(&provider, dialect, Some(&said));
                assert!(!more.is_empty() && more.chars().count() <= most, "{dialect:?}: {more}");
                said.push_str(&more);
                is_cut = again;
            }
            assert_eq!(said, WHOLE, "{dialect:?} by {most}");
            spoken += WHOLE.chars().count();
        }
    }
    assert_eq!(provider.spoken(), spoken);
    let seen = provider.requests().pop().expect("a request").messages();
    let seen: Vec<(&str, &str)> = seen.iter().map(|(role, text)| (role.as_str(), text.as_str())).collect();
    assert_eq!(seen, [("system", "Frame."), ("user", "Question?")], "the last came in one piece");
}

#[test]
fn what_leads_in_and_what_is_repeated_is_as_asked() {
    let provider = Provider::start();
    let text = "One two three four five six.";
    provider.script("m", vec![Act::author(Author::of(text).repeating(6).led_in("Here:\n").fenced())]);
    for dialect in Dialect::ALL {
        let (more, is_cut) = answered(&provider, dialect, Some("One two three fo"));
        assert_eq!((more.as_str(), is_cut), ("Here:\n```\nthree four five six.\n```\n", false), "{dialect:?}");
    }
}

#[test]
fn an_author_that_begins_afresh_gives_the_interrupted_item_again_and_none_that_was_complete() {
    let provider = Provider::start();
    let cut = &WHOLE[..WHOLE.find("more words").expect("a place in the second item")];
    let second = json!({"id": "two", "say": "some more words here"});
    for again in [Again::Whole, Again::Lacking] {
        provider.script("m", vec![Act::author(Author::of(WHOLE).afresh(again))]);
        let (more, _) = answered(&provider, Dialect::Chat, Some(cut));
        let more: Value = serde_json::from_str(&more).expect("an object");
        assert_eq!(more["items"], json!([second, {"id": "three", "say": "the last of them"}]));
        assert_eq!((&more["title"], &more["end"]), (&json!("A “title”"), &json!("That is all.")));
    }
    // A field behind the name that was complete is left out where only what lacks is given.
    let whole = r#"{"items":[{"id":"one","title":"first of all","say":"and then some"}]}"#;
    provider.script("m", vec![Act::author(Author::of(whole).afresh(Again::Lacking))]);
    let (more, _) = answered(
        &provider,
        Dialect::Chat,
        Some(r#"{"items": [{"id": "one", "title": "first of all", "say": "and th"}]}"#),
    );
    assert_eq!(more, r#"{"items":[{"id":"one","say":"and then some"}]}"#);
}

#[test]
fn what_nobody_hears_is_counted_as_spoken_up_to_the_moment_the_client_goes() {
    let (provider, latch) = (Provider::start(), Latch::default());
    for (dialect, opening) in Dialect::ALL.into_iter().zip([1, 4, 3, 0, 0]) {
        let before = provider.spoken();
        provider.script("m", vec![Act::author(Author::of("One two three four")).held(opening + 2, &latch)]);
        let mut client = Client::new(&provider);
        client.say(&asking(dialect, None));
        crate::eventually("two words are said", || provider.spoken() == before + "One two ".len());
        drop(client);
        assert!(provider.closed_within(Duration::from_secs(5)).is_some());
        assert_eq!(provider.spoken(), before + "One two ".len(), "{dialect:?}");
    }
}
