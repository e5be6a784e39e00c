//! Tests that the GPU searches of the papers return exactly the answers of the CPU.
//!
//! On a machine with a GPU, run them with `cargo test --release -p metric-papers --test gpu --
//! --ignored`.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may panic, and prints what it compared"
)]

use metric_index::generate::clustered;
use metric_index::index::{
    BruteForce, ClusterSize, Index, KdTree, ListOfClusters, Pivots, SssIndex, VpTree,
};
use metric_index::metric::{Edit, Euclidean, Metric};
use metric_index::points::{Points, Vectors};
use metric_index::stored::save;
use metric_papers::barrientos::{self, Radii};
use metric_papers::{cordeiro, karelis};

#[path = "../../../metric-index/tests/samples/mod.rs"]
mod samples;

use samples::{brute, device, gaussian, threads, whole, words};

#[test]
#[ignore = "needs a GPU"]
fn every_kernel_on_a_small_case() {
    let points = gaussian(300, 7, 1);
    let queries = gaussian(9, 7, 2);
    compare_papers("vectors", &*brute(points.clone(), Euclidean), &queries, 1.0);
    let index = brute(words(300, "abcd", 7, 1), Edit);
    compare_papers("words", &*index, &words(9, "abcde", 7, 2), 1.0);
    let expected = brute(points.clone(), Euclidean).nearest_many(&queries, 9, threads());
    let searcher = cordeiro::Searcher::new(&device(), &points).unwrap();
    for method in [cordeiro::Method::Ppk, cordeiro::Method::Ppb, cordeiro::Method::Sbq] {
        let found = searcher.nearest(&queries, 9, method).unwrap().unwrap().answers;
        assert_eq!(found, expected, "{method:?}");
    }
}

/// Compares the searches of Barrientos 2011 with the CPU.
fn compare_papers<I: Index>(name: &str, index: &I, queries: &I::Points, radius: f32)
where
    I::Points: Clone,
    I::Metric: Clone,
    <I::Points as Points>::Point: barrientos::KernelPoint,
{
    use barrientos::{Method, Searcher};
    let device = device();
    let points = index.points();
    let metric = index.metric();
    let list =
        ListOfClusters::build(points.clone(), metric.clone(), ClusterSize::Points(32)).unwrap();
    let table = SssIndex::build(points.clone(), metric.clone(), Pivots::Count(5)).unwrap();
    let plain = Searcher::brute(&device, points, metric, 64).unwrap().unwrap();
    let clusters = Searcher::clusters(&device, &list, 128).unwrap().unwrap();
    let pivots = Searcher::pivots(&device, points, metric, table.pivots(), 64).unwrap().unwrap();
    let radii = barrientos::learn_radii(index, 8).unwrap();
    for (searcher, methods) in [
        (&plain, &[Method::Brute, Method::Sort][..]),
        (&clusters, &[Method::Clusters, Method::ClustersDecreasing]),
        (&pivots, &[Method::Pivots, Method::PivotsShared, Method::Brute]),
    ] {
        for &method in methods {
            for radius in [0.0, radius, 2.0 * radius] {
                let found = searcher.range(queries, radius, method).unwrap().unwrap().answers;
                let expected = index.within_many(queries, radius, threads());
                assert_eq!(found, expected, "{name} {method:?} {radius}");
            }
            for k in [1u32, 8, 32] {
                let radii = if k == 1 { Radii { first: 0.0, step: radius } } else { radii };
                let found = searcher.nearest(queries, k, method, radii).unwrap().unwrap();
                let expected = index.nearest_many(queries, k as usize, threads());
                assert_eq!(found.answers, expected, "{name} {method:?} k={k}");
                println!("{name} {method:?} k={k}: {:.6} s", found.seconds);
            }
        }
    }
    assert!(plain.range(queries, radius, Method::Clusters).unwrap().is_none());
}

/// Tests 1-Stage and 2-Stage on a single GPU, which is opened several times.
#[test]
#[ignore = "needs a GPU"]
fn barrientos_on_several_gpus() {
    use barrientos::{Method, OneStage, Radii, TwoStage};
    fn compare<S: Points + Clone, M: Metric<S::Point> + Copy>(
        points: &S,
        queries: &S,
        metric: M,
        radius: f32,
    ) where
        S::Point: barrientos::KernelPoint,
    {
        let index = BruteForce::new(points.clone(), metric).unwrap();
        let list = ListOfClusters::build(points.clone(), metric, ClusterSize::Points(32)).unwrap();
        let radii = barrientos::learn_radii(&index, 8).unwrap();
        let devices = vec![device(); 4];
        for gpus in [1, 2, 4] {
            let clusters = OneStage::clusters(&devices[..gpus], &list, 64).unwrap().unwrap();
            let pivots =
                OneStage::pivots(&devices[..gpus], points, &metric, 3, 64).unwrap().unwrap();
            for (search, method) in [(&clusters, Method::Clusters), (&pivots, Method::Pivots)] {
                let found = search.range(queries, radius, method).unwrap().unwrap().answers;
                let expected = index.within_many(queries, radius, threads());
                assert_eq!(found, expected, "{method:?} on {gpus} GPUs");
                for k in [1, 8, 40] {
                    let found = search.nearest(queries, k, method, radii).unwrap().unwrap().answers;
                    let expected = index.nearest_many(queries, k as usize, threads());
                    assert_eq!(found, expected, "{method:?} k={k} on {gpus} GPUs");
                }
            }
            let clusters = TwoStage::clusters(&devices[..gpus], &list, 64).unwrap().unwrap();
            let pivots = [5, 0, 17];
            let pivots =
                TwoStage::pivots(&devices[..gpus], points, &metric, &pivots, 64).unwrap().unwrap();
            for (search, name) in [(&clusters, "clusters"), (&pivots, "pivots")] {
                for radius in [0.0, radius, 2.0 * radius] {
                    let found = search.range(queries, radius).unwrap().unwrap().answers;
                    let expected = index.within_many(queries, radius, threads());
                    assert_eq!(found, expected, "2-Stage, {name} on {gpus} GPUs");
                }
                let zero = Radii { first: 0.0, step: radius / 4.0 };
                for (k, radii) in [(1, radii), (8, radii), (40, radii), (8, zero)] {
                    let found = search.nearest(queries, k, radii).unwrap().unwrap().answers;
                    let expected = index.nearest_many(queries, k as usize, threads());
                    assert_eq!(found, expected, "2-Stage, {name} k={k} on {gpus} GPUs");
                }
            }
        }
    }
    let (points, queries) = clustered(3_000, 200, 5);
    compare(&points, &queries, Euclidean, 0.8);
    compare(&whole(500, 3, 1), &whole(50, 3, 2), Euclidean, 1.0);
    compare(&words(1_500, "abcde", 8, 1), &words(100, "abcdef", 8, 2), Edit, 2.0);
    // There are fewer queries than GPUs, and k exceeds the number of points.
    compare(&words(30, "abc", 4, 1), &words(2, "abc", 4, 2), Edit, 1.0);
}

