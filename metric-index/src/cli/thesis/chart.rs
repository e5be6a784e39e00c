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

impl Chart {
    pub(super) fn svg(&self) -> String {
        let most = self.values.iter().flatten().copied().filter(|value| value.is_finite());
        let most = most.fold(f64::MIN_POSITIVE, f64::max);
        let group = BAR * self.series.len() as f64 + 26.0;
        let width = (LEFT + group * self.groups.len() as f64 + 20.0).max(420.0);
        let mut svg = String::new();
        let mut line = |text: String| {
            svg.push_str(&text);
            svg.push('\n');
        };
        line(format!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{}" font-family="sans-serif" font-size="11">"#,
            TOP + HEIGHT + 46.0
        ));
        line(r#"<rect width="100%" height="100%" fill="white"/>"#.to_owned());
        line(format!(r#"<text x="10" y="20" font-size="14">{}</text>"#, escaped(self.title)));
        for (number, name) in self.series.iter().enumerate() {
            let (x, color) = (10.0 + 120.0 * number as f64, COLORS[number % COLORS.len()]);
            line(format!(r#"<rect x="{x}" y="32" width="10" height="10" fill="{color}"/>"#));
            line(format!(r#"<text x="{}" y="41">{}</text>"#, x + 14.0, escaped(name)));
        }
        for step in 0..=4 {
            let (value, y) =
                (most * f64::from(step) / 4.0, TOP + HEIGHT * (1.0 - f64::from(step) / 4.0));
            line(format!(r##"<path d="M{LEFT} {y}H{}" stroke="#ddd"/>"##, width - 10.0));
            let label = format!("{value:.3e}");
            let label =
                if (0.01..10_000.0).contains(&most) { format!("{value:.3}") } else { label };
            line(format!(
                r#"<text x="{}" y="{}" text-anchor="end">{label}</text>"#,
                LEFT - 6.0,
                y + 4.0
            ));
        }
        for (number, (name, values)) in self.groups.iter().zip(&self.values).enumerate() {
            let x = LEFT + 10.0 + group * number as f64;
            for (series, &value) in values.iter().enumerate().filter(|(_, value)| value.is_finite())
            {
                let height = HEIGHT * value / most;
                line(format!(
                    r#"<rect x="{:.1}" y="{:.1}" width="{}" height="{height:.1}" fill="{}"><title>{} {}: {value:.4}</title></rect>"#,
                    x + BAR * series as f64,
                    TOP + HEIGHT - height,
                    BAR - 2.0,
                    COLORS[series % COLORS.len()],
                    escaped(name),
                    escaped(&self.series[series]),
                ));
            }
            let middle = x + BAR * values.len() as f64 / 2.0;
            line(format!(
                r#"<text x="{middle}" y="{}" text-anchor="middle">{}</text>"#,
                TOP + HEIGHT + 16.0,
                escaped(name)
            ));
        }
        line(format!(
            r#"<text x="10" y="{}">{}</text></svg>"#,
            TOP + HEIGHT + 38.0,
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
