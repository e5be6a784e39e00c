//! Charts as SVG. Colors come from the page's style, so that they follow its theme.

use std::fmt::Write as _;

/// The size of a chart, and the room around its area.
const WIDTH: f64 = 420.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 46.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 24.0;
const BOTTOM: f64 = 40.0;

/// How values lie along an axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Scale {
    Linear,
    /// In powers of ten; values are above 0.
    Logarithmic,
}

#[derive(Debug, Clone)]
pub(super) struct Axis {
    pub(super) name: &'static str,
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) scale: Scale,
}

impl Axis {
    /// From 0 to 1.
    pub(super) fn unit(name: &'static str) -> Self {
        Self { name, from: 0.0, to: 1.0, scale: Scale::Linear }
    }

    /// Where a value lies, from 0 to 1.
    fn place(&self, value: f64) -> f64 {
        let map = |value: f64| match self.scale {
            Scale::Linear => value,
            Scale::Logarithmic => libm::log10(value.max(f64::MIN_POSITIVE)),
        };
        let (from, to) = (map(self.from), map(self.to));
        if to > from { ((map(value) - from) / (to - from)).clamp(0.0, 1.0) } else { 0.5 }
    }

    fn ticks(&self) -> Vec<f64> {
        match self.scale {
            Scale::Linear => {
                (0..=5).map(|at| self.from + (self.to - self.from) * f64::from(at) / 5.0).collect()
            }
            Scale::Logarithmic => {
                let powers = (0..12).map(|power| libm::pow(10.0, f64::from(power)));
                powers.filter(|&tick| tick >= self.from && tick <= self.to).collect()
            }
        }
    }
}

/// What is drawn, as the style's class of that number colors it.
#[derive(Debug, Clone)]
pub(super) enum Mark {
    /// A line through points.
    Line { class: usize, points: Vec<(f64, f64)>, name: &'static str },
    /// Points with what they say when they are pointed at.
    Dots { class: usize, points: Vec<(f64, f64, String)> },
    /// Bars from a value of the first axis to another, of a height.
    Bars { class: usize, bars: Vec<(f64, f64, f64, String)> },
    /// The line of equal values.
    Diagonal,
}

/// The chart as an SVG element.
pub(super) fn plot(title: &str, x: &Axis, y: &Axis, marks: &[Mark]) -> String {
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">",
        escape(title)
    );
    let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    let px = |value: f64| LEFT + x.place(value) * (right - LEFT);
    let py = |value: f64| bottom - y.place(value) * (bottom - TOP);
    for tick in x.ticks() {
        let at = px(tick);
        let _ = write!(
            svg,
            "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{bottom}\"/>\
             <text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            bottom + 14.0,
            number(tick)
        );
    }
    for tick in y.ticks() {
        let at = py(tick);
        let _ = write!(
            svg,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 5.0,
            at + 4.0,
            number(tick)
        );
    }
    let _ = write!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\
         <text transform=\"translate(11 {:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
        f64::midpoint(LEFT, right),
        HEIGHT - 8.0,
        x.name,
        f64::midpoint(TOP, bottom),
        y.name
    );
    let mut named = 0.0;
    for mark in marks {
        match mark {
            Mark::Line { class, points, name } => {
                let points: Vec<String> =
                    points.iter().map(|&(a, b)| format!("{:.1},{:.1}", px(a), py(b))).collect();
                let _ = write!(
                    svg,
                    "<polyline class=\"line c{class}\" points=\"{}\"/>",
                    points.join(" ")
                );
                if !name.is_empty() {
                    let at = LEFT + 8.0 + named * 100.0;
                    let _ = write!(
                        svg,
                        "<line class=\"line c{class}\" x1=\"{at:.1}\" x2=\"{:.1}\" y1=\"{y1}\" y2=\"{y1}\"/>\
                         <text x=\"{:.1}\" y=\"{:.1}\">{name}</text>",
                        at + 14.0,
                        at + 18.0,
                        TOP - 10.0,
                        y1 = TOP - 14.0
                    );
                    named += 1.0;
                }
            }
            Mark::Dots { class, points } => {
                for (a, b, says) in points {
                    let _ = write!(
                        svg,
                        "<circle class=\"dot c{class}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.5\"><title>{}</title></circle>",
                        px(*a),
                        py(*b),
                        escape(says)
                    );
                }
            }
            Mark::Bars { class, bars } => {
                for (from, to, height, says) in bars {
                    let (start, end, top) = (px(*from) + 1.0, px(*to) - 1.0, py(*height));
                    let _ = write!(
                        svg,
                        "<rect class=\"bar c{class}\" x=\"{start:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\"><title>{}</title></rect>",
                        (end - start).max(0.0),
                        (bottom - top).max(0.0),
                        escape(says)
                    );
                }
            }
            Mark::Diagonal => {
                let _ = write!(
                    svg,
                    "<line class=\"diagonal\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"/>",
                    px(x.from),
                    py(y.from),
                    px(x.to),
                    py(y.to)
                );
            }
        }
    }
    svg.push_str("</svg>");
    svg
}

/// A number for an axis.
fn number(value: f64) -> String {
    if value >= 1_000.0 {
        format!("{}k", value / 1_000.0)
    } else {
        let text = format!("{value:.2}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

/// Text inside markup.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            // XML has no other control characters.
            c if c.is_control() => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places() {
        let axis = Axis { name: "n", from: 1.0, to: 1_000.0, scale: Scale::Logarithmic };
        assert!((axis.place(10.0) - 1.0 / 3.0).abs() < 1e-12);
        assert_eq!(axis.ticks(), [1.0, 10.0, 100.0, 1_000.0]);
        assert_eq!(["0.2", "3k", "0"], [0.2, 3_000.0, 0.0].map(number));
        let one = Axis { name: "n", from: 5.0, to: 5.0, scale: Scale::Linear };
        assert!((one.place(5.0) - 0.5).abs() < 1e-12);
    }

    #[test]
    fn labels_cannot_break_the_page() {
        let dots = Mark::Dots { class: 0, points: vec![(0.5, 0.5, "</svg><script>\u{1}".into())] };
        let svg = plot("a \"b\"", &Axis::unit("x"), &Axis::unit("y"), &[dots]);
        assert!(!svg.contains("<script>") && svg.contains("&lt;/svg&gt;&lt;script&gt; "));
    }
}
