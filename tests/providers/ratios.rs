//! Models whose tokens are not OpenAI's: what their providers report is learned, kept, and used by whoever counts.

use crate::ground::*;
use dialectic_tests::fake_provider::{Act, Answer, Provider};
use dialectic_tests::*;
use postgres::Client;

const SAMPLES: &str = "select samples from dialectic.token_ratios where model = 'house'";

/// Makes the prompt of all calls long enough to tell; the providers here report far more tokens than are counted of it.
fn telling(client: &mut Client) -> String {
    let long = "A well is dug where the water is near, and lined with stone. ".repeat(30);
    let prompt = format!("{{% block user %}}{long}{{% endblock %}}");
    client.execute("select dialectic.set_prompt('cell_text', $1)", &[&prompt]).expect("a prompt");
    long
}

#[test]
fn what_a_provider_reports_becomes_the_ratio_of_its_model() {
    const CALLS: i32 = 24;
    let (provider, database) = (Provider::start(), Database::new());
    let mut client = database.connect();
    process(&mut client);
    let long = telling(&mut client);
    for (name, tokens) in [("house", 800), ("gpt-4o", 800)] {
        provider.script(name, vec![Act::answer(Answer::of("Read.").tokens(tokens, 2))]);
        chat(&mut client, name, &provider, "");
        let session = calls(&mut client, name, CALLS);
        work(&mut client);
        assert_eq!(jobs(&mut client, session), [format!("{CALLS} completed 1")]);
    }
    let ratios = client.query("select model, factor, samples from dialectic.token_ratios", &[]).expect("ratios");
    assert_eq!(ratios.len(), 1, "what is counted exactly has none");
    let (model, factor, samples): (String, f64, i32) = (ratios[0].get(0), ratios[0].get(1), ratios[0].get(2));
    assert_eq!(model, "house");
    assert!((20..=CALLS).contains(&samples), "{samples} samples");
    let counted: i64 = one(&mut client, "select dialectic.count_tokens($1, 'gpt-4o')", &[&long]);
    let actual = 800.0 / counted as f64;
    assert!((factor / actual - 1.0).abs() < 0.1, "{factor}, and it is {actual}");
    let estimated: i64 = one(&mut client, "select dialectic.count_tokens($1, 'house')", &[&long]);
    assert!((estimated - 800).abs() < 80, "{estimated}");
    assert_sound(&mut client);
}

#[test]
fn an_answer_is_kept_while_somebody_holds_the_ratio_of_its_model() {
    let (provider, database) = (Provider::start(), Database::new());
    let mut client = database.connect();
    process(&mut client);
    telling(&mut client);
    provider.script("house", vec![Act::answer(Answer::of("Read.").tokens(800, 2))]);
    chat(&mut client, "house", &provider, "");
    calls(&mut client, "house", 1);
    work(&mut client);
    assert_eq!(one::<i32>(&mut client, SAMPLES, &[]), 1);

    let mut holder = database.connect();
    holder.batch_execute("begin; select from dialectic.token_ratios for update").expect("a lock");
    let session = calls(&mut client, "house", 1);
    work(&mut client);
    assert_eq!(jobs(&mut client, session), ["1 completed 1"]);
    assert_eq!(one::<i32>(&mut client, SAMPLES, &[]), 1, "it is learned another time");
    holder.batch_execute("commit").expect("commit");
    calls(&mut client, "house", 1);
    work(&mut client);
    assert_eq!(one::<i32>(&mut client, SAMPLES, &[]), 3);
    assert_sound(&mut client);
}
