//! Runs the fuzz targets on their seeds (`fuzz/seeds/TARGET/*`). Nothing may panic.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::path::Path;

#[path = "../fuzz/targets.rs"]
mod targets;

fn replay(target: &str, run: impl Fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds").join(target);
    let mut seeds = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        run(&std::fs::read(entry.unwrap().path()).unwrap());
        seeds += 1;
    }
    assert!(seeds > 0, "no seeds in {}", folder.display());
}

macro_rules! replayed {
    ($($target:ident)*) => {
        $(#[test]
        fn $target() {
            replay(stringify!($target), targets::$target);
        })*
    };
}

replayed! {
    analyze jsonl delimited fasttext plain svmlight reuters lyrl2004 source model
    model_with_checksums hierarchy comparison vector_files word_vectors table json annif training
    changes
}

/// The function of the target `model_with_checksums` must accept a valid model.
#[test]
fn checksums_of_a_good_model_are_good() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/golden-v1.model");
    let bytes = targets::with_checksums(&std::fs::read(path).unwrap()).unwrap();
    assert!(classify::model::Model::from_bytes(&bytes).is_ok());
}
