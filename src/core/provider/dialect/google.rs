//! To be written.
pub use super::chat::{events, fault, whole, wire};
