//! Changes of a model's documents in a file beside it, the journal: appended, synced, and folded into the model
//! by `compact`.
//!
//! # The file
//!
//! `MODEL.journal` begins with the letters `CLSFJRNL`, its version and a checksum of the checksums of all arrays of the model
//! that it belongs to, and a checksum of these. Frames follow: the length of the
//! changes, a mark (1: the last frame of a commit), a checksum of the changes and one of these three, and the
//! changes themselves. All numbers are little-endian; checksums are CRC-32.
//!
//! A commit counts when its last frame is there. What a process left behind that was killed before is ignored, and
//! removed by the next commit. A journal of another model (the model was compacted or trained again, and the process
//! was killed before it could remove the journal) is ignored with a warning.

use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use array_file::output::{Output, OutputProblem};

use super::{Change, ChangeError, Changed, Collection, Model, ModelError, ModelProblem};

const MAGIC: &[u8; 8] = b"CLSFJRNL";
const VERSION: u32 = 1;
const HEADER: usize = 20;
const FRAME: usize = 13;
/// The size from which a frame ends.
const ENOUGH: usize = 1 << 20;
/// The largest frame that is read: a frame ends after the change that fills it.
const MOST: u32 = 1 << 30;

/// Why a model's documents could not be changed.
#[derive(Debug, thiserror::Error)]
pub enum UpdateError {
    /// The model or its journal cannot be read or written.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A change cannot be made.
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// The model's file was replaced by another one.
    #[error("{}: the model was replaced by another one meanwhile: open it again", crate::printable::printable(path.display()))]
    Replaced {
        /// The model.
        path: PathBuf,
    },
    /// Another process changes the model's documents.
    #[error("{}: another process changes this model's documents", crate::printable::printable(path.display()))]
    Locked {
        /// The journal.
        path: PathBuf,
    },
}

/// The journal of a model: the model's path with `.journal` at its end.
pub fn journal_path(model: &Path) -> PathBuf {
    // All names of a file have one journal.
    let model = std::fs::canonicalize(model).unwrap_or_else(|_| model.to_owned());
    let mut name = model.into_os_string();
    name.push(".journal");
    name.into()
}

/// Identifies the model that a journal belongs to: the CRC-32 of the checksums in its file.
fn identity(model: &Model) -> u32 {
    let checksums = serde_json::to_vec(&model.settings().checksums);
    crc32fast::hash(&checksums.expect("names and words"))
}

impl Model {
    /// A word for the model and the changes of its documents: another one after each change.
    pub fn version(&self) -> String {
        // Settings are read from JSON, or will be written as it.
        let settings = serde_json::to_vec(self.settings()).unwrap_or_default();
        format!("{:08x}", crc32fast::hash(&settings))
    }
}

fn header(identity: u32) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..8].copy_from_slice(MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    header[12..16].copy_from_slice(&identity.to_le_bytes());
    let sum = crc32fast::hash(&header[..16]);
    header[16..].copy_from_slice(&sum.to_le_bytes());
    header
}

fn word(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes[..4].try_into().expect("four bytes"))
}

/// Frames with changes; the last one is marked.
fn frames(changes: &[Change]) -> Result<Vec<u8>, ModelProblem> {
    let mut bytes = Vec::new();
    let mut payload = Vec::new();
    for (at, change) in changes.iter().enumerate() {
        payload = postcard::to_extend(change, payload)
            .map_err(|error| ModelProblem::invalid("journal", error.to_string()))?;
        let is_last = at + 1 == changes.len();
        if is_last || payload.len() >= ENOUGH {
            let length = u32::try_from(payload.len()).ok().filter(|&length| length <= MOST);
            let length = length.ok_or_else(|| {
                ModelProblem::invalid("journal", "a document is larger than 1 GiB".to_owned())
            })?;
            let start = bytes.len();
            bytes.extend(length.to_le_bytes());
            bytes.push(u8::from(is_last));
            bytes.extend(crc32fast::hash(&payload).to_le_bytes());
            let sum = crc32fast::hash(&bytes[start..]);
            bytes.extend(sum.to_le_bytes());
            bytes.append(&mut payload);
        }
    }
    Ok(bytes)
}

/// What a journal holds.
#[derive(Debug, Default)]
struct Contents {
    /// The changes of each commit.
    commits: Vec<Vec<Change>>,
    /// Where the last commit ends.
    end: u64,
}

