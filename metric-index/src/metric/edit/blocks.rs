//! Strings in blocks of 32, stored character by character: the first characters of all strings,
//! then the second characters, and so on.
//!
//! The bits of a word represent the characters of the query (Myers 1999, Hyyrö 2003). A vector
//! register holds several words of 16, 32 or 64 bits, one per string. Vector instructions process
//! the next character of all these strings at once.

use std::collections::HashMap;
use std::ops::Range;

use multiversion::multiversion;

use super::super::{Blocks, Scan};

/// Number of strings per block.
const LANES: usize = 32;
const LANES_U32: u32 = 32;
/// Number of characters between checks. A check abandons a block if none of its strings can be
/// within the radius.
const CHARACTERS_PER_CHECK: usize = 4;
/// Maximum number of characters of a string in blocks.
const MAX_LENGTH: usize = 4_096;

#[derive(Debug)]
pub(super) struct StringBlocks {
    /// The number of each character, counted from 1.
    alphabet: HashMap<char, u16>,
    blocks: Vec<Block>,
    /// The numbers of the strings' characters, by position and lane; 0 after the end of a string.
    characters: Vec<[u16; LANES]>,
}

#[derive(Debug)]
struct Block {
    /// The offset of the block's characters.
    start: usize,
    lengths: [u16; LANES],
    shortest: u16,
    longest: u16,
}

impl StringBlocks {
    /// Creates blocks of strings. Returns `None` if there are no strings, if a string is too long,
    /// or if there are too many different characters.
    pub(super) fn of(strings: &[&str]) -> Option<Box<dyn Blocks<str>>> {
        let mut all = Self { alphabet: HashMap::new(), blocks: Vec::new(), characters: Vec::new() };
        for strings in strings.chunks(LANES) {
            let start = all.characters.len();
            let mut lengths = [0; LANES];
            for (lane, string) in strings.iter().enumerate() {
                for (position, character) in string.chars().enumerate() {
                    if position == MAX_LENGTH {
                        return None;
                    }
                    let next = u16::try_from(all.alphabet.len() + 1).ok()?;
                    let number = *all.alphabet.entry(character).or_insert(next);
                    if all.characters.len() == start + position {
                        all.characters.push([0; LANES]);
                    }
                    all.characters[start + position][lane] = number;
                    lengths[lane] += 1;
                }
            }
            let own = &lengths[..strings.len()];
            let shortest = own.iter().copied().min().unwrap_or(0);
            let longest = own.iter().copied().max().unwrap_or(0);
            all.blocks.push(Block { start, lengths, shortest, longest });
        }
        (!all.blocks.is_empty()).then(|| Box::new(all) as Box<_>)
    }

    /// Returns the positions in the query of each character of the alphabet, one bit per position.
    fn positions<W: Copy + Default + std::ops::BitOrAssign>(
        &self,
        query: &str,
        bit: impl Fn(usize) -> W,
    ) -> Vec<W> {
        let mut positions = vec![W::default(); self.alphabet.len() + 1];
        for (position, character) in query.chars().enumerate() {
            if let Some(&number) = self.alphabet.get(&character) {
                positions[usize::from(number)] |= bit(position);
            }
        }
        positions
    }
}

impl Blocks<str> for StringBlocks {
    fn from<'a>(&'a self, query: &'a str) -> Option<Box<dyn Scan + 'a>> {
        let length = query.chars().count();
        let positions = match length {
            1..=16 => CharacterBits::Of16(self.positions(query, |position| 1 << position)),
            17..=32 => CharacterBits::Of32(self.positions(query, |position| 1 << position)),
            33..=64 => CharacterBits::Of64(self.positions(query, |position| 1 << position)),
            _ => return None,
        };
        Some(Box::new(StringScan { blocks: self, length, positions }))
    }
}

/// The positions of each character in a query, in the smallest word type that is wide enough.
enum CharacterBits {
    Of16(Vec<u16>),
    Of32(Vec<u32>),
    Of64(Vec<u64>),
}

