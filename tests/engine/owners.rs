//! What belongs to one owner does not exist for another: no table, view or function shows it, none changes it. An admin sees all.

use dialectic_tests::*;
use postgres::Client;

const SECRET: &str = "xylophone-of-the-first";

/// Two users who have each run an essay; the first one's prompt holds a secret.
struct Neighbours {
    database: Database,
    first: Client,
    second: Client,
    /// Ids of the first one's rows, by table.
    ids: Vec<(String, String)>,
}

fn neighbours(name: &str) -> Neighbours {
    let database = Database::new();
    let mut client = database.connect();
    let [one_role, other_role] = ["a", "b"].map(|suffix| format!("law_{name}_{suffix}"));
    let (mut first, mut second) = (database.connect_as(&one_role), database.connect_as(&other_role));
    for role in [&one_role, &other_role] {
        client.execute(&format!("select dialectic.grant_user('{role}')"), &[]).expect("grant_user");
    }
    let run = "select dialectic.run($1, models => '{sim-a}', process => 'essay')";
    let _: Uuid = one(&mut first, run, &[&format!("Tell nobody of the {SECRET}.")]);
    let _: Uuid = one(&mut second, run, &[&"Tell all."]);
    work(&mut client);
    let ids = client
        .query(
            &format!(
                "with session as (select id, project_id from dialectic.sessions where owner = 'role:{one_role}') \
                 select 'projects', project_id::text from session \
                 union all select 'sessions', id::text from session \
                 union all (select 'stage_runs', r.id::text from dialectic.stage_runs r join session s on s.id = r.session_id limit 1) \
                 union all (select 'jobs', j.id::text from dialectic.jobs j join session s on s.id = j.session_id where j.kind = 'plan' limit 1) \
                 union all (select 'jobs', j.id::text from dialectic.jobs j join session s on s.id = j.session_id where j.kind = 'execute' limit 1) \
                 union all (select 'contributions', c.id::text from dialectic.contributions c join session s on s.id = c.session_id limit 1) \
                 union all (select 'resources', r.id::text from dialectic.resources r join session s on s.id = r.session_id limit 1) \
                 union all (select 'model_calls', m.id::text from dialectic.model_calls m join session s on s.id = m.session_id limit 1)"
            ),
            &[],
        )
        .expect("ids");
    let ids: Vec<(String, String)> = ids.iter().map(|row| (row.get(0), row.get(1))).collect();
    assert_eq!(ids.len(), 8);
    Neighbours { database, first, second, ids }
}

/// All that roles read; where secrets are found nobody does, which is a law of its own (models.rs).
fn relations(client: &mut Client) -> Vec<String> {
    column(
        client,
        "select relname::text from pg_class where relnamespace = 'dialectic'::regnamespace and relkind in ('r', 'v', 'm', 'p') \
         and relname <> 'secrets' order by 1",
        &[],
    )
}

/// How many rows of a relation speak of the first owner, as this client sees it.
fn traces(client: &mut Client, relation: &str, ids: &[(String, String)]) -> i64 {
    let words: Vec<String> =
        ids.iter().map(|(_, id)| id.clone()).chain([SECRET.to_owned()]).map(|word| format!("%{word}%")).collect();
    one(client, &format!("select count(*) from dialectic.{relation} as t where t::text like any ($1)"), &[&words])
}

#[test]
fn no_table_and_no_view_shows_a_row_of_another_owner() {
    let Neighbours { database, mut first, mut second, ids } = neighbours("rows");
    let mut client = database.connect();
    let mut with_traces = 0;
    for relation in relations(&mut client) {
        assert_eq!(traces(&mut second, &relation, &ids), 0, "{relation}");
        // To his own owner every trace is there that there is at all.
        let all = traces(&mut client, &relation, &ids);
        assert_eq!(traces(&mut first, &relation, &ids), all, "{relation}");
        with_traces += i64::from(all > 0);
    }
    // projects, sessions, stage_runs, jobs, job_inputs, contributions, resources, model_calls, notifications, and the views
    // documents, usage, _artifacts and _newest_documents.
    assert_eq!(with_traces, 13);
}

