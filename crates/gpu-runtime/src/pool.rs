//! A pool of objects that are expensive to create.

use std::sync::{Mutex, PoisonError};

/// A pool of unused objects, kept for reuse.
///
/// ```
/// use gpu_runtime::Pool;
///
/// let pool = Pool::default();
/// let made = pool.take(|| Ok::<_, ()>(vec![1, 2])).unwrap();
/// pool.put(made);
/// assert_eq!(pool.take(|| Err(())), Ok(vec![1, 2]), "not made anew");
/// ```
#[derive(Debug)]
pub struct Pool<T>(Mutex<Vec<T>>);

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Self(Mutex::new(Vec::new()))
    }
}

impl<T> Pool<T> {
    /// Takes an unused object, or creates one with `make`.
    ///
    /// # Errors
    /// The error of `make`.
    ///
    /// ```
    /// use gpu_runtime::Pool;
    ///
    /// let pool = Pool::default();
    /// assert_eq!(pool.take(|| Ok::<_, ()>(7)), Ok(7));
    /// ```
    pub fn take<E>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let spare = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        spare.map_or_else(make, Ok)
    }

    /// Returns an object to the pool.
    ///
    /// ```
    /// use gpu_runtime::Pool;
    ///
    /// let pool = Pool::default();
    /// pool.put(7);
    /// assert_eq!(pool.take(|| Err(())), Ok(7));
    /// ```
    pub fn put(&self, item: T) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(item);
    }

    /// Drops all unused objects.
    ///
    /// ```
    /// use gpu_runtime::Pool;
    ///
    /// let pool = Pool::default();
    /// pool.put(7);
    /// pool.clear();
    /// assert!(pool.take(|| Err::<i32, _>("nothing is left")).is_err());
    /// ```
    pub fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
