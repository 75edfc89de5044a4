//! The laws of embeddings, on the documented answers and on answers that are wrong in one way each.
//!
//! They decide nothing; they hold [`super`] to what its header says.

use super::*;
use crate::provider::Outcome;
use crate::provider::dialect::Event;
use crate::provider::reader::Reader;
use crate::provider::transcript::Transcript;
use proptest::prelude::*;

fn two() -> Vec<String> {
    vec!["Why is the sky blue?".into(), "Why is the grass green?".into()]
}

fn asked(texts: &[String]) -> Texts<'_> {
    Texts { api_model: "name", texts, purpose: Purpose::Document, dimensions: None }
}

fn class(dialect: Dialect, texts: &Texts, body: Value) -> Class {
    read(dialect, texts.texts.len(), texts.dimensions, &body).expect_err(&body.to_string()).class
}

/// Base64, written down from its definition.
fn encoded(bytes: &[u8]) -> String {
    let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let group = |three: &[u8]| {
        let bits = three.iter().chain(&[0, 0]).take(3).fold(0u32, |bits, byte| bits << 8 | u32::from(*byte));
        (0..4).map(move |at| letters[(bits >> (18 - 6 * at) & 63) as usize]).take(three.len() + 1).collect::<Vec<u8>>()
    };
    let mut text: Vec<u8> = bytes.chunks(3).flat_map(group).collect();
    text.resize(text.len().next_multiple_of(4), b'=');
    String::from_utf8(text).unwrap()
}

fn base64(numbers: &[f32]) -> String {
    encoded(&numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>())
}

#[test]
fn each_api_is_asked_in_its_own_words() {
    let texts = two();
    let mut asked = asked(&texts);
    let openai = wire(Dialect::Chat, &asked).unwrap();
    assert_eq!((openai.path.as_str(), openai.key), ("/embeddings", Key::Bearer));
    assert_eq!(openai.body, json!({"model": "name", "input": texts, "encoding_format": "base64"}));
    assert_eq!(wire(Dialect::Responses, &asked), Some(openai));
    let ollama = wire(Dialect::Ollama, &asked).unwrap();
    assert_eq!((ollama.path.as_str(), ollama.key), ("/api/embed", Key::Bearer));
    assert_eq!(ollama.body, json!({"model": "name", "input": texts, "truncate": false}));
    let gemini = wire(Dialect::Google, &asked).unwrap();
    assert_eq!(gemini.path, "/v1beta/models/name:batchEmbedContents");
    assert_eq!(gemini.key, Key::Header("x-goog-api-key"));
    let first = json!({"model": "models/name", "content": {"parts": [{"text": "Why is the sky blue?"}]},
        "taskType": "RETRIEVAL_DOCUMENT"});
    assert_eq!(gemini.body["requests"][0], first);
    assert_eq!(gemini.body["requests"].as_array().unwrap().len(), 2);
    assert_eq!(wire(Dialect::Anthropic, &asked), None);

    (asked.dimensions, asked.purpose) = (Some(256), Purpose::Query);
    assert_eq!(wire(Dialect::Chat, &asked).unwrap().body["dimensions"], 256);
    assert_eq!(wire(Dialect::Ollama, &asked).unwrap().body["dimensions"], 256);
    let request = wire(Dialect::Google, &asked).unwrap().body["requests"][1].clone();
    assert_eq!((&request["outputDimensionality"], &request["taskType"]), (&json!(256), &json!("RETRIEVAL_QUERY")));
}

/// `ollama/ollama`, `docs/api.md`, "Generate Embeddings", "Request (Multiple input)", with the count of the example
/// before it.
#[test]
fn the_documented_answer_of_ollama_is_read() {
    let body = json!({"model": "all-minilm", "prompt_eval_count": 8, "embeddings": [
        [0.010071029, -0.0017594862, 0.05007221, 0.04692972, 0.054916814, 0.008599704, 0.105441414, -0.025878139, 0.12958129, 0.031952348],
        [-0.0098027075, 0.06042469, 0.025257962, -0.006364387, 0.07272725, 0.017194884, 0.09032035, -0.051705178, 0.09951512, 0.09072481]]});
    let texts = two();
    let read = read(Dialect::Ollama, texts.len(), None, &body).unwrap();
    assert_eq!(read.input_tokens, Some(8));
    assert_eq!((read.vectors[0][0], read.vectors[1][9]), (0.010071029, 0.09072481));
    assert_eq!(read.vectors[1].len(), 10);
}

/// The shape of "Create embeddings" in OpenAI's API reference.
#[test]
fn openai_may_send_words_or_bytes_and_any_order() {
    let texts = two();
    let expected = vec![vec![0.5, -1.25], vec![3.0, 1e-20]];
    for (first, second) in [
        (json!([0.5, -1.25]), json!([3.0, 1e-20])),
        (json!(base64(&expected[0])), json!(base64(&expected[1]))),
        (json!([0.5, -1.25]), json!(base64(&expected[1]))),
    ] {
        let body = json!({"object": "list", "model": "name", "usage": {"prompt_tokens": 8, "total_tokens": 8}, "data": [
            {"object": "embedding", "index": 1, "embedding": second}, {"object": "embedding", "index": 0, "embedding": first}]});
        let read = read(Dialect::Chat, texts.len(), None, &body).unwrap();
        assert_eq!(read, Vectors { vectors: expected.clone(), input_tokens: Some(8) });
    }
}

