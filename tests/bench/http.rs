//! Model calls per second over HTTP: the essays of `calls`, answered at once by a provider on loopback.
//!
//! Connections, JSON both ways and the stream of events come on top of what `calls` measures; so does the provider, which
//! runs on the same cores.

use crate::calls::{MODELS, WORDS, median_of_three, run};
use crate::figure::{Bound, Figure};
use crate::floor::Floor;
use crate::ground::sized;
use crate::loopback;
use dialectic_tests::fake_provider::{Act, Answer, NUMBER};
use postgres::Client;
use serde_json::json;

/// So many words are a message of the stream.
const WORDS_AT_ONCE: usize = 8;

/// The least share of the floor.
const HTTP_RATIO: f64 = 0.15;

pub(crate) fn measure() -> Vec<Figure> {
    let essays = sized(50, 2);
    let provider = loopback::provider(&MODELS, &answer(WORDS_AT_ONCE));
    let added = |client: &mut Client| loopback::add(client, &provider, &MODELS);
    let (rate, mut details) = median_of_three(essays, added);
    details["connections"] = json!(provider.accepted());
    MODELS.iter().for_each(|model| provider.script(model, vec![answer(1)]));
    let by_word = run(essays, added);
    vec![
        Figure::new(
            format!("model calls per second over HTTP, {essays} essays by 4 models at once"),
            rate,
            "/s",
            Bound::AtLeast(HTTP_RATIO),
            details,
        )
        .against(Floor::Calls),
        Figure::new(
            "the same with a message for each word",
            by_word.0,
            "/s",
            Bound::Free,
            json!({"runs": [by_word.1]}),
        ),
    ]
}

/// One write, and another text for every request.
fn answer(words_at_once: usize) -> Act {
    let words: Vec<String> = (0..WORDS).map(|word| format!("word{word:03} ")).collect();
    let text = format!("{NUMBER} {}", words.concat());
    let mut answer = Answer::of(text.trim_end());
    answer.deltas = answer.deltas.chunks(words_at_once).map(<[String]>::concat).collect();
    Act::answer(answer).with_length().numbered()
}
