//! The retrieval set: its rules, which hold whatever the ranking does. tests/engine/retrieval.rs measures with it.

use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

#[derive(Debug, Deserialize)]
struct Question {
    question: String,
    document: String,
    passage: String,
    kind: String,
}

/// Words that say nothing of what a text is about, in English and German.
const FUNCTION_WORDS: &str = "\
    a about after all an and any are as at be been before but by can did do does else for from get gets had has \
    have how i if in into is it its long many may more must my no not of on one or other out own s so some \
    somebody someone than that the their them then there these they this to two until up was we were what when \
    where which who why will with within without would you your \
    ab aber alle allen als am an auch auf aus bei beim bis da dann darf das dass dem den der des die dies diese \
    dieser doch dort du ein eine einem einen einer eines er erst es für gibt haben hat hier ich ihr im in ist ja \
    jede jedem jeden jeder kann kein keine man mehr mit muss nach nicht noch nur ob oder ohne per pro sein seine \
    sich sie sind so soll um und uns unter vom von vor wann war was welche welchem welchen welcher wem wen wenn \
    wer werden wie wieder wir wird wo wohin woran worin wozu wurde zu zum zur über";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/retrieval")
}

fn documents() -> BTreeMap<String, String> {
    let files = fs::read_dir(folder().join("documents")).expect("documents").map(|file| file.expect("a file").path());
    let name = |path: &Path| path.file_name().expect("a name").to_string_lossy().into_owned();
    files.map(|path| (name(&path), fs::read_to_string(&path).expect("a text"))).collect()
}

fn questions() -> Vec<Question> {
    let read = |name: &str| {
        let text = fs::read_to_string(folder().join("questions").join(name)).expect("questions");
        serde_json::from_str::<Vec<Question>>(&text).expect("a list of questions")
    };
    [read("english.json"), read("german.json")].into_iter().flatten().collect()
}

fn content_words(text: &str) -> BTreeSet<String> {
    let functions: BTreeSet<&str> = FUNCTION_WORDS.split_whitespace().collect();
    let words = text.split(|character: char| !character.is_alphanumeric()).map(str::to_lowercase);
    words.filter(|word| !word.is_empty() && !functions.contains(word.as_str())).collect()
}

#[test]
fn set_has_80_questions_over_20_documents_in_two_languages() {
    let (documents, questions) = (documents(), questions());
    assert!(documents.len() >= 20, "{} documents", documents.len());
    assert!(questions.len() >= 80, "{} questions", questions.len());
    assert!(documents.keys().filter(|name| name.starts_with("de-")).count() >= 5);
    for part in ["\n|---", "\n```"] {
        assert!(documents.values().any(|text| text.replace("| ", "|").contains(part)), "no document has {part:?}");
    }
    let asked: BTreeSet<&str> = questions.iter().map(|question| question.document.as_str()).collect();
    assert_eq!(asked.len(), documents.len(), "every document is asked for");
}

#[test]
fn third_of_the_questions_are_paraphrases() {
    let questions = questions();
    assert!(questions.iter().all(|question| matches!(question.kind.as_str(), "literal" | "paraphrase")));
    let paraphrases = questions.iter().filter(|question| question.kind == "paraphrase").count();
    assert!(paraphrases * 3 >= questions.len(), "{paraphrases} of {}", questions.len());
}

#[test]
fn every_passage_occurs_once_in_its_document() {
    let documents = documents();
    for Question { question, document, passage, .. } in questions() {
        let text = documents.get(&document).unwrap_or_else(|| panic!("{question}: no document {document}"));
        assert_eq!(text.matches(&passage).count(), 1, "{question}: {passage}");
    }
}

#[test]
fn paraphrases_share_no_content_word_with_their_passage() {
    for Question { question, passage, kind, .. } in questions() {
        let shared: Vec<String> = content_words(&question).intersection(&content_words(&passage)).cloned().collect();
        assert_eq!(shared.is_empty(), kind == "paraphrase", "{kind}: {question}: {shared:?}");
    }
}
