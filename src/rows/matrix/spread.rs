//! A sparse row with a place for each column, to be met by other rows.

/// The columns of a row, increasing, and their values.
type Row<'a> = (&'a [u32], &'a [f32]);

/// Columns that are looked up side by side.
const LANES: usize = 16;

/// A sparse row as a dense one, with a bit for each column that it has: bits fit into the nearest cache where values do not.
#[derive(Debug, Default)]
pub(crate) struct Spread {
    values: Vec<f32>,
    present: Vec<u32>,
}

/// Columns that two rows have, and the values of one of them.
#[derive(Debug, Default)]
pub(crate) struct Common {
    columns: Vec<u32>,
    values: Vec<f32>,
}

impl Common {
    /// The columns at some places, with their values.
    pub(crate) fn of(&self, places: std::ops::Range<usize>) -> Row<'_> {
        (&self.columns[places.clone()], &self.values[places])
    }
}

impl Spread {
    /// Sets the row of a matrix with so many `columns`; [`clear`](Self::clear) it before the next.
    ///
    /// # Panics
    /// If the row has a column beyond them.
    pub(crate) fn set(&mut self, row: Row<'_>, columns: usize) {
        self.values.resize(columns, 0.0);
        self.present.resize(columns.div_ceil(32), 0);
        for (&column, &value) in row.0.iter().zip(row.1) {
            self.values[column as usize] = value;
            self.present[column as usize / 32] |= 1 << (column % 32);
        }
    }

    /// Forgets the row.
    pub(crate) fn clear(&mut self, (columns, _): Row<'_>) {
        for &column in columns {
            self.values[column as usize] = 0.0;
            self.present[column as usize / 32] = 0;
        }
    }

    /// The value of a column; 0 if the row does not have it.
    pub(crate) fn value(&self, column: u32) -> f32 {
        self.values[column as usize]
    }

    /// Writes the columns of another row that this one has, too, with the values of the other, to `common` from place
    /// `start` on; returns their end. What lies behind it means nothing.
    pub(crate) fn common(&self, row: Row<'_>, common: &mut Common, start: usize) -> usize {
        let room = start + row.0.len() + LANES;
        if common.columns.len() < room {
            common.columns.resize(room, 0);
            common.values.resize(room, 0.0);
        }
        let target = (&mut common.columns[start..room], &mut common.values[start..room]);
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("popcnt") {
            #[expect(unsafe_code, reason = "a function for processors with AVX-512")]
            // SAFETY: checked.
            unsafe {
                return start + common_avx512(&self.present, row, target);
            }
        }
        start + common_portable(&self.present, row, target)
    }
}

/// Asks for the value at a place, if there is one, to be brought into the cache.
#[inline]
pub(crate) fn prefetch<V>(values: &[V], at: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(value) = values.get(at) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        #[expect(unsafe_code, reason = "takes a pointer")]
        // SAFETY: it changes nothing but the cache.
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(value).cast());
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (values, at);
}

/// Asks for a row to be brought into the cache.
pub(crate) fn prefetch_row((columns, values): Row<'_>) {
    for line in (0..columns.len()).step_by(16) {
        prefetch(columns, line);
        prefetch(values, line);
    }
}

