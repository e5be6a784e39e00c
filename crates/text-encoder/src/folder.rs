//! Reads the configuration of a model from its folder.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::bert::BertConfig;
use crate::error::{EncoderError, Problem, at};

/// What the files of a folder say about its model.
#[derive(Debug)]
pub(crate) struct Folder {
    pub(crate) tokenizer: PathBuf,
    pub(crate) weights: PathBuf,
    pub(crate) settings: Settings,
}

/// What a model computes besides its weights.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) architecture: Architecture,
    /// Whether embeddings are scaled to length 1.
    pub(crate) normalizes: bool,
    /// The maximum number of tokens of a text, with special tokens; further tokens are ignored.
    pub(crate) max_tokens: Option<usize>,
    /// Whether the embedding is computed as by model2vec, which leaves out the token of unknown
    /// text, and cuts the text before it is split into tokens.
    pub(crate) is_model2vec: bool,
    /// Whether texts are changed to lower case before they are split into tokens.
    pub(crate) lowercases: bool,
    /// The text before each text.
    pub(crate) prompt: String,
}

impl Settings {
    /// Returns a text that differs for settings that give other embeddings. Models store its hash,
    /// so it must stay the same in later versions of this program.
    pub(crate) fn identity(&self) -> String {
        let architecture = match &self.architecture {
            Architecture::Static { .. } => format!("static model2vec={}", self.is_model2vec),
            Architecture::Bert { config, pooling } => {
                let pooling = match pooling {
                    Pooling::Mean => "mean",
                    Pooling::FirstToken => "first",
                };
                format!("bert {} pooling={pooling}", config.identity())
            }
        };
        format!(
            "{architecture} normalize={} tokens={} lower={} prompt={}",
            self.normalizes,
            self.max_tokens.map_or("all".to_owned(), |tokens| tokens.to_string()),
            self.lowercases,
            self.prompt
        )
    }
}

/// The architecture of a model.
#[derive(Debug)]
pub(crate) enum Architecture {
    /// A table of token vectors in the tensor of this name.
    Static { tensor: &'static str },
    /// A transformer.
    Bert { config: BertConfig, pooling: Pooling },
}

/// How the vectors of the tokens of a text become one vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pooling {
    /// The mean of all vectors.
    Mean,
    /// The vector of the first token.
    FirstToken,
}

/// One stage of `modules.json`.
#[derive(Debug, Deserialize)]
struct Module {
    path: String,
    #[serde(rename = "type")]
    kind: String,
}

/// `config.json` of a static model.
#[derive(Debug, Default, Deserialize)]
struct StaticConfig {
    #[serde(default)]
    normalize: bool,
    #[serde(default = "default_max_length")]
    max_length: Option<usize>,
}

#[expect(clippy::unnecessary_wraps, reason = "null means no limit")]
fn default_max_length() -> Option<usize> {
    Some(512)
}

/// `sentence_bert_config.json`.
#[derive(Debug, Default, Deserialize)]
struct SentenceConfig {
    max_seq_length: Option<usize>,
    #[serde(default)]
    do_lower_case: bool,
}

/// `config_sentence_transformers.json`.
#[derive(Debug, Default, Deserialize)]
struct PromptConfig {
    #[serde(default)]
    prompts: serde_json::Map<String, serde_json::Value>,
    default_prompt_name: Option<String>,
}

/// `config.json` of the pooling module.
#[derive(Debug, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "the fields of the file")]
struct PoolingConfig {
    #[serde(default, rename = "pooling_mode_cls_token")]
    cls_token: bool,
    #[serde(default, rename = "pooling_mode_mean_tokens")]
    mean_tokens: bool,
    #[serde(default, rename = "pooling_mode_max_tokens")]
    max_tokens: bool,
    #[serde(default, rename = "pooling_mode_mean_sqrt_len_tokens")]
    mean_sqrt_len_tokens: bool,
    #[serde(default, rename = "pooling_mode_lasttoken")]
    lasttoken: bool,
    /// The mode, as sentence-transformers 6 writes it.
    #[serde(rename = "pooling_mode")]
    mode: Option<String>,
}

/// The part of `tokenizer.json` that limits texts.
#[derive(Debug, Deserialize)]
struct TokenizerFile {
    truncation: Option<Truncation>,
}

#[derive(Debug, Deserialize)]
struct Truncation {
    max_length: usize,
}

/// `tokenizer_config.json`.
#[derive(Debug, Default, Deserialize)]
struct TokenizerConfig {
    /// The maximum number of tokens; 10³⁰ if there is none.
    model_max_length: Option<f64>,
}

impl Folder {
    /// Reads the configuration of the model in `path`.
    pub(crate) fn read(path: &Path) -> Result<Self, EncoderError> {
        fs::read_dir(path).map_err(|error| at(path)(error.into()))?;
        let modules: Option<Vec<Module>> = read_if_exists(&path.join("modules.json"))?;
        let config: Option<serde_json::Value> = read_if_exists(&path.join("config.json"))?;
        let type_of = |config: &serde_json::Value| config["model_type"].as_str().map(str::to_owned);
        let model_type = config.as_ref().and_then(type_of);
        let sentence_transformers = path.join("config_sentence_transformers.json");
        if modules.is_none() && config.is_none() && !sentence_transformers.exists() {
            let what = "not a model: expected the file config.json, modules.json or \
                        config_sentence_transformers.json, with tokenizer.json and \
                        model.safetensors";
            return Err(at(path)(Problem::Unsupported(what.to_owned())));
        }
        let is_transformer = match &modules {
            Some(modules) => {
                modules.first().is_some_and(|first| first.kind.ends_with("Transformer"))
            }
            None => model_type.as_ref().is_some_and(|model_type| model_type != "model2vec"),
        };
        if is_transformer {
            Self::transformer(path, &modules.unwrap_or_default())
        } else {
            Self::static_model(path, &modules.unwrap_or_default(), config.is_some())
        }
    }

