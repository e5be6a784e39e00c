//! Random vectors for the benches, and the shapes of sets of them.

use std::str::FromStr;

use metric_index::generate::Random;
use metric_index::points::Vectors;
use rayon::prelude::*;

use crate::failure::{Failure, refused};

/// Approximately normal random numbers: sums of six uniform ones.
pub(super) fn normal(count: usize, dimension: usize, seed: u64) -> Result<Vectors<f32>, Failure> {
    let mut values = vec![0f32; count * dimension];
    values.par_chunks_mut(1 << 16).enumerate().for_each(|(chunk, values)| {
        let mut random = Random::new(seed << 32 | chunk as u64);
        for value in values {
            let two = [random.below(1 << 48), random.below(1 << 48)];
            let six = two.iter().flat_map(|&bits| (0..3).map(move |i| bits >> (16 * i) & 0xFFFF));
            let sum: f32 = six.map(|part| part as f32 / 65_536.0 - 0.5).sum();
            *value = sum * std::f32::consts::SQRT_2;
        }
    });
    Vectors::new(values, dimension).map_err(refused)
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

/// Uniform random numbers between 0 and 1.
pub(super) fn uniform(count: usize, dimension: usize, seed: u64) -> Result<Vectors<f32>, Failure> {
    let mut random = Random::new(seed);
    let values = (0..count * dimension).map(|_| random.unit_f32()).collect();
    Vectors::new(values, dimension).map_err(refused)
}
