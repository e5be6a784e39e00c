//! Compresses the PTX of the kernels and the lists of stop words, which the library includes.

use std::env::var_os;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

fn main() -> io::Result<()> {
    let out = var_os("OUT_DIR").unwrap_or_default();
    let out = Path::new(&out);
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=kernels/ptx");
    for path in pack_ptx::pack(Path::new("kernels/ptx"), out)? {
        println!("cargo::rerun-if-changed={}", path.display());
    }
    pack_stop_words(&out.join("stop-words.gz"))
}

/// Writes a line for each language: its code and its words, separated by tabs.
fn pack_stop_words(to: &Path) -> io::Result<()> {
    let mut packed = GzEncoder::new(File::create(to)?, Compression::best());
    for &language in stop_words::available_languages() {
        let words = stop_words::lookup(language).unwrap_or_default();
        assert!(
            !words.iter().any(|word| word.contains(['\t', '\n', '\r'])),
            "a tab or line break in a stop word"
        );
        writeln!(packed, "{language}\t{}", words.join("\t"))?;
    }
    packed.finish().map(drop)
}
