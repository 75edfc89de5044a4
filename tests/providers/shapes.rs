//! How a model is held to JSON: in the field of its dialect, as far as its settings say, and not at all where a plain text is wanted.

use crate::ground::*;
use dialectic_core::provider::dialect::Dialect;
use dialectic_tests::fake_provider::{Act, Provider, folder};
use dialectic_tests::*;
use serde_json::{Value, json};

/// Where a dialect is told to write JSON, and where in it the schema is.
pub(crate) fn field(dialect: Dialect) -> (&'static str, &'static str) {
    match dialect {
        Dialect::Chat => ("/response_format", "/json_schema/schema"),
        Dialect::Responses => ("/text/format", "/schema"),
        Dialect::Anthropic => ("/output_config/format", "/schema"),
        Dialect::Google => ("/generationConfig/responseJsonSchema", ""),
        Dialect::Ollama => ("/format", ""),
    }
}

/// How JSON of any kind is asked for: where, and what; Anthropic has no way to.
pub(crate) fn of_any_kind(dialect: Dialect) -> Option<(&'static str, Value)> {
    match dialect {
        Dialect::Chat => Some(("/response_format", json!({"type": "json_object"}))),
        Dialect::Responses => Some(("/text/format", json!({"type": "json_object"}))),
        Dialect::Anthropic => None,
        Dialect::Google => Some(("/generationConfig/responseMimeType", json!("application/json"))),
        Dialect::Ollama => Some(("/format", json!("json"))),
    }
}

/// Asserts that a schema is strict: all objects name what they have, and nothing else is let in.
fn is_strict(schema: &Value) -> bool {
    match schema["type"].as_str() {
        Some("object") => {
            let Some(properties) = schema["properties"].as_object() else { return false };
            let required: Vec<&str> =
                schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            schema["additionalProperties"] == json!(false)
                && !properties.is_empty()
                && properties.keys().all(|key| required.contains(&key.as_str()))
                && properties.values().all(is_strict)
        }
        Some("array") => is_strict(&schema["items"]),
        Some("string" | "number" | "boolean") => true,
        _ => false,
    }
}

#[test]
fn a_header_is_asked_for_in_the_words_of_the_dialect_as_far_as_the_model_takes_them() {
    let (provider, database) = (Provider::start(), Database::new());
    let mut client = database.connect();
    let project: Uuid =
        one(&mut client, "select dialectic.create_project('Shape', 'What shape?', process => 'dialectic')", &[]);
    let mut cells = Vec::new();
    for dialect in Dialect::ALL {
        let (api, settings) = catalogued(dialect);
        for manner in ["schema", "object", "none"] {
            let name = format!("{}-{manner}", folder(dialect));
            let mut settings: Value = serde_json::from_str(settings).expect("settings");
            settings["json"] = manner.into();
            // One look at the request is enough.
            provider.script(&name, vec![Act::status(413)]);
            provide(&mut client, &name, api, &provider, "");
            model(&mut client, &name, &name, &format!(", settings => '{settings}'"));
            cells.push((dialect, manner, name));
        }
    }
    let names: Vec<String> = cells.iter().map(|(.., name)| name.clone()).collect();
    begin_all(&mut client, project, &names);
    work(&mut client);
    let requests = provider.requests();
    for (dialect, manner, name) in cells {
        let body =
            &requests.iter().find(|seen| seen.model == name).unwrap_or_else(|| panic!("{name} was not called")).body;
        let (place, within) = field(dialect);
        let schema = body.pointer(place).and_then(|format| format.pointer(within));
        match manner {
            "schema" => {
                let schema = schema.unwrap_or_else(|| panic!("{name}: no schema in {body}"));
                assert!(is_strict(schema), "{name}: {schema}");
                if dialect == Dialect::Chat {
                    assert_eq!(body["response_format"]["json_schema"]["strict"], json!(true));
                }
                if dialect == Dialect::Google {
                    assert_eq!(body["generationConfig"]["responseMimeType"], "application/json");
                }
            }
            "object" => match of_any_kind(dialect) {
                Some((place, wanted)) => assert_eq!(body.pointer(place), Some(&wanted), "{name}"),
                None => assert_eq!(body.pointer(place), None, "{name}"),
            },
            _ => {
                assert_eq!(body.pointer(place), None, "{name}");
                let any = of_any_kind(dialect).and_then(|(place, _)| body.pointer(place));
                assert_eq!(any, None, "{name}");
            }
        }
    }
}

#[test]
fn a_plain_text_is_asked_for_without_a_word_of_json() {
    let (provider, database) = (Provider::start(), Database::new());
    let mut client = database.connect();
    process(&mut client);
    for dialect in Dialect::ALL {
        let (name, (api, settings)) = (folder(dialect), catalogued(dialect));
        let mut settings: Value = serde_json::from_str(settings).expect("settings");
        settings["json"] = "schema".into();
        provider.script(name, vec![Act::text("Plain.")]);
        provide(&mut client, name, api, &provider, "");
        model(&mut client, name, name, &format!(", settings => '{settings}'"));
    }
    let project = project(&mut client, 1);
    begin_all(&mut client, project, &Dialect::ALL.map(|dialect| folder(dialect).to_owned()));
    work(&mut client);
    let requests = provider.requests();
    assert_eq!(requests.len(), Dialect::ALL.len());
    for seen in requests {
        assert_eq!(seen.body.pointer(field(seen.dialect).0), None, "{:?}", seen.dialect);
        let any = of_any_kind(seen.dialect).and_then(|(place, _)| seen.body.pointer(place));
        assert_eq!(any, None, "{:?}", seen.dialect);
    }
}
