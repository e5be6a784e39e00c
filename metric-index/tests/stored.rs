//! Tests that an opened index answers like the saved index, and that a damaged file is rejected.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fmt::Debug;
use std::path::Path;

use array_file::container::{self, Container, Dtype};
use array_file::{Bytes, FileProblem};
use metric_index::collector::Within;

use metric_index::generate::Random;
use metric_index::index::{
    AnyIndex, BruteForce, DynamicIndex, Egnat, EgnatOptions, Index, Kind, MTree, Search, VpTree,
};
use metric_index::metric::{Edit, Euclidean, Jaccard, Manhattan, Metric, Minkowski};
use metric_index::points::{Points, Sets, Strings, Vectors};
use metric_index::stored::{
    FileContents, Reader, StoreProblem, StoredIndex, StoredPoints, describe, invalid, open, save,
};

/// A user-defined store of points: times of day, in minutes.
struct Times(Vec<u16>);

impl Points for Times {
    type Point = u16;

    fn len(&self) -> usize {
        self.0.len()
    }

    fn point(&self, number: u32) -> &u16 {
        &self.0[number as usize]
    }
}

impl StoredPoints for Times {
    fn name() -> String {
        "times of day".to_owned()
    }

    fn write<'a>(&'a self, contents: &mut FileContents<'a>) {
        contents.array("points.minutes", &self.0);
        contents.number("points.day", 1_440);
    }

    fn read(file: &mut Reader) -> Result<Self, StoreProblem> {
        let day = file.small("points.day")?;
        let minutes = file.array::<u16>("points.minutes")?;
        match minutes.iter().find(|&&minute| u32::from(minute) >= day) {
            Some(minute) => {
                Err(invalid("points.minutes", format!("{minute} is not a minute of the day")))
            }
            None => Ok(Self(minutes.to_vec())),
        }
    }
}

struct ClockDistance;

impl Metric<u16> for ClockDistance {
    fn distance(&self, a: &u16, b: &u16) -> f32 {
        let difference = a.abs_diff(*b);
        f32::from(difference.min(1_440_u16.saturating_sub(difference)))
    }

    fn relative_error(&self) -> f32 {
        0.0
    }
}

#[test]
fn user_defined_points_can_be_stored() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("times.index");
    let mut next = random(9);
    let times = |next: &mut dyn FnMut(usize) -> usize| {
        Times((0..300).map(|_| u16::try_from(next(1_440)).unwrap()).collect())
    };
    let kinds = [Kind::VpTree, Kind::MTree(8), Kind::SssTree(0.4)];
    for kind in kinds {
        let index = kind.build(times(&mut next), ClockDistance).unwrap();
        save(&index, &path).unwrap();
        let again: AnyIndex<Times, ClockDistance> = open(&path, ClockDistance).unwrap();
        assert_same_answers(&index, &again);
    }
    // Opening fails with a different type of store, and with values that the store rejects.
    let strings = open::<BruteForce<Strings, _>>(&path, Edit).unwrap_err();
    assert!(strings.to_string().contains("times of day"), "{strings}");
    save(&BruteForce::new(Times(vec![1, 1_500]), ClockDistance).unwrap(), &path).unwrap();
    let refused = open::<BruteForce<Times, _>>(&path, ClockDistance).err().unwrap().to_string();
    assert!(refused.contains("1500 is not a minute"), "{refused}");
}

fn random(seed: u64) -> impl FnMut(usize) -> usize {
    let mut random = Random::new(seed);
    move |below| random.below(below)
}

fn vectors(count: usize) -> Vectors<f32> {
    let mut next = random(1);
    let values = (0..count * 3).map(|_| next(20) as f32 / 10.0);
    Vectors::new(values.collect(), 3).unwrap()
}

fn words(count: usize) -> Strings {
    let mut next = random(2);
    let letters = ["a", "b", "é", "東"];
    let mut word = |_| (0..next(7)).map(|_| letters[next(4)]).collect::<String>();
    (0..count).map(&mut word).collect()
}

