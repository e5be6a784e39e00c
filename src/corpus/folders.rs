//! Folders: one folder a label with one file a document, or a folder of corpus files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::source::{Source, io_error, utf8};
use super::{
    Content, CorpusError, Document, Format, LabelUse, Place, Problem, ReadOptions, Records, detect,
};

/// The entries of a folder by name, hidden ones left out.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, CorpusError> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(|error| io_error(folder, error))? {
        let entry = entry.map_err(|error| io_error(folder, error))?;
        if !entry.file_name().as_encoded_bytes().starts_with(b".") {
            paths.push(entry.path());
        }
    }
    paths.sort();
    Ok(paths)
}

/// Whether a folder is to be read as one folder a label: it holds folders and nothing else.
pub(super) fn is_label_tree(folder: &Path, format: Option<Format>) -> Result<bool, CorpusError> {
    if let Some(format) = format {
        Ok(format == Format::Folders)
    } else {
        let entries = entries(folder)?;
        Ok(!entries.is_empty() && entries.iter().all(|path| path.is_dir()))
    }
}

/// The corpus files of a folder: those of `format`, or those that some format recognizes.
pub(super) fn corpus_files(
    folder: &Path,
    format: Option<Format>,
) -> Result<Vec<PathBuf>, CorpusError> {
    let files: Vec<PathBuf> = entries(folder)?.into_iter().filter(|path| path.is_file()).collect();
    let mut chosen = Vec::new();
    for path in &files {
        let name = path.to_string_lossy().to_ascii_lowercase();
        let name = name.trim_end_matches(".gz").trim_end_matches(".zst");
        let by_name = detect::by_name(name);
        let fits = match format {
            Some(format) => by_name == Some(format),
            None if by_name.is_some() => true,
            None => recognized(path)?,
        };
        if fits {
            chosen.push(path.clone());
        }
    }
    match (chosen.is_empty(), format) {
        (false, _) => Ok(chosen),
        // No name tells the format that the user names: take every file, at the user's word.
        (true, Some(_)) if !files.is_empty() => Ok(files),
        (true, _) => {
            Err(Problem::EmptyFolder
                .at(&Place { source: folder.to_string_lossy().into(), line: None }))
        }
    }
}

fn recognized(path: &Path) -> Result<bool, CorpusError> {
    let mut source = match Source::open(path, &ReadOptions::default()) {
        Err(CorpusError { problem: Problem::Utf16, .. }) => return Ok(false),
        source => source?,
    };
    Ok(detect::format(&mut source, &ReadOptions::default()).is_ok())
}

/// The documents of a label tree. The label is the name of the top folder; the id is the path
/// below the root.
pub(super) fn read(root: &Path, options: &Arc<ReadOptions>) -> Result<Records, CorpusError> {
    let mut files = Vec::new();
    collect(root, &mut files)?;
    let root = root.to_owned();
    let options = Arc::clone(options);
    Ok(Box::new(files.into_iter().map(move |path| document(&root, &path, &options))))
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), CorpusError> {
    for path in entries(folder)? {
        let kind = std::fs::symlink_metadata(&path).map_err(|error| io_error(&path, error))?;
        if kind.is_dir() {
            collect(&path, files)?;
        } else if path.is_file() {
            files.push(path);
        }
    }
    Ok(())
}

fn document(root: &Path, path: &Path, options: &ReadOptions) -> Result<Document, CorpusError> {
    let source = Source::open(path, options)?;
    let place = source.place();
    let on_bad_utf8 = source.on_bad_utf8();
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut source.into_bytes(), &mut bytes)
        .map_err(|error| super::source::read_error(error, &place))?;
    let text = utf8(&bytes, on_bad_utf8, 0).map_err(|problem| problem.at(&place))?.into_owned();
    let below = path.strip_prefix(root).unwrap_or(path);
    let mut components = below.components();
    let top = components.next().map(|part| part.as_os_str().to_string_lossy().into_owned());
    let labels = match (top, components.next()) {
        (Some(label), Some(_)) => vec![label],
        _ if options.labels == LabelUse::Required && options.qrels.is_none() => {
            return Err(Problem::NoLabels { format: "a file outside the label folders" }.at(&place));
        }
        _ => Vec::new(),
    };
    let id = below.to_string_lossy().into_owned();
    Ok(Document { id, content: Content::Text(text), labels, weight: 1.0, group: None, place })
}
