//! Settings of a caller that change how literals are read do not change what the functions of the extension do.

use dialectic_tests::*;

#[test]
fn run_does_not_depend_on_standard_conforming_strings() {
    let database = Database::new();
    let mut client = database.connect();
    client.batch_execute("set standard_conforming_strings = off; set escape_string_warning = off").expect("settings");
    let session: Uuid = one(&mut client, "select dialectic.run('Why?', models => '{sim-a}', process => 'essay')", &[]);
    let mut other = database.connect();
    work(&mut other);
    let status = "select status from dialectic.sessions where id = $1";
    assert_eq!(one::<String>(&mut other, status, &[&session]), "completed");
}
