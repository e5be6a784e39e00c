//! The contents of a file to be written.

use std::borrow::Cow;
use std::collections::BTreeMap;

use array_file::container::{self, Dtype};
use bytemuck::Pod;

/// A type of values that files can contain.
pub trait Value: Pod + Sync {
    /// The name of the type in the format.
    #[doc(hidden)]
    const DTYPE: Dtype;
}

macro_rules! values {
    ($($value:ty: $dtype:ident),*) => {$(
        impl Value for $value {
            const DTYPE: Dtype = Dtype::$dtype;
        }
    )*};
}

values!(u8: U8, u16: U16, u32: U32, u64: U64, f32: F32);

/// The contents of a file to be written, for
/// [`StoredPoints::write`](super::StoredPoints::write).
#[derive(Debug, Default)]
pub struct FileContents<'a> {
    pub(super) arrays: Vec<(&'static str, Dtype, Cow<'a, [u8]>)>,
    pub(super) numbers: BTreeMap<String, u64>,
}

impl<'a> FileContents<'a> {
    /// Adds an array without copying its values.
    pub fn array<T: Value>(&mut self, name: &'static str, values: &'a [T]) {
        self.arrays.push((name, T::DTYPE, Cow::Borrowed(bytemuck::cast_slice(values))));
    }

    /// Adds an array of computed values.
    pub fn computed<T: Value>(&mut self, name: &'static str, values: impl IntoIterator<Item = T>) {
        let values: Vec<T> = values.into_iter().collect();
        let bytes = bytemuck::cast_slice(&values).to_vec();
        self.arrays.push((name, T::DTYPE, Cow::Owned(bytes)));
    }

    /// Adds a number.
    pub fn number(&mut self, name: &str, number: u64) {
        self.numbers.insert(name.to_owned(), number);
    }

    /// Returns the checksum of each array.
    pub(super) fn checksums(&self) -> BTreeMap<String, String> {
        let sum = |(name, _, bytes): &(&str, Dtype, Cow<'_, [u8]>)| {
            ((*name).to_owned(), container::checksum(bytes))
        };
        self.arrays.iter().map(sum).collect()
    }
}
