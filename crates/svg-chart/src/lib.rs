//! Draws charts as SVG: axes with round ticks, lines, dots and bars, and a legend.
//!
//! With [`Colors::Page`], a chart takes its colors from the style sheet of its page, so it follows
//! the page's theme. With [`Colors::Own`], it defines its own colors, so it can be a separate file.
//! All text is escaped.
//!
//! ```
//! use svg_chart::{Axis, Chart, Colors, Mark};
//!
//! let line = Mark::Line { class: 0, points: vec![(0.0, 1.0), (1.0, 0.5)], name: "F1".into() };
//! let x = Axis::unit("threshold");
//! let chart = Chart::new("F1 by threshold", x, Axis::unit("F1"), vec![line]);
//! assert!(chart.svg(Colors::Page).starts_with("<svg "));
//! ```

mod axis;
mod chart;
mod grouped;
mod text;

pub use axis::{Axis, Scale};
pub use chart::{Bar, Chart, Colors, Dot, Mark};
pub use grouped::GroupedBars;
