#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "bits, and small numbers"
)]

use super::*;

#[test]
fn transposing_swaps_rows_and_columns() {
    let rows: [[u16; TILE]; TILE] =
        std::array::from_fn(|row| std::array::from_fn(|column| (10 * row + column) as u16));
    for (column, values) in transposed(rows).into_iter().enumerate() {
        assert_eq!(values, rows.map(|row| row[column]));
    }
}

/// Returns the expected sums of products of a row and a lane, for `u16` and for `i16`.
fn expected(entries: &[u32], factors: &[[u16; LANES]], lane: usize) -> (u16, i16) {
    let mut sum = 0u16;
    let mut signed_sum = 0i16;
    for &entry in entries {
        let weight = weight_of(entry);
        let factor = factors[column_of(entry)][lane];
        sum = sum.wrapping_add(((u32::from(weight) * u32::from(factor)) >> 16) as u16);
        let product = i32::from(weight as i16) * i32::from(factor as i16);
        signed_sum = signed_sum.wrapping_add((product >> 16) as i16);
    }
    (sum, signed_sum)
}

#[test]
fn head_products_agree_on_every_instruction_set() {
    // There are three columns. Row r has r % 4 entries and is stored at the mirrored position of
    // its window.
    for rows in [0usize, 1, 7, 63, 64, 65, 200] {
        let mut starts = vec![0u32];
        let mut entries = Vec::new();
        let mut order = Vec::new();
        for row in 0..rows {
            let window = row / WINDOW * WINDOW;
            order.push((WINDOW.min(rows - window) - 1 - row % WINDOW) as u8);
            entries.extend(
                (0..row as u32 % 4).map(|index| (index % 3) << 16 | (65_000 - 297 * row as u32)),
            );
            starts.push(entries.len() as u32);
        }
        let factor = |column: usize, lane: usize| (64_321 - 900 * lane + 7 * column) as u16;
        let factors: Vec<[u16; LANES]> =
            (0..3).map(|column| std::array::from_fn(|lane| factor(column, lane))).collect();
        let signed: Vec<[i16; LANES]> =
            factors.iter().map(|lanes| lanes.map(|factor| factor as i16)).collect();
        let head = Head { order: &order, starts: &starts, entries: &entries };
        let stride = rows.next_multiple_of(WINDOW) + 32;
        let check = |sums: &[u16], signed_sums: &[i16]| {
            for (position, bounds) in starts.windows(2).enumerate() {
                let row = position / WINDOW * WINDOW + usize::from(order[position]);
                for lane in 0..LANES {
                    let index = lane * stride + row;
                    let row_entries = &entries[bounds[0] as usize..bounds[1] as usize];
                    let found = (sums[index], signed_sums[index]);
                    assert_eq!(found, expected(row_entries, &factors, lane), "row {row} of {rows}");
                }
            }
        };
        for set in InstructionSet::all() {
            let mut sums = vec![7; LANES * stride];
            let mut signed_sums = vec![7; LANES * stride];
            set.run(HeadProducts { head, factors: &factors, sums: &mut sums, stride });
            let sums_of_signed = &mut signed_sums;
            set.run(HeadProducts { head, factors: &signed, sums: sums_of_signed, stride });
            check(&sums, &signed_sums);
        }
    }
}

#[test]
fn dense_products_agree_on_every_instruction_set() {
    const COLUMNS: usize = 3;
    for rows in [0usize, 1, 64, 65, 200] {
        let weight = |row: usize, column: usize| {
            if (row + column).is_multiple_of(3) { 0 } else { (65_000 - 297 * row + column) as u16 }
        };
        let strip =
            |index: usize| {
                let first = index / COLUMNS * LANES;
                let column = index % COLUMNS;
                std::array::from_fn(|lane| {
                    if first + lane < rows { weight(first + lane, column) } else { 0 }
                })
            };
        let strips: Vec<[u16; LANES]> = (0..rows.div_ceil(LANES) * COLUMNS).map(strip).collect();
        let signed: Vec<[i16; LANES]> = bytemuck::cast_slice(&strips).to_vec();
        let factors = [(2, 60_000u16), (0, 999)];
        let signed_factors = factors.map(|(column, factor)| (column, factor as i16));
        let check = |sums: &[u16], signed_sums: &[i16]| {
            for row in 0..rows {
                let entries = factors
                    .map(|(column, _)| (column as u32) << 16 | u32::from(weight(row, column)));
                let lanes = [[999; LANES], [0; LANES], [60_000; LANES]];
                let (sum, signed_sum) = expected(&entries, &lanes, 0);
                let nonzeros =
                    entries.iter().filter(|&&entry| weight_of(entry) != 0).count() as u16;
                assert_eq!(sums[row], sum.wrapping_add(nonzeros + 7), "row {row} of {rows}");
                assert_eq!(
                    signed_sums[row],
                    signed_sum.wrapping_add((nonzeros + 7) as i16),
                    "row {row}"
                );
            }
        };
        for set in InstructionSet::all() {
            let mut sums = vec![7; rows];
            let mut signed_sums = vec![7; rows];
            let factors = &factors;
            let sums_of = &mut sums;
            set.run(DenseProducts { strips: &strips, columns: COLUMNS, factors, sums: sums_of });
            let factors = &signed_factors;
            let sums_of = &mut signed_sums;
            set.run(DenseProducts { strips: &signed, columns: COLUMNS, factors, sums: sums_of });
            check(&sums, &signed_sums);
        }
    }
}

