//! Quantiles of similarities, which convert a similarity to the share of documents with a lower
//! similarity.

/// Number of stored quantiles of similarities.
pub(super) const QUANTILES: usize = 33;

/// Returns the values at `count` evenly spaced quantiles, or an empty vector if there are no
/// values.
pub(super) fn quantiles(mut values: Vec<f32>, count: usize) -> Vec<f32> {
    values.sort_by(f32::total_cmp);
    let last = values.len().max(1) - 1;
    (0..count).filter_map(|index| values.get(last * index / (count - 1)).copied()).collect()
}

/// Returns the share of quantiles below `value`, from 0 to 1, interpolated linearly.
pub(super) fn quantile(similarities: &[f32], value: f32) -> f64 {
    let last = similarities.len().saturating_sub(1);
    let after = similarities.partition_point(|&similarity| similarity < value);
    match (after.checked_sub(1), similarities.get(after)) {
        (None, _) => 0.0,
        (Some(_), None) => 1.0,
        (Some(before), Some(&next)) => {
            let between =
                f64::from(value - similarities[before]) / f64::from(next - similarities[before]);
            (before as f64 + between) / last.max(1) as f64
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_interpolated() {
        let similarities = [0.1, 0.2, 0.4];
        let shares = [0.05, 0.1, 0.2, 0.3, 0.5].map(|value| quantile(&similarities, value));
        for (share, expected) in shares.into_iter().zip([0.0, 0.0, 0.5, 0.75, 1.0]) {
            assert!((share - expected).abs() < 1e-6, "{shares:?}");
        }
        assert!(quantile(&[], 0.5) <= 0.0);
    }
}
