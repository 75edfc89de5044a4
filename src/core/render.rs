//! Decides how an answer becomes a Markdown document.
//!
//! A layout for the document key says what comes first and under which heading; whatever it does not mention follows
//! under headings of its own, so nothing that was written is lost. Without a layout, and where one fails on odd
//! content, the generic renderer shows what is there. Rendering never fails. Texts of a model are Markdown, yet cannot
//! leave their place: headings are pushed below the one they stand under, fences are closed, and `<` is escaped where
//! it would begin a tag, outside of code. Never changes the answer, never reads a file, never looks at a clock.

mod front_matter;
mod generic;
mod layout;
mod matrix;
mod node;
mod points;
mod prose;
mod table;
mod words;

#[cfg(test)]
mod laws;

pub use front_matter::FrontMatter;
pub use layout::{Layouts, check};
pub use words::title;

use serde_json::Value;

/// A document and what there is to say about how it was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    /// The document.
    pub markdown: String,
    /// What did not go as the layout wanted it.
    pub notes: Vec<String>,
}

/// Renders an answer with the layout of that name, if there is one.
pub fn markdown(layout: Option<(&Layouts, &str)>, content: &Value, front: &FrontMatter, title: &str) -> Rendered {
    let mut notes = Vec::new();
    let body = match layout.map(|(layouts, name)| layouts.render(name, content, front, title)) {
        Some(Ok(Some(body))) => body,
        Some(Err(problem)) => {
            notes.push(format!("rendered without its layout: {problem}"));
            plain(content, title)
        }
        Some(Ok(None)) | None => plain(content, title),
    };
    Rendered { markdown: format!("{front}\n{}\n", body.trim_end()), notes }
}

/// A document without what stands at its head; one that somebody wrote without a head is all body.
pub fn body(markdown: &str) -> &str {
    let rest = markdown.strip_prefix("---\n").and_then(|head| head.split_once("\n---\n"));
    rest.map_or(markdown, |(_, body)| body.trim_start_matches('\n'))
}

fn plain(content: &Value, title: &str) -> String {
    let mut page = generic::Page::default();
    page.block(&format!("# {}", prose::line(title)));
    page.value(content, 2);
    page.into_text()
}
