//! Opens the encoders that `--encoder` and models name.

use std::path::Path;
use std::sync::Arc;

use classify::rows::dense::EncoderSpec;
use classify::text::corpus::{ReadOptions, TextEncoder};
use classify::threads::Threads;

use crate::failure::Failure;

/// An encoder that the readers of several corpora, or of requests, share.
type SharedEncoder = Arc<dyn TextEncoder>;

/// Opens the encoder in `folder`, which computes on `threads`.
#[cfg(feature = "encoder")]
pub(super) fn open(folder: &Path, threads: Option<&Threads>) -> Result<SharedEncoder, Failure> {
    use text_encoder::Encoder;

    let Some(threads) = threads else {
        return Err(Failure::Usage("--encoder has no effect on this command".to_owned()));
    };
    let encoder = Encoder::open(folder)
        .map_err(|error| Failure::Input { path: error.file, message: error.problem.to_string() })?;
    let spec = EncoderSpec {
        folder: folder.to_string_lossy().into_owned(),
        kind: encoder.kind().to_string(),
        hash: encoder.hash().to_owned(),
    };
    Ok(Arc::new(FolderEncoder { encoder, spec, threads: threads.clone() }))
}

/// An encoder in a folder.
#[cfg(feature = "encoder")]
#[derive(Debug)]
struct FolderEncoder {
    encoder: text_encoder::Encoder,
    spec: EncoderSpec,
    threads: Threads,
}

#[cfg(feature = "encoder")]
impl TextEncoder for FolderEncoder {
    fn spec(&self) -> &EncoderSpec {
        &self.spec
    }

    fn encode(&self, texts: &[std::borrow::Cow<'_, str>]) -> Vec<Vec<f32>> {
        let embeddings = self.threads.run(|| self.encoder.encode(texts));
        embeddings.chunks_exact(self.encoder.dimension()).map(<[f32]>::to_vec).collect()
    }
}

/// Explains that this program was built without encoders.
#[cfg(not(feature = "encoder"))]
pub(super) fn open(_: &Path, _: Option<&Threads>) -> Result<SharedEncoder, Failure> {
    Err(Failure::Usage(
        "this program was built without encoders; build it with `cargo build --release --features \
         encoder`, or compute the vectors elsewhere and use --vectors"
            .to_owned(),
    ))
}

/// Returns the encoder with which a model was trained, if its vectors are needed: the one of
/// `--encoder`, or the one in the folder that was named in training.
///
/// # Errors
/// If the encoder is not the one with which the model was trained, or cannot be opened.
pub(super) fn of_model(
    spec: Option<&EncoderSpec>,
    needs_vectors: bool,
    read_options: &ReadOptions,
) -> Result<Option<SharedEncoder>, Failure> {
    let given = read_options.encoder.clone();
    let Some(spec) = spec else {
        return match given {
            Some(_) => Err(Failure::Usage(
                "--encoder: this model was trained without an encoder".to_owned(),
            )),
            None => Ok(None),
        };
    };
    if !needs_vectors {
        return Ok(None);
    }
    let encoder = given.map_or_else(|| open_named(spec, read_options.threads.as_ref()), Ok)?;
    if encoder.spec().hash == spec.hash {
        return Ok(Some(encoder));
    }
    Err(Failure::Input {
        path: encoder.spec().folder.clone().into(),
        message: format!(
            "this is not the encoder with which the model was trained, whose embeddings cannot be \
             compared with others: expected the hash {}, found {}; name its folder with --encoder",
            spec.hash,
            encoder.spec().hash
        ),
    })
}

/// Opens the encoder in the folder that was named in training.
fn open_named(spec: &EncoderSpec, threads: Option<&Threads>) -> Result<SharedEncoder, Failure> {
    let explain = |message: String| {
        let folder = &spec.folder;
        format!(
            "{message}; the model needs the encoder with which it was trained, in the folder \
             {folder} or in the folder that --encoder names"
        )
    };
    open(Path::new(&spec.folder), threads).map_err(|failure| match failure {
        Failure::Input { path, message } => Failure::Input { path, message: explain(message) },
        other => other,
    })
}
