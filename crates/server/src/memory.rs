//! The memory budget of request bodies, which all requests share.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::failure::{Failure, Resource};

/// Maximum size of all request bodies in memory, in KiB.
const TOTAL_KIB: u32 = 512 << 10;

/// The memory budget of request bodies.
#[derive(Debug, Clone)]
pub(crate) struct MemoryBudget {
    free: Arc<Semaphore>,
    total: u32,
}

impl Default for MemoryBudget {
    fn default() -> Self {
        Self::of_kib(TOTAL_KIB)
    }
}

impl MemoryBudget {
    /// Creates a budget of this many KiB.
    pub(crate) fn of_kib(total: u32) -> Self {
        Self { free: Arc::new(Semaphore::new(total as usize)), total }
    }

    #[cfg(test)]
    pub(crate) fn free_kib(&self) -> usize {
        self.free.available_permits()
    }

    /// Creates an empty reservation, which can grow.
    pub(crate) fn reservation(&self) -> Reservation {
        Reservation { budget: self.clone(), held: None, kib: 0 }
    }
}

/// Memory reserved for a body. Dropping the reservation returns the memory to the budget.
#[derive(Debug)]
pub(crate) struct Reservation {
    budget: MemoryBudget,
    held: Option<OwnedSemaphorePermit>,
    kib: u32,
}

impl Reservation {
    /// Appends a part to a body, and reserves the memory that the body occupies.
    pub(crate) fn append(&mut self, body: &mut Vec<u8>, part: &[u8]) -> Result<(), Failure> {
        let needed = body.len() + part.len();
        if needed > body.capacity() {
            // A vector that grows by itself may allocate twice the memory that it needs.
            let capacity = needed + needed / 8;
            self.resize(capacity)?;
            body.reserve_exact(capacity - body.len());
        }
        body.extend_from_slice(part);
        Ok(())
    }

    /// Sets the total number of reserved bytes. A body that is larger than the whole budget is
    /// allowed if it is the only one.
    pub(crate) fn resize(&mut self, bytes: usize) -> Result<(), Failure> {
        let kib = u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX).min(self.budget.total);
        if kib > self.kib {
            let more = Arc::clone(&self.budget.free).try_acquire_many_owned(kib - self.kib);
            let more = more.map_err(|_| Failure::Busy(Resource::Bodies))?;
            match &mut self.held {
                Some(held) => held.merge(more),
                held => *held = Some(more),
            }
        } else if let Some(held) = &mut self.held {
            drop(held.split((self.kib - kib) as usize));
        }
        self.kib = kib;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reservation counts the capacity of a vector, not only its length.
    #[test]
    fn spare_memory_counts() {
        let budget = MemoryBudget::of_kib(8);
        // A single body may be larger than the budget.
        let mut other = budget.reservation();
        other.resize(1).unwrap();
        let mut reservation = budget.reservation();
        let mut bytes = Vec::new();
        while reservation.append(&mut bytes, &[b'x'; 100]).is_ok() {
            assert!(bytes.capacity() <= (7 - budget.free_kib()) << 10);
        }
        assert!(bytes.len() > 6000, "{}", bytes.len());
    }

    #[test]
    fn reservations_share_the_budget() {
        let budget = MemoryBudget::of_kib(8);
        let mut first = budget.reservation();
        let mut second = budget.reservation();
        first.resize(5 << 10).unwrap();
        second.resize(3 << 10).unwrap();
        assert!(matches!(second.resize((3 << 10) + 1), Err(Failure::Busy(Resource::Bodies))));
        first.resize(1).unwrap();
        second.resize(7 << 10).unwrap();
        drop(second);
        // Larger than the whole budget, but the only body.
        first.resize(1 << 30).unwrap();
        assert!(budget.reservation().resize(1).is_err());
        drop(first);
        assert_eq!(budget.free_kib(), 8);
    }
}
