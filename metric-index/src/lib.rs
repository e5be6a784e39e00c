//! Exact similarity search in metric spaces.
//!
//! ```text
//! points ─▶ metric ─▶ index ─▶ range or nearest-neighbor query ─▶ neighbors
//! ```
//!
//! A [`Metric`](metric::Metric) defines the distances between [`Points`](points::Points). An
//! [`Index`](index::Index) answers queries with these distances: all points within a radius (closed
//! balls), or the k nearest points. Answers are exact and sorted by distance, then by point number.
//!
//! | index | requirements | distances to build | distances per query |
//! |---|---|---|---|
//! | [`BruteForce`] | any metric | n | n |
//! | [`ListOfClusters`] | any metric | n² / (2 · size) | few in high dimensions |
//! | [`SssIndex`] | any metric, 2 bytes per point and pivot | n · pivots | pivots + few |
//! | [`SssTree`] | any metric | n · centers per level | few if clusters are well separated |
//! | [`Egnat`] | any metric; dynamic | n · centers per level | few for small radii |
//! | [`MTree`] | any metric; dynamic | n · entries per level | few if clusters are well separated |
//! | [`VpTree`] | any metric | n log₂ n | few in low dimensions |
//! | [`KdTree`] | vectors of `f32`, a Minkowski metric | n | few in low dimensions |
//!
//! Dynamic indexes support insertion and removal of points. The module of each index cites its
//! source.
//!
//! [`BruteForce`]: index::BruteForce
//! [`ListOfClusters`]: index::ListOfClusters
//! [`SssIndex`]: index::SssIndex
//! [`SssTree`]: index::SssTree
//! [`Egnat`]: index::Egnat
//! [`MTree`]: index::MTree
//! [`VpTree`]: index::VpTree
//! [`KdTree`]: index::KdTree
//!
//! ```
//! use metric_index::index::{Index, VpTree};
//! use metric_index::metric::Edit;
//! use metric_index::points::{Points, Strings};
//!
//! let words: Strings = ["casa", "cosa", "caso", "pez"].into_iter().collect();
//! let index = VpTree::build(words, Edit)?;
//! let found = index.within("casa", 1.0)?;
//! let found: Vec<&str> = found.iter().map(|near| index.points().point(near.point)).collect();
//! assert_eq!(found, ["casa", "cosa", "caso"]);
//! # Ok::<(), metric_index::error::Error>(())
//! ```

pub mod error;
pub mod metric;
pub mod points;
pub mod generate;
pub mod neighbor;
mod threads;
pub mod lists;
pub mod collector;
pub mod prune;
pub mod index;
pub mod stored;
pub mod online;
pub mod gpu;
pub mod prelude;
pub mod estimate;
mod advise;

pub use advise::{Advice, Candidate, Question, advise};
