//! Models whose tokens are not OpenAI's: what their providers report is learned, kept, and used by whoever counts.

use crate::ground::*;
use dialectic_tests::provider::{Act, Answer, Provider};
use dialectic_tests::*;

#[test]
fn what_a_provider_reports_becomes_the_ratio_of_its_model() {
    const CALLS: i32 = 24;
    let (provider, database) = (Provider::start(), Database::new());
    let mut client = database.connect();
    process(&mut client);
    // A prompt that is long enough to tell, of which the provider reports far more tokens than were counted.
    let long = "A well is dug where the water is near, and lined with stone. ".repeat(30);
    client
        .execute(
            "select dialectic.set_prompt('cell_text', $1)",
            &[&format!("{{% block user %}}{long}{{% endblock %}}")],
        )
        .expect("a prompt");
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