/// Reads the frames of a journal after its header.
fn read_frames(bytes: &[u8]) -> Result<Contents, ModelProblem> {
    let damaged = |at: usize, what: &str| {
        let place = format!("{what} at byte {}", at + HEADER);
        ModelProblem::invalid("journal", place)
    };
    let mut contents = Contents { commits: Vec::new(), end: HEADER as u64 };
    let mut commit = Vec::new();
    let mut at = 0;
    while let Some(frame) = bytes.get(at..at + FRAME) {
        let rest = &bytes[at + FRAME..];
        if crc32fast::hash(&frame[..9]) != word(&frame[9..]) {
            if is_torn(&bytes[at..], 0) {
                break;
            }
            return Err(damaged(at, "a frame is damaged"));
        }
        let length = word(frame) as usize;
        if length > MOST as usize {
            return Err(damaged(at, "a frame is too long"));
        }
        let Some(payload) = rest.get(..length) else { break };
        if crc32fast::hash(payload) != word(&frame[5..]) {
            if is_torn(&bytes[at..], length) {
                break;
            }
            return Err(damaged(at, "the changes of a frame are damaged"));
        }
        let mut unread = payload;
        while !unread.is_empty() {
            match postcard::take_from_bytes(unread) {
                Ok((change, others)) => {
                    commit.push(change);
                    unread = others;
                }
                Err(_) => return Err(damaged(at, "a change is not valid")),
            }
        }
        at += FRAME + length;
        if frame[4] == 1 {
            contents.commits.push(std::mem::take(&mut commit));
            contents.end = (HEADER + at) as u64;
        }
    }
    Ok(contents)
}

/// Whether damage is that of a commit that never ended: where power fails, any part of it may have reached the disk. After
/// damage of another kind there is the end of a later commit, which only began when this one was on disk. `length` is that
/// of the damaged frame, if it is known: a commit has a frame after it only if it is long.
fn is_torn(bytes: &[u8], length: usize) -> bool {
    let ends_a_commit = |frame: &[u8]| {
        let head = &frame[..FRAME];
        let length = word(head) as usize;
        head[4] == 1
            && crc32fast::hash(&head[..9]) == word(&head[9..])
            && frame[FRAME..]
                .get(..length)
                .is_some_and(|own| crc32fast::hash(own) == word(&head[5..]))
    };
    let mut ends =
        (1..bytes.len().saturating_sub(FRAME - 1)).filter(|&at| ends_a_commit(&bytes[at..]));
    match ends.next() {
        None => true,
        // The end of the same commit, at the end of the file.
        Some(at) => {
            let end = at + FRAME + word(&bytes[at..]) as usize;
            end == bytes.len() && ends.next().is_none() && length >= ENOUGH
        }
    }
}

/// What is beside a model.
enum Beside {
    Nothing,
    /// A journal of another model, or one that was just begun.
    Stale,
    Own(Contents),
}

/// Reads a journal's bytes for a model.
fn contents(bytes: &[u8], identity: u32) -> Result<Beside, ModelProblem> {
    if bytes.is_empty() {
        return Ok(Beside::Nothing);
    }
    let Some(start) = bytes.get(..HEADER) else {
        // A process was killed while it began the journal.
        return Ok(Beside::Stale);
    };
    if &start[..8] != MAGIC {
        return Err(ModelProblem::invalid("journal", "it is not a journal".to_owned()));
    }
    if crc32fast::hash(&start[..16]) != word(&start[16..]) {
        return Err(ModelProblem::invalid("journal", "its beginning is damaged".to_owned()));
    }
    let version = word(&start[8..]);
    if version != VERSION {
        let expected = "a journal";
        let found = version.into();
        return Err(ModelProblem::Version { expected, found, supported: VERSION });
    }
    if word(&start[12..]) != identity {
        return Ok(Beside::Stale);
    }
    Ok(Beside::Own(read_frames(&bytes[HEADER..])?))
}

/// The bytes of a file; nothing if it is not there.
fn bytes_of(path: &Path) -> io::Result<Vec<u8>> {
    match std::fs::read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        read => read,
    }
}

