//! Decides how artifacts whose paths are still equal are told apart: the later one gets `_2`, the next `_3`.
//!
//! In the order given, so that an artifact keeps its path whatever comes after it. A number is passed over when another
//! artifact stands there already, be it by its own right. Never looks at what an artifact is.

use super::Artifact;
use std::collections::{HashMap, HashSet};

/// The path of each artifact, no two of them equal.
pub fn paths(artifacts: &[Artifact<'_>]) -> Vec<String> {
    let mut taken: HashSet<String> = HashSet::with_capacity(artifacts.len());
    let mut last: HashMap<String, u32> = HashMap::new();
    let place = |artifact: &Artifact<'_>| {
        let own = artifact.path();
        if taken.insert(own.clone()) {
            return own;
        }
        // A taken number is met once by the one path it belongs to, so all the searches together are as long as the
        // list.
        let n = last.entry(own.clone()).or_insert(1);
        loop {
            *n += 1;
            let path = numbered(&own, *n);
            if taken.insert(path.clone()) {
                return path;
            }
        }
    };
    artifacts.iter().map(place).collect()
}

/// The n-th artifact with the same path: the first keeps it, the second ends in `_2`.
pub fn numbered(path: &str, n: u32) -> String {
    match path.rsplit_once('.') {
        _ if n < 2 => path.to_owned(),
        Some((stem, ending)) if !ending.contains('/') => format!("{stem}_{n}.{ending}"),
        _ => format!("{path}_{n}"),
    }
}
