//! Groups of flags that several commands share.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use classify::analyze::{
    AnalyzerSpec, Case, CharScope, NgramRange, Normalization, Stemmer, Words, stop_word_languages,
    stop_words,
};
use classify::corpus::{
    Content, Corpus, CorpusError, Document, Format, LabelUse, OnBadUtf8, Place, Problem, Qrels,
    ReadOptions, Split, encoding_for_label,
};
use classify::counts::{ClassWeights, Counts, DfLimit, Fields, Input, TermLimits};
use classify::decide::Decision;
use classify::hierarchy::Hierarchy;
use classify::model::{FeatureSpec, InputSpec, Model, TrainSettings};
use classify::search::Engines;
use classify::select::Selection;
use classify::tfidf::Weighting;
use classify::threads::Threads;
use classify::vectors::StoredVectors;

use super::deciding::Deciding;
use super::failure::Failure;
use super::progress::{Progress, Talk};
use super::searching::Searching;
use super::tuning::{Settled, Tuning};

/// How a corpus is read.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Reading")]
pub(crate) struct Reading {
    /// The corpus format [default: detected for each file]
    #[arg(long, value_enum)]
    format: Option<FormatArgument>,
    /// The field of the text (JSONL, CSV, TSV); several are joined [default: text]
    #[arg(long, value_name = "FIELD")]
    text_column: Vec<String>,
    /// The field of the labels (JSONL, CSV, TSV) [default: labels, label, category or class]
    #[arg(long, value_name = "FIELD")]
    label_column: Option<String>,
    /// The field of the identifier (JSONL, CSV, TSV) [default: id]
    #[arg(long, value_name = "FIELD")]
    id_column: Option<String>,
    /// The field of the document's weight in the vote (JSONL, CSV, TSV) [default: weight]
    #[arg(long, value_name = "FIELD")]
    weight_column: Option<String>,
    /// The field of a group (JSONL, CSV, TSV): documents of one group, such as those of one author,
    /// are no neighbors of each other while tuning
    #[arg(long, value_name = "FIELD")]
    group_column: Option<String>,
    /// What separates several labels in one field [default: the field is one label]
    #[arg(long, value_name = "TEXT", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    label_separator: Option<String>,
    /// Labels by document id: lines `label id 1` (such as rcv1-v2.topics.qrels)
    #[arg(long, value_name = "FILE")]
    qrels: Option<PathBuf>,
    /// The number of the first column in svmlight files, 0 or 1 [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1))]
    first_column: Option<u32>,
    /// The side of the ModApte split to read (Reuters-21578)
    #[arg(long, value_enum, default_value_t = SplitArgument::All)]
    split: SplitArgument,
    /// The text encoding, such as latin-1 or windows-1252 [default: utf-8]
    #[arg(long, value_name = "NAME", value_parser = encoding)]
    encoding: Option<&'static encoding_rs::Encoding>,
    /// What to do with bytes that are no text of the encoding
    #[arg(long, value_enum, default_value_t = OnBadUtf8Argument::Error)]
    on_bad_utf8: OnBadUtf8Argument,
}

fn encoding(name: &str) -> Result<&'static encoding_rs::Encoding, String> {
    encoding_for_label(name).ok_or_else(|| {
        "no such encoding; names are those of the WHATWG standard, such as utf-8, latin-1, \
         windows-1252, iso-8859-15, koi8-r, shift_jis, gb18030, utf-16le"
            .to_owned()
    })
}

#[derive(Debug, Clone, Copy)]
struct FormatArgument(Format);

const FORMATS: [FormatArgument; 10] = {
    let mut formats = [FormatArgument(Format::Jsonl); 10];
    let mut index = 0;
    while index < formats.len() {
        formats[index] = FormatArgument(Format::ALL[index]);
        index += 1;
    }
    formats
};

