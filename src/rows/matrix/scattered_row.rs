//! Sparse rows with random access by column, for comparisons with other rows.

/// The increasing columns of a row and their values.
pub(crate) type Row<'a> = (&'a [u32], &'a [f32]);

/// The number of columns that are looked up at once.
const LANES: usize = 16;

/// A sparse row scattered into a dense vector, with a bitmap of its columns. The bitmap fits in the
/// L1 cache even if the values do not.
#[derive(Debug, Default)]
pub(crate) struct ScatteredRow {
    values: Vec<f32>,
    bitmap: Vec<u32>,
}

/// The common columns of two rows, and the values of one of the rows.
#[derive(Debug, Default)]
pub(crate) struct CommonEntries {
    columns: Vec<u32>,
    values: Vec<f32>,
}

impl CommonEntries {
    /// Returns the columns and values in a range of positions.
    pub(crate) fn of(&self, range: std::ops::Range<usize>) -> Row<'_> {
        (&self.columns[range.clone()], &self.values[range])
    }
}

impl ScatteredRow {
    /// Sets the row, from a matrix with `columns` columns. Call [`clear`](Self::clear) before
    /// setting another row.
    ///
    /// # Panics
    /// If the row has a column beyond `columns`.
    pub(crate) fn set(&mut self, row: Row<'_>, columns: usize) {
        self.values.resize(columns, 0.0);
        self.bitmap.resize(columns.div_ceil(32), 0);
        for (&column, &value) in row.0.iter().zip(row.1) {
            self.values[column as usize] = value;
            self.bitmap[column as usize / 32] |= 1 << (column % 32);
        }
    }

    /// Removes the row. `row` must be the row that was set.
    pub(crate) fn clear(&mut self, row: Row<'_>) {
        for &column in row.0 {
            self.values[column as usize] = 0.0;
            self.bitmap[column as usize / 32] = 0;
        }
    }

    /// Returns the value of a column, or 0 if the row does not contain the column.
    pub(crate) fn value(&self, column: u32) -> f32 {
        self.values[column as usize]
    }

    /// Writes the columns that another row has in common with this row, with the other row's
    /// values, to `common` at position `start`. Returns the end position. Entries after it are
    /// unspecified.
    pub(crate) fn common(&self, row: Row<'_>, common: &mut CommonEntries, start: usize) -> usize {
        let end = start + row.0.len() + LANES;
        if common.columns.len() < end {
            common.columns.resize(end, 0);
            common.values.resize(end, 0.0);
        }
        let target = CommonMut {
            columns: &mut common.columns[start..end],
            values: &mut common.values[start..end],
        };
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("popcnt") {
            #[expect(unsafe_code, reason = "a function for processors with AVX-512")]
            // SAFETY: the condition checks the features.
            unsafe {
                return start + common_avx512(&self.bitmap, row, target);
            }
        }
        start + common_portable(&self.bitmap, row, target)
    }
}

/// Prefetches the value at `index`, if it exists.
#[inline]
pub(crate) fn prefetch<V>(values: &[V], index: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(value) = values.get(index) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        #[expect(unsafe_code, reason = "the intrinsic takes a pointer")]
        // SAFETY: a prefetch affects only the cache.
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(value).cast());
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (values, index);
}

/// Prefetches a row.
pub(crate) fn prefetch_row(row: Row<'_>) {
    let (columns, values) = row;
    for line in (0..columns.len()).step_by(16) {
        prefetch(columns, line);
        prefetch(values, line);
    }
}

/// The output buffers for common columns, with space for [`LANES`] more entries than the row has.
struct CommonMut<'a> {
    columns: &'a mut [u32],
    values: &'a mut [f32],
}

