//! Strings in blocks of 32: the first characters of all, then the second, and so on.
//!
//! The bits of a machine word stand for the characters of the query (Myers 1999, Hyyrö 2003), so that a vector
//! instruction advances as many strings by a character as words of 16, 32 or 64 bits fit into it.

use std::collections::HashMap;
use std::ops::Range;

use multiversion::multiversion;

use super::super::{Blocks, Scan};

/// Strings of a block.
const LANES: usize = 32;
const LANES_U32: u32 = 32;
/// Characters after which a block is left if none of its strings can be near any more.
const STRETCH: usize = 4;
/// Longer strings are not put into blocks.
const LONGEST: usize = 4_096;

#[derive(Debug)]
pub(super) struct StringBlocks {
    /// The number of each character, from 1.
    alphabet: HashMap<char, u16>,
    blocks: Vec<Block>,
    /// The number of each character of the strings; 0 after the end of a string.
    characters: Vec<[u16; LANES]>,
}

#[derive(Debug)]
struct Block {
    /// Where its characters begin.
    start: usize,
    lengths: [u16; LANES],
    shortest: u16,
    longest: u16,
}

impl StringBlocks {
    /// None if there are no strings, or if one is long or their characters are many.
    pub(super) fn of(strings: &[&str]) -> Option<Box<dyn Blocks<str>>> {
        let mut all = Self { alphabet: HashMap::new(), blocks: Vec::new(), characters: Vec::new() };
        for strings in strings.chunks(LANES) {
            let start = all.characters.len();
            let mut lengths = [0; LANES];
            for (lane, string) in strings.iter().enumerate() {
                for (place, character) in string.chars().enumerate() {
                    if place == LONGEST {
                        return None;
                    }
                    let next = u16::try_from(all.alphabet.len() + 1).ok()?;
                    let number = *all.alphabet.entry(character).or_insert(next);
                    if all.characters.len() == start + place {
                        all.characters.push([0; LANES]);
                    }
                    all.characters[start + place][lane] = number;
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

    /// The places in the query of each character of the alphabet, a bit for each.
    fn places<W: Copy + Default + std::ops::BitOrAssign>(
        &self,
        query: &str,
        bit: impl Fn(usize) -> W,
    ) -> Vec<W> {
        let mut places = vec![W::default(); self.alphabet.len() + 1];
        for (place, character) in query.chars().enumerate() {
            if let Some(&number) = self.alphabet.get(&character) {
                places[usize::from(number)] |= bit(place);
            }
        }
        places
    }
}

impl Blocks<str> for StringBlocks {
    fn from<'a>(&'a self, query: &'a str) -> Option<Box<dyn Scan + 'a>> {
        let length = query.chars().count();
        let places = match length {
            1..=16 => Places::Of16(self.places(query, |place| 1 << place)),
            17..=32 => Places::Of32(self.places(query, |place| 1 << place)),
            33..=64 => Places::Of64(self.places(query, |place| 1 << place)),
            _ => return None,
        };
        Some(Box::new(StringScan { blocks: self, length, places }))
    }
}

enum Places {
    Of16(Vec<u16>),
    Of32(Vec<u32>),
    Of64(Vec<u64>),
}

struct StringScan<'a> {
    blocks: &'a StringBlocks,
    length: usize,
    places: Places,
}

impl Scan for StringScan<'_> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "limited before")]
    fn within(&mut self, places: Range<u32>, radius: f32, near: &mut Vec<(u32, f32)>) {
        if radius < 0.0 || places.is_empty() {
            return;
        }
        // No distance is above the length of the longer string.
        let most = radius.min((LONGEST + 64) as f32) as usize;
        for number in places.start / LANES_U32..places.end.div_ceil(LANES_U32) {
            let block = &self.blocks.blocks[number as usize];
            let (shortest, longest) = (usize::from(block.shortest), usize::from(block.longest));
            if shortest > self.length + most || longest + most < self.length {
                continue;
            }
            let characters = &self.blocks.characters[block.start..block.start + longest];
            let lengths = &block.lengths;
            let distances = match &self.places {
                Places::Of16(places) => scan16(characters, lengths, places, self.length, most),
                Places::Of32(places) => scan32(characters, lengths, places, self.length, most),
                Places::Of64(places) => scan64(characters, lengths, places, self.length, most),
            };
            let Some(distances) = distances else { continue };
            for (place, distance) in (number * LANES_U32..).zip(distances) {
                if usize::from(distance) <= most && places.contains(&place) {
                    near.push((place, f32::from(distance)));
                }
            }
        }
    }
}

/// The distances of a query from the strings of a block; none if all are above `most`. A column of the table at a time:
/// bits say where it rises and falls by 1.
macro_rules! scan {
    ($name:ident, $word:ty) => {
        #[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl", "x86_64+avx2", "aarch64+neon"))]
        #[expect(clippy::cast_possible_truncation, reason = "lengths are limited")]
        fn $name(
            characters: &[[u16; LANES]],
            lengths: &[u16; LANES],
            places: &[$word],
            length: usize,
            most: usize,
        ) -> Option<[u16; LANES]> {
            let last = length - 1;
            let (mut rises, mut falls) = ([<$word>::MAX; LANES], [0 as $word; LANES]);
            let mut distances = [length as u16; LANES];
            let mut equal = [0 as $word; LANES];
            for (at, stretch) in (0..).step_by(STRETCH).zip(characters.chunks(STRETCH)) {
                for column in stretch {
                    for (equal, &character) in equal.iter_mut().zip(column) {
                        *equal = places[usize::from(character)];
                    }
                    for lane in 0..LANES {
                        let (equal, rise, fall) = (equal[lane], rises[lane], falls[lane]);
                        let zero = ((equal & rise).wrapping_add(rise) ^ rise) | equal | fall;
                        let up = fall | !(zero | rise);
                        let down = rise & zero;
                        // Strings that have ended stay as they are.
                        let goes_on = u16::from(column[lane] != 0);
                        distances[lane] += (up >> last & 1) as u16 & goes_on;
                        distances[lane] -= (down >> last & 1) as u16 & goes_on;
                        let up = (up << 1) | 1;
                        rises[lane] = (down << 1) | !(zero | up);
                        falls[lane] = up & zero;
                    }
                }
                // Each character that is left can lower a distance by one.
                let done = (at + stretch.len()) as u16;
                let mut is_near = false;
                for (&distance, &length) in distances.iter().zip(lengths) {
                    is_near |=
                        usize::from(distance) <= most + usize::from(length.saturating_sub(done));
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
