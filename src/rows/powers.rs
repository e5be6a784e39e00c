//! Powers with the same bits on every machine.

/// Raises `value` to an integer power by repeated squaring.
pub(crate) fn integer_power(value: f64, exponent: u32) -> f64 {
    let mut square = value;
    let mut remaining = exponent;
    let mut product = 1.0;
    while remaining > 0 {
        if remaining % 2 == 1 {
            product *= square;
        }
        square *= square;
        remaining /= 2;
    }
    product
}

/// Raises `value` to the power of `exponent`. Both must be at least 0.
///
/// If the exponent is a multiple of 1/8 and at most 2, the power is a product of square roots.
/// Square roots are fast, and correctly rounded on every machine.
pub(crate) fn power(value: f64, exponent: f64) -> f64 {
    let eighths = 8.0 * exponent;
    if eighths.fract() != 0.0 || !(1.0..=16.0).contains(&eighths) {
        return libm::pow(value, exponent);
    }
    let half = value.sqrt();
    let quarter = half.sqrt();
    let parts = [value * value, value, half, quarter, quarter.sqrt()];
    let mut remaining = eighths;
    let mut product = 1.0;
    for (part, eighths) in parts.into_iter().zip([16.0, 8.0, 4.0, 2.0, 1.0]) {
        if remaining >= eighths {
            remaining -= eighths;
            product *= part;
        }
    }
    product
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integer_powers_equal_repeated_products() {
        for value in [0.0f64, -1.5, 0.3, 7.0] {
            let powers = (0..9).map(|exponent| integer_power(value, exponent));
            let products = std::iter::successors(Some(1.0), |product| Some(product * value));
            for (found, expected) in powers.zip(products) {
                assert!((found - expected).abs() <= 1e-14 * expected.abs(), "{value}");
            }
        }
        assert_eq!(integer_power(3.0, 2).to_bits(), 9f64.to_bits());
    }

    #[test]
    fn powers_agree_with_the_general_function() {
        for value in [0.0, 1e-300, 1e-9, 0.3, 1.0, 7.5, 1e12] {
            for step in 0..200 {
                let exponent = f64::from(step) / 64.0;
                let found = power(value, exponent);
                let expected = libm::pow(value, exponent);
                assert!((found - expected).abs() <= 1e-14 * expected, "{value} {exponent}");
            }
        }
        assert!(power(f64::NAN, 0.5).is_nan());
    }
}