#[test]
fn each_owner_sees_exactly_his_own_work() {
    let Neighbours { database: _database, mut first, mut second, .. } = neighbours("own");
    for user in [&mut first, &mut second] {
        let counts = ["projects", "sessions", "stage_runs", "contributions", "model_calls", "documents", "definitions"]
            .map(|relation| one::<i64>(user, &format!("select count(*) from dialectic.{relation}"), &[]));
        assert_eq!(counts, [1, 1, 3, 5, 5, 3, 1]);
        let session: Uuid = one(user, "select id from dialectic.sessions", &[]);
        assert_eq!(user.query("select * from dialectic.progress($1)", &[&session]).expect("progress").len(), 3);
        assert_eq!(user.query("select * from dialectic.job_tree($1)", &[&session]).expect("job_tree").len(), 8);
        user.execute("call dialectic.wait($1)", &[&session]).expect("wait");
        assert_eq!(one::<i32>(user, "select dialectic.cancel($1)", &[&session]), 0);
    }
}

#[test]
fn no_function_touches_or_shows_what_belongs_to_another_owner() {
    let Neighbours { database, mut second, ids, .. } = neighbours("verbs");
    let mut client = database.connect();
    let before = mark(&mut client);
    let functions = client
        .query(
            "select proname::text, prokind::text, array(select format_type(t, null) from unnest(proargtypes::oid[]) with ordinality as a(t, n) order by n) \
             from pg_proc where pronamespace = 'dialectic'::regnamespace and prorettype <> 'trigger'::regtype \
               and ('uuid'::regtype = any (proargtypes::oid[]) or 'uuid[]'::regtype = any (proargtypes::oid[])) order by 1",
            &[],
        )
        .expect("functions");
    let mut called = 0;
    for function in functions {
        let (name, kind, types): (String, String, Vec<String>) = (function.get(0), function.get(1), function.get(2));
        called += 1;
        for (table, id) in &ids {
            let argument = |kind: &String| match kind.as_str() {
                "uuid" => format!("'{id}'::uuid"),
                "uuid[]" => format!("array['{id}']::uuid[]"),
                "interval" => "interval '1 second'".to_owned(),
                // Not null: a strict function is not called with nulls, and so asks for no privilege.
                "bigint" => "0::bigint".to_owned(),
                other => format!("null::{other}"),
            };
            let arguments = types.iter().map(argument).collect::<Vec<_>>().join(", ");
            let call = match kind.as_str() {
                "p" => format!("call dialectic.{name}({arguments})"),
                _ => format!("select * from dialectic.{name}({arguments})"),
            };
            let error = refused(&mut second, &call, &[]);
            assert!(["P0002", "42501"].contains(&error.code().code()), "{call} with an id of {table}: {error:?}");
            assert!(!error.message().contains(SECRET), "{call}: {error:?}");
        }
    }
    assert!(called >= 20, "only {called} functions take an id");
    assert_eq!(mark(&mut client), before);
}

#[test]
fn a_function_that_leaks_its_arguments_is_not_shown_rows_of_others() {
    let Neighbours { database, mut second, .. } = neighbours("leak");
    let mut client = database.connect();
    client.batch_execute("create schema leak authorization law_leak_b").expect("a schema");
    second
        .batch_execute(&format!(
            "create function leak.see(text) returns boolean language plpgsql cost 0.0000001 as \
             'begin if $1 like ''%{SECRET}%'' then raise exception ''seen: %'', $1; end if; return true; end'"
        ))
        .expect("a leaky function");
    for (relation, text) in
        [("resources", "content"), ("contributions", "content"), ("projects", "name"), ("documents", "content")]
    {
        let seen: i64 =
            one(&mut second, &format!("select count(*) from dialectic.{relation} where leak.see({text})"), &[]);
        assert!(seen > 0, "{relation}");
    }
    // The same function does see it where nothing protects the rows.
    let error = refused(&mut client, "select count(*) from dialectic.resources where leak.see(content)", &[]);
    assert!(error.message().contains("seen:"), "{error:?}");
}

