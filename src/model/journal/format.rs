//! The format of a journal: a header, then frames of changes. See
//! [`journal`](crate::model::journal).

use crate::model::{Change, ModelProblem};

const MAGIC: &[u8; 8] = b"CLSFJRNL";
const VERSION: u32 = 1;
/// Number of bytes of the header.
pub(in crate::model) const HEADER_SIZE: usize = 20;
/// Number of bytes before the changes of a frame.
const FRAME_HEADER_SIZE: usize = 13;
/// Minimum number of bytes of changes in a frame, except in the last frame of a commit.
const MIN_FRAME_SIZE: usize = 1 << 20;
/// Maximum number of bytes of changes in a frame. A frame ends after the change that reaches
/// `MIN_FRAME_SIZE`.
const MAX_FRAME_SIZE: u32 = 1 << 30;

pub(in crate::model) fn header(identity: u32) -> [u8; HEADER_SIZE] {
    let mut header = [0; HEADER_SIZE];
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

/// Encodes the changes of a commit as frames. The last frame is marked.
pub(in crate::model) fn frames(changes: &[Change]) -> Result<Vec<u8>, ModelProblem> {
    let mut bytes = Vec::new();
    let mut payload = Vec::new();
    for (index, change) in changes.iter().enumerate() {
        payload = postcard::to_extend(change, payload)
            .map_err(|error| ModelProblem::invalid("journal", error.to_string()))?;
        let is_last = index + 1 == changes.len();
        if is_last || payload.len() >= MIN_FRAME_SIZE {
            let length =
                u32::try_from(payload.len()).ok().filter(|&length| length <= MAX_FRAME_SIZE);
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

/// The contents of a journal.
#[derive(Debug, Default)]
pub(in crate::model) struct JournalContents {
    /// The changes of each commit.
    pub(in crate::model) commits: Vec<Vec<Change>>,
    /// The offset of the end of the last commit.
    pub(in crate::model) end: u64,
}

/// Reads the frames of a journal after its header.
fn read_frames(bytes: &[u8]) -> Result<JournalContents, ModelProblem> {
    let damaged = |offset: usize, what: &str| {
        let message = format!("{what} at byte {}", offset + HEADER_SIZE);
        ModelProblem::invalid("journal", message)
    };
    let mut contents = JournalContents { commits: Vec::new(), end: HEADER_SIZE as u64 };
    let mut commit = Vec::new();
    let mut offset = 0;
    while let Some(frame) = bytes.get(offset..offset + FRAME_HEADER_SIZE) {
        let rest = &bytes[offset + FRAME_HEADER_SIZE..];
        if crc32fast::hash(&frame[..9]) != word(&frame[9..]) {
            if is_torn(&bytes[offset..], 0) {
                break;
            }
            return Err(damaged(offset, "a frame is damaged"));
        }
        let length = word(frame) as usize;
        if length > MAX_FRAME_SIZE as usize {
            return Err(damaged(offset, "a frame is too long"));
        }
        let Some(payload) = rest.get(..length) else { break };
        if crc32fast::hash(payload) != word(&frame[5..]) {
            if is_torn(&bytes[offset..], length) {
                break;
            }
            return Err(damaged(offset, "the changes of a frame are damaged"));
        }
        let mut unread = payload;
        while !unread.is_empty() {
            match postcard::take_from_bytes(unread) {
                Ok((change, others)) => {
                    commit.push(change);
                    unread = others;
                }
                Err(_) => return Err(damaged(offset, "a change is not valid")),
            }
        }
        offset += FRAME_HEADER_SIZE + length;
        if frame[4] == 1 {
            contents.commits.push(std::mem::take(&mut commit));
            contents.end = (HEADER_SIZE + offset) as u64;
        }
    }
    Ok(contents)
}

/// Whether the damage may be due to a commit that was never completed. After a power failure, any
/// part of such a commit may be on disk. A damaged earlier commit is followed by the end of a later
/// commit, which began only after the earlier commit was on disk. `length` is the length of the
/// damaged frame, or 0 if unknown. Only long commits have several frames.
fn is_torn(bytes: &[u8], length: usize) -> bool {
    let ends_a_commit = |frame: &[u8]| {
        let head = &frame[..FRAME_HEADER_SIZE];
        let length = word(head) as usize;
        head[4] == 1
            && crc32fast::hash(&head[..9]) == word(&head[9..])
            && frame[FRAME_HEADER_SIZE..]
                .get(..length)
                .is_some_and(|payload| crc32fast::hash(payload) == word(&head[5..]))
    };
    let mut ends = (1..bytes.len().saturating_sub(FRAME_HEADER_SIZE - 1))
        .filter(|&offset| ends_a_commit(&bytes[offset..]));
    match ends.next() {
        None => true,
        // The marked frame must be the end of the same commit and of the file.
        Some(offset) => {
            let end = offset + FRAME_HEADER_SIZE + word(&bytes[offset..]) as usize;
            end == bytes.len() && ends.next().is_none() && length >= MIN_FRAME_SIZE
        }
    }
}

/// The state of the journal next to a model.
pub(in crate::model) enum JournalState {
    Missing,
    /// A journal to ignore: of another model, or with an incomplete header.
    Stale,
    Valid(JournalContents),
}

/// Reads the bytes of a journal, for the model with the given identity.
pub(in crate::model) fn contents(
    bytes: &[u8],
    identity: u32,
) -> Result<JournalState, ModelProblem> {
    if bytes.is_empty() {
        return Ok(JournalState::Missing);
    }
    let Some(start) = bytes.get(..HEADER_SIZE) else {
        // A process was killed while it created the journal.
        return Ok(JournalState::Stale);
    };
    if &start[..8] != MAGIC {
        return Err(ModelProblem::invalid("journal", "it is not a journal".to_owned()));
    }
    if crc32fast::hash(&start[..16]) != word(&start[16..]) {
        return Err(ModelProblem::invalid("journal", "its header is damaged".to_owned()));
    }
    let version = word(&start[8..]);
    if version != VERSION {
        let expected = "a journal";
        let found = version.into();
        return Err(ModelProblem::Version { expected, found, supported: VERSION });
    }
    if word(&start[12..]) != identity {
        return Ok(JournalState::Stale);
    }
    Ok(JournalState::Valid(read_frames(&bytes[HEADER_SIZE..])?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(ids: &str) -> Vec<Change> {
        let remove = |id: &str| Change::Remove { id: id.to_owned() };
        ids.split_whitespace().map(remove).collect()
    }

    #[test]
    fn written_changes_are_read_back() {
        let commits = ["a b", "c", "d e f"].map(changes);
        let mut bytes = header(7).to_vec();
        for commit in &commits {
            bytes.extend(frames(commit).unwrap());
        }
        let Ok(JournalState::Valid(read)) = contents(&bytes, 7) else { panic!("a valid journal") };
        assert_eq!((read.commits, read.end), (commits.to_vec(), bytes.len() as u64));
        assert!(matches!(contents(&bytes, 8), Ok(JournalState::Stale)));
        assert!(matches!(contents(&[], 8), Ok(JournalState::Missing)));
    }

    /// If a write is cut short at any byte, all earlier commits are read, and the incomplete commit
    /// is ignored.
    #[test]
    fn an_incomplete_commit_is_ignored() {
        let mut bytes = header(7).to_vec();
        bytes.extend(frames(&changes("a b")).unwrap());
        let first = bytes.len();
        bytes.extend(frames(&changes("c")).unwrap());
        for end in 0..bytes.len() {
            match contents(&bytes[..end], 7).unwrap() {
                JournalState::Missing => assert_eq!(end, 0),
                JournalState::Stale => assert!(end < HEADER_SIZE),
                JournalState::Valid(read) => {
                    assert!(end >= HEADER_SIZE);
                    let expected = if end < first { vec![] } else { vec![changes("a b")] };
                    assert_eq!(read.commits, expected, "{end} bytes");
                }
            }
            // The file has its full length, but its last bytes are 0.
            let mut zeros = bytes.clone();
            zeros[end..].fill(0);
            if end == first {
                let Ok(JournalState::Valid(read)) = contents(&zeros, 7) else {
                    panic!("a valid journal")
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
        for offset in 0..first {
            let mut damaged = bytes.clone();
            damaged[offset] ^= 0x20;
            let error = contents(&damaged, 7).err();
            assert!(error.is_some(), "byte {offset}");
        }
    }
}