struct StringScan<'a> {
    blocks: &'a StringBlocks,
    length: usize,
    positions: CharacterBits,
}

impl Scan for StringScan<'_> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded above")]
    fn within(&mut self, positions: Range<u32>, radius: f32, near: &mut Vec<(u32, f32)>) {
        if radius < 0.0 || positions.is_empty() {
            return;
        }
        // No distance exceeds the length of the longer string.
        let limit = radius.min((MAX_LENGTH + 64) as f32) as usize;
        for number in positions.start / LANES_U32..positions.end.div_ceil(LANES_U32) {
            let block = &self.blocks.blocks[number as usize];
            let shortest = usize::from(block.shortest);
            let longest = usize::from(block.longest);
            if shortest > self.length + limit || longest + limit < self.length {
                continue;
            }
            let characters = &self.blocks.characters[block.start..block.start + longest];
            let lengths = &block.lengths;
            let distances = match &self.positions {
                CharacterBits::Of16(bits) => scan16(characters, lengths, bits, self.length, limit),
                CharacterBits::Of32(bits) => scan32(characters, lengths, bits, self.length, limit),
                CharacterBits::Of64(bits) => scan64(characters, lengths, bits, self.length, limit),
            };
            let Some(distances) = distances else { continue };
            for (position, distance) in (number * LANES_U32..).zip(distances) {
                if usize::from(distance) <= limit && positions.contains(&position) {
                    near.push((position, f32::from(distance)));
                }
            }
        }
    }
}

/// Defines a function that computes the distances from a query to the strings of a block. It
/// computes one column of the dynamic programming table at a time. Bits mark the rows at which the
/// column rises or falls by 1. The function returns `None` if all distances exceed `limit`.
macro_rules! scan {
    ($name:ident, $word:ty) => {
        #[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl", "x86_64+avx2", "aarch64+neon"))]
        #[expect(clippy::cast_possible_truncation, reason = "lengths are limited")]
        fn $name(
            characters: &[[u16; LANES]],
            lengths: &[u16; LANES],
            positions: &[$word],
            length: usize,
            limit: usize,
        ) -> Option<[u16; LANES]> {
            let last = length - 1;
            let mut rises = [<$word>::MAX; LANES];
            let mut falls = [0 as $word; LANES];
            let mut distances = [length as u16; LANES];
            let mut equal = [0 as $word; LANES];
            for (start, chunk) in
                (0..).step_by(CHARACTERS_PER_CHECK).zip(characters.chunks(CHARACTERS_PER_CHECK))
            {
                for column in chunk {
                    for (equal, &character) in equal.iter_mut().zip(column) {
                        *equal = positions[usize::from(character)];
                    }
                    for lane in 0..LANES {
                        let equal = equal[lane];
                        let rise = rises[lane];
                        let fall = falls[lane];
                        let zero = ((equal & rise).wrapping_add(rise) ^ rise) | equal | fall;
                        let up = fall | !(zero | rise);
                        let down = rise & zero;
                        // Strings that have ended retain their distances.
                        let continues = u16::from(column[lane] != 0);
                        distances[lane] += (up >> last & 1) as u16 & continues;
                        distances[lane] -= (down >> last & 1) as u16 & continues;
                        let up = (up << 1) | 1;
                        rises[lane] = (down << 1) | !(zero | up);
                        falls[lane] = up & zero;
                    }
                }
                // Each remaining character can lower a distance by one.
                let done = (start + chunk.len()) as u16;
                let mut is_near = false;
                for (&distance, &length) in distances.iter().zip(lengths) {
                    let remaining = usize::from(length.saturating_sub(done));
                    is_near |= usize::from(distance) <= limit + remaining;
                }
                if !is_near {
                    return None;
                }
            }
            Some(distances)
        }
    };
}

scan!(scan16, u16);
scan!(scan32, u32);
scan!(scan64, u64);
