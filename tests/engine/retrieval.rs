//! Quality of search, measured with the retrieval set (tests/fixtures/retrieval): words alone, vectors alone, both.
//!
//! A question counts when one of ten chunks has its passage. The simulator's vectors see letters and no meaning, so
//! the part of paraphrases is printed and not bounded.

use dialectic_tests::*;
use postgres::Client;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

struct Question {
    question: String,
    document: String,
    passage: String,
    is_literal: bool,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/retrieval")
}

fn questions() -> Vec<Question> {
    let mut questions = Vec::new();
    for name in ["english.json", "german.json"] {
        let text = fs::read_to_string(folder().join("questions").join(name)).expect("questions");
        let list: Vec<Value> = serde_json::from_str(&text).expect("a list");
        let of = |value: &Value, key: &str| value[key].as_str().expect("a text").to_owned();
        questions.extend(list.iter().map(|value| Question {
            question: of(value, "question"),
            document: of(value, "document"),
            passage: of(value, "passage"),
            is_literal: of(value, "kind") == "literal",
        }));
    }
    questions
}

/// A session over a project to which all documents are attached.
fn session_over_documents(client: &mut Client) -> Uuid {
    let project: Uuid = one(client, "select dialectic.create_project('Set', 'x', process => 'essay')", &[]);
    let files = fs::read_dir(folder().join("documents")).expect("documents");
    let mut paths: Vec<PathBuf> = files.map(|file| file.expect("a file").path()).collect();
    paths.sort();
    for path in paths {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).expect("a text");
        one::<Uuid>(
            client,
            "select dialectic.add_resource($1, $2, $3, 'reference_documents')",
            &[&project, &name, &text],
        );
    }
    one(client, "select dialectic.start_session($1, '{sim-a}')", &[&project])
}

/// Whether each question is answered by one of ten chunks that a statement finds for it.
fn answered(client: &mut Client, statement: &str, session: Uuid, questions: &[Question]) -> Vec<bool> {
    let answers = |question: &Question, client: &mut Client| {
        let rows = client.query(statement, &[&session, &question.question]).expect("a search");
        rows.iter()
            .any(|row| row.get::<_, &str>(0) == question.document && row.get::<_, &str>(1).contains(&question.passage))
    };
    questions.iter().map(|question| answers(question, client)).collect()
}

#[test]
fn hybrid_search_loses_at_most_one_question_to_the_better_method() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let session = session_over_documents(&mut client);
    let questions = questions();
    let by_text = "select metadata ->> 'name', content from dialectic.match_chunks($1, $2::text, 10)";
    let words = answered(&mut client, by_text, session, &questions);
    client.batch_execute(r#"select dialectic.set_config('embedding_model', '"sim-embed"')"#).expect("a setting");
    let hybrid = answered(&mut client, by_text, session, &questions);
    let by_vector = "select metadata ->> 'name', content \
                     from dialectic.match_chunks($1, dialectic._simulate_embedding($2)::public.vector, 10)";
    let vectors = answered(&mut client, by_vector, session, &questions);
    let count = |hits: &[bool], is_literal: bool| {
        hits.iter().zip(&questions).filter(|(hit, question)| **hit && question.is_literal == is_literal).count()
    };
    let literal = questions.iter().filter(|question| question.is_literal).count();
    for (method, hits) in [("words", &words), ("vectors", &vectors), ("hybrid", &hybrid)] {
        println!(
            "recall@10 of {method}: {}/{literal} literal, {}/{} paraphrases",
            count(hits, true),
            count(hits, false),
            questions.len() - literal
        );
    }
    let all = |hits: &[bool]| hits.iter().filter(|hit| **hit).count();
    assert!(all(&hybrid) + 1 >= all(&words).max(all(&vectors)));
    assert!(count(&hybrid, true) as f64 >= 0.85 * literal as f64);
}
