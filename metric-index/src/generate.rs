//! Synthetic points for benchmarks and tests, reproducible from a seed.

pub use seeded_random::Random;

use crate::points::{Strings, Vectors};

/// Draws a random value in (-2, 2); values near 0 are more likely.
fn draw_centered(random: &mut Random) -> f32 {
    random.unit_f32() + random.unit_f32() - random.unit_f32() - random.unit_f32()
}

/// Generates vectors of 20 dimensions around 200 centers, split into points and queries.
///
/// They stand in for the unpublished 120,000 vectors of NASA images in Barrientos 2011, and have a
/// similar size and spread.
///
/// ```
/// use metric_index::generate::clustered;
/// use metric_index::points::Points;
///
/// let (points, queries) = clustered(1_000, 10, 0);
/// assert_eq!((points.len(), queries.len(), points.dimension()), (1_000, 10, 20));
/// ```
#[expect(clippy::missing_panics_doc, reason = "each vector gets 20 values")]
pub fn clustered(points: usize, queries: usize, seed: u64) -> (Vectors<f32>, Vectors<f32>) {
    const DIMENSION: usize = 20;
    let mut random = Random::new(seed);
    let centers: Vec<f32> = (0..200 * DIMENSION).map(|_| draw_centered(&mut random)).collect();
    let mut sample = |count: usize| {
        let mut values = Vec::with_capacity(count * DIMENSION);
        for _ in 0..count {
            let center = random.below(200) * DIMENSION;
            let near = &centers[center..center + DIMENSION];
            values.extend(near.iter().map(|x| x + 0.25 * draw_centered(&mut random)));
        }
        Vectors::new(values, DIMENSION).expect("each vector gets 20 values")
    };
    (sample(points), sample(queries))
}

/// Splits a list of words into points and queries. The queries are spread evenly over the list, and
/// every second query has one letter changed.
///
/// ```
/// use metric_index::generate::held_out;
/// use metric_index::points::Points;
///
/// let (points, queries) = held_out(["casa", "cosa", "caso", "pez"].into_iter(), 2, 0);
/// assert_eq!((points.len(), queries.point(1)), (2, "caso"));
/// ```
pub fn held_out<'a>(
    words: impl Iterator<Item = &'a str>,
    queries: usize,
    seed: u64,
) -> (Strings, Strings) {
    let mut random = Random::new(seed);
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let step = (words.len() / queries.max(1)).max(1);
    let mut points = Vec::new();
    let mut held = Vec::new();
    for (number, word) in words.into_iter().enumerate() {
        if !number.is_multiple_of(step) || held.len() == queries {
            points.push(word);
            continue;
        }
        let mut letters: Vec<char> = word.chars().collect();
        if held.len().is_multiple_of(2) {
            let position = random.below(letters.len());
            letters[position] = char::from(b"abcdefghijklmnopqrstuvwxyz"[random.below(26)]);
        }
        held.push(letters.into_iter().collect::<String>());
    }
    (points.into_iter().collect(), held.into_iter().collect())
}
