//! Indexes in files: what is opened answers as what was saved, and what is damaged is refused.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fmt::Debug;
use std::path::Path;

use metric_index::collector::Within;
use metric_index::container::{self, Container, Dtype};
use metric_index::index::{
    AnyIndex, BruteForce, Dynamic, Egnat, EgnatOptions, Index, KdTree, Kind, MTree, Search, VpTree,
};
use metric_index::metric::{Edit, Euclidean, Jaccard, Manhattan, Metric};
use metric_index::points::{Points, Sets, Strings, Vectors};
use metric_index::stored::{StoreProblem, Stored, StoredPoints, describe, open, save};

fn random(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed;
    move |below| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % below
    }
}

fn vectors(count: usize) -> Vectors<f32> {
    let mut next = random(1);
    let values = (0..count * 3).map(|_| f32::from(u8::try_from(next(20)).unwrap()) / 10.0);
    Vectors::new(values.collect(), 3).unwrap()
}

fn words(count: usize) -> Strings {
    let mut next = random(2);
    let letters = ["a", "b", "é", "東"];
    let mut word =
        |_| (0..next(7)).map(|_| letters[usize::try_from(next(4)).unwrap()]).collect::<String>();
    (0..count).map(&mut word).collect()
}

fn sets(count: usize) -> Sets {
    let mut next = random(3);
    let mut set = |_| (0..12).filter(|_| next(3) == 0).collect::<Vec<u32>>();
    Sets::new((0..count).map(&mut set)).unwrap()
}

fn same<I: Index, J: Index<Points = I::Points>>(a: &I, b: &J)
where
    <I::Points as Points>::Point: Debug,
{
    assert_eq!(a.len(), b.len());
    for query in (0..u32::try_from(a.points().len()).unwrap()).step_by(17) {
        let query = a.points().point(query);
        assert_eq!(a.nearest(query, 9).unwrap(), b.nearest(query, 9).unwrap());
        assert_eq!(a.within(query, 0.7).unwrap(), b.within(query, 0.7).unwrap());
    }
}

/// Saved, opened, and saved again as the same bytes.
fn comes_back<I: Stored<Points: StoredPoints>>(index: &I, metric: I::Metric, path: &Path) -> I
where
    <I::Points as Points>::Point: Debug,
{
    save(index, path).unwrap();
    let opened: I = open(path, metric).unwrap();
    same(index, &opened);
    let again = path.with_extension("again");
    save(&opened, &again).unwrap();
    assert!(std::fs::read(path).unwrap() == std::fs::read(again).unwrap(), "other bytes");
    opened
}

fn every_kind<S: StoredPoints + Clone, M: Metric<S::Point> + Copy>(
    points: &S,
    metric: M,
    path: &Path,
) where
    S::Point: Debug,
{
    for kind in
        Kind::all().into_iter().chain(["lc:3", "egnat:3x2", "m-tree:4"].map(|k| k.parse().unwrap()))
    {
        let index = kind.build(points.clone(), metric).unwrap();
        comes_back(&index, metric, path);
        assert_eq!(
            Some(describe(path).unwrap().index.as_str()),
            kind.to_string().split(':').next()
        );
    }
}

#[test]
fn every_index_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("an.index");
    for count in [0, 1, 2, 40, 700] {
        every_kind(&vectors(count), Euclidean, &path);
        every_kind(&words(count), Edit, &path);
        every_kind(&sets(count), Jaccard, &path);
        let mut next = random(5);
        let bytes: Vec<u8> = (0..count * 3).map(|_| u8::try_from(next(9)).unwrap()).collect();
        every_kind(&Vectors::new(bytes, 3).unwrap(), Manhattan, &path);
        let tree = KdTree::build(vectors(count), Manhattan).unwrap();
        comes_back(&tree, Manhattan, &path);
    }
}

