//! Makes the part of the install script that is not written by hand: the statements that load `sql/seed`.
//!
//! Everything goes into one Rust file that `src/lib.rs` includes, so that `cargo pgrx install` and `cargo pgrx package`
//! bring it without further steps. Never reads anything outside of the source tree.

#[path = "build/seed.rs"]
mod seed;

use std::path::Path;

/// pgrx copies each text byte by byte while the compiler evaluates constants, and the compiler limits that work.
const LARGEST_PART: usize = 64 * 1024;

fn main() {
    for folder in ["build", "sql"] {
        println!("cargo::rerun-if-changed={folder}");
    }
    if let Err(problem) = write() {
        println!("cargo::error={problem}");
    }
}

fn write() -> Result<(), String> {
    let items = seed_items(&seed::statements(Path::new("sql/seed"))?);
    let folder = std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    std::fs::write(Path::new(&folder).join("install_script.rs"), items).map_err(|problem| problem.to_string())
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
    let mut before = r#""diagnosis", "tokens", "knit""#.to_owned();
    for (number, part) in parts.iter().enumerate() {
        let name = format!("seed_{number}");
        items += &format!("pgrx::extension_sql!({part:?}, name = {name:?}, requires = [{before}]);\n");
        before = format!("{name:?}");
    }
    items
}
