//! The clock that can be moved, the ids that cannot, and the owner as the current user.

#[pgrx::pg_schema]
mod tests {
    use crate::pg_tests::{one, text};
    use pgrx::prelude::*;

    #[pg_test]
    fn the_clock_moves_by_its_offset_and_back() {
        Spi::run("set local dialectic.clock_offset = 86400").expect("superuser");
        let ahead: f64 = one("select extract(epoch from dialectic._now() - clock_timestamp())::float8");
        assert!((86399.0..=86400.0).contains(&ahead), "{ahead}");
        Spi::run("set local dialectic.clock_offset = -3600.5").expect("superuser");
        let behind: f64 = one("select extract(epoch from dialectic._now() - clock_timestamp())::float8");
        assert!((-3601.0..=-3600.5).contains(&behind), "{behind}");
        Spi::run("reset dialectic.clock_offset").expect("superuser");
        let back: f64 = one("select extract(epoch from dialectic._now() - clock_timestamp())::float8");
        assert!(back.abs() < 1.0, "{back}");
    }

    #[pg_test]
    fn ids_go_by_the_true_clock_and_in_order() {
        Spi::run("create temp table made as select n, dialectic._uuid_v7() as id from generate_series(1, 2000) as n")
            .expect("ids");
        Spi::run("set local dialectic.clock_offset = -1000000").expect("superuser");
        Spi::run("insert into made select n, dialectic._uuid_v7() from generate_series(2001, 4000) as n")
            .expect("more ids");
        let disordered: i64 = one(
            "select count(*) from (select id, lag(id) over (order by n) as before from made) as m where id <= before",
        );
        assert_eq!(disordered, 0);
        let misshapen: i64 = one(
            "select count(*) from made where id::text !~ '^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$'",
        );
        assert_eq!(misshapen, 0);
    }

    #[pg_test]
    fn owner_is_the_current_user_also_inside_a_definer_function() {
        let definer = text("dialectic._current_owner()");
        assert!(definer.starts_with("role:"), "{definer}");
        Spi::run(
            "create role inner_and_outer; \
             create function asked() returns text language sql security definer as 'select dialectic._current_owner()'; \
             select dialectic.grant_user('inner_and_outer')",
        )
        .expect("a role");
        Spi::run("set local role inner_and_outer").expect("set role");
        assert_eq!(text("dialectic._current_owner()"), "role:inner_and_outer");
        assert_eq!(text("asked()"), definer);
        Spi::run("reset role").expect("reset role");
        assert_eq!(text("dialectic._current_owner()"), definer);
    }

    #[pg_test]
    fn claims_name_the_owner_only_for_the_roles_of_the_gateway() {
        Spi::run(
            "create role gateway_user; create role somebody_else; \
             select dialectic.grant_user('gateway_user'), dialectic.grant_user('somebody_else'); \
             set local dialectic.identity = 'jwt'; set local dialectic.jwt_roles = 'anon, gateway_user'; \
             set local request.jwt.claims = '{\"sub\": \"role:postgres\"}'",
        )
        .expect("a gateway");
        Spi::run("set local role gateway_user").expect("set role");
        assert_eq!(text("dialectic._current_owner()"), "jwt:role:postgres");
        Spi::run("set local role somebody_else").expect("set role");
        assert_eq!(text("dialectic._current_owner()"), "role:somebody_else");
    }
}
