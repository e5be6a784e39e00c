//! Flags for training: analysis, weighting, decisions and tuning.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use classify::learn::{DenseOptions, TrainOptions, TunableFeatures};
use classify::model::FeatureSpec;
use classify::search::Engines;
use classify::text::analyze::{
    AnalyzerSpec, Case, CharScope, NgramRange, Normalization, Stemmer, Words, stop_word_language,
    stop_word_languages, stop_words,
};
use classify::text::corpus::{ReadOptions, ReadingSpec};
use classify::text::counts::{ClassWeights, DfLimit, Fields, TermLimits};
use classify::text::hierarchy::Hierarchy;
use classify::text::select::Selection;
use classify::text::tfidf::Weighting;
use classify::threads::Threads;

use crate::failure::Failure;
use crate::flags::deciding::DecisionFlags;
use crate::flags::features::Features;
use crate::flags::positive::positive;
use crate::flags::searching::SearchFlags;
use crate::flags::tuning::{TuningFlags, return_memory_of_trials};
use crate::output::progress::Verbosity;

/// Flags for splitting texts into terms.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Analysis")]
pub(crate) struct Analysis {
    /// The definition of a word: a Unicode word (UAX #29), a run of letters, digits and _, or text
    /// between white space [default: unicode]
    #[arg(long, value_enum)]
    words: Option<WordsArgument>,
    /// How to treat upper case [default: fold]
    #[arg(long, value_enum)]
    case: Option<CaseArgument>,
    /// The Unicode normalization form [default: nfkc]
    #[arg(long, value_enum)]
    normalization: Option<NormalizationArgument>,
    /// Remove accents, such as é to e (Latin and Greek letters)
    #[arg(long)]
    fold_accents: bool,
    /// Drop the stop words of a language, such as english or de
    #[arg(long, value_name = "LANGUAGE", value_parser = stop_word_list)]
    stop_words: Option<StopWords>,
    /// Stem words with one of 18 Snowball stemmers: english, spanish, …
    #[arg(long, value_name = "LANGUAGE")]
    stem: Option<Stemmer>,
    /// Drop words with fewer than N characters
    #[arg(long, value_name = "N")]
    min_length: Option<usize>,
    /// Lengths of word n-grams, such as 2 or 1-2 [default: 1, or none with --char-ngrams]
    #[arg(long, value_name = "RANGE")]
    word_ngrams: Option<NgramRange>,
    /// Lengths of character n-grams, such as 3-5
    #[arg(long, value_name = "RANGE")]
    char_ngrams: Option<NgramRange>,
    /// The scope of character n-grams: within words, or the whole text
    #[arg(long, value_enum, default_value_t = CharScopeArgument::Word)]
    char_scope: CharScopeArgument,
    /// The number of times to count the first line of each text, its title
    #[arg(long, value_name = "TIMES", value_parser = boost, conflicts_with = "field")]
    title_boost: Option<f32>,
    /// A text field and the number of times to count it, such as title:2. Fields are columns
    /// (JSONL, CSV, TSV) or title and body (Reuters-21578); repeat the flag for each field
    #[arg(long, value_name = "NAME:TIMES", value_parser = field)]
    field: Vec<(String, f32)>,
}

fn boost(text: &str) -> Result<f32, String> {
    let boost = text.parse().ok().filter(|boost| *boost > 0.0 && *boost <= Fields::LIMIT);
    boost.ok_or_else(|| format!("expected a number above 0 and at most {}", Fields::LIMIT))
}

fn field(text: &str) -> Result<(String, f32), String> {
    let (name, times) = text.rsplit_once(':').unwrap_or((text, "1"));
    if name.is_empty() {
        return Err("the field has no name; expected NAME:TIMES, such as title:2".to_owned());
    }
    Ok((name.to_owned(), boost(times)?))
}

#[derive(Debug, Clone)]
struct StopWords(Vec<String>);

