//! Decompresses, concurrently, members that declare their size: the members of BGZF files, which
//! `bgzip` writes (SAM/BAM specification, section 4.1), and the frames of `pzstd`. Each frame of
//! `pzstd` follows a skippable frame with its size.

use std::collections::VecDeque;
use std::io::{self, BufReader, Cursor, Read};
use std::sync::Arc;

use super::compressed::{BUFFER, GZIP, decompress};
use super::peeked::{Bytes, PeekReader, failing_stream};
use crate::threads::{Task, Threads};

/// The number of bytes of the header that declares the size of a member.
const HEADER: usize = 18;
/// The first bytes of a skippable frame of pzstd: the magic number and the frame size.
const PZSTD_HEADER: [u8; 8] = [0x50, 0x2A, 0x4D, 0x18, 4, 0, 0, 0];
/// An empty gzip member and an empty skippable zstd frame. Prepended to the rest of a stream, they
/// make the decoder treat the rest as the continuation of the stream.
const EMPTY_GZIP: [u8; 20] = [0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 3, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0];
const EMPTY_ZSTD: [u8; 8] = [0x50, 0x2A, 0x4D, 0x18, 0, 0, 0, 0];
/// The maximum declared size of a member. Larger members are decompressed by the reading thread.
const MAX_MEMBER: usize = 1 << 24;
/// The minimum number of compressed bytes per part. A thread decompresses one part at a time.
const PART: usize = 1 << 17;
/// The maximum decompressed size of a part. A larger part is decompressed again by the reading
/// thread.
const MAX_DECOMPRESSED: usize = 1 << 25;
/// The maximum number of unconsumed parts per thread.
const PARTS_PER_THREAD: usize = 2;

/// Returns `bytes`, decompressed if they begin with the magic bytes of gzip or zstd. Decompresses
/// on all `threads` if the members declare their sizes.
pub(super) fn decompress_on_threads(bytes: Bytes, threads: Option<&Threads>) -> io::Result<Bytes> {
    let Some(threads) = threads.filter(|threads| threads.count() > 1) else {
        return decompress(bytes);
    };
    match Members::open(PeekReader::new(bytes), threads)? {
        Ok(members) => Ok(Box::new(BufReader::with_capacity(BUFFER, members))),
        Err(others) => decompress(Box::new(others)),
    }
}

/// Returns the declared size of the member that begins with `header`.
fn declared_size(header: &[u8]) -> Option<usize> {
    let size = if let Some(size) = header.strip_prefix(&PZSTD_HEADER) {
        PZSTD_HEADER.len() + 4 + usize::try_from(u32::from_le_bytes(*size.first_chunk()?)).ok()?
    } else if header.starts_with(&GZIP)
        // The method is deflate, and the first extra field is `BC` with two bytes.
        && (header.get(2)?, header.get(3)? & 4) == (&8, 4)
        && header.get(12..16)? == b"BC\x02\x00"
    {
        usize::from(u16::from_le_bytes(*header.get(16..)?.first_chunk()?)) + 1
    } else {
        return None;
    };
    (HEADER..=MAX_MEMBER).contains(&size).then_some(size)
}

/// The result of decompressing a part.
enum PartBytes {
    /// All decompressed bytes, or the bytes before an error.
    Whole(Vec<u8>, Option<io::Error>),
    /// The compressed part, whose decompressed size exceeds the maximum.
    Long(Arc<[u8]>),
}

impl PartBytes {
    fn decompress(part: Arc<[u8]>) -> Self {
        let mut decompressed = Vec::new();
        let read = decompress(Box::new(Cursor::new(Arc::clone(&part)))).and_then(|bytes| {
            bytes.take(MAX_DECOMPRESSED as u64 + 1).read_to_end(&mut decompressed)
        });
        match read {
            Ok(read) if read > MAX_DECOMPRESSED => Self::Long(part),
            read => Self::Whole(decompressed, read.err()),
        }
    }
}

/// A reader of the decompressed bytes of members. The reading thread decompresses the next part
/// itself unless another thread has started it, because all other threads might be waiting for this
/// reader.
struct Members {
    compressed: Option<PeekReader>,
    /// An empty member of the same format.
    empty_member: &'static [u8],
    threads: Threads,
    parts: VecDeque<Task<PartBytes>>,
    part: Bytes,
    /// The decompressed bytes after the last member that declares its size.
    rest: Option<Bytes>,
}

