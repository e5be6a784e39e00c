//! Terms with numbers: what the analysis of text and the vocabulary look terms up in.
//!
//! Comes in: a [`Term`], which is a piece of text. Goes out: its number. `term` is the term and its
//! first sixteen bytes, `table` the hash table, `interner` a table that numbers new terms.
//! Everything that numbers terms is a [`Dictionary`]. Read `dictionary` first.

mod dictionary;
mod interner;
mod table;
mod term;

pub(crate) use dictionary::Dictionary;
pub(crate) use interner::Interner;
pub(crate) use table::{ShortTerm, TermTable, batches};
pub(crate) use term::{PREFIX, Prefix, Term};
