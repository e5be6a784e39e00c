//! The chart of `classify bench paper`: speed-up over the sequential algorithm.

use serde::Serialize;
use svg_chart::{Axis, Chart, Colors, Dot, Mark, Scale};

/// The seconds of an engine at each size; `None` if that size was not measured.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Line {
    pub(super) name: String,
    pub(super) engine: String,
    pub(super) seconds: Vec<Option<f64>>,
}

/// Draws the best speed-up of each algorithm over `BaseCSR` by number of documents, on two
/// logarithmic axes. If `BaseCSR` was not measured at a size, its time is extrapolated in
/// proportion to the number of documents.
pub(super) fn chart(sizes: &[usize], lines: &[Line]) -> String {
    let sequential = extrapolated(sizes, lines);
    let mut marks = Vec::new();
    let mut max_speedup = 10.0f64;
    for (class, (name, speedups)) in best_of_each(lines, &sequential).into_iter().enumerate() {
        let dots: Vec<Dot> = sizes
            .iter()
            .zip(speedups)
            .filter_map(|(&size, speedup)| {
                let text = format!("{name}: {:.1} ×", speedup?);
                Some(Dot { x: size as f64, y: speedup?, text })
            })
            .collect();
        max_speedup = dots.iter().map(|dot| dot.y).fold(max_speedup, f64::max);
        let points = dots.iter().map(|dot| (dot.x, dot.y)).collect();
        marks.push(Mark::Line { class, points, name: name.to_owned() });
        marks.push(Mark::Dots { class, points: dots });
    }
    let position = |size: Option<&usize>| size.map_or(1.0, |&size| size as f64);
    let from = position(sizes.first());
    let to = position(sizes.last());
    let x = Axis {
        marked: Some(sizes.iter().map(|&size| size as f64).collect()),
        ..Axis::new("documents", from, to, Scale::Logarithmic)
    };
    let decades = libm::ceil(libm::log10(max_speedup));
    let y = Axis {
        unit: " ×",
        ..Axis::new("speed-up", 1.0, libm::pow(10.0, decades), Scale::Logarithmic)
    };
    let title = "Speed-up over the sequential algorithm on one core";
    let chart = Chart { size: (760.0, 420.0), ..Chart::new(title, x, y, marks) };
    chart.svg(Colors::Own) + "\n"
}

/// The seconds of the first line (the sequential algorithm) at every size. Sizes that were not
/// measured are extrapolated.
fn extrapolated(sizes: &[usize], lines: &[Line]) -> Vec<f64> {
    let mut extrapolated = Vec::new();
    let mut last = 0.0;
    let mut last_size = 1;
    for (at, &size) in sizes.iter().enumerate() {
        if let Some(seconds) = lines.first().and_then(|line| line.seconds[at]) {
            last = seconds;
            last_size = size;
        }
        extrapolated.push(last * size as f64 / last_size as f64);
    }
    extrapolated
}

/// The highest speed-up of each algorithm's settings at each size.
fn best_of_each<'a>(lines: &'a [Line], sequential: &[f64]) -> Vec<(&'a str, Vec<Option<f64>>)> {
    let family = |name: &'a str| name.trim_end_matches(|c: char| c.is_ascii_digit() || c == 'x');
    let mut curves: Vec<(&str, Vec<Option<f64>>)> = Vec::new();
    for line in lines.iter().skip(1) {
        let speedups = line
            .seconds
            .iter()
            .zip(sequential)
            .map(|(seconds, sequential)| seconds.map(|seconds| sequential / seconds.max(1e-9)));
        let name = family(&line.name);
        match curves.iter_mut().find(|curve| curve.0 == name) {
            Some((_, best)) => {
                for (best, speedup) in best.iter_mut().zip(speedups) {
                    *best = match (*best, speedup) {
                        (Some(a), Some(b)) => Some(a.max(b)),
                        (a, b) => a.or(b),
                    };
                }
            }
            None => curves.push((name, speedups.collect())),
        }
    }
    curves
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_setting_is_drawn_over_the_sequential_time() {
        let line = |name: &str, seconds: &[Option<f64>]| Line {
            name: name.to_owned(),
            engine: String::new(),
            seconds: seconds.to_vec(),
        };
        let lines = [
            line("BaseCSR", &[Some(2.0), None]),
            line("Grid32x64", &[Some(1.0), Some(4.0)]),
            line("Grid64x64", &[Some(0.5), Some(5.0)]),
        ];
        let sequential = extrapolated(&[10, 100], &lines);
        assert_eq!(sequential, [2.0, 20.0]);
        let curves = best_of_each(&lines, &sequential);
        assert_eq!(curves, [("Grid", vec![Some(4.0), Some(5.0)])]);
        assert!(chart(&[10, 100], &lines).contains("Grid: 4.0 ×"));
    }
}
