//! Labeling: proposes documents of a pool to label and labels to review, and records decisions.
//!
//! ```text
//! pool ─▶ proposed document ─▶ decision ─▶ model and decisions file ─▶ changed predictions ─┐
//!              └────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! A [`Labeling`] holds the pool, which never changes, and an [`Inner`], which changes with each
//! decision. Labels are stored in the model; the decisions file stores everything else. A decision
//! is on disk before it is confirmed.
//!
//! | file | contents |
//! |---|---|
//! | `claims` | the documents that each client is working on |
//! | `decisions` | the decisions file |
//! | `predictions` | the model's predictions for the pool, updated after each decision |
//! | `review` | labels that are probably wrong, and duplicates |

mod claims;
mod decisions;
mod predictions;
mod review;

use std::collections::{HashMap, HashSet};
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use classify::classifier::ClassifyOptions;
use classify::learn::Trainer;
use classify::model::{Change, ChangeError, NewDocument};
use classify::propose::{Pool, options_like};
use classify::search::Engines;
use classify::text::corpus::{Document, Note, repeated_ids};
use serde::Serialize;

use self::claims::Claims;
pub(crate) use self::claims::Tab;
pub(crate) use self::decisions::{Action, Point};
use self::decisions::{DecisionFile, DecisionState, Line, have_same_labels};
use self::predictions::Predictions;
pub(crate) use self::review::Finding;
use crate::error::ServerError;
use crate::failure::Failure;
use crate::live::LiveModel;
use crate::names::NewLabelPolicy;
use crate::state::State;

/// A pool of documents to label, and the decisions about them and about the model's documents.
#[derive(Debug)]
pub(crate) struct Labeling {
    documents: Vec<Document>,
    rows: HashMap<String, u32>,
    pool: Pool,
    /// The findings about the documents of the model, or the reason why there are none. Empty while
    /// the documents are being checked.
    findings: OnceLock<Result<Vec<Finding>, String>>,
    inner: Mutex<Inner>,
}

/// The part of the state that changes with each decision.
#[derive(Debug)]
struct Inner {
    predictions: Predictions,
    decided: DecisionState,
    file: DecisionFile,
    claims: Claims,
    /// The requests that each client can withdraw, in order.
    undo: HashMap<String, Vec<Withdrawal>>,
}

/// The decisions of one request, which can be withdrawn.
#[derive(Debug)]
struct Withdrawal(Vec<MadeDecision>);

/// A decision that was made, with the earlier state of its document.
#[derive(Debug)]
struct MadeDecision {
    id: String,
    action: Action,
    /// Whether the document was kept or skipped before.
    mark: Option<Action>,
    state: StateBefore,
    /// The labels after the decision; empty if the document is not in the model.
    after: Vec<String>,
}

#[derive(Debug)]
enum StateBefore {
    /// The decision did not change the model.
    Same,
    /// The document was not in the model.
    Absent,
    /// The document had these labels.
    Labels(Vec<String>),
    /// The document was in the model; `None` if it cannot be restored.
    Removed(Option<Box<NewDocument>>),
}

/// A decision about a document.
#[derive(Debug, Clone)]
pub(crate) struct Decision {
    pub(crate) id: String,
    pub(crate) action: Action,
    pub(crate) labels: Vec<String>,
    /// The labels that the client saw, if it reports them.
    pub(crate) seen: Option<Vec<String>>,
}

/// The person who decides, and their page.
#[derive(Debug, Clone)]
pub(crate) struct Reviewer {
    /// Identifies the browser page.
    pub(crate) client: String,
    pub(crate) name: String,
}

/// A document to label next.
#[derive(Debug)]
pub(crate) struct Proposal {
    pub(crate) row: u32,
    /// The reason for the proposal, as JSON.
    pub(crate) reason: serde_json::Value,
    /// How uncertain its prediction is, from 0 to 1.
    pub(crate) uncertainty: f64,
}

