//! The format of a file, told from its name and its first bytes.

use super::source::Source;
use super::{CorpusError, Format, LabelUse, Problem, ReadOptions};

/// The format of `source`. Content decides before the name: a name may lie. Lines that look
/// like nothing else are plain text, which only prediction can use.
pub(super) fn format(source: &mut Source, options: &ReadOptions) -> Result<Format, CorpusError> {
    let place = source.place();
    let head = source.first_line()?;
    let name = place.source.to_ascii_lowercase();
    let name = name.trim_end_matches(".gz").trim_end_matches(".zst");
    let features = |format: &Format| matches!(format, Format::Svmlight | Format::Lyrl2004Vectors);
    let fits = |format: &Format| !(options.text_only && features(format));
    let detected = by_content(head)
        .filter(fits)
        .or_else(|| by_name(name).filter(fits))
        .or_else(|| header(head, options.text_columns.first().map_or("text", String::as_str)));
    match detected {
        Some(format) => Ok(format),
        None if head.is_empty() => Err(Problem::NoDocument.at(&place)),
        None if options.labels == LabelUse::Optional => Ok(Format::Plain),
        None => Err(Problem::UnknownFormat.at(&place)),
    }
}

/// CSV or TSV if the first line is a header that names the column of the text.
fn header(head: &[u8], text_column: &str) -> Option<Format> {
    let line = head.split(|&byte| byte == b'\n').next()?;
    let line = std::str::from_utf8(line).ok()?;
    let names = |separator: char| {
        line.contains(separator)
            && line.split(separator).any(|name| name.trim().trim_matches('"') == text_column)
    };
    match () {
        () if names('\t') => Some(Format::Tsv),
        () if names(',') || names(';') => Some(Format::Csv),
        () => None,
    }
}

/// The format that the file name says, its compression suffix already gone.
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

fn by_content(head: &[u8]) -> Option<Format> {
    let start = head.trim_ascii_start();
    let line = start.split(|&byte| byte == b'\n').next().unwrap_or_default().trim_ascii_end();
    if start.starts_with(b"{") {
        Some(Format::Jsonl)
    } else if start.starts_with(b"<!DOCTYPE lewis") || start.starts_with(b"<REUTERS") {
        Some(Format::Reuters)
    } else if line.starts_with(b".I ") {
        Some(Format::Lyrl2004Tokens)
    } else if start.starts_with(b"__label__") {
        Some(Format::FastText)
    } else {
        feature_rows(line)
    }
}

/// `id  column:value …` (two blanks) is LYRL2004, `labels column:value …` svmlight.
fn feature_rows(line: &[u8]) -> Option<Format> {
    let line = std::str::from_utf8(line).ok()?;
    let (first, rest) = line.split_once(' ')?;
    let is_feature = |item: &str| {
        item.split_once(':').is_some_and(|(column, value)| {
            (column.parse::<u32>().is_ok() || column == "qid") && value.parse::<f32>().is_ok()
        })
    };
    // The last item may be cut where the peeked bytes end: the first one decides.
    let is_row = rest.split_ascii_whitespace().next().is_some_and(is_feature);
    let double = rest.starts_with(' ') && first.parse::<u64>().is_ok();
    match (is_row, double) {
        (true, true) => Some(Format::Lyrl2004Vectors),
        (true, false) => Some(Format::Svmlight),
        (false, _) => None,
    }
}
