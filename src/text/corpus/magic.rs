//! Recognizes files that are not corpora by their first bytes: archives, unsupported compressions,
//! word processor documents. Otherwise, these files would be classified as lines of plain text.

use super::compressed::{GZIP, ZSTD};
use super::error::Problem;

/// The magic bytes, the name with an article, and a hint for each type of file.
const FILE_TYPES: [(&[u8], &str, &str); 19] = [
    (b"\xFD7zXZ\0", "a file compressed with xz", "decompress it first: `xz --decompress FILE`"),
    (b"BZh", "a file compressed with bzip2", "decompress it first: `bzip2 --decompress FILE`"),
    (b"\x04\x22\x4D\x18", "a file compressed with lz4", "decompress it first: `lz4 -d FILE`"),
    (b"\x1F\x9D", "a file compressed with compress", "decompress it first: `gzip -d FILE`"),
    (&GZIP, "a gzip file inside a compressed file", TWICE),
    (&ZSTD, "a zstd file inside a compressed file", TWICE),
    (
        b"PK\x03\x04",
        "a zip archive or an office document",
        "unpack it first: `unzip FILE`; in an office program, save a spreadsheet as CSV (UTF-8) \
         and a document as plain text",
    ),
    (b"PK\x05\x06", "an empty zip archive", "the archive contains no files"),
    (b"7z\xBC\xAF\x27\x1C", "a 7z archive", "unpack it first: `7z x FILE`"),
    (b"Rar!\x1A\x07", "a rar archive", "unpack it first: `unrar x FILE`"),
    (b"%PDF-", "a PDF document", "extract its text first: `pdftotext FILE`"),
    (
        b"\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1",
        "an office document",
        "in an office program, save a spreadsheet as CSV (UTF-8) and a document as plain text",
    ),
    (b"\x89PNG\r\n\x1A\n", "a PNG image", ONLY_TEXT),
    (b"\xFF\xD8\xFF", "a JPEG image", ONLY_TEXT),
    (b"\x7FELF", "a program", ONLY_TEXT),
    (b"SQLite format 3\0", "an SQLite database", "export its table as CSV or JSONL first"),
    (b"PAR1", "a Parquet file", FROM_PYTHON),
    (b"ARROW1", "an Arrow file", FROM_PYTHON),
    (
        b"version https://git-lfs.github.com/spec/",
        "a Git LFS pointer",
        "fetch the file: `git lfs pull`",
    ),
];

const FROM_PYTHON: &str = "write it as JSONL first: `pandas.read_parquet(\"FILE\")` or \
    `pandas.read_feather(\"FILE\")`, and \
    `.to_json(\"FILE.jsonl\", orient=\"records\", lines=True)`";
const TWICE: &str = "it was compressed twice: decompress it once";
const ONLY_TEXT: &str = "only text and rows of features can be read";

/// The magic numbers of a block and of the end of the stream in a bzip2 file. One of them follows
/// `BZh` and the digit of the block size.
const BZIP2: [[u8; 6]; 2] =
    [[0x31, 0x41, 0x59, 0x26, 0x53, 0x59], [0x17, 0x72, 0x45, 0x38, 0x50, 0x90]];

/// The position of `ustar` in the header of a tar archive.
const USTAR: std::ops::Range<usize> = 257..262;

/// Returns whether `head` is long enough for [`find_problem`]. A line break suffices, because all
/// magic bytes except `ustar` precede it. Interactive input therefore waits for only one line.
pub(super) fn is_long_enough(head: &[u8]) -> bool {
    head.len() >= USTAR.end || head.contains(&b'\n')
}

/// Returns the problem with a stream that begins like a file of another type. `head` is the
/// beginning of the stream, which satisfies [`is_long_enough`], or the whole stream.
pub(super) fn find_problem(head: &[u8]) -> Option<Problem> {
    let not_text = |what, hint| Some(Problem::NotText { what, hint });
    // The padding of the file name must contain a NUL too, because text may contain "ustar".
    if head.get(USTAR) == Some(b"ustar") && head[..USTAR.start].contains(&0) {
        return not_text("a tar archive", "unpack it first: `tar -xf FILE`");
    }
    // A safetensors file begins with the length of its JSON header in eight bytes, then the header.
    if head.get(4..9) == Some(b"\0\0\0\0{") {
        return not_text(
            "a model, vectors or another safetensors file",
            "give a corpus of documents; vectors files are for predictions and evaluations",
        );
    }
    if head.starts_with(b"\x93NUMPY") {
        return Some(Problem::VectorsAsCorpus { what: "a NumPy array" });
    }
    let &(magic, what, hint) = FILE_TYPES.iter().find(|(magic, ..)| head.starts_with(magic))?;
    let is_certain = match magic {
        b"BZh" => head.get(4..10).is_some_and(|block| BZIP2.iter().any(|begin| begin == block)),
        b"%PDF-" => matches!(head.get(5..8), Some([b'0'..=b'9', b'.', b'0'..=b'9'])),
        b"PAR1" | b"ARROW1" => head.get(magic.len()..).is_some_and(|rest| rest.contains(&0)),
        _ => true,
    };
    if is_certain { not_text(what, hint) } else { None }
}
