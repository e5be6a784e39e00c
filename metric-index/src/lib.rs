//! Exact similarity search in metric spaces.
//!
//! ```text
//! points ─▶ metric ─▶ index ─▶ range or nearest-neighbor query ─▶ neighbors
//! ```
//!
//! A [`Metric`](metric::Metric) gives distances, an index answers queries with them. Two kinds of
//! queries, both exact: all points within a radius (closed balls), and the k nearest points.
//! Neighbors come by rising distance, equal ones by rising point.
//!
//! | index | needs | build | query | source |
//! |---|---|---|---|---|
//! | [`BruteForce`](index::BruteForce) | any distance | nothing | n distances | — |
//!
//! ```
//! use metric_index::index::BruteForce;
//! use metric_index::metric::Edit;
//!
//! let words = ["casa", "cosa", "caso", "pez"];
//! let index = BruteForce::new(words.iter().copied(), Edit)?;
//! let found = index.within("casa", 1.0)?;
//! assert_eq!(found.iter().map(|neighbor| words[neighbor.point]).collect::<Vec<_>>(), ["casa", "cosa", "caso"]);
//! # Ok::<(), metric_index::error::Error>(())
//! ```

pub mod error;
pub mod metric;
pub mod neighbor;
pub mod index;
pub mod gpu;
