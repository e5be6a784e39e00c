//! Indexes that can be stored in files.

use super::contents::FileContents;
use super::reader::{Reader, StoreProblem};
use crate::index::{Index, Kind, Space};

/// An index that can be stored in a file.
pub trait StoredIndex: Index {
    /// Returns the kind of the index, with its parameters.
    #[doc(hidden)]
    fn kind(&self) -> Kind;

    /// Returns whether this type can read indexes of a kind, regardless of their parameters.
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
