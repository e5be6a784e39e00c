//! Exact similarity search in metric spaces.
//!
//! ```text
//! points ─▶ metric ─▶ index ─▶ range or nearest-neighbor query ─▶ neighbors
//! ```
//!
//! A [`Metric`](metric::Metric) defines the distances between [`Points`](points::Points), and an [`Index`](index::Index)
//! answers queries with them: all points within a radius (closed balls), or the k nearest points. Answers are exact and
//! ordered by distance, ties by number.
//!
//! | index | needs | distances to build | distances of a query | source |
//! |---|---|---|---|---|
//! | [`BruteForce`](index::BruteForce) | any metric | n | n | — |
//! | [`ListOfClusters`](index::ListOfClusters) | any metric | n² / 2 size | few where dimensions are many | Chávez & Navarro 2005 |
//! | [`SssIndex`](index::SssIndex) | any metric, 2 bytes a point and pivot | n · pivots | pivots + few | Pedreira & Brisaboa 2007 |
//! | [`SssTree`](index::SssTree) | any metric | n · centers of a node, a level | few where clusters are apart | Brisaboa et al. 2008 |
//! | [`Egnat`](index::Egnat) | any metric; grows and shrinks | n · centers of a node, a level | few, fewer with small radii | Navarro & Uribe 2011 |
//! | [`MTree`](index::MTree) | any metric; grows and shrinks | n · entries of a page, a level | few where clusters are apart | Ciaccia et al. 1997 |
//! | [`VpTree`](index::VpTree) | any metric | n log₂ n | few where dimensions are few | Yianilos 1993 |
//! | [`KdTree`](index::KdTree) | vectors of `f32`, a Minkowski metric | n | few where dimensions are few | Bentley 1975 |
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
