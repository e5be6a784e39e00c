//! Reports for people about the results of the library `classify`: tables for a terminal, Markdown
//! and HTML pages.
//!
//! Each module reports one kind of result. Functions named `terminal` return lines for a terminal,
//! with control characters escaped.

pub mod clusters;
pub mod comparison;
pub mod devices;
pub mod evaluation;
pub mod explanation;
pub mod model;
mod table;
pub mod training;
