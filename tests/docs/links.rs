//! Relative links and their anchors lead somewhere, and the index leads to every page.

use crate::markdown::{Document, documents, root};
use std::path::{Component, Path, PathBuf};

/// The path from the root that a target of this page stands for; none where it leaves the checkout.
fn resolved(page: &Document, target: &str) -> Option<PathBuf> {
    let mut path = Path::new(&page.path).parent().map(Path::to_path_buf).unwrap_or_default();
    for part in Path::new(target).components() {
        match part {
            Component::ParentDir if !path.pop() => return None,
            Component::ParentDir | Component::CurDir => (),
            Component::Normal(name) => path.push(name),
            _ => return None,
        }
    }
    Some(path)
}

/// What is wrong with a link; none where it leads somewhere.
fn problem(page: &Document, target: &str) -> Option<String> {
    if ["https://", "http://", "mailto:"].iter().any(|scheme| target.starts_with(scheme)) {
        return None;
    }
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let Some(file) = (if path.is_empty() { Some(PathBuf::from(&page.path)) } else { resolved(page, path) }) else {
        return Some("leaves the checkout".to_owned());
    };
    if !root().join(&file).exists() {
        return Some("is not there".to_owned());
    }
    if anchor.is_empty() {
        return None;
    }
    let linked = Document::read(file.to_str()?)?;
    (!linked.anchors().iter().any(|one| one == anchor)).then(|| "has no such anchor".to_owned())
}

#[test]
fn links_lead_somewhere() {
    let mut broken = Vec::new();
    for page in documents() {
        for (line, target) in page.links() {
            if let Some(problem) = problem(&page, &target) {
                broken.push(format!("{}:{line}: {target} {problem}", page.path));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn index_links_to_every_page() {
    let index = Document::read("docs/README.md").expect("docs/README.md");
    let linked: Vec<PathBuf> =
        index.links().iter().filter_map(|(_, target)| resolved(&index, target.split('#').next()?)).collect();
    let missing: Vec<String> = documents()
        .into_iter()
        .map(|page| page.path)
        .filter(|path| path != "docs/README.md" && !linked.contains(&PathBuf::from(path)))
        .collect();
    assert!(missing.is_empty(), "{missing:#?}");
}
