//! Labeling: which documents of a pool to label next, which labels to review, and what was decided.
//!
//! ```text
//! pool ─▶ proposed document ─▶ decision ─▶ model and file of decisions ─▶ changed predictions ─┐
//!              └─────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! A [`Labeling`] holds the pool, which never changes, and a [`Board`], which changes with each
//! decision. Labels are in the model; the file of decisions has everything else. A decision is on
//! disk before it is confirmed.
//!
//! | file | contents |
//! |---|---|
//! | `claims` | which documents each client works on |
//! | `decisions` | the file of decisions |
//! | `predictions` | what the model says about the pool, updated after each decision |
//! | `review` | labels that are probably wrong, and duplicates |

mod claims;
mod decisions;
mod predictions;
mod review;

use std::collections::{HashMap, HashSet};
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use classify::classifier::ClassifyOptions;
use classify::learn::Trainer;
use classify::model::{Change, Model, NewDocument};
use classify::propose::{Pool, Reason, options_like};
use classify::search::Engines;
use classify::text::corpus::Document;
use serde::Serialize;

use self::claims::Claims;
pub(crate) use self::claims::Tab;
pub(crate) use self::decisions::{Action, Point};
use self::decisions::{Decided, DecisionFile, Line, now, same};
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
    /// The findings about the documents of the model, or why there are none; empty while they are
    /// being searched.
    findings: OnceLock<Result<Vec<Finding>, String>>,
    board: Mutex<Board>,
}

/// What changes with each decision.
#[derive(Debug)]
struct Board {
    predictions: Predictions,
    decided: Decided,
    file: DecisionFile,
    claims: Claims,
    /// What each client can withdraw, last decision last.
    undo: HashMap<String, Vec<Withdrawal>>,
}

/// How to withdraw the decisions of one request.
#[derive(Debug)]
struct Withdrawal(Vec<Before>);

/// A document before a decision.
#[derive(Debug)]
struct Before {
    id: String,
    /// The labels after the decision; empty if the document is not in the model.
    after: Vec<String>,
    state: StateBefore,
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
    /// The labels that the client saw, if it says so.
    pub(crate) seen: Option<Vec<String>>,
}

/// Who decides.
#[derive(Debug, Clone)]
pub(crate) struct Reviewer {
    /// Identifies the page of a browser.
    pub(crate) client: String,
    pub(crate) name: String,
}

/// How far labeling is.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct Progress {
    /// Number of documents of the pool.
    documents: usize,
    /// Number of them in the model.
    labeled: usize,
    /// Number of documents that are not shown again.
    skipped: usize,
    /// The share of right labels to expect in the rest of the pool, from 0 to 1. `null` if the
    /// model is not calibrated.
    expected: Option<f64>,
    /// Among the last 50 decisions about a proposed document, the number of right predictions.
    right: usize,
    /// Number of these decisions.
    right_of: usize,
    /// The state after each decision, at most 200 of them.
    history: Vec<Point>,
    review: ReviewProgress,
}

/// How far the review is.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct ReviewProgress {
    /// Whether the documents of the model are still being checked.
    is_checking: bool,
    /// Number of findings that remain.
    left: usize,
    /// Number of findings at first.
    found: usize,
    /// Why the documents cannot be reviewed.
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
    /// The cosine, or the score of the label that was searched for.
    similarity: f64,
}

/// What to search for.
#[derive(Debug, Clone)]
pub(crate) enum Query {
    Text(String),
    /// The identifier of a document.
    Similar(String),
    Label(String),
}