fn sets(count: usize) -> Sets {
    let mut next = random(3);
    let mut set = |_| (0..12).filter(|_| next(3) == 0).collect::<Vec<u32>>();
    Sets::new((0..count).map(&mut set)).unwrap()
}

fn assert_same_answers<I: Index, J: Index<Points = I::Points>>(a: &I, b: &J)
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

/// Saves an index, opens it, and checks that saving it again gives the same bytes.
fn reopen<I: StoredIndex<Points: StoredPoints>>(index: &I, metric: I::Metric, path: &Path) -> I
where
    <I::Points as Points>::Point: Debug,
{
    save(index, path).unwrap();
    let opened: I = open(path, metric).unwrap();
    assert_same_answers(index, &opened);
    let again = path.with_extension("again");
    save(&opened, &again).unwrap();
    assert!(std::fs::read(path).unwrap() == std::fs::read(again).unwrap(), "different bytes");
    opened
}

fn reopen_every_kind(kinds: &[Kind], points: &Vectors<f32>, path: &Path) {
    for kind in kinds {
        let index = kind.build(points.clone(), Euclidean).unwrap();
        reopen(&index, Euclidean, path);
        assert_eq!(
            Some(describe(path).unwrap().index.as_str()),
            kind.to_string().split(':').next()
        );
    }
}

#[test]
fn every_index_can_be_reopened() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("an.index");
    let variants = ["lc:3", "egnat:3x2", "m-tree:4"].map(|kind| kind.parse().unwrap());
    let kinds: Vec<Kind> = Kind::all().into_iter().chain(variants).collect();
    for count in [0, 1, 2, 40, 700] {
        reopen_every_kind(&kinds, &vectors(count), &path);
        // An index is stored separately from its points, so one kind suffices for the other stores.
        let words = VpTree::build(words(count), Edit).unwrap();
        reopen(&words, Edit, &path);
        let sets = VpTree::build(sets(count), Jaccard).unwrap();
        reopen(&sets, Jaccard, &path);
        let mut next = random(5);
        let bytes: Vec<u8> = (0..count * 3).map(|_| u8::try_from(next(9)).unwrap()).collect();
        let bytes = VpTree::build(Vectors::new(bytes, 3).unwrap(), Manhattan).unwrap();
        reopen(&bytes, Manhattan, &path);
    }
}