fn stop_word_list(language: &str) -> Result<StopWords, String> {
    let words = stop_word_language(language).and_then(stop_words).ok_or_else(|| {
        format!("no stop words for this language; use one of {}", stop_word_languages().join(", "))
    })?;
    Ok(StopWords(words.iter().map(|&word| word.to_owned()).collect()))
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum WordsArgument {
    Unicode,
    WordCharacters,
    Whitespace,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum CaseArgument {
    Fold,
    Lower,
    Keep,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum NormalizationArgument {
    Nfkc,
    Nfc,
    None,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum CharScopeArgument {
    Word,
    Text,
}

impl Analysis {
    /// Rejects flags that do not apply to a trained model.
    pub(crate) fn refuse_with_model(&self) -> Result<(), Failure> {
        let default = default_flags().analysis;
        if format!("{self:?}") == format!("{default:?}") {
            Ok(())
        } else {
            Err(fixed_by_model_failure())
        }
    }

    /// Whether tuning may choose stems and n-grams: no flag sets them.
    fn leaves_terms_open(&self) -> bool {
        self.stem.is_none() && self.word_ngrams.is_none() && self.char_ngrams.is_none()
    }

    /// Returns the fields set by the flags.
    pub(crate) fn fields(&self) -> Fields {
        match self.title_boost {
            Some(boost) => Fields::FirstLine { boost },
            None if self.field.is_empty() => Fields::Whole,
            None => Fields::Columns(self.field.clone()),
        }
    }

    /// Returns the analyzer settings. If `sklearn` is true, flags that are not set default to the
    /// settings of scikit-learn's `TfidfVectorizer`.
    pub(crate) fn spec(&self, sklearn: bool) -> AnalyzerSpec {
        let default = if sklearn { AnalyzerSpec::sklearn() } else { AnalyzerSpec::default() };
        AnalyzerSpec {
            words: self.words.map_or(default.words, |words| match words {
                WordsArgument::Unicode => Words::Unicode,
                WordsArgument::WordCharacters => Words::WordCharacters,
                WordsArgument::Whitespace => Words::Whitespace,
            }),
            case: self.case.map_or(default.case, |case| match case {
                CaseArgument::Fold => Case::Fold,
                CaseArgument::Lower => Case::Lower,
                CaseArgument::Keep => Case::Keep,
            }),
            normalization: self.normalization.map_or(default.normalization, |form| match form {
                NormalizationArgument::Nfkc => Normalization::Nfkc,
                NormalizationArgument::Nfc => Normalization::Nfc,
                NormalizationArgument::None => Normalization::None,
            }),
            fold_accents: self.fold_accents,
            min_length: self.min_length.unwrap_or(default.min_length),
            stop_words: self.stop_words.clone().map_or(Vec::new(), |words| words.0),
            stemmer: self.stem,
            word_ngrams: match self.char_ngrams {
                Some(_) => self.word_ngrams,
                None => self.word_ngrams.or(default.word_ngrams),
            },
            char_ngrams: self.char_ngrams,
            char_scope: match self.char_scope {
                CharScopeArgument::Word => CharScope::Word,
                CharScopeArgument::Text => CharScope::Text,
            },
        }
    }
}

/// Flags for weighting and selecting terms.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Weighting")]
pub(crate) struct Weights {
    /// The weighting of terms: ltc (1 + log of the count, times idf, cosine), `sklearn`, `bm25`, or
    /// another SMART code
    ///
    /// A SMART code has three letters. The term frequency: n (the count), l (1 + its log), a
    /// (relative to the highest), b (0 or 1), L (relative to the mean) or k (BM25). The inverse
    /// document frequency: n (none), t (log), p (log odds), s (as scikit-learn) or k (BM25). The
    /// normalization: n (none) or c (cosine). DOCUMENT.QUERY sets different codes for documents and
    /// queries, such as kkn.nnn for BM25.
    #[arg(long, value_name = "CODE", default_value = "ltc")]
    weighting: String,
    /// The exponent of the idf
    #[arg(long, value_name = "P", default_value_t = 1.0, allow_negative_numbers = true)]
    idf_power: f64,
    /// The exponent of a factor that raises the weight of terms that indicate labels: chi2 / N,
    /// with the highest chi2 over all labels [default: 0, or chosen by --tune]
    #[arg(long, value_name = "Q", allow_negative_numbers = true)]
    chi2_power: Option<f64>,
    /// The parameter k1 of BM25
    #[arg(long, value_name = "K1", default_value_t = 1.2)]
    bm25_k1: f64,
    /// The parameter b of BM25
    #[arg(long, value_name = "B", default_value_t = 0.75)]
    bm25_b: f64,
    /// Drop terms that occur in fewer documents than this: a count such as 5, or a share such as
    /// 0.1%
    #[arg(long, value_name = "LIMIT", default_value = "1")]
    min_df: DfLimit,
    /// Drop terms that occur in more documents than this: a count, or a share such as 50%
    #[arg(long, value_name = "LIMIT", default_value = "100%")]
    max_df: DfLimit,
    /// Keep only the N terms with the highest document frequency
    #[arg(long, value_name = "N", value_parser = positive)]
    max_terms: Option<NonZeroUsize>,
    /// Keep only the N terms that are most informative about the labels: chi2:N or
    /// information-gain:N
    #[arg(long, value_name = "CRITERION:N")]
    select: Option<Selection>,
    /// The label hierarchy: a file with lines `child<TAB>parent`, or rcv1.topics.hier.orig. The
    /// ancestors of labels are added to documents and predictions
    #[arg(long, value_name = "FILE")]
    hierarchy: Option<PathBuf>,
    /// The vote weights of each label's documents: `balanced` (the same total for every label), or
    /// a comma-separated list of LABEL:WEIGHT. A document with several labels gets the mean of
    /// their weights
    #[arg(long, value_name = "WEIGHTS")]
    class_weight: Option<ClassWeights>,
}

impl Weights {
    fn weighting(&self) -> Result<Weighting, Failure> {
        let weighting: Weighting = self.weighting.parse().map_err(Failure::Usage)?;
        let weighting = weighting.with_idf_power(self.idf_power).ok_or_else(|| {
            Failure::Usage(format!(
                "--idf-power {:?}: expected a number from 0 to 10",
                self.idf_power
            ))
        })?;
        let chi2_power = self.chi2_power.unwrap_or(0.0);
        let weighting = weighting.with_chi2_power(chi2_power).ok_or_else(|| {
            Failure::Usage(format!("--chi2-power {chi2_power:?}: expected a number from 0 to 10"))
        })?;
        weighting.with_bm25(self.bm25_k1, self.bm25_b).ok_or_else(|| {
            Failure::Usage(
                "--bm25-k1 must be at least 0, and --bm25-b must be from 0 to 1".to_owned(),
            )
        })
    }

    /// Whether tuning may choose the weighting: no flag sets it.
    fn leaves_weighting_open(&self) -> bool {
        let default = default_flags().weights;
        self.weighting == default.weighting
            && self.idf_power.to_bits() == default.idf_power.to_bits()
    }

    /// Whether tuning may choose the power of χ²: no flag sets it.
    fn leaves_chi2_power_open(&self) -> bool {
        self.chi2_power.is_none()
    }

    fn limits(&self) -> TermLimits {
        let &Self { min_df, max_df, max_terms, .. } = self;
        TermLimits { min_df, max_df, max_terms }
    }
}

fn fixed_by_model_failure() -> Failure {
    let message = "a trained model fixes its analysis and weighting: use these flags with --train \
                   or --preset";
    Failure::Usage(message.into())
}

/// The flags with their default values.
fn default_flags() -> TrainingFlags {
    <TrainingFlagsParser as clap::Parser>::parse_from(["classify"]).training
}

#[derive(Debug, clap::Parser)]
struct TrainingFlagsParser {
    #[command(flatten)]
    training: TrainingFlags,
}

/// All flags for training a model.
#[derive(Debug, Clone, Args)]
pub(crate) struct TrainingFlags {
    #[command(flatten)]
    pub(crate) analysis: Analysis,
    #[command(flatten)]
    pub(crate) features: Features,
    #[command(flatten)]
    pub(crate) weights: Weights,
    #[command(flatten)]
    pub(crate) deciding: DecisionFlags,
    #[command(flatten)]
    pub(crate) tuning: TuningFlags,
}

impl TrainingFlags {
    /// The input files other than the corpora.
    pub(crate) fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.weights.hierarchy.iter().chain(self.features.files())
    }

    /// Rejects flags that do not apply to a trained model.
    pub(crate) fn refuse_with_model(&self) -> Result<(), Failure> {
        self.analysis.refuse_with_model()?;
        let default = default_flags();
        if format!("{:?}", self.weights) != format!("{:?}", default.weights)
            || format!("{:?}", self.features) != format!("{:?}", default.features)
        {
            return Err(fixed_by_model_failure());
        }
        if self.tuning.tune.is_some() || self.tuning.no_tune {
            let message = "--tune and --no-tune need --train or --preset; `classify tune MODEL` \
                           tunes an existing model";
            return Err(Failure::Usage(message.into()));
        }
        self.deciding.refuse_learning()?;
        self.refuse_tuning_flags_without_tune()
    }

    /// Rejects tuning flags unless `--tune` is set.
    fn refuse_tuning_flags_without_tune(&self) -> Result<(), Failure> {
        let default = default_flags().tuning;
        let mut tuning = self.tuning.clone();
        tuning.no_tune = default.no_tune;
        tuning.no_cross_validation = default.no_cross_validation;
        if tuning.tune.is_some() || format!("{tuning:?}") == format!("{default:?}") {
            return Ok(());
        }
        let message = "--objective, --k-max, --near-duplicates, --time-order, --tune-sample and \
                       --tune-table need --tune";
        Err(Failure::Usage(message.into()))
    }

    /// Builds the engine factory. Opens a GPU only with `--tune` or on request, because training
    /// searches few documents otherwise.
    pub(crate) fn engines(
        &self,
        searching: SearchFlags,
        threads: &Threads,
        verbosity: Verbosity,
    ) -> Result<Engines, Failure> {
        if self.tuning.tune.is_some() || searching.is_requested() {
            return searching.engines(threads, verbosity);
        }
        Ok(Engines::cpu(threads))
    }

    /// Rejects flags for terms, because a model with only dense vectors has no terms.
    fn refuse_terms(&self) -> Result<(), Failure> {
        let default = default_flags();
        let mut weights = self.weights.clone();
        weights.hierarchy.clone_from(&default.weights.hierarchy);
        weights.class_weight.clone_from(&default.weights.class_weight);
        if format!("{:?}", self.analysis) == format!("{:?}", default.analysis)
            && format!("{weights:?}") == format!("{:?}", default.weights)
        {
            return Ok(());
        }
        let message = "flags for analysis and weighting need terms, and this model would have only \
                       dense vectors: use --features tfidf+dense for both";
        Err(Failure::Usage(message.into()))
    }

    /// With `--tune`, sets a short delay after which freed memory returns to the system.
    pub(crate) fn return_memory(&self) {
        if self.tunes() {
            return_memory_of_trials();
        }
    }

    /// Whether `--tune` is set.
    pub(crate) fn tunes(&self) -> bool {
        self.tuning.tune.is_some()
    }

    /// Returns the path for the tuning results.
    pub(crate) fn tune_table(&self) -> Option<&PathBuf> {
        self.tuning.flags.tune_table.as_ref()
    }

    /// Reads the label hierarchy.
    fn hierarchy(&self) -> Result<Hierarchy, Failure> {
        let read = |path: &PathBuf| Hierarchy::read(path).map_err(Failure::from);
        self.weights.hierarchy.as_ref().map_or_else(|| Ok(Hierarchy::default()), read)
    }

    /// Returns the training options for a corpus that is read with `read_options`.
    pub(crate) fn options(
        &self,
        read_options: &ReadOptions,
        keep_text: bool,
    ) -> Result<TrainOptions, Failure> {
        self.refuse_tuning_flags_without_tune()?;
        let dense = self.features.dense(read_options, self.deciding.dense_share())?;
        if dense.as_ref().is_some_and(DenseOptions::is_alone) {
            self.refuse_terms()?;
        }
        let free = TunableFeatures {
            analyzer: self.analysis.leaves_terms_open(),
            weighting: self.weights.leaves_weighting_open(),
            chi2_power: self.weights.leaves_chi2_power_open(),
            selection: self.weights.select.is_none(),
        };
        let targets = self.deciding.abstention_targets();
        Ok(TrainOptions {
            analyzer: self.analysis.spec(self.weights.weighting == "sklearn"),
            fields: self.analysis.fields(),
            features: FeatureSpec {
                counts: self.features.counts(),
                first_column: read_options.first_column.unwrap_or(1),
            },
            dense,
            dense_share: self.deciding.dense_share(),
            weighting: self.weights.weighting()?,
            limits: self.weights.limits(),
            selection: self.weights.select,
            class_weights: self.weights.class_weight.clone(),
            hierarchy: self.hierarchy()?,
            reading: ReadingSpec::of(read_options),
            k: self.deciding.k(),
            vote: self.deciding.vote(),
            decision: self.deciding.options(),
            target_error: targets.error,
            novelty: targets.novelty,
            tuning: self.tuning.options(free),
            keep_text,
            part_of: None,
        })
    }
}
