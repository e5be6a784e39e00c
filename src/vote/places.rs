//! The places of the few labels of a document's neighbors among all labels.

use std::cell::RefCell;

thread_local! {
    /// For each label its place, or [`NONE`]; kept for the next document.
    static PLACES: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
}

const NONE: u32 = u32::MAX;

/// Labels numbered in the order in which they are met.
#[derive(Debug)]
pub(crate) struct Places<'a> {
    of_label: &'a mut Vec<u32>,
    met: Vec<u32>,
}

impl Places<'_> {
    /// The place of a label; a label that is met for the first time has the next place, the number of those before.
    #[inline]
    pub(crate) fn place(&mut self, label: u32) -> usize {
        match self.of_label.get(label as usize) {
            Some(&place) if place != NONE => place as usize,
            _ => self.meet(label),
        }
    }

    /// The place of a label that is met for the first time.
    fn meet(&mut self, label: u32) -> usize {
        let (at, place) = (label as usize, self.met.len());
        if at >= self.of_label.len() {
            self.of_label.resize(at + 1, NONE);
        }
        self.of_label[at] = u32::try_from(place).expect("fewer than 2^32 labels");
        self.met.push(label);
        place
    }

    /// The place of a label that has been met.
    #[inline]
    pub(crate) fn known(&self, label: u32) -> Option<usize> {
        self.of_label
            .get(label as usize)
            .filter(|&&place| place != NONE)
            .map(|&place| place as usize)
    }
}

impl Drop for Places<'_> {
    fn drop(&mut self) {
        for &label in &self.met {
            self.of_label[label as usize] = NONE;
        }
    }
}

/// Calls `work` with places of which none is taken. Must not be called by `work`.
pub(crate) fn with_places<R>(work: impl FnOnce(&mut Places<'_>) -> R) -> R {
    PLACES.with_borrow_mut(|of_label| work(&mut Places { of_label, met: Vec::with_capacity(32) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_use_begins_anew() {
        for _ in 0..2 {
            with_places(|places| {
                assert_eq!([7, 2, 7, 0].map(|label| places.place(label)), [0, 1, 0, 2]);
                assert_eq!(
                    [0, 1, 2, 99].map(|label| places.known(label)),
                    [Some(2), None, Some(1), None]
                );
            });
        }
    }
}
