//! One test per page: its blocks run, and what the page claims of them is true.

use crate::markdown::documents;
use crate::page::run;

/// A test for each page whose blocks only have to run.
macro_rules! pages {
    ($($name:ident $path:literal)*) => {
        const RUN: &[&str] = &[$($path),*];
        $(#[test] fn $name() { run($path); })*
    };
}

pages! {
    readme_runs "README.md"
    quickstart_runs "docs/quickstart.md"
    concepts_runs "docs/concepts.md"
    processes_runs "docs/processes.md"
    models_runs "docs/models.md"
    money_runs "docs/money.md"
    operations_runs "docs/operations.md"
    security_runs "docs/security.md"
    job_states_runs "docs/job-states.md"
    external_workers_runs "docs/external-workers.md"
    simulator_runs "docs/simulator.md"
    clients_runs "docs/clients.md"
    cookbook_runs "docs/cookbook.md"
    architecture_runs "docs/architecture.md"
}

#[test]
fn every_page_with_examples_has_a_test() {
    let with_examples = |page: &crate::markdown::Document| {
        page.blocks().iter().any(|block| ["sql", "python", "js"].contains(&block.language.as_str()))
    };
    let without: Vec<String> = documents()
        .iter()
        .filter(|page| with_examples(page) && !RUN.contains(&page.path.as_str()))
        .map(|page| page.path.clone())
        .collect();
    assert!(without.is_empty(), "tests/docs/pages.rs does not run {without:?}");
}
