//! Edit distance.

use super::Metric;

/// Levenshtein distance: the least number of insertions, deletions and substitutions of Unicode
/// scalar values that turn one string into the other.
///
/// By the bit-parallel algorithm of Myers (1999) in the form of Hyyrö (2003) where the shorter string has
/// at most 64 characters, otherwise by the table of Wagner and Fischer (1974). With a radius it ends as soon as
/// the distance is known to be above it.
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

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
    fn distance_within(&self, a: &str, b: &str, radius: f32) -> Option<f32> {
        if radius < 0.0 {
            return None;
        }
        // A radius above 2^24 stands for its neighbors, too.
        edit(a, b, radius.next_up() as usize)
            .map(|distance| distance as f32)
            .filter(|&d| d <= radius)
    }
}

/// Characters of the word that the bits stand for.
const WORD: usize = 64;

/// The distance, if it is at most `most`.
fn edit(a: &str, b: &str, most: usize) -> Option<usize> {
    if a == b {
        return Some(0);
    }
    let (of_a, of_b) = (a.chars().count(), b.chars().count());
    let ((short, shorter), (long, longer)) =
        if of_a <= of_b { ((a, of_a), (b, of_b)) } else { ((b, of_b), (a, of_a)) };
    if longer - shorter > most {
        return None;
    }
    if shorter == 0 {
        return Some(longer);
    }
    if shorter <= WORD {
        by_bits(short, shorter, long, longer, most)
    } else {
        by_table(short, long, most)
    }
}

/// Where each character stands in a string of at most 64.
struct Places {
    ascii: [u64; 128],
    others: [(char, u64); WORD],
    count: usize,
}

impl Places {
    fn of(text: &str) -> Self {
        let mut places = Self { ascii: [0; 128], others: [('\0', 0); WORD], count: 0 };
        for (place, character) in text.chars().enumerate() {
            let bit = 1u64 << place;
            if character.is_ascii() {
                places.ascii[character as usize] |= bit;
                continue;
            }
            let known = places.others[..places.count].iter_mut().find(|(c, _)| *c == character);
            if let Some((_, bits)) = known {
                *bits |= bit;
            } else {
                places.others[places.count] = (character, bit);
                places.count += 1;
            }
        }
        places
    }

    fn of_character(&self, character: char) -> u64 {
        if character.is_ascii() {
            return self.ascii[character as usize];
        }
        let others = &self.others[..self.count];
        others.iter().find(|(c, _)| *c == character).map_or(0, |&(_, bits)| bits)
    }
}

/// A column of the table at a time: bits say where it rises and falls by 1.
fn by_bits(short: &str, shorter: usize, long: &str, longer: usize, most: usize) -> Option<usize> {
    let places = Places::of(short);
    let last = 1u64 << (shorter - 1);
    let (mut rises, mut falls) = (u64::MAX, 0u64);
    let mut distance = shorter;
    for (number, character) in long.chars().enumerate() {
        let equal = places.of_character(character);
        let zero = (((equal & rises).wrapping_add(rises)) ^ rises) | equal | falls;
        let up = falls | !(zero | rises);
        let down = rises & zero;
        distance += usize::from(up & last != 0);
        distance -= usize::from(down & last != 0);
        let up = (up << 1) | 1;
        rises = (down << 1) | !(zero | up);
        falls = up & zero;
        // Each character that is left can lower it by one.
        if distance.saturating_sub(longer - 1 - number) > most {
            return None;
        }
    }
    (distance <= most).then_some(distance)
}

fn by_table(short: &str, long: &str, most: usize) -> Option<usize> {
    let short: Vec<char> = short.chars().collect();
    let mut row: Vec<usize> = (0..=short.len()).collect();
    for (i, a) in long.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        let mut least = row[0];
        for (j, &b) in short.iter().enumerate() {
            let substituted = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(row[j + 1] + 1);
            least = least.min(row[j + 1]);
        }
        if least > most {
            return None;
        }
    }
    let distance = row[short.len()];
    (distance <= most).then_some(distance)
}