impl ValueEnum for FormatArgument {
    fn value_variants<'a>() -> &'a [Self] {
        &FORMATS
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.0.name()))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SplitArgument {
    All,
    Train,
    Test,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OnBadUtf8Argument {
    Error,
    Replace,
}

impl Reading {
    /// Refuses flags that a file of vectors has no use for: its documents were read when it was made.
    pub(crate) fn refuse_beside_vectors(&self) -> Result<(), Failure> {
        let given = [
            ("--format", self.format.is_some()),
            ("--text-column", !self.text_column.is_empty()),
            ("--label-column", self.label_column.is_some()),
            ("--id-column", self.id_column.is_some()),
            ("--weight-column", self.weight_column.is_some()),
            ("--group-column", self.group_column.is_some()),
            ("--label-separator", self.label_separator.is_some()),
            ("--qrels", self.qrels.is_some()),
            ("--first-column", self.first_column.is_some()),
            ("--split", self.split != SplitArgument::All),
            ("--encoding", self.encoding.is_some()),
            ("--on-bad-utf8", self.on_bad_utf8 != OnBadUtf8Argument::Error),
        ];
        match given.iter().find(|(_, given)| *given) {
            Some((flag, _)) => Err(Failure::Usage(format!(
                "{flag} goes with `classify vectorize`: the documents of a file of vectors are read already"
            ))),
            None => Ok(()),
        }
    }

    /// The options that the flags stand for.
    pub(crate) fn options(&self, labels: LabelUse) -> Result<ReadOptions, Failure> {
        let qrels = match &self.qrels {
            Some(path) => Some(Arc::new(Qrels::read(path)?)),
            None => None,
        };
        Ok(ReadOptions {
            format: self.format.map(|format| format.0),
            text_columns: self.text_column.clone(),
            fields: false,
            label_column: self.label_column.clone(),
            id_column: self.id_column.clone(),
            weight_column: self.weight_column.clone(),
            group_column: self.group_column.clone(),
            label_separator: self.label_separator.clone(),
            first_column: self.first_column,
            encoding: self.encoding,
            on_bad_utf8: match self.on_bad_utf8 {
                OnBadUtf8Argument::Error => OnBadUtf8::Error,
                OnBadUtf8Argument::Replace => OnBadUtf8::Replace,
            },
            labels,
            qrels,
            split: match self.split {
                SplitArgument::All => Split::All,
                SplitArgument::Train => Split::Train,
                SplitArgument::Test => Split::Test,
            },
            text_only: false,
            bytes_read: None,
        })
    }
}

/// What terms a text has.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Analysis")]
pub(crate) struct Analysis {
    /// What a word is: Unicode words (UAX #29), runs of letters, digits and _, or what stands
    /// between white space
    #[arg(long, value_enum)]
    words: Option<WordsArgument>,
    /// What happens to upper case
    #[arg(long, value_enum)]
    case: Option<CaseArgument>,
    /// The Unicode normalization form
    #[arg(long, value_enum)]
    normalization: Option<NormalizationArgument>,
    /// Take é for e (Latin and Greek letters)
    #[arg(long)]
    fold_accents: bool,
    /// Drop the stop words of a language (ISO 639-1 code, such as en)
    #[arg(long, value_name = "LANGUAGE", value_parser = stop_word_list)]
    stop_words: Option<StopWords>,
    /// Stem words: english, spanish, … (18 Snowball stemmers)
    #[arg(long, value_name = "LANGUAGE")]
    stem: Option<Stemmer>,
    /// Drop words of fewer characters
    #[arg(long, value_name = "N")]
    min_length: Option<usize>,
    /// Lengths of word n-grams, such as 2 or 1-2 [default: 1, or none with --char-ngrams]
    #[arg(long, value_name = "RANGE")]
    word_ngrams: Option<NgramRange>,
    /// Lengths of character n-grams, such as 3-5
    #[arg(long, value_name = "RANGE")]
    char_ngrams: Option<NgramRange>,
    /// Whether character n-grams stay inside words
    #[arg(long, value_enum, default_value_t = CharScopeArgument::Word)]
    char_scope: CharScopeArgument,
    /// Count the first line of each text (its title) so many times
    #[arg(long, value_name = "TIMES", value_parser = boost, conflicts_with = "field")]
    title_boost: Option<f32>,
    /// A field of the text and how often it counts, such as title:2 (JSONL, CSV, TSV: columns;
    /// Reuters-21578: title, body); repeat for each field
    #[arg(long, value_name = "NAME:TIMES", value_parser = field)]
    field: Vec<(String, f32)>,
}

fn boost(text: &str) -> Result<f32, String> {
    let boost = text.parse().ok().filter(|boost| *boost > 0.0 && *boost <= Fields::LIMIT);
    boost.ok_or_else(|| format!("not a number above 0, at most {}", Fields::LIMIT))
}

fn field(text: &str) -> Result<(String, f32), String> {
    let (name, times) = text.rsplit_once(':').unwrap_or((text, "1"));
    if name.is_empty() {
        return Err("a field without a name".to_owned());
    }
    Ok((name.to_owned(), boost(times)?))
}

#[derive(Debug, Clone)]
struct StopWords(Vec<String>);

fn stop_word_list(language: &str) -> Result<StopWords, String> {
    let words = stop_words(language).ok_or_else(|| {
        format!("no list of stop words; there are {}", stop_word_languages().join(", "))
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
    /// Refuses flags that a trained model does not listen to.
    pub(crate) fn refuse_beside_a_model(&self) -> Result<(), Failure> {
        let default = nothing_said().analysis;
        if format!("{self:?}") == format!("{default:?}") { Ok(()) } else { Err(models_own()) }
    }

    /// Whether stems and n-grams are left to the program.
    pub(crate) fn says_no_terms(&self) -> bool {
        self.stem.is_none() && self.word_ngrams.is_none() && self.char_ngrams.is_none()
    }

    /// Has the fields that the flags name read apart.
    pub(crate) fn name_fields(&self, options: &mut ReadOptions) {
        read_fields(&self.fields(), options);
    }

    /// The fields that the flags stand for.
    pub(crate) fn fields(&self) -> Fields {
        match self.title_boost {
            Some(boost) => Fields::FirstLine { boost },
            None if self.field.is_empty() => Fields::Whole,
            None => Fields::Columns(self.field.clone()),
        }
    }

    /// The analyzer that the flags stand for. `sklearn`: what is not said is as in scikit-learn's
    /// `TfidfVectorizer`.
    pub(crate) fn spec(&self, sklearn: bool) -> AnalyzerSpec {
        let default = if sklearn {
            AnalyzerSpec {
                words: Words::WordCharacters,
                case: Case::Lower,
                normalization: Normalization::None,
                min_length: 2,
                ..AnalyzerSpec::default()
            }
        } else {
            AnalyzerSpec::default()
        };
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

/// How counts become weights.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Weighting")]
pub(crate) struct Weights {
    /// A SMART code (tf n l a b L k, idf n t p s k, norm n c; `document.query` for two), or
    /// `sklearn`, or `bm25`
    #[arg(long, value_name = "CODE", default_value = "ltc")]
    weighting: String,
    /// The exponent of the idf part
    #[arg(long, value_name = "P", default_value_t = 1.0, allow_negative_numbers = true)]
    idf_power: f64,
    /// The exponent of the factor chi2 / N, the largest over the labels: terms that tell the
    /// labels count more [default: 0, or by --tune]
    #[arg(long, value_name = "Q", allow_negative_numbers = true)]
    chi2_power: Option<f64>,
    /// BM25's k1
    #[arg(long, value_name = "K1", default_value_t = 1.2)]
    bm25_k1: f64,
    /// BM25's b
    #[arg(long, value_name = "B", default_value_t = 0.75)]
    bm25_b: f64,
    /// Drop terms in fewer documents: a count like 5 or a share like 0.1%
    #[arg(long, value_name = "LIMIT", default_value = "1")]
    min_df: DfLimit,
    /// Drop terms in more documents: a count or a share like 50%
    #[arg(long, value_name = "LIMIT", default_value = "100%")]
    max_df: DfLimit,
    /// Keep only so many terms, those of highest document frequency
    #[arg(long, value_name = "N")]
    max_terms: Option<NonZeroUsize>,
    /// Keep only the terms that tell most of the labels: chi2:N or information-gain:N
    #[arg(long, value_name = "CRITERION:N")]
    select: Option<Selection>,
    /// The labels above labels: lines `child<TAB>parent`, or rcv1.topics.hier.orig; documents and
    /// answers get the ancestors of their labels too
    #[arg(long, value_name = "FILE")]
    hierarchy: Option<PathBuf>,
    /// How much the documents of a label count in a vote: `balanced` (the same for all labels
    /// together) or LABEL:WEIGHT, several with commas; a document of several labels has their mean
    #[arg(long, value_name = "WEIGHTS")]
    class_weight: Option<ClassWeights>,
    /// What given features are (svmlight, LYRL2004 vectors): weights already, or counts
    #[arg(long, value_enum, default_value_t = FeaturesArgument::Tfidf)]
    features: FeaturesArgument,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FeaturesArgument {
    Tfidf,
    Counts,
}

impl Weights {
    fn weighting(&self) -> Result<Weighting, Failure> {
        let weighting: Weighting = self.weighting.parse().map_err(Failure::Usage)?;
        let weighting = weighting.with_idf_power(self.idf_power).ok_or_else(|| {
            Failure::Usage(format!("--idf-power {}: not a number from 0 to 10", self.idf_power))
        })?;
        let chi2_power = self.chi2_power.unwrap_or(0.0);
        let weighting = weighting.with_chi2_power(chi2_power).ok_or_else(|| {
            Failure::Usage(format!("--chi2-power {chi2_power}: not a number from 0 to 10"))
        })?;
        weighting.with_bm25(self.bm25_k1, self.bm25_b).ok_or_else(|| {
            Failure::Usage("--bm25-k1 is a number from 0, --bm25-b one from 0 to 1".to_owned())
        })
    }

    /// The selection of terms that the flags ask for.
    pub(crate) fn selection(&self) -> Option<Selection> {
        self.select
    }

    /// Whether the weighting is left to the program.
    pub(crate) fn says_no_weighting(&self) -> bool {
        let said = nothing_said().weights;
        self.weighting == said.weighting && self.idf_power.to_bits() == said.idf_power.to_bits()
    }

    /// Whether the power of χ² is left to the program.
    pub(crate) fn says_no_chi2_power(&self) -> bool {
        self.chi2_power.is_none()
    }

    pub(crate) fn limits(&self) -> TermLimits {
        let &Self { min_df, max_df, max_terms, .. } = self;
        TermLimits { min_df, max_df, max_terms }
    }
}

fn models_own() -> Failure {
    let message =
        "analysis and weighting are the model's own: their flags go with --train or --preset";
    Failure::Usage(message.into())
}

/// The flags where nothing is said.
fn nothing_said() -> Training {
    <TrainingOnly as clap::Parser>::parse_from(["classify"]).training
}

#[derive(Debug, clap::Parser)]
struct TrainingOnly {
    #[command(flatten)]
    training: Training,
}

/// Everything that decides what a model becomes.
#[derive(Debug, Clone, Args)]
pub(crate) struct Training {
    #[command(flatten)]
    pub(crate) analysis: Analysis,
    #[command(flatten)]
    pub(crate) weights: Weights,
    #[command(flatten)]
    pub(crate) deciding: Deciding,
    #[command(flatten)]
    pub(crate) tuning: Tuning,
}

impl Training {
    /// Refuses flags that a trained model does not listen to.
    pub(crate) fn refuse_beside_a_model(&self) -> Result<(), Failure> {
        self.analysis.refuse_beside_a_model()?;
        let default = nothing_said().weights;
        if format!("{:?}", self.weights) != format!("{default:?}") {
            return Err(models_own());
        }
        if self.tuning.tune.is_some() {
            let message = "--tune goes with --train or --preset; `classify tune MODEL` tunes a \
                           model that is there";
            return Err(Failure::Usage(message.into()));
        }
        self.deciding.refuse_learning()?;
        self.refuse_tuning_flags_alone()
    }

    /// Refuses what only tuning listens to, where there is none.
    fn refuse_tuning_flags_alone(&self) -> Result<(), Failure> {
        let default = nothing_said().tuning;
        if self.tuning.tune.is_some() || format!("{:?}", self.tuning) == format!("{default:?}") {
            return Ok(());
        }
        let message = "--objective, --k-max, --near-duplicates, --tune-sample and --tune-table \
                       go with --tune";
        Err(Failure::Usage(message.into()))
    }

    /// What makes engines: only tuning searches.
    pub(crate) fn engines(
        &self,
        searching: Searching,
        threads: &Threads,
        talk: Talk,
    ) -> Result<Engines, Failure> {
        if self.tuning.tune.is_some() || searching.is_asked_for() {
            return searching.engines(threads, talk);
        }
        Ok(Engines::cpu(threads))
    }

    /// Counts a corpus and settles, by tuning if that is asked for, what its model becomes.
    pub(crate) fn settle(
        &self,
        documents: Documents<'_>,
        source: (&str, Option<u32>),
        keep_text: bool,
        engines: &Engines,
        (progress, talk): (&Progress, Talk),
    ) -> Result<Settled, Failure> {
        self.refuse_tuning_flags_alone()?;
        if self.tuning.tune.is_none() {
            self.deciding.refuse_learning()?;
            let (counts, settings) =
                self.count(documents, source, keep_text, engines.threads(), progress)?;
            return Ok(Settled { counts, settings, calibration: None });
        }
        self.tuning.tuned(self, documents, source, keep_text, engines, (progress, talk))
    }

    /// The labels above labels.
    pub(crate) fn read_hierarchy(&self) -> Result<Hierarchy, Failure> {
        let read = |path: &PathBuf| Hierarchy::read(path).map_err(Failure::from);
        self.weights.hierarchy.as_ref().map_or_else(|| Ok(Hierarchy::default()), read)
    }

    /// Changes the weights of documents as their labels' weights say.
    pub(crate) fn weigh_classes(&self, counts: &mut Counts) -> Result<(), Failure> {
        let Some(weights) = &self.weights.class_weight else { return Ok(()) };
        counts.weigh_classes(weights).map_err(|unknown| {
            Failure::Usage(format!("--class-weight: no document has the label `{unknown}`"))
        })
    }

    /// Counts a corpus. The first document tells whether it is text or features.
    pub(crate) fn count(
        &self,
        documents: &mut (dyn Iterator<Item = Result<Document, CorpusError>> + Send),
        (name, first_column): (&str, Option<u32>),
        keep_text: bool,
        threads: &Threads,
        progress: &Progress,
    ) -> Result<(Counts, TrainSettings), Failure> {
        let first = documents.next().transpose()?.ok_or_else(|| no_document(name))?;
        let mut settings = self.settings(Some(&first), (name, first_column), keep_text)?;
        let mut documents = std::iter::once(Ok(first)).chain(documents);
        let mut counts = Counts::read(
            &mut documents,
            &Input::new(&settings.input, &settings.fields),
            self.weights.limits(),
            keep_text,
            threads,
            &|documents| progress.tick(documents),
        )?;
        if counts.has_no_term() {
            return Err(no_term(name).into());
        }
        counts.close_labels(&settings.hierarchy);
        self.weigh_classes(&mut counts)?;
        if let Some(selection) = self.weights.select {
            counts = counts.select(selection);
        }
        settings.decision = self.deciding.for_corpus(&counts)?;
        Ok((counts, settings))
    }

    /// The settings of a corpus, but for the decision, which the whole corpus tells. The first
    /// document tells whether it is text or features.
    pub(crate) fn settings(
        &self,
        first: Option<&Document>,
        (name, first_column): (&str, Option<u32>),
        keep_text: bool,
    ) -> Result<TrainSettings, Failure> {
        let mut weighting = self.weights.weighting()?;
        let input = match &first.ok_or_else(|| no_document(name))?.content {
            Content::Text(_) | Content::Fields(_) => {
                InputSpec::Text(self.analysis.spec(self.weights.weighting == "sklearn"))
            }
            Content::Features(_) if keep_text => {
                let message = "--keep-text: this corpus has features and no text";
                return Err(Failure::Usage(message.into()));
            }
            Content::Features(_) => {
                let counts = self.weights.features == FeaturesArgument::Counts;
                if !counts {
                    weighting = weighting.of_weights();
                }
                let first_column = first_column.unwrap_or(1);
                InputSpec::Features(FeatureSpec { counts, first_column })
            }
        };
        let hierarchy = self.read_hierarchy()?;
        if !hierarchy.is_empty() {
            self.deciding.refuse_single("--hierarchy")?;
        }
        Ok(TrainSettings {
            input,
            fields: self.analysis.fields(),
            weighting,
            k: self.deciding.k().unwrap_or(TrainSettings::K),
            vote: self.deciding.vote().unwrap_or_default(),
            decision: Decision::Single,
            selection: self.weights.select,
            tuning: None,
            abstention: None,
            hierarchy,
        })
    }
}

pub(crate) fn no_term(name: &str) -> CorpusError {
    CorpusError { place: place(name), problem: Problem::NoTerm }
}

/// A stream of documents.
pub(crate) type Documents<'a> = &'a mut (dyn Iterator<Item = Result<Document, CorpusError>> + Send);

fn no_document(name: &str) -> CorpusError {
    CorpusError { place: place(name), problem: Problem::NoDocument }
}

fn place(name: &str) -> Place {
    Place { source: name.into(), line: None }
}

/// A corpus of paths that says what it reads and counts its bytes for `progress`.
pub(crate) fn open(
    paths: &[PathBuf],
    mut options: ReadOptions,
    talk: Talk,
    progress: &Progress,
) -> Result<Corpus, Failure> {
    if let Some(vectors) = paths.iter().find(|path| StoredVectors::is_at(path)) {
        let what =
            "a file of `classify vectorize`: predict and evaluate take it, as the only corpus";
        return Err(Failure::Usage(format!("{}: {what}", vectors.display())));
    }
    options.bytes_read = Some(progress.bytes());
    Ok(Corpus::open(paths, options)?.on_open(progress.formats(talk)))
}

fn read_fields(fields: &Fields, options: &mut ReadOptions) {
    if let Fields::Columns(_) = fields {
        options.text_columns = fields.columns();
        options.fields = true;
    }
}

/// Reads what a model needs.
pub(crate) fn fit_to_model(options: &mut ReadOptions, model: &Model) {
    let settings = model.settings();
    match settings.input {
        InputSpec::Text(_) => options.text_only = true,
        InputSpec::Features(spec) => {
            options.first_column = options.first_column.or(Some(spec.first_column));
        }
    }
    if options.text_columns.is_empty() {
        read_fields(&settings.fields, options);
    }
}

/// Documents that are classified together: fewer where many neighbors are kept for each.
pub(crate) fn batch_size(most: usize, k: NonZeroUsize) -> usize {
    (1_000_000 / k).clamp(16, most)
}

/// Refuses to write over what is read.
pub(crate) fn not_an_input<'a>(
    output: &Path,
    inputs: impl IntoIterator<Item = &'a PathBuf>,
) -> Result<(), Failure> {
    let Ok(output_file) = std::fs::canonicalize(output) else { return Ok(()) };
    for input in inputs {
        let same = std::fs::canonicalize(input).is_ok_and(|input| input == output_file);
        if same && output_file.is_file() {
            let message = format!("{}: the output would replace this input", output.display());
            return Err(Failure::Usage(message));
        }
    }
    Ok(())
}

/// The paths as one name for messages.
pub(crate) fn name(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.to_string_lossy()).collect::<Vec<_>>().join(", ")
}