/// Opens a model with the changes of its journal. `open` opens the model's file itself.
pub(super) fn with_journal(
    path: &Path,
    open: impl Fn(&Path) -> Result<Model, ModelError>,
) -> Result<Model, ModelError> {
    let journal = journal_path(path);
    let fail = |problem| ModelError { path: journal.clone(), problem };
    // The journal first: a process that compacts the model in between leaves one that does not fit, and none after that.
    for _ in 0..2 {
        let bytes = bytes_of(&journal).map_err(|error| fail(ModelProblem::Read(error)))?;
        let model = open(path)?;
        match contents(&bytes, identity(&model)).map_err(fail)? {
            Beside::Nothing => return Ok(model),
            Beside::Stale => {}
            Beside::Own(Contents { commits, .. }) if commits.is_empty() => return Ok(model),
            Beside::Own(Contents { commits, .. }) => {
                let mut collection = Collection::new(Arc::new(model));
                replay(&mut collection, commits).map_err(fail)?;
                return Ok(collection.into_model().expect("no one else has it"));
            }
        }
    }
    let model = open(path)?;
    warn_of_stale(&journal);
    Ok(model)
}

fn warn_of_stale(journal: &Path) {
    tracing::warn!(
        "{} does not belong to this model, which was compacted or trained again since: it is ignored, and the next \
         change replaces it",
        crate::printable::printable(journal.display())
    );
}

fn replay(collection: &mut Collection, commits: Vec<Vec<Change>>) -> Result<(), ModelProblem> {
    for changes in commits {
        collection
            .apply(changes)
            .map_err(|error| ModelProblem::invalid("journal", error.to_string()))?;
    }
    Ok(())
}

/// Which file has a path now.
fn place(path: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(path).ok().map(|data| (data.dev(), data.ino()))
}

/// Keeps other processes from changing a model's documents until it is dropped: a lock on the model's file, and on its
/// journal if there is one. Nobody is kept from reading.
#[derive(Debug)]
pub struct JournalLock {
    path: PathBuf,
    model: File,
    journal: Option<File>,
}

/// Which file this is.
fn place_of(file: &File) -> Option<(u64, u64)> {
    file.metadata().ok().map(|data| (data.dev(), data.ino()))
}

impl JournalLock {
    /// Locks a model and its journal.
    ///
    /// # Errors
    /// If there is no such model, a file cannot be opened, or another process has locked one.
    pub fn new(model: &Path) -> Result<Self, UpdateError> {
        let fail = |path: &Path, problem| ModelError { path: path.to_owned(), problem };
        let lock = |path: &Path, file: &File| match file.try_lock() {
            Ok(()) => Ok(()),
            Err(TryLockError::WouldBlock) => Err(UpdateError::Locked { path: path.to_owned() }),
            Err(TryLockError::Error(error)) => Err(fail(path, ModelProblem::Read(error)).into()),
        };
        loop {
            let file = File::open(model).map_err(|error| fail(model, ModelProblem::Read(error)))?;
            lock(model, &file)?;
            // A process that compacts the model puts another file in its place, and removes the journal.
            if place_of(&file) != place(model) {
                continue;
            }
            let path = journal_path(model);
            let journal = match File::options().read(true).append(true).open(&path) {
                Ok(journal) => Some(journal),
                Err(error) if error.kind() == ErrorKind::NotFound => None,
                Err(error) => return Err(fail(&path, ModelProblem::Read(error)).into()),
            };
            if let Some(journal) = &journal {
                lock(&path, journal)?;
            }
            let held = Self { path, model: file, journal };
            if held.is_there() {
                return Ok(held);
            }
        }
    }

    /// Whether the locked journal, if there is one, still has its name.
    fn is_there(&self) -> bool {
        self.journal.as_ref().is_none_or(|journal| place_of(journal) == place(&self.path))
    }

    /// The journal, which is made if there is none: whoever may read the model may read it, and no one else.
    fn journal(&mut self) -> io::Result<&File> {
        if self.journal.is_none() {
            let mut options = File::options();
            let options = options.read(true).append(true).create_new(true).mode(0o600);
            let journal = options.open(&self.path)?;
            journal.try_lock().map_err(io::Error::from)?;
            let its = self.model.metadata()?;
            if its.permissions().readonly() {
                let _ = std::fs::remove_file(&self.path);
                return Err(io::Error::new(ErrorKind::PermissionDenied, "the model is read-only"));
            }
            // Another owner, if this user may.
            let _ = fchown(&journal, Some(its.uid()), Some(its.gid()));
            journal.set_permissions(its.permissions())?;
            self.journal = Some(journal);
        }
        Ok(self.journal.as_ref().expect("made just before"))
    }