/// Metrics without a name are recognized by distances.
#[test]
fn a_different_unnamed_metric_is_rejected() {
    struct UnnamedMetric;
    impl Metric<[f32]> for UnnamedMetric {
        fn distance(&self, a: &[f32], b: &[f32]) -> f32 {
            Manhattan.distance(a, b)
        }

        fn relative_error(&self) -> f32 {
            f32::EPSILON
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("an.index");
    save(&VpTree::build(vectors(100), Euclidean).unwrap(), &path).unwrap();
    let refused = open::<VpTree<Vectors<f32>, _>>(&path, UnnamedMetric).err().unwrap();
    assert!(matches!(refused.problem, StoreProblem::Metric { .. }), "{refused}");
}

#[test]
fn files_name_their_metric_and_parameters() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("an.index");
    for text in [
        "lc:r0.3",
        "sss-index:0.45",
        "sss-index:5p",
        "sss-tree:0.35",
        "egnat:3x7",
        "m-tree:9",
        "kd-tree",
    ] {
        let index =
            text.parse::<Kind>().unwrap().build(vectors(50), Minkowski::new(1.1).unwrap()).unwrap();
        save(&index, &path).unwrap();
        let found = describe(&path).unwrap();
        assert_eq!((found.kind.as_str(), found.metric.as_deref()), (text, Some("minkowski:1.1")));
        assert!(!found.numbers.contains_key("scale"), "{found:?}");
        assert_eq!(
            found.numbers.contains_key("pivots"),
            text.starts_with("sss-index"),
            "{found:?}"
        );
    }
}

/// Removed points stay removed, and points can be added to an opened index.
#[test]
fn changed_indexes_can_be_reopened() {
    fn check_changes<I: DynamicIndex<Points = Vectors<f32>, Metric = Euclidean> + StoredIndex>(
        mut index: I,
        path: &Path,
    ) {
        let mut next = random(9);
        for _ in 0..300 {
            index.remove(u32::try_from(next(600)).unwrap()).unwrap();
            index.insert(&[0.1, 0.2, next(9) as f32]).unwrap();
        }
        let mut opened = reopen(&index, Euclidean, path);
        for _ in 0..300 {
            let removed = u32::try_from(next(900)).unwrap();
            assert_eq!(index.remove(removed), opened.remove(removed));
            let new = [0.1, next(9) as f32, 0.2];
            assert_eq!(index.insert(&new), opened.insert(&new));
        }
        assert_same_answers(&index, &opened);
        reopen(&opened, Euclidean, path);
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("an.index");
    let options = EgnatOptions { arity: 4, bucket: 5 };
    check_changes(Egnat::build(vectors(600), Euclidean, options).unwrap(), &path);
    check_changes(MTree::build(vectors(600), Euclidean, 6).unwrap(), &path);
    let mut tree = MTree::build(vectors(50), Euclidean, 4).unwrap();
    (0..50).for_each(|point| assert!(tree.remove(point).unwrap()));
    assert_eq!(reopen(&tree, Euclidean, &path).len(), 0);
}

type Tree<M> = VpTree<Vectors<f32>, M>;

#[test]
fn other_kinds_of_files_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("an.index");
    save(&VpTree::build(vectors(100), Euclidean).unwrap(), &path).unwrap();
    let metric = open::<Tree<Manhattan>>(&path, Manhattan).unwrap_err();
    assert!(matches!(metric.problem, StoreProblem::MetricName { .. }), "{metric}");
    assert!(metric.to_string().contains("euclidean, not with manhattan"), "{metric}");
    let kind = open::<BruteForce<Vectors<f32>, _>>(&path, Euclidean).unwrap_err();
    assert!(matches!(kind.problem, StoreProblem::Kind { .. }), "{kind}");
    let points = open::<VpTree<Strings, _>>(&path, Edit).unwrap_err();
    assert!(matches!(points.problem, StoreProblem::Kind { .. }), "{points}");
    let missing = open::<Tree<Euclidean>>(&folder.path().join("none"), Euclidean).unwrap_err();
    assert!(matches!(missing.problem, StoreProblem::File(FileProblem::Read(_))), "{missing}");
    assert!(missing.to_string().contains("none"));
    std::fs::write(&path, "no index").unwrap();
    let other = open::<Tree<Euclidean>>(&path, Euclidean).unwrap_err();
    assert!(matches!(other.problem, StoreProblem::NoIndex), "{other}");
    std::fs::write(&path, b"\x02\0\0\0\0\0\0\0{}").unwrap();
    let other = open::<Tree<Euclidean>>(&path, Euclidean).unwrap_err();
    assert!(matches!(other.problem, StoreProblem::File(FileProblem::Other { .. })), "{other}");
    std::fs::write(&path, b"\x02\0\0\0\0\0\0\0{,").unwrap();
    let damaged = open::<Tree<Euclidean>>(&path, Euclidean).unwrap_err();
    assert!(
        matches!(damaged.problem, StoreProblem::File(FileProblem::NotSafetensors { .. })),
        "{damaged}"
    );
    std::fs::write(&path, "").unwrap();
    assert!(open::<Tree<Euclidean>>(&path, Euclidean).is_err());
    let nowhere = folder.path().join("no/such/folder");
    assert!(save(&VpTree::build(vectors(3), Euclidean).unwrap(), &nowhere).is_err());
}

#[test]
fn different_versions_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("an.index");
    save(&VpTree::build(vectors(3), Euclidean).unwrap(), &path).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let version = br#"\"version\":1"#;
    let offset = bytes.windows(version.len()).position(|window| window == version).unwrap();
    let mut changed = bytes;
    changed[offset + version.len() - 1] = b'2';
    std::fs::write(&path, changed).unwrap();
    let refused = open::<Tree<Euclidean>>(&path, Euclidean).unwrap_err().to_string();
    assert!(refused.ends_with("an index of version 2; this build reads version 1"), "{refused}");
}

