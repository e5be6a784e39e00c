//! Axes and their ticks.

use crate::text::text_width;

/// [`Axis::from_zero`] ignores values that exceed the 90th percentile by more than this factor.
const OUTLIER_FACTOR: f64 = 3.0;

/// The spacing of values along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Values are spaced evenly.
    Linear,
    /// Values are spaced by their logarithms. Both ends of the axis must be above 0.
    Logarithmic,
}

/// An axis of a chart.
#[derive(Debug, Clone)]
pub struct Axis {
    /// The name of the quantity, written next to the axis.
    pub name: String,
    /// Value at the lower end.
    pub from: f64,
    /// Value at the upper end.
    pub to: f64,
    /// How values are spaced.
    pub scale: Scale,
    /// Text that follows the number of each tick, such as ` ×`.
    pub unit: &'static str,
    /// The values that get a tick, or `None` for ticks at round numbers.
    pub marked: Option<Vec<f64>>,
    /// The names of groups, which replace the ticks. Group `g` spans the values `g` to `g + 1`.
    /// Empty if the axis has no groups.
    pub groups: Vec<String>,
}

/// A value on an axis, with its label.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tick {
    pub(super) value: f64,
    pub(super) text: String,
}

impl Axis {
    /// Creates an axis from 0 to 1.
    pub fn unit(name: impl Into<String>) -> Self {
        Self::new(name, 0.0, 1.0, Scale::Linear)
    }

    /// Creates an axis between two values, with ticks at round numbers.
    pub fn new(name: impl Into<String>, from: f64, to: f64, scale: Scale) -> Self {
        Self { name: name.into(), from, to, scale, unit: "", marked: None, groups: Vec::new() }
    }

    /// Creates an axis of named groups.
    pub fn groups(groups: Vec<String>) -> Self {
        let to = groups.len() as f64;
        Self { groups, ..Self::new("", 0.0, to, Scale::Linear) }
    }

    /// Creates an axis from 0 to a round number that is not below any value except outliers.
    ///
    /// Values that are not finite are ignored.
    pub fn from_zero(name: impl Into<String>, values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        let max = values.last().copied().unwrap_or(0.0);
        let rank = (values.len() * 9 / 10).saturating_sub(1);
        let typical = values.get(rank).copied().unwrap_or(max);
        let max = if typical > 0.0 && max > OUTLIER_FACTOR * typical { 1.1 * typical } else { max };
        let max = if max > 0.0 { max } else { 1.0 };
        let step = round_step(max);
        Self::new(name, 0.0, step * libm::ceil(max / step - 1e-9), Scale::Linear)
    }

    pub(super) fn has_names(&self) -> bool {
        !self.groups.is_empty()
    }

    /// Returns the height of the group names, which are rotated by 45 degrees.
    pub(super) fn names_height(&self) -> f64 {
        self.groups.iter().map(|name| text_width(name) * 0.71).fold(0.0, f64::max)
    }

    /// Returns the position of a value, from 0 to 1. Values beyond an end of the axis are clamped
    /// to that end.
    pub(super) fn position(&self, value: f64) -> f64 {
        let map = |value: f64| match self.scale {
            Scale::Linear => value,
            Scale::Logarithmic => libm::log10(value.max(f64::MIN_POSITIVE)),
        };
        let from = map(self.from);
        let to = map(self.to);
        if to > from { ((map(value) - from) / (to - from)).clamp(0.0, 1.0) } else { 0.5 }
    }

    /// Returns the ticks in increasing order.
    pub(super) fn ticks(&self) -> Vec<Tick> {
        if self.has_names() {
            let centers = (0..self.groups.len()).map(|group| group as f64 + 0.5);
            let ticks = centers.zip(&self.groups);
            return ticks.map(|(value, name)| Tick { value, text: name.clone() }).collect();
        }
        let values = match (&self.marked, self.scale) {
            (Some(marked), _) => marked.clone(),
            (None, Scale::Linear) => linear_ticks(self.from, self.to),
            (None, Scale::Logarithmic) => logarithmic_ticks(self.from, self.to),
        };
        let tick = |value| Tick { value, text: format_number(value) + self.unit };
        values.into_iter().map(tick).collect()
    }
}

/// Returns two to six multiples of a round step between two values.
fn linear_ticks(from: f64, to: f64) -> Vec<f64> {
    let span = to - from;
    if !(span > 0.0 && span.is_finite()) {
        return vec![from];
    }
    let step = round_step(span);
    let first = libm::ceil(from / step - 1e-9);
    let ticks = (0..12).map(|index| (first + f64::from(index)) * step);
    ticks.take_while(|&tick| tick <= to + step * 1e-9).collect()
}

/// Returns the smallest number of the form 1, 2 or 5 times 10ⁿ that divides a span into at most
/// five steps.
fn round_step(span: f64) -> f64 {
    let power = libm::floor(libm::log10(span / 5.0));
    let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * libm::pow(10.0, power));
    steps.into_iter().find(|step| span / step <= 5.0 + 1e-9).unwrap_or(span)
}

