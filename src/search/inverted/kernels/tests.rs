#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "bits, and small numbers"
)]

use super::*;

#[test]
fn rows_become_columns() {
    let rows: [[u16; TILE]; TILE] =
        std::array::from_fn(|row| std::array::from_fn(|column| (10 * row + column) as u16));
    for (column, own) in transposed(rows).into_iter().enumerate() {
        assert_eq!(own, rows.map(|row| row[column]));
    }
}

/// What `head_products` should give for a row and a lane.
fn expected(entries: &[u32], factors: &[[u16; LANES]], lane: usize) -> (u16, i16) {
    let (mut sum, mut signed_sum) = (0u16, 0i16);
    for &entry in entries {
        let (weight, factor) = (weight_of(entry), factors[column_of(entry)][lane]);
        sum = sum.wrapping_add(((u32::from(weight) * u32::from(factor)) >> 16) as u16);
        let product = i32::from(weight as i16) * i32::from(factor as i16);
        signed_sum = signed_sum.wrapping_add((product >> 16) as i16);
    }
    (sum, signed_sum)
}

#[test]
fn sums_of_products_on_every_processor() {
    // Three columns; row r has r % 4 entries, and stands at the mirrored place of its window.
    for rows in [0usize, 1, 7, 63, 64, 65, 200] {
        let (mut starts, mut entries, mut order) = (vec![0u32], Vec::new(), Vec::new());
        for row in 0..rows {
            let window = row / WINDOW * WINDOW;
            order.push((WINDOW.min(rows - window) - 1 - row % WINDOW) as u8);
            entries
                .extend((0..row as u32 % 4).map(|at| (at % 3) << 16 | (65_000 - 297 * row as u32)));
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
            for (at, own) in starts.windows(2).enumerate() {
                let row = at / WINDOW * WINDOW + usize::from(order[at]);
                for lane in 0..LANES {
                    let place = lane * stride + row;
                    let own = &entries[own[0] as usize..own[1] as usize];
                    let found = (sums[place], signed_sums[place]);
                    assert_eq!(found, expected(own, &factors, lane), "row {row} of {rows}");
                }
            }
        };
        let (mut sums, mut signed_sums) = (vec![7; LANES * stride], vec![7; LANES * stride]);
        u16::head_products(head, &factors, &mut sums, stride);
        i16::head_products(head, &signed, &mut signed_sums, stride);
        check(&sums, &signed_sums);
        u16::head_portable(head, &factors, &mut sums, stride);
        i16::head_portable(head, &signed, &mut signed_sums, stride);
        check(&sums, &signed_sums);
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            #[expect(unsafe_code, reason = "a function for processors with AVX2")]
            // SAFETY: checked.
            unsafe {
                u16::head_avx2(head, &factors, &mut sums, stride);
            }
            #[expect(unsafe_code, reason = "a function for processors with AVX2")]
            // SAFETY: checked.
            unsafe {
                i16::head_avx2(head, &signed, &mut signed_sums, stride);
            }
            check(&sums, &signed_sums);
        }
    }
}

#[test]
fn dense_columns_on_every_processor() {
    const COLUMNS: usize = 3;
    for rows in [0usize, 1, 64, 65, 200] {
        let weight = |row: usize, column: usize| {
            if (row + column).is_multiple_of(3) { 0 } else { (65_000 - 297 * row + column) as u16 }
        };
        let strip =
            |at: usize| {
                let (first, column) = (at / COLUMNS * LANES, at % COLUMNS);
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
                let own = factors
                    .map(|(column, _)| (column as u32) << 16 | u32::from(weight(row, column)));
                let lanes = [[999; LANES], [0; LANES], [60_000; LANES]];
                let (sum, signed_sum) = expected(&own, &lanes, 0);
                let some = own.iter().filter(|&&entry| weight_of(entry) != 0).count() as u16;
                assert_eq!(sums[row], sum.wrapping_add(some + 7), "row {row} of {rows}");
                assert_eq!(
                    signed_sums[row],
                    signed_sum.wrapping_add((some + 7) as i16),
                    "row {row}"
                );
            }
        };
        let (mut sums, mut signed_sums) = (vec![7; rows], vec![7; rows]);
        u16::dense_products(&strips, COLUMNS, &factors, &mut sums);
        i16::dense_products(&signed, COLUMNS, &signed_factors, &mut signed_sums);
        check(&sums, &signed_sums);
        (sums, signed_sums) = (vec![7; rows], vec![7; rows]);
        u16::dense_portable(&strips, COLUMNS, &factors, &mut sums);
        i16::dense_portable(&signed, COLUMNS, &signed_factors, &mut signed_sums);
        check(&sums, &signed_sums);
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            (sums, signed_sums) = (vec![7; rows], vec![7; rows]);
            #[expect(unsafe_code, reason = "a function for processors with AVX2")]
            // SAFETY: checked.
            unsafe {
                u16::dense_avx2(&strips, COLUMNS, &factors, &mut sums);
            }
            #[expect(unsafe_code, reason = "a function for processors with AVX2")]
            // SAFETY: checked.
            unsafe {
                i16::dense_avx2(&signed, COLUMNS, &signed_factors, &mut signed_sums);
            }
            check(&sums, &signed_sums);
        }
    }
}

