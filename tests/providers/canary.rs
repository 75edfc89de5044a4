//! A secret goes to its provider in the right header, and comes back into nothing that is kept, shown or logged, however the provider
//! repeats it.

use crate::ground::*;
use dialectic_core::provider::dialect::Dialect;
use dialectic_tests::fake_provider::{Act, Answer, Provider, Seen, folder};
use dialectic_tests::*;
use postgres::Client;
use serde_json::json;

const CANARY: &str = "sk-7Hq2mVx9LdRw4TzKbN8cJy6";
/// So much of it is found by nobody's accident.
const PART: usize = 8;

/// A message of the dialect that says in mid-stream that the key is wrong.
fn error_event(dialect: Dialect) -> Act {
    let message = format!("The key {CANARY} is not known.");
    let data = match dialect {
        Dialect::Chat => json!({"error": {"message": message, "type": "server_error", "code": null}}),
        Dialect::Responses => json!({"type": "error", "code": "server_error", "message": message, "param": null}),
        Dialect::Anthropic => json!({"type": "error", "error": {"type": "api_error", "message": message}}),
        Dialect::Google => json!({"error": {"code": 500, "message": message, "status": "INTERNAL"}}),
        Dialect::Ollama => json!({"error": message}),
    };
    match dialect {
        Dialect::Ollama => Act::body(200, "application/x-ndjson", format!("{data}\n")),
        _ => Act::body(200, "text/event-stream", format!("event: error\ndata: {data}\n\n")),
    }
}

/// An answer that has the secret in its text, cut into pieces.
fn spoken() -> Answer {
    let (first, rest) = CANARY.split_at(3);
    let (second, third) = rest.split_at(9);
    let deltas = ["The key is ", first, second, third, ", and again ", CANARY, "."].map(str::to_owned).to_vec();
    Answer { deltas, ..Answer::of("") }.tokens(10, 20)
}

/// A page with so much before the secret.
fn page(before: usize) -> String {
    format!("<!doctype html><title>{}</title>{CANARY}", "x".repeat(before))
}

/// The usual ways in which a provider repeats a secret, by name.
fn ways(dialect: Dialect) -> Vec<(&'static str, Act)> {
    vec![
        ("error 401", Act::echo(401)),
        ("error 400", Act::echo(400)),
        ("error 429", Act::echo(429)),
        ("page 500", Act::body(500, "text/html", page(20))),
        ("error in json 500", Act::body(500, "application/json", json!({"detail": {"key": CANARY}}).to_string())),
        ("error in mid-stream", error_event(dialect)),
        ("text of the answer", Act::answer(spoken())),
        ("text of the answer, cut anywhere", Act::answer(spoken()).in_pieces(7)),
        ("retry-after", Act::status(429).header("retry-after", CANARY)),
        ("location", Act::body(302, "text/plain", "").header("location", &format!("http://127.0.0.1:9/?key={CANARY}"))),
        (
            "name of an error",
            Act::body(
                400,
                "application/json",
                json!({"error": {"type": CANARY, "code": CANARY, "status": CANARY}}).to_string(),
            ),
        ),
    ]
}

/// Whether the request carries the secret as its dialect wants it.
fn is_signed(seen: &Seen) -> bool {
    let bearer = format!("Bearer {CANARY}");
    match seen.dialect {
        Dialect::Chat | Dialect::Responses | Dialect::Ollama => seen.header("authorization") == Some(&bearer),
        Dialect::Anthropic => seen.header("x-api-key") == Some(CANARY),
        Dialect::Google => seen.header("x-goog-api-key") == Some(CANARY),
    }
}

/// Where a part of the secret is found, with what stands around it.
fn sightings(place: &str, text: &str) -> Vec<String> {
    // In any case: whoever writes it small shows it all the same.
    let (text, secret) = (text.to_ascii_lowercase(), CANARY.to_ascii_lowercase());
    let bytes = text.as_bytes();
    let parts = secret.as_bytes().windows(PART);
    let found = parts.filter_map(|part| bytes.windows(PART).position(|window| window == part));
    let around =
        |at: usize| String::from_utf8_lossy(&bytes[at.saturating_sub(80)..(at + 40).min(bytes.len())]).into_owned();
    found.take(1).map(|at| format!("{place}: …{}…", around(at))).collect()
}