/// The progress of labeling.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct Progress {
    /// Number of documents in the pool.
    documents: usize,
    /// Number of these documents in the model.
    labeled: usize,
    /// Number of documents without labels that are not shown again.
    skipped: usize,
    /// Number of documents that wait for labels.
    left: usize,
    /// The expected share of correct labels in the rest of the pool, from 0 to 1. `null` if no
    /// document is left, or the model is not calibrated.
    expected: Option<f64>,
    /// Number of correct predictions among the last 50 documents that were labeled one at a time.
    right: usize,
    /// Number of documents that `right` is based on, at most 50.
    right_of: usize,
    /// The state after each decision; at most 200 points.
    history: Vec<Point>,
    review: ReviewProgress,
}

/// The progress of the review.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct ReviewProgress {
    /// Whether the documents of the model are still being checked.
    is_checking: bool,
    /// Number of findings that remain.
    left: usize,
    /// Initial number of findings.
    found: usize,
    /// The reason why the documents cannot be reviewed, if any.
    why_not: Option<String>,
}

/// A document that was found by a search.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct FoundDocument {
    id: String,
    /// The beginning of the text.
    text: String,
    /// Its labels in the model; `null` if it is not in the model.
    labels: Option<Vec<String>>,
    /// The cosine similarity, or the score of the label that was searched for.
    similarity: f64,
}

/// A search query.
#[derive(Debug, Clone)]
pub(crate) enum Query {
    Text(String),
    /// The identifier of a document.
    Similar(String),
    Label(String),
}

/// Minimum uncertainty. It ensures that documents with certain predictions are also proposed, after
/// all others.
const MIN_UNCERTAINTY: f64 = 1e-3;
/// Maximum number of recent decisions in which correct predictions are counted.
const MAX_RECENT: usize = 50;
/// Maximum number of points of the history in an answer.
const MAX_POINTS: usize = 200;
/// Maximum number of requests that a client can withdraw.
const MAX_UNDO: usize = 100;
/// Maximum number of clients that can withdraw requests.
const MAX_CLIENTS: usize = 1000;
/// Maximum number of characters of a text in search results.
const MAX_EXCERPT: usize = 1000;

impl Labeling {
    /// Prepares a pool of documents for a model.
    pub(crate) fn open(
        documents: Vec<Document>,
        live: &LiveModel,
        engines: &Engines,
        model: &Path,
    ) -> Result<Self, ServerError> {
        let path = DecisionFile::path(model);
        let opened = DecisionFile::open(&path);
        let (file, decided) = opened.map_err(|source| ServerError::Decisions { path, source })?;
        let options = options_like(live.model());
        let trainer = Trainer::builder().options(options).engines(engines.clone());
        let trainer = trainer.corpus_name("the pool").build();
        let pool = Pool::new(&trainer, &documents)?;
        let ids = documents.iter().map(|document| document.id.clone());
        let rows: HashMap<String, u32> = ids.zip(0u32..).collect();
        if let Some(Note::RepeatedIds { example, .. }) =
            repeated_ids(documents.iter().map(|document| &*document.id))
        {
            return Err(ServerError::RepeatedId(example));
        }
        let predictions = Predictions::new(live, &documents)?;
        let inner =
            Inner { predictions, decided, file, claims: Claims::default(), undo: HashMap::new() };
        let findings = OnceLock::new();
        Ok(Self { documents, rows, pool, findings, inner: Mutex::new(inner) })
    }

    /// Checks the documents of the model. This takes a while. Until it ends, there is nothing to
    /// review.
    pub(crate) fn check(&self, live: &LiveModel, engines: &Engines) {
        let found = match review::unreviewable_reason(live) {
            Some(reason) => Err(reason.to_owned()),
            None => catch_unwind(AssertUnwindSafe(|| review::find(live, engines)))
                .unwrap_or_else(|_| Err("the check failed".to_owned())),
        };
        if let Err(reason) = &found {
            tracing::info!("nothing to review: {reason}");
        }
        let _ = self.findings.set(found);
    }

    /// Returns a document of the pool.
    pub(crate) fn document(&self, row: u32) -> &Document {
        &self.documents[row as usize]
    }

