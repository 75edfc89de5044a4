//! What pages say of their examples, apart from the tables that they show.

use crate::markdown::Document;
use crate::page::Ran;
use dialectic_tests::*;

fn contains_all(output: &str, parts: &[&str]) {
    for part in parts {
        assert!(output.contains(part), "no \"{part}\" in\n{output}");
    }
}

/// The first example writes 46 documents with 104 calls; a model alone makes 33 calls; a session has its budget.
pub(crate) fn readme(mut ran: Ran) {
    contains_all(&ran.output, &["\n# Advice on the choice\n"]);
    let client = &mut ran.client;
    let first = client
        .query_one(
            "select s.id, s.status, (select count(*) from dialectic.documents d where d.session_id = s.id), \
             (select count(*) from dialectic.model_calls c where c.session_id = s.id) \
             from dialectic.sessions s order by s.created_at limit 1",
            &[],
        )
        .expect("the first session");
    assert_eq!((first.get(1), first.get(2), first.get(3)), ("completed", 46_i64, 104_i64));
    contains_all(&Document::read("README.md").expect("README.md").text, &["104 calls", "46 documents", "33 calls"]);

    let project: Uuid = one(client, "select dialectic.create_project('Notes', 'Plan an app.')", &[]);
    let alone: Uuid = one(client, "select dialectic.start_session($1, '{gpt-5-nano}')", &[&project]);
    assert_eq!(one::<i64>(client, "select calls from dialectic.explain_total($1)", &[&alone]), 33);
    let budgets: Vec<i64> = column(client, "select amount from dialectic.budgets order by 1", &[]);
    assert_eq!(budgets, [200_000, 2_000_000]);
    let outcomes: Vec<String> = column(
        client,
        "select distinct s.status || ' ' || c.outcome from dialectic.model_calls c \
         join dialectic.sessions s on s.id = c.session_id where c.model = 'gpt-5-nano'",
        &[],
    );
    assert_eq!(outcomes, ["completed answered"]);
}

/// A person leads the session to its end, the calls after a feedback read it, and the export has as many files.
pub(crate) fn quickstart(mut ran: Ran) {
    let client = &mut ran.client;
    let sessions: Vec<String> =
        column(client, "select concat_ws(' ', status, current_stage, iteration) from dialectic.sessions", &[]);
    assert_eq!(sessions, ["completed paralysis 2"]);
    let readers = "select count(*) filter (where r.content like '%Say more about synchronisation.%'), count(*) \
                   from dialectic.resources r where r.resource_type = 'turn_prompt' and r.stage = 'antithesis'";
    let readers = client.query_one(readers, &[]).expect("the prompts");
    assert_eq!(
        (readers.get::<_, i64>(0), readers.get::<_, i64>(1)),
        (24, 24),
        "prompts with the feedback, all prompts"
    );
    let files: i64 = one(client, "select count(*) from dialectic.projects p, dialectic.files(p.id)", &[]);
    let page = Document::read("docs/quickstart.md").expect("the page");
    contains_all(&page.text, &[&format!("{files} files")]);
}

/// A layout lays a document out in its own order, and a part of an input is all that a step reads of it.
pub(crate) fn processes(mut ran: Ran) {
    let documents: Vec<String> = column(
        &mut ran.client,
        "select document_key || ' ' || model from dialectic.documents where complete and session_id = \
         (select id from dialectic.sessions where process = 'decision' order by created_at limit 1) order by 1",
        &[],
    );
    assert_eq!(documents, ["memo sim-a", "memo sim-b", "option_paper sim-a", "option_paper sim-b"]);
    let prompts: Vec<String> = column(
        &mut ran.client,
        "select r.content from dialectic.resources r where r.resource_type = 'turn_prompt' and r.stage = 'verdict' \
         and r.session_id = (select id from dialectic.sessions where process = 'decision' order by created_at limit 1)",
        &[],
    );
    assert_eq!(prompts.len(), 2);
    for prompt in prompts {
        assert_eq!(prompt.matches("<document type=\\\"option_paper\\\"").count(), 2, "{prompt}");
        assert!(prompt.contains("\\\"gain\\\"") && !prompt.contains("unknowns"), "only the part is read: {prompt}");
    }
}

/// A provider and a model of one's own are stored as they are written, and a price list changes a price.
pub(crate) fn models(mut ran: Ran) {
    let client = &mut ran.client;
    let added: Vec<String> = column(
        client,
        "select concat_ws(' ', m.fallback, s.reference) from dialectic.models m \
         join dialectic.secrets s using (provider) where m.name = 'house-large'",
        &[],
    );
    assert_eq!(added, ["gpt-5-mini env:DIALECTIC_GATEWAY_KEY"]);
    let secrets: Vec<String> = column(client, "select provider from dialectic.secrets order by 1", &[]);
    assert_eq!(secrets, ["anthropic", "gateway", "openai"]);
    let prices: Vec<String> = column(
        client,
        "select input_price::real::text from dialectic.models where name = 'gpt-5-nano' and not is_shipped",
        &[],
    );
    assert_eq!(prices, ["0.06"]);
}

/// Wallets hold what was put into them; a key of a top-up that was used adds nothing.
pub(crate) fn money(mut ran: Ran) {
    let kinds: Vec<String> = column(
        &mut ran.client,
        "select kind || ' ' || amount from dialectic.ledger where kind in ('opening', 'top_up') order by id",
        &[],
    );
    assert_eq!(kinds, ["opening 5000000", "top_up 2000000", "opening 10000000"]);
}
