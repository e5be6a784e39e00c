//! Charts with their marks, legend and axes.

use std::fmt::Write as _;

use crate::axis::{Axis, format_number};
use crate::text::{LINE, escape, text_width};

/// Width of the color sample before a name in the legend, in units of the view box.
const SAMPLE: f64 = 14.0;

/// The source of the colors of a chart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colors {
    /// The style sheet of the page: classes `grid`, `diagonal`, `line`, `dot`, `bar`, and `c0`,
    /// `c1`, … for the colors.
    Page,
    /// The chart itself, on a white background. The colors can be distinguished in print and by
    /// color-blind readers (Okabe and Ito 2008).
    Own,
}

const OWN_COLORS: [&str; 6] = ["#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#000000"];

/// An element of a chart.
#[derive(Debug, Clone)]
pub enum Mark {
    /// A line through points. The legend shows lines that have a name.
    Line {
        /// Index of the color.
        class: usize,
        /// The points, in order.
        points: Vec<(f64, f64)>,
        /// The name in the legend; empty if the line is not in the legend.
        name: String,
    },
    /// Separate points.
    Dots {
        /// Index of the color.
        class: usize,
        /// The points.
        points: Vec<Dot>,
    },
    /// Bars that start at the lower end of the second axis. The legend shows bars that have a name.
    ///
    /// A bar that is higher than the axis is cut off, and its value is written inside the bar.
    Bars {
        /// Index of the color.
        class: usize,
        /// The bars.
        bars: Vec<Bar>,
        /// The name in the legend; empty if the bars are not in the legend.
        name: String,
    },
    /// The diagonal from the lower ends of both axes to their upper ends.
    Diagonal,
}

/// A point with a tooltip.
#[derive(Debug, Clone, PartialEq)]
pub struct Dot {
    /// The value on the first axis.
    pub x: f64,
    /// The value on the second axis.
    pub y: f64,
    /// The text of the tooltip.
    pub text: String,
}

/// A bar with a tooltip.
#[derive(Debug, Clone, PartialEq)]
pub struct Bar {
    /// The left end, on the first axis.
    pub from: f64,
    /// The right end, on the first axis.
    pub to: f64,
    /// The upper end, on the second axis.
    pub height: f64,
    /// The text of the tooltip.
    pub text: String,
}

/// A chart with its title, axes and marks.
#[derive(Debug, Clone)]
pub struct Chart {
    /// The title, for screen readers. With [`Colors::Own`], it is also written above the chart.
    pub title: String,
    /// Width and height in units of the view box. Text is 11 units high.
    pub size: (f64, f64),
    /// The first axis, from left to right.
    pub x: Axis,
    /// The second axis, from the bottom up.
    pub y: Axis,
    /// The elements of the chart, in the order in which they are drawn.
    pub marks: Vec<Mark>,
}

impl Chart {
    /// Creates a chart of 420 by 260 units.
    pub fn new(title: impl Into<String>, x: Axis, y: Axis, marks: Vec<Mark>) -> Self {
        Self { title: title.into(), size: (420.0, 260.0), x, y, marks }
    }

    /// Returns the chart as an SVG element.
    pub fn svg(&self, colors: Colors) -> String {
        let (width, height) = self.size;
        let title = escape(&self.title);
        let has_own_colors = colors == Colors::Own;
        let namespace = if has_own_colors { "xmlns=\"http://www.w3.org/2000/svg\" " } else { "" };
        let mut svg = format!(
            "<svg {namespace}viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{title}\">"
        );
        if has_own_colors {
            svg.push_str(&own_style());
            let _ = write!(
                svg,
                "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\
                 <text class=\"title\" x=\"{LINE}\" y=\"20\">{title}</text>"
            );
        }
        let legend = Legend::new(&self.marks, width);
        let above = if has_own_colors { 2.0 * LINE } else { 0.0 };
        let area = Area::new(self, above, &legend);
        legend.write(&mut svg, above + LINE);
        area.write_axes(&mut svg, height);
        for mark in &self.marks {
            area.write_mark(&mut svg, mark);
        }
        svg.push_str("</svg>");
        svg
    }
}

fn own_style() -> String {
    let mut style = "<style>svg{font:11px sans-serif}.title{font-size:14px}.grid{stroke:#ddd}\
         .diagonal{stroke:#888;stroke-dasharray:4 3}.line{fill:none;stroke-width:2}\
         .cut{fill:white}"
        .to_owned();
    for (class, color) in OWN_COLORS.iter().enumerate() {
        let _ = write!(
            style,
            ".line.c{class}{{stroke:{color}}}.dot.c{class},.bar.c{class}{{fill:{color}}}"
        );
    }
    style + "</style>"
}

/// The legend: the names of lines and bars, in rows that fit the width.
struct Legend {
    entries: Vec<LegendEntry>,
    rows: usize,
}

struct LegendEntry {
    name: String,
    class: usize,
    is_line: bool,
    /// The left end of the entry's sample.
    x: f64,
    row: usize,
}