#[test]
fn maxima_and_counts() {
    let values: Vec<u16> = (0..100_000u32).map(|i| (i * 40_503 % 65_536) as u16).collect();
    let mut maxima = [0; 48];
    u16::group_maxima(&values, &mut maxima);
    for (group, &max) in maxima.iter().enumerate() {
        assert_eq!(Some(max), values.iter().skip(group).step_by(48).copied().max());
    }
    for least in [0, 1, 30_000, 65_535] {
        let expected = values.iter().filter(|&&value| value >= least).count();
        assert_eq!(u16::count_at_least(&values, least), expected);
    }
    i16::group_maxima(&[-5, 3, -1], &mut [1; 2]);
    for (values, least) in [(&values[..], 65_000), (&values[..130], 40_000), (&[], 0)] {
        let mut found = Vec::new();
        u16::at_least(values, least, |at| found.push(at));
        let expected: Vec<_> = (0..values.len()).filter(|&at| values[at] >= least).collect();
        assert_eq!(found, expected);
    }
    let (many, mut found) = ([-3i16, 4, 5].repeat(40), 0);
    i16::at_least(&many, 4, |_| found += 1);
    assert_eq!(found, 80);
    for least in [0, 30_000] {
        let sums: &[u16; MASKED] = values[..MASKED].try_into().unwrap();
        let mask = u16::mask_portable(sums, least);
        assert!((0..MASKED).all(|at| (mask >> at & 1 == 1) == (sums[at] >= least)));
    }
    assert_eq!(i16::count_at_least(&[-5, 3, -1, -1], -1), 3);
}

#[test]
fn bounds_on_every_processor() {
    let sums: Vec<u16> = (0..1_000u32).map(|i| (i * 40_503 % 65_536) as u16).collect();
    let lengths: Vec<u16> = sums.iter().map(|sum| sum.rotate_left(5)).collect();
    let signed: Vec<i16> = sums.iter().map(|sum| (sum >> 1) as i16).collect();
    let signed_lengths: Vec<i16> = lengths.iter().map(|length| (length >> 1) as i16).collect();
    for (rows, factor, least) in [
        (0, 9, 1),
        (1, 60_000, 1),
        (63, 0, 30_000),
        (1_000, 40_000, 60_000),
        (1_000, 65_535, 65_535),
    ] {
        let (sums, lengths) = (&sums[..rows], &lengths[..rows]);
        let is_marked = |row: usize| {
            let product = u64::from(lengths[row]) * u64::from(factor) / 65_536;
            (u64::from(sums[row]) + product + 1).min(65_535) >= u64::from(least)
        };
        let check = |marks: &[u64], rows: usize| {
            for row in 0..rows {
                let mark = marks[row / MASKED] >> (row % MASKED) & 1 == 1;
                assert_eq!(mark, is_marked(row), "row {row} of {rows}");
            }
        };
        let mut marks = vec![7];
        let count = u16::mark_bounds(sums, (lengths, factor), least, &mut marks);
        assert_eq!(marks.len(), rows.div_ceil(MASKED));
        assert_eq!(count, (0..rows).filter(|&row| is_marked(row)).count());
        check(&marks, rows);
        marks.clear();
        u16::mark_portable(sums, (lengths, factor), least, &mut marks);
        check(&marks, rows / MASKED * MASKED);
        for row in 0..rows {
            assert_eq!(u16::bound(sums[row], lengths[row], factor) >= least, is_marked(row));
        }
        let (signed, lengths) = (&signed[..rows], &signed_lengths[..rows]);
        let (factor, least) = ((factor >> 1) as i16, (least >> 1) as i16);
        let bounds = (0..rows).map(|row| i16::bound(signed[row], lengths[row], factor));
        let expected = bounds.filter(|&bound| bound >= least).count();
        assert_eq!(i16::mark_bounds(signed, (lengths, factor), least, &mut marks), expected);
    }
}