    /// Locks the inner state, updates it for the live model, and returns both.
    fn lock(&self, state: &State) -> (MutexGuard<'_, Inner>, Arc<LiveModel>) {
        // The state is consistent at each point where a change can panic.
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let live = state.live();
        if inner.predictions.sync(&live, &self.documents) {
            // A withdrawal would restore documents with the terms of the old model.
            inner.undo.clear();
        }
        (inner, live)
    }

    /// Returns the document of the pool that a client should label next: the document that the
    /// client has already claimed, or a new proposal. Copies of other documents come last. Returns
    /// `None` if every document is labeled, skipped, or claimed by another client.
    pub(crate) fn next(&self, state: &State, client: &str) -> Option<Proposal> {
        let (mut inner, _) = self.lock(state);
        let inner = &mut *inner;
        let is_open = |row: u32| inner.is_open(row, self.document(row));
        let claimed_row = inner.claims.of(client, Tab::Label).first();
        let claimed_row =
            claimed_row.and_then(|id| self.rows.get(id)).copied().filter(|&row| is_open(row));
        let row = claimed_row.or_else(|| {
            let claimed: HashSet<&str> = inner.claims.of_others(client).collect();
            let is_free = |row: u32| is_open(row) && !claimed.contains(&*self.document(row).id);
            let rows = || (0u32..).zip(&self.documents).map(|(row, _)| row);
            let uncertainty = |row: u32| inner.predictions.uncertainty(row).max(MIN_UNCERTAINTY);
            let uncertainty: Vec<f64> =
                rows().map(|row| if is_free(row) { uncertainty(row) } else { 0.0 }).collect();
            let seed = inner.decided.history().len() as u64;
            let proposed = self.pool.propose(&uncertainty, 1, seed);
            proposed
                .first()
                .map(|proposal| proposal.row)
                .or_else(|| rows().find(|&row| is_free(row)))
        })?;
        inner.claims.set(client, Tab::Label, vec![self.document(row).id.clone()]);
        let reason = serde_json::to_value(inner.predictions.reason(row)).unwrap_or_default();
        Some(Proposal { row, reason, uncertainty: inner.predictions.uncertainty(row) })
    }

    /// Returns the finding that a client should review next.
    pub(crate) fn next_finding(&self, state: &State, client: &str) -> Option<Finding> {
        let findings = self.findings.get()?.as_ref().ok()?;
        let (mut inner, live) = self.lock(state);
        let claimed: HashSet<&str> = inner.claims.of_others(client).collect();
        let finding = findings.iter().find(|finding| {
            finding.is_open(live.model(), &inner.decided)
                && !finding.ids().iter().any(|id| claimed.contains(&**id))
        })?;
        inner.claims.set(client, Tab::Review, finding.ids().to_vec());
        Some(finding.clone())
    }

    /// Makes either all decisions or none. Returns notes for the reviewer. Blocks the thread.
    pub(crate) fn decide(
        &self,
        state: &State,
        reviewer: &Reviewer,
        decisions: &[Decision],
        new_labels: NewLabelPolicy,
    ) -> Result<Vec<String>, Failure> {
        let (mut inner, live) = self.lock(state);
        let mut edit = Edit::default();
        let mut ids = HashSet::new();
        for decision in decisions {
            if !ids.insert(&*decision.id) {
                let what = format!("`{}` is decided twice in one request", decision.id);
                return Err(Failure::Body(what));
            }
            self.prepare(&inner, &live, decision, &mut edit)?;
        }
        let predicted = self.predicted_labels(&inner, &live, decisions);
        let Edit { added, changes, mut before } = edit;
        let changes_model = !(added.is_empty() && changes.is_empty());
        let made = match state.edit(&added, changes, new_labels) {
            // The change is on disk, so it is recorded and can be withdrawn.
            Err(failure @ Failure::NotSearchable) => Err(failure),
            made => Ok(made?),
        };
        let live = state.live();
        for (before, decision) in before.iter_mut().zip(decisions) {
            let stored = labels_of(&live, &decision.id);
            before.after = if made.is_ok() { stored } else { decision.labels.clone() };
        }
        let rows = decisions.iter().filter_map(|decision| self.rows.get(&decision.id).copied());
        inner.predictions.sync(&live, &self.documents);
        inner.predictions.update(&live, &self.documents, &self.pool, &rows.collect::<Vec<u32>>());
        let recorded = inner.record(reviewer, &before, predicted.as_ref());
        if recorded.is_ok() || changes_model {
            inner.remember(&reviewer.client, Withdrawal(before));
        }
        recorded?;
        Ok(made?.notes)
    }

