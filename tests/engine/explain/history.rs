//! What earlier sessions teach: how long the answers of a model and a step become, and whose sessions teach whom.

use super::*;

fn by_step(client: &mut Client, session: Uuid, column: &str) -> Vec<(String, i64)> {
    let rows =
        client.query(&format!("select step_key, {column} from dialectic.explain($1)"), &[&session]).expect("explain");
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

/// Makes a model of the simulator one of a provider; what it wrote is what it wrote.
fn no_longer_simulated(client: &mut Client, model: &str) {
    client
        .execute("select dialectic.add_model($1, 'openai', 'gpt-5', input_price => 2, output_price => 8)", &[&model])
        .expect("another model of that name");
}

/// A session that a model has written before.
fn written_before(client: &mut Client, model: &str) -> Uuid {
    models(client);
    define(client);
    let before = start(client, "decision", &[model], SHORT, &["A text."]);
    run(client, before);
    before
}

#[test]
fn sessions_that_never_ran_teach_nothing_and_push_nobody_out() {
    let database = Database::new();
    let mut client = database.connect();
    written_before(&mut client, "wordy");
    no_longer_simulated(&mut client, "wordy");
    let session = start(&mut client, "decision", &["wordy"], SHORT, &["A text."]);
    let told = by_step(&mut client, session, "output_tokens");
    for _ in 0..25 {
        start(&mut client, "decision", &["wordy"], SHORT, &["A text."]);
    }
    assert_eq!(by_step(&mut client, session, "output_tokens"), told);
}

#[test]
fn a_report_beyond_all_measure_does_not_make_the_next_session_beyond_price() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let before = written_before(&mut client, "plain");
    let session = start(&mut client, "decision", &["plain"], SHORT, &["A text."]);
    client
        .execute("update dialectic.model_calls set output_tokens = 1000000000000 where session_id = $1", &[&before])
        .expect("an absurd report");
    let row = client
        .query_one("select cost < 10 and worst_cost < 100 from dialectic.explain_total($1)", &[&session])
        .expect("explain_total");
    assert!(row.get::<_, bool>(0));
}

#[test]
fn a_session_is_foretold_by_those_before_it() {
    let database = Database::new();
    let mut client = database.connect();
    models(&mut client);
    define(&mut client);
    for (process, models_asked) in [
        ("dialectic", &["wordy", "thinker"][..]),
        ("essay", &["plain", "wordy", "marked"]),
        ("decision", &["plain", "marked"]),
    ] {
        for (nth, request) in [
            SHORT,
            "Is the sea level a matter of opinion?",
            "Design a timetable for a ferry across the fjord in winter.",
        ]
        .iter()
        .enumerate()
        {
            let session =
                start(&mut client, process, models_asked, request, &["A ladder is long.", "A spade is short."]);
            foretold(&mut client, &format!("{process} by {models_asked:?}, session {nth}"), session, 5.0);
        }
    }
}

#[test]
fn the_simulator_is_foretold_by_its_settings_whatever_it_wrote_before() {
    let database = Database::new();
    let mut client = database.connect();
    models(&mut client);
    let many = start(&mut client, "essay", &["plain", "wordy", "marked"], SHORT, &[]);
    foretold(&mut client, "three models", many, 5.0);
    let alone = start(&mut client, "essay", &["plain"], SHORT, &[]);
    foretold(&mut client, "one of them alone", alone, 5.0);
    client
        .execute("select dialectic.add_model('plain', 'simulator', settings => '{\"answer_words\": 900}')", &[])
        .expect("other settings");
    let changed = start(&mut client, "essay", &["plain"], SHORT, &[]);
    foretold(&mut client, "with other settings", changed, 5.0);
}

#[test]
fn a_model_is_foretold_by_answers_that_it_made_from_as_many_texts() {
    let database = Database::new();
    let mut client = database.connect();
    models(&mut client);
    let alone = start(&mut client, "essay", &["wordy"], SHORT, &[]);
    run(&mut client, alone);
    let many = start(&mut client, "essay", &["wordy", "plain", "marked"], SHORT, &[]);
    run(&mut client, many);
    no_longer_simulated(&mut client, "wordy");
    let again = start(&mut client, "essay", &["wordy"], SHORT, &[]);
    // The last two steps read all there is of the others, which is less where nobody else is asked.
    let told = by_step(&mut client, again, "output_tokens");
    assert_eq!(told[3..], by_step(&mut client, alone, "actual_output_tokens")[3..]);
    assert_eq!(told[3].0, "reduce");
}

#[test]
fn a_habit_that_no_setting_tells_is_learned_from_the_session_before() {
    let database = Database::new();
    let mut client = database.connect();
    let before = written_before(&mut client, "wordy");
    // From now on it is told nothing of how long the answers are.
    no_longer_simulated(&mut client, "wordy");
    let session = start(&mut client, "decision", &["wordy"], SHORT, &["A text."]);
    assert_eq!(by_step(&mut client, session, "output_tokens"), by_step(&mut client, before, "actual_output_tokens"));
}

#[test]
fn a_model_without_a_history_is_expected_to_write_as_others_did_and_without_any_as_the_step_asks() {
    let database = Database::new();
    let mut client = database.connect();
    models(&mut client);
    define(&mut client);
    let guessed = start(&mut client, "decision", &["gpt-5-nano"], SHORT, &["A text."]);
    let prior = by_step(&mut client, guessed, "output_tokens");
    assert!(prior.iter().all(|(_, tokens)| (50..5_000).contains(tokens)), "{prior:?}");
    let before = start(&mut client, "decision", &["wordy"], SHORT, &["A text."]);
    run(&mut client, before);
    let written = by_step(&mut client, before, "actual_output_tokens");
    assert_eq!(by_step(&mut client, guessed, "output_tokens"), prior, "nobody writes as the simulator does");
    no_longer_simulated(&mut client, "wordy");
    assert_eq!(by_step(&mut client, guessed, "output_tokens"), written, "as others did");
    assert_ne!(written, prior);
    // The simulator is known from its settings, and better than from others.
    let plain = start(&mut client, "decision", &["plain"], SHORT, &["A text."]);
    foretold(&mut client, "another model of the simulator", plain, 5.0);
}

#[test]
fn nobody_learns_from_the_sessions_of_others() {
    let database = Database::new();
    let mut client = database.connect();
    models(&mut client);
    define(&mut client);
    let roles = ["explain_one", "explain_two"];
    let mut told = Vec::new();
    for role in roles {
        let mut own = database.connect_as(role);
        models(&mut client);
        client.execute("select dialectic.grant_user($1::text::name)", &[&role]).expect("grant_user");
        let guessed = start(&mut own, "decision", &["gpt-5-nano"], SHORT, &["A text."]);
        told.push(by_step(&mut own, guessed, "output_tokens"));
        let session = start(&mut own, "decision", &["wordy"], SHORT, &["A text."]);
        own.query("select * from dialectic.generate($1)", &[&session]).expect("generate");
        work(&mut client);
        no_longer_simulated(&mut client, "wordy");
        assert_ne!(by_step(&mut own, guessed, "output_tokens"), told[told.len() - 1], "{role} learns from its own");
    }
    assert_eq!(told[0], told[1], "and from nobody else");
}
