//! The chart of `classify bench paper`: how many times as fast as the sequential algorithm.

use std::fmt::Write as _;

use super::paper::Line;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 170.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;
/// Colors that are told apart in print and by the color-blind (Okabe and Ito 2008).
const COLORS: [&str; 6] = ["#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#000000"];

/// Speed-ups over `BaseCSR` against documents, both logarithmic: the best setting of each algorithm. The
/// sequential time of sizes that were left out is taken to grow with the documents.
pub(super) fn chart(sizes: &[usize], lines: &[Line]) -> String {
    let sequential = extended(sizes, lines);
    let curves = best_of_each(lines, &sequential);
    let speedups = || curves.iter().flat_map(|(_, speedups)| speedups.iter().flatten().copied());
    let most = speedups().fold(10.0, f64::max);
    let decades = libm::ceil(libm::log10(most)).max(1.0);
    let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    let last = sizes.len().saturating_sub(1).max(1) as f64;
    let px = |at: usize| LEFT + at as f64 / last * (right - LEFT);
    let py = |speedup: f64| {
        bottom - (libm::log10(speedup.max(1.0)) / decades).clamp(0.0, 1.0) * (bottom - TOP)
    };
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n<text x=\"{LEFT}\" y=\"22\" font-size=\"14\">Speed-up over the sequential algorithm on one core</text>\n"
    );
    let mut tick = 1.0;
    while tick <= libm::pow(10.0, decades) * 1.001 {
        let y = py(tick);
        let _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#ddd\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{tick} ×</text>",
            LEFT - 6.0,
            y + 4.0
        );
        tick *= 10.0;
    }
    for (at, size) in sizes.iter().enumerate() {
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{size}</text>",
            px(at),
            bottom + 18.0
        );
    }
    let _ = writeln!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">documents</text>",
        f64::midpoint(LEFT, right),
        bottom + 38.0
    );
    for (number, (name, speedups)) in curves.iter().enumerate() {
        let color = COLORS[number % COLORS.len()];
        let places = speedups
            .iter()
            .enumerate()
            .filter_map(|(at, &speedup)| speedup.map(|speedup| (px(at), py(speedup), speedup)));
        let places: Vec<(f64, f64, f64)> = places.collect();
        let points: Vec<String> = places.iter().map(|(x, y, _)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(
            svg,
            "<polyline fill=\"none\" stroke=\"{color}\" stroke-width=\"2\" points=\"{}\"/>",
            points.join(" ")
        );
        for (x, y, speedup) in &places {
            let _ = writeln!(
                svg,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{color}\"><title>{name}: {speedup:.1} ×</title></circle>"
            );
        }
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" fill=\"{color}\">{name}</text>",
            right + 14.0,
            TOP + 18.0 * number as f64
        );
    }
    svg.push_str("</svg>\n");
    svg
}

/// The seconds of the first line, the sequential one, at every size.
fn extended(sizes: &[usize], lines: &[Line]) -> Vec<f64> {
    let mut extended = Vec::new();
    let (mut last, mut last_size) = (0.0, 1);
    for (at, &size) in sizes.iter().enumerate() {
        if let Some(seconds) = lines.first().and_then(|line| line.seconds[at]) {
            (last, last_size) = (seconds, size);
        }
        extended.push(last * size as f64 / last_size as f64);
    }
    extended
}

/// For each algorithm the highest speed-up of its settings at each size.
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
        let sequential = extended(&[10, 100], &lines);
        assert_eq!(sequential, [2.0, 20.0]);
        let curves = best_of_each(&lines, &sequential);
        assert_eq!(curves, [("Grid", vec![Some(4.0), Some(5.0)])]);
        assert!(chart(&[10, 100], &lines).contains("Grid: 4.0 ×"));
    }
}
