//! Checks the labels and documents of a corpus.
//!
//! The input is a [`HeldOutCorpus`]: documents that were each compared with a model learned without
//! them. The output is a [`Check`]. Read [`Check::new`] first.
//!
//! | module | what it finds |
//! |---|---|
//! | `label_errors` | labels that are probably wrong or missing |
//! | `duplicates` | identical documents and near-duplicates, and whether their labels conflict |
//! | `outliers` | documents that resemble no other document |
//! | `languages` | documents in another language or script |
//! | `label_set` | labels with few documents, labels that always occur together, confused labels |
//! | `leaks` | test documents that are also training documents |
//! | `drift` | the differences between the corpus and another one |
//!
//! `fixes` applies what a reviewer decided about the findings.

mod drift;
mod duplicates;
mod fixes;
mod found_document;
mod label_errors;
mod label_set;
mod languages;
mod leaks;
mod outliers;

pub use drift::{Drift, DriftError, RightLabels, ShareChange, TwoSampleTest};
pub use duplicates::{DuplicateCluster, Duplicates};
pub use fixes::{Action, Decision, FixError, FixedCorpus, Fixes};
pub use found_document::FoundDocument;
pub use label_errors::{CheckOptions, LabelFindings, SimilarDocument, SuspiciousLabel};
pub use label_set::{ConfusedLabels, LabelCount, LabelSet, TogetherLabels};
pub use languages::{Languages, OtherLanguage};
pub use leaks::{Leak, Leaks, find_leaks};
pub use outliers::{Outlier, Outliers};
use serde::Serialize;

use crate::learn::HeldOutCorpus;

/// What is probably wrong with a corpus.
#[derive(Debug, Clone, Serialize)]
pub struct Check {
    /// The name and version of this structure.
    pub schema: &'static str,
    /// The number of documents.
    pub documents: u64,
    /// The number of labels.
    pub labels: u64,
    /// Whether documents can have several labels.
    pub multi_label: bool,
    /// Labels that are probably wrong or missing.
    pub label_errors: LabelFindings,
    /// Identical documents and near-duplicates.
    pub duplicates: Duplicates,
    /// Documents that resemble no other document.
    pub outliers: Outliers,
    /// Documents in another language or script.
    pub languages: Languages,
    /// Findings about the labels as a whole.
    pub label_set: LabelSet,
    /// Test documents that are also training documents, if a test corpus was given.
    pub leaks: Option<Leaks>,
    /// The differences between the corpus and another one, if one was given.
    pub drift: Option<Drift>,
}

impl Check {
    /// The name and version of the JSON of a check.
    pub const SCHEMA: &'static str = "classify.check/1";

    /// Checks a corpus.
    ///
    /// ```
    /// use classify::check::{Check, CheckOptions};
    /// use classify::learn::Trainer;
    /// use classify::text::corpus::Document;
    ///
    /// let texts = ["bake the bread", "bake a cake", "tune the guitar", "play the guitar"];
    /// let labels = ["food", "food", "music", "music"];
    /// let documents: Vec<Document> = (0..200)
    ///     .map(|n| (n, format!("{} {n}", texts[n % 4])))
    ///     .map(|(n, text)| Document::text(n.to_string(), text).labels([labels[n % 4]]))
    ///     .chain([Document::text("copy", "bake a cake 1").labels(["music"])])
    ///     .collect();
    /// let held_out = Trainer::builder().build().hold_out(&documents)?;
    /// let check = Check::new(&held_out, CheckOptions::default());
    /// let copies = &check.duplicates.clusters[0];
    /// assert!(copies.identical && copies.conflicting);
    /// assert_eq!([&*copies.documents[0].id, &*copies.documents[1].id], ["1", "copy"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(corpus: &HeldOutCorpus, options: CheckOptions) -> Self {
        Self {
            schema: Self::SCHEMA,
            documents: corpus.documents.len() as u64,
            labels: corpus.label_names().len() as u64,
            multi_label: corpus.rows.multi_label,
            label_errors: LabelFindings::of(corpus, options),
            duplicates: Duplicates::of(corpus),
            outliers: Outliers::of(corpus),
            languages: Languages::of(corpus),
            label_set: LabelSet::of(corpus),
            leaks: None,
            drift: None,
        }
    }
}