    /// Removes the journal of a model that was replaced.
    pub(super) fn forget(&self) -> io::Result<()> {
        if self.journal.is_some() && self.is_there() {
            return std::fs::remove_file(&self.path);
        }
        Ok(())
    }
}

/// A model file whose documents are being changed: no other process changes them meanwhile.
///
/// ```
/// use classify::text::corpus::{Corpus, ReadOptions};
/// use classify::model::{Change, Model, TrainSettings, Updates, UpdatedModel};
/// use classify::decide::decision::Decision;
/// use classify::threads::Threads;
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("a.model");
/// let corpus = "{\"id\": \"1\", \"text\": \"bake the bread\", \"label\": \"cooking\"}
/// {\"id\": \"2\", \"text\": \"the guitar strings\", \"label\": \"music\"}";
/// let mut documents = Corpus::from_bytes("two lines", corpus.into(), ReadOptions::default())?;
/// let settings = TrainSettings::new(Default::default(), Decision::Single);
/// let threads = Threads::available()?;
/// classify::classifier::train(&mut documents, settings, Default::default(), &threads)?.save(&path)?;
///
/// let mut updated = UpdatedModel::open(&path)?;
/// updated.commit(vec![Change::Relabel { id: "2".into(), labels: vec!["sound".into()] }])?;
/// drop(updated);
/// let model = Model::open(&path)?;
/// assert_eq!(model.labels().iter().collect::<Vec<_>>(), ["cooking", "music", "sound"]);
/// assert_eq!(model.document_labels(1), [2]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct UpdatedModel {
    path: PathBuf,
    held: JournalLock,
    /// The end of the last commit; 0 before the journal begins.
    end: u64,
    identity: u32,
    collection: Collection,
    /// After a failed write nothing is known of the file.
    failed: bool,
}

impl UpdatedModel {
    /// Opens a model and its journal, which it locks until it is dropped.
    ///
    /// # Errors
    /// If either cannot be read or is not valid, or another process changes the model's documents.
    pub fn open(path: &Path) -> Result<Self, UpdateError> {
        let held = JournalLock::new(path)?;
        let fail = |problem| ModelError { path: held.path.clone(), problem };
        // Whoever replaces the model without asking does so before it is read, or is found out by the next commit.
        let model = Model::open_alone(path)?;
        let mut bytes = Vec::new();
        if let Some(mut journal) = held.journal.as_ref() {
            journal.read_to_end(&mut bytes).map_err(|error| fail(ModelProblem::Read(error)))?;
        }
        let identity = identity(&model);
        let mut collection = Collection::new(Arc::new(model));
        let end = match contents(&bytes, identity).map_err(fail)? {
            Beside::Nothing => 0,
            Beside::Stale => {
                if bytes.len() >= HEADER {
                    warn_of_stale(&held.path);
                }
                0
            }
            Beside::Own(Contents { commits, end }) => {
                replay(&mut collection, commits).map_err(fail)?;
                end
            }
        };
        collection.join();
        let path = path.to_owned();
        Ok(Self { path, held, end, identity, collection, failed: false })
    }

    /// The documents.
    pub fn collection(&self) -> &Collection {
        &self.collection
    }

    /// The model with all changes.
    pub fn model(&self) -> Arc<Model> {
        self.collection.model()
    }

    /// Makes changes, all or none: they are in the journal and synced when this returns.
    ///
    /// # Errors
    /// If a change cannot be made, or the journal cannot be written; nothing is changed then.
    pub fn commit(&mut self, changes: Vec<Change>) -> Result<Changed, UpdateError> {
        if changes.is_empty() {
            return Ok(Changed::default());
        }
        let fail = |problem| ModelError { path: self.held.path.clone(), problem };
        let bytes = frames(&changes).map_err(fail)?;
        self.collection.check(&changes)?;
        self.check_place()?;
        let before = self.end;
        let written = self.append(&bytes);
        if let Err(source) = written {
            // Whatever was written is no commit, unless it cannot even be taken back.
            let end = self.end;
            self.failed |=
                self.held.journal.as_ref().is_some_and(|file| file.set_len(end).is_err());
            let problem = OutputProblem::Io { doing: "write", source };
            return Err(ModelError { path: self.held.path.clone(), problem: problem.into() }.into());
        }
        if let Err(replaced) = self.check_place() {
            // It may have been removed, or belong to no model.
            let _ = self.held.journal.as_ref().map(|file| file.set_len(before));
            self.failed = true;
            return Err(replaced);
        }
        Ok(self.collection.apply(changes)?)
    }

