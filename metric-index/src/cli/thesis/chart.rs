//! Bars in groups, as SVG.

use std::fmt::Write;

/// A figure: for each group a bar of each series.
pub(super) struct Chart {
    pub(super) title: &'static str,
    pub(super) unit: &'static str,
    pub(super) groups: Vec<String>,
    pub(super) series: Vec<String>,
    /// By group, then by series; what was not measured is no number.
    pub(super) values: Vec<Vec<f64>>,
}

const COLORS: [&str; 6] = ["#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377"];
const HEIGHT: f64 = 260.0;
const BAR: f64 = 16.0;
const LEFT: f64 = 70.0;
const TOP: f64 = 64.0;
/// The mean width of a letter of 11 pixels.
const LETTER: f64 = 6.2;
/// A bar that is so many times as high as nine tenths of all is cut, and its value written beside it.
const OUTLIER: f64 = 3.0;

/// The values of an axis from 0.
#[derive(Debug, PartialEq)]
struct Axis {
    /// 1, 2 or 5 times a power of ten.
    step: f64,
    steps: u32,
    decimals: usize,
}

impl Axis {
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        let most = values.last().copied().unwrap_or(1.0);
        let usual = values.get((values.len() * 9 / 10).saturating_sub(1)).copied().unwrap_or(most);
        let most = if usual > 0.0 && most > OUTLIER * usual { 1.1 * usual } else { most };
        let most = if most > 0.0 { most } else { 1.0 };
        let power = (most / 5.0).log10().floor();
        let unit = 10f64.powf(power);
        let (factor, carry) = [(1.0, 0.0), (2.0, 0.0), (5.0, 0.0)]
            .into_iter()
            .find(|(factor, _)| factor * unit * 5.0 >= most * (1.0 - 1e-9))
            .unwrap_or((1.0, 1.0));
        let (power, step) = (power + carry, factor * unit * 10f64.powf(carry));
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 to 5")]
        let steps = (most / step - 1e-9).ceil().max(1.0) as u32;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 308")]
        let decimals = (-power).max(0.0) as usize;
        Self { step, steps, decimals }
    }

    fn top(&self) -> f64 {
        self.step * f64::from(self.steps)
    }
}