/// Writes the columns of a row that are in the bitmap, with their values, to `target`. Returns
/// their number.
fn common_portable(bitmap: &[u32], row: Row<'_>, target: CommonMut<'_>) -> usize {
    let CommonMut { columns: found_columns, values: found_values } = target;
    let mut count = 0;
    // Branchless: the branch would be unpredictable.
    for (&column, &value) in row.0.iter().zip(row.1) {
        found_columns[count] = column;
        found_values[count] = value;
        count += (bitmap[column as usize / 32] >> (column % 32) & 1) as usize;
    }
    count
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,popcnt")]
fn common_avx512(bitmap: &[u32], row: Row<'_>, target: CommonMut<'_>) -> usize {
    use std::arch::x86_64::{
        __m512i, _mm512_and_si512, _mm512_cmplt_epu32_mask, _mm512_mask_i32gather_epi32,
        _mm512_maskz_compress_epi32, _mm512_set1_epi32, _mm512_setzero_si512, _mm512_srli_epi32,
        _mm512_srlv_epi32, _mm512_test_epi32_mask,
    };
    let CommonMut { columns: found_columns, values: found_values } = target;
    // Column indices have 32 bits, so word indices have 27.
    let words = _mm512_set1_epi32(i32::try_from(bitmap.len()).unwrap_or(i32::MAX));
    let mut count = 0;
    let mut add = |columns: [u32; LANES], values: [f32; LANES]| {
        let columns: __m512i = bytemuck::cast(columns);
        let word = _mm512_srli_epi32::<5>(columns);
        let is_in_bitmap = _mm512_cmplt_epu32_mask(word, words);
        let zero = _mm512_setzero_si512();
        #[expect(unsafe_code, reason = "the intrinsic takes a pointer")]
        // SAFETY: the mask limits reads to existing words.
        let bits = unsafe {
            _mm512_mask_i32gather_epi32::<4>(zero, is_in_bitmap, word, bitmap.as_ptr().cast())
        };
        let bits = _mm512_srlv_epi32(bits, _mm512_and_si512(columns, _mm512_set1_epi32(31)));
        let mask = _mm512_test_epi32_mask(bits, _mm512_set1_epi32(1));
        let columns = _mm512_maskz_compress_epi32(mask, columns);
        let values = _mm512_maskz_compress_epi32(mask, bytemuck::cast(values));
        found_columns[count..][..LANES]
            .copy_from_slice(&bytemuck::cast::<_, [u32; LANES]>(columns));
        found_values[count..][..LANES].copy_from_slice(&bytemuck::cast::<_, [f32; LANES]>(values));
        count += mask.count_ones() as usize;
    };
    let (chunks, last) = row.0.as_chunks::<LANES>();
    let (chunks_of_values, last_values) = row.1.as_chunks::<LANES>();
    for (&columns, &values) in chunks.iter().zip(chunks_of_values) {
        add(columns, values);
    }
    if !last.is_empty() {
        // Pad with the largest column, which is outside the bitmap.
        let mut columns = [u32::MAX; LANES];
        let mut values = [0.0; LANES];
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
    fn common_columns_are_appended() {
        let mut scattered = ScatteredRow::default();
        let row: Row<'_> = (&[0, 63, 64, 199], &[1.0, 2.0, 0.0, 4.0]);
        scattered.set(row, 200);
        let mut common = CommonEntries::default();
        let first = scattered.common((&[0, 1, 64], &[5.0, 6.0, 7.0]), &mut common, 0);
        let none = scattered.common((&[], &[]), &mut common, first);
        let second = scattered.common((&[2, 199], &[8.0, 9.0]), &mut common, none);
        assert_eq!((first, none, second), (2, 2, 3));
        assert_eq!(common.of(0..second), (&[0, 64, 199][..], &[5.0, 7.0, 9.0][..]));
        let values = [0, 1, 63, 199].map(|column| scattered.value(column).to_bits());
        assert_eq!(values, [1.0, 0.0, 2.0, 4.0f32].map(f32::to_bits));
        scattered.clear(row);
        assert_eq!(scattered.common((&[0, 63, 199], &[1.0; 3]), &mut common, 0), 0);
        assert_eq!(scattered.value(199).to_bits(), 0.0f32.to_bits());
    }

    /// Tests rows of many lengths, with many, few or no common columns, and with the last column of
    /// the matrix.
    #[test]
    fn vector_and_portable_code_find_the_same_columns() {
        let mut random = Random::new(1);
        for (columns, share) in [(33, 0.9), (1_000, 0.5), (1_024, 0.1), (40_000, 0.02)] {
            for _ in 0..50 {
                let mut row = |share: f64| -> (Vec<u32>, Vec<f32>) {
                    let share = share * random.unit();
                    let all = 0..columns;
                    let row_columns =
                        all.filter(|&column| random.unit() < share || column + 1 == columns);
                    row_columns.map(|column| (column, column as f32 + 0.5)).unzip()
                };
                let one = row(share);
                let other = row(share);
                let mut scattered = ScatteredRow::default();
                scattered.set((&one.0, &one.1), columns as usize);
                let mut common = CommonEntries::default();
                let end = scattered.common((&other.0, &other.1), &mut common, 3);
                let expected = other.0.iter().copied().filter(|column| one.0.contains(column));
                let expected: Vec<u32> = expected.collect();
                let (found, values) = common.of(3..end);
                assert_eq!(found, expected);
                let matches_column = |(&column, &value): (&u32, &f32)| {
                    value.to_bits() == (column as f32 + 0.5).to_bits()
                };
                assert!(found.iter().zip(values).all(matches_column));
                let length = other.0.len() + LANES;
                let mut portable = vec![0; length];
                let mut portable_values = vec![0.0; length];
                let target = CommonMut { columns: &mut portable, values: &mut portable_values };
                let count = common_portable(&scattered.bitmap, (&other.0, &other.1), target);
                assert_eq!((&portable[..count], &portable_values[..count]), (found, values));
            }
        }
    }
}