    /// Whether journal and model are still those that were opened.
    fn check_place(&self) -> Result<(), UpdateError> {
        if self.held.is_there() && place(&self.path) == place_of(&self.held.model) {
            return Ok(());
        }
        Err(UpdateError::Replaced { path: self.path.clone() })
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.failed {
            return Err(io::Error::other("an earlier write failed: open the model again"));
        }
        let is_new = self.end == 0;
        let mut all = if is_new { header(self.identity).to_vec() } else { Vec::new() };
        all.extend(bytes);
        let end = self.end;
        let mut journal = self.held.journal()?;
        journal.set_len(end)?;
        journal.seek(SeekFrom::End(0))?;
        journal.write_all(&all)?;
        journal.sync_data()?;
        if is_new {
            // The journal's name is to last, too.
            let folder = File::open(self.held.path.parent().unwrap_or(Path::new("/")));
            match folder.and_then(|folder| folder.sync_all()) {
                Err(error) if error.kind() == ErrorKind::PermissionDenied => {}
                synced => synced?,
            }
        }
        self.end += all.len() as u64;
        Ok(())
    }

    /// Writes the model with all changes in place of the old one, and removes the journal. A process that is killed meanwhile
    /// leaves the old model with its journal, or the new model.
    ///
    /// # Errors
    /// If the model cannot be written; nothing is changed then. Or if the journal cannot be removed: it does not belong to
    /// the new model and is ignored.
    pub fn compact(self) -> Result<Arc<Model>, UpdateError> {
        let output = Output::open(&self.path)
            .map_err(|error| ModelError { path: error.path, problem: error.problem.into() })?;
        let model = self.model();
        self.replace(&model, output)?;
        Ok(model)
    }

    /// Replaces the model by another one, and removes the journal: as [`compact`](Self::compact).
    ///
    /// # Errors
    /// As [`compact`](Self::compact).
    pub fn replace(self, model: &Model, output: Output) -> Result<(), UpdateError> {
        self.check_place()?;
        Ok(model.save_held(output, &self.held)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(ids: &str) -> Vec<Change> {
        let remove = |id: &str| Change::Remove { id: id.to_owned() };
        ids.split_whitespace().map(remove).collect()
    }

    #[test]
    fn what_was_written_is_read() {
        let commits = ["a b", "c", "d e f"].map(changes);
        let mut bytes = header(7).to_vec();
        for commit in &commits {
            bytes.extend(frames(commit).unwrap());
        }
        let Ok(Beside::Own(read)) = contents(&bytes, 7) else { panic!("the journal's own") };
        assert_eq!((read.commits, read.end), (commits.to_vec(), bytes.len() as u64));
        assert!(matches!(contents(&bytes, 8), Ok(Beside::Stale)));
        assert!(matches!(contents(&[], 8), Ok(Beside::Nothing)));
    }

    /// Wherever a write ends, the commits before it are there and no part of it.
    #[test]
    fn a_write_that_was_cut_short() {
        let mut bytes = header(7).to_vec();
        bytes.extend(frames(&changes("a b")).unwrap());
        let first = bytes.len();
        bytes.extend(frames(&changes("c")).unwrap());
        for end in 0..bytes.len() {
            match contents(&bytes[..end], 7).unwrap() {
                Beside::Nothing => assert_eq!(end, 0),
                Beside::Stale => assert!(end < HEADER),
                Beside::Own(read) => {
                    assert!(end >= HEADER);
                    let expected = if end < first { vec![] } else { vec![changes("a b")] };
                    assert_eq!(read.commits, expected, "{end} bytes");
                }
            }
            // The file has its length, but the last bytes did not reach it.
            let mut zeros = bytes.clone();
            zeros[end..].fill(0);
            if end == first {
                let Ok(Beside::Own(read)) = contents(&zeros, 7) else {
                    panic!("the journal's own")
                };
                assert_eq!(read.commits.len(), 1);
            }
        }
    }

    #[test]
    fn damage_before_the_end_is_an_error() {
        let mut bytes = header(7).to_vec();
        bytes.extend(frames(&changes("a b")).unwrap());
        let first = bytes.len();
        bytes.extend(frames(&changes("c")).unwrap());
        for at in 0..first {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x20;
            let error = contents(&damaged, 7).err();
            assert!(error.is_some(), "byte {at}");
        }
    }
}
