//! The laws of tokens: what is there counts as it is, what is to come as it came before, and nothing is more than the
//! most.

use super::*;
use crate::definition::{Definition, Document, Turn};
use crate::tokens::Measure;
use proptest::prelude::prop_assert;
use std::collections::HashMap;

const REQUEST: &str = "Plan a lending library for garden tools.";
const TURN: &str = "{% block system %}\nBe brief, {{ model }}.\n{% endblock %}\n{% block user %}\n\
                    {% for d in documents %}<document type=\"{{ d.type }}\">\n{{ d.content }}\n</document>\n{% endfor %}\
                    {{ original_user_request }}\n{% endblock %}";

/// A first stage that writes `claim` in JSON and `note` as a text, and a second one that reads both and a part of the
/// first.
fn definition(turn: &str) -> Definition {
    let step = |key: &str, inputs: Value| {
        json!({"key": key, "job_type": "execute", "prompt_template_name": "turn", "granularity_strategy": "all_to_one",
               "inputs_required": inputs, "output_type": key, "document_key": key, "file_type": "markdown"})
    };
    let mut claim = step("claim", json!([{"type": "seed_prompt"}, {"type": "general_resource", "required": false}]));
    claim["content_to_include"] = json!({"summary": "In a sentence", "points": ["A point"], "why": "The reason"});
    let from = |key: &str| json!({"type": key, "stage": "first", "from_models": "all", "multiple": true});
    let mut part = from("claim");
    part["part"] = json!("/points");
    let stages = json!([
        {"slug": "first", "seed_prompt_template": "seed", "recipe": {"steps": [claim, step("note", json!([{"type": "seed_prompt"}]))]}},
        {"slug": "second", "seed_prompt_template": "seed",
         "recipe": {"steps": [step("whole", json!([from("claim"), from("note")])), step("partly", json!([part]))]}}]);
    let prompts = json!({"turn": turn, "seed": "Think about {{ original_user_request }} first."});
    Definition::read("p".into(), "d".into(), &stages, prompts, json!({}), json!({})).unwrap()
}

fn model(name: &str, api: &str) -> Model {
    let tokenizer = if api == "simulator" { "simulator" } else { "o200k_base" };
    Model {
        name: name.to_owned(),
        api: api.to_owned(),
        settings: json!({}),
        measure: Measure::new(tokenizer, "gpt-5", None),
        context_window: 128_000,
        max_output_tokens: 4_000,
    }
}

/// A model that is not the simulator and counts as it does, in words.
fn wordwise(name: &str) -> Model {
    Model { measure: Measure::new("simulator", name, None), ..model(name, "openai") }
}

fn ground(definition: &Definition, models: Vec<Model>) -> Ground<'_> {
    Ground {
        definition,
        iteration: 1,
        request: REQUEST.into(),
        given: Vec::new(),
        models,
        limits: BTreeMap::new(),
        continuations: BTreeMap::new(),
        safety: 0.98,
        ratio: 2.0,
        past: Vec::new(),
    }
}

type Forecast = HashMap<(String, String), Tokens>;

/// By step and model.
fn forecasted(ground: &Ground<'_>, known: &[Source]) -> Forecast {
    let stages: Vec<(&str, &Recipe)> =
        ground.definition.stages.iter().map(|stage| (stage.slug.as_str(), &stage.recipe)).collect();
    let names: Vec<String> = ground.models.iter().map(|model| model.name.clone()).collect();
    let plans = plan_stages(&stages, &names, known).unwrap();
    let forecast = forecast(&plans, ground);
    forecast.into_iter().map(|((_, step, model), tokens)| ((step.to_owned(), model.to_owned()), tokens)).collect()
}

fn of(forecast: &Forecast, step: &str, model: &str) -> Tokens {
    forecast[&(step.to_owned(), model.to_owned())].clone()
}

