//! Decides the statements that load a seed folder (prompts, document templates, overlays, models, processes): their
//! order and their quoting.
//!
//! Never changes a file's content: its text goes in byte by byte. A text with a word that CREATE EXTENSION would
//! replace is refused.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The statements that load the folder, in order, each with its line end. A folder without a kind of file loads none of
/// that kind.
pub(crate) fn statements(seed: &Path) -> Result<Vec<String>, String> {
    let mut made = Vec::new();
    let mut prompts: HashMap<String, PathBuf> = HashMap::new();
    for path in files(&seed.join("prompts"), ".md.j2", true)? {
        let name = stem(&path, ".md.j2");
        if let Some(other) = prompts.insert(name.clone(), path.clone()) {
            return Err(format!("two prompts are called {name}: {} and {}", other.display(), path.display()));
        }
        made.push(format!("select dialectic.set_prompt({}, {});\n", literal(&name), quoted(&path)?));
    }
    for path in files(&seed.join("documents"), ".md.j2", false)? {
        let name = literal(&stem(&path, ".md.j2"));
        made.push(format!("select dialectic.set_document_template({name}, {});\n", quoted(&path)?));
    }
    for path in files(&seed.join("overlays"), ".json", false)? {
        made.push(format!("select dialectic.set_domain({}::jsonb);\n", quoted(&path)?));
    }
    let models = seed.join("models.json");
    if models.is_file() {
        made.push(format!("select dialectic._seed_models({}::jsonb);\n", quoted(&models)?));
    }
    for path in files(&seed.join("processes"), ".json", false)? {
        made.push(format!(
            "select dialectic.define_process(j->>'name', j->'stages', description => j->>'description')\n\
             from (select {}::jsonb as j) as seed;\n",
            quoted(&path)?
        ));
    }
    Ok(made)
}

/// The files of a folder that end so, sorted by path.
fn files(folder: &Path, ending: &str, with_subfolders: bool) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    if !folder.is_dir() {
        return Ok(found);
    }
    let unreadable = |problem: std::io::Error| format!("{}: {problem}", folder.display());
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.is_dir() {
            if with_subfolders {
                found.extend(files(&path, ending, true)?);
            }
        } else if path.to_string_lossy().ends_with(ending) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn stem(path: &Path, ending: &str) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.strip_suffix(ending).unwrap_or(&name).to_owned()
}

fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// The content of a file between dollar quotes. Not even the beginning of the tag may occur in the text: a text that
/// ends in `$seed` would close `$seed$` early.
fn quoted(path: &Path) -> Result<String, String> {
    let text = fs::read_to_string(path).map_err(|problem| format!("{}: {problem}", path.display()))?;
    if ["MODULE_PATHNAME", "@extschema", "@extowner"].iter().any(|word| text.contains(word)) {
        return Err(format!(
            "{}: CREATE EXTENSION would replace MODULE_PATHNAME, @extschema or @extowner in it",
            path.display()
        ));
    }
    let mut tag = "seed".to_owned();
    let mut number = 0;
    while text.contains(&format!("${tag}")) {
        number += 1;
        tag = format!("seed{number}");
    }
    Ok(format!("${tag}${text}${tag}$"))
}
