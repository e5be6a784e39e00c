//! Conversion of label margins to scores.

/// The highest margins of a document among all labels, including labels that none of its neighbors
/// have.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct TopMargins {
    /// The two highest margins. If there is only one margin, it is repeated.
    pub(crate) margins: [f32; 2],
    /// The score of the highest margin.
    pub(crate) score: f32,
}

impl TopMargins {
    /// Finds the highest margins. Infinite margins belong to labels without a prototype. For
    /// `parameters`, see [`margins_to_scores`].
    pub(crate) fn of(mut margins: Vec<f32>, parameters: &[f32]) -> Option<Self> {
        let mut highest = [f32::NEG_INFINITY; 2];
        for &margin in margins.iter().filter(|margin| margin.is_finite()) {
            if margin > highest[0] {
                highest = [margin, highest[0]];
            } else if margin > highest[1] {
                highest[1] = margin;
            }
        }
        let [first, next] = highest;
        if first == f32::NEG_INFINITY {
            return None;
        }
        margins_to_scores(&mut margins, parameters);
        let scores = margins.into_iter().filter(|score| score.is_finite());
        let next = if next.is_finite() { next } else { first };
        Some(Self { margins: [first, next], score: scores.fold(0.0, f32::max) })
    }
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
    fn top_margins_are_the_highest() {
        let none = f32::INFINITY;
        let two = TopMargins::of(vec![-1.0, none, 2.0, 1.0], &[0.5]).unwrap();
        let softmax = 1.0f32 / (1.0 + libm::expf(-0.5) + libm::expf(-1.5));
        assert_eq!((two.margins, (two.score - softmax).abs() < 1e-6), ([2.0, 1.0], true));
        let one = TopMargins::of(vec![none, 0.5], &[2.0, -1.0]).unwrap();
        assert_eq!((one.margins, one.score), ([0.5, 0.5], 0.5), "by the logistic function");
        assert_eq!(TopMargins::of(vec![none], &[1.0]), None);
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
