//! Arrays that own their values or share the bytes of a file.

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

use bytemuck::Pod;

use crate::bytes::Bytes;

/// An array that owns its values or shares the bytes of a file. It dereferences to a slice.
///
/// ```
/// let array = array_file::array::Array::from(vec![1.0f32, 2.0]);
/// assert_eq!(array[1], 2.0);
/// ```
#[derive(Clone)]
pub struct Array<T>(Storage<T>);

#[derive(Clone)]
enum Storage<T> {
    Owned(Vec<T>),
    Shared { file: Arc<Bytes>, bytes: Range<usize> },
}

impl<T: Pod> Array<T> {
    /// Returns the array in `file[bytes]`, or `None` if the range is out of bounds or misaligned.
    pub(crate) fn from_file(file: &Arc<Bytes>, bytes: Range<usize>) -> Option<Self> {
        bytemuck::try_cast_slice::<u8, T>(file.get(bytes.clone())?).ok()?;
        Some(Self(Storage::Shared { file: Arc::clone(file), bytes }))
    }

    /// Returns a range of the values. Values in a file are not copied.
    ///
    /// # Panics
    /// Panics if the range is out of bounds.
    ///
    /// ```
    /// use array_file::array::Array;
    ///
    /// assert_eq!(Array::from(vec![1, 2, 3]).slice(1..3)[..], [2, 3]);
    /// ```
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> Self {
        match &self.0 {
            Storage::Owned(values) => Self(Storage::Owned(values[range].to_vec())),
            Storage::Shared { file, bytes } => {
                assert!(range.start <= range.end && range.end <= self.len(), "out of range");
                let offset = |value: usize| bytes.start + value * size_of::<T>();
                let bytes = offset(range.start)..offset(range.end);
                Self(Storage::Shared { file: Arc::clone(file), bytes })
            }
        }
    }

    /// Returns the values as a mutable vector. Values in a file are copied first.
    ///
    /// ```
    /// use array_file::array::Array;
    ///
    /// let mut array = Array::from(vec![1, 2]);
    /// array.to_mut().push(3);
    /// assert_eq!(array.len(), 3);
    /// ```
    pub fn to_mut(&mut self) -> &mut Vec<T> {
        if let Storage::Shared { .. } = self.0 {
            self.0 = Storage::Owned(self.to_vec());
        }
        match &mut self.0 {
            Storage::Owned(values) => values,
            Storage::Shared { .. } => unreachable!("values in a file were copied above"),
        }
    }
}

impl<T> Default for Array<T> {
    fn default() -> Self {
        Self(Storage::Owned(Vec::new()))
    }
}

impl<T: Pod> Deref for Array<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match &self.0 {
            Storage::Owned(values) => values,
            Storage::Shared { file, bytes } => bytemuck::cast_slice(&file[bytes.clone()]),
        }
    }
}

impl<T> From<Vec<T>> for Array<T> {
    fn from(values: Vec<T>) -> Self {
        Self(Storage::Owned(values))
    }
}

impl<T: Pod + fmt::Debug> fmt::Debug for Array<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{} values]", self.len())
    }
}
