//! Points, words and a GPU for tests. The tests of `metric-papers` also use this file.

use std::num::NonZero;
use std::sync::Arc;

use metric_index::generate::Random;
use metric_index::gpu::Device;
use metric_index::index::BruteForce;
use metric_index::metric::Metric;
use metric_index::points::{Points, Strings, Vectors};

pub(crate) fn threads() -> NonZero<usize> {
    std::thread::available_parallelism().unwrap()
}

pub(crate) fn brute<S: Points, M: Metric<S::Point>>(points: S, metric: M) -> Arc<BruteForce<S, M>> {
    Arc::new(BruteForce::new(points, metric).unwrap())
}

pub(crate) fn device() -> Device {
    Device::open_best().expect("needs a GPU")
}

fn normal(random: &mut Random) -> f32 {
    let unit = |random: &mut Random| (random.below(1 << 20) as f32 + 0.5) / (1 << 20) as f32;
    (0..6).map(|_| unit(random)).sum::<f32>() - 3.0
}

pub(crate) fn gaussian(count: usize, dimension: usize, seed: u64) -> Vectors<f32> {
    let mut random = Random::new(seed);
    Vectors::new((0..count * dimension).map(|_| normal(&mut random)).collect(), dimension).unwrap()
}

/// Returns vectors of small integers, many of whose distances are tied.
pub(crate) fn whole(count: usize, dimension: usize, seed: u64) -> Vectors<f32> {
    let mut random = Random::new(seed);
    let value = |_| 1.0 + random.below(4) as f32;
    Vectors::new((0..count * dimension).map(value).collect(), dimension).unwrap()
}

/// Returns words over an alphabet, with up to `longest` characters.
pub(crate) fn words(count: usize, alphabet: &str, longest: usize, seed: u64) -> Strings {
    let mut random = Random::new(seed);
    let alphabet: Vec<char> = alphabet.chars().collect();
    let mut word = |_| -> String {
        let length = random.below(longest + 1);
        (0..length).map(|_| alphabet[random.below(alphabet.len())]).collect()
    };
    (0..count).map(&mut word).collect()
}
