//! Splits ASCII text into words, 64 bytes at a time. One bit per byte indicates whether the byte
//! belongs to a word. Words begin and end where the bit changes. This avoids a branch per byte,
//! which would be mispredicted at both ends of each word.

use crate::text::term_store::Term;

/// The number of bytes processed together.
const BLOCK: usize = 64;

const LETTER: u8 = 1;
const DIGIT: u8 = 2;
const CONNECTOR: u8 = 4;
/// Joins letters: `MidLetter`, `MidNumLet`, `Single_Quote`.
const MID_LETTER: u8 = 8;
/// Joins digits: `MidNum`, `MidNumLet`, `Single_Quote`.
const MID_DIGIT: u8 = 16;

/// Returns the UAX #29 word-break class of an ASCII character.
fn class(byte: u8) -> u8 {
    match byte {
        b'a'..=b'z' | b'A'..=b'Z' => LETTER,
        b'0'..=b'9' => DIGIT,
        b'_' => CONNECTOR,
        b':' => MID_LETTER,
        b',' | b';' => MID_DIGIT,
        b'.' | b'\'' => MID_LETTER | MID_DIGIT,
        _ => 0,
    }
}

/// Calls `word` with each word of ASCII text, according to the rules WB5–WB13b. The other rules
/// concern combining marks and other scripts. A word must contain a letter or a digit.
pub(super) fn uax29_words<'a>(text: &'a str, word: &mut impl FnMut(Term<'a>)) {
    let bytes = text.as_bytes();
    let joins = |position: usize| {
        let Some(&[before, middle, after]) = bytes.get(position - 1..=position + 1) else {
            return false;
        };
        let between = |kind| class(before) & kind != 0 && class(after) & kind != 0;
        class(middle) & MID_LETTER != 0 && between(LETTER)
            || class(middle) & MID_DIGIT != 0 && between(DIGIT)
    };
    runs(
        text,
        |block, offset, carry| {
            let words = bits(block, is_word_byte);
            let middles = bits(block, is_middle);
            let mut joined = words;
            // Middle bytes between two word bytes. The second word byte may be in the next block.
            let next = bytes.get(offset + BLOCK).is_some_and(|&byte| is_word_byte(byte));
            let after = words >> 1 | u64::from(next) << (BLOCK - 1);
            let mut candidates = middles & (words << 1 | carry) & after;
            while candidates != 0 {
                let position = candidates.trailing_zeros();
                candidates &= candidates - 1;
                joined |= u64::from(joins(offset + position as usize)) << position;
            }
            joined
        },
        &mut |found: Term<'a>| {
            let bytes = found.bytes();
            if bytes[0] != b'_' || bytes.iter().any(|&byte| byte != b'_') {
                word(found);
            }
        },
    );
}

/// Calls `word` with each run of letters, digits and `_`.
pub(super) fn word_character_runs<'a>(text: &'a str, word: &mut impl FnMut(Term<'a>)) {
    runs(text, |block, _, _| bits(block, is_word_byte), word);
}

fn is_word_byte(byte: u8) -> bool {
    (byte | 0x20).wrapping_sub(b'a') < 26 || byte.wrapping_sub(b'0') < 10 || byte == b'_'
}

/// Returns whether a byte can join letters or digits: `:`, `;`, `,`, `.` or `'`. `:` and `;` differ
/// in only one bit, and so do `,` and `.`.
fn is_middle(byte: u8) -> bool {
    byte | 1 == b';' || byte | 2 == b'.' || byte == b'\''
}