/// The number of columns that have a bit; they and their values are written to `target`, which has room for [`LANES`] more than all.
fn common_portable(
    present: &[u32],
    (columns, values): Row<'_>,
    (found, of_found): (&mut [u32], &mut [f32]),
) -> usize {
    let mut count = 0;
    // Without a branch, which could not be foreseen.
    for (&column, &value) in columns.iter().zip(values) {
        (found[count], of_found[count]) = (column, value);
        count += (present[column as usize / 32] >> (column % 32) & 1) as usize;
    }
    count
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,popcnt")]
fn common_avx512(
    present: &[u32],
    (columns, values): Row<'_>,
    (found, of_found): (&mut [u32], &mut [f32]),
) -> usize {
    use std::arch::x86_64::{
        __m512i, _mm512_and_si512, _mm512_cmplt_epu32_mask, _mm512_mask_i32gather_epi32,
        _mm512_maskz_compress_epi32, _mm512_set1_epi32, _mm512_setzero_si512, _mm512_srli_epi32,
        _mm512_srlv_epi32, _mm512_test_epi32_mask,
    };
    // Columns have 32 bits, so a word's number has 27.
    let words = _mm512_set1_epi32(i32::try_from(present.len()).unwrap_or(i32::MAX));
    let mut count = 0;
    let mut add = |columns: [u32; LANES], values: [f32; LANES]| {
        let columns: __m512i = bytemuck::cast(columns);
        let word = _mm512_srli_epi32::<5>(columns);
        let known = _mm512_cmplt_epu32_mask(word, words);
        let none = _mm512_setzero_si512();
        #[expect(unsafe_code, reason = "reads by addresses")]
        // SAFETY: only words below the number of words are read.
        let bits =
            unsafe { _mm512_mask_i32gather_epi32::<4>(none, known, word, present.as_ptr().cast()) };
        let bits = _mm512_srlv_epi32(bits, _mm512_and_si512(columns, _mm512_set1_epi32(31)));
        let mask = _mm512_test_epi32_mask(bits, _mm512_set1_epi32(1));
        let columns = _mm512_maskz_compress_epi32(mask, columns);
        let values = _mm512_maskz_compress_epi32(mask, bytemuck::cast(values));
        found[count..][..LANES].copy_from_slice(&bytemuck::cast::<_, [u32; LANES]>(columns));
        of_found[count..][..LANES].copy_from_slice(&bytemuck::cast::<_, [f32; LANES]>(values));
        count += mask.count_ones() as usize;
    };
    let (chunks, last) = columns.as_chunks::<LANES>();
    let (chunks_of_values, last_values) = values.as_chunks::<LANES>();
    for (&columns, &values) in chunks.iter().zip(chunks_of_values) {
        add(columns, values);
    }
    if !last.is_empty() {
        // No word has the number of the largest column.
        let (mut columns, mut values) = ([u32::MAX; LANES], [0.0; LANES]);
        columns[..last.len()].copy_from_slice(last);
        values[..last.len()].copy_from_slice(last_values);
        add(columns, values);
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn columns_of_both_rows_one_after_the_other() {
        let mut spread = Spread::default();
        let row: Row<'_> = (&[0, 63, 64, 199], &[1.0, 2.0, 0.0, 4.0]);
        spread.set(row, 200);
        let mut common = Common::default();
        let first = spread.common((&[0, 1, 64], &[5.0, 6.0, 7.0]), &mut common, 0);
        let none = spread.common((&[], &[]), &mut common, first);
        let second = spread.common((&[2, 199], &[8.0, 9.0]), &mut common, none);
        assert_eq!((first, none, second), (2, 2, 3));
        assert_eq!(common.of(0..second), (&[0, 64, 199][..], &[5.0, 7.0, 9.0][..]));
        let values = [0, 1, 63, 199].map(|column| spread.value(column).to_bits());
        assert_eq!(values, [1.0, 0.0, 2.0, 4.0f32].map(f32::to_bits));
        spread.clear(row);
        assert_eq!(spread.common((&[0, 63, 199], &[1.0; 3]), &mut common, 0), 0);
        assert_eq!(spread.value(199).to_bits(), 0.0f32.to_bits());
    }

    /// Rows of many lengths, with columns of which many, few or none are common, and the last column of the matrix.
    #[test]
    fn the_same_columns_with_and_without_vectors() {
        let mut random = Random::new(1);
        for (columns, share) in [(33, 0.9), (1_000, 0.5), (1_024, 0.1), (40_000, 0.02)] {
            for _ in 0..50 {
                let mut row = |share: f64| -> (Vec<u32>, Vec<f32>) {
                    let share = share * random.unit();
                    let all = 0..columns;
                    let own = all.filter(|&column| random.unit() < share || column + 1 == columns);
                    own.map(|column| (column, column as f32 + 0.5)).unzip()
                };
                let (one, other) = (row(share), row(share));
                let mut spread = Spread::default();
                spread.set((&one.0, &one.1), columns as usize);
                let mut common = Common::default();
                let end = spread.common((&other.0, &other.1), &mut common, 3);
                let expected = other.0.iter().copied().filter(|column| one.0.contains(column));
                let expected: Vec<u32> = expected.collect();
                let (found, values) = common.of(3..end);
                assert_eq!(found, expected);
                let of_column = |(&column, &value): (&u32, &f32)| {
                    value.to_bits() == (column as f32 + 0.5).to_bits()
                };
                assert!(found.iter().zip(values).all(of_column));
                let room = other.0.len() + LANES;
                let (mut portable, mut of_found) = (vec![0; room], vec![0.0; room]);
                let target = (&mut *portable, &mut *of_found);
                let count = common_portable(&spread.present, (&other.0, &other.1), target);
                assert_eq!((&portable[..count], &of_found[..count]), (found, values));
            }
        }
    }
}
