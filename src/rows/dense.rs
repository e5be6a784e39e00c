//! Dense vectors: embeddings that come with documents, or features computed from their terms.
//!
//! ```text
//! given: JSONL field, separate .npy file, svmlight ──────┐
//! terms ─▶ TF-IDF row ─▶ [Projection] LSA, word vectors ─┴▶ Vectors ─▶ search::Dense ─▶ neighbors
//! ```
//!
//! # The similarity
//!
//! Neighbors vote with their similarity. Each [`Metric`] converts a distance d to a similarity of
//! at most 1:
//!
//! | metric | distance | similarity |
//! |---|---|---|
//! | `angular` | the angle | its cosine, or 0 if the cosine is at most 10⁻⁶ |
//! | `euclidean` | √Σ(x − y)² | σ / (σ + d) |
//! | `manhattan` | Σ\|x − y\| | σ / (σ + d) |
//!
//! σ is learned from up to 1,000 training vectors: the median distance of a vector from the nearest
//! vector that differs from it. A neighbor at that distance has similarity ½. A zero vector has no
//! angle, so it has no `angular` neighbors. If vectors are computed from terms, a zero vector has
//! no neighbors by any metric.
//!
//! For `angular`, vectors are scaled to length 1 and rounded to `f32`. Their cosine is 1 − d²/2,
//! where d is their Euclidean distance, so any Euclidean index can be used. A similarity is
//! computed in `f64` from the `f32` distance, and rounded once to `f32`. All operations are
//! monotonic in floating point, so a nearer neighbor is never less similar than a more distant
//! neighbor. Neighbors are sorted by decreasing similarity, then by increasing row number.
//!
//! `metric` contains distances and similarities (read it first), and `rows` contains vectors.
//! `projection` and `lsa` compute vectors from terms, and `part` is the dense part of a model.

mod lsa;
mod metric;
mod part;
mod projection;
mod rows;

pub use lsa::lsa;
pub(crate) use metric::normalize;
pub use metric::{Kernel, MAX_ABS_VALUE, MAX_DIMENSIONS, Metric};
pub use part::{DenseFeatures, DensePart, DenseSpec, EncoderSpec};
pub use projection::Projection;
pub(crate) use rows::scaled_entries;
pub use rows::{ShapeError, Vectors, VectorsView};