/// What was removed stays away, and what is opened grows on.
#[test]
fn what_has_changed_comes_back() {
    fn changes<I: Dynamic<Points = Vectors<f32>, Metric = Euclidean> + Stored>(
        mut index: I,
        path: &Path,
    ) {
        let mut next = random(9);
        for _ in 0..300 {
            index.remove(u32::try_from(next(600)).unwrap()).unwrap();
            index.insert(&[0.1, 0.2, next(9) as f32]).unwrap();
        }
        let mut opened = comes_back(&index, Euclidean, path);
        for _ in 0..300 {
            let gone = u32::try_from(next(900)).unwrap();
            assert_eq!(index.remove(gone), opened.remove(gone));
            let new = [0.1, next(9) as f32, 0.2];
            assert_eq!(index.insert(&new), opened.insert(&new));
        }
        same(&index, &opened);
        comes_back(&opened, Euclidean, path);
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("an.index");
    let options = EgnatOptions { arity: 4, bucket: 5 };
    changes(Egnat::build(vectors(600), Euclidean, options).unwrap(), &path);
    changes(MTree::build(vectors(600), Euclidean, 6).unwrap(), &path);
    let mut tree = MTree::build(vectors(50), Euclidean, 4).unwrap();
    (0..50).for_each(|point| assert!(tree.remove(point).unwrap()));
    assert_eq!(comes_back(&tree, Euclidean, &path).len(), 0);
}

type Trees<M> = VpTree<Vectors<f32>, M>;

#[test]
fn what_is_something_else_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("an.index");
    save(&VpTree::build(vectors(100), Euclidean).unwrap(), &path).unwrap();
    let metric = open::<Trees<Manhattan>>(&path, Manhattan).unwrap_err();
    assert!(matches!(metric.problem, StoreProblem::Metric { .. }), "{metric}");
    let kind = open::<BruteForce<Vectors<f32>, _>>(&path, Euclidean).unwrap_err();
    assert!(matches!(kind.problem, StoreProblem::Kind { .. }), "{kind}");
    let points = open::<VpTree<Strings, _>>(&path, Edit).unwrap_err();
    assert!(matches!(points.problem, StoreProblem::Kind { .. }), "{points}");
    let missing = open::<Trees<Euclidean>>(&folder.path().join("none"), Euclidean).unwrap_err();
    assert!(matches!(missing.problem, StoreProblem::Io { .. }), "{missing}");
    assert!(missing.to_string().contains("none"));
    std::fs::write(&path, "no index").unwrap();
    let damaged = open::<Trees<Euclidean>>(&path, Euclidean).unwrap_err();
    assert!(matches!(damaged.problem, StoreProblem::Damaged(_)), "{damaged}");
    std::fs::write(&path, "").unwrap();
    assert!(open::<Trees<Euclidean>>(&path, Euclidean).is_err());
    let nowhere = folder.path().join("no/such/folder");
    assert!(save(&VpTree::build(vectors(3), Euclidean).unwrap(), &nowhere).is_err());
}

/// Each byte of a file, changed: refused, or (blanks between header and arrays) without effect.
#[test]
fn every_changed_byte_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("an.index");
    let tree = VpTree::build(vectors(30), Euclidean).unwrap();
    save(&tree, &path).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let mut accepted = 0;
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 1 << (at % 8);
        std::fs::write(&path, &changed).unwrap();
        if let Ok(opened) = open::<VpTree<Vectors<f32>, _>>(&path, Euclidean) {
            same(&tree, &opened);
            accepted += 1;
        }
        std::fs::write(&path, &bytes[..at]).unwrap();
        assert!(open::<VpTree<Vectors<f32>, _>>(&path, Euclidean).is_err(), "cut at {at}");
    }
    assert!(accepted < 70, "{accepted} of {}", bytes.len());
}

/// Somebody has changed values and made the checksums fit: an error, or an index that answers something.
#[test]
fn no_file_panics() {
    let folder = tempfile::tempdir().unwrap();
    let (path, forged) = (folder.path().join("an.index"), folder.path().join("forged.index"));
    let mut next = random(4);
    let mut opened = 0;
    for kind in Kind::all().into_iter().chain(["egnat:3x2", "m-tree:4"].map(|k| k.parse().unwrap()))
    {
        save(&kind.build(vectors(60), Euclidean).unwrap(), &path).unwrap();
        for _ in 0..150 {
            forge(&path, &forged, &mut next);
            let Ok(index) = open::<AnyIndex<Vectors<f32>, _>>(&forged, Euclidean) else { continue };
            opened += 1;
            let _ = (index.nearest(&[0.1, 0.2, 0.3], 5), index.within(&[0.1, 0.2, 0.3], 1.0));
        }
        save(&KdTree::build(vectors(60), Euclidean).unwrap(), &path).unwrap();
        forge(&path, &forged, &mut next);
        if let Ok(tree) = open::<KdTree<Vectors<f32>, _>>(&forged, Euclidean) {
            let _ = tree.nearest(&[0.1, 0.2, 0.3], 5);
        }
    }
    assert!(opened > 50, "{opened}: the forgeries are too coarse");
}

