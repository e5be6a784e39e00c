//! The interface for looking up terms.

use super::table::ShortTerm;
use super::term::Term;

/// Maps terms to ids.
pub(crate) trait Dictionary {
    /// Returns the id of `term`, or `None` if it has none.
    fn id(&mut self, term: Term<'_>) -> Option<u32>;

    /// Calls `found` with the id of each term, in order.
    fn ids(&mut self, terms: &[ShortTerm], found: impl FnMut(Option<u32>));
}
