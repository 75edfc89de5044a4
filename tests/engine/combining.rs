//! Documents that do not fit into a model's window are condensed first: in groups that fit, by jobs that the step waits for, whose
//! texts it then reads in their place. What cannot be made to fit fails the job, and says by how much.

use dialectic_tests::*;
use postgres::Client;
use serde_json::json;

/// A process whose second step reads, at once, what the first wrote about each of so many texts.
fn gathered(client: &mut Client, texts: i32, words: i32, window: i32) -> Uuid {
    client
        .batch_execute(
            "select dialectic.set_prompt('gather_seed', 'Brief.'); \
             select dialectic.set_prompt('gather_leaf', '{% block user %}{% include \"shared_documents\" %}LEAF {% include \"shared_request\" %}{% endblock %}'); \
             select dialectic.set_prompt('gather_all', '{% block user %}{% include \"shared_documents\" %}GATHER {% include \"shared_request\" %}{% endblock %}')",
        )
        .expect("prompts");
    let stages = json!([{"slug": "only", "seed_prompt_template": "gather_seed", "recipe": {"steps": [
        {"key": "leaf", "job_type": "execute", "prompt_template_name": "gather_leaf", "granularity_strategy": "per_source_document",
         "inputs_required": [{"type": "general_resource", "multiple": true}], "output_type": "leaf"},
        {"key": "gather", "job_type": "execute", "prompt_template_name": "gather_all", "granularity_strategy": "all_to_one",
         "inputs_required": [{"type": "leaf", "multiple": true}], "output_type": "gathered", "document_key": "gathered"}]}}]);
    client.execute("select dialectic.define_process('gather', $1)", &[&stages]).expect("a process");
    let settings = json!({"answer_words": words, "marker": "auto"});
    client
        .execute(
            "select dialectic.add_model('narrow', 'simulator', settings => $1, context_window => $2, max_output_tokens => 1000)",
            &[&settings, &window],
        )
        .expect("a model");
    let project: Uuid = one(client, "select dialectic.create_project('Gather', 'Sum up.', process => 'gather')", &[]);
    client
        .execute(
            "select dialectic.add_resource($1, 'text ' || n, 'Text ' || n) from generate_series(1, $2) as n",
            &[&project, &texts],
        )
        .expect("texts");
    let session: Uuid = one(client, "select dialectic.start_session($1, '{narrow}')", &[&project]);
    client.execute("select dialectic.generate($1)", &[&session]).expect("generate");
    session
}

fn kinds(client: &mut Client, session: Uuid) -> Vec<String> {
    column(
        client,
        "select format('%s %s %s', kind, status, count(*)) from dialectic.jobs where session_id = $1 group by kind, status order by 1",
        &[&session],
    )
}

#[test]
fn what_does_not_fit_is_condensed_in_groups_that_do() {
    let database = Database::by_hand();
    let mut client = database.connect();
    // Eight answers of some 600 tokens each, and a window for 4,000.
    let session = gathered(&mut client, 8, 420, 5000);
    work(&mut client);
    let kinds = kinds(&mut client, session);
    assert!(kinds.iter().any(|kind| kind.starts_with("combine completed")), "{kinds:?}");
    assert!(kinds.contains(&"execute completed 9".to_owned()), "{kinds:?}");
    // What the last step was sent is what it is listed with: condensed texts, and not one of the originals.
    let roles: Vec<String> = column(
        &mut client,
        "select distinct i.role from dialectic.job_inputs i join dialectic.jobs j on j.id = i.job where j.step_key = 'gather' and j.kind = 'execute'",
        &[],
    );
    assert_eq!(roles, ["combined"]);
    let prompt: String = one(
        &mut client,
        "select r.content from dialectic.resources r join dialectic.jobs j on j.id = r.job_id where j.step_key = 'gather' and j.kind = 'execute'",
        &[],
    );
    let marks =
        "select substring(content from '\\[narrow/[0-9a-f]{8}\\]') from dialectic.contributions where output_type = $1";
    for mark in column::<String>(&mut client, marks, &[&"combined"]) {
        assert!(prompt.contains(&mark), "{mark} did not reach the step");
    }
    // Every original is in exactly one group, and the template that ships has condensed it.
    let read: i64 = one(
        &mut client,
        "select count(distinct i.artifact) from dialectic.job_inputs i join dialectic.jobs j on j.id = i.job \
         join dialectic.contributions c on c.id = i.artifact where j.kind = 'combine' and c.output_type = 'leaf'",
        &[],
    );
    assert_eq!(read, 8);
    let instructed: bool = one(
        &mut client,
        "select bool_and(r.content like '%Condense the documents.%') from dialectic.resources r join dialectic.jobs j on j.id = r.job_id where j.kind = 'combine'",
        &[],
    );
    assert!(instructed);
    assert_sound(&mut client);
}

#[test]
fn what_fits_is_not_condensed() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let session = gathered(&mut client, 3, 60, 8000);
    work(&mut client);
    assert_eq!(kinds(&mut client, session), ["execute completed 4", "plan completed 1"]);
}

#[test]
fn what_is_too_far_over_fails_and_says_by_how_much() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let session = gathered(&mut client, 40, 420, 5000);
    work(&mut client);
    let (class, message): (String, String) = {
        let row = client
            .query_one(
                "select error_details ->> 'class', error_details ->> 'message' from dialectic.jobs \
                 where session_id = $1 and step_key = 'gather' and kind = 'execute'",
                &[&session],
            )
            .expect("the step");
        (row.get(0), row.get(1))
    };
    assert_eq!(class, "context_window");
    assert!(message.contains("tokens") && message.contains("over the"), "{message}");
    assert_sound(&mut client);
}

