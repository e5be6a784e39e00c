//! The values of the entries of rows: counts by field, or given values.

use std::collections::HashMap;

use foldhash::fast::RandomState;

/// The values of the entries of rows.
#[derive(Debug, Clone)]
pub(super) enum Values {
    /// For each field, the count of each entry; 0 if the term does not occur in the field.
    Counts(Vec<FieldCounts>),
    /// The value of each entry.
    Given(Vec<f32>),
}

/// Counts of one byte each, which take little memory. Larger counts, which are rare, overflow into
/// a map.
#[derive(Debug, Clone, Default)]
pub(super) struct FieldCounts {
    pub(super) bytes: Vec<u8>,
    /// The excess over 255, by entry.
    pub(super) overflow: HashMap<usize, u32, RandomState>,
}

impl FieldCounts {
    pub(super) fn add_one(&mut self, entry: usize) {
        match self.bytes[entry].checked_add(1) {
            Some(count) => self.bytes[entry] = count,
            None => *self.overflow.entry(entry).or_default() += 1,
        }
    }

    /// Returns the excess over 255.
    pub(super) fn excess(&self, entry: usize) -> Option<u32> {
        if self.bytes[entry] == u8::MAX { self.overflow.get(&entry).copied() } else { None }
    }

    fn get(&self, entry: usize) -> f32 {
        match self.excess(entry) {
            Some(excess) => (u32::from(u8::MAX) + excess) as f32,
            None => f32::from(self.bytes[entry]),
        }
    }

    fn move_entry(&mut self, from: usize, to: usize) {
        if self.bytes[to] == u8::MAX && to != from {
            self.overflow.remove(&to);
        }
        self.bytes[to] = self.bytes[from];
        if let Some(excess) = self.excess(from) {
            self.overflow.remove(&from);
            self.overflow.insert(to, excess);
        }
    }

    fn truncate(&mut self, entries: usize) {
        self.bytes.truncate(entries);
        self.overflow.retain(|&entry, _| entry < entries);
    }
}

impl Default for Values {
    fn default() -> Self {
        Self::Given(Vec::new())
    }
}

impl Values {
    /// Returns the boosted value of an entry: the sum of boost × count over the fields, computed as
    /// in [`tally`](super::tally).
    pub(super) fn boosted(&self, boosts: &[f32], entry: usize) -> f32 {
        match self {
            Self::Counts(fields) => {
                let boosted = fields.iter().zip(boosts);
                boosted.fold(0.0, |sum, (counts, &boost)| sum + boost * counts.get(entry))
            }
            Self::Given(values) => boosts[0] * values[entry],
        }
    }

    /// Returns the number of occurrences in all fields, or the given value.
    pub(super) fn total(&self, entry: usize) -> f32 {
        match self {
            Self::Counts(fields) => fields.iter().map(|counts| counts.get(entry)).sum(),
            Self::Given(values) => values[entry],
        }
    }

    /// Returns whether all values are 1.
    pub(super) fn is_binary(&self) -> bool {
        match self {
            Self::Counts(fields) => {
                fields.iter().all(|counts| counts.bytes.iter().all(|&n| n == 1))
            }
            Self::Given(values) => values.iter().all(|value| value.to_bits() == 1f32.to_bits()),
        }
    }

    /// Moves the values of an entry to another, whose values are lost. The old entry must not be
    /// read again.
    pub(super) fn move_entry(&mut self, from: usize, to: usize) {
        match self {
            Self::Counts(fields) => {
                for counts in fields {
                    counts.move_entry(from, to);
                }
            }
            Self::Given(values) => values[to] = values[from],
        }
    }

    /// Removes all but the first entries.
    pub(super) fn truncate(&mut self, entries: usize) {
        match self {
            Self::Counts(fields) => {
                for counts in fields {
                    counts.truncate(entries);
                }
            }
            Self::Given(values) => values.truncate(entries),
        }
    }

    /// Removes all entries, but keeps the memory.
    pub(super) fn clear(&mut self) {
        match self {
            Self::Counts(fields) => {
                for FieldCounts { bytes, overflow } in fields {
                    bytes.clear();
                    overflow.clear();
                }
            }
            Self::Given(values) => values.clear(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Entries with counts around 255 are moved as `Counts::keep` moves them.
    #[test]
    fn kept_entries_have_their_counts() {
        let numbers = [300, 255, 256, 1, 254, 700, 0, 255];
        for kept in 0..1 << numbers.len() {
            let mut counts = FieldCounts { bytes: vec![0; numbers.len()], ..Default::default() };
            for (entry, &number) in numbers.iter().enumerate() {
                (0..number).for_each(|_| counts.add_one(entry));
            }
            let mut values = Values::Counts(vec![counts]);
            let is_kept = |entry: &usize| kept >> entry & 1 == 1;
            let entries: Vec<usize> = (0..numbers.len()).filter(is_kept).collect();
            for (to, &from) in entries.iter().enumerate() {
                values.move_entry(from, to);
            }
            values.truncate(entries.len());
            for (to, &from) in entries.iter().enumerate() {
                assert!((values.total(to) - numbers[from] as f32).abs() < 0.5, "{kept:b}");
                assert!((values.boosted(&[2.0], to) - 2.0 * numbers[from] as f32).abs() < 0.5);
            }
            let Values::Counts(fields) = values else { unreachable!("created above") };
            assert!(fields[0].overflow.keys().all(|&entry| entry < entries.len()));
        }
    }
}
