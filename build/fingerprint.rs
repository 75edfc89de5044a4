//! Decides the fingerprint of the SQL surface: what the library expects to find in a database.
//!
//! It covers the statements below `sql` and the declarations of functions that Rust gives to SQL. A change of a
//! comment, of the seed or of a Rust function's body does not change it: a library with only such changes works with
//! the schema. Neither do update scripts (`A--B.sql`), which contain it.

use std::fs;
use std::path::{Path, PathBuf};

/// The fingerprint of the sources below this folder, as 16 hexadecimal digits.
pub(crate) fn of(root: &Path) -> Result<String, String> {
    let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
    for path in files(&root.join("sql"), "sql")? {
        let text = read(&path)?;
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("--"));
        lines.for_each(|line| hash.add(line));
    }
    for path in files(&root.join("src"), "rs")? {
        declarations(&read(&path)?).iter().for_each(|declaration| hash.add(declaration));
    }
    Ok(format!("{:016x}", hash.0))
}

/// Every `#[pg_extern…] … fn …(…) -> …` of a file, up to its body, with all space taken out.
fn declarations(text: &str) -> Vec<String> {
    let begins = text.match_indices("\n#[pg_extern").map(|(at, _)| at);
    begins.map(|at| text[at..].split(" {\n").next().unwrap_or_default().split_whitespace().collect()).collect()
}

struct Fnv(u64);

impl Fnv {
    fn add(&mut self, text: &str) {
        for byte in text.bytes().chain([b'\n']) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|problem| format!("{}: {problem}", path.display()))
}

fn files(folder: &Path, ending: &str) -> Result<Vec<PathBuf>, String> {
    let unreadable = |problem: std::io::Error| format!("{}: {problem}", folder.display());
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.is_dir() {
            found.extend(files(&path, ending)?);
        } else if path.extension().is_some_and(|extension| extension == ending)
            && !path.file_name().is_some_and(|name| name.to_string_lossy().contains("--"))
        {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}