    fn static_model(
        path: &Path,
        modules: &[Module],
        has_config: bool,
    ) -> Result<Self, EncoderError> {
        let unsupported = |module: &&Module| {
            !["StaticEmbedding", "Normalize"].iter().any(|name| module.kind.ends_with(name))
        };
        if let Some(module) = modules.iter().find(unsupported) {
            return Err(unsupported_module(path, module));
        }
        let from_sentence_transformers = !modules.is_empty() || !has_config;
        let name = if has_config { "config.json" } else { "config_sentence_transformers.json" };
        let config: StaticConfig = read(&path.join(name))?;
        let inside = path.join(modules.first().map_or("", |module| &*module.path));
        let inside =
            if inside.join("model.safetensors").exists() { inside } else { path.to_owned() };
        let tokenizer = inside.join("tokenizer.json");
        let max_tokens = if modules.is_empty() {
            config.max_length
        } else {
            read::<TokenizerFile>(&tokenizer)?.truncation.map(|truncation| truncation.max_length)
        };
        Ok(Self {
            tokenizer,
            weights: inside.join("model.safetensors"),
            settings: Settings {
                architecture: Architecture::Static {
                    tensor: if from_sentence_transformers {
                        "embedding.weight"
                    } else {
                        "embeddings"
                    },
                },
                normalizes: config.normalize || has_normalize(modules),
                max_tokens,
                is_model2vec: modules.is_empty(),
                lowercases: false,
                prompt: String::new(),
            },
        })
    }

    fn transformer(path: &Path, modules: &[Module]) -> Result<Self, EncoderError> {
        let inside = path.join(modules.first().map_or("", |module| &*module.path));
        let config_file = inside.join("config.json");
        let config: BertConfig = read(&config_file)?;
        config.check().map_err(at(&config_file))?;
        let sentence: SentenceConfig =
            read_if_exists(&inside.join("sentence_bert_config.json"))?.unwrap_or_default();
        let prompts: PromptConfig =
            read_if_exists(&path.join("config_sentence_transformers.json"))?.unwrap_or_default();
        let mut pooling = Pooling::Mean;
        for module in modules.iter().skip(1) {
            if module.kind.ends_with("Pooling") {
                pooling = read_pooling(&path.join(&module.path).join("config.json"))?;
            } else if !module.kind.ends_with("Normalize") {
                return Err(unsupported_module(path, module));
            }
        }
        let limit = config.max_tokens();
        let tokenizer: TokenizerConfig =
            read_if_exists(&inside.join("tokenizer_config.json"))?.unwrap_or_default();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
        let of_tokenizer = tokenizer.model_max_length.map(|tokens| tokens as usize);
        let max_tokens = sentence.max_seq_length.or(of_tokenizer);
        let weights = inside.join("model.safetensors");
        if !weights.exists() && inside.join("pytorch_model.bin").exists() {
            let what = "the weights are stored as pytorch_model.bin; save them as \
                        model.safetensors, for example with `SentenceTransformer(FOLDER)\
                        .save(OTHER_FOLDER)` of sentence-transformers";
            return Err(at(&inside)(Problem::Unsupported(what.to_owned())));
        }
        let prompt = prompts
            .default_prompt_name
            .and_then(|name| prompts.prompts.get(&name)?.as_str().map(str::to_owned));
        Ok(Self {
            tokenizer: [&inside, path]
                .iter()
                .map(|folder| folder.join("tokenizer.json"))
                .find(|file| file.exists())
                .unwrap_or_else(|| inside.join("tokenizer.json")),
            weights,
            settings: Settings {
                architecture: Architecture::Bert { config, pooling },
                normalizes: has_normalize(modules),
                max_tokens: Some(max_tokens.map_or(limit, |tokens| tokens.min(limit))),
                lowercases: sentence.do_lower_case,
                is_model2vec: false,
                prompt: prompt.unwrap_or_default(),
            },
        })
    }
}

fn has_normalize(modules: &[Module]) -> bool {
    modules.iter().any(|module| module.kind.ends_with("Normalize"))
}

fn unsupported_module(path: &Path, module: &Module) -> EncoderError {
    let what = format!(
        "the module `{}` is not supported; expected Transformer, Pooling, StaticEmbedding or \
         Normalize",
        module.kind
    );
    at(&path.join("modules.json"))(Problem::Unsupported(what))
}

fn read_pooling(file: &Path) -> Result<Pooling, EncoderError> {
    let config: PoolingConfig = read(file)?;
    let others = config.max_tokens || config.mean_sqrt_len_tokens || config.lasttoken;
    let mode = config.mode.as_deref();
    match (mode, config.cls_token, config.mean_tokens) {
        (Some("cls"), _, _) => Ok(Pooling::FirstToken),
        (Some("mean"), _, _) => Ok(Pooling::Mean),
        (None, true, false) if !others => Ok(Pooling::FirstToken),
        (None, false, true) if !others => Ok(Pooling::Mean),
        _ => {
            let what = "only mean pooling and pooling of the first token are supported".to_owned();
            Err(at(file)(Problem::Unsupported(what)))
        }
    }
}

fn read<T: DeserializeOwned>(file: &Path) -> Result<T, EncoderError> {
    let bytes = fs::read(file).map_err(|error| at(file)(error.into()))?;
    serde_json::from_slice(&bytes).map_err(|error| at(file)(error.into()))
}

fn read_if_exists<T: DeserializeOwned>(file: &Path) -> Result<Option<T>, EncoderError> {
    if file.exists() { read(file).map(Some) } else { Ok(None) }
}