/// The uncertainty with which a document is proposed of which the model is certain: after others.
const CERTAIN: f64 = 1e-3;
/// Number of recent decisions in which predictions are counted.
const RECENT: usize = 50;
/// Maximum number of points of the history in an answer.
const MAX_POINTS: usize = 200;
/// Maximum number of requests that a client can withdraw.
const MAX_UNDO: usize = 100;
/// Maximum number of clients that can withdraw requests.
const MAX_CLIENTS: usize = 1000;
/// Maximum number of characters of a text in search results.
const EXCERPT: usize = 1000;

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
        let trainer = Trainer::builder().options(options).engines(engines.clone()).build();
        let pool = Pool::new(&trainer, &documents)?;
        let ids = documents.iter().map(|document| document.id.clone());
        let rows: HashMap<String, u32> = ids.zip(0u32..).collect();
        let predictions = Predictions::new(live, &documents)?;
        let board =
            Board { predictions, decided, file, claims: Claims::default(), undo: HashMap::new() };
        let findings = OnceLock::new();
        Ok(Self { documents, rows, pool, findings, board: Mutex::new(board) })
    }

    /// Checks the documents of the model. Takes a while; until then, there is nothing to review.
    pub(crate) fn check(&self, live: &LiveModel, engines: &Engines) {
        let found = match review::reason_against(live) {
            Some(reason) => Err(reason.to_owned()),
            None => review::find(live, engines),
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

    fn board(&self) -> MutexGuard<'_, Board> {
        // Every change of a board is complete at each point where it can panic.
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the document of the pool that a client should label next: the one that it already
    /// has, or a proposal. `None` if every document is labeled, skipped, or shown to others.
    pub(crate) fn next(&self, live: &LiveModel, client: &str) -> Option<u32> {
        let board = &mut *self.board();
        board.predictions.see(live, &self.documents);
        let is_open = |row: u32| board.is_open(row, self.document(row));
        let own = board.claims.of(client, Tab::Label).first();
        let own = own.and_then(|id| self.rows.get(id)).copied();
        if let Some(row) = own.filter(|&row| is_open(row)) {
            return Some(row);
        }
        let claimed: HashSet<&str> = board.claims.of_others(client).collect();
        let uncertainty = (0u32..).zip(&self.documents).map(|(row, document)| {
            let is_free = is_open(row) && !claimed.contains(&*document.id);
            if is_free { board.predictions.uncertainty(row).max(CERTAIN) } else { 0.0 }
        });
        let uncertainty: Vec<f64> = uncertainty.collect();
        let seed = board.decided.history.len() as u64;
        let row = self.pool.propose(&uncertainty, 1, seed).first()?.row;
        board.claims.set(client, Tab::Label, vec![self.document(row).id.clone()]);
        Some(row)
    }

    /// Returns why a document is proposed, from its prediction, and how uncertain that is.
    pub(crate) fn reason<'a>(&self, model: &'a Model, row: u32) -> (Reason<'a>, f64) {
        let predictions = &self.board().predictions;
        (predictions.reason(model, row), predictions.uncertainty(row))
    }

    /// Returns what a client should review next.
    pub(crate) fn next_finding(&self, live: &LiveModel, client: &str) -> Option<Finding> {
        let findings = self.findings.get()?.as_ref().ok()?;
        let board = &mut *self.board();
        let claimed: HashSet<&str> = board.claims.of_others(client).collect();
        let finding = findings.iter().find(|finding| {
            finding.is_open(live.model(), &board.decided)
                && !finding.ids().iter().any(|id| claimed.contains(&**id))
        })?;
        board.claims.set(client, Tab::Review, finding.ids().to_vec());
        Some(finding.clone())
    }

    /// Makes decisions: all or none. Returns notes for the reviewer. Blocks the thread.
    pub(crate) fn decide(
        &self,
        state: &State,
        reviewer: &Reviewer,
        decisions: &[Decision],
        new_labels: NewLabelPolicy,
    ) -> Result<Vec<String>, Failure> {
        let board = &mut *self.board();
        let live = state.live();
        let mut added = Vec::new();
        let mut changes = Vec::new();
        let mut before = Vec::new();
        let mut ids = HashSet::new();
        for decision in decisions {
            if !ids.insert(&*decision.id) {
                let what = format!("`{}` is decided twice in one request", decision.id);
                return Err(Failure::Body(what));
            }
            before.push(self.prepare(&live, decision, &mut added, &mut changes)?);
        }
        let predicted = self.predicted(board, &live, decisions);
        let made = state.edit(&added, changes, new_labels)?;
        let live = state.live();
        let rows = decisions.iter().filter_map(|decision| self.rows.get(&decision.id).copied());
        board.predictions.update(&live, &self.documents, &self.pool, &rows.collect::<Vec<u32>>());
        board.record(reviewer, decisions, predicted.as_ref())?;
        board.remember(&reviewer.client, Withdrawal(before));
        Ok(made.notes)
    }

    /// Returns what the model predicted, if the only decision gives labels to a document of the
    /// pool for the first time.
    fn predicted(
        &self,
        board: &Board,
        live: &LiveModel,
        decisions: &[Decision],
    ) -> Option<Vec<String>> {
        let [Decision { action: Action::Label, id, .. }] = decisions else { return None };
        let row = self.rows.get(id).filter(|_| live.model().row_of(id).is_none())?;
        Some(board.predictions.labels(live.model(), *row))
    }

    /// Adds the changes of the model that a decision needs. Returns how to withdraw it.
    fn prepare(
        &self,
        live: &LiveModel,
        decision: &Decision,
        added: &mut Vec<Document>,
        changes: &mut Vec<Change>,
    ) -> Result<Before, Failure> {
        let Decision { id, action, labels, seen } = decision;
        let there = live.model().row_of(id);
        let now = there.map_or(Vec::new(), |row| owned(live.label_names(row)));
        if let Some(seen) = seen
            && !same(seen, &now)
        {
            return Err(Failure::DecidedMeanwhile { id: id.clone(), labels: now });
        }
        let missing = || Failure::NoSuchDocument(id.clone());
        let (state, after) = match action {
            Action::Label => match (there, self.rows.get(id)) {
                (Some(_), _) => {
                    changes.push(Change::Relabel { id: id.clone(), labels: labels.clone() });
                    (StateBefore::Labels(now), labels.clone())
                }
                (None, Some(&row)) => {
                    let document = self.document(row).clone();
                    added.push(Document { labels: labels.clone(), ..document });
                    (StateBefore::Absent, labels.clone())
                }
                (None, None) => return Err(missing()),
            },
            Action::Remove => {
                let row = there.ok_or_else(missing)?;
                changes.push(Change::Remove { id: id.clone() });
                let stored = NewDocument::stored_in(live.model(), row).map(Box::new);
                (StateBefore::Removed(stored), Vec::new())
            }
            Action::Keep => {
                let _ = there.ok_or_else(missing)?;
                (StateBefore::Same, now)
            }
            Action::Skip if there.is_some() || self.rows.contains_key(id) => {
                (StateBefore::Same, now)
            }
            Action::Skip => return Err(missing()),
            Action::Undo => return Err(Failure::Body("send `undo` to its own path".into())),
        };
        Ok(Before { id: id.clone(), after, state })
    }

    /// Withdraws the last request of a client, and gives its documents to the client again. Returns
    /// their identifiers. Blocks the thread.
    pub(crate) fn undo(&self, state: &State, reviewer: &Reviewer) -> Result<Vec<String>, Failure> {
        let board = &mut *self.board();
        let live = state.live();
        let last = board.undo.get(&reviewer.client).and_then(|all| all.last());
        let Withdrawal(documents) = last.ok_or(Failure::NothingToUndo)?;
        let mut changes = Vec::new();
        for Before { id, after, state } in documents {
            let there = live.model().row_of(id);
            let now = there.map_or(Vec::new(), |row| owned(live.label_names(row)));
            if !same(&now, after) {
                return Err(Failure::DecidedMeanwhile { id: id.clone(), labels: now });
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
        let ids: Vec<String> = documents.iter().map(|document| document.id.clone()).collect();
        let _ = state.edit(&[], changes, NewLabelPolicy::Allow)?;
        let live = state.live();
        let rows: Vec<u32> = ids.iter().filter_map(|id| self.rows.get(id).copied()).collect();
        board.predictions.update(&live, &self.documents, &self.pool, &rows);
        let undo = ids.iter().map(|id| Decision {
            id: id.clone(),
            action: Action::Undo,
            labels: Vec::new(),
            seen: None,
        });
        board.record(reviewer, &undo.collect::<Vec<_>>(), None)?;
        let _ = board.undo.get_mut(&reviewer.client).and_then(Vec::pop);
        let tab = if rows.is_empty() { Tab::Review } else { Tab::Label };
        board.claims.set(&reviewer.client, tab, ids.clone());
        Ok(ids)
    }

    /// Returns how far labeling is.
    pub(crate) fn progress(&self, live: &LiveModel) -> Progress {
        let board = &mut *self.board();
        board.predictions.see(live, &self.documents);
        let history = &board.decided.history;
        let recent: Vec<bool> =
            history.iter().rev().filter_map(|point| point.was_right).take(RECENT).collect();
        let step = history.len().div_ceil(MAX_POINTS).max(1);
        // The last point is always included.
        let points = history.iter().rev().step_by(step).rev().copied();
        Progress {
            documents: self.documents.len(),
            labeled: board.predictions.labeled(),
            skipped: board.decided.skipped.len(),
            expected: board.predictions.expected(),
            right: recent.iter().filter(|&&right| right).count(),
            right_of: recent.len(),
            history: points.collect(),
            review: self.review_progress(live, &board.decided),
        }
    }

    fn review_progress(&self, live: &LiveModel, decided: &Decided) -> ReviewProgress {
        let nothing = ReviewProgress { is_checking: false, left: 0, found: 0, why_not: None };
        match self.findings.get() {
            None => ReviewProgress { is_checking: true, ..nothing },
            Some(Err(reason)) => ReviewProgress { why_not: Some(reason.clone()), ..nothing },
            Some(Ok(findings)) => {
                let open = findings.iter().filter(|one| one.is_open(live.model(), decided));
                ReviewProgress { left: open.count(), found: findings.len(), ..nothing }
            }
        }
    }

    /// Searches the pool: by text and by document on exact cosines, by label on predicted scores.
    pub(crate) fn search(
        &self,
        live: &LiveModel,
        query: Query,
        count: usize,
    ) -> Result<Vec<FoundDocument>, Failure> {
        let found = match query {
            Query::Label(label) => {
                let number = (0u32..).zip(live.model().labels().iter());
                let number = number.into_iter().find(|(_, name)| *name == label);
                let (number, _) = number.ok_or(Failure::NoSuchLabel(label))?;
                self.board().predictions.best_for(number, count)
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
            let labels = live.model().row_of(id).map(|row| owned(live.label_names(row)));
            let text = content.text().unwrap_or_default().chars().take(EXCERPT).collect();
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

impl Board {
    /// Whether a document of the pool waits for labels.
    fn is_open(&self, row: u32, document: &Document) -> bool {
        !self.predictions.is_labeled(row) && !self.decided.skipped.contains(&document.id)
    }

    /// Writes decisions to the file.
    fn record(
        &mut self,
        reviewer: &Reviewer,
        decisions: &[Decision],
        predicted: Option<&Vec<String>>,
    ) -> Result<(), Failure> {
        let line = |decision: &Decision| Line {
            time: now(),
            reviewer: reviewer.name.clone(),
            id: decision.id.clone(),
            decision: decision.action,
            labels: decision.labels.clone(),
            predicted: predicted.cloned(),
            labeled: self.predictions.labeled(),
            expected: self.predictions.expected(),
        };
        let lines: Vec<Line> = decisions.iter().map(line).collect();
        self.file.append(&lines).map_err(|error| {
            tracing::error!("the decisions file could not be written: {error}");
            Failure::NotRecorded
        })?;
        for line in &lines {
            self.decided.add(line);
        }
        Ok(())
    }

    /// Remembers how to withdraw a request.
    fn remember(&mut self, client: &str, withdrawal: Withdrawal) {
        if self.undo.len() >= MAX_CLIENTS && !self.undo.contains_key(client) {
            self.undo.clear();
        }
        let own = self.undo.entry(client.to_owned()).or_default();
        own.push(withdrawal);
        if own.len() > MAX_UNDO {
            drop(own.remove(0));
        }
    }
}

fn owned(names: Vec<&str>) -> Vec<String> {
    names.into_iter().map(str::to_owned).collect()
}
