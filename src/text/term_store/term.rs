//! A term and its first bytes, which nearly always suffice to compare terms.

/// The number of bytes in [`Term::prefix`].
pub(crate) const PREFIX: usize = 16;

/// A word or n-gram, and its first sixteen bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Term<'a> {
    text: &'a str,
    prefix: Prefix,
}

/// The first sixteen bytes of a term, padded with zeros, as two little-endian numbers.
///
/// These are two fields instead of an array, because compilers copy an array with one wide load.
/// After two narrower stores, store-to-load forwarding would fail, and the load would stall.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Prefix {
    pub(crate) low: u64,
    pub(crate) high: u64,
}

impl Prefix {
    #[expect(clippy::cast_possible_truncation, reason = "splits the number into halves")]
    fn new(bytes: u128) -> Self {
        Self { low: bytes as u64, high: (bytes >> 64) as u64 }
    }

    /// The sixteen bytes as a little-endian number.
    pub(crate) fn bytes(self) -> u128 {
        u128::from(self.high) << 64 | u128::from(self.low)
    }
}

impl<'a> Term<'a> {
    /// Returns the term `start..end` of `text`. If at least sixteen bytes follow `start`, the
    /// prefix is read without an unpredictable branch on the length.
    #[inline]
    pub(crate) fn within(text: &'a str, start: usize, end: usize) -> Self {
        let term = &text[start..end];
        let prefix = text.as_bytes()[start..].first_chunk().map_or_else(
            || prefix(term.as_bytes()),
            |&chunk| u128::from_le_bytes(chunk) & MASKS[term.len().min(PREFIX)],
        );
        Self { text: term, prefix: Prefix::new(prefix) }
    }

    pub(crate) fn text(self) -> &'a str {
        self.text
    }

    pub(crate) fn bytes(self) -> &'a [u8] {
        self.text.as_bytes()
    }

    pub(crate) fn prefix(self) -> Prefix {
        self.prefix
    }
}

impl<'a> From<&'a str> for Term<'a> {
    fn from(text: &'a str) -> Self {
        Self { text, prefix: Prefix::new(prefix(text.as_bytes())) }
    }
}

/// `MASKS[n]` has ones in the lowest `n` bytes.
const MASKS: [u128; PREFIX + 1] = {
    let mut masks = [u128::MAX; PREFIX + 1];
    let mut length = 0;
    while length < PREFIX {
        masks[length] = (1 << (8 * length)) - 1;
        length += 1;
    }
    masks
};

/// Returns the first sixteen bytes of a term, padded with zeros. Reads two chunks that may overlap,
/// because copying a variable number of bytes would cost a function call.
fn prefix(term: &[u8]) -> u128 {
    fn parts<const N: usize>(term: &[u8], number: impl Fn([u8; N]) -> u128) -> Option<u128> {
        let first = *term.first_chunk()?;
        let last = *term.last_chunk()?;
        Some(number(first) | number(last) << (8 * (term.len() - N)))
    }
    if let Some(&chunk) = term.first_chunk() {
        return u128::from_le_bytes(chunk);
    }
    parts(term, |part| u128::from(u64::from_le_bytes(part)))
        .or_else(|| parts(term, |part| u128::from(u32::from_le_bytes(part))))
        .or_else(|| parts(term, |part| u128::from(u16::from_le_bytes(part))))
        .unwrap_or_else(|| term.first().map_or(0, |&byte| byte.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes() {
        let text = "abcdefghijklmnopqrstuvwxyz and more than sixteen bytes";
        for start in [0, 3, text.len() - 20] {
            for end in start..text.len() {
                let term = &text.as_bytes()[start..end];
                let mut padded = [0; PREFIX];
                let copied = term.len().min(PREFIX);
                padded[..copied].copy_from_slice(&term[..copied]);
                let expected = Prefix::new(u128::from_le_bytes(padded));
                assert_eq!(Term::from(&text[start..end]).prefix(), expected, "{start}..{end}");
                assert_eq!(Term::within(text, start, end).prefix(), expected, "{start}..{end}");
            }
        }
    }
}
