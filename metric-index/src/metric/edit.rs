//! The edit distance.

use super::{Blocks, Distances, Formula, Metric};

mod blocks;

use blocks::StringBlocks;

/// Levenshtein distance: the minimum number of insertions, deletions and substitutions of Unicode
/// scalar values that turn one string into the other.
///
/// If the shorter string has at most 64 characters, the distance is computed by the bit-parallel
/// algorithm of Myers (1999) in the form of Hyyrö (2003). Otherwise it is computed by the dynamic
/// programming algorithm of Wagner and Fischer (1974). With a radius, the computation stops as soon
/// as the distance is known to exceed the radius.
///
/// ```
/// use metric_index::metric::{Edit, Metric};
///
/// assert_eq!(Edit.distance("árbol", "arbole"), 2.0);
/// assert_eq!(Edit.distance_within("casa", "pezuña", 2.0), None);
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct Edit;

impl Metric<str> for Edit {
    fn distance(&self, a: &str, b: &str) -> f32 {
        edit(a, b, usize::MAX).unwrap_or(usize::MAX) as f32
    }

    // Distances above 2^24 are rounded.
    fn relative_error(&self) -> f32 {
        f32::EPSILON
    }

    fn name(&self) -> Option<String> {
        Some("edit".to_owned())
    }

    fn formula(&self) -> Option<Formula> {
        Some(Formula::Edit)
    }

    fn distance_within(&self, a: &str, b: &str, radius: f32) -> Option<f32> {
        within(radius, |limit| edit(a, b, limit))
    }

    fn blocks(&self, points: &[&str]) -> Option<Box<dyn Blocks<str>>> {
        StringBlocks::of(points)
    }

    fn size(&self, point: &str) -> usize {
        point.chars().count()
    }

    /// Prepares strings of 1 to 64 characters by locating their characters once.
    fn distances_from<'a>(&'a self, point: &'a str) -> Option<Box<dyn Distances<str> + 'a>> {
        let length = point.chars().count();
        (1..=WORD_BITS).contains(&length).then(|| Box::new(Pattern::of(point, length)) as Box<_>)
    }
}

/// Returns the distance if it is at most `radius`. `distance` returns the distance if it is at most
/// a given integer.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
fn within(radius: f32, distance: impl FnOnce(usize) -> Option<usize>) -> Option<f32> {
    if radius < 0.0 {
        return None;
    }
    // Above 2^24, a radius also represents the integers that round to it.
    distance(radius.next_up() as usize).map(|distance| distance as f32).filter(|&d| d <= radius)
}

/// Number of characters that a machine word represents, one bit per character.
const WORD_BITS: usize = 64;

/// Returns the distance if it is at most `limit`.
fn edit(a: &str, b: &str, limit: usize) -> Option<usize> {
    if a == b {
        return Some(0);
    }
    let length_a = a.chars().count();
    let length_b = b.chars().count();
    let (short, long) = if length_a <= length_b { (a, b) } else { (b, a) };
    let min_length = length_a.min(length_b);
    let max_length = length_a.max(length_b);
    if max_length - min_length > limit {
        return None;
    }
    match min_length {
        0 => Some(max_length),
        1..=WORD_BITS => Pattern::of(short, min_length).distance(long, limit),
        _ => distance_by_table(short, long, limit),
    }
}

/// The positions of each character in a string of 1 to 64 characters, one bit per position.
#[derive(Debug)]
struct Pattern {
    length: usize,
    ascii: [u64; 128],
    others: Vec<(char, u64)>,
}

impl Pattern {
    fn of(text: &str, length: usize) -> Self {
        let mut pattern = Self { length, ascii: [0; 128], others: Vec::new() };
        for (position, character) in text.chars().enumerate() {
            let bit = 1u64 << position;
            if character.is_ascii() {
                pattern.ascii[character as usize] |= bit;
                continue;
            }
            match pattern.others.iter_mut().find(|(c, _)| *c == character) {
                Some((_, bits)) => *bits |= bit,
                None => pattern.others.push((character, bit)),
            }
        }
        pattern
    }

    fn positions(&self, character: char) -> u64 {
        match self.ascii.get(character as usize) {
            Some(&bits) => bits,
            None => self.others.iter().find(|(c, _)| *c == character).map_or(0, |&(_, bits)| bits),
        }
    }

    /// Returns the distance to another string if it is at most `limit`.
    fn distance(&self, other: &str, limit: usize) -> Option<usize> {
        if other.is_ascii() {
            let positions = other.bytes().map(|byte| self.ascii[usize::from(byte & 127)]);
            return self.distance_by_bits(positions, other.len(), limit);
        }
        self.distance_by_bits(
            other.chars().map(|c| self.positions(c)),
            other.chars().count(),
            limit,
        )
    }

    /// Computes the distance one column of the dynamic programming table at a time. Bits mark the
    /// rows at which the column rises or falls by 1. The other string has `count` characters, and
    /// `positions` returns the positions of each of them in this string.
    fn distance_by_bits(
        &self,
        positions: impl Iterator<Item = u64>,
        count: usize,
        limit: usize,
    ) -> Option<usize> {
        if self.length.abs_diff(count) > limit {
            return None;
        }
        let last = self.length - 1;
        let mut rises = u64::MAX;
        let mut falls = 0u64;
        let mut distance = self.length;
        // Each remaining character can lower the distance by one.
        let mut remaining = count;
        for equal in positions {
            let zero = (((equal & rises).wrapping_add(rises)) ^ rises) | equal | falls;
            let up = falls | !(zero | rises);
            let down = rises & zero;
            distance += usize::from(up >> last & 1 != 0);
            distance -= usize::from(down >> last & 1 != 0);
            let up = (up << 1) | 1;
            rises = (down << 1) | !(zero | up);
            falls = up & zero;
            remaining -= 1;
            if distance > limit.saturating_add(remaining) {
                return None;
            }
        }
        Some(distance)
    }
}

impl Distances<str> for Pattern {
    fn to(&self, other: &str) -> f32 {
        self.distance(other, usize::MAX).unwrap_or(usize::MAX) as f32
    }

    fn to_within(&self, other: &str, radius: f32) -> Option<f32> {
        within(radius, |limit| self.distance(other, limit))
    }
}

/// Computes the distance one row of the dynamic programming table at a time.
fn distance_by_table(short: &str, long: &str, limit: usize) -> Option<usize> {
    let short: Vec<char> = short.chars().collect();
    let mut row: Vec<usize> = (0..=short.len()).collect();
    for (i, a) in long.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        let mut smallest = row[0];
        for (j, &b) in short.iter().enumerate() {
            let substituted = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(row[j + 1] + 1);
            smallest = smallest.min(row[j + 1]);
        }
        if smallest > limit {
            return None;
        }
    }
    let distance = row[short.len()];
    (distance <= limit).then_some(distance)
}
