//! Collects the attributes of documents other than terms: identifiers, labels, weights, groups,
//! texts.

use std::collections::HashMap;

use foldhash::fast::RandomState;

use crate::rows::strings::{Strings, StringsBuilder};
use crate::text::corpus::{Content, Document};

/// The attributes of all documents other than their terms.
pub(super) struct Headers {
    ids: StringsBuilder,
    texts: Option<StringsBuilder>,
    weights: Vec<f32>,
    groups: Vec<Option<u32>>,
    group_names: HashMap<String, u32, RandomState>,
    /// The start of each document's labels in `labels`, and the end of the last.
    label_indptr: Vec<u64>,
    /// The labels of all documents, numbered in order of first occurrence.
    labels: Vec<u32>,
    names: HashMap<String, u32, RandomState>,
}

impl Default for Headers {
    fn default() -> Self {
        Self {
            ids: StringsBuilder::default(),
            texts: None,
            weights: Vec::new(),
            groups: Vec::new(),
            group_names: HashMap::default(),
            label_indptr: vec![0],
            labels: Vec::new(),
            names: HashMap::default(),
        }
    }
}

impl Headers {
    pub(super) fn new(keep_text: bool) -> Self {
        Self { texts: keep_text.then(StringsBuilder::default), ..Self::default() }
    }

    /// The number of documents.
    pub(super) fn len(&self) -> usize {
        self.weights.len()
    }

    /// Adds the next document.
    pub(super) fn push(&mut self, document: &Document) {
        self.ids.push(&document.id);
        self.weights.push(document.weight);
        self.groups.push(document.group.as_ref().map(|group| {
            let next = u32::try_from(self.group_names.len()).expect("fewer than 2^32 groups");
            *self.group_names.entry(group.clone()).or_insert(next)
        }));
        for label in &document.labels {
            let label_number = self.label_number(label);
            self.labels.push(label_number);
        }
        self.label_indptr.push(self.labels.len() as u64);
        match (&mut self.texts, &document.content) {
            (Some(texts), Content::Text(text)) => texts.push(text),
            (Some(texts), Content::Fields(fields)) => texts.push(&fields.join("\n")),
            _ => {}
        }
    }

    fn label_number(&mut self, label: &str) -> u32 {
        if let Some(&label_number) = self.names.get(label) {
            return label_number;
        }
        let label_number = u32::try_from(self.names.len()).expect("fewer than 2^32 labels");
        self.names.insert(label.to_owned(), label_number);
        label_number
    }

    /// Returns the collected data, with labels numbered in the order of their names.
    pub(super) fn finish(mut self) -> FinishedHeaders {
        let mut names: Vec<(String, u32)> = self.names.into_iter().collect();
        names.sort_unstable();
        let mut renumbered = vec![0; names.len()];
        for (new, (_, old)) in (0..).zip(&names) {
            renumbered[*old as usize] = new;
        }
        for label in &mut self.labels {
            *label = renumbered[*label as usize];
        }
        for bounds in self.label_indptr.windows(2) {
            #[expect(clippy::cast_possible_truncation, reason = "bounds of a vector")]
            self.labels[bounds[0] as usize..bounds[1] as usize].sort_unstable();
        }
        FinishedHeaders {
            ids: self.ids.build(),
            label_indptr: self.label_indptr,
            label_indices: self.labels,
            label_names: names.into_iter().map(|(name, _)| name).collect(),
            weights: self.weights,
            groups: groups(&self.groups, self.group_names.len()),
            texts: self.texts.map(StringsBuilder::build),
        }
    }
}

/// The attributes of all documents, in the form of [`Counts`](super::Counts).
pub(super) struct FinishedHeaders {
    pub(super) ids: Strings,
    pub(super) label_names: Vec<String>,
    pub(super) label_indptr: Vec<u64>,
    pub(super) label_indices: Vec<u32>,
    pub(super) weights: Vec<f32>,
    pub(super) groups: Vec<u32>,
    pub(super) texts: Option<Strings>,
}

/// Returns the group of each document, or an empty list if there are no groups. Documents without a
/// group get unique ids.
fn groups(document_groups: &[Option<u32>], names: usize) -> Vec<u32> {
    if names == 0 {
        return Vec::new();
    }
    let mut next_group = u32::try_from(names).expect("fewer than 2^32 groups");
    let mut next = || {
        next_group += 1;
        next_group
    };
    document_groups.iter().map(|group| group.unwrap_or_else(&mut next)).collect()
}