#[test]
#[ignore = "needs a GPU"]
fn barrientos_on_vectors_and_words() {
    let (points, queries) = clustered(4_000, 300, 5);
    compare_papers("vectors", &*brute(points, Euclidean), &queries, 0.7);
    let index = brute(whole(2_000, 3, 1), Euclidean);
    compare_papers("ties", &*index, &whole(100, 3, 2), 1.0);
    let index = brute(words(2_000, "abcdeñ", 9, 1), Edit);
    compare_papers("words", &*index, &words(200, "abcdeñx", 9, 2), 1.0);
    let index = brute(words(20, "ab", 3, 1), Edit);
    compare_papers("few words", &*index, &words(20, "ab", 4, 2), 1.0);
    let one = Vectors::from(vec![[1.0f32, 2.0]]);
    compare_papers("one", &*brute(one.clone(), Euclidean), &one, 1.0);
}

#[test]
#[ignore = "needs a GPU"]
fn cordeiro_on_vectors() {
    for (count, dimension, queries) in
        [(3_000, 20, 40), (5_000, 133, 3), (300, 784, 1_200), (1, 3, 2), (10_000, 3, 2_500)]
    {
        for points in [gaussian(count, dimension, 1), whole(count, dimension, 2)] {
            let queries = gaussian(queries, dimension, 3);
            let index = brute(points.clone(), Euclidean);
            let searcher = cordeiro::Searcher::new(&device(), &points).unwrap();
            for k in [1u32, 32, 128] {
                let expected = index.nearest_many(&queries, k as usize, threads());
                for method in [cordeiro::Method::Ppk, cordeiro::Method::Ppb, cordeiro::Method::Sbq]
                {
                    if method == cordeiro::Method::Ppk && queries.len() > 100 {
                        continue;
                    }
                    let found = searcher.nearest(&queries, k, method).unwrap().unwrap();
                    assert_eq!(found.answers, expected, "{method:?} {count}x{dimension} k={k}");
                    println!("{method:?} {count}x{dimension} k={k}: {:.6} s", found.seconds);
                }
            }
        }
    }
}

/// The trees of the GPU must equal the trees of the CPU, including the bytes of their files and
/// their answers.
#[test]
#[ignore = "needs a GPU"]
fn karelis_builds_the_same_trees_as_the_cpu() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = |tree: &dyn Fn(&std::path::Path)| {
        let path = folder.path().join("tree");
        tree(&path);
        std::fs::read(path).unwrap()
    };
    let device = device();
    for (count, dimension) in
        [(0, 3), (1, 3), (17, 2), (257, 4), (5_000, 20), (70_000, 8), (3_000, 1), (131_700, 2)]
    {
        for points in [gaussian(count, dimension, 1), whole(count, dimension, 2)] {
            let points =
                if count == 0 { Vectors::new(Vec::new(), dimension).unwrap() } else { points };
            let queries = gaussian(300, dimension, 3);
            let vp = VpTree::build(points.clone(), Euclidean).unwrap();
            let own = karelis::build_vp_tree(&device, points.clone()).unwrap().unwrap();
            assert!(
                bytes(&|path| save(&vp, path).unwrap())
                    == bytes(&|path| save(&own.tree, path).unwrap()),
                "VP-tree of {count} x {dimension}"
            );
            println!("VP-tree of {count} x {dimension}: {:.6} s", own.seconds);
            let kd = KdTree::build(points.clone(), Euclidean).unwrap();
            let own = karelis::build_kd_tree(&device, points.clone()).unwrap().unwrap();
            assert!(
                bytes(&|path| save(&kd, path).unwrap())
                    == bytes(&|path| save(&own.tree, path).unwrap()),
                "KD-tree of {count} x {dimension}"
            );
            println!("KD-tree of {count} x {dimension}: {:.6} s", own.seconds);
            let on_gpu = [
                karelis::TreeSearch::of_vp_tree(&device, &vp).unwrap(),
                karelis::TreeSearch::of_kd_tree(&device, &kd).unwrap(),
            ];
            for k in [1u32, 10, 64] {
                let expected = vp.nearest_many(&queries, k as usize, threads());
                for search in &on_gpu {
                    let found = search.nearest(&queries, k).unwrap().unwrap();
                    assert_eq!(found.neighbors, expected, "{count} x {dimension}, k = {k}");
                }
            }
        }
    }
}