impl Chart {
    pub(super) fn svg(&self) -> String {
        let axis = Axis::of(self.values.iter().flatten().copied());
        let top = axis.top();
        let group = BAR * self.series.len() as f64 + 26.0;
        let longest = self.groups.iter().map(|name| name.chars().count()).max().unwrap_or(0);
        // Names of groups are turned by 45 degrees: as deep as they are wide.
        let depth = longest as f64 * LETTER * 0.71 + 24.0;
        let legend = |name: &str| 30.0 + LETTER * name.chars().count() as f64;
        let legends: f64 = self.series.iter().map(|name| legend(name)).sum();
        let heading = 9.0 * self.title.chars().count() as f64;
        let width =
            (LEFT + group * self.groups.len() as f64 + 20.0).max(legends).max(heading) + 20.0;
        let mut svg = String::new();
        let mut line = |text: String| {
            svg.push_str(&text);
            svg.push('\n');
        };
        line(format!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0}" height="{:.0}" font-family="sans-serif" font-size="11">"#,
            TOP + HEIGHT + depth + 26.0
        ));
        line(r#"<rect width="100%" height="100%" fill="white"/>"#.to_owned());
        line(format!(r#"<text x="10" y="20" font-size="14">{}</text>"#, escaped(self.title)));
        let mut x = 10.0;
        for (number, name) in self.series.iter().enumerate() {
            let color = COLORS[number % COLORS.len()];
            line(format!(r#"<rect x="{x:.0}" y="32" width="10" height="10" fill="{color}"/>"#));
            line(format!(r#"<text x="{:.0}" y="41">{}</text>"#, x + 14.0, escaped(name)));
            x += legend(name);
        }
        for step in 0..=axis.steps {
            let share = f64::from(step) / f64::from(axis.steps);
            let (value, y) = (axis.step * f64::from(step), TOP + HEIGHT * (1.0 - share));
            line(format!(r##"<path d="M{LEFT} {y:.1}H{:.0}" stroke="#ddd"/>"##, width - 10.0));
            line(format!(
                r#"<text x="{}" y="{:.1}" text-anchor="end">{value:.*}</text>"#,
                LEFT - 6.0,
                y + 4.0,
                axis.decimals
            ));
        }
        for (number, (name, values)) in self.groups.iter().zip(&self.values).enumerate() {
            let left = LEFT + 10.0 + group * number as f64;
            for (series, &value) in values.iter().enumerate().filter(|(_, value)| value.is_finite())
            {
                let height = HEIGHT * (value / top).clamp(0.0, 1.0);
                let x = left + BAR * series as f64;
                line(format!(
                    r#"<rect x="{x:.1}" y="{:.1}" width="{}" height="{height:.1}" fill="{}"><title>{} {}: {value:.4}</title></rect>"#,
                    TOP + HEIGHT - height,
                    BAR - 2.0,
                    COLORS[series % COLORS.len()],
                    escaped(name),
                    escaped(&self.series[series]),
                ));
                if value > top {
                    // Its value stands upright in the bar that is cut.
                    let (x, y) = (x + BAR / 2.0 + 2.0, TOP + 4.0);
                    line(format!(
                        r#"<text class="cut" x="{x:.1}" y="{y}" fill="white" text-anchor="end" transform="rotate(-90 {x:.1} {y})">{value:.*} ↑</text>"#,
                        axis.decimals
                    ));
                }
            }
            let (middle, y) = (left + BAR * values.len() as f64 / 2.0, TOP + HEIGHT + 14.0);
            line(format!(
                r#"<text x="{middle:.1}" y="{y}" text-anchor="end" transform="rotate(-45 {middle:.1} {y})">{}</text>"#,
                escaped(name)
            ));
        }
        line(format!(
            r#"<text x="10" y="{:.0}">{}</text></svg>"#,
            TOP + HEIGHT + depth + 16.0,
            escaped(self.unit)
        ));
        svg
    }

    /// The same numbers in columns.
    pub(super) fn text(&self) -> String {
        let mut text = format!("{} ({})\n{:24}", self.title, self.unit, "");
        for name in &self.series {
            let _ = write!(text, "{name:>15}");
        }
        for (name, values) in self.groups.iter().zip(&self.values) {
            let _ = write!(text, "\n{name:24}");
            for &value in values {
                let _ = match value {
                    value if value.is_nan() => write!(text, "{:>15}", "-"),
                    value if value >= 1_000.0 => write!(text, "{value:>15.0}"),
                    value => write!(text, "{value:>15.4}"),
                };
            }
        }
        text + "\n"
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round() {
        for (most, step, steps, decimals) in [
            (2.477, 0.5, 5, 1),
            (1.857, 0.5, 4, 1),
            (1.0, 0.2, 5, 1),
            (0.0, 0.2, 5, 1),
            (7_300.0, 2_000.0, 4, 0),
            (0.000_48, 0.000_1, 5, 4),
            (5.0, 1.0, 5, 0),
            (9.9, 2.0, 5, 0),
        ] {
            let axis = Axis::of([most / 2.0, most].into_iter());
            assert!((axis.step - step).abs() < step * 1e-9, "{most}: {axis:?}");
            assert_eq!((axis.steps, axis.decimals), (steps, decimals), "{most}: {axis:?}");
            assert!(axis.top() >= most * (1.0 - 1e-9));
        }
        assert_eq!(Axis::of([f64::NAN].into_iter()), Axis::of([1.0].into_iter()));
    }

    fn chart(values: Vec<Vec<f64>>) -> String {
        let groups = (0..values.len()).map(|n| format!("SSS-Index r = {n}")).collect();
        let series = vec!["BulkCircular".to_owned()];
        Chart { title: "A figure", unit: "seconds", groups, series, values }.svg()
    }

    #[test]
    fn an_outlier_flattens_nothing() {
        let mut values: Vec<Vec<f64>> = (0..20).map(|n| vec![1.0 + f64::from(n) / 20.0]).collect();
        values[7] = vec![900.0];
        let svg = chart(values);
        // The lowest bar stays half as high as the highest.
        let heights: Vec<f64> = svg
            .split(r##"fill="#4477aa"><title>"##)
            .filter_map(|before| before.rsplit_once("height=\"")?.1.split('"').next()?.parse().ok())
            .collect();
        assert_eq!(heights.len(), 20, "{svg}");
        assert!(heights.iter().all(|&height| height > 80.0 && height <= HEIGHT), "{heights:?}");
        assert!(svg.contains("class=\"cut\"") && svg.contains(">900.0 ↑<"), "{svg}");
    }

    /// Turned by 45 degrees, names are a line's height apart if their groups are.
    #[test]
    fn names_do_not_overlap() {
        let svg = chart(vec![vec![1.0]; 6]);
        assert_eq!(svg.matches("rotate(-45").count(), 6, "{svg}");
        const { assert!((BAR + 26.0) * 0.71 > 11.0 * 1.2) };
    }
}
