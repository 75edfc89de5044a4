//! Resolving secrets: a reference becomes the secret when a call needs it, and the secret is dropped with the call.
//!
//! Error messages contain neither the secret, nor its reference, nor the contents of a file.

use std::path::{Path, PathBuf};

/// The largest file that is read as a secret.
const MAX_SECRET_BYTES: u64 = 16 << 10;

/// The secret behind a reference that begins with one of the comma-separated prefixes.
pub(crate) fn resolve(reference: &str, prefixes: &str) -> Result<String, String> {
    let is_allowed = |prefix: &str| !prefix.is_empty() && reference.starts_with(prefix);
    if !prefixes.split(',').map(str::trim).any(is_allowed) {
        return Err(format!(
            "the reference to its secret does not begin with any of dialectic.secret_prefixes ({prefixes}): rename the \
             variable of the server's environment and SELECT dialectic.set_secret(provider, 'env:DIALECTIC_…')"
        ));
    }
    let secret = match reference.split_once(':') {
        Some(("env", name)) => std::env::var(name).map_err(|_| {
            "the environment of the server has no variable for the secret of the provider; it gets one when it is \
             started anew"
                .to_owned()
        })?,
        Some(("file", path)) => read_file(Path::new(path), prefixes)?,
        _ => return Err("the secret is neither env:NAME nor file:/path".to_owned()),
    };
    let secret = secret.trim_end_matches(['\n', '\r']).to_owned();
    if secret.is_empty() || !secret.bytes().all(|byte| (0x21..0x7f).contains(&byte)) {
        return Err("the secret of the provider is empty or has characters that cannot be sent".to_owned());
    }
    Ok(secret)
}

/// Reads a file whose real path, after symbolic links, is below one of the prefixes.
fn read_file(path: &Path, prefixes: &str) -> Result<String, String> {
    let unreadable = |problem: std::io::Error| format!("the secret of the provider cannot be read: {}", problem.kind());
    let real = path.canonicalize().map_err(unreadable)?;
    let is_below = |prefix: &str| {
        let prefix = PathBuf::from(prefix.strip_prefix("file:").unwrap_or_default());
        let folder = if prefix.is_dir() { prefix } else { prefix.parent().unwrap_or(Path::new("/")).to_owned() };
        folder.canonicalize().is_ok_and(|folder| real.starts_with(folder))
    };
    if !prefixes.split(',').map(str::trim).filter(|prefix| prefix.starts_with("file:")).any(is_below) {
        return Err("the secret of the provider leads out of dialectic.secret_prefixes".to_owned());
    }
    let about = std::fs::metadata(&real).map_err(unreadable)?;
    if !about.is_file() || about.len() > MAX_SECRET_BYTES {
        return Err(format!("the secret of the provider is no file, or larger than {MAX_SECRET_BYTES} bytes"));
    }
    std::fs::read_to_string(&real).map_err(unreadable)
}
