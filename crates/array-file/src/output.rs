//! Output files that are opened before work starts, and written completely or not at all.
//!
//! A command registers its inputs and opens its outputs with [`Outputs`] before it does anything
//! else. A missing folder, or an output that is also an input, is then reported immediately. An
//! [`Output`] implements [`Write`] and replaces its target with [`Output::commit`].
//!
//! ```
//! use std::io::Write;
//! use array_file::output::{OutputProblem, Outputs};
//!
//! let folder = tempfile::tempdir()?;
//! let input = folder.path().join("input");
//! let answers = folder.path().join("answers");
//! std::fs::write(&input, "data")?;
//! let mut outputs = Outputs::default();
//! outputs.add_input(&input);
//! let refused = outputs.open(&input).unwrap_err();
//! assert!(matches!(refused.problem, OutputProblem::IsInput { .. }));
//!
//! let mut output = outputs.open(&answers)?;
//! output.write_all(b"whole")?;
//! assert!(!answers.exists(), "the file does not exist until it is complete");
//! output.commit()?;
//! assert_eq!(std::fs::read(&answers)?, b"whole");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

mod destination;
mod error;
mod inputs;
mod standard;
mod syncing;
mod temporary;

pub use error::{OutputError, OutputProblem};
pub use standard::note_closed_streams;
pub use temporary::{remove_temporary_files, try_to_remove_temporary_files};

use destination::Destination;
use inputs::{Identity, Inputs};
use standard::STANDARD;
use temporary::TemporaryFile;

/// The inputs of a command, and the outputs that it has opened so far.
///
/// No output may be the same file as an input or another output.
///
/// Files are compared by device and inode, so that a file is recognized under any name and through
/// links.
#[derive(Debug, Default)]
pub struct Outputs {
    inputs: Inputs,
    opened: Vec<(Identity, PathBuf)>,
}

impl Outputs {
    /// Adds an input: a file, a folder with all its contents, or `-` for standard input.
    pub fn add_input(&mut self, path: &Path) {
        self.inputs.add(path);
    }

    /// Opens an output like [`Output::open`], and compares it with the inputs and other outputs.
    ///
    /// # Errors
    /// Fails if the output is an input or another output, or cannot be written.
    pub fn open(&mut self, path: &Path) -> Result<Output, OutputError> {
        let fail = |problem| OutputError { path: path.to_owned(), problem };
        let destination = Destination::of(path).map_err(fail)?;
        let (identity, regular) = destination.identity().map_err(fail)?;
        // Output to an input would be read again. A terminal or a pipe can be both input and
        // output.
        if let Some(file) = regular
            && let Some(input) = self.inputs.find(file)
        {
            return Err(fail(OutputProblem::IsInput { input: input.to_owned() }));
        }
        if let Some((_, other)) = self.opened.iter().find(|(opened, _)| *opened == identity) {
            return Err(fail(OutputProblem::IsOutput { other: other.clone() }));
        }
        let output = Output::open_destination(path, destination)?;
        if identity != Identity::Device {
            self.opened.push((identity, path.to_owned()));
        }
        Ok(output)
    }

    /// Returns whether standard output is an opened output, under any name.
    pub fn include_standard_output(&self) -> bool {
        self.opened.iter().any(|(identity, _)| *identity == Identity::Descriptor(1))
    }
}

/// A file or a stream that is being written.
///
/// A file is written to a temporary file in the folder of its target, with the permissions of the
/// file that it replaces. [`Output::commit`] renames the temporary file to the target. A symbolic
/// link is kept, and its target is replaced. Dropping the output without a commit leaves everything
/// unchanged.
///
/// Streams are written directly: `-` (standard output), `/dev/stdout`, `/dev/fd/N` and other open
/// descriptors of this process, pipes, terminals and devices.
#[derive(Debug)]
pub struct Output {
    path: PathBuf,
    sink: Sink,
}

#[derive(Debug)]
enum Sink {
    File { out: BufWriter<TemporaryFile>, target: PathBuf },
    Stream(BufWriter<File>),
}

impl Output {
    /// Opens an output: checks the path and creates the temporary file.
    ///
    /// # Errors
    /// Fails if the folder does not exist or is not writable, or if the file is read-only.
    ///
    /// ```
    /// use array_file::output::{Output, OutputProblem};
    ///
    /// let missing = Output::open("no/such/folder/file".as_ref()).unwrap_err();
    /// assert!(matches!(missing.problem, OutputProblem::NoFolder { .. }));
    /// ```
    pub fn open(path: &Path) -> Result<Self, OutputError> {
        let fail = |problem| OutputError { path: path.to_owned(), problem };
        Self::open_destination(path, Destination::of(path).map_err(fail)?)
    }

    /// Opens standard output.
    ///
    /// # Errors
    /// Fails if standard output was closed when the program started; see [`note_closed_streams`].
    pub fn standard() -> Result<Self, OutputError> {
        Self::open(Path::new(STANDARD))
    }

    fn open_destination(path: &Path, destination: Destination) -> Result<Self, OutputError> {
        let sink = match destination {
            Destination::Descriptor(number) => destination::duplicate_descriptor(number)
                .map(|file| Sink::Stream(BufWriter::new(file))),
            Destination::Device(device) => {
                let file = File::options().write(true).open(device);
                let file = file.map_err(|source| OutputProblem::Io { doing: "open", source });
                file.map(|file| Sink::Stream(BufWriter::new(file)))
            }
            Destination::File { target, existing } => {
                TemporaryFile::in_folder_of(&target, existing.as_ref()).map(|temporary| {
                    let out = BufWriter::with_capacity(1 << 20, temporary);
                    Sink::File { out, target }
                })
            }
        };
        let sink = sink.map_err(|problem| OutputError { path: path.to_owned(), problem })?;
        Ok(Self { path: path.to_owned(), sink })
    }

    /// Returns the path as it was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Converts an I/O error to an error of this output.
    pub fn error(&self, source: io::Error) -> OutputError {
        OutputError::write(&self.path, source)
    }

    /// Writes buffered data. If the output is a file, syncs it and renames it to its target.
    ///
    /// # Errors
    /// Fails if any of these steps fails. The previous file is then unchanged, unless the only
    /// failure is that the folder cannot be synced after the rename.
    pub fn commit(self) -> Result<(), OutputError> {
        let Self { path, sink } = self;
        let result = match sink {
            Sink::Stream(mut out) => out.flush(),
            Sink::File { out, target } => match out.into_inner() {
                Ok(temporary) => temporary.persist(&target),
                Err(error) => Err(error.into_error()),
            },
        };
        result.map_err(|source| OutputError::write(&path, source))
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.sink {
            Sink::File { out, .. } => out.write(bytes),
            Sink::Stream(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.sink {
            Sink::File { out, .. } => out.flush(),
            Sink::Stream(out) => out.flush(),
        }
    }
}
