//! Indexes in files.

use super::contents::FileContents;
use super::reader::{Reader, StoreProblem};
use crate::index::{Index, Kind, Space};

/// An index that can be stored.
///
/// ```
/// use metric_index::index::{AnyIndex, VpTree};
/// use metric_index::metric::Edit;
/// use metric_index::points::Strings;
/// use metric_index::stored::StoredIndex;
///
/// fn can_be_stored<I: StoredIndex>() {}
/// can_be_stored::<VpTree<Strings, Edit>>();
/// can_be_stored::<AnyIndex<Strings, Edit>>();
/// ```
pub trait StoredIndex: Index {
    /// The kind of the index, with its parameters.
    #[doc(hidden)]
    fn kind(&self) -> Kind;

    /// Whether this type reads indexes of this kind, whatever their parameters are.
    #[doc(hidden)]
    fn reads(kind: Kind) -> bool;

    #[doc(hidden)]
    fn write<'a>(&'a self, contents: &mut FileContents<'a>);

    #[doc(hidden)]
    fn read(
        file: &mut Reader,
        kind: Kind,
        space: Space<Self::Points, Self::Metric>,
    ) -> Result<Self, StoreProblem>;
}
