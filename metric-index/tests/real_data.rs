//! Compares every index with brute force on real data. Run
//! `METRIC_DATA=FOLDER cargo test --release -p metric-index --test real_data -- --ignored`. A
//! missing file is an error. The folder contains:
//!
//! * `letter.csv`: UCI letter recognition, 20,000 rows of 16 small integers, 1,332 of them
//!   duplicates,
//! * `final8_10K.txt` and `final8_query1K.txt`: histograms of 8 values,
//! * `dna.txt` and `spanish-words.txt`: one string per line.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::HashSet;
use std::path::PathBuf;

use metric_index::collector::{Nearest, Within};
use metric_index::index::{AnyIndex, BruteForce, Index, Kind};
use metric_index::metric::{Chebyshev, CountingMetric, Edit, Euclidean, Manhattan, Metric};
use metric_index::points::{Points, Strings, Vectors};

fn text(name: &str) -> String {
    let folder = std::env::var_os("METRIC_DATA").map(PathBuf::from);
    let path =
        folder.unwrap_or_else(|| panic!("METRIC_DATA is not set; set it to a folder")).join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn letters() -> Vectors<f32> {
    let text = text("letter.csv");
    let row =
        |line: &str| line.split(',').skip(1).map(|x| x.parse().unwrap()).collect::<Vec<f32>>();
    Vectors::new(text.lines().skip(1).flat_map(row).collect(), 16).unwrap()
}

fn histograms(name: &str) -> Vectors<f32> {
    Vectors::new(text(name).split_whitespace().map(|x| x.parse().unwrap()).collect(), 8).unwrap()
}

/// One type for the indexes of all metrics, so that each index is compiled once.
type BuiltIndex<'a, S> = AnyIndex<&'a S, &'a dyn Metric<<S as Points>::Point>>;

/// Compares an index with the oracle on a sample of the queries.
fn assert_agrees<'a, S: Points>(
    index: &BuiltIndex<'a, S>,
    oracle: &BuiltIndex<'a, S>,
    queries: &S,
    radii: &[f32],
) {
    let sample: Vec<u32> =
        (0..u32::try_from(queries.len()).unwrap()).step_by(queries.len() / 40).collect();
    for &query in &sample {
        let query = queries.point(query);
        for k in [1, 10, 100] {
            assert_eq!(index.nearest(query, k).unwrap(), oracle.nearest(query, k).unwrap());
        }
        for &radius in radii {
            assert_eq!(index.within(query, radius).unwrap(), oracle.within(query, radius).unwrap());
        }
    }
}

fn check_every_kind<S: Points>(
    points: &S,
    metric: &dyn Metric<S::Point>,
    queries: &S,
    radii: &[f32],
) {
    // The oracle measures one distance at a time, without blocks.
    let plain = CountingMetric::new(metric);
    let oracle = Kind::BruteForce.build(points, &plain as &dyn Metric<S::Point>).unwrap();
    let kd_tree = metric.coordinates().map(|_| Kind::KdTree);
    for kind in Kind::of_any_metric().into_iter().chain(kd_tree) {
        assert_agrees(&kind.build(points, metric).unwrap(), &oracle, queries, radii);
    }
}

#[test]
#[ignore = "needs METRIC_DATA"]
fn letters_with_duplicates() {
    let points = letters();
    let count = u32::try_from(points.len()).unwrap();
    let rows: Vec<Vec<u32>> =
        (0..count).map(|row| points.point(row).iter().map(|x| x.to_bits()).collect()).collect();
    let distinct: HashSet<&Vec<u32>> = rows.iter().collect();
    assert_eq!((rows.len(), distinct.len()), (20_000, 18_668));
    check_every_kind(&points, &Euclidean, &points, &[0.0, 1.0, 2.5]);
    check_every_kind(&points, &Manhattan, &points, &[0.0, 3.0]);
    check_every_kind(&points, &Chebyshev, &points, &[0.0, 1.0]);
    let oracle = BruteForce::new(&points, Euclidean).unwrap();
    let few = Vectors::new(points.values()[..16 * 300].to_vec(), 16).unwrap();
    let nearest = oracle.batch(&few, |_| Nearest::new(20));
    let within = oracle.batch(&few, |_| Within::new(2.0));
    for query in 0..300u32 {
        let index = query as usize;
        assert_eq!(nearest.get(index).map(<[_]>::to_vec), oracle.nearest(few.point(query), 20));
        assert_eq!(within.get(index).map(<[_]>::to_vec), oracle.within(few.point(query), 2.0));
    }
}

#[test]
#[ignore = "needs METRIC_DATA"]
fn histograms_of_topics() {
    let points = histograms("final8_10K.txt");
    let queries = histograms("final8_query1K.txt");
    check_every_kind(&points, &Euclidean, &queries, &[0.05, 0.2]);
}

#[test]
#[ignore = "needs METRIC_DATA"]
fn strings() {
    let lines = |name: &str, step: usize| text(name).lines().step_by(step).collect::<Strings>();
    let dna = lines("dna.txt", 4);
    check_every_kind(&dna, &Edit, &dna, &[3.0, 10.0]);
    let words = lines("spanish-words.txt", 9);
    check_every_kind(&words, &Edit, &words, &[1.0, 2.0]);
}
