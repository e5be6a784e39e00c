//! Stores of points: vectors, strings, sets, user-defined types and subsets.

use std::borrow::Borrow;
use std::marker::PhantomData;

use bytemuck::Pod;

use crate::error::Error;
use array_file::array::Array;

/// A store of points, numbered from 0.
///
/// ```
/// use metric_index::points::{Points, Strings};
///
/// let words: Strings = ["casa", "cosa"].into_iter().collect();
/// assert_eq!((words.len(), words.point(1)), (2, "cosa"));
/// ```
pub trait Points: Sync {
    /// The type of a point.
    type Point: ?Sized + Sync;

    /// Returns the number of points.
    fn len(&self) -> usize;

    /// Returns whether there are no points.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the point with the given number.
    ///
    /// # Panics
    /// Panics if there is no such point.
    fn point(&self, number: u32) -> &Self::Point;
}

/// A store to which points can be added, as a [dynamic index](crate::index::DynamicIndex) requires.
///
/// ```
/// use metric_index::points::{GrowablePoints, Points, Strings};
///
/// let mut words = Strings::default();
/// words.push("casa")?;
/// assert_eq!(words.point(0), "casa");
/// # Ok::<(), metric_index::error::Error>(())
/// ```
pub trait GrowablePoints: Points {
    /// Appends a point.
    ///
    /// # Errors
    /// Fails if the store does not support the point, such as a vector of a different dimension or
    /// a set that is not strictly increasing.
    fn push(&mut self, point: &Self::Point) -> Result<(), Error>;
}

impl<S: Points + ?Sized> Points for &S {
    type Point = S::Point;

    fn len(&self) -> usize {
        (**self).len()
    }

    fn point(&self, number: u32) -> &Self::Point {
        (**self).point(number)
    }
}

/// Vectors of the same dimension, stored row by row.
///
/// ```
/// use metric_index::points::{Points, Vectors};
///
/// let vectors = Vectors::new(vec![0.0f32, 1.0, 2.0, 3.0], 2)?;
/// assert_eq!(vectors.point(1), [2.0, 3.0]);
/// # Ok::<(), metric_index::error::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Vectors<T: Pod> {
    values: Array<T>,
    dimension: usize,
}

impl<T: Pod> Vectors<T> {
    /// Creates vectors with `dimension` values each.
    ///
    /// # Errors
    /// Fails if `dimension` is 0 or does not divide the number of values.
    pub fn new(values: Vec<T>, dimension: usize) -> Result<Self, Error> {
        Self::of(values.into(), dimension)
    }

    pub(crate) fn of(values: Array<T>, dimension: usize) -> Result<Self, Error> {
        if dimension == 0 || !values.len().is_multiple_of(dimension) {
            return Err(Error::Shape { values: values.len(), dimension });
        }
        Ok(Self { values, dimension })
    }

    /// Returns the values of all vectors, one vector after the other.
    pub fn values(&self) -> &[T] {
        &self.values
    }

    /// Returns the number of values per vector.
    pub fn dimension(&self) -> usize {
        self.dimension
    }
}

/// Creates vectors from arrays, whose dimension is known at compile time.
///
/// ```
/// use metric_index::points::{Points, Vectors};
///
/// let plane = Vectors::from(vec![[0.0f32, 0.0], [3.0, 4.0]]);
/// assert_eq!((plane.len(), plane.point(1)), (2, &[3.0, 4.0][..]));
/// ```
impl<T: Pod, const N: usize> From<Vec<[T; N]>> for Vectors<T> {
    fn from(vectors: Vec<[T; N]>) -> Self {
        vectors.into_iter().collect()
    }
}

impl<T: Pod, const N: usize> FromIterator<[T; N]> for Vectors<T> {
    fn from_iter<I: IntoIterator<Item = [T; N]>>(vectors: I) -> Self {
        const { assert!(N > 0, "a vector has at least one dimension") };
        let values: Vec<T> = vectors.into_iter().flatten().collect();
        Self { values: values.into(), dimension: N }
    }
}

