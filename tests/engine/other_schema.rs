//! A schema that was made by another build than the library: health() says so, and nothing is begun that no worker
//! would take.

#[path = "../../build/fingerprint.rs"]
mod fingerprint;

use dialectic_tests::*;
use postgres::Client;
use std::path::Path;

/// Makes the schema that of another build.
fn made_by_another_build(client: &mut Client) {
    client
        .batch_execute(
            "create or replace function dialectic._schema_fingerprint() returns text language sql immutable \
             as $$ select '0123456789abcdef'::text $$",
        )
        .expect("another fingerprint");
}

#[test]
fn health_reports_a_schema_of_another_build() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let reported =
        "select count(*) from dialectic.health(), unnest(problems) as p where p like '%made by another build%'";
    assert_eq!(one::<i64>(&mut client, reported, &[]), 0);
    made_by_another_build(&mut client);
    let found: String = one(
        &mut client,
        "select p from dialectic.health(), unnest(problems) as p where p like '%made by another build%'",
        &[],
    );
    assert_eq!(
        found,
        format!(
            "the schema of pg_dialectic in database \"{}\" was made by another build than the library: Restart the \
             server if pg_dialectic was installed since it started; otherwise ALTER EXTENSION pg_dialectic UPDATE.",
            database.name()
        )
    );
    assert!(!one::<bool>(&mut client, "select worker_alive from dialectic.health()", &[]));
}

#[test]
fn run_and_run_pending_refuse_a_schema_of_another_build() {
    let database = Database::by_hand();
    let mut client = database.connect();
    made_by_another_build(&mut client);
    for statement in ["select dialectic.run('Why?')", "call dialectic.run_pending()"] {
        let error = refused(&mut client, statement, &[]);
        assert_eq!(error.code().code(), "55000", "{error:?}");
        assert!(error.message().contains("made by another build"), "{error:?}");
        assert!(error.detail().is_some_and(|detail| detail.contains("fingerprint 0123456789abcdef")), "{error:?}");
        assert!(error.hint().is_some_and(|hint| hint.contains("ALTER EXTENSION pg_dialectic UPDATE")), "{error:?}");
    }
}

#[test]
fn library_version_never_fits_a_schema_without_a_fingerprint() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let version: String = one(&mut client, "select dialectic._library_version()", &[]);
    assert_eq!(version, env!("CARGO_PKG_VERSION"));
    client
        .batch_execute(
            "alter extension pg_dialectic drop function dialectic._schema_fingerprint(); \
             drop function dialectic._schema_fingerprint()",
        )
        .expect("a schema of an older build");
    let version: String = one(&mut client, "select dialectic._library_version()", &[]);
    assert_eq!(version, concat!(env!("CARGO_PKG_VERSION"), " of a later build"));
}

#[test]
fn fingerprint_follows_statements_and_declarations_alone() {
    let folder = std::env::temp_dir().join(format!("fingerprint_{}", std::process::id()));
    let of = |sql: &str, rust: &str| {
        for (path, content) in [("sql/a.sql", sql), ("sql/x--1--2.sql", rust), ("src/api/b.rs", rust)] {
            let path = folder.join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            std::fs::write(path, content).expect("a file");
        }
        fingerprint::of(&folder).expect("a fingerprint")
    };
    let (sql, rust) = ("-- One.\nselect 1;\n", "use x;\n\n#[pg_extern]\nfn a(b: i32) -> i32 {\n    b\n}\n");
    let first = of(sql, rust);
    assert_eq!(of("-- Another.\n\nselect 1;\n", rust), first);
    assert_eq!(of(sql, &rust.replace("    b\n", "    b + 1\n")), first);
    assert_ne!(of("-- One.\nselect 2;\n", rust), first);
    assert_ne!(of(sql, &rust.replace("b: i32", "b: i64")), first);
    std::fs::remove_dir_all(&folder).expect("removed");
}

#[test]
fn schema_has_the_fingerprint_of_its_sources() {
    let database = Database::new();
    let stored: String = one(&mut database.connect(), "select dialectic._schema_fingerprint()", &[]);
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    assert_eq!(Ok(stored), fingerprint::of(&sources));
}
