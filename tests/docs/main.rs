//! README.md and docs/: their examples run, their links lead somewhere, the names in them exist, and they stay short.
//!
//! Every page with examples runs on a server of its own (`page`). A test claims of an example what its page says.

mod claims;
mod form;
mod links;
mod markdown;
mod names;
mod page;
mod pages;
mod postgrest;
mod reference;
mod shown;
mod states;
