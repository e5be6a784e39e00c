//! The data of the benchmarks: words from files, and random vectors.

use std::path::Path;
use std::str::FromStr;

use metric_index::generate::{Random, held_out};
use metric_index::points::{Points, Strings, Vectors};
use rayon::prelude::*;

use crate::failure::{Failure, invalid_request};

/// Returns vectors of approximately standard normal numbers, each a scaled sum of six uniform
/// numbers.
pub(super) fn normal(count: usize, dimension: usize, seed: u64) -> Result<Vectors<f32>, Failure> {
    let mut values = vec![0f32; count * dimension];
    values.par_chunks_mut(1 << 16).enumerate().for_each(|(chunk, values)| {
        let mut random = Random::new(seed << 32 | chunk as u64);
        for value in values {
            let words = [random.below(1 << 48), random.below(1 << 48)];
            let parts =
                words.iter().flat_map(|&bits| (0..3).map(move |i| bits >> (16 * i) & 0xFFFF));
            let sum: f32 = parts.map(|part| part as f32 / 65_536.0 - 0.5).sum();
            *value = sum * std::f32::consts::SQRT_2;
        }
    });
    Vectors::new(values, dimension).map_err(invalid_request)
}

/// The shape of a set of vectors.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub(super) points: usize,
    pub(super) dimension: usize,
}

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.split_once('x').and_then(|(points, dimension)| {
            Some(Self { points: points.parse().ok()?, dimension: dimension.parse().ok()? })
        });
        numbers
            .filter(|shape| shape.points > 0 && shape.dimension > 0)
            .ok_or_else(|| format!("{text}, expected POINTSxDIMENSIONS"))
    }
}

/// Returns vectors of uniform random numbers in [0, 1).
pub(super) fn uniform(count: usize, dimension: usize, seed: u64) -> Result<Vectors<f32>, Failure> {
    let mut random = Random::new(seed);
    let values = (0..count * dimension).map(|_| random.unit_f32()).collect();
    Vectors::new(values, dimension).map_err(invalid_request)
}

/// Reads a file with one word per line.
pub(super) fn read_words(path: &Path) -> Result<String, Failure> {
    let text = std::fs::read_to_string(path);
    text.map_err(|error| Failure::input(format!("{}: {error}", path.display())))
}

/// The words of a text, split into points and held-out queries.
pub(super) struct Words {
    pub(super) points: Strings,
    pub(super) queries: Strings,
}

impl Words {
    /// Splits a text with one word per line.
    pub(super) fn held_out(text: &str, queries: usize, seed: u64) -> Self {
        let words = text.trim_start_matches('\u{feff}').lines().map(str::trim);
        let (points, queries) = held_out(words, queries, seed);
        Self { points, queries }
    }

    /// Reads a file of words. At most 10,000 words are held out. They are repeated until there are
    /// enough queries.
    pub(super) fn repeated(path: &Path, queries: usize, seed: u64) -> Result<Self, Failure> {
        let Self { points, queries: distinct } =
            Self::held_out(&read_words(path)?, queries.min(10_000), seed);
        if distinct.is_empty() {
            return Err(Failure::input(format!("{}: the file contains no words", path.display())));
        }
        let number =
            |query: usize| u32::try_from(query % distinct.len()).expect("at most 10,000 words");
        let queries = (0..queries).map(|query| distinct.point(number(query))).collect();
        Ok(Self { points, queries })
    }
}