fn past(stage: &str, step_key: &str, model: &str, text: &str) -> Past {
    Past {
        stage: stage.into(),
        step_key: step_key.into(),
        model: model.into(),
        is_own: false,
        took: Took { output: 700.4, reasoning: 200.0 },
        by_texts: Vec::new(),
        text: text.into(),
        // The only one that is asked for JSON.
        json: (step_key == "claim").then(|| "{}".to_owned()),
        scale: 1.0,
    }
}

/// The tokens of the prompt of a first step with these texts.
fn prompt(ground: &Ground<'_>, step_key: &str, texts: &[(&str, &str)]) -> u64 {
    let document = |(r#type, content): &(&str, &str)| Document {
        r#type: (*r#type).to_owned(),
        role: (*r#type).to_owned(),
        name: None,
        stage: None,
        author: None,
        reviewer: None,
        about: None,
        document_key: None,
        content: (*content).into(),
    };
    let turn = Turn {
        stage: "first".into(),
        iteration: 1,
        step_key: step_key.into(),
        model: ground.models[0].name.clone(),
        is_combine: false,
        target_tokens: None,
        original_user_request: REQUEST.into(),
        documents: texts.iter().map(document).collect(),
    };
    ground.models[0].measure.messages(&ground.definition.messages(&turn).unwrap())
}

#[test]
fn texts_that_are_there_count_as_they_are() {
    let definition = definition(TURN);
    let long = "A spade, a rake and a ladder are lent for a week, and longer where nobody waits for them. ".repeat(200);
    for api in ["simulator", "openai"] {
        let mut ground = ground(&definition, vec![model("m", api)]);
        ground.given = vec![Given { id: "r".into(), name: None, content: long.clone() }];
        let known = [source(json!({"id": "r", "type": "general_resource"}))];
        let seed = format!("Think about {REQUEST} first.");
        let texts = [("seed_prompt", seed.as_str()), ("general_resource", long.as_str())];
        let (foreseen, exact) =
            (of(&forecasted(&ground, &known), "claim", "m").input, prompt(&ground, "claim", &texts));
        assert!(exact > 3_000 && foreseen.abs_diff(exact) <= 4, "{api}: {foreseen} of {exact}");
    }
}

#[test]
fn a_text_counts_as_often_as_the_template_says_it() {
    let said = |turn: &str| {
        let definition = definition(turn);
        let mut ground = ground(&definition, vec![wordwise("m")]);
        ground.past = vec![past("first", "claim", "m", &"claims ".repeat(1_000)), past("first", "note", "m", "")];
        of(&forecasted(&ground, &[]), "whole", "m").input
    };
    let (never, once) = (said("{{ documents | length }}"), said("{{ documents[0].content }}"));
    let twice = said("{{ documents[0].content }} {{ documents[0].content }}");
    assert!(never < 20 && once.abs_diff(1_000) < 20 && twice.abs_diff(2_000) < 20, "{never} {once} {twice}");
    assert!(said("{{ documents[0].content | upper }}").abs_diff(1_000) < 120, "first words that a filter changed");
}

#[test]
fn a_template_that_cannot_be_rendered_still_reads_its_texts() {
    let definition = definition("{{ nobody_knows_this }}");
    let mut ground = ground(&definition, vec![wordwise("m")]);
    ground.past = vec![past("first", "claim", "m", &"claims ".repeat(500)), past("first", "note", "m", "")];
    assert!(of(&forecasted(&ground, &[]), "whole", "m").input.abs_diff(500) < 20);
}

#[test]
fn what_a_step_came_to_before_is_what_it_comes_to() {
    let definition = definition(TURN);
    let mut ground = ground(&definition, vec![model("m", "openai"), model("n", "openai"), model("s", "simulator")]);
    let without = forecasted(&ground, &[]);
    ground.past = vec![past("first", "claim", "m", "short")];
    let with = forecasted(&ground, &[]);
    for model in ["m", "n"] {
        let claim = of(&with, "claim", model);
        assert_eq!((claim.output, claim.reasoning), (700, 200), "by whichever model");
    }
    assert_eq!(of(&with, "claim", "s"), of(&without, "claim", "s"), "the simulator is known better");
    assert_eq!(of(&with, "note", "m"), of(&without, "note", "m"), "of another step nothing is learned");
    assert!(of(&with, "whole", "m").input < of(&without, "whole", "m").input, "and others read less");
    let mut other = past("first", "claim", "n", "short");
    other.took.output = 50.0;
    ground.past.push(other);
    assert_eq!(of(&forecasted(&ground, &[]), "claim", "n").output, 50, "the model itself says more than others");
}

#[test]
fn an_answer_is_as_long_as_those_that_read_as_many_texts_and_its_readers_know_it() {
    let definition = definition(TURN);
    let mut ground = ground(&definition, vec![wordwise("m")]);
    let took = |output| Took { output, reasoning: 0.0 };
    let mut note = past("first", "note", "m", &"word ".repeat(1_000));
    (note.took, note.by_texts) = (took(700.0), vec![(9, took(1_400.0)), (1, took(70.0)), (4, took(350.0))]);
    ground.past = vec![past("first", "claim", "m", ""), note];
    let now = forecasted(&ground, &[]);
    assert_eq!(of(&now, "note", "m").output, 70, "the seed prompt is all that a note reads");
    ground.past[1].by_texts.remove(1);
    let nearest = forecasted(&ground, &[]);
    assert_eq!(of(&nearest, "note", "m").output, 350);
    let read = |forecast: &Forecast| of(forecast, "whole", "m").input;
    assert_eq!(read(&nearest) - read(&now), 400, "half of the text that is kept, and not a tenth");
}

#[test]
fn a_text_is_as_long_as_such_texts_were_on_average_and_is_read_in_part() {
    let definition = definition(TURN);
    let mut ground = ground(&definition, vec![wordwise("m")]);
    let mut claim = past("first", "claim", "m", &"word ".repeat(2_000));
    claim.json = Some(json!({"summary": "", "points": vec!["item"; 100], "why": "word ".repeat(1_000)}).to_string());
    ground.past = vec![claim, past("first", "note", "m", "")];
    let once = forecasted(&ground, &[]);
    ground.past[0].scale = 3.0;
    let thrice = forecasted(&ground, &[]);
    let more = |step: &str| of(&thrice, step, "m").input - of(&once, step, "m").input;
    assert_eq!(more("whole"), 2 * 2_000);
    let part = ground.models[0].measure.text(&crate::json::part(ground.past[0].json.as_ref().unwrap(), "/points"));
    assert_eq!(more("partly"), 2 * part);
}

#[test]
fn later_stages_read_what_the_session_has_made_already() {
    let definition = definition(TURN);
    let mut ground = ground(&definition, vec![wordwise("m")]);
    ground.past = vec![past("first", "claim", "m", "before"), past("first", "note", "m", "")];
    let before = forecasted(&ground, &[]);
    let mut own = past("first", "claim", "m", &["made"; 900].join(" "));
    (own.is_own, own.took.output) = (true, 1.0);
    ground.past.push(own);
    let now = forecasted(&ground, &[]);
    assert_eq!(of(&now, "whole", "m").input - of(&before, "whole", "m").input, 900 - 1);
    assert_eq!(of(&now, "claim", "m"), of(&before, "claim", "m"), "what was foreseen of it stays");
    let most = |forecast: &Forecast| of(forecast, "whole", "m").most_input;
    assert!(most(&before) > 8_000 && (4_900..5_000).contains(&most(&now)), "and it does not grow any more");
}

#[test]
fn at_the_most_every_answer_is_as_long_as_it_may_be_and_no_prompt_is_longer_than_the_window() {
    let definition = definition(TURN);
    let mut ground = ground(&definition, vec![model("m", "simulator"), model("n", "simulator")]);
    let forecast = forecasted(&ground, &[]);
    let (claim, whole) = (of(&forecast, "claim", "m"), of(&forecast, "whole", "m"));
    assert_eq!(claim.most_output, 4_000);
    assert!((0..10).contains(&(claim.most_input - claim.input)), "it reads nothing that is to come: {claim:?}");
    assert!((16_000..16_200).contains(&whole.most_input), "four texts to come: {whole:?}");
    ground.limits = [("first".to_owned(), 800), ("second".to_owned(), 9_999_999)].into();
    let forecast = forecasted(&ground, &[]);
    let (claim, whole) = (of(&forecast, "claim", "m"), of(&forecast, "whole", "m"));
    assert_eq!((claim.most_output, whole.most_output), (800, 4_000));
    assert!((3_200..3_400).contains(&whole.most_input), "{whole:?}");
    ground.limits = [("first".to_owned(), 100)].into();
    assert_eq!(of(&forecasted(&ground, &[]), "claim", "m").output, 100, "it is cut there");
    ground.models[0].context_window = 300;
    let forecast = forecasted(&ground, &[]);
    let whole = of(&forecast, "whole", "m");
    assert_eq!((whole.tier, whole.most_input), (Tier::Retrieved, whole.input), "how much too large it is can be seen");
    assert!(whole.input > 300, "{whole:?}");
    assert_eq!(of(&forecast, "whole", "n").tier, Tier::Fits);
}

#[test]
fn texts_that_do_not_fit_are_read_by_those_who_condense_them() {
    let definition = definition(TURN);
    let mut ground = ground(&definition, vec![wordwise("m")]);
    let long = past("first", "note", "m", &"word ".repeat(3_000));
    ground.past = vec![past("first", "claim", "m", &"word ".repeat(3_000)), long];
    ground.models[0].max_output_tokens = 1_000;
    let roomy = of(&forecasted(&ground, &[]), "whole", "m");
    ground.models[0].context_window = 6_000;
    let narrow = of(&forecasted(&ground, &[]), "whole", "m");
    // The two texts are read by two calls, and what those write by the third.
    assert!(narrow.input > roomy.input && narrow.output > 2 * roomy.output, "{narrow:?} of {roomy:?}");
    assert!(narrow.most_input >= narrow.input && narrow.most_output >= narrow.output, "{narrow:?}");
    ground.ratio = 0.01;
    let refused = of(&forecasted(&ground, &[]), "whole", "m");
    assert_eq!((refused.input, refused.output), (roomy.input, roomy.output), "what fails is not condensed");
    assert_eq!([roomy.tier, narrow.tier, refused.tier], [Tier::Fits, Tier::Condensed, Tier::Retrieved]);
}

#[test]
fn an_answer_that_is_longer_than_a_call_may_write_is_gone_on_with() {
    let definition = definition(TURN);
    let mut ground = ground(&definition, vec![wordwise("m")]);
    let mut note = past("first", "note", "m", "");
    note.took.output = 1_000.0;
    ground.past = vec![note];
    let once = of(&forecasted(&ground, &[]), "note", "m");
    ground.limits = [("first".to_owned(), 300)].into();
    assert_eq!(of(&forecasted(&ground, &[]), "note", "m").output, 300, "nobody goes on with it");
    ground.continuations = [("first".to_owned(), 5)].into();
    let chunks = of(&forecasted(&ground, &[]), "note", "m");
    assert_eq!((chunks.calls, chunks.output), (4, 1_000));
    // Each reads the prompt and what the ones before it wrote: 250, 500 and 750.
    let read = chunks.input - 4 * once.input;
    assert!((1_500..2_200).contains(&read), "{read}");
    assert!(chunks.most_output == 4 * 300 && chunks.most_input > chunks.input, "{chunks:?}");
    ground.continuations = [("first".to_owned(), 1)].into();
    let fewer = of(&forecasted(&ground, &[]), "note", "m");
    assert_eq!((fewer.calls, fewer.output), (2, 600), "and no oftener than is allowed");
}

#[test]
fn no_text_is_foretold_by_one_of_another_form() {
    let definition = definition(TURN);
    let mut ground = ground(&definition, vec![model("m", "openai")]);
    let guessed = forecasted(&ground, &[]);
    ground.past = vec![past("first", "note", "s", "")];
    assert_eq!(of(&forecasted(&ground, &[]), "note", "m").output, 700);
    let mut text = past("first", "claim", "m", "");
    text.json = None;
    ground.past = vec![text];
    assert_eq!(forecasted(&ground, &[]), guessed, "it was a text, and is asked for in JSON now");
}

#[test]
fn whatever_a_template_does_with_texts_is_told() {
    let long = "A spade, a rake and a ladder are lent for a week, and longer where nobody waits for them. ".repeat(200);
    for of_content in [
        "{% if d.content|length > 1500 %}{{ d.content }}{% endif %}",
        "{{ d.content[1000:] }}",
        "{{ d.content[:3000] }}",
        "{{ d.content|upper }}",
        "{{ d.content|replace('e', 'eeeeeee ') }}",
        "{{ d.content }} and again {{ d.content }}",
    ] {
        let definition = definition(&TURN.replace("{{ d.content }}", of_content));
        for api in ["simulator", "openai"] {
            let mut ground = ground(&definition, vec![model("m", api)]);
            ground.given = vec![Given { id: "r".into(), name: None, content: long.clone() }];
            let known = [source(json!({"id": "r", "type": "general_resource"}))];
            let seed = format!("Think about {REQUEST} first.");
            let claim = of(&forecasted(&ground, &known), "claim", "m");
            let whole = prompt(&ground, "claim", &[("seed_prompt", &seed), ("general_resource", &long)]);
            assert!(claim.input.abs_diff(whole) <= 1, "{of_content} by {api}: {} of {whole}", claim.input);
            assert!(claim.most_input >= whole, "{of_content} by {api}: {} of {whole}", claim.most_input);
        }
    }
}

proptest! {
    #[test]
    fn no_estimate_is_more_than_the_most(shape in any_process(), n in 1..4_usize, words in 0..900_u64, most in 1..5_000_u64, api in 0..2_usize) {
        let stages: Vec<Value> = process(&shape, false)
            .into_iter()
            .map(|(slug, recipe)| json!({"slug": slug, "seed_prompt_template": "t", "recipe": recipe}))
            .collect();
        let definition =
            Definition::read("p".into(), "d".into(), &json!(stages), json!({"t": TURN}), json!({}), json!({})).unwrap();
        let mut all = Vec::new();
        for name in models(n) {
            let mut one = model(&name, ["simulator", "openai"][api]);
            one.settings = json!({"answer_words": words, "thinks_tokens": words / 2});
            one.max_output_tokens = most;
            all.push(one);
        }
        let ground = ground(&definition, all);
        let stages: Vec<(&str, &Recipe)> = definition.stages.iter().map(|s| (s.slug.as_str(), &s.recipe)).collect();
        if let Ok(plans) = plan_stages(&stages, &models(n), &[]) {
            let calls: usize = explain(&plans).iter().map(|one| one.calls).sum();
            let forecast = forecast(&plans, &ground);
            let sum = |part: fn(&Tokens) -> u64| forecast.values().map(part).sum::<u64>();
            prop_assert!(sum(|t| t.most_output) >= most * calls as u64);
            prop_assert_eq!(sum(|t| t.calls), calls as u64);
            for tokens in forecast.values() {
                prop_assert!(tokens.input <= tokens.most_input && tokens.output <= tokens.most_output);
                prop_assert!(tokens.reasoning <= tokens.output && tokens.input > 0);
            }
        }
    }
}
