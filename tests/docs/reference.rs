//! docs/reference is what `make docs` writes.

use crate::markdown::{Document, documents, root};
use std::process::Command;

#[test]
fn reference_is_current() {
    let folder = std::env::temp_dir().join(format!("reference-{}", std::process::id()));
    let status = Command::new(root().join("dev/docs")).arg(&folder).status().expect("dev/docs");
    assert!(status.success(), "dev/docs: {status}");
    let mut written = Vec::new();
    let mut stale = Vec::new();
    for entry in std::fs::read_dir(&folder).expect("a folder") {
        let file = entry.expect("a file").path();
        let text = std::fs::read_to_string(&file).expect("a page");
        let path = format!("docs/reference/{}", file.file_name().and_then(|name| name.to_str()).expect("a name"));
        if Document::read(&path).is_none_or(|page| page.text != text) {
            stale.push(path.clone());
        }
        written.push(path);
    }
    let _ = std::fs::remove_dir_all(&folder);
    assert!(stale.is_empty(), "make docs writes these otherwise: {stale:?}");
    let left: Vec<String> = documents().into_iter().filter(|page| page.is_reference()).map(|page| page.path).collect();
    assert!(left.iter().all(|path| written.contains(path)), "make docs does not write all of {left:?}");
}
