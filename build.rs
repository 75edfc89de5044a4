//! Makes the parts of the install script that are not written by hand: the statements that load `sql/seed`, and the
//! fingerprint of the SQL surface.
//!
//! Everything goes into one Rust file that `src/lib.rs` includes, so that `cargo pgrx install` and `cargo pgrx package`
//! bring it without further steps. Never reads anything outside of the source tree.

#[path = "build/fingerprint.rs"]
mod fingerprint;
#[path = "build/seed.rs"]
mod seed;

use std::path::Path;

/// pgrx copies each text byte by byte while the compiler evaluates constants, and the compiler limits that work.
const LARGEST_PART: usize = 64 * 1024;

fn main() {
    for folder in ["build", "sql", "src"] {
        println!("cargo::rerun-if-changed={folder}");
    }
    // `cargo pgrx` reads the schema from sections that nothing references: the linker must not collect them.
    let is_elf = std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os != "macos" && os != "windows");
    if is_elf {
        println!("cargo::rustc-link-arg-cdylib=-Wl,--no-gc-sections");
    }
    if let Err(problem) = write() {
        println!("cargo::error={problem}");
    }
}

fn write() -> Result<(), String> {
    let fingerprint = fingerprint::of(Path::new("."))?;
    println!("cargo::rustc-env=SCHEMA_FINGERPRINT={fingerprint}");
    let items = fingerprint_item(&fingerprint) + &seed_items(&seed::statements(Path::new("sql/seed"))?);
    let folder = std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    std::fs::write(Path::new(&folder).join("install_script.rs"), items).map_err(|problem| problem.to_string())
}

/// The function that keeps the fingerprint in the schema. An update script replaces it.
fn fingerprint_item(fingerprint: &str) -> String {
    let sql = format!(
        "create function _schema_fingerprint() returns text language sql immutable parallel safe\n\
         set search_path = pg_catalog, dialectic, pg_temp as $$ select '{fingerprint}'::text $$;\n"
    );
    format!("pgrx::extension_sql!({sql:?}, name = \"fingerprint\");\n")
}

/// The statements as items of pgrx, each after the one before it.
fn seed_items(statements: &[String]) -> String {
    let mut parts = vec![String::new()];
    for statement in statements {
        let last = parts.last_mut().expect("there is always one");
        if !last.is_empty() && last.len() + statement.len() > LARGEST_PART {
            parts.push(statement.clone());
        } else {
            last.push_str(statement);
        }
    }
    let mut items = String::new();
    let mut before = r#""self_check", "tokens", "knit""#.to_owned();
    for (number, part) in parts.iter().enumerate() {
        let name = format!("seed_{number}");
        items += &format!("pgrx::extension_sql!({part:?}, name = {name:?}, requires = [{before}]);\n");
        before = format!("{name:?}");
    }
    items
}