    /// Returns the predicted labels if the only decision labels a document of the pool for the
    /// first time.
    fn predicted_labels(
        &self,
        inner: &Inner,
        live: &LiveModel,
        decisions: &[Decision],
    ) -> Option<Vec<String>> {
        let [Decision { action: Action::Label, id, .. }] = decisions else { return None };
        let row = self.rows.get(id).filter(|_| live.model().row_of(id).is_none())?;
        Some(inner.predictions.labels(*row))
    }

    /// Adds a decision to an edit.
    fn prepare(
        &self,
        inner: &Inner,
        live: &LiveModel,
        decision: &Decision,
        edit: &mut Edit,
    ) -> Result<(), Failure> {
        let Decision { id, action, labels, seen } = decision;
        let model_row = live.model().row_of(id);
        let current_labels = labels_of(live, id);
        if let Some(seen) = seen
            && !have_same_labels(seen, &current_labels)
        {
            return Err(Failure::EditConflict { id: id.clone(), labels: current_labels });
        }
        if inner.predictions.is_repeated(id) {
            let what = "several documents of the model have this identifier";
            return Err(ChangeError::Document { id: id.clone(), what }.into());
        }
        let missing = || Failure::NoSuchDocument(id.clone());
        let state = match action {
            Action::Label => match (model_row, self.rows.get(id)) {
                (Some(_), _) => {
                    edit.changes.push(Change::Relabel { id: id.clone(), labels: labels.clone() });
                    StateBefore::Labels(current_labels)
                }
                (None, Some(&row)) => {
                    let document = self.document(row).clone();
                    edit.added.push(Document { labels: labels.clone(), ..document });
                    StateBefore::Absent
                }
                (None, None) => return Err(missing()),
            },
            Action::Remove => {
                let row = model_row.ok_or_else(missing)?;
                edit.changes.push(Change::Remove { id: id.clone() });
                let stored = NewDocument::stored_in(live.model(), row);
                StateBefore::Removed(stored.map(Box::new))
            }
            Action::Keep => {
                let _ = model_row.ok_or_else(missing)?;
                StateBefore::Same
            }
            Action::Skip if model_row.is_some() || self.rows.contains_key(id) => StateBefore::Same,
            Action::Skip => return Err(missing()),
            Action::Undo => return Err(Failure::Body("send `undo` to its own path".into())),
        };
        let mark = inner.decided.mark(id);
        edit.before.push(MadeDecision {
            id: id.clone(),
            action: *action,
            mark,
            state,
            after: Vec::new(),
        });
        Ok(())
    }

