//! Powers, with the same bits on every machine.

/// `value`, at least 0, to the power of `exponent`, at least 0.
///
/// Powers of which the exponent is a multiple of 1/8, up to 2, are products of square roots: these are rounded correctly
/// everywhere, and processors have an instruction for them.
pub(crate) fn power(value: f64, exponent: f64) -> f64 {
    let eighths = 8.0 * exponent;
    if eighths.fract() != 0.0 || !(1.0..=16.0).contains(&eighths) {
        return libm::pow(value, exponent);
    }
    let half = value.sqrt();
    let quarter = half.sqrt();
    let parts = [value * value, value, half, quarter, quarter.sqrt()];
    let (mut rest, mut product) = (eighths, 1.0);
    for (part, worth) in parts.into_iter().zip([16.0, 8.0, 4.0, 2.0, 1.0]) {
        if rest >= worth {
            rest -= worth;
            product *= part;
        }
    }
    product
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_the_general_power() {
        for value in [0.0, 1e-300, 1e-9, 0.3, 1.0, 7.5, 1e12] {
            for step in 0..200 {
                let exponent = f64::from(step) / 64.0;
                let (found, expected) = (power(value, exponent), libm::pow(value, exponent));
                assert!((found - expected).abs() <= 1e-14 * expected, "{value} {exponent}");
            }
        }
        assert!(power(f64::NAN, 0.5).is_nan());
    }
}