impl Members {
    /// Creates the reader if the first member declares its size. Otherwise, returns the stream
    /// unchanged.
    fn open(mut bytes: PeekReader, threads: &Threads) -> io::Result<Result<Self, PeekReader>> {
        let header = bytes.peek_until(|head| head.len() >= HEADER)?;
        if declared_size(header).is_none() {
            return Ok(Err(bytes));
        }
        let empty_member: &[u8] = if header.starts_with(&GZIP) { &EMPTY_GZIP } else { &EMPTY_ZSTD };
        Ok(Ok(Self {
            compressed: Some(bytes),
            empty_member,
            threads: threads.clone(),
            parts: VecDeque::new(),
            part: Box::new(io::empty()),
            rest: None,
        }))
    }

    /// Starts to decompress the next members.
    fn start(&mut self, mut compressed: PeekReader) {
        let mut part = Vec::new();
        while part.len() < PART {
            let start = part.len();
            match self.next_member(&mut compressed, &mut part) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    // The bytes before the error may still decompress.
                    let begin = Cursor::new(part.split_off(start));
                    compressed = PeekReader::new(Box::new(begin.chain(failing_stream(error))));
                    break;
                }
            }
        }
        if part.len() >= PART {
            self.compressed = Some(compressed);
        } else {
            let rest = Box::new(Cursor::new(self.empty_member).chain(compressed));
            self.rest = Some(decompress(rest).unwrap_or_else(failing_stream));
        }
        if !part.is_empty() {
            let part: Arc<[u8]> = part.into();
            self.parts.push_back(self.threads.start(move || PartBytes::decompress(part)));
        }
    }

    /// Appends the next member to `part` if the member declares its size and is complete. Returns
    /// false otherwise.
    fn next_member(&self, compressed: &mut PeekReader, part: &mut Vec<u8>) -> io::Result<bool> {
        let header = compressed.peek_until(|head| head.len() >= HEADER)?;
        let has_same_format = header.starts_with(&self.empty_member[..2]);
        let Some(size) = declared_size(header).filter(|_| has_same_format) else {
            return Ok(false);
        };
        let start = part.len();
        compressed.by_ref().take(size as u64).read_to_end(part)?;
        if part.len() - start < size {
            *compressed = PeekReader::new(Box::new(Cursor::new(part.split_off(start))));
            return Ok(false);
        }
        Ok(true)
    }

    /// Returns the next decompressed part, or `None` at the end.
    fn next(&mut self) -> io::Result<Option<Bytes>> {
        while self.parts.len() < PARTS_PER_THREAD * self.threads.count()
            && let Some(compressed) = self.compressed.take()
        {
            self.start(compressed);
        }
        let Some(part) = self.parts.pop_front() else { return Ok(self.rest.take()) };
        Ok(Some(match part.finish() {
            PartBytes::Whole(bytes, None) => Box::new(Cursor::new(bytes)),
            PartBytes::Whole(bytes, Some(error)) => {
                Box::new(Cursor::new(bytes).chain(failing_stream(error)))
            }
            PartBytes::Long(part) => decompress(Box::new(Cursor::new(part)))?,
        }))
    }
}

impl Read for Members {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        loop {
            let read = match self.part.read(out) {
                Ok(0) => match self.next() {
                    Ok(None) => Ok(0),
                    Ok(Some(part)) => {
                        self.part = part;
                        continue;
                    }
                    Err(error) => Err(error),
                },
                read => read,
            };
            if read.as_ref().is_err_and(|error| error.kind() != io::ErrorKind::Interrupted) {
                // After an error, the stream ends.
                (self.compressed, self.rest, self.part) = (None, None, Box::new(io::empty()));
                self.parts.clear();
            }
            return read;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::num::NonZeroUsize;

    use flate2::{Compression, GzBuilder};
    use proptest::prelude::*;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;

    fn bgzf(text: &[u8]) -> Vec<u8> {
        let header = GzBuilder::new().extra(*b"BC\x02\0\0\0");
        let mut writer = header.write(Vec::new(), Compression::fast());
        writer.write_all(text).unwrap();
        let mut member = writer.finish().unwrap();
        let size = u16::try_from(member.len() - 1).unwrap();
        member[16..18].copy_from_slice(&size.to_le_bytes());
        member
    }