/// A file with any changed byte is rejected, unless the change has no effect, such as in the spaces
/// between header and arrays.
#[test]
fn every_changed_byte_is_detected() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("an.index");
    let tree = VpTree::build(vectors(30), Euclidean).unwrap();
    save(&tree, &path).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let mut accepted = 0;
    for offset in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[offset] ^= 1 << (offset % 8);
        std::fs::write(&path, &changed).unwrap();
        if let Ok(opened) = open::<VpTree<Vectors<f32>, _>>(&path, Euclidean) {
            assert_same_answers(&tree, &opened);
            accepted += 1;
        }
        std::fs::write(&path, &bytes[..offset]).unwrap();
        let opened = open::<VpTree<Vectors<f32>, _>>(&path, Euclidean);
        assert!(opened.is_err(), "truncated at {offset}");
    }
    assert!(accepted < 70, "{accepted} of {}", bytes.len());
}

/// A forged file with valid checksums gives an error or an index that answers without a panic.
#[test]
fn no_file_panics() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("an.index");
    let forged = folder.path().join("forged.index");
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
    }
    assert!(opened > 50, "{opened}: the forgeries are too coarse");
}

/// No search runs in a cycle, regardless of the child numbers in the file.
#[test]
fn no_file_hangs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("an.index");
    let forged = folder.path().join("forged.index");
    for (kind, array) in [
        ("sss-tree:0.2", "centers.nodes"),
        ("egnat:3x2", "inner.nodes"),
        ("m-tree:4", "entries.pages"),
    ] {
        let kind: Kind = kind.parse().unwrap();
        save(&kind.build(vectors(30), Euclidean).unwrap(), &path).unwrap();
        let (_, arrays) = contents(&path);
        let (_, _, children) = arrays.iter().find(|(name, ..)| *name == array).unwrap();
        let count = children.len() / 4;
        for (index, number) in (0..count).flat_map(|index| (0..8u32).map(move |n| (index, n))) {
            let (header, mut arrays) = contents(&path);
            let (_, _, children) = arrays.iter_mut().find(|(name, ..)| *name == array).unwrap();
            children[index * 4..index * 4 + 4].copy_from_slice(&number.to_le_bytes());
            write_contents(header, &arrays, &forged);
            let Ok(opened) = open::<AnyIndex<Vectors<f32>, _>>(&forged, Euclidean) else {
                continue;
            };
            let mut search = Search::start(&opened, &[0.1, 0.2, 0.3], Within::new(9.0)).unwrap();
            assert!(search.work(1_000).unwrap(), "{kind}: {array}[{index}] = {number}");
        }
    }
}

