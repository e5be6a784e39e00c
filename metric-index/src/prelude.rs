//! The items that most programs need. Import them with `use metric_index::prelude::*;`.
//!
//! ```
//! use metric_index::prelude::*;
//!
//! let plane: Vectors<f32> = (0..100u8).map(f32::from).map(|x| [x, x * x]).collect();
//! let index = Kind::VpTree.build(plane, Euclidean)?;
//! assert_eq!(index.nearest(&[3.0, 9.5], 1)?[0].point, 3);
//! # Ok::<(), Error>(())
//! ```

pub use crate::error::Error;
pub use crate::index::{
    AnyIndex, BruteForce, ClusterSize, DynamicIndex, Egnat, EgnatOptions, Index, KdTree, Kind,
    ListOfClusters, MTree, Pivots, SssIndex, SssTree, VpTree,
};
pub use crate::metric::{
    Angular, Chebyshev, Edit, Euclidean, Hamming, Jaccard, Manhattan, Metric, Minkowski,
};
pub use crate::neighbor::Neighbor;
pub use crate::points::{Items, Points, Sets, Strings, Vectors};
