//! Formats the results of the `classify` library for people: as tables for a terminal, as Markdown,
//! and as HTML pages.
//!
//! Each module formats one kind of result. Functions named `terminal` return lines for a terminal,
//! with control characters escaped.

pub mod check;
pub mod clusters;
pub mod comparison;
pub mod devices;
pub mod evaluation;
pub mod explanation;
pub mod model;
pub mod proposals;
mod table;
pub mod training;
