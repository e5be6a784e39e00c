//! Reads three kinds of folders: one folder per label with one file per document; texts with
//! separate label files (Annif); corpus files.
//!
//! Symbolic links to files and folders are followed. Hidden entries are skipped.

use std::fs::FileType;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::annif::subjects;
use super::blocks::BlockReader;
use super::cutter::BLOCK;
use super::detect;
use super::document::{Content, Document};
use super::error::{CorpusError, Problem};
use super::format::Format;
use super::notes::Note;
use super::options::{LabelUse, ReadOptions};
use super::place::Place;
use super::records::{Record, Records, parse, read_one_by_one};
use super::source::{Source, SourceOptions, io_error};
use crate::threads::Threads;

/// The maximum number of files per block.
const FILES_PER_BLOCK: usize = 16;
/// The minimum size that is charged to the memory budget for a block of files, in bytes.
const MIN_BLOCK_BYTES: usize = 1 << 12;

/// An entry of a folder. For a symbolic link, the fields describe its target.
struct Entry {
    path: PathBuf,
    is_dir: bool,
    is_file: bool,
    is_link: bool,
}

/// Returns the entries of a folder, ordered by name, without hidden entries.
fn entries(folder: &Path) -> Result<Vec<Entry>, CorpusError> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(|error| io_error(folder, error))? {
        let entry = entry.map_err(|error| io_error(folder, error))?;
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        let path = entry.path();
        let kind = entry.file_type().map_err(|error| io_error(&path, error))?;
        let is_link = kind.is_symlink();
        let kind = if is_link { target_of(&path)? } else { kind };
        found.push(Entry { is_dir: kind.is_dir(), is_file: kind.is_file(), is_link, path });
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

/// Returns the file type of the target of a symbolic link.
fn target_of(link: &Path) -> Result<FileType, CorpusError> {
    match std::fs::metadata(link) {
        Ok(target) => Ok(target.file_type()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let target = std::fs::read_link(link).unwrap_or_default();
            let target = target.to_string_lossy().into_owned();
            Err(Problem::BrokenLink { target }.at(&place(link)))
        }
        Err(error) => Err(io_error(link, error)),
    }
}

fn place(path: &Path) -> Place {
    Place { source: path.to_string_lossy().into(), line: None }
}

/// Returns [`Format::Folders`] if a folder contains only folders, [`Format::Annif`] if it contains
/// texts with label files, or `None` if it contains corpus files.
pub(super) fn tree_format(
    folder: &Path,
    format: Option<Format>,
) -> Result<Option<Format>, CorpusError> {
    if format.is_some() {
        return Ok(format.filter(|format| matches!(format, Format::Folders | Format::Annif)));
    }
    let entries = entries(folder)?;
    if !entries.is_empty() && entries.iter().all(|entry| entry.is_dir) {
        return Ok(Some(Format::Folders));
    }
    let has_labels = |entry: &Entry| is_text(&entry.path) && labels_file(&entry.path).is_some();
    Ok(entries.iter().any(has_labels).then_some(Format::Annif))
}

/// Returns the problem with a folder that contains no corpus file.
fn no_corpus_problem(folder: &Path) -> Result<Problem, CorpusError> {
    let entries = entries(folder)?;
    let file = entries.iter().find(|entry| entry.is_file);
    Ok(match file.and_then(|entry| entry.path.file_name()) {
        Some(name) if entries.iter().any(|entry| entry.is_dir) => {
            Problem::MixedFolder { file: name.to_string_lossy().into_owned() }
        }
        _ => Problem::EmptyFolder,
    })
}

fn is_text(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "txt")
}

/// Returns the label file of a text: `.tsv` or `.key`, as in Annif.
fn labels_file(text: &Path) -> Option<PathBuf> {
    ["tsv", "key"]
        .into_iter()
        .map(|extension| text.with_extension(extension))
        .find(|path| path.is_file())
}

/// Returns the corpus files in a folder: the files whose names suggest `format`, or the files of
/// any recognized format.
pub(super) fn corpus_files(
    folder: &Path,
    format: Option<Format>,
) -> Result<Vec<PathBuf>, CorpusError> {
    let files = entries(folder)?.into_iter().filter(|entry| entry.is_file);
    let files: Vec<PathBuf> = files.map(|entry| entry.path).collect();
    let mut selected = Vec::new();
    for path in &files {
        let name = path.to_string_lossy().to_ascii_lowercase();
        let by_name = detect::by_name(detect::without_compression_suffix(&name));
        let is_corpus = match format {
            Some(format) => by_name == Some(format),
            None if by_name.is_some() => true,
            None => is_recognized(path)?,
        };
        if is_corpus {
            selected.push(path.clone());
        }
    }
    match (selected.is_empty(), format) {
        (false, _) => Ok(selected),
        // The caller asked for a format that no file name suggests: read every file.
        (true, Some(_)) if !files.is_empty() => Ok(files),
        (true, _) => Err(no_corpus_problem(folder)?.at(&place(folder))),
    }
}

fn is_recognized(path: &Path) -> Result<bool, CorpusError> {
    let mut source = match Source::open(path, &SourceOptions::default()) {
        Err(CorpusError { problem: Problem::NotText { .. }, .. }) => {
            return Ok(false);
        }
        source => source?,
    };
    Ok(detect::format(&mut source, &ReadOptions::default()).is_ok())
}

