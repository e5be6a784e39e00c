//! Maps from terms to ids, used by text analysis and the vocabulary.
//!
//! A [`Dictionary`] returns the id of a [`Term`], which is a slice of a text. Read `dictionary`
//! first. `term` defines terms and their first sixteen bytes, `table` is the hash table, and
//! `interner` is a table that assigns ids to new terms.

mod dictionary;
mod interner;
mod table;
mod term;

pub(crate) use dictionary::Dictionary;
pub(crate) use interner::Interner;
pub(crate) use table::{ShortTerm, TermTable, for_each_batch};
pub(crate) use term::{PREFIX, Prefix, Term};
