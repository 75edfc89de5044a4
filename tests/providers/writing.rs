//! What laws of continuing stand on: documents to be cut, a process that wants one in JSON, and what is seen of a chain of chunks
//! in the tables and on the wire.
//!
//! The texts are the same every time and say everything once, so that a word that is lost or doubled shows. Never cuts anything
//! itself.

use crate::ground::{catalogued, model, provide};
use crate::shapes::{field, of_any_kind};
use dialectic_core::provider::dialect::Dialect;
use dialectic_tests::fake_provider::{Provider, Seen, folder};
use dialectic_tests::*;
use postgres::Client;
use serde_json::{Value, json};

/// Nouns to write of.
const NOUNS: [&str; 16] = [
    "valve", "ledger", "harbour", "schedule", "Brücke", "turbine", "invoice", "meadow", "cache", "lantern", "quorum",
    "façade", "orchard", "socket", "warrant", "glacier",
];
const VERBS: [&str; 8] = ["holds", "replaces", "outlives", "feeds", "contradicts", "measures", "hides", "explains"];

/// A sentence that no other number gives.
fn sentence(number: usize) -> String {
    let noun = |step: usize| NOUNS[(number * step + number / 16) % NOUNS.len()];
    let verb = VERBS[(number * 5 + number / 8) % VERBS.len()];
    format!("The {} number {number} {verb} the {} of {}.", noun(7), noun(3), number * 37 % 1009)
}

/// A paper with so many steps, which `paper` processes ask for.
pub(crate) fn paper(steps: usize) -> Value {
    let step = |number: usize| {
        let detail =
            format!("{}\n\"{}\" \\ {} 🧭", sentence(3 * number), sentence(3 * number + 1), sentence(3 * number + 2));
        json!({"id": format!("S-{number:04}"), "title": format!("Step {number} of the work"), "detail": detail})
    };
    json!({
        "overview": "What is to be done, in order and without haste.",
        "steps": (1..=steps).map(step).collect::<Vec<_>>(),
        "verdict": "It can be done, if nobody hurries.",
    })
}

/// A text in Markdown of at least so many characters.
pub(crate) fn prose(characters: usize) -> String {
    let mut text = String::from("# Of things and their numbers\n\n");
    let mut length = text.chars().count();
    for number in 1.. {
        let piece = match number % 12 {
            0 => format!("{}\n\n## Part {}\n\n", sentence(number), number / 12),
            5 => format!("{}\n\n- a point of {number}\n- and its `code_{number}`\n\n", sentence(number)),
            _ => format!("{} ", sentence(number)),
        };
        length += piece.chars().count();
        text.push_str(&piece);
        if length >= characters {
            break;
        }
    }
    text.push_str("This is the end.");
    text
}

/// Makes the process `paper`, whose one step wants a document in JSON; `process` has been made before.
pub(crate) fn paper_process(client: &mut Client) {
    client
        .batch_execute(
            r#"select dialectic.define_process('paper', '[{"slug": "paper", "seed_prompt_template": "cell_seed", "recipe": {"steps": [
                {"step": 1, "key": "paper", "name": "Paper", "job_type": "execute", "prompt_template_name": "cell_text",
                 "inputs_required": [{"type": "seed_prompt"}], "granularity_strategy": "all_to_one",
                 "output_type": "paper", "document_key": "paper", "file_type": "markdown",
                 "content_to_include": {"overview": "In a sentence", "steps": [{"id": "S-0001", "title": "Its name", "detail": "What to do"}],
                                        "verdict": "In a sentence"}}]}}]')"#,
        )
        .expect("the process");
}

/// A project over the process `paper`.
pub(crate) fn paper_project(client: &mut Client) -> Uuid {
    one(client, "select dialectic.create_project('Paper', 'Write it down.', process => 'paper')", &[])
}

/// A provider and a model of the same name, `name` after the dialect it speaks; the model is held to a schema where JSON is wanted.
/// `more` are further arguments of the provider.
pub(crate) fn speaker(client: &mut Client, provider: &Provider, dialect: Dialect, name: &str, more: &str) -> String {
    let name = format!("{}-{name}", folder(dialect));
    let (api, settings) = catalogued(dialect);
    let mut settings: Value = serde_json::from_str(settings).expect("settings");
    settings["json"] = "schema".into();
    provide(client, &name, api, provider, more);
    model(client, &name, &name, &format!(", context_window => 1000000, settings => '{settings}'"));
    name
}