/// Every node that a node can have below it, right or wrong: no search goes around in a circle.
#[test]
fn no_file_hangs() {
    let folder = tempfile::tempdir().unwrap();
    let (path, forged) = (folder.path().join("an.index"), folder.path().join("forged.index"));
    for (kind, array) in [
        ("sss-tree:0.2", "centers.nodes"),
        ("egnat:3x2", "inner.nodes"),
        ("m-tree:4", "entries.pages"),
    ] {
        let kind: Kind = kind.parse().unwrap();
        save(&kind.build(vectors(30), Euclidean).unwrap(), &path).unwrap();
        let (_, arrays) = contents(&path);
        let (_, _, below) = arrays.iter().find(|(name, ..)| *name == array).unwrap();
        for (at, number) in (0..below.len() / 4).flat_map(|at| (0..8u32).map(move |n| (at, n))) {
            let (header, mut arrays) = contents(&path);
            let (_, _, below) = arrays.iter_mut().find(|(name, ..)| *name == array).unwrap();
            below[at * 4..at * 4 + 4].copy_from_slice(&number.to_le_bytes());
            written(header, &arrays, &forged);
            let Ok(index) = open::<AnyIndex<Vectors<f32>, _>>(&forged, Euclidean) else { continue };
            let mut search = Search::start(&index, &[0.1, 0.2, 0.3], Within::new(9.0)).unwrap();
            assert!(search.work(1_000).unwrap(), "{kind}: {array}[{at}] = {number}");
        }
    }
}

type Contents = (serde_json::Value, Vec<(&'static str, Dtype, Vec<u8>)>);

fn contents(path: &Path) -> Contents {
    let mut file = Container::new(Container::map(path).unwrap()).unwrap();
    let header: serde_json::Value =
        serde_json::from_str(&file.json("metric-index").unwrap()).unwrap();
    let names: Vec<String> = header["checksums"].as_object().unwrap().keys().cloned().collect();
    let mut arrays = Vec::new();
    for name in names {
        let name: &'static str = name.leak();
        let types = [Dtype::U8, Dtype::U16, Dtype::U32, Dtype::U64, Dtype::F32];
        let of = |file: &mut Container, dtype| match dtype {
            Dtype::U8 => file.array::<u8>(name, dtype).map(|a| bytemuck::cast_slice(&a).to_vec()),
            Dtype::U16 => file.array::<u16>(name, dtype).map(|a| bytemuck::cast_slice(&a).to_vec()),
            Dtype::U32 => file.array::<u32>(name, dtype).map(|a| bytemuck::cast_slice(&a).to_vec()),
            Dtype::U64 => file.array::<u64>(name, dtype).map(|a| bytemuck::cast_slice(&a).to_vec()),
            _ => file.array::<f32>(name, dtype).map(|a| bytemuck::cast_slice(&a).to_vec()),
        };
        let found =
            types.into_iter().find_map(|dtype| of(&mut file, dtype).ok().map(|a| (dtype, a)));
        let (dtype, bytes): (Dtype, Vec<u8>) = found.unwrap();
        arrays.push((name, dtype, bytes));
    }
    (header, arrays)
}

fn written(mut header: serde_json::Value, arrays: &[(&'static str, Dtype, Vec<u8>)], path: &Path) {
    for (name, _, bytes) in arrays {
        header["checksums"][*name] = container::checksum(bytes).into();
    }
    let parts =
        arrays.iter().map(|(name, dtype, bytes)| (*name, *dtype, bytes.as_slice())).collect();
    container::write(path, "metric-index", header.to_string(), parts).unwrap();
}

fn forge(path: &Path, forged: &Path, next: &mut impl FnMut(u64) -> u64) {
    let (mut header, mut arrays) = contents(path);
    // One or two arrays get another value, or lose the last one.
    for _ in 0..=next(2) {
        let which = usize::try_from(next(arrays.len() as u64)).unwrap();
        let (_, dtype, bytes) = &mut arrays[which];
        let size = dtype.bitsize() / 8;
        let count = (bytes.len() / size) as u64;
        if count == 0 {
            continue;
        }
        let at = usize::try_from(next(count)).unwrap() * size;
        match next(4) {
            0 => bytes.truncate(bytes.len() - size),
            1 => bytes[at] = u8::try_from(next(256)).unwrap(),
            2 => {
                let from = usize::try_from(next(count)).unwrap() * size;
                bytes.copy_within(from..from + size, at);
            }
            _ => bytes[at..at + size].fill(u8::try_from(next(2)).unwrap() * 255),
        }
    }
    let numbers = header["numbers"].as_object_mut().unwrap();
    if next(6) == 0 && !numbers.is_empty() {
        let which = usize::try_from(next(numbers.len() as u64)).unwrap();
        *numbers.values_mut().nth(which).unwrap() = next(5).into();
    }
    written(header, &arrays, forged);
}
