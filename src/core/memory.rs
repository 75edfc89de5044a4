//! Decides how a text becomes chunks for search, and which chunks of those that were found answer a query.
//!
//! | module | decides |
//! |---|---|
//! | [`chunks`] | where chunks begin and end, and how much neighbours share |
//! | [`passages`] | how retrieved chunks stand in a prompt |
//! | [`text_config`] | the text search configuration of a chunk |
//! | [`ranking`] | how ranks become one score, and which similar chunks are left out |
//!
//! Never searches and never makes an embedding: candidates come in with their ranks and vectors.

pub mod chunks;
pub mod passages;
pub mod ranking;
pub mod text_config;

#[cfg(test)]
mod tests;

pub use chunks::{Chunk, chunks};
pub use text_config::TextConfig;
