//! Conversion of label margins to scores.

/// Returns the highest margin among all labels, including labels that none of the neighbors have.
/// `None` if no label has a prototype; the margins of such labels are infinite.
pub(crate) fn highest_margin(margins: &[f32]) -> Option<f32> {
    margins.iter().copied().filter(|margin| margin.is_finite()).max_by(f32::total_cmp)
}

/// Replaces margins with scores, except for infinite margins. `parameters` contains a and, in
/// multi-label mode, b.
pub(crate) fn margins_to_scores(margins: &mut [f32], parameters: &[f32]) {
    if let [a, b] = *parameters {
        for margin in margins.iter_mut().filter(|margin| margin.is_finite()) {
            *margin = 1.0 / (1.0 + libm::expf(-(a * *margin + b)));
        }
        return;
    }
    let a = parameters.first().copied().unwrap_or(1.0);
    let known = margins.iter().copied().filter(|margin| margin.is_finite());
    let highest = known.fold(f32::NEG_INFINITY, f32::max);
    let mut total = 0.0;
    for margin in margins.iter_mut().filter(|margin| margin.is_finite()) {
        *margin = libm::expf(a * (*margin - highest));
        total += *margin;
    }
    for score in margins.iter_mut().filter(|score| score.is_finite()) {
        *score /= total;
    }
}

/// Mixes a label's score from votes with the score from its prototype. The prototype's weight is
/// `share`. Without a prototype, returns the score from votes.
pub(crate) fn mix_scores(votes: f64, prototype: Option<f32>, share: f64) -> f64 {
    let Some(prototype) = prototype else { return votes };
    ((1.0 - share) * votes + share * f64::from(prototype)).max(f64::MIN_POSITIVE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn highest_margins_belong_to_labels_with_a_prototype() {
        assert_eq!(highest_margin(&[-1.0, f32::INFINITY, 2.0, 1.0]), Some(2.0));
        assert_eq!(highest_margin(&[f32::INFINITY]), None);
    }

    #[test]
    fn multi_label_scores_are_independent() {
        let mut margins = [1.0, f32::INFINITY, -2.0];
        margins_to_scores(&mut margins, &[2.0, -1.0]);
        let logistic = |z: f32| 1.0 / (1.0 + libm::expf(-z));
        assert!((margins[0] - logistic(1.0)).abs() < 1e-6 && margins[1].is_infinite());
        assert!((margins[2] - logistic(-5.0)).abs() < 1e-6);
    }
}
