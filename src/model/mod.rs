//! The model, which contains everything that classification needs, and its file format.
//!
//! The file is a single safetensors file with a JSON document in its metadata; see
//! `models/README.md`. It is read into memory, or mapped with [`Model::map`]. When it is opened, it
//! is validated completely: types, lengths, checksums, and every property that the rest of the
//! program relies on.
//!
//! | module | contents |
//! |---|---|
//! | `settings` | the settings of a model: the JSON document in its file |
//! | `trained` | the model in memory, and access to its arrays |
//! | `build` | building a model from term counts and learned parameters |
//! | `check` | validation of the properties that the program relies on |
//! | `file` | writing, opening and mapping model files; `array_names` names their arrays |
//! | `collection` | adding, removing and relabeling documents, which are stored in segments |
//! | `journal` | the file that stores these changes; `updated_model` appends to it |

pub(crate) mod array_names;
mod build;
mod check;
mod collection;
mod dense_part;
mod error;
mod file;
mod journal;
mod rows_by_id;
pub(crate) mod segmented;
mod settings;
mod trained;
mod tuning_summary;
mod updated_model;

pub(crate) use build::Learned;
pub use collection::{Change, ChangeCounts, ChangeError, Collection, NewDocument};
pub use error::{ModelError, ModelProblem};
pub use journal::{JournalLock, UpdateError, journal_path};
pub use settings::{
    FeatureSpec, InputSpec, ModelCounts, Settings, TrainSettings, Updates, VectorSpec,
};
pub(crate) use trained::Arrays;
pub use trained::Model;
pub use tuning_summary::TuningSummary;
pub use updated_model::UpdatedModel;