#[test]
fn condensed_texts_that_are_cut_off_are_continued_and_condensing_ends_all_the_same() {
    let database = Database::by_hand();
    let mut client = database.connect();
    // Every text is longer than what the model may say at once, and condensed it is as long again.
    let session = gathered(&mut client, 3, 900, 3600);
    work(&mut client);
    let rounds: i32 = one(
        &mut client,
        "select max(combine_depth) from dialectic.jobs where session_id = $1 and kind = 'combine'",
        &[&session],
    );
    assert!((1..=4).contains(&rounds), "{rounds} rounds");
    let continued: i64 = one(
        &mut client,
        "select count(*) from dialectic.jobs where session_id = $1 and kind = 'combine' and continuation_count > 0",
        &[&session],
    );
    assert!(continued > 0, "a condensed text is continued as any other");
    let left =
        "select count(*) from dialectic.jobs where session_id = $1 and status <> all (dialectic._ended_statuses())";
    assert_eq!(one::<i64>(&mut client, left, &[&session]), 0);
    let told = "select count(*) from dialectic.notifications where session_id = $1 and title like '%combined%'";
    assert_eq!(one::<i64>(&mut client, told, &[&session]), 0, "nobody is told of what is nobody's document");
    assert_sound(&mut client);
}

#[test]
fn every_fact_of_thirty_documents_is_in_the_condensed_texts() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let session = gathered_facts(&mut client, 200, 30);
    work(&mut client);
    let combined = "select count(*) from dialectic.jobs where session_id = $1 and kind = 'combine'";
    assert!(one::<i64>(&mut client, combined, &[&session]) > 1, "documents were condensed");
    for output_type in ["combined", "gathered"] {
        let texts: Vec<String> = column(
            &mut client,
            "select content from dialectic.contributions where session_id = $1 and output_type = $2",
            &[&session, &output_type],
        );
        // A text that is cut off goes on in the next chunk.
        let text = texts.concat();
        let lost: Vec<i32> = (1..=200).filter(|n| !text.contains(&format!("{}\n", fact(*n)))).collect();
        assert_eq!(lost, Vec::<i32>::new(), "facts that the {output_type} texts lack");
    }
    assert_sound(&mut client);
}

fn fact(n: i32) -> String {
    format!("FACT-{n}: pump {n} was serviced on day {} of the year", n * 7 % 365)
}

/// A session over so many documents that share these facts and say much else, twice the window in all.
fn gathered_facts(client: &mut Client, facts: i32, documents: i32) -> Uuid {
    client
        .batch_execute(
            "select dialectic.set_prompt('facts_seed', 'Brief.'); \
             select dialectic.set_prompt('facts_all', '{% block user %}{% include \"shared_documents\" %}\
             {% include \"shared_request\" %}{% endblock %}')",
        )
        .expect("prompts");
    let stages = json!([{"slug": "only", "seed_prompt_template": "facts_seed", "recipe": {"steps": [
        {"key": "gather", "job_type": "execute", "prompt_template_name": "facts_all",
         "granularity_strategy": "all_to_one", "inputs_required": [{"type": "general_resource", "multiple": true}],
         "output_type": "gathered", "document_key": "gathered"}]}}]);
    client.execute("select dialectic.define_process('facts', $1)", &[&stages]).expect("a process");
    client
        .execute(
            "select dialectic.add_model('faithful', 'simulator', settings => '{\"echo_facts\": true}', \
             context_window => 16000, max_output_tokens => 4000)",
            &[],
        )
        .expect("a model");
    let project: Uuid = one(client, "select dialectic.create_project('Facts', 'Sum up.', process => 'facts')", &[]);
    for document in 0..documents {
        let own = (1..=facts).filter(|n| n % documents == document);
        let text: String = own.map(|n| format!("{}\n\n{}\n\n", fact(n), "As is well known. ".repeat(22))).collect();
        client
            .execute("select dialectic.add_resource($1, $2, $3)", &[&project, &format!("log {document}"), &text])
            .expect("a text");
    }
    let session: Uuid = one(client, "select dialectic.start_session($1, '{faithful}')", &[&project]);
    client.execute("select dialectic.generate($1)", &[&session]).expect("generate");
    session
}

#[test]
fn model_that_thinks_longer_than_a_condensed_text_may_be_still_writes_it() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let session = gathered(&mut client, 8, 420, 5000);
    let settings = json!({"answer_words": 420, "thinks_tokens": 1500});
    let add = "select dialectic.add_model('narrow', 'simulator', settings => $1, context_window => 5000, \
               max_output_tokens => 2000)";
    client.execute(add, &[&settings]).expect("a model that thinks");
    work(&mut client);
    let kinds = kinds(&mut client, session);
    assert!(kinds.iter().all(|kind| kind.contains(" completed ")), "{kinds:?}");
    assert!(kinds.iter().any(|kind| kind.starts_with("combine completed")), "{kinds:?}");
    // Its first call spent all its tokens before it wrote a word, and was asked again with more.
    let raised = "select count(*) from dialectic.jobs where kind = 'combine' and output_budget > combine_limit";
    assert!(one::<i64>(&mut client, raised, &[]) > 0);
    assert_sound(&mut client);
}
