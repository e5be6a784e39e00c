//! `classify generate`.

use std::path::Path;

use testkit::{Folder, Messages, text};

use crate::{ok, refused};

#[test]
fn generated_corpora() {
    let folder = Folder::new();
    let [one, two, other] = ["one", "two", "other"].map(|name| folder.at(name));
    let mut messages = Messages::new(folder.path());
    for (path, seed) in [(&one, "5"), (&two, "5"), (&other, "6")] {
        let made = ["generate", "rcv1-like", "--documents", "3001", "--seed", seed, "-o"];
        messages.add(&made.join(" "), &ok(&[&made[..], &[text(path)]].concat()), 0);
    }
    let read = |folder: &Path, file: &str| std::fs::read_to_string(folder.join(file)).unwrap();
    let train = read(&one, "lyrl2004_vectors_train.dat");
    assert_eq!(train, read(&two, "lyrl2004_vectors_train.dat"));
    assert_ne!(train, read(&other, "lyrl2004_vectors_train.dat"));
    let mut lengths = Vec::new();
    for line in train.lines() {
        let weights = line.split(' ').skip(2).map(|entry| entry.split_once(':').unwrap());
        let mut last = 0;
        let mut norm = 0.0;
        let mut count = 0;
        for (term, weight) in weights {
            let term: u32 = term.parse().unwrap();
            let weight: f64 = weight.parse().unwrap();
            assert!(last < term && term <= 47_236 && weight > 0.0);
            last = term;
            norm += weight * weight;
            count += 1;
        }
        assert!((norm - 1.0).abs() < 1e-5);
        lengths.push(count);
    }
    let mean = f64::from(lengths.iter().sum::<i32>()) / lengths.len() as f64;
    assert!((70.0..82.0).contains(&mean), "{mean} terms per document");
    assert_eq!(read(&one, "rcv1.topics.hier.orig").lines().count(), 104);

    let evaluate = ["evaluate", "--preset", "lyrl2004", text(&one)];
    let all = ok(&evaluate).out;
    assert!(all.contains("1500 training, 1501 test"), "{all}");
    let some = ok(&[&evaluate[..], &["--subset", "10"]].concat()).out;
    assert!(some.contains("1500 training, 10 test"), "{some}");
    refused(&mut messages, 2, &["generate", "rcv1-like", "--documents", "1", "-o", text(&one)]);
    insta::assert_snapshot!(messages);
}
