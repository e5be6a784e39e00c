//! Measures the distance evaluations and the time of every index on one thread, relative to brute
//! force.
//!
//! `cargo bench -p metric-index --bench evaluations -- words FILE` reads one word per line. A
//! hundred words are held out as queries, half of them with one letter changed. With
//! `-- clustered [N]`, the benchmark generates N vectors of 20 dimensions around 200 centers (by
//! default 120,000, as in Barrientos 2011).

#![expect(clippy::print_stdout, reason = "a benchmark prints its results")]

use std::time::Instant;

use metric_index::collector::{Collector, Nearest, Within};
use metric_index::generate::{clustered, held_out};
use metric_index::index::{
    BruteForce, ClusterSize, Egnat, EgnatOptions, Index, KdTree, ListOfClusters, MTree, Pivots,
    SssIndex, SssTree, VpTree, search,
};
use metric_index::metric::{Edit, Euclidean, Metric};
use metric_index::neighbor::Neighbor;
use metric_index::points::Points;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["words", file] => measure_words(&std::fs::read_to_string(file)?),
        ["clustered"] => measure_vectors(120_000),
        ["clustered", count] => measure_vectors(count.parse()?),
        _ => {
            println!("evaluations: expected words FILE or clustered [N]");
            Ok(())
        }
    }
}

fn measure_words(text: &str) -> Outcome<()> {
    let (points, queries) = held_out(text.lines().map(str::trim), 100, 0);
    let queries: Vec<&str> = (0..100).map(|number| queries.point(number)).collect();
    println!("{} words, {} queries, edit distance", points.len(), queries.len());
    let oracle = BruteForce::new(&points, Edit)?;
    let base = measure_queries("brute force", &oracle, &queries, None, &[1.0, 2.0, 3.0])?;
    let workload = Workload { queries: &queries, radii: &[1.0, 2.0, 3.0] };
    measure_published_algorithms(&points, Edit, &workload, 32, 64)?;
    measure_generic_indexes(&points, Edit, &workload, &base, 32)
}

fn measure_vectors(count: usize) -> Outcome<()> {
    let (points, queries) = clustered(count, 200, 0);
    let queries: Vec<&[f32]> = (0..200).map(|number| queries.point(number)).collect();
    println!("{count} vectors of 20 dimensions, {} queries, Euclidean", queries.len());
    let oracle = BruteForce::new(&points, Euclidean)?;
    // Radii that contain 0.01 %, 0.1 % and 1 % of the points, averaged over 20 queries.
    let mut radii = [0.0f32; 3];
    for (radius, share) in radii.iter_mut().zip([10_000, 1_000, 100]) {
        let rank = (count / share).max(1);
        let mut sum = 0.0;
        for query in &queries[..20] {
            sum += oracle.nearest(query, rank)?.last().map_or(0.0, |last| last.distance);
        }
        *radius = sum / 20.0;
    }
    println!("radii {radii:?}");
    let base = measure_queries("brute force", &oracle, &queries, None, &radii)?;
    let workload = Workload { queries: &queries, radii: &radii };
    measure_published_algorithms(&points, Euclidean, &workload, 64, 1)?;
    measure_generic_indexes(&points, Euclidean, &workload, &base, 64)?;
    measure_build("KD-tree", || KdTree::build(&points, Euclidean), &workload, &base)
}

/// The queries of a benchmark, and the radii of range queries.
struct Workload<'a, P: ?Sized> {
    queries: &'a [&'a P],
    radii: &'a [f32],
}

/// Counts the distances that range queries evaluate with algorithms 4 and 7 of Barrientos 2011, as
/// published. Entire buckets are scanned, and the table of distances is exact.
fn measure_published_algorithms<S: Points, M: Metric<S::Point> + Copy>(
    points: &S,
    metric: M,
    workload: &Workload<'_, S::Point>,
    bucket: usize,
    pivots: u32,
) -> Outcome<()> {
    let &Workload { queries, radii } = workload;
    let all = || 0..u32::try_from(points.len()).unwrap_or(u32::MAX);
    let between = |a: u32, b: u32| metric.distance(points.point(a), points.point(b));
    let report = |name: &str, radius: f32, evaluations: usize| {
        let each = evaluations as f64 / queries.len() as f64;
        let all = points.len() as f64;
        let share = 100.0 * each / all;
        println!("{name:28} r = {radius:<8.4} {each:9.0} evaluations per query ({share:5.1} %)");
    };
    // The center, the covering radius and the number of other points of each cluster.
    let mut clusters = Vec::new();
    let mut remaining: Vec<(u32, f64)> = all().map(|point| (point, 0.0)).collect();
    while !remaining.is_empty() {
        let mut farthest = 0;
        for index in 1..remaining.len() {
            farthest = if remaining[index].1 > remaining[farthest].1 { index } else { farthest };
        }
        let (center, _) = remaining.remove(farthest);
        let mut near: Vec<(f32, u32, f64)> = remaining
            .iter()
            .map(|&(point, sum)| {
                let distance = between(center, point);
                (distance, point, sum + f64::from(distance))
            })
            .collect();
        near.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let far = near.split_off(bucket.min(near.len()));
        clusters.push((center, near.last().map_or(0.0, |last| last.0), near.len()));
        remaining = far.into_iter().map(|(_, point, sum)| (point, sum)).collect();
        remaining.sort_unstable_by_key(|&(point, _)| point);
    }
    for &radius in radii {
        let mut evaluations = 0;
        for query in queries {
            for &(center, covering, count) in &clusters {
                let distance = metric.distance(query, points.point(center));
                evaluations += 1;
                evaluations += if distance <= covering + radius { count } else { 0 };
                if distance + radius < covering {
                    break;
                }
            }
        }
        report(&format!("as in the thesis: LC {bucket}"), radius, evaluations);
    }
    let index = SssIndex::build(points, metric, Pivots::Count(pivots))?;
    let pivots = index.pivots();
    let table: Vec<Vec<f32>> =
        pivots.iter().map(|&pivot| all().map(|point| between(pivot, point)).collect()).collect();
    for &radius in radii {
        let mut evaluations = 0;
        for query in queries {
            let from: Vec<f32> =
                pivots.iter().map(|&pivot| metric.distance(query, points.point(pivot))).collect();
            let is_near = |point: &usize| {
                from.iter()
                    .zip(&table)
                    .all(|(from, column)| (from - column[*point]).abs() <= radius)
            };
            evaluations += pivots.len() + (0..points.len()).filter(is_near).count();
        }
        report(&format!("as in the thesis: SSS-Index {}", pivots.len()), radius, evaluations);
    }
    Ok(())
}

