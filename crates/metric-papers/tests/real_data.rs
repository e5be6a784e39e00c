//! Tests that a strategy with two threads returns the answers of brute force, on real data with
//! every index.
//!
//! Run it with `METRIC_DATA=FOLDER cargo test --release -p metric-papers --test real_data --
//! --ignored`. The folder contains `letter.csv` and `spanish-words.txt` (see
//! `metric-index/tests/real_data.rs`).

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::num::NonZero;
use std::path::PathBuf;

use metric_index::collector::Nearest;
use metric_index::index::{Index, Kind};
use metric_index::metric::{Edit, Euclidean, Metric};
use metric_index::points::{Points, Strings, Subset, Vectors};
use metric_papers::strategy::{Options, Strategy, run};

fn text(name: &str) -> String {
    let folder = std::env::var_os("METRIC_DATA").map(PathBuf::from);
    let path =
        folder.unwrap_or_else(|| panic!("METRIC_DATA is not set; set it to a folder")).join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn every_kind<S: Points>(points: &S, metric: &dyn Metric<S::Point>) {
    let some = (0..u32::try_from(points.len()).unwrap()).step_by(points.len() / 40).collect();
    let queries = Subset::new(points, some);
    let oracle = Kind::BruteForce.build(points, metric).unwrap();
    let options = Options::new(Strategy::BulkCircular, NonZero::new(2).unwrap());
    let boxes = metric.coordinates().map(|_| Kind::KdTree);
    for kind in Kind::of_any_metric().into_iter().chain(boxes) {
        let index = kind.build(points, metric).unwrap();
        let done = run(&index, &queries, |_| Nearest::new(10), &options).unwrap();
        for (query, answer) in (0..).zip(&done.answers) {
            let expected = oracle.nearest(queries.point(query), 10).unwrap();
            assert_eq!(answer.unwrap(), expected, "{kind}, query {query}");
        }
    }
}

#[test]
#[ignore = "needs METRIC_DATA"]
fn letters() {
    let text = text("letter.csv");
    let row =
        |line: &str| line.split(',').skip(1).map(|x| x.parse().unwrap()).collect::<Vec<f32>>();
    let points = Vectors::new(text.lines().skip(1).flat_map(row).collect(), 16).unwrap();
    every_kind(&points, &Euclidean);
}

#[test]
#[ignore = "needs METRIC_DATA"]
fn words() {
    let words: Strings = text("spanish-words.txt").lines().step_by(9).collect();
    every_kind(&words, &Edit);
}
