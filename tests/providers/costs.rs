//! What a call used and what it cost, to the micro-dollar, against a table that was worked out by hand.

use crate::ground::*;
use dialectic_core::provider::dialect::Dialect;
use dialectic_tests::fake_provider::{Act, Provider, folder};
use dialectic_tests::*;
use serde_json::{Value, json};

/// Dollars per million tokens, and so micro-dollars per token.
const PRICES: &str = ", input_price => 1.1, output_price => 3.3, cached_price => 0.11, cache_write_price => 1.37, reasoning_price => 7.7";

/// A stream of one word and this usage.
fn stream(dialect: Dialect, usage: Value) -> Act {
    let data = match dialect {
        Dialect::Chat => vec![
            json!({"choices": [{"index": 0, "delta": {"content": "Dear."}, "finish_reason": "stop"}], "usage": null}),
            json!({"choices": [], "usage": usage}),
        ],
        _ => vec![
            json!({"type": "response.output_text.delta", "delta": "Dear."}),
            json!({"type": "response.completed", "response": {"status": "completed", "output": [], "usage": usage}}),
        ],
    };
    let body: String = data.iter().map(|data| format!("data: {data}\n\n")).collect();
    Act::body(200, "text/event-stream", body)
}

/// What is answered in each dialect; input, output, cached, written into the cache, thought; and the cost.
fn table() -> Vec<(Dialect, Act, [i64; 5], i64)> {
    let chat = json!({
        "prompt_tokens": 1001, "completion_tokens": 77, "total_tokens": 1078,
        "prompt_tokens_details": {"cached_tokens": 400, "cache_write_tokens": 101},
        "completion_tokens_details": {"reasoning_tokens": 33},
    });
    let responses = json!({
        "input_tokens": 503, "output_tokens": 211, "total_tokens": 714,
        "input_tokens_details": {"cached_tokens": 302}, "output_tokens_details": {"reasoning_tokens": 199},
    });
    vec![
        // 500 × 1.1 + 400 × 0.11 + 101 × 1.37 + 44 × 3.3 + 33 × 7.7 = 550 + 44 + 138.37 + 145.2 + 254.1 = 1131.67
        (Dialect::Chat, stream(Dialect::Chat, chat), [1001, 77, 400, 101, 33], 1132),
        // 201 × 1.1 + 302 × 0.11 + 12 × 3.3 + 199 × 7.7 = 221.1 + 33.22 + 39.6 + 1532.3 = 1826.22
        (Dialect::Responses, stream(Dialect::Responses, responses), [503, 211, 302, 0, 199], 1827),
        // The input is told in parts: 21 + 188086 from the cache + 1000 into it.
        // 21 × 1.1 + 188086 × 0.11 + 1000 × 1.37 + 273 × 3.3 + 120 × 7.7 = 23.1 + 20689.46 + 1370 + 900.9 + 924 = 23907.46
        (Dialect::Anthropic, Act::fixture("usage"), [189_107, 393, 188_086, 1000, 120], 23_908),
        // The output is told in parts: 15 + 73 thought.
        // 770 × 1.1 + 11243 × 0.11 + 15 × 3.3 + 73 × 7.7 = 847 + 1236.73 + 49.5 + 562.1 = 2695.33
        (Dialect::Google, Act::fixture("usage.json"), [12_013, 88, 11_243, 0, 73], 2696),
        // 26 × 1.1 + 282 × 3.3 = 28.6 + 930.6 = 959.2
        (Dialect::Ollama, Act::fixture("success"), [26, 282, 0, 0, 0], 960),
    ]
}

#[test]
fn usage_and_cost_are_those_of_a_table_worked_out_by_hand() {
    let (provider, database) = (Provider::start(), Database::new());
    let mut client = database.connect();
    process(&mut client);
    for (dialect, act, ..) in table() {
        let (name, (api, settings)) = (folder(dialect), catalogued(dialect));
        provider.script(name, vec![act]);
        provide(&mut client, name, api, &provider, "");
        model(&mut client, name, name, &format!(", settings => '{settings}'{PRICES}"));
    }
    let project = project(&mut client, 1);
    begin_all(&mut client, project, &Dialect::ALL.map(|dialect| folder(dialect).to_owned()));
    work(&mut client);
    for (dialect, _, tokens, cost) in table() {
        let calls: Vec<String> = column(
            &mut client,
            "select concat_ws(' ', outcome, input_tokens, output_tokens, cached_tokens, cache_write_tokens, reasoning_tokens, cost, is_estimated) \
             from dialectic.model_calls where model = $1",
            &[&folder(dialect)],
        );
        let [input, output, cached, written, thought] = tokens;
        assert_eq!(calls, [format!("answered {input} {output} {cached} {written} {thought} {cost} f")], "{dialect:?}");
    }
}

#[test]
fn without_prices_of_their_own_what_is_cached_costs_as_input_and_what_is_thought_as_output() {
    let (provider, database) = (Provider::start(), Database::new());
    let mut client = database.connect();
    process(&mut client);
    provider.script("plain", vec![Act::fixture("usage")]);
    provide(&mut client, "plain", "anthropic", &provider, "");
    model(&mut client, "plain", "plain", ", input_price => 0.000001, output_price => 0.000001");
    calls(&mut client, "plain", 1);
    work(&mut client);
    // 189500 tokens × 0.000001 = 0.1895, rounded up once and not five times.
    assert_eq!(one::<i64>(&mut client, "select cost from dialectic.model_calls", &[]), 1);
}

#[test]
fn usage_of_zero_with_an_answer_is_counted_and_charged() {
    let (provider, database) = (Provider::start(), Database::new());
    let mut client = database.connect();
    process(&mut client);
    let (name, (api, settings)) = (folder(Dialect::Chat), catalogued(Dialect::Chat));
    provider.script(name, vec![stream(Dialect::Chat, json!({"prompt_tokens": 0, "completion_tokens": 0}))]);
    provide(&mut client, name, api, &provider, "");
    model(&mut client, name, name, &format!(", settings => '{settings}', input_price => 3, output_price => 15"));
    let project = project(&mut client, 1);
    begin_all(&mut client, project, &[name.to_owned()]);
    work(&mut client);
    let counted: bool = one(
        &mut client,
        "select is_estimated and input_tokens > 0 and output_tokens > 0 and cost >= 3 * input_tokens + 15 * output_tokens \
         from dialectic.model_calls",
        &[],
    );
    assert!(counted);
}