/// Calls `word` with each run of bytes whose bits are set. `members` computes the bits of a block
/// from the block, its offset in the text, and whether the preceding byte is in a run (0 or 1).
fn runs<'a>(
    text: &'a str,
    members: impl Fn(&[u8; BLOCK], usize, u64) -> u64,
    word: &mut impl FnMut(Term<'a>),
) {
    let (blocks, rest) = text.as_bytes().as_chunks::<BLOCK>();
    let mut last = [0; BLOCK];
    last[..rest.len()].copy_from_slice(rest);
    let mut carry = 0;
    let mut start = 0;
    for (index, block) in blocks.iter().chain([&last]).enumerate() {
        let offset = index * BLOCK;
        let inside = members(block, offset, carry);
        let mut changes = inside ^ (inside << 1 | carry);
        if carry == 1 && changes != 0 {
            word(Term::within(text, start, offset + changes.trailing_zeros() as usize));
            changes &= changes - 1;
        }
        while changes != 0 {
            start = offset + changes.trailing_zeros() as usize;
            changes &= changes - 1;
            if changes != 0 {
                word(Term::within(text, start, offset + changes.trailing_zeros() as usize));
                changes &= changes - 1;
            }
        }
        carry = inside >> (BLOCK - 1);
    }
    if carry == 1 {
        word(Term::within(text, start, text.len()));
    }
}

/// Returns one bit per byte, lowest first, which is set if `test` returns true.
fn bits(block: &[u8; BLOCK], test: impl Fn(u8) -> bool) -> u64 {
    let flags = block.map(|byte| if test(byte) { u8::MAX } else { 0 });
    let (sixteens, _) = flags.as_chunks::<16>();
    sixteens.iter().rev().fold(0, |bits, flags| bits << 16 | u64::from(top_bits(flags)))
}

/// Returns the highest bit of each byte.
#[cfg(target_arch = "x86_64")]
fn top_bits(bytes: &[u8; 16]) -> u16 {
    use std::arch::x86_64::{_mm_movemask_epi8, _mm_set_epi64x};

    #[target_feature(enable = "sse2")]
    #[inline]
    fn mask(low: i64, high: i64) -> i32 {
        _mm_movemask_epi8(_mm_set_epi64x(high, low))
    }

    let (halves, _) = bytes.as_chunks::<8>();
    let [low, high] = [0, 1].map(|half: usize| i64::from_le_bytes(halves[half]));
    #[expect(unsafe_code, reason = "needs SSE2")]
    // SAFETY: every x86-64 processor has SSE2.
    let bits = unsafe { mask(low, high) };
    u16::try_from(bits).expect("sixteen bits")
}

/// Returns the highest bit of each byte.
#[cfg(not(target_arch = "x86_64"))]
fn top_bits(bytes: &[u8; 16]) -> u16 {
    top_bits_portable(bytes)
}

#[cfg(any(not(target_arch = "x86_64"), test))]
fn top_bits_portable(bytes: &[u8; 16]) -> u16 {
    let (eights, _) = bytes.as_chunks::<8>();
    eights.iter().rev().fold(0, |bits, &eight| {
        let flags = u64::from_le_bytes(eight) >> 7 & 0x0101_0101_0101_0101;
        // The top byte of the product contains the eight flags as bits.
        bits << 8 | u16::from(flags.wrapping_mul(0x0102_0408_1020_4080).to_le_bytes()[7])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests all byte values at all positions.
    #[test]
    fn bits_of_all_bytes() {
        for shift in 0..=u8::MAX {
            let byte = |index: usize| shift.wrapping_add(index.to_le_bytes()[0]);
            let block: [u8; BLOCK] = std::array::from_fn(byte);
            for test in [is_word_byte, is_middle] {
                let expected: u64 =
                    (0..).zip(block).map(|(index, byte)| u64::from(test(byte)) << index).sum();
                assert_eq!(bits(&block, test), expected);
            }
            let bytes: [u8; 16] = std::array::from_fn(|index| byte(37 * index));
            assert_eq!(top_bits(&bytes), top_bits_portable(&bytes), "{bytes:?}");
        }
    }

    #[test]
    fn middles_have_a_class() {
        for byte in 0..=u8::MAX {
            let expected = class(byte) & (MID_LETTER | MID_DIGIT) != 0;
            assert_eq!(is_middle(byte), expected, "{byte}");
        }
    }
}