/// Reads the documents in label folders, or texts with separate label files. The label of a
/// document in label folders is the name of the top folder. The identifier is the path relative to
/// `root`.
pub(super) fn read(
    root: &Path,
    format: Format,
    options: &Arc<ReadOptions>,
) -> Result<Records, CorpusError> {
    let mut files = Vec::new();
    let canonical = std::fs::canonicalize(root).map_err(|error| io_error(root, error))?;
    collect(root, &mut vec![canonical], &mut files)?;
    let folder = root.to_owned();
    let shared = Arc::clone(options);
    let place = Place { source: root.to_string_lossy().into(), line: None };
    if format == Format::Annif {
        files.retain(|path| is_text(path));
    }
    let document = move |path: &Path| document(&folder, path, format, &shared);
    Ok(match options.threads.as_ref().filter(|threads| threads.count() > 1) {
        Some(threads) => Box::new(
            read_in_blocks(files, document, options, threads)
                .map_err(|error| Problem::Thread(error).at(&place))?,
        ),
        None => read_one_by_one(
            files.into_iter().filter_map(move |path| document(&path).transpose()),
            options,
        ),
    })
}

/// Returns the records of files, which `read` reads in blocks on several threads.
fn read_in_blocks(
    files: Vec<PathBuf>,
    read: impl Fn(&Path) -> Result<Option<Document>, CorpusError> + Send + Sync + 'static,
    options: &Arc<ReadOptions>,
    threads: &Threads,
) -> std::io::Result<BlockReader<Record>> {
    let options = Arc::clone(options);
    let mut files = files.into_iter().peekable();
    let next = move || {
        // Empty files and special files take memory too.
        let next = |files: &mut _| {
            let (block, bytes) = next_files(files);
            (block, bytes.max(MIN_BLOCK_BYTES))
        };
        Ok(files.peek().is_some().then(|| next(&mut files)))
    };
    let parse = move |files: Vec<PathBuf>| {
        parse(Ok(files.iter().filter_map(|path| read(path).transpose())), &options)
    };
    BlockReader::start(next, parse, threads)
}

/// Returns the next block of files and its size in bytes. Takes files until the size reaches
/// [`BLOCK`] or the number of files reaches [`FILES_PER_BLOCK`].
fn next_files(files: &mut impl Iterator<Item = PathBuf>) -> (Vec<PathBuf>, usize) {
    let mut block = Vec::new();
    let mut bytes = 0;
    while block.len() < FILES_PER_BLOCK
        && bytes < BLOCK
        && let Some(path) = files.next()
    {
        // Errors are reported when the file is opened.
        let size = std::fs::metadata(&path).map_or(0, |metadata| metadata.len());
        bytes = bytes.saturating_add(usize::try_from(size).unwrap_or(usize::MAX));
        block.push(path);
    }
    (block, bytes)
}

/// Collects the files in a folder and its subfolders. `ancestors` contains the canonical paths of
/// the folders on the path to `folder`, which is last.
fn collect(
    folder: &Path,
    ancestors: &mut Vec<PathBuf>,
    files: &mut Vec<PathBuf>,
) -> Result<(), CorpusError> {
    for Entry { path, is_dir, is_file, is_link } in entries(folder)? {
        if is_dir {
            let canonical = match (ancestors.last(), path.file_name()) {
                (Some(parent), Some(name)) if !is_link => parent.join(name),
                _ => std::fs::canonicalize(&path).map_err(|error| io_error(&path, error))?,
            };
            if ancestors.contains(&canonical) {
                return Err(Problem::LinkCycle.at(&place(&path)));
            }
            ancestors.push(canonical);
            collect(&path, ancestors, files)?;
            ancestors.pop();
        } else if is_file {
            files.push(path);
        }
    }
    Ok(())
}

/// Returns whether a byte is a control character that does not occur in text.
fn is_control(byte: u8) -> bool {
    matches!(byte, 0..=8 | 14..=26 | 28..=31)
}

/// Reads the document in a file. Returns `None` if the file is not text.
fn document(
    root: &Path,
    path: &Path,
    format: Format,
    options: &ReadOptions,
) -> Result<Option<Document>, CorpusError> {
    let opened = Source::open(path, &options.source());
    let opened = opened.and_then(|mut source| {
        let is_binary = source.first_line()?.iter().copied().any(is_control);
        Ok((!is_binary).then_some(source))
    });
    let source = match opened {
        Ok(Some(source)) => source,
        Ok(None) | Err(CorpusError { problem: Problem::NotText { .. }, .. }) => {
            options.note(|| Note::SkippedFiles { place: place(path) });
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let place = source.place();
    let text = source.into_document()?;
    let relative = path.strip_prefix(root).unwrap_or(path);
    let mut components = relative.components();
    let top = components.next().map(|part| part.as_os_str().to_string_lossy().into_owned());
    let labels = match (top, components.next()) {
        _ if format == Format::Annif => match labels_file(path) {
            Some(file) => subjects(&Source::open(&file, &options.source())?.into_document()?),
            None if options.labels == LabelUse::Required && options.qrels.is_none() => {
                let format = "a text without a `.tsv` or `.key` file next to it";
                return Err(Problem::NoLabels { format, from_qrels: false }.at(&place));
            }
            None => Vec::new(),
        },
        (Some(label), Some(_)) => vec![label],
        _ if options.labels == LabelUse::Required && options.qrels.is_none() => {
            return Err(Problem::NoLabels {
                format: "a file outside the label folders",
                from_qrels: false,
            }
            .at(&place));
        }
        _ => Vec::new(),
    };
    let id = relative.to_string_lossy().into_owned();
    Ok(Some(Document {
        id,
        content: Content::Text(text),
        labels,
        weight: 1.0,
        vector: None,
        group: None,
        place,
    }))
}
