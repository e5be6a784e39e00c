//! What the points of a kind are on a GPU.

use std::fmt;
use std::ops::Range;

use gpu_runtime::{Device, GpuError};

use crate::Question;
use crate::metric::Formula;
use crate::neighbor::Neighbor;
use crate::points::Points;

/// The answers of a GPU to some queries.
#[derive(Debug, Default)]
pub struct Found {
    /// Those that the GPU cannot answer are `None`.
    pub(super) answers: Vec<Option<Vec<Neighbor>>>,
    /// The time of the kernels.
    pub(super) milliseconds: f64,
}

impl Found {
    /// No answers to so many queries.
    pub(super) fn nothing(queries: usize) -> Self {
        Self { answers: (0..queries).map(|_| None).collect(), milliseconds: 0.0 }
    }
}

/// Points on a GPU, and how they are searched.
pub trait Engine<P: ?Sized>: fmt::Debug + Send + Sync + Sized {
    /// Copies points to a GPU. `None` if it cannot search them.
    ///
    /// # Errors
    /// If the GPU fails, or has too little memory.
    fn upload<S: Points<Point = P>>(
        device: &Device,
        points: &S,
        formula: Formula,
    ) -> Result<Option<Self>, GpuError>;

    /// About how many bytes the points take on a GPU.
    fn bytes_of<S: Points<Point = P>>(points: &S, formula: Formula) -> usize;

    /// Answers some of the queries.
    ///
    /// # Errors
    /// If the GPU fails.
    fn answer<Q: Points<Point = P>>(
        &self,
        queries: &Q,
        range: Range<u32>,
        question: Question,
    ) -> Result<Found, GpuError>;
}
