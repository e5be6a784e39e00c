//! Dense vectors: embeddings that documents bring along, or features made from their terms.
//!
//! ```text
//! given: JSONL field, .npy next to the corpus, svmlight ─┐
//! terms ─▶ TF-IDF row ─▶ [Projection] LSA, word vectors ─┴▶ Vectors ─▶ search::Dense ─▶ neighbors
//! ```
//!
//! # The similarity
//!
//! Neighbors vote with a similarity, so a [`Metric`] gives each distance d one, above 0 and at most
//! 1:
//!
//! | metric | distance | similarity |
//! |---|---|---|
//! | `angular` | the angle | its cosine; from 90° on (a cosine below 10⁻⁶): no neighbors |
//! | `euclidean` | √Σ(x − y)² | σ / (σ + d) |
//! | `manhattan` | Σ\|x − y\| | σ / (σ + d) |
//!
//! σ is learned from the training vectors: the median distance of a vector from its nearest one at
//! another place, of up to 1,000 vectors, so that a neighbor at that distance has similarity ½. A
//! zero vector has no angle, and so no neighbors by it. Where vectors are made of terms, a zero
//! vector has nothing to compare, so it has no neighbors by any metric.
//!
//! For `angular`, vectors are scaled to length 1 and rounded to `f32`; with their Euclidean
//! distance d the cosine is 1 − d²/2, so every index of Euclidean space serves. A similarity is
//! computed in `f64` from the distance, an `f32`, and rounded once to `f32`. Every operation in it
//! is monotone in floating point: of two neighbors the nearer one is never the less similar one.
//! Neighbors are sorted by decreasing similarity, ties by increasing row.
//!
//! `rows` holds vectors, `metric` distances and similarities (read it first), `projection` and
//! `lsa` make vectors of terms, and `part` is what a model has of all this.

mod lsa;
mod metric;
mod part;
mod projection;
mod rows;

pub use lsa::lsa;
pub(crate) use metric::normalize;
pub use metric::{GREATEST, Kernel, MOST_DIMENSIONS, Metric};
pub use part::{DenseFeatures, DensePart, DenseSpec};
pub use projection::Projection;
pub use rows::{ShapeError, Vectors, VectorsView};
