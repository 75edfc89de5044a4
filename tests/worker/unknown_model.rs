//! A model that the worker's copy of the catalog lacks: the catalog is read again before a job fails for it.

use crate::load::*;
use dialectic_tests::server::*;
use dialectic_tests::*;

/// Keeps the worker from hearing of changes in the table of models.
const SILENT: &str = "alter table dialectic.models disable trigger _forget_copies";

#[test]
fn catalog_is_read_again_before_a_job_fails_for_its_model() {
    let (_server, mut client) = Server::serving("");
    let warm = essay(&mut client, &["sim-a"]);
    let status = "select status from dialectic.sessions where id = $1";
    soon("the worker has read its catalog", || one::<String>(&mut client, status, &[&warm]) == "completed");
    client.batch_execute(SILENT).expect("disabled");
    model(&mut client, "new", "0");
    let session = essay(&mut client, &["new"]);
    soon("the session ends", || one::<String>(&mut client, status, &[&session]) != "active");
    assert_eq!(one::<String>(&mut client, status, &[&session]), "completed");
}
