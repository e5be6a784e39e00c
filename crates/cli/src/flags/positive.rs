//! Parser for positive counts.

use std::num::NonZeroUsize;

/// Parses a count of at least 1.
pub(crate) fn positive(text: &str) -> Result<NonZeroUsize, String> {
    text.parse().map_err(|_| "expected a whole number above 0".to_owned())
}