impl Legend {
    fn new(marks: &[Mark], width: f64) -> Self {
        let mut legend = Self { entries: Vec::new(), rows: 0 };
        let mut x = LINE;
        for mark in marks {
            let (Mark::Line { class, name, .. } | Mark::Bars { class, name, .. }) = mark else {
                continue;
            };
            if name.is_empty() {
                continue;
            }
            let entry_width = SAMPLE + 4.0 + text_width(name) + LINE;
            if legend.rows == 0 || (x + entry_width > width && x > LINE) {
                legend.rows += 1;
                x = LINE;
            }
            let row = legend.rows - 1;
            let is_line = matches!(mark, Mark::Line { .. });
            legend.entries.push(LegendEntry { name: name.clone(), class: *class, is_line, x, row });
            x += entry_width;
        }
        legend
    }

    /// Writes the legend, with the baseline of its first row at `top`.
    fn write(&self, svg: &mut String, top: f64) {
        for LegendEntry { name, class, is_line, x, row } in &self.entries {
            let y = top + *row as f64 * LINE;
            let color = class % OWN_COLORS.len();
            let _ = if *is_line {
                write!(
                    svg,
                    "<line class=\"line c{color}\" x1=\"{x:.1}\" x2=\"{:.1}\" \
                     y1=\"{y1:.1}\" y2=\"{y1:.1}\"/>",
                    x + SAMPLE,
                    y1 = y - 4.0
                )
            } else {
                write!(
                    svg,
                    "<rect class=\"bar c{color}\" x=\"{x:.1}\" y=\"{:.1}\" \
                     width=\"{SAMPLE}\" height=\"9\"/>",
                    y - 9.0
                )
            };
            let x = x + SAMPLE + 4.0;
            let _ = write!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", escape(name));
        }
    }
}

/// The rectangle inside the axes, with the scales of both axes.
struct Area<'c> {
    x: &'c Axis,
    y: &'c Axis,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

impl<'c> Area<'c> {
    fn new(chart: &'c Chart, above: f64, legend: &Legend) -> Self {
        let (width, height) = chart.size;
        let widest = |axis: &Axis| {
            axis.ticks().iter().map(|tick| text_width(&tick.text)).fold(0.0, f64::max)
        };
        Self {
            x: &chart.x,
            y: &chart.y,
            // Space for the rotated name of the axis and the labels of its ticks. If there are
            // groups, the name of the first group begins to the left of the group.
            left: (LINE + 8.0 + widest(&chart.y)).max(chart.x.names_height()),
            // The right half of the last label of the first axis extends beyond the axis.
            right: width
                - if chart.x.has_names() { 12.0 } else { 12.0_f64.max(widest(&chart.x) / 2.0) },
            top: above + 10.0 + legend.rows as f64 * LINE,
            bottom: height - 2.0 * LINE - 12.0 - chart.x.names_height(),
        }
    }

    fn px(&self, value: f64) -> f64 {
        self.left + self.x.position(value) * (self.right - self.left)
    }

    fn py(&self, value: f64) -> f64 {
        self.bottom - self.y.position(value) * (self.bottom - self.top)
    }