#[test]
fn an_admin_sees_all_and_may_control_all() {
    let Neighbours { database, mut first, ids, .. } = neighbours("admin");
    let mut client = database.connect();
    let mut admin = database.connect_as("law_admin_c");
    client.execute("select dialectic.grant_admin('law_admin_c')", &[]).expect("grant_admin");
    for relation in relations(&mut client) {
        assert_eq!(traces(&mut admin, &relation, &ids), traces(&mut client, &relation, &ids), "{relation}");
    }
    // A test job: no worker takes it before it is cancelled.
    let session: Uuid = one(
        &mut first,
        "select dialectic.run('Once more', models => '{sim-a}', process => 'essay', test => true)",
        &[],
    );
    assert_eq!(one::<i32>(&mut admin, "select dialectic.cancel($1)", &[&session]), 1);
    assert_eq!(one::<i64>(&mut admin, "select count(*) from dialectic.self_check()", &[]), 0);
    // What an admin makes in another's project belongs to the project's owner.
    let project: Uuid = one(&mut client, "select project_id from dialectic.sessions where id = $1", &[&session]);
    let begun: Uuid = one(&mut admin, "select dialectic.start_session($1, '{sim-a}')", &[&project]);
    assert_eq!(
        one::<String>(&mut first, "select owner from dialectic.sessions where id = $1", &[&begun]),
        "role:law_admin_a"
    );
}

#[test]
fn files_documents_and_notifications_of_another_owner_do_not_exist() {
    let Neighbours { database, mut first, mut second, .. } = neighbours("files");
    let mut client = database.connect();
    let id = |client: &mut Client, query: &str| one::<Uuid>(client, query, &[]);
    let owner = "where owner = 'role:law_files_a'";
    let project = id(&mut client, &format!("select id from dialectic.projects {owner}"));
    let session = id(&mut client, &format!("select id from dialectic.sessions {owner}"));
    let document = id(
        &mut client,
        &format!(
            "select d.id from dialectic.documents d join dialectic.sessions s on s.id = d.session_id {owner} limit 1"
        ),
    );
    let jobs = "select count(*) from dialectic.jobs";
    let before: i64 = one(&mut client, jobs, &[]);
    for (call, named) in [
        (format!("select * from dialectic.files('{project}')"), "no project and no session"),
        (format!("select * from dialectic.files('{session}')"), "no project and no session"),
        (format!("select dialectic.storage_path('{document}')"), "does not exist"),
        (format!("select dialectic.storage_path('{project}')"), "does not exist"),
        (format!("select dialectic.regenerate('{session}', 'thesis', 'sim-a')"), "does not exist"),
    ] {
        refused_with(&mut second, &call, &[], "P0002", named);
    }
    // What the one who is refused sees of his own, and the other of his.
    for (user, role) in [(&mut first, "law_files_a"), (&mut second, "law_files_b")] {
        let owners: Vec<String> = column(user, "select distinct owner from dialectic.notifications_since()", &[]);
        assert_eq!(owners, [format!("role:{role}")]);
        let own: Uuid = one(user, "select id from dialectic.projects", &[]);
        assert!(user.query("select * from dialectic.files($1)", &[&own]).expect("files").len() > 10);
        assert_eq!(
            one::<i64>(user, "select count(*) from dialectic.documents where path = dialectic.storage_path(id)", &[]),
            3
        );
    }
    refused(&mut second, "select * from dialectic._files($1, null)", &[&project]);
    assert_eq!(one::<i64>(&mut client, jobs, &[]), before);
}
