//! Label prototypes: a weight vector per label, as in a linear classifier. They score a document by
//! its terms, independently of its neighbors.
//!
//! | module | description |
//! |---|---|
//! | `weights` | holds the prototypes of a model and scores documents with them |
//! | `margins` | converts margins to scores |
//! | `trainer` | learns prototypes from training rows |
//! | `linear_svm` | trains linear SVMs of several labels simultaneously (Hsieh et al. 2008) |

mod linear_svm;
mod margins;
mod trainer;
mod weights;

pub(crate) use linear_svm::WarmStart;
pub(crate) use margins::{highest_margin, margins_to_scores, mix_scores};
pub(crate) use trainer::PrototypeTrainer;
pub(crate) use weights::PrototypeLearning;
pub use weights::Prototypes;
