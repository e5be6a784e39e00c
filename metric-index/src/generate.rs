//! Synthetic points for benchmarks and tests, reproducible by their seed.

use crate::points::{Strings, Vectors};

/// Random numbers that depend only on a seed: `SplitMix64` (Steele, Lea and Flood 2014).
///
/// ```
/// use metric_index::generate::Random;
///
/// let mut random = Random::new(7);
/// assert!(random.below(10) < 10);
/// assert!((0.0..1.0).contains(&random.unit()));
/// ```
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// A generator; the same seed gives the same numbers on every machine.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ (x >> 31)
    }

    /// A number below `count`; 0 if `count` is 0.
    #[expect(clippy::cast_possible_truncation, reason = "the high half of a product")]
    pub fn below(&mut self, count: usize) -> usize {
        ((u128::from(self.next()) * count as u128) >> 64) as usize
    }

    /// A multiple of 2^-16 in [0, 1).
    pub fn unit(&mut self) -> f32 {
        f32::from(u16::try_from(self.next() >> 48).unwrap_or(0)) / 65_536.0
    }

    /// `size` distinct numbers below `count`, in increasing order.
    pub(crate) fn sample(&mut self, count: usize, size: usize) -> Vec<u32> {
        let mut numbers: Vec<u32> = (0..u32::try_from(count).unwrap_or(u32::MAX)).collect();
        let size = size.min(numbers.len());
        for at in 0..size {
            let other = at + self.below(count - at);
            numbers.swap(at, other);
        }
        numbers.truncate(size);
        numbers.sort_unstable();
        numbers
    }

    /// In (-2, 2), more often near 0.
    fn spread(&mut self) -> f32 {
        self.unit() + self.unit() - self.unit() - self.unit()
    }
}

/// Vectors of 20 dimensions around 200 centers: in size and spread a stand-in for the 120,000 vectors of NASA
/// images of Barrientos 2011, which are not published. The first are points, the rest queries.
///
/// ```
/// use metric_index::generate::clustered;
/// use metric_index::points::Points;
///
/// let (points, queries) = clustered(1_000, 10, 0);
/// assert_eq!((points.len(), queries.len(), points.dimension()), (1_000, 10, 20));
/// ```
#[expect(clippy::missing_panics_doc, reason = "20 values are made for each")]
pub fn clustered(points: usize, queries: usize, seed: u64) -> (Vectors<f32>, Vectors<f32>) {
    const DIMENSION: usize = 20;
    let mut random = Random::new(seed);
    let centers: Vec<f32> = (0..200 * DIMENSION).map(|_| random.spread()).collect();
    let mut some = |count: usize| {
        let mut values = Vec::with_capacity(count * DIMENSION);
        for _ in 0..count {
            let center = random.below(200) * DIMENSION;
            let near = &centers[center..center + DIMENSION];
            values.extend(near.iter().map(|x| x + 0.25 * random.spread()));
        }
        Vectors::new(values, DIMENSION).expect("20 a vector")
    };
    (some(points), some(queries))
}

/// Splits a list of words: evenly spread words are held out as queries, every second of them with one letter changed;
/// the rest are points.
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
    let (mut points, mut held) = (Vec::new(), Vec::new());
    for (number, word) in words.into_iter().enumerate() {
        if !number.is_multiple_of(step) || held.len() == queries {
            points.push(word);
            continue;
        }
        let mut letters: Vec<char> = word.chars().collect();
        if held.len().is_multiple_of(2) {
            let place = random.below(letters.len());
            letters[place] = char::from(b"abcdefghijklmnopqrstuvwxyz"[random.below(26)]);
        }
        held.push(letters.into_iter().collect::<String>());
    }
    (points.into_iter().collect(), held.into_iter().collect())
}
