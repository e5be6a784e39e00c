//! A pool of objects that are expensive to create.

use std::sync::{Mutex, PoisonError};

/// A pool of reusable objects.
///
/// ```
/// use gpu_runtime::Pool;
///
/// let pool = Pool::default();
/// let object = pool.take(|| Ok::<_, ()>(vec![1, 2])).unwrap();
/// pool.put(object);
/// assert_eq!(pool.take(|| Err(())), Ok(vec![1, 2]), "the object is reused");
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
    /// Returns the error of `make`.
    pub fn take<E>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let spare = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        spare.map_or_else(make, Ok)
    }

    /// Returns an object to the pool.
    pub fn put(&self, item: T) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(item);
    }

    /// Drops all unused objects.
    pub fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