/// Returns at most nine powers of ten between two values above 0. If the values span at most two
/// powers, also returns 2 and 5 times each power.
fn logarithmic_ticks(from: f64, to: f64) -> Vec<f64> {
    let from = from.max(f64::MIN_POSITIVE);
    if !(to > from && to.is_finite()) {
        return vec![from];
    }
    let low = libm::floor(libm::log10(from));
    let high = libm::ceil(libm::log10(to));
    let every = libm::ceil((high - low) / 8.0).max(1.0);
    let factors: &[f64] = if high - low > 2.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
    let mut ticks = Vec::new();
    let mut power = low;
    while power <= high {
        let values = factors.iter().map(|factor| factor * libm::pow(10.0, power));
        // `pow` may return a power of ten that is slightly off.
        ticks.extend(
            values.filter(|tick| *tick >= from * (1.0 - 1e-12) && *tick <= to * (1.0 + 1e-12)),
        );
        power += every;
    }
    ticks
}

/// Formats a number with about three digits: `0.25`, `40`, `3k`, `1.5M`.
pub(super) fn format_number(value: f64) -> String {
    let (value, suffix) = match value.abs() {
        size if size >= 1e6 => (value / 1e6, "M"),
        size if size >= 1e3 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let decimals = match value.abs() {
        size if size >= 0.1 || size <= 0.0 => 2,
        size if size >= 1e-4 => 5,
        _ => return format!("{value:.0e}"),
    };
    let text = format!("{value:.decimals$}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{}{suffix}", if text == "-0" { "0" } else { text })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<String> {
        axis.ticks().into_iter().map(|tick| tick.text).collect()
    }

    #[test]
    fn positions() {
        let axis = Axis::new("n", 1.0, 1_000.0, Scale::Logarithmic);
        assert!((axis.position(10.0) - 1.0 / 3.0).abs() < 1e-12);
        assert!(axis.position(0.0) <= 0.0 && axis.position(1e9) >= 1.0);
        let one = Axis::new("n", 5.0, 5.0, Scale::Linear);
        assert!((one.position(5.0) - 0.5).abs() < 1e-12);
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(labels(&Axis::unit("")), ["0", "0.2", "0.4", "0.6", "0.8", "1"]);
        let linear = |from, to| labels(&Axis::new("", from, to, Scale::Linear));
        assert_eq!(linear(0.0, 7.43), ["0", "2", "4", "6"]);
        assert_eq!(linear(0.3, 2.477), ["0.5", "1", "1.5", "2"]);
        assert_eq!(linear(-1.0, 1.0), ["-1", "-0.5", "0", "0.5", "1"]);
        assert_eq!(linear(0.0, 12_000.0), ["0", "5k", "10k"]);
        assert_eq!(linear(4.0, 4.0), ["4"]);
        assert_eq!(linear(0.0, 0.004), ["0", "0.001", "0.002", "0.003", "0.004"]);
        let log = |from, to| labels(&Axis::new("", from, to, Scale::Logarithmic));
        assert_eq!(log(1.0, 3_713.0), ["1", "10", "100", "1k"]);
        assert_eq!(log(1.0, 60.0), ["1", "2", "5", "10", "20", "50"]);
        assert_eq!(log(1.0, 1.0), ["1"]);
        let wide = log(1.0, 1e30);
        assert!(wide.len() > 3 && wide.len() <= 9, "{wide:?}");
        let marked = Axis { marked: Some(vec![781_265.0]), unit: " ×", ..Axis::unit("") };
        assert_eq!(labels(&marked), ["781.26k ×"]);
    }

    #[test]
    fn axes_from_zero() {
        for (max, to) in [
            (2.477, 2.5),
            (1.857, 2.0),
            (1.0, 1.0),
            (7_300.0, 8_000.0),
            (0.000_48, 0.000_5),
            (9.9, 10.0),
        ] {
            let axis = Axis::from_zero("", [max / 2.0, f64::NAN, max]);
            assert!((axis.to - to).abs() < to * 1e-9, "{max}: {}", axis.to);
            assert!(axis.ticks().len() > 2, "{max}");
        }
        // Without a value above 0, the axis ends at 1.
        assert!((Axis::from_zero("", [0.0, f64::NAN]).to - 1.0).abs() < 1e-9);
        // An outlier among many values does not extend the axis.
        let values = (0..20).map(|index| if index == 7 { 900.0 } else { 1.0 });
        assert!(Axis::from_zero("", values).to < 2.0);
    }

    #[test]
    fn unusual_ends_have_few_ticks() {
        for (from, to) in [
            (f64::NAN, 1.0),
            (0.0, f64::INFINITY),
            (2.0, 1.0),
            (0.0, f64::MIN_POSITIVE),
            (1e300, 1e301),
            (-1e308, 1e308),
        ] {
            for scale in [Scale::Linear, Scale::Logarithmic] {
                assert!(Axis::new("", from, to, scale).ticks().len() < 13, "{from} {to}");
            }
        }
    }
}