    /// Withdraws the last request of a client, and claims its documents for the client again.
    /// Returns their identifiers. If a document has changed or cannot be restored, the request can
    /// never be withdrawn. Blocks the thread.
    pub(crate) fn undo(&self, state: &State, reviewer: &Reviewer) -> Result<Vec<String>, Failure> {
        let (mut inner, live) = self.lock(state);
        let last = inner.undo.get_mut(&reviewer.client).and_then(Vec::pop);
        let Withdrawal(documents) = last.ok_or(Failure::NothingToUndo)?;
        let mut changes = Vec::new();
        for MadeDecision { id, after, state, .. } in &documents {
            let current_labels = labels_of(&live, id);
            if !have_same_labels(&current_labels, after) {
                return Err(Failure::EditConflict { id: id.clone(), labels: current_labels });
            }
            match state {
                StateBefore::Same => {}
                StateBefore::Absent => changes.push(Change::Remove { id: id.clone() }),
                StateBefore::Labels(labels) => {
                    changes.push(Change::Relabel { id: id.clone(), labels: labels.clone() });
                }
                StateBefore::Removed(Some(stored)) => changes.push(Change::Put(stored.clone())),
                StateBefore::Removed(None) => return Err(Failure::CannotRestore(id.clone())),
            }
        }
        if let Err(failure) = state.edit(&[], changes, NewLabelPolicy::Allow) {
            inner.remember(&reviewer.client, Withdrawal(documents));
            return Err(failure);
        }
        let live = state.live();
        let ids: Vec<String> = documents.iter().map(|document| document.id.clone()).collect();
        let rows: Vec<u32> = ids.iter().filter_map(|id| self.rows.get(id).copied()).collect();
        inner.predictions.sync(&live, &self.documents);
        inner.predictions.update(&live, &self.documents, &self.pool, &rows);
        let tab = if rows.is_empty() { Tab::Review } else { Tab::Label };
        inner.claims.set(&reviewer.client, tab, ids.clone());
        inner.record_undo(reviewer, &live, &documents)?;
        Ok(ids)
    }

    /// Returns the progress of labeling.
    pub(crate) fn progress(&self, state: &State) -> Progress {
        let (inner, live) = self.lock(state);
        let history = inner.decided.history();
        let recent: Vec<bool> =
            history.rev().filter_map(|point| point.was_right).take(MAX_RECENT).collect();
        let history = inner.decided.history();
        let step = history.len().div_ceil(MAX_POINTS).max(1);
        // The last point is always included.
        let mut points: Vec<Point> = history.rev().step_by(step).copied().collect();
        points.reverse();
        let labeled = inner.predictions.labeled();
        let rows = (0u32..).zip(&self.documents);
        let left = rows.filter(|(row, document)| inner.is_open(*row, document)).count();
        Progress {
            documents: self.documents.len(),
            labeled,
            skipped: self.documents.len() - labeled - left,
            left,
            expected: inner.predictions.expected(),
            right: recent.iter().filter(|&&right| right).count(),
            right_of: recent.len(),
            history: points,
            review: self.review_progress(&live, &inner.decided),
        }
    }

    fn review_progress(&self, live: &LiveModel, decided: &DecisionState) -> ReviewProgress {
        let nothing = ReviewProgress { is_checking: false, left: 0, found: 0, why_not: None };
        match self.findings.get() {
            None => ReviewProgress { is_checking: true, ..nothing },
            Some(Err(reason)) => ReviewProgress { why_not: Some(reason.clone()), ..nothing },
            Some(Ok(findings)) => {
                let open = findings.iter().filter(|finding| finding.is_open(live.model(), decided));
                ReviewProgress { left: open.count(), found: findings.len(), ..nothing }
            }
        }
    }

    /// Searches the pool. Texts and documents are compared by exact cosine similarity, labels by
    /// predicted scores.
    pub(crate) fn search(
        &self,
        state: &State,
        query: Query,
        count: usize,
    ) -> Result<Vec<FoundDocument>, Failure> {
        let live = state.live();
        let found = match query {
            Query::Label(label) => {
                let (inner, live) = self.lock(state);
                let mut numbered = (0u32..).zip(live.model().labels().iter());
                let number = numbered.find(|(_, name)| *name == label);
                let (number, _) = number.ok_or(Failure::NoSuchLabel(label))?;
                inner.predictions.best_for(number, count)
            }
            Query::Text(text) => self.similar(&Document::text("", text), count)?,
            Query::Similar(id) => match (self.rows.get(&id), live.model().row_of(&id)) {
                (Some(&row), _) => self.similar(self.document(row), count)?,
                (None, Some(row)) if live.model().keeps_texts() => {
                    let text = live.model().text(row).unwrap_or_default();
                    self.similar(&Document::text("", text), count)?
                }
                _ => return Err(Failure::NoSuchDocument(id)),
            },
        };
        let named = found.into_iter().map(|(row, similarity)| {
            let Document { id, content, .. } = self.document(row);
            let labels = live.model().row_of(id).map(|row| to_strings(live.label_names(row)));
            let text = content.text().unwrap_or_default().chars().take(MAX_EXCERPT).collect();
            FoundDocument { id: id.clone(), text, labels, similarity }
        });
        Ok(named.collect())
    }

