//! Converts the parameters of the Python estimators to the library's training options.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::str::FromStr;

use classify::decide::decision::DecisionOptions;
use classify::decide::objective::Objective;
use classify::learn::{
    DenseOptions, DenseSource, NearDuplicateLimit, TrainOptions, TunableFeatures, TuneOptions,
    TuneScope,
};
use classify::model::FeatureSpec;
use classify::rows::dense::MAX_DIMENSIONS;
use classify::text::analyze::{AnalyzerSpec, NgramRange, stop_words};
use classify::text::counts::{ClassWeights, DfLimit, Fields, TermLimits};
use classify::text::hierarchy::Hierarchy;
use classify::text::tfidf::Weighting;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyBool, PyDict};

use crate::errors::{of_file, of_item, of_parameter};

/// Parameters of an estimator, by name.
pub(crate) struct Parameters<'a, 'py>(pub(crate) &'a Bound<'py, PyDict>);

impl<'py> Parameters<'_, 'py> {
    fn argument(&self, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.0.get_item(name)?.filter(|value| !value.is_none()))
    }

    /// Creates the error for a parameter whose value is not as `expected`.
    fn invalid(&self, name: &str, expected: &str) -> PyErr {
        let value = self.argument(name).ok().flatten();
        let shown = value.and_then(|value| value.repr().ok());
        let shown = shown.map_or_else(|| "None".to_owned(), |text| text.to_string());
        of_parameter(name, &shown, expected)
    }

    /// Returns a value of a Python type, which `expected` describes.
    fn value<T>(&self, name: &str, expected: &str) -> PyResult<Option<T>>
    where
        T: for<'a> FromPyObject<'a, 'py>,
    {
        let Some(value) = self.argument(name)? else { return Ok(None) };
        // In Python, True is an int, but it is not a valid number here.
        if value.is_instance_of::<PyBool>() && expected != EXPECTED_BOOLEAN {
            return Err(self.invalid(name, expected));
        }
        value.extract().map(Some).map_err(|_| self.invalid(name, expected))
    }

    fn text(&self, name: &str) -> PyResult<Option<String>> {
        self.value(name, "expected a string")
    }

    fn boolean(&self, name: &str) -> PyResult<Option<bool>> {
        self.value(name, EXPECTED_BOOLEAN)
    }

    /// Returns a value that the library parses from text.
    fn parse<T: FromStr>(&self, name: &str) -> PyResult<Option<T>>
    where
        T::Err: ToString,
    {
        let parse = |text: String| {
            text.parse().map_err(|error: T::Err| self.invalid(name, &error.to_string()))
        };
        self.text(name)?.map(parse).transpose()
    }

    /// Returns the variant of an enum by its name.
    fn variant<T: serde::de::DeserializeOwned>(&self, name: &str) -> PyResult<Option<T>> {
        let read = |text: String| {
            serde_json::from_value(text.into()).map_err(|error| {
                // The message is "unknown variant `x`, expected `a` or `b`".
                let message = error.to_string();
                let expected = message.split_once(", ").map_or(&*message, |(_, expected)| expected);
                self.invalid(name, expected)
            })
        };
        self.text(name)?.map(read).transpose()
    }

    fn positive(&self, name: &str) -> PyResult<Option<NonZeroUsize>> {
        self.value(name, "expected an integer from 1")
    }

    fn number(&self, name: &str, min: f64, max: f64) -> PyResult<Option<f64>> {
        let expected = format!("expected a number from {min} to {max}");
        let number = self.value::<f64>(name, &expected)?;
        if number.is_some_and(|number| !(min..=max).contains(&number)) {
            return Err(self.invalid(name, &expected));
        }
        Ok(number)
    }

    /// Returns a number of documents (`int`) or a share of them (`float`), as in scikit-learn.
    fn df_limit(&self, name: &str) -> PyResult<Option<DfLimit>> {
        let expected =
            "expected a number of documents (int) or a share of them from 0.0 to 1.0 (float)";
        let Some(value) = self.argument(name)? else { return Ok(None) };
        if value.is_instance_of::<PyBool>() {
            return Err(self.invalid(name, expected));
        }
        if let Ok(count) = value.extract::<u32>() {
            return Ok(Some(DfLimit::Count(count)));
        }
        let share = value.extract::<f64>().ok().filter(|share| (0.0..=1.0).contains(share));
        share.map(|share| Some(DfLimit::Share(share))).ok_or_else(|| self.invalid(name, expected))
    }

    fn ngrams(&self, name: &str) -> PyResult<Option<NgramRange>> {
        let expected = "expected a pair of lengths (shortest, longest) from 1 to 16";
        let Some((shortest, longest)) = self.value::<(usize, usize)>(name, expected)? else {
            return Ok(None);
        };
        NgramRange::new(shortest, longest).map(Some).ok_or_else(|| self.invalid(name, expected))
    }

    fn stop_words(&self) -> PyResult<Vec<String>> {
        let name = "stop_words";
        let Some(value) = self.argument(name)? else { return Ok(Vec::new()) };
        if let Ok(language) = value.extract::<String>() {
            // scikit-learn spells out the language.
            let code = if language == "english" { "en" } else { &language };
            let words = stop_words(code).ok_or_else(|| {
                let expected = "no list for this language; expected an ISO 639-1 code \
                                such as 'en', or a list of words";
                self.invalid(name, expected)
            })?;
            return Ok(words.iter().map(|&word| word.to_owned()).collect());
        }
        value
            .extract()
            .map_err(|_| self.invalid(name, "expected an ISO 639-1 code or a list of words"))
    }

    fn analyzer(&self, sklearn: bool) -> PyResult<AnalyzerSpec> {
        let default = if sklearn { AnalyzerSpec::sklearn() } else { AnalyzerSpec::default() };
        let char_ngrams = self.ngrams("char_ngram_range")?;
        let word_ngrams = self.ngrams("ngram_range")?;
        Ok(AnalyzerSpec {
            words: self.variant("words")?.unwrap_or(default.words),
            case: self.variant("case")?.unwrap_or(default.case),
            normalization: self.variant("normalization")?.unwrap_or(default.normalization),
            fold_accents: self.boolean("strip_accents")?.unwrap_or(false),
            min_length: self
                .value("min_length", "expected an integer from 0")?
                .unwrap_or(default.min_length),
            stop_words: self.stop_words()?,
            stemmer: self.parse("stemmer")?,
            word_ngrams: if char_ngrams.is_some() {
                word_ngrams
            } else {
                word_ngrams.or(default.word_ngrams)
            },
            char_ngrams,
            char_scope: self.variant("char_scope")?.unwrap_or_default(),
        })
    }

    fn weighting(&self) -> PyResult<Weighting> {
        let mut weighting: Weighting = self.parse("weighting")?.unwrap_or_default();
        for (name, change) in [
            ("idf_power", Weighting::with_idf_power as fn(Weighting, f64) -> Option<Weighting>),
            ("chi2_power", Weighting::with_chi2_power),
        ] {
            if let Some(power) = self.number(name, 0.0, 10.0)? {
                weighting = change(weighting, power)
                    .ok_or_else(|| self.invalid(name, "expected a number from 0 to 10"))?;
            }
        }
        Ok(weighting)
    }

    fn class_weights(&self) -> PyResult<Option<ClassWeights>> {
        let name = "class_weight";
        let expected = "expected 'balanced' or a dict of labels and weights above 0";
        let Some(value) = self.argument(name)? else { return Ok(None) };
        if value.extract::<&str>().is_ok_and(|text| text == "balanced") {
            return Ok(Some(ClassWeights::Balanced));
        }
        let Ok(dict) = value.cast::<PyDict>() else { return Err(self.invalid(name, expected)) };
        let mut weights = Vec::new();
        for (label, weight) in dict {
            let weight = weight.extract::<f32>().ok().filter(|x| *x > 0.0 && x.is_finite());
            let weight = weight.ok_or_else(|| self.invalid(name, expected))?;
            weights.push((label.str()?.to_string(), weight));
        }
        Ok(Some(ClassWeights::Given(weights)))
    }

    /// Returns the dense features, and whether the features of the corpus are counts.
    fn features(&self, is_dense: bool) -> PyResult<(bool, Option<DenseOptions>)> {
        let name = "features";
        let metric = match self.text("metric")?.as_deref() {
            None | Some("cosine") => classify::rows::dense::Metric::default(),
            Some(_) => self.parse("metric")?.unwrap_or_default(),
        };
        if is_dense {
            let source = DenseSource::Given { field: None, encoder: None };
            return Ok((false, Some(DenseOptions { source, metric, with_terms: false })));
        }
        let text = self.text(name)?.unwrap_or_else(|| "tfidf".to_owned());
        let (terms, dense) = match text.split_once('+') {
            Some((terms, dense)) => (Some(terms), Some(dense)),
            None if text == "tfidf" || text == "counts" => (Some(&*text), None),
            None => (None, Some(&*text)),
        };
        let expected = format!(
            "expected 'tfidf', 'counts', 'lsa:N' (N up to {MAX_DIMENSIONS}) or 'tfidf+lsa:N'"
        );
        if terms.is_some_and(|terms| terms != "tfidf" && terms != "counts") {
            return Err(self.invalid(name, &expected));
        }
        let lsa = |dense: &str| {
            let dimensions = dense.strip_prefix("lsa:").and_then(|number| number.parse().ok());
            let dimensions =
                dimensions.filter(|dimensions| (1..=MAX_DIMENSIONS).contains(dimensions));
            let dimensions = dimensions.ok_or_else(|| self.invalid(name, &expected))?;
            let source = DenseSource::Lsa { dimensions, seed: 0 };
            Ok::<_, PyErr>(DenseOptions { source, metric, with_terms: terms.is_some() })
        };
        Ok((terms == Some("counts"), dense.map(lsa).transpose()?))
    }

    fn tuning(&self) -> PyResult<Option<TuneOptions>> {
        let scope = match self.argument("tune")? {
            None => TuneScope::Quick,
            Some(value) => match (value.extract::<bool>(), value.extract::<String>().as_deref()) {
                (Ok(false), _) => return Ok(None),
                (Ok(true), _) | (_, Ok("all")) => TuneScope::All,
                (_, Ok("votes")) => TuneScope::Votes,
                (_, Ok("quick")) => TuneScope::Quick,
                _ => {
                    let expected = "expected 'quick', 'votes', 'all', True or False";
                    return Err(self.invalid("tune", expected));
                }
            },
        };
        let default =
            if scope == TuneScope::Quick { TuneOptions::quick() } else { TuneOptions::default() };
        let objective = match self.text("objective")?.as_deref() {
            None => default.objective,
            Some("micro-f1") => Objective::MicroF1,
            Some("macro-f1") => Objective::MacroF1,
            Some("accuracy") => Objective::Accuracy,
            Some("micro+macro") => Objective::MicroMacro,
            Some("p@5") => Objective::PrecisionAt5,
            Some("top-3-accuracy") => Objective::Top3Accuracy,
            Some(_) => {
                let expected = "expected 'micro-f1', 'macro-f1', 'accuracy', 'micro+macro', \
                                'p@5' or 'top-3-accuracy'";
                return Err(self.invalid("objective", expected));
            }
        };
        let near_duplicates = match self.argument("near_duplicates")? {
            None => NearDuplicateLimit::Found,
            Some(value) if value.extract::<bool>().is_ok_and(|find| !find) => {
                NearDuplicateLimit::Off
            }
            Some(value) => match value.extract::<f32>() {
                Ok(limit) if !value.is_instance_of::<PyBool>() && (0.0..=1.0).contains(&limit) => {
                    NearDuplicateLimit::Above(limit)
                }
                _ => {
                    return Err(self.invalid(
                        "near_duplicates",
                        "expected None, False or a cosine from 0 to 1",
                    ));
                }
            },
        };
        let is_set = |name: &str| Ok::<_, PyErr>(self.argument(name)?.is_some());
        Ok(Some(TuneOptions {
            scope,
            free: TunableFeatures {
                analyzer: !(is_set("stemmer")?
                    || is_set("ngram_range")?
                    || is_set("char_ngram_range")?),
                weighting: !(is_set("weighting")? || is_set("idf_power")?),
                chi2_power: !is_set("chi2_power")?,
                selection: !is_set("select")?,
            },
            sample: self.positive("tune_sample")?.map_or(default.sample, NonZeroUsize::get),
            cross_validate: self.boolean("cross_validate")?.unwrap_or(default.cross_validate),
            objective,
            k_max: self.positive("k_max")?.unwrap_or(default.k_max),
            near_duplicates,
            time_order: self.boolean("time_order")?,
        }))
    }

    fn hierarchy(&self) -> PyResult<Hierarchy> {
        let Some(value) = self.argument("hierarchy")? else { return Ok(Hierarchy::default()) };
        if let Ok(pairs) = value.extract::<Vec<(String, String)>>() {
            let bad = |name: &String| name.trim().is_empty() || name.contains(['\t', '\n', '\r']);
            if let Some(row) = pairs.iter().position(|(child, parent)| bad(child) || bad(parent)) {
                return Err(PyValueError::new_err(format!(
                    "hierarchy[{row}]: a label is empty, or contains a tab or a line break"
                )));
            }
            let lines: Vec<String> =
                pairs.iter().map(|(child, parent)| format!("{child}\t{parent}")).collect();
            return Hierarchy::parse("hierarchy", &lines.join("\n"))
                .map_err(|error| of_item("hierarchy", &error));
        }
        let path: PathBuf = value.extract().map_err(|_| {
            self.invalid("hierarchy", "expected a path or a list of pairs (child, parent)")
        })?;
        Hierarchy::read(&path).map_err(|error| of_file("hierarchy", &error))
    }

    /// Returns the training options for dense arrays (`is_dense`), or for texts and sparse
    /// matrices.
    pub(crate) fn options(&self, is_dense: bool) -> PyResult<TrainOptions> {
        let default = TrainOptions::default();
        let limits = TermLimits::default();
        let (counts, dense) = self.features(is_dense)?;
        let sklearn = self.text("weighting")?.as_deref() == Some("sklearn");
        let max_boost = f64::from(Fields::LIMIT);
        #[expect(clippy::cast_possible_truncation, reason = "a boost is an f32")]
        let fields = match self.number("title_boost", 0.0, max_boost)? {
            Some(boost) if boost > 0.0 => Fields::FirstLine { boost: boost as f32 },
            Some(_) => return Err(self.invalid("title_boost", "expected a number above 0")),
            None => Fields::Whole,
        };
        let target = |name| self.number(name, 0.0, 0.999_999);
        Ok(TrainOptions {
            analyzer: self.analyzer(sklearn)?,
            fields,
            features: FeatureSpec { counts, first_column: 0 },
            dense,
            dense_share: self.number("dense_share", 0.0, 1.0)?,
            weighting: self.weighting()?,
            limits: TermLimits {
                min_df: self.df_limit("min_df")?.unwrap_or(limits.min_df),
                max_df: self.df_limit("max_df")?.unwrap_or(limits.max_df),
                max_terms: self.positive("max_features")?,
            },
            selection: self.parse("select")?,
            class_weights: self.class_weights()?,
            hierarchy: self.hierarchy()?,
            k: self.positive("n_neighbors")?,
            vote: self.parse("weights")?,
            decision: DecisionOptions {
                multi_label: self.boolean("several")?,
                rule: self.parse("rule")?,
                threshold: self.number("threshold", 0.0, 1.0)?,
                allow_none: self.boolean("allow_none")?.unwrap_or(false),
            },
            target_error: target("target_error")?,
            novelty: target("foreign")?,
            tuning: self.tuning()?,
            keep_text: self.boolean("keep_text")?.unwrap_or(default.keep_text),
            part_of: None,
            reading: default.reading,
        })
    }
}

const EXPECTED_BOOLEAN: &str = "expected True or False";

/// Returns a device by its name.
pub(crate) fn device(name: &str) -> PyResult<classify::search::DeviceChoice> {
    name.parse().map_err(|what: String| PyValueError::new_err(format!("device={name:?}: {what}")))
}
