//! Random numbers that are the same on every machine: `SplitMix64` (Steele, Lea and Flood 2014).
//!
//! This crate reads neither a clock nor the system's entropy: every number depends only on a seed.
//!
//! ```
//! use seeded_random::Random;
//!
//! assert_eq!(Random::new(7).next_u64(), 7_191_089_600_892_374_487);
//! ```

/// The increment of the state: 2⁶⁴ divided by the golden ratio.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// A `SplitMix64` generator.
///
/// ```
/// use seeded_random::Random;
///
/// let mut random = Random::new(7);
/// assert_eq!(random.next_u64(), 7_191_089_600_892_374_487);
/// assert!(random.unit() < 1.0);
/// assert!(random.below(10) < 10);
/// ```
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

impl Random {
    /// Creates a generator from a seed.
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Creates one of the 2⁶⁴ independent generators of a seed.
    ///
    /// If each parallel task has its own stream, the numbers do not depend on the order in which
    /// the tasks run.
    pub const fn stream(seed: u64, stream: u64) -> Self {
        Self { state: mix(seed ^ mix(stream.wrapping_add(STEP))) }
    }

    /// Returns the next 64 bits.
    pub const fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STEP);
        mix(self.state)
    }

    /// Returns a number in [0, 1) that is a multiple of 2⁻⁵³.
    pub fn unit(&mut self) -> f64 {
        to_unit(self.next_u64())
    }

    /// Returns a number in [0, 1) that is a multiple of 2⁻¹⁶. Sums of a few such numbers are exact.
    pub fn unit_f32(&mut self) -> f32 {
        f32::from((self.next_u64() >> 48) as u16) / 65_536.0
    }

    /// Returns a number below `limit`, or 0 if `limit` is 0.
    #[expect(clippy::cast_possible_truncation, reason = "the result is below `limit`, a usize")]
    pub const fn below(&mut self, limit: usize) -> usize {
        // The bias is at most limit / 2⁶⁴.
        ((self.next_u64() as u128 * limit as u128) >> 64) as usize
    }

    /// Returns `size` distinct numbers below `count` in increasing order, or all if `count <=
    /// size`.
    ///
    /// Allocates memory for `count` numbers.
    ///
    /// ```
    /// # use seeded_random::Random;
    /// assert_eq!(Random::new(7).sample(100, 3), [2, 38, 90]);
    /// assert_eq!(Random::new(7).sample(2, 3), [0, 1]);
    /// ```
    pub fn sample(&mut self, count: usize, size: usize) -> Vec<u32> {
        let mut numbers: Vec<u32> = (0..u32::try_from(count).unwrap_or(u32::MAX)).collect();
        let size = size.min(numbers.len());
        for index in 0..size {
            let other = index + self.below(numbers.len() - index);
            numbers.swap(index, other);
        }
        numbers.truncate(size);
        numbers.sort_unstable();
        numbers
    }
}

/// Returns a number in [0, 1) that depends only on `seed` and `number`.
///
/// Use it for decisions about numbered items that are not visited in a fixed order.
///
/// ```
/// let eighth = seeded_random::unit(1, 8);
/// assert!((0.0..1.0).contains(&eighth));
/// assert!(eighth != seeded_random::unit(1, 9));
/// ```
pub fn unit(seed: u64, number: u64) -> f64 {
    to_unit(mix(seed.wrapping_add(number.wrapping_mul(STEP))))
}

/// The finalizer of `SplitMix64`.
const fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

fn to_unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the first numbers of Vigna's `splitmix64.c` for the seed 1234567.
    #[test]
    fn numbers_equal_the_reference_implementation() {
        let mut random = Random::new(1_234_567);
        let found: [u64; 3] = std::array::from_fn(|_| random.next_u64());
        assert_eq!(
            found,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn ranges() {
        let mut random = Random::stream(3, 4);
        let mut seen = [0u32; 5];
        for _ in 0..1_000 {
            seen[random.below(5)] += 1;
            assert!((0.0..1.0).contains(&random.unit()));
            assert!((0.0..1.0).contains(&random.unit_f32()));
        }
        assert!(seen.iter().all(|&count| count > 140), "{seen:?}");
        assert_eq!(random.below(0), 0);
        assert_ne!(Random::stream(3, 5).next_u64(), Random::stream(3, 4).next_u64());
        assert_ne!(Random::stream(4, 4).next_u64(), Random::stream(3, 4).next_u64());
        assert!(to_unit(u64::MAX) < 1.0 && to_unit(0) <= 0.0);
        // `unit` computes any number of a sequence from its position.
        let mut random = Random::new(11);
        assert_eq!(
            (1..4).map(|_| random.unit()).collect::<Vec<_>>(),
            [1, 2, 3].map(|n| unit(11, n))
        );
    }
}
