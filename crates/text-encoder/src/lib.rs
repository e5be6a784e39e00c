//! Computes embeddings of texts with pretrained models from disk. Nothing is downloaded.
//!
//! ```text
//! folder ──▶ Encoder ──▶ tokens ──▶ static_model or bert ──▶ one vector per text
//! ```
//!
//! A folder contains `tokenizer.json`, `model.safetensors` and one of these files:
//!
//! | file | model |
//! |---|---|
//! | `config.json` with `"model_type": "model2vec"` | static, as model2vec stores it |
//! | `config_sentence_transformers.json` | static, as sentence-transformers stores it |
//! | `config.json` with another `"model_type"` | BERT or a variant |
//! | `modules.json` | any of these, as sentence-transformers stores it |
//!
//! A static model is a table of token vectors; the embedding of a text is their mean. A BERT model
//! (Devlin et al. 2019) is a transformer; the embedding of a text is the mean of the vectors of its
//! last layer, or the vector of its first token (Reimers and Gurevych 2019). Variants of BERT are
//! RoBERTa, XLM-RoBERTa, CamemBERT and DistilBERT.
//!
//! Read [`Encoder`] first, then `folder`, which reads the configuration of a model.

mod bert;
mod encoder;
mod error;
mod folder;
mod linear;
mod static_model;
mod tokens;
mod weights;

pub use encoder::{Encoder, Kind};
pub use error::{EncoderError, Problem};
