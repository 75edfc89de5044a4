//! What `cargo pgrx install` brings beside functions and tables.

#[pgrx::pg_schema]
mod tests {
    use crate::pg_tests::{one, text};
    use pgrx::prelude::*;

    #[pg_test]
    fn pgrx_install_brings_the_seed() {
        assert!(one::<i64>("select count(*) from dialectic.models where is_shipped") > 30);
        assert!(one::<bool>("select exists (select from dialectic.domains where name = 'general' and is_shipped)"));
        let processes = "(select string_agg(name, ' ' order by name) from dialectic.processes where is_shipped)";
        assert_eq!(text(processes), "dialectic essay");
    }
}
