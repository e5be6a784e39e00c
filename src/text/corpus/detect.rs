//! Detects the format of a file from its first line and its name.

use super::error::{CorpusError, Problem};
use super::format::Format;
use super::options::{LabelUse, ReadOptions};
use super::source::Source;
use super::{annif, svmlight};

/// Detects the format of `source`. The content takes precedence over the name, which may be wrong.
/// Lines of an unknown format are read as plain text if labels are optional.
pub(super) fn format(source: &mut Source, options: &ReadOptions) -> Result<Format, CorpusError> {
    let place = source.place();
    let head = source.first_line()?;
    let name = place.source.to_ascii_lowercase();
    let name = without_compression_suffix(&name);
    let has_features =
        |format: &Format| matches!(format, Format::Svmlight | Format::Lyrl2004Vectors);
    let is_allowed = |format: &Format| !(options.text_only && has_features(format));
    let expects_lyrl2004 =
        options.qrels.is_some() || by_name(name) == Some(Format::Lyrl2004Vectors);
    let detected = by_content(head, expects_lyrl2004)
        .filter(is_allowed)
        .or_else(|| by_name(name).filter(is_allowed))
        .or_else(|| header(head, options.text_columns.first().map_or("text", String::as_str)));
    match detected {
        Some(format) => Ok(format),
        None if head.is_empty() => Err(Problem::NoDocument.at(&place)),
        None if first_line(head).contains(&0) => Err(Problem::Binary.at(&place)),
        None if options.labels == LabelUse::Optional => Ok(Format::Plain),
        None => Err(Problem::UnknownFormat.at(&place)),
    }
}

pub(super) fn first_line(head: &[u8]) -> &[u8] {
    head.split(|&byte| byte == b'\n').next().unwrap_or_default()
}

/// Removes the compression suffix from a lowercase file name. This includes suffixes of unsupported
/// compressions: opening such a file reports a clear error, while ignoring the file would hide the
/// problem.
pub(super) fn without_compression_suffix(name: &str) -> &str {
    let name = name.trim_end_matches(".gz").trim_end_matches(".zst");
    name.trim_end_matches(".xz").trim_end_matches(".bz2")
}

/// Returns CSV or TSV if the first line is a header that contains the name of the text column.
fn header(head: &[u8], text_column: &str) -> Option<Format> {
    let line = std::str::from_utf8(first_line(head)).ok()?;
    let has_text_column = |separator: char| {
        line.contains(separator)
            && line.split(separator).any(|name| name.trim().trim_matches('"') == text_column)
    };
    match () {
        () if has_text_column('\t') => Some(Format::Tsv),
        () if [',', ';', '|'].into_iter().any(has_text_column) || line.starts_with("sep=") => {
            Some(Format::Csv)
        }
        () => None,
    }
}

/// Returns the format that a lowercase file name suggests. `name` has no compression suffix.
pub(super) fn by_name(name: &str) -> Option<Format> {
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    Some(match extension {
        "jsonl" | "ndjson" | "json" => Format::Jsonl,
        "csv" => Format::Csv,
        "tsv" | "tab" => Format::Tsv,
        "svm" | "svmlight" | "libsvm" => Format::Svmlight,
        "sgm" | "sgml" => Format::Reuters,
        _ if name.contains("lyrl2004_vectors") => Format::Lyrl2004Vectors,
        _ if name.contains("lyrl2004_tokens") => Format::Lyrl2004Tokens,
        _ => return None,
    })
}

fn by_content(head: &[u8], expects_lyrl2004: bool) -> Option<Format> {
    let start = head.trim_ascii_start();
    let line = first_line(start).trim_ascii_end();
    if start.starts_with(b"{") {
        let parsed = serde_json::from_slice::<serde::de::IgnoredAny>(line);
        let is_open = line.len() < head.len() && parsed.is_err_and(|error| error.is_eof());
        Some(if is_open { Format::Json } else { Format::Jsonl })
    } else if line == b"[" || start.starts_with(b"[{") {
        Some(Format::Json)
    } else if start.starts_with(b"<!DOCTYPE lewis") || start.starts_with(b"<REUTERS") {
        Some(Format::Reuters)
    } else if line.starts_with(b".I ") {
        Some(Format::Lyrl2004Tokens)
    } else if start.starts_with(b"__label__") {
        Some(Format::FastText)
    } else if std::str::from_utf8(line).is_ok_and(annif::is_line) {
        Some(Format::Annif)
    } else if svmlight::Counts::parse(line).is_some() {
        let second = start.get(line.len()..).unwrap_or_default().trim_ascii_start();
        feature_rows(first_line(second), false).filter(|format| *format == Format::Svmlight)
    } else {
        feature_rows(line, expects_lyrl2004)
    }
}

/// The lowest document id of RCV1-v2.
const FIRST_LYRL2004_ID: u64 = 2_286;

/// Detects sparse rows. `labels column:value …` is svmlight. `id  column:value …` (two spaces) is
/// LYRL2004 if the id is in the range of RCV1-v2 or `expects_lyrl2004` is set. The file name or a
/// qrels file can set it.
fn feature_rows(line: &[u8], expects_lyrl2004: bool) -> Option<Format> {
    let line = std::str::from_utf8(line).ok()?;
    let (first, rest) = line.split_once(' ')?;
    let is_feature = |item: &str| {
        item.split_once(':').is_some_and(|(column, value)| {
            (column.parse::<u32>().is_ok() || column == "qid") && value.parse::<f32>().is_ok()
        })
    };
    // Test only the first item, because the last one may be truncated at the end of the peeked
    // bytes.
    let is_row = rest.split_ascii_whitespace().next().is_some_and(is_feature);
    let is_id = |id: u64| expects_lyrl2004 || id >= FIRST_LYRL2004_ID;
    let is_number = first.bytes().all(|byte| byte.is_ascii_digit());
    let is_lyrl2004 = rest.starts_with(' ') && is_number && first.parse().is_ok_and(is_id);
    match (is_row, is_lyrl2004) {
        (true, true) => Some(Format::Lyrl2004Vectors),
        (true, false) => Some(Format::Svmlight),
        (false, _) => None,
    }
}