#[test]
fn maxima_and_counts_agree_on_every_instruction_set() {
    let values: Vec<u16> = (0..100_000u32).map(|i| (i * 40_503 % 65_536) as u16).collect();
    for set in InstructionSet::all() {
        let mut maxima = [0; 48];
        set.run(GroupMaxima { sums: &values, maxima: &mut maxima });
        for (group, &max) in maxima.iter().enumerate() {
            assert_eq!(Some(max), values.iter().skip(group).step_by(48).copied().max());
        }
        let mut maxima = [1i16; 2];
        set.run(GroupMaxima { sums: &[-5, 3, -1], maxima: &mut maxima });
        assert_eq!(maxima, [0, 3]);
        for threshold in [0, 1, 30_000, 65_535] {
            let expected = values.iter().filter(|&&value| value >= threshold).count();
            assert_eq!(set.run(CountAtLeast { values: &values, threshold }), expected);
        }
        assert_eq!(set.run(CountAtLeast { values: &[-5i16, 3, -1, -1], threshold: -1 }), 3);
        for (sums, threshold) in [(&values[..], 65_000), (&values[..130], 40_000), (&[], 0)] {
            let mut found = Vec::new();
            set.run(ForEachAtLeast { sums, threshold, found: |index| found.push(index) });
            let expected: Vec<_> =
                (0..sums.len()).filter(|&index| sums[index] >= threshold).collect();
            assert_eq!(found, expected);
        }
        let many = [-3i16, 4, 5].repeat(40);
        let mut found = 0;
        set.run(ForEachAtLeast { sums: &many, threshold: 4, found: |_| found += 1 });
        assert_eq!(found, 80);
    }
}

#[test]
fn bounds_agree_on_every_instruction_set() {
    let sums: Vec<u16> = (0..1_000u32).map(|i| (i * 40_503 % 65_536) as u16).collect();
    let lengths: Vec<u16> = sums.iter().map(|sum| sum.rotate_left(5)).collect();
    let signed: Vec<i16> = sums.iter().map(|sum| (sum >> 1) as i16).collect();
    let signed_lengths: Vec<i16> = lengths.iter().map(|length| (length >> 1) as i16).collect();
    for (rows, factor, threshold) in [
        (0, 9, 1),
        (1, 60_000, 1),
        (63, 0, 30_000),
        (1_000, 40_000, 60_000),
        (1_000, 65_535, 65_535),
    ] {
        let sums = &sums[..rows];
        let lengths = &lengths[..rows];
        let is_marked = |row: usize| {
            let product = u64::from(lengths[row]) * u64::from(factor) / 65_536;
            (u64::from(sums[row]) + product + 1).min(65_535) >= u64::from(threshold)
        };
        let check = |marks: &[u64], rows: usize| {
            for row in 0..rows {
                let mark = marks[row / LANES] >> (row % LANES) & 1 == 1;
                assert_eq!(mark, is_marked(row), "row {row} of {rows}");
            }
        };
        for row in 0..rows {
            assert_eq!(bound(sums[row], lengths[row], factor) >= threshold, is_marked(row));
        }
        let marked = (0..rows).filter(|&row| is_marked(row)).count();
        let signed = &signed[..rows];
        let signed_lengths = &signed_lengths[..rows];
        let signed_factor = (factor >> 1) as i16;
        let signed_threshold = (threshold >> 1) as i16;
        let signed_bounds =
            (0..rows).map(|row| bound(signed[row], signed_lengths[row], signed_factor));
        let signed_marked = signed_bounds.filter(|&bound| bound >= signed_threshold).count();
        for set in InstructionSet::all() {
            let mut marks = vec![7];
            let bounds = Bounds { sums, lengths, factor };
            assert_eq!(set.run(MarkBounds { bounds, threshold, marks: &mut marks }), marked);
            assert_eq!(marks.len(), rows.div_ceil(LANES));
            check(&marks, rows);
            let bounds = Bounds { sums: signed, lengths: signed_lengths, factor: signed_factor };
            let threshold = signed_threshold;
            let count = set.run(MarkBounds { bounds, threshold, marks: &mut marks });
            assert_eq!(count, signed_marked);
        }
    }
}