/// Everything that a database shows, by place.
fn shown(client: &mut Client) -> Vec<(String, String)> {
    let tables: Vec<String> = column(
        client,
        "select relname::text from pg_class where relnamespace = 'dialectic'::regnamespace and relkind in ('r', 'v') \
         and relname not like '\\_%' order by 1",
        &[],
    );
    let mut queries: Vec<(String, String)> =
        tables.into_iter().map(|table| (table.clone(), format!("select t::text from dialectic.{table} t"))).collect();
    let further = [
        ("health()", "select h::text from dialectic.health() h"),
        ("job_tree()", "select t::text from dialectic.sessions s, dialectic.job_tree(s.id) t"),
        ("progress()", "select t::text from dialectic.sessions s, dialectic.progress(s.id) t"),
        ("explain()", "select t::text from dialectic.sessions s, dialectic.explain(s.id) t"),
        ("files()", "select t::text from dialectic.sessions s, dialectic.files(s.id) t"),
        ("live()", "select dialectic.live(j.id) from dialectic.jobs j"),
        ("pg_stat_activity", "select a::text from pg_stat_activity a"),
    ];
    queries.extend(further.map(|(place, query)| (place.to_owned(), query.to_owned())));
    queries.into_iter().map(|(place, query)| (place, column::<String>(client, &query, &[]).join("\n"))).collect()
}

#[test]
fn a_secret_reaches_its_provider_and_nothing_else_however_it_is_repeated() {
    reaches_nothing_else(ways);
}

/// Has a provider repeat its secret in all these ways, in all dialects, and looks for it everywhere.
fn reaches_nothing_else(ways: impl Fn(Dialect) -> Vec<(&'static str, Act)>) {
    let configuration = format!("{LOOPBACK}\nlog_statement = 'all'\nlog_min_messages = debug1");
    let provider = Provider::start();
    let (server, mut client) = own(&configuration, &[("DIALECTIC_LAW_KEY", CANARY)]);
    configure(&mut client, "job_default_max_retries", "1");
    let project = project(&mut client, 1);
    let mut expected = Vec::new();
    for dialect in Dialect::ALL {
        let (api, settings) = catalogued(dialect);
        for (number, (way, act)) in ways(dialect).into_iter().enumerate() {
            let name = format!("{}-{number}", folder(dialect));
            provider.script(&name, vec![act, Act::answer(spoken())]);
            provide(&mut client, &name, api, &provider, ", secret => 'env:DIALECTIC_LAW_KEY'");
            model(&mut client, &name, &name, &format!(", settings => '{settings}'"));
            expected.push((name, way));
        }
    }
    let names: Vec<String> = expected.iter().map(|(name, _)| name.clone()).collect();
    begin_all(&mut client, project, &names);
    worked(&mut client);
    let requests = provider.requests();
    for (name, way) in &expected {
        let of: Vec<&Seen> = requests.iter().filter(|seen| seen.model == *name).collect();
        assert!(!of.is_empty() && of.iter().all(|seen| is_signed(seen)), "{name}, {way}: {of:?}");
    }
    let answered: i64 = one(
        &mut client,
        "select count(*) from dialectic.contributions where content like 'The key is ***, and again ***.'",
        &[],
    );
    assert!(answered >= Dialect::ALL.len() as i64, "{answered} answers are kept, without the secret");

    let mut places = shown(&mut client);
    places.push(("dump".to_owned(), server.dump("law")));
    places.push(("log".to_owned(), server.log()));
    assert!(places.iter().find(|(place, _)| place == "log").is_some_and(|(_, log)| log.contains("add_provider")));
    let mut found: Vec<String> = Vec::new();
    for (name, way) in &expected {
        let calls: Vec<String> = column(
            &mut client,
            "select concat_ws(' | ', error_message, finish_reason_raw) from dialectic.model_calls where model = $1",
            &[name],
        );
        found.extend(sightings(&format!("{name}, {way}"), &calls.join(" ")));
    }
    found.extend(places.iter().flat_map(|(place, text)| sightings(place, text)));
    assert!(found.is_empty(), "the secret was found: {found:#?}");
    assert_sound(&mut client);
}

/// What is made of what a provider says, before the secret is taken out of it.
fn odd_ways(_: Dialect) -> Vec<(&'static str, Act)> {
    vec![
        // What is shown of a page is cut, and the cut goes through the secret.
        ("long page 500", Act::body(500, "text/html", page(160))),
        ("content-type", Act::body(200, &format!("text/{CANARY}"), "Welcome.")),
        ("reason to stop", Act::answer(Answer::of("Half a").finish(CANARY))),
        ("text of the answer", Act::answer(spoken())),
    ]
}

#[test]
fn a_secret_is_taken_out_of_all_that_is_made_of_what_a_provider_says() {
    reaches_nothing_else(odd_ways);
}