type Contents = (serde_json::Value, Vec<(&'static str, Dtype, Vec<u8>)>);

fn contents(path: &Path) -> Contents {
    let mut file = Container::new(Bytes::read(path).unwrap(), "an index").unwrap();
    let header: serde_json::Value =
        serde_json::from_str(&file.json("metric-index").unwrap()).unwrap();
    let names: Vec<String> = header["checksums"].as_object().unwrap().keys().cloned().collect();
    let mut arrays = Vec::new();
    for name in names {
        let name: &'static str = name.leak();
        let types = [Dtype::U8, Dtype::U16, Dtype::U32, Dtype::U64, Dtype::F32];
        let read_array = |file: &mut Container, dtype| match dtype {
            Dtype::U8 => file.array::<u8>(name, dtype).map(|a| bytemuck::cast_slice(&a).to_vec()),
            Dtype::U16 => file.array::<u16>(name, dtype).map(|a| bytemuck::cast_slice(&a).to_vec()),
            Dtype::U32 => file.array::<u32>(name, dtype).map(|a| bytemuck::cast_slice(&a).to_vec()),
            Dtype::U64 => file.array::<u64>(name, dtype).map(|a| bytemuck::cast_slice(&a).to_vec()),
            _ => file.array::<f32>(name, dtype).map(|a| bytemuck::cast_slice(&a).to_vec()),
        };
        let found = types
            .into_iter()
            .find_map(|dtype| read_array(&mut file, dtype).ok().map(|a| (dtype, a)));
        let (dtype, bytes): (Dtype, Vec<u8>) = found.unwrap();
        arrays.push((name, dtype, bytes));
    }
    (header, arrays)
}

fn write_contents(
    mut header: serde_json::Value,
    arrays: &[(&'static str, Dtype, Vec<u8>)],
    path: &Path,
) {
    for (name, _, bytes) in arrays {
        header["checksums"][*name] = container::checksum(bytes).into();
    }
    let contents =
        arrays.iter().map(|(name, dtype, bytes)| (*name, *dtype, bytes.as_slice())).collect();
    container::write(path, "metric-index", header.to_string(), contents).unwrap();
}

/// Writes a copy of a file with random changes and valid checksums.
fn forge(path: &Path, forged: &Path, next: &mut impl FnMut(usize) -> usize) {
    let (mut header, mut arrays) = contents(path);
    // Change a value of one or two arrays, or remove their last value.
    for _ in 0..=next(2) {
        let which = next(arrays.len());
        let (_, dtype, bytes) = &mut arrays[which];
        let size = dtype.bitsize() / 8;
        let count = bytes.len() / size;
        if count == 0 {
            continue;
        }
        let offset = next(count) * size;
        match next(4) {
            0 => bytes.truncate(bytes.len() - size),
            1 => bytes[offset] = u8::try_from(next(256)).unwrap(),
            2 => {
                let from = next(count) * size;
                bytes.copy_within(from..from + size, offset);
            }
            _ => bytes[offset..offset + size].fill(u8::try_from(next(2)).unwrap() * 255),
        }
    }
    let numbers = header["numbers"].as_object_mut().unwrap();
    if next(6) == 0 && !numbers.is_empty() {
        let which = next(numbers.len());
        *numbers.values_mut().nth(which).unwrap() = next(5).into();
    }
    write_contents(header, &arrays, forged);
}

/// Reverses ranges of the arrays with the given names.
fn reverse_ranges(arrays: &mut Contents, names: [&str; 2], ranges: &[std::ops::Range<usize>]) {
    for (name, _, bytes) in &mut arrays.1 {
        if names.contains(name) {
            let values: &mut [[u8; 4]] = bytes.as_chunks_mut().0;
            for range in ranges {
                values[range.clone()].reverse();
            }
        }
    }
}

/// Leaves and buckets must be sorted by distance, because searches rely on it.
#[test]
fn unsorted_leaves_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("an.index");
    // The tree consists of a vantage point and two full leaves.
    let leaf = VpTree::leaf_size(&vectors(1), &Euclidean) as usize;
    let points = vectors(2 * leaf + 1);
    save(&VpTree::build(points, Euclidean).unwrap(), &path).unwrap();
    let mut forged = contents(&path);
    assert_eq!(forged.0["numbers"]["leaf"], leaf, "{}", forged.0);
    reverse_ranges(&mut forged, ["order", "distances"], &[1..leaf + 1, leaf + 1..2 * leaf + 1]);
    write_contents(forged.0, &forged.1, &path);
    let refused = open::<VpTree<Vectors<f32>, _>>(&path, Euclidean).unwrap_err().to_string();
    assert!(refused.contains("not in ascending order"), "{refused}");
    save(&"lc:1000".parse::<Kind>().unwrap().build(vectors(33), Euclidean).unwrap(), &path)
        .unwrap();
    let mut forged = contents(&path);
    reverse_ranges(&mut forged, ["bucket.points", "bucket.distances"], &[0..10, 10..32]);
    write_contents(forged.0, &forged.1, &path);
    let refused = open::<AnyIndex<Vectors<f32>, _>>(&path, Euclidean).unwrap_err().to_string();
    assert!(refused.contains("not in ascending order"), "{refused}");
}
