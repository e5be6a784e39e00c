//! Indexes, and the search that all of them share.
//!
//! A search is a stack of [`Task`]s. A task names a region of the index (a node, a cluster or a
//! block of a table) and the position at which to continue. [`Index::step`] processes one task and
//! pushes its remainder and the regions that it opens onto the stack.
//!
//! This meets the requirements of Barrientos 2011 (section 3.2): a search can pause after any
//! number of distance evaluations, and other threads can process its tasks.

mod any;
mod brute_force;
mod egnat;
mod halving;
mod kd_tree;
mod kind;
mod list_of_clusters;
mod m_tree;
mod many;
mod point_blocks;
mod point_index;
mod probe;
mod progress;
mod search;
mod space;
mod spread;
mod sss_index;
mod sss_tree;
mod task;
mod vp_tree;

pub use any::AnyIndex;
pub use brute_force::BruteForce;
pub use egnat::Egnat;
pub use kd_tree::{KdLayout, KdTree};
pub use kind::{ClusterSize, EgnatOptions, Kind, Pivots};
pub use list_of_clusters::{Cluster, ListOfClusters};
pub use m_tree::MTree;
pub use point_index::PointIndex;
pub use probe::Probe;
pub use progress::Progress;
pub use search::{DynamicIndex, Index, Search, search};
pub use sss_index::SssIndex;
pub use sss_tree::SssTree;
pub use task::{Cost, Task};
pub use vp_tree::{VpLayout, VpTree};

pub(crate) use space::Space;

use halving::{Halving, partition};
use point_blocks::PointBlocks;
use point_index::{Structure, of_kind};
use progress::Levels;
use spread::select_pivots;
use task::nearest_last;