impl<T: Pod + Sync> Points for Vectors<T> {
    type Point = [T];

    fn len(&self) -> usize {
        self.values.len() / self.dimension
    }

    fn point(&self, number: u32) -> &[T] {
        let start = number as usize * self.dimension;
        &self.values[start..start + self.dimension]
    }
}

impl<T: Pod + Sync> GrowablePoints for Vectors<T> {
    fn push(&mut self, point: &[T]) -> Result<(), Error> {
        if point.len() != self.dimension {
            return Err(Error::Shape { values: point.len(), dimension: self.dimension });
        }
        self.values.to_mut().extend_from_slice(point);
        Ok(())
    }
}

/// Strings, concatenated in one buffer.
///
/// ```
/// use metric_index::points::{Points, Strings};
///
/// let words: Strings = ["casa", "cosa"].into_iter().collect();
/// assert_eq!((words.len(), words.point(1)), (2, "cosa"));
/// ```
#[derive(Debug, Clone, Default)]
pub struct Strings {
    text: String,
    ends: Vec<usize>,
}

impl<S: AsRef<str>> FromIterator<S> for Strings {
    fn from_iter<I: IntoIterator<Item = S>>(strings: I) -> Self {
        let mut all = Self::default();
        all.extend(strings);
        all
    }
}

impl<S: AsRef<str>> Extend<S> for Strings {
    fn extend<I: IntoIterator<Item = S>>(&mut self, strings: I) {
        for string in strings {
            self.text.push_str(string.as_ref());
            self.ends.push(self.text.len());
        }
    }
}

impl Strings {
    /// Returns the text of all strings and the end offset of each string.
    pub(crate) fn parts(&self) -> (&str, &[usize]) {
        (&self.text, &self.ends)
    }

    pub(crate) fn from_parts(text: String, ends: Vec<usize>) -> Self {
        Self { text, ends }
    }
}

impl Points for Strings {
    type Point = str;

    fn len(&self) -> usize {
        self.ends.len()
    }

    fn point(&self, number: u32) -> &str {
        let number = number as usize;
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.text[start..self.ends[number]]
    }
}

impl GrowablePoints for Strings {
    fn push(&mut self, point: &str) -> Result<(), Error> {
        self.text.push_str(point);
        self.ends.push(self.text.len());
        Ok(())
    }
}

/// Sets of numbers, each a strictly increasing sequence, concatenated in one buffer.
///
/// ```
/// use metric_index::points::{Points, Sets};
///
/// let sets = Sets::new([&[1, 5][..], &[], &[2]])?;
/// assert_eq!((sets.len(), sets.point(0)), (3, &[1, 5][..]));
/// assert!(Sets::new([[2, 2]]).is_err());
/// # Ok::<(), metric_index::error::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Sets {
    members: Vec<u32>,
    ends: Vec<usize>,
}

impl Sets {
    /// Stores the sets.
    ///
    /// # Errors
    /// Fails if a set is not strictly increasing.
    pub fn new<S: AsRef<[u32]>>(sets: impl IntoIterator<Item = S>) -> Result<Self, Error> {
        let mut all = Self::default();
        for set in sets {
            all.push(set.as_ref())?;
        }
        Ok(all)
    }
}

impl Sets {
    /// Returns the members of all sets and the end index of each set.
    pub(crate) fn parts(&self) -> (&[u32], &[usize]) {
        (&self.members, &self.ends)
    }
}

impl GrowablePoints for Sets {
    fn push(&mut self, point: &[u32]) -> Result<(), Error> {
        if !point.is_sorted_by(|a, b| a < b) {
            return Err(Error::NotIncreasing { point: self.ends.len() });
        }
        self.members.extend_from_slice(point);
        self.ends.push(self.members.len());
        Ok(())
    }
}

impl Points for Sets {
    type Point = [u32];