    fn similar(&self, document: &Document, count: usize) -> Result<Vec<(u32, f64)>, Failure> {
        let k = NonZeroUsize::new(count).unwrap_or(NonZeroUsize::MIN);
        let options = ClassifyOptions { k, ..self.pool.index().options() };
        let found =
            self.pool.index().predict_documents(std::slice::from_ref(document), &options)?;
        let found = found.into_iter().flat_map(|prediction| prediction.neighbors);
        Ok(found.map(|near| (near.row, f64::from(near.similarity))).collect())
    }

    /// Returns the documents of the pool that are in the model, with their labels.
    pub(crate) fn labeled<'a>(
        &'a self,
        live: &'a LiveModel,
    ) -> impl Iterator<Item = (&'a Document, Vec<&'a str>)> {
        self.documents.iter().filter_map(|document| {
            let row = live.model().row_of(&document.id)?;
            Some((document, live.label_names(row)))
        })
    }
}

impl Inner {
    /// Whether a document of the pool waits for labels.
    fn is_open(&self, row: u32, document: &Document) -> bool {
        !self.predictions.is_labeled(row) && !self.decided.is_skipped(&document.id)
    }

    /// Appends decisions to the file.
    fn record(
        &mut self,
        reviewer: &Reviewer,
        made: &[MadeDecision],
        predicted: Option<&Vec<String>>,
    ) -> Result<(), Failure> {
        let lines = made.iter().map(|made| Line {
            id: made.id.clone(),
            decision: made.action,
            labels: made.after.clone(),
            predicted: predicted.cloned(),
            ..Line::now(reviewer.name.clone())
        });
        self.append(lines.collect())
    }

    /// Appends withdrawals of decisions to the file.
    fn record_undo(
        &mut self,
        reviewer: &Reviewer,
        live: &LiveModel,
        withdrawn: &[MadeDecision],
    ) -> Result<(), Failure> {
        let lines = withdrawn.iter().map(|before| Line {
            id: before.id.clone(),
            labels: labels_of(live, &before.id),
            withdrawn: Some(before.action),
            restored: before.mark,
            ..Line::now(reviewer.name.clone())
        });
        self.append(lines.collect())
    }

    fn append(&mut self, mut lines: Vec<Line>) -> Result<(), Failure> {
        let labeled = self.predictions.labeled();
        let expected = self.predictions.expected();
        for line in &mut lines {
            (line.labeled, line.expected) = (labeled, expected);
        }
        self.file.append(&lines).map_err(|error| {
            tracing::error!("the decisions file could not be written: {error}");
            Failure::NotRecorded
        })?;
        for line in &lines {
            self.decided.add(line);
        }
        Ok(())
    }

    /// Stores a request that the client can withdraw.
    fn remember(&mut self, client: &str, withdrawal: Withdrawal) {
        if self.undo.len() >= MAX_CLIENTS && !self.undo.contains_key(client) {
            let other = self.undo.keys().next().cloned();
            let _ = other.and_then(|other| self.undo.remove(&other));
        }
        let requests = self.undo.entry(client.to_owned()).or_default();
        requests.push(withdrawal);
        if requests.len() > MAX_UNDO {
            drop(requests.remove(0));
        }
    }
}

/// The changes to the model that decisions require, and the state before them.
#[derive(Debug, Default)]
struct Edit {
    added: Vec<Document>,
    changes: Vec<Change>,
    before: Vec<MadeDecision>,
}

/// Returns the labels of a document of the model, or none if there is no such document.
fn labels_of(live: &LiveModel, id: &str) -> Vec<String> {
    live.model().row_of(id).map_or(Vec::new(), |row| to_strings(live.label_names(row)))
}

fn to_strings(names: Vec<&str>) -> Vec<String> {
    names.into_iter().map(str::to_owned).collect()
}