#[test]
fn vectors_of_gemini_are_one_long() {
    let texts = two();
    let body = json!({"embeddings": [{"values": [3.0, 4.0]}, {"values": [0.0, -2.0]}]});
    let read = read(Dialect::Google, texts.len(), None, &body).unwrap();
    assert_eq!(read, Vectors { vectors: vec![vec![0.6, 0.8], vec![0.0, -1.0]], input_tokens: None });
    let zero = json!({"embeddings": [{"values": [3.0, 4.0]}, {"values": [0.0, 0.0]}]});
    assert_eq!(class(Dialect::Google, &asked(&texts), zero), Class::Content);
}

#[test]
fn what_is_not_one_vector_for_each_text_is_a_fault() {
    let texts = two();
    let mut asked = asked(&texts);
    let one = json!({"embedding": [1.0, 2.0]});
    let with = |second: Value| json!({"data": [one, second]});
    for body in [
        json!({}),
        json!({"data": null}),
        json!({"data": [one]}),
        json!({"data": [one, one, one]}),
        with(json!({"embedding": [1.0]})),
        with(json!({"embedding": []})),
        with(json!({"embedding": [1.0, null]})),
        with(json!({"embedding": [1.0, "2"]})),
        with(json!({"embedding": [1.0, 1e300]})),
        with(json!({"embedding": base64(&[1.0, f32::NAN])})),
        with(json!({"embedding": base64(&[1.0, f32::INFINITY])})),
        with(json!({"embedding": encoded(&[0, 0, 128, 63, 0, 0, 0])})),
        with(json!({"embedding": "AACAPwAAAEA"})),
        with(json!({"embedding": "AACAPwAAAE!="})),
        with(json!({"embedding": "AACAPwAAAE==="})),
        with(json!({"embedding": [1.0, 2.0], "index": 0})),
        with(json!({"embedding": [1.0, 2.0], "index": 2})),
        with(json!({"embedding": [1.0, 2.0], "index": -1})),
        with(json!({})),
        with(json!(null)),
    ] {
        assert_eq!(class(Dialect::Chat, &asked, body), Class::Content);
    }
    assert!(read(Dialect::Chat, asked.texts.len(), asked.dimensions, &with(one.clone())).is_ok());
    asked.dimensions = Some(3);
    assert_eq!(class(Dialect::Chat, &asked, with(one.clone())), Class::Content);
}

#[test]
fn an_error_is_read_in_the_words_of_its_api() {
    let texts = two();
    let quota = json!({"error": {"message": "m", "type": "insufficient_quota", "code": "insufficient_quota"}});
    assert_eq!(class(Dialect::Chat, &asked(&texts), quota), Class::Configuration);
    assert_eq!(class(Dialect::Ollama, &asked(&texts), json!({"error": "the input is too long"})), Class::Transient);
}

proptest! {
    #[test]
    fn base64_reads_back_as_the_bytes_it_was_made_of(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        prop_assert_eq!(decoded(&encoded(&bytes)), Some(bytes));
    }

    #[test]
    fn no_text_makes_the_reader_of_base64_panic(text in "\\PC{0,20}|[A-Za-z0-9+/=]{0,24}") {
        if let Some(bytes) = decoded(&text) {
            prop_assert_eq!(encoded(&bytes), text);
        }
    }
}

#[test]
fn response_in_pieces_becomes_vectors_with_usage() {
    let body = json!({
        "data": [{"index": 1, "embedding": [0.0, 1.0]}, {"index": 0, "embedding": [1.0, 0.0]}],
        "usage": {"prompt_tokens": 7, "total_tokens": 7}
    })
    .to_string();
    let mut reader = Reader::of_vectors(Dialect::Chat, 2, None, 1 << 20);
    let mut transcript = Transcript::default();
    body.as_bytes().chunks(5).flat_map(|bytes| reader.push(bytes)).for_each(|event| transcript.take(event));
    reader.end().into_iter().for_each(|event| transcript.take(event));
    let Outcome::Vectors { vectors, usage } = transcript.outcome(Some(200), |_| (99, 99)) else { panic!("no vectors") };
    assert_eq!(vectors, [[1.0, 0.0], [0.0, 1.0]]);
    assert_eq!((usage.input_tokens, usage.output_tokens, usage.estimated), (7, 0, false));
}

#[test]
fn vectors_of_unequal_length_are_a_fault() {
    let mut reader = Reader::of_vectors(Dialect::Ollama, 2, None, 1 << 20);
    let mut events = reader.push(br#"{"embeddings": [[1.0, 0.0], [1.0]]}"#);
    events.extend(reader.end());
    assert!(matches!(&events[..], [Event::Fault(_)]), "{events:?}");
}

#[test]
fn batch_ends_at_texts_or_tokens_and_is_never_empty() {
    let limit = BatchLimit { texts: 3, tokens: 100 };
    assert_eq!(limit.count([10, 10, 10, 10]), 3);
    assert_eq!(limit.count([60, 30, 30]), 2);
    assert_eq!(limit.count([500, 1]), 1);
    assert_eq!(BatchLimit::of("anthropic"), None);
}
