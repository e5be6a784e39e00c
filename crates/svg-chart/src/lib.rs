//! Charts as SVG: axes with round ticks, lines, dots and bars, a legend.
//!
//! A chart in a page takes its colors from the page's style sheet ([`Colors::Page`]), so that it
//! follows the page's theme. A chart in a file of its own has its own colors ([`Colors::Own`]). All
//! text is escaped.
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
