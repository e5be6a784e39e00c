//! Random splits of a corpus into training and held-out documents.

use super::document::Document;
use super::error::CorpusError;
use crate::random::unit;

/// A side of a split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The documents for training.
    Training,
    /// The held-out documents.
    HeldOut,
}

/// Returns one side of a random split of a corpus. A fraction `share` of the documents, on average,
/// is held out. Documents of the same group stay together. The same seed gives the same split.
///
/// ```
/// use classify::text::corpus::{Corpus, ReadOptions, Side, hold_out};
///
/// let lines = (0..100).map(|n| format!("{{\"text\": \"{n}\", \"label\": \"x\"}}\n"));
/// let lines: String = lines.collect();
/// let side = |side| {
///     let corpus = Corpus::from_bytes("lines", lines.clone().into(), ReadOptions::default())?;
///     hold_out(corpus, 0.2, 7, side).collect::<Result<Vec<_>, _>>()
/// };
/// let (training, held_out) = (side(Side::Training)?, side(Side::HeldOut)?);
/// assert_eq!(training.len() + held_out.len(), 100);
/// assert!((10..=30).contains(&held_out.len()));
/// # Ok::<(), classify::text::corpus::CorpusError>(())
/// ```
pub fn hold_out<D>(documents: D, share: f64, seed: u64, side: Side) -> HoldOut<D> {
    HoldOut { documents, share, seed, side, number: 0 }
}

/// One side of a split, returned by [`hold_out`].
#[derive(Debug)]
pub struct HoldOut<D> {
    documents: D,
    share: f64,
    seed: u64,
    side: Side,
    number: u64,
}

impl<D: Iterator<Item = Result<Document, CorpusError>>> Iterator for HoldOut<D> {
    type Item = Result<Document, CorpusError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let next = self.documents.next()?;
            self.number += 1;
            let group = next.as_ref().ok().and_then(|document| document.group.as_deref());
            let key = group.map_or(self.number, hash_group);
            let held_out = unit(self.seed, key) < self.share;
            // Both sides report errors.
            if next.is_err() || held_out == (self.side == Side::HeldOut) {
                return Some(next);
            }
        }
    }
}

/// Returns the FNV-1a hash (Fowler, Noll and Vo) of a group.
fn hash_group(group: &str) -> u64 {
    let step = |hash: u64, &byte: &u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    group.as_bytes().iter().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::corpus::{Content, Place};

    #[test]
    fn groups_stay_together() {
        let document = |number: usize| Document {
            id: number.to_string(),
            content: Content::Text(String::new()),
            labels: Vec::new(),
            weight: 1.0,
            vector: None,
            group: Some(format!("author {}", number % 40)),
            place: Place { source: "test".into(), line: None },
        };
        let side = |side| -> Vec<String> {
            let documents = (0..400).map(|number| Ok(document(number)));
            let side = hold_out(documents, 0.25, 3, side);
            side.map(|document| document.unwrap().group.unwrap()).collect()
        };
        let training = side(Side::Training);
        let held_out = side(Side::HeldOut);
        assert_eq!(training.len() + held_out.len(), 400);
        assert!(!held_out.is_empty() && held_out.len() < 200);
        assert!(held_out.iter().all(|group| !training.contains(group)));
    }
}
