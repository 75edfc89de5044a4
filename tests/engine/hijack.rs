//! Tables, functions and operators that somebody else puts first in the search path are never used: not by a user's own calls, and
//! not by an admin's `CALL run_pending()`.

use dialectic_tests::*;

/// Everything in it fails loudly when it is used.
const TRAPS: &str = r#"
    create schema trap;
    create function trap.sprung() returns boolean language plpgsql as $$ begin raise exception 'a trap was sprung'; end $$;
    create function trap.sprung(anyelement, anyelement) returns boolean language plpgsql as $$ begin raise exception 'a trap was sprung'; end $$;
    create function trap.sprung_int(int4, int4) returns int4 language plpgsql as $$ begin raise exception 'a trap was sprung'; end $$;
    create function trap.sprung_time(timestamptz, interval) returns timestamptz language plpgsql as $$ begin raise exception 'a trap was sprung'; end $$;
    create function trap.sprung_float(float8, float8) returns float8 language plpgsql as $$ begin raise exception 'a trap was sprung'; end $$;
    create function trap.now() returns timestamptz language plpgsql as $$ begin raise exception 'a trap was sprung'; end $$;
    create function trap.clock_timestamp() returns timestamptz language plpgsql as $$ begin raise exception 'a trap was sprung'; end $$;
    create function trap._now() returns timestamptz language plpgsql as $$ begin raise exception 'a trap was sprung'; end $$;
    create function trap._current_owner() returns text language plpgsql as $$ begin raise exception 'a trap was sprung'; end $$;
    create function trap._is_admin() returns boolean language plpgsql as $$ begin raise exception 'a trap was sprung'; end $$;
    create function trap.cardinality(uuid[]) returns int4 language plpgsql as $$ begin raise exception 'a trap was sprung'; end $$;
    create function trap.set_config(text, jsonb) returns void language plpgsql as $$ begin raise exception 'a trap was sprung'; end $$;
    create function trap.current_setting(text) returns text language plpgsql as $$ begin raise exception 'a trap was sprung'; end $$;
    create function trap.array_agg(uuid) returns uuid[] language plpgsql as $$ begin raise exception 'a trap was sprung'; end $$;
    create function trap.format(text, text) returns text language plpgsql as $$ begin raise exception 'a trap was sprung'; end $$;
    create function trap._claim_batch(text, int4, uuid, uuid[]) returns void language plpgsql as $$ begin raise exception 'a trap was sprung'; end $$;
    do $$
    declare
        name text;
    begin
        foreach name in array array['projects', 'sessions', 'jobs', 'configuration', 'models', 'resources', 'definitions', 'pg_locks', 'pg_roles'] loop
            execute format('create view trap.%I as select trap.sprung() as id', name);
        end loop;
        foreach name in array array['int4', 'int8', 'float8', 'text', 'uuid', 'timestamptz', 'interval', 'bool', 'name', 'oid'] loop
            execute format('create function trap.sprung_%1$s(%1$s, %1$s) returns boolean language sql as ''select trap.sprung()''', name);
            execute format('create operator trap.= (function = trap.sprung_%1$s, leftarg = %1$s, rightarg = %1$s)', name);
            execute format('create operator trap.<> (function = trap.sprung_%1$s, leftarg = %1$s, rightarg = %1$s)', name);
            execute format('create operator trap.< (function = trap.sprung_%1$s, leftarg = %1$s, rightarg = %1$s)', name);
            execute format('create operator trap.> (function = trap.sprung_%1$s, leftarg = %1$s, rightarg = %1$s)', name);
            execute format('create operator trap.>= (function = trap.sprung_%1$s, leftarg = %1$s, rightarg = %1$s)', name);
            execute format('create operator trap.<= (function = trap.sprung_%1$s, leftarg = %1$s, rightarg = %1$s)', name);
        end loop;
    end
    $$;
    create function trap.minus(int4, int4) returns int4 language plpgsql as $$ begin raise exception 'a trap was sprung'; end $$;
    create function trap.times(float8, int4) returns float8 language plpgsql as $$ begin raise exception 'a trap was sprung'; end $$;
    create operator trap.- (function = trap.minus, leftarg = int4, rightarg = int4);
    create operator trap.+ (function = trap.minus, leftarg = int4, rightarg = int4);
    create operator trap.* (function = trap.times, leftarg = float8, rightarg = int4);
    create operator trap.+ (function = trap.sprung_time, leftarg = timestamptz, rightarg = interval);
    grant usage on schema trap to public;
"#;

const TEMPORARY_TRAPS: &str = "create temporary view projects as select trap.sprung() as id; \
    create temporary view sessions as select trap.sprung() as id; create temporary view jobs as select trap.sprung() as id; \
    create temporary view configuration as select trap.sprung() as id; create temporary view pg_locks as select trap.sprung() as id";

#[test]
fn what_stands_first_in_the_search_path_is_not_used() {
    let database = Database::by_hand();
    let mut client = database.connect();
    client.batch_execute(TRAPS).expect("traps");
    let mut user = database.connect_as("law_trap_user");
    let mut admin = database.connect_as("law_trap_admin");
    client
        .execute("select dialectic.grant_user('law_trap_user'), dialectic.grant_admin('law_trap_admin')", &[])
        .expect("grants");
    for role in [&mut user, &mut admin] {
        role.batch_execute(TEMPORARY_TRAPS).expect("temporary traps");
        role.batch_execute("set search_path = pg_temp, trap, pg_catalog").expect("search_path");
        // They are armed.
        for bait in
            ["select * from jobs", "select 1 < 2", "select now()", "select 3 - 2", "select 'a'::text = 'b'::text"]
        {
            assert!(refused(role, bait, &[]).message().contains("a trap was sprung"), "{bait}");
        }
    }

    let project: Uuid =
        one(&mut user, "select dialectic.create_project('Law', 'Is this a law?', process => 'essay')", &[]);
    user.execute("select dialectic.add_resource($1, 'note', 'text')", &[&project]).expect("add_resource");
    let session: Uuid =
        one(&mut user, "select dialectic.start_session($1, '{sim-a,sim-b}', auto_advance => true)", &[&project]);
    user.execute("select dialectic.generate($1)", &[&session]).expect("generate");
    assert_eq!(one::<i32>(&mut user, "select dialectic.pause($1)", &[&session]), 2);
    assert_eq!(user.query("select * from dialectic.blocked", &[]).expect("blocked").len(), 2);
    assert_eq!(one::<i32>(&mut user, "select dialectic.resume($1)", &[&session]), 2);

    admin.batch_execute("call dialectic.run_pending(3)").expect("run_pending");
    admin.batch_execute("call dialectic.run_pending()").expect("run_pending");
    user.execute("call dialectic.wait($1, '1 minute')", &[&session]).expect("wait");
    assert_eq!(user.query("select * from dialectic.documents", &[]).expect("documents").len(), 8);
    assert_eq!(user.query("select * from dialectic.progress($1)", &[&session]).expect("progress").len(), 6);
    user.query("select * from dialectic.job_tree($1)", &[&session]).expect("job_tree");
    admin.query("select * from dialectic.health()", &[]).expect("health");
    admin.query("select * from dialectic.self_check()", &[]).expect("self_check");
    admin.execute("select dialectic.set_config('max_continuations', '4')", &[]).expect("set_config");
    admin.execute("select dialectic.add_model('own', 'simulator')", &[]).expect("add_model");
    assert_eq!(
        one::<String>(&mut client, "select status from dialectic.sessions where id = $1", &[&session]),
        "completed"
    );
    assert_sound(&mut client);
}
