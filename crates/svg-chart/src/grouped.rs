//! Grouped bar charts.

use crate::axis::Axis;
use crate::chart::{Bar, Chart, Mark};
use crate::text::{CHARACTER, LINE};

/// Width of a bar, in units of the view box.
const BAR: f64 = 16.0;
/// Width of the space between groups, in units of the view box.
const GAP: f64 = 26.0;
/// Height of the area inside the axes, in units of the view box.
const HEIGHT: f64 = 260.0;

/// A bar chart in which each group has one bar per series.
///
/// ```
/// use svg_chart::{Colors, GroupedBars};
///
/// let bars = GroupedBars {
///     title: "Time to build".into(),
///     unit: "seconds".into(),
///     groups: vec!["words".into(), "vectors".into()],
///     series: vec!["1 thread".into(), "2 threads".into()],
///     values: vec![vec![4.0, 2.1], vec![9.0, 4.7]],
/// };
/// assert_eq!(bars.chart().svg(Colors::Own).matches("class=\"bar c1\"").count(), 3);
/// ```
#[derive(Debug, Clone)]
pub struct GroupedBars {
    /// The title of the chart.
    pub title: String,
    /// The unit of the values.
    pub unit: String,
    /// The names of the groups.
    pub groups: Vec<String>,
    /// The names of the series.
    pub series: Vec<String>,
    /// The values, as `values[group][series]`. A value that was not measured is NaN and has no bar.
    pub values: Vec<Vec<f64>>,
}

impl GroupedBars {
    /// Returns the chart, which is as wide as its groups require. The bars of outliers are cut off.
    pub fn chart(&self) -> Chart {
        let x = Axis::groups(self.groups.clone());
        let y = Axis::from_zero(self.unit.clone(), self.values.iter().flatten().copied());
        let group_width = BAR * self.series.len() as f64 + GAP;
        let title_width = 1.3 * CHARACTER * self.title.chars().count() as f64 + 2.0 * LINE;
        let width = (5.0 * LINE + group_width * self.groups.len() as f64).max(title_width);
        let size = (width, HEIGHT + x.names_height() + 8.0 * LINE);
        let marks = (0..self.series.len()).map(|series| self.bars(series, group_width)).collect();
        Chart { size, ..Chart::new(self.title.clone(), x, y, marks) }
    }

    /// Returns the bars of a series. `group_width` is in units of the view box.
    fn bars(&self, series: usize, group_width: f64) -> Mark {
        let name = &self.series[series];
        let offset = (GAP / 2.0 + BAR * series as f64) / group_width;
        let groups = self.groups.iter().zip(&self.values).enumerate();
        let bars = groups.filter_map(|(group, (group_name, values))| {
            let height = *values.get(series)?;
            let text = format!("{group_name} {name}: {height:.4}");
            let from = group as f64 + offset;
            height.is_finite().then_some(Bar { from, to: from + BAR / group_width, height, text })
        });
        Mark::Bars { class: series, bars: bars.collect(), name: name.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Colors;

    fn svg(values: Vec<Vec<f64>>) -> String {
        let groups = (0..values.len()).map(|n| format!("SSS-Index r = {n}")).collect();
        let series = vec!["BulkCircular".to_owned()];
        let bars = GroupedBars {
            title: "A figure".into(),
            unit: "seconds".into(),
            groups,
            series,
            values,
        };
        bars.chart().svg(Colors::Own)
    }

    #[test]
    fn bars_of_outliers_are_cut() {
        let mut values: Vec<Vec<f64>> = (0..20).map(|n| vec![1.0 + f64::from(n) / 20.0]).collect();
        values[7] = vec![900.0];
        values[8] = vec![f64::NAN];
        let svg = svg(values);
        // The outlier does not shrink the other bars.
        let heights: Vec<f64> = svg
            .split("\"><title>")
            .filter_map(|before| before.rsplit_once("height=\"")?.1.parse().ok())
            .collect();
        assert_eq!(heights.len(), 19, "{svg}");
        assert!(
            heights.iter().all(|&height| height > 80.0 && height < 1.2 * HEIGHT),
            "{heights:?}"
        );
        assert!(svg.contains("class=\"cut\"") && svg.contains(">900 ↑<"), "{svg}");
    }

    /// The distance between names rotated by 45 degrees is more than the height of a line.
    #[test]
    fn names_do_not_overlap() {
        let svg = svg(vec![vec![1.0]; 6]);
        assert_eq!(svg.matches("rotate(-45").count(), 6, "{svg}");
        const { assert!((BAR + GAP) * 0.71 > 11.0 * 1.2) };
    }
}
