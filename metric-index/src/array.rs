//! Arrays in memory or in a mapped file.

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

use bytemuck::Pod;
use memmap2::Mmap;

/// An array that is owned or lies in a memory-mapped file. It reads as a slice.
///
/// ```
/// let array = metric_index::array::Array::from(vec![1.0f32, 2.0]);
/// assert_eq!(array[1], 2.0);
/// ```
#[derive(Clone)]
pub struct Array<T>(Storage<T>);

#[derive(Clone)]
enum Storage<T> {
    Owned(Vec<T>),
    Mapped { map: Arc<Mmap>, bytes: Range<usize> },
}

impl<T: Pod> Array<T> {
    /// The array in `map[bytes]`, or `None` if it does not lie there whole and aligned.
    pub(crate) fn mapped(map: &Arc<Mmap>, bytes: Range<usize>) -> Option<Self> {
        bytemuck::try_cast_slice::<u8, T>(map.get(bytes.clone())?).ok()?;
        Some(Self(Storage::Mapped { map: Arc::clone(map), bytes }))
    }

    /// Some of the values; what lies in a file is not copied.
    ///
    /// # Panics
    /// If there are not so many.
    ///
    /// ```
    /// use metric_index::array::Array;
    ///
    /// assert_eq!(Array::from(vec![1, 2, 3]).slice(1..3)[..], [2, 3]);
    /// ```
    #[must_use]
    pub fn slice(&self, values: Range<usize>) -> Self {
        match &self.0 {
            Storage::Owned(own) => Self(Storage::Owned(own[values].to_vec())),
            Storage::Mapped { map, bytes } => {
                assert!(values.start <= values.end && values.end <= self.len(), "out of range");
                let at = |value: usize| bytes.start + value * size_of::<T>();
                let bytes = at(values.start)..at(values.end);
                Self(Storage::Mapped { map: Arc::clone(map), bytes })
            }
        }
    }
}

impl<T: Pod> Array<T> {
    /// The values to change and add to; those in a file are copied first.
    ///
    /// ```
    /// use metric_index::array::Array;
    ///
    /// let mut array = Array::from(vec![1, 2]);
    /// array.to_mut().push(3);
    /// assert_eq!(array.len(), 3);
    /// ```
    pub fn to_mut(&mut self) -> &mut Vec<T> {
        if let Storage::Mapped { .. } = self.0 {
            self.0 = Storage::Owned(self.to_vec());
        }
        match &mut self.0 {
            Storage::Owned(values) => values,
            Storage::Mapped { .. } => unreachable!("it was copied"),
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
            Storage::Mapped { map, bytes } => bytemuck::cast_slice(&map[bytes.clone()]),
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
