//! One test per page: its blocks run, the tables that it shows are what psql printed, and its other claims hold.

use crate::claims;
use crate::markdown::{Document, documents};
use crate::page::run;

/// A test for each page, with the function that checks its claims where it makes any.
macro_rules! pages {
    ($($name:ident $path:literal $($claims:path)?;)*) => {
        const RUN: &[&str] = &[$($path),*];
        $(#[test]
        fn $name() {
            let _ran = run($path);
            $($claims(_ran);)?
        })*
    };
}

pages! {
    readme_runs "README.md" claims::readme;
    quickstart_runs "docs/quickstart.md" claims::quickstart;
    concepts_runs "docs/concepts.md";
    processes_runs "docs/processes.md" claims::processes;
    models_runs "docs/models.md" claims::models;
    money_runs "docs/money.md" claims::money;
    memory_runs "docs/memory.md";
    operations_runs "docs/operations.md";
    retention_runs "docs/retention.md";
    security_runs "docs/security.md";
    job_states_runs "docs/job-states.md";
    external_workers_runs "docs/external-workers.md";
    simulator_runs "docs/simulator.md";
    clients_runs "docs/clients.md";
    cookbook_runs "docs/cookbook.md";
    reference_runs "docs/reference.md";
    architecture_runs "docs/architecture.md";
}

#[test]
fn every_page_with_examples_has_a_test() {
    let has_examples =
        |page: &Document| page.blocks().iter().any(|block| ["sql", "python", "js"].contains(&block.language.as_str()));
    let without: Vec<String> = documents()
        .into_iter()
        .filter(|page| has_examples(page) && !RUN.contains(&page.path.as_str()))
        .map(|page| page.path)
        .collect();
    assert!(without.is_empty(), "tests/docs/pages.rs does not run {without:?}");
}