fn measure_generic_indexes<S: Points, M: Metric<S::Point> + Copy>(
    points: &S,
    metric: M,
    workload: &Workload<'_, S::Point>,
    base: &Measurements,
    bucket: u32,
) -> Outcome<()> {
    let clusters = ClusterSize::Points(bucket);
    measure_build("LC", || ListOfClusters::build(points, metric, clusters), workload, base)?;
    for pivots in [
        Pivots::Spread(0.4),
        Pivots::Spread(0.6),
        Pivots::Count(1),
        Pivots::Count(32),
        Pivots::Count(64),
    ] {
        let name = format!("SSS-Index {pivots:?}");
        measure_build(&name, || SssIndex::build(points, metric, pivots), workload, base)?;
    }
    measure_build("SSS-Tree 0.4", || SssTree::build(points, metric, 0.4), workload, base)?;
    let options = EgnatOptions::default();
    measure_build("EGNAT", || Egnat::build(points, metric, options), workload, base)?;
    measure_build("M-tree", || MTree::build(points, metric, 32), workload, base)?;
    measure_build("VP-tree", || VpTree::build(points, metric), workload, base)
}

fn measure_build<I: Index, E: std::error::Error + 'static>(
    name: &str,
    build: impl FnOnce() -> Result<I, E>,
    workload: &Workload<'_, <I::Points as Points>::Point>,
    base: &Measurements,
) -> Outcome<()> {
    let start = Instant::now();
    let index = build()?;
    println!("{name}: built in {:.2} s", start.elapsed().as_secs_f64());
    measure_queries(name, &index, workload.queries, Some(base), workload.radii).map(|_| ())
}

/// For each kind of query: the neighbors found, the time in seconds and the number of evaluations.
type Measurements = Vec<(Vec<Vec<Neighbor>>, f64, u64)>;

fn measure_queries<I: Index>(
    name: &str,
    index: &I,
    queries: &[&<I::Points as Points>::Point],
    base: Option<&Measurements>,
    radii: &[f32],
) -> Outcome<Measurements> {
    let mut all = Measurements::new();
    for &radius in radii {
        let into_neighbors = |collector: Within| collector.into_sorted();
        all.push(run(index, queries, || Within::new(radius), into_neighbors)?);
        report(name, &format!("r = {radius:.4}"), queries.len(), &all, base);
    }
    for k in [8, 16, 32] {
        all.push(run(index, queries, || Nearest::new(k), Nearest::into_sorted)?);
        report(name, &format!("k = {k}"), queries.len(), &all, base);
    }
    Ok(all)
}

fn run<I: Index, C: Collector>(
    index: &I,
    queries: &[&<I::Points as Points>::Point],
    collector: impl Fn() -> C,
    into_neighbors: impl Fn(C) -> Vec<Neighbor>,
) -> Outcome<(Vec<Vec<Neighbor>>, f64, u64)> {
    let start = Instant::now();
    let mut found = Vec::new();
    let mut evaluations = 0;
    for query in queries {
        let (collected, cost) = search(index, query, collector())?;
        found.push(into_neighbors(collected));
        evaluations += cost.evaluations;
    }
    Ok((found, start.elapsed().as_secs_f64(), evaluations))
}

fn report(name: &str, kind: &str, queries: usize, all: &Measurements, base: Option<&Measurements>) {
    let (found, seconds, evaluations) = &all[all.len() - 1];
    let expected = base.map(|base| &base[all.len() - 1]);
    let is_correct = expected.is_none_or(|(neighbors, ..)| neighbors == found);
    let (base_seconds, base_evaluations) =
        expected.map_or((*seconds, *evaluations), |&(_, s, e)| (s, e));
    println!(
        "{name:28} {kind:12} {:9.0} evaluations per query ({:5.1} %), {:9.1} us, {:6.2} x{}",
        *evaluations as f64 / queries as f64,
        100.0 * *evaluations as f64 / base_evaluations as f64,
        seconds / queries as f64 * 1e6,
        base_seconds / seconds,
        if is_correct { "" } else { "  DIFFERS FROM BRUTE FORCE" },
    );
}
