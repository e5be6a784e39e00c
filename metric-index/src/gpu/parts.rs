//! The division of positions into parts that a filter scans one after another.

use super::launch::ROWS;

/// Returns the ends of the parts of `count` positions. The first part has `first` positions, and
/// each other part is `growth` times as large as all earlier parts together.
pub(super) fn part_ends(count: u32, first: u32, growth: u32) -> Vec<u32> {
    let mut ends = vec![first.min(count)];
    while let Some(&end) = ends.last().filter(|&&end| end < count) {
        let next = u64::from(end) * u64::from(growth + 1);
        let next = next.next_multiple_of(u64::from(ROWS)).min(count.into());
        // Merge a small remainder with the last part.
        let next = if next + u64::from(end) > u64::from(count) { u64::from(count) } else { next };
        ends.push(u32::try_from(next).expect("at most `count`"));
    }
    ends
}

/// Returns the ends of the parts for few queries, like [`part_ends`]. The first part has between
/// `first` and `capacity` positions.
///
/// Two parts are better than three, because each part requires two launches. With two parts, the
/// size of the second is a multiple of `step` if the first has capacity for the remainder. All
/// blocks together scan `step` positions at a time.
pub(super) fn few_part_ends(
    count: u32,
    first: u32,
    capacity: u32,
    growth: u32,
    step: u32,
) -> Vec<u32> {
    let first_of_two = count.div_ceil(growth + 1).next_multiple_of(ROWS);
    let first = if first_of_two <= capacity { first.max(first_of_two) } else { first };
    let mut ends = part_ends(count, first, growth);
    if let [first, _] = &mut ends[..] {
        let rest = ((count - *first) % step).next_multiple_of(ROWS);
        if *first + rest <= capacity && *first + rest < count {
            *first += rest;
        }
    }
    ends
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_grow_to_the_end() {
        assert_eq!(part_ends(100, 2048, 8), [100]);
        assert_eq!(part_ends(2049, 2048, 8), [2048, 2049]);
        assert_eq!(part_ends(1_000_000, 2048, 8), [2048, 18_432, 165_888, 1_000_000]);
        // 132 multiprocessors, each with four blocks of 64 positions.
        let step = 132 * 4 * 64;
        assert_eq!(few_part_ends(70_000, 2048, 4096, 64, step), [2432, 70_000]);
        assert_eq!(70_000 - 2432, 2 * step - 16, "the last step is nearly full");
        // A larger first part makes two parts sufficient, unless it exceeds the capacity.
        assert_eq!(few_part_ends(60_000, 2048, 4096, 18, step), [3200, 60_000]);
        assert_eq!(
            few_part_ends(1_000_000, 2048, 4096, 18, step),
            [2048, 38_912, 739_328, 1_000_000]
        );
        for count in (1..9_000).chain((9_000..300_000).step_by(37)) {
            for growth in [1, 9, 18, 64] {
                let ends = few_part_ends(count, 2048, 4096, growth, step);
                assert!(ends.is_sorted_by(|a, b| a < b), "{count}: {ends:?}");
                let (last, before) = ends.split_last().unwrap();
                assert_eq!(*last, count);
                assert!(before.iter().all(|end| end.is_multiple_of(ROWS)), "{count}: {ends:?}");
                assert!(ends[0] <= 4096, "all points of the first part are candidates");
            }
        }
        let ends = part_ends(u32::MAX, 2048, 64);
        assert!(ends.is_sorted() && ends.last() == Some(&u32::MAX));
    }
}
