//! Changes of a model's documents in a file beside it, the journal: appended, synced, and folded into the model
//! by `compact`.
//!
//! # The file
//!
//! `MODEL.journal` begins with the letters `CLSFJRNL`, its version and the checksum of the settings of the model that it
//! belongs to (which hold the checksums of all arrays), and a checksum of these. Frames follow: the length of the
//! changes, a mark (1: the last frame of a commit), a checksum of the changes and one of these three, and the
//! changes themselves. All numbers are little-endian; checksums are CRC-32.
//!
//! A commit counts when its last frame is there. What a process left behind that was killed before is ignored, and
//! removed by the next commit. A journal of another model (the model was compacted or trained again, and the process
//! was killed before it could remove the journal) is ignored with a warning.

use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
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

/// The checksum that says to which model a journal belongs.
fn identity(model: &Model) -> u32 {
    let settings = serde_json::to_vec(model.settings());
    crc32fast::hash(&settings.expect("settings were read from JSON"))
}

impl Model {
    /// A word for the model and the changes of its documents: another one after each change.
    pub fn version(&self) -> String {
        format!("{:08x}", identity(self))
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
        Err(ModelProblem::invalid("journal", place))
    };
    let mut contents = Contents { commits: Vec::new(), end: HEADER as u64 };
    let mut commit = Vec::new();
    let mut at = 0;
    while let Some(frame) = bytes.get(at..at + FRAME) {
        let rest = &bytes[at + FRAME..];
        if crc32fast::hash(&frame[..9]) != word(&frame[9..]) {
            // The file grew, but what was written did not reach it.
            if bytes[at..].iter().all(|&byte| byte == 0) {
                break;
            }
            return damaged(at, "a frame is damaged");
        }
        let length = word(frame) as usize;
        if length > MOST as usize {
            return damaged(at, "a frame is too long");
        }
        let Some(payload) = rest.get(..length) else { break };
        if crc32fast::hash(payload) != word(&frame[5..]) {
            if rest.len() == length {
                break;
            }
            return damaged(at, "the changes of a frame are damaged");
        }
        let mut unread = payload;
        while !unread.is_empty() {
            match postcard::take_from_bytes(unread) {
                Ok((change, others)) => {
                    commit.push(change);
                    unread = others;
                }
                Err(_) => return damaged(at, "a change is not valid"),
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
        let (found, oldest, newest) = (version.into(), VERSION, VERSION);
        return Err(ModelProblem::Version { expected, found, oldest, newest });
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

/// Removes the journal of a model that was replaced, so that it is not taken for one of the new model.
pub(super) fn forget(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(journal_path(path)) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Keeps other processes from changing a model's documents until it is dropped: a lock on the journal.
#[derive(Debug)]
pub struct JournalLock {
    journal: PathBuf,
    file: File,
}

impl JournalLock {
    /// Locks the journal of a model, which is made if there is none.
    ///
    /// # Errors
    /// If there is no such model, the journal cannot be opened, or another process has locked it.
    pub fn new(model: &Path) -> Result<Self, UpdateError> {
        // Fails before a journal is made for a model that is not there.
        let there = File::open(model).map_err(ModelProblem::Read);
        let _ = there.map_err(|problem| ModelError { path: model.to_owned(), problem })?;
        let journal = journal_path(model);
        let wrong = |source| ModelError {
            path: journal.clone(),
            problem: OutputProblem::Io { doing: "open", source }.into(),
        };
        loop {
            let options = File::options().read(true).append(true).create(true).open(&journal);
            let file = options.map_err(wrong)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(UpdateError::Locked { path: journal }),
                Err(TryLockError::Error(error)) => return Err(wrong(error).into()),
            }
            let held = Self { journal: journal.clone(), file };
            // Another process may have removed this file, or put another in its place.
            if held.is_there() {
                return Ok(held);
            }
        }
    }

    /// Whether the locked file still has the journal's name.
    fn is_there(&self) -> bool {
        let place = |data: std::fs::Metadata| (data.dev(), data.ino());
        let own = self.file.metadata().map(place);
        let there = std::fs::metadata(&self.journal).map(place);
        own.is_ok_and(|own| there.is_ok_and(|there| own == there))
    }
}

impl Drop for JournalLock {
    fn drop(&mut self) {
        // A journal that never began says nothing.
        if self.file.metadata().is_ok_and(|data| data.len() == 0) && self.is_there() {
            let _ = std::fs::remove_file(&self.journal);
        }
    }
}

/// A model file whose documents are being changed: no other process changes them meanwhile.
///
/// ```
/// use classify::corpus::{Corpus, ReadOptions};
/// use classify::model::{Change, Model, TrainSettings, Updates, UpdatedModel};
/// use classify::decide::Decision;
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
        let fail = |problem| ModelError { path: held.journal.clone(), problem };
        // The model as it is now: it may have been compacted just before.
        let model = Model::open_alone(path)?;
        let mut bytes = Vec::new();
        (&held.file).read_to_end(&mut bytes).map_err(|error| fail(ModelProblem::Read(error)))?;
        let identity = identity(&model);
        let mut collection = Collection::new(Arc::new(model));
        let end = match contents(&bytes, identity).map_err(fail)? {
            Beside::Nothing => 0,
            Beside::Stale => {
                if bytes.len() >= HEADER {
                    warn_of_stale(&held.journal);
                }
                0
            }
            Beside::Own(Contents { commits, end }) => {
                replay(&mut collection, commits).map_err(fail)?;
                end
            }
        };
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
        let fail = |problem| ModelError { path: self.held.journal.clone(), problem };
        let bytes = frames(&changes).map_err(fail)?;
        let checked = self.collection.check(&changes);
        checked?;
        let written = self.append(&bytes);
        if let Err(source) = written {
            // Whatever was written is no commit, unless it cannot even be taken back.
            self.failed = self.failed || self.held.file.set_len(self.end).is_err();
            let problem = OutputProblem::Io { doing: "write", source };
            return Err(
                ModelError { path: self.held.journal.clone(), problem: problem.into() }.into()
            );
        }
        Ok(self.collection.apply(changes)?)
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.failed {
            return Err(io::Error::other("an earlier write failed: open the model again"));
        }
        self.held.file.set_len(self.end)?;
        self.held.file.seek(SeekFrom::End(0))?;
        let is_new = self.end == 0;
        let mut all = if is_new { header(self.identity).to_vec() } else { Vec::new() };
        all.extend(bytes);
        self.held.file.write_all(&all)?;
        self.held.file.sync_data()?;
        if is_new {
            // The journal's name is to last, too.
            let folder = File::open(self.held.journal.parent().unwrap_or(Path::new("/")));
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
        self.replace(&self.model(), output)?;
        Ok(self.model())
    }

    /// Replaces the model by another one, and removes the journal: as [`compact`](Self::compact).
    ///
    /// # Errors
    /// As [`compact`](Self::compact).
    pub fn replace(&self, model: &Model, output: Output) -> Result<(), ModelError> {
        // It removes the journal of what it replaces.
        model.save_to(output)
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