/// The execute jobs of a session in the order of their chain: continuations before, status, attempts, and whether it goes on from the
/// root of the answer, under the same parent as the first.
pub(crate) fn links(client: &mut Client, session: Uuid) -> Vec<String> {
    column(
        client,
        "select concat_ws(' ', j.continuation_count, j.status, j.attempt_count, \
                          case when j.target_contribution_id is null then 'begins' \
                               when j.target_contribution_id = root.id then 'goes on' else 'strays' end, \
                          case when j.parent_job_id is distinct from first.parent_job_id then 'elsewhere' end) \
         from dialectic.jobs j \
         join dialectic.contributions root on root.session_id = j.session_id and root.chunk_no = 1 \
         join dialectic.jobs first on first.id = root.job_id \
         where j.session_id = $1 and j.kind = 'execute' order by j.continuation_count",
        &[&session],
    )
}

/// The chunks of a session's one answer: number, why it stopped, and which of the jobs wrote it, counted by their continuations.
pub(crate) fn chunks(client: &mut Client, session: Uuid) -> Vec<String> {
    column(
        client,
        "select concat_ws(' ', c.chunk_no, c.finish_reason, j.continuation_count, \
                          case when c.root_id <> root.id then 'of another root' end) \
         from dialectic.contributions c \
         join dialectic.contributions root on root.session_id = c.session_id and root.chunk_no = 1 \
         join dialectic.jobs j on j.id = c.job_id where c.session_id = $1 order by c.chunk_no",
        &[&session],
    )
}

/// The one document of a session, which has to be complete.
pub(crate) fn document(client: &mut Client, session: Uuid) -> String {
    let found = client
        .query("select content, complete from dialectic.documents where session_id = $1", &[&session])
        .expect("documents");
    assert_eq!(found.len(), 1, "one document");
    assert!(found[0].get::<_, bool>(1), "it is complete: {:.300}", found[0].get::<_, String>(0));
    found[0].get(0)
}

/// A rendered document without its head, which says what it cost and who wrote it.
pub(crate) fn body(document: &str) -> &str {
    document.strip_prefix("---\n").and_then(|rest| rest.split_once("\n---\n")).expect("a head").1
}

/// The JSON that a session's document was rendered from, as it is kept.
pub(crate) fn assembled(client: &mut Client, session: Uuid) -> String {
    one(
        client,
        "select content from dialectic.resources where session_id = $1 and resource_type = 'assembled_json'",
        &[&session],
    )
}

/// What the model was shown of its own words each time it was asked to go on. Every request has to begin with the messages of the
/// first, followed by those words and one message that asks for the rest, and nothing may hold the rest to a shape of its own.
pub(crate) fn shown(provider: &Provider, name: &str) -> Vec<String> {
    let requests: Vec<Seen> = provider.requests().into_iter().filter(|seen| seen.model == name).collect();
    let (first, later) = requests.split_first().expect("a request");
    let turn = first.messages();
    assert!(turn.iter().all(|(role, _)| role != "assistant"), "{name}: {turn:?}");
    let is_held = |seen: &Seen| {
        let any = of_any_kind(seen.dialect).and_then(|(place, _)| seen.body.pointer(place));
        seen.body.pointer(field(seen.dialect).0).or(any).is_some()
    };
    later
        .iter()
        .map(|seen| {
            assert!(!is_held(seen), "{name}: what goes on is no JSON of its own: {}", seen.body);
            let messages = seen.messages();
            assert_eq!(messages[..turn.len()], turn, "{name}: the messages of the turn");
            let [(who, words), (asks, directive)] = &messages[turn.len()..] else {
                panic!("{name}: {} messages behind the turn's", messages.len() - turn.len())
            };
            assert_eq!((who.as_str(), asks.as_str()), ("assistant", "user"), "{name}");
            assert!(!directive.trim().is_empty(), "{name}: nothing is asked for");
            words.clone()
        })
        .collect()
}

/// Whether the first request for this model holds it to JSON.
pub(crate) fn is_held_to_json(provider: &Provider, name: &str) -> bool {
    let first = provider.requests().into_iter().find(|seen| seen.model == name).expect("a request");
    first.body.pointer(field(first.dialect).0).is_some()
}