    fn write_axes(&self, svg: &mut String, height: f64) {
        let Self { left, right, top, bottom, .. } = *self;
        for tick in self.x.ticks() {
            let at = self.px(tick.value);
            if self.x.has_names() {
                let _ = write!(
                    svg,
                    "<text transform=\"translate({at:.1} {:.1}) rotate(-45)\" \
                     text-anchor=\"end\">{}</text>",
                    bottom + LINE,
                    escape(&tick.text)
                );
                continue;
            }
            let _ = write!(
                svg,
                "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" \
                 y1=\"{top:.1}\" y2=\"{bottom:.1}\"/>\
                 <text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                bottom + LINE,
                escape(&tick.text)
            );
        }
        for tick in self.y.ticks() {
            let at = self.py(tick.value);
            let _ = write!(
                svg,
                "<line class=\"grid\" x1=\"{left:.1}\" x2=\"{right:.1}\" \
                 y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                left - 5.0,
                at + 4.0,
                escape(&tick.text)
            );
        }
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\
             <text transform=\"translate(11 {:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            f64::midpoint(left, right),
            height - 8.0,
            escape(&self.x.name),
            f64::midpoint(top, bottom),
            escape(&self.y.name)
        );
    }

    fn write_mark(&self, svg: &mut String, mark: &Mark) {
        match mark {
            Mark::Line { class, points, .. } => self.write_line(svg, *class, points),
            Mark::Dots { class, points } => {
                for dot in points {
                    self.write_dot(svg, *class, dot);
                }
            }
            Mark::Bars { class, bars, .. } => {
                for bar in bars {
                    self.write_bar(svg, *class, bar);
                }
            }
            Mark::Diagonal => {
                let Self { left, right, top, bottom, .. } = self;
                let _ = write!(
                    svg,
                    "<line class=\"diagonal\" x1=\"{left:.1}\" y1=\"{bottom:.1}\" \
                     x2=\"{right:.1}\" y2=\"{top:.1}\"/>"
                );
            }
        }
    }

    fn write_line(&self, svg: &mut String, class: usize, points: &[(f64, f64)]) {
        let drawn = points.iter().filter(|(x, y)| x.is_finite() && y.is_finite());
        let points: Vec<String> =
            drawn.map(|&(x, y)| format!("{:.1},{:.1}", self.px(x), self.py(y))).collect();
        let _ = write!(
            svg,
            "<polyline class=\"line c{}\" points=\"{}\"/>",
            class % OWN_COLORS.len(),
            points.join(" ")
        );
    }

    fn write_dot(&self, svg: &mut String, class: usize, dot: &Dot) {
        if !(dot.x.is_finite() && dot.y.is_finite()) {
            return;
        }
        let _ = write!(
            svg,
            "<circle class=\"dot c{}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.5\">\
             <title>{}</title></circle>",
            class % OWN_COLORS.len(),
            self.px(dot.x),
            self.py(dot.y),
            escape(&dot.text)
        );
    }

    fn write_bar(&self, svg: &mut String, class: usize, bar: &Bar) {
        if ![bar.from, bar.to, bar.height].iter().all(|value| value.is_finite()) {
            return;
        }
        // A gap of two units between adjacent bars.
        let start = self.px(bar.from) + 1.0;
        let end = self.px(bar.to) - 1.0;
        let top = self.py(bar.height);
        let _ = write!(
            svg,
            "<rect class=\"bar c{}\" x=\"{start:.1}\" y=\"{top:.1}\" \
             width=\"{:.1}\" height=\"{:.1}\"><title>{}</title></rect>",
            class % OWN_COLORS.len(),
            (end - start).max(0.0),
            (self.bottom - top).max(0.0),
            escape(&bar.text)
        );
        if bar.height > self.y.to {
            let _ = write!(
                svg,
                "<text class=\"cut\" transform=\"translate({:.1} {:.1}) rotate(-90)\" \
                 text-anchor=\"end\">{} ↑</text>",
                f64::midpoint(start, end) + 4.0,
                top + 4.0,
                format_number(bar.height)
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(name: &str) -> Mark {
        Mark::Line { class: 0, points: vec![(0.0, 0.0), (1.0, f64::NAN)], name: name.into() }
    }

    #[test]
    fn text_cannot_break_the_page() {
        let hostile = "</svg><script>\u{1}";
        let dot = Dot { x: 0.5, y: 0.5, text: hostile.into() };
        let bar = Bar { from: 0.0, to: 0.1, height: 0.2, text: hostile.into() };
        let marks = vec![
            Mark::Dots { class: 0, points: vec![dot] },
            Mark::Bars { class: 1, bars: vec![bar], name: hostile.into() },
            line(hostile),
        ];
        let chart = Chart::new(hostile, Axis::unit(hostile), Axis::unit(hostile), marks);
        for colors in [Colors::Page, Colors::Own] {
            let svg = chart.svg(colors);
            assert!(!svg.contains("<script>") && !svg.contains('\u{1}'));
            // The title for screen readers, two axes, a dot, a bar and two names. With its own
            // colors, a chart also has a visible title.
            let expected = if colors == Colors::Own { 8 } else { 7 };
            assert_eq!(svg.matches("&lt;/svg&gt;&lt;script&gt; ").count(), expected);
        }
    }

    /// The names in a legend stay inside the chart, and the plot area begins below them.
    #[test]
    fn legend_entries_do_not_overlap() {
        let names =
            ["micro F1", "a rather long name of a line", "x", "macro F1", "another long one"];
        let marks: Vec<Mark> = names.iter().map(|name| line(name)).collect();
        let legend = Legend::new(&marks, 300.0);
        assert!(legend.rows > 1 && legend.entries.len() == names.len());
        for pair in legend.entries.windows(2) {
            let end = pair[0].x + SAMPLE + 4.0 + text_width(&pair[0].name);
            assert!(end <= 300.0);
            assert!(pair[1].row > pair[0].row || end < pair[1].x, "{}", pair[1].name);
        }
        let chart = Chart::new("", Axis::unit("x"), Axis::unit("y"), marks);
        let legend = Legend::new(&chart.marks, chart.size.0);
        assert!(Area::new(&chart, 0.0, &legend).top > legend.rows as f64 * LINE);
        assert_eq!(Legend::new(&[line("")], 300.0).rows, 0);
    }

    #[test]
    fn axes_span_the_plot_area() {
        let chart = Chart::new("", Axis::unit("x"), Axis::unit("y"), Vec::new());
        let area = Area::new(&chart, 0.0, &Legend::new(&[], 420.0));
        assert!(
            (area.px(0.0) - area.left).abs() < 1e-9 && (area.px(1.0) - area.right).abs() < 1e-9
        );
        assert!(
            (area.py(0.0) - area.bottom).abs() < 1e-9 && (area.py(1.0) - area.top).abs() < 1e-9
        );
        assert!(!chart.svg(Colors::Page).contains("http"), "a page loads no other files");
        assert!(!Chart { marks: vec![line("n")], ..chart }.svg(Colors::Own).contains("NaN"));
    }
}