    fn len(&self) -> usize {
        self.ends.len()
    }

    fn point(&self, number: u32) -> &[u32] {
        let number = number as usize;
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.members[start..self.ends[number]]
    }
}

/// Points of any type, stored as separate objects.
///
/// ```
/// use metric_index::points::{Items, Points};
///
/// let items = Items::<[f32], _>::new(vec![vec![1.0], vec![2.0]]);
/// assert_eq!(items.point(1), [2.0]);
/// ```
#[derive(Debug)]
pub struct Items<P: ?Sized, B> {
    items: Vec<B>,
    point: PhantomData<fn(&P)>,
}

impl<P: ?Sized, B: Clone> Clone for Items<P, B> {
    fn clone(&self) -> Self {
        Self { items: self.items.clone(), point: PhantomData }
    }
}

impl<P: ?Sized, B: Borrow<P> + Sync> Items<P, B> {
    /// Stores the points.
    pub fn new(items: Vec<B>) -> Self {
        Self { items, point: PhantomData }
    }
}

impl<P: ?Sized, B: Borrow<P>> FromIterator<B> for Items<P, B> {
    fn from_iter<I: IntoIterator<Item = B>>(items: I) -> Self {
        Self { items: items.into_iter().collect(), point: PhantomData }
    }
}

impl<P: ?Sized + Sync, B: Borrow<P> + Sync> Points for Items<P, B> {
    type Point = P;

    fn len(&self) -> usize {
        self.items.len()
    }

    fn point(&self, number: u32) -> &P {
        self.items[number as usize].borrow()
    }
}

impl<P: ?Sized + Sync + ToOwned<Owned: Sync>> GrowablePoints for Items<P, P::Owned> {
    fn push(&mut self, point: &P) -> Result<(), Error> {
        self.items.push(point.to_owned());
        Ok(())
    }
}

/// A subset of the points of a store, such as a sample.
///
/// ```
/// use metric_index::points::{Points, Strings, Subset};
///
/// let words: Strings = ["casa", "cosa", "caso", "pez"].into_iter().collect();
/// let odd = Subset::new(&words, vec![1, 3]);
/// assert_eq!((odd.len(), odd.point(1)), (2, "pez"));
/// ```
#[derive(Debug, Clone)]
pub struct Subset<S> {
    points: S,
    numbers: Vec<u32>,
}

impl<S: Points> Subset<S> {
    /// Selects the points with the given numbers.
    ///
    /// # Panics
    /// Panics if a number is out of range.
    pub fn new(points: S, numbers: Vec<u32>) -> Self {
        let count = points.len();
        for &number in &numbers {
            assert!((number as usize) < count, "point {number} of {count}");
        }
        Self { points, numbers }
    }

    /// Selects every `step`th point, starting with point `first`. This is one of the `step` parts
    /// of a round-robin distribution.
    ///
    /// # Panics
    /// Panics if `step` is 0, or there are 2^32 points or more.
    ///
    /// ```
    /// use metric_index::points::{Points, Strings, Subset};
    ///
    /// let words: Strings = ["casa", "cosa", "caso", "pez"].into_iter().collect();
    /// let odd = Subset::every(&words, 1, 2);
    /// assert_eq!((odd.len(), odd.point(1)), (2, "pez"));
    /// ```
    pub fn every(points: S, first: usize, step: usize) -> Self {
        let number = |point| u32::try_from(point).expect("fewer than 2^32 points");
        let numbers = (first..points.len()).step_by(step).map(number).collect();
        Self { points, numbers }
    }

    /// Returns the numbers of the points in the underlying store.
    pub fn numbers(&self) -> &[u32] {
        &self.numbers
    }
}

impl<S: Points> Points for Subset<S> {
    type Point = S::Point;

    fn len(&self) -> usize {
        self.numbers.len()
    }

    fn point(&self, number: u32) -> &S::Point {
        self.points.point(self.numbers[number as usize])
    }
}