    fn pzstd(text: &[u8]) -> Vec<u8> {
        let frame = compress_to_vec(text, CompressionLevel::Fastest);
        let size = u32::try_from(frame.len()).unwrap().to_le_bytes();
        [&PZSTD_HEADER[..], &size, &frame].concat()
    }

    fn without_declared_size(text: &[u8]) -> Vec<u8> {
        let mut writer = GzBuilder::new().write(Vec::new(), Compression::fast());
        writer.write_all(text).unwrap();
        writer.finish().unwrap()
    }

    /// Returns the decompressed bytes and the error message, if any.
    fn read(bytes: &[u8], threads: Option<&Threads>) -> (Vec<u8>, Option<String>) {
        let mut decompressed = Vec::new();
        let bytes = Box::new(Cursor::new(bytes.to_vec()));
        let read = decompress_on_threads(bytes, threads).and_then(|mut all| {
            let read = all.read_to_end(&mut decompressed)?;
            assert_eq!(all.read(&mut [0])?, 0, "it has ended");
            Ok(read)
        });
        (decompressed, read.err().map(|error| error.to_string()))
    }

    /// Generates texts that compress poorly, so that a part consists of only a few members.
    fn texts() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let text = (0..60_000usize, any::<u64>()).prop_map(|(length, seed)| {
            let mut random = crate::random::Random::new(seed);
            (0..length).map(|_| u8::try_from(random.below(200)).unwrap()).collect::<Vec<u8>>()
        });
        prop::collection::vec(text, 1..12)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn members_are_read_as_on_one_thread(
            texts in texts(),
            kind in any::<bool>(),
            damage in 0..7,
            index in any::<prop::sample::Index>(),
        ) {
            let threads = Threads::new(NonZeroUsize::new(2).unwrap()).unwrap();
            let member: fn(&[u8]) -> Vec<u8> = if kind { bgzf } else { pzstd };
            let mut bytes: Vec<u8> = texts.iter().flat_map(|text| member(text)).collect();
            let index = index.index(bytes.len());
            match damage {
                0 => bytes.truncate(index),
                // Keep the first header intact, because it determines the type of the stream.
                1 if index > HEADER => bytes[index] ^= 4,
                2 => bytes.extend([0; 100]),
                3 => bytes.extend(b"something else"),
                4 => bytes.extend(without_declared_size(b"and more")),
                5 => bytes.extend(pzstd(b"and more")),
                _ => {}
            }
            let (expected, error) = read(&bytes, None);
            let (found, other) = read(&bytes, Some(&threads));
            prop_assert_eq!(error.is_some(), other.is_some(), "{:?} {:?}", error, other);
            if damage != 1 {
                prop_assert_eq!((found == expected, other), (true, error));
            }
            if damage > 5 {
                prop_assert_eq!(found, texts.concat());
            }
        }
    }

    #[test]
    fn long_members_are_decompressed_while_they_are_read() {
        let threads = Threads::new(NonZeroUsize::new(2).unwrap()).unwrap();
        let text = vec![b'a'; MAX_DECOMPRESSED + 3];
        let bytes = [pzstd(b"begin"), pzstd(&text), pzstd(b"end")].concat();
        let (found, error) = read(&bytes, Some(&threads));
        assert!(found == [b"begin", &text[..], b"end"].concat() && error.is_none());
    }

    #[test]
    fn only_declared_sizes_count() {
        assert_eq!(declared_size(&bgzf(b"text")), Some(bgzf(b"text").len()));
        assert_eq!(declared_size(&pzstd(b"text")), Some(pzstd(b"text").len()));
        assert_eq!(declared_size(&without_declared_size(b"text")), None);
        for length in 0..HEADER {
            assert_eq!(declared_size(&bgzf(b"text")[..length]), None);
        }
        assert_eq!(declared_size(&[&PZSTD_HEADER[..], &[0xff; 10]].concat()), None, "too long");
        assert_eq!(declared_size(&EMPTY_GZIP), None);
        assert_eq!(declared_size(&[EMPTY_ZSTD, [0; 8]].concat()), None);
        assert_eq!((read(&EMPTY_GZIP, None), read(&EMPTY_ZSTD, None)), Default::default());
    }
}
