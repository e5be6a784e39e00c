//! Finds labels that are probably wrong.
//!
//! * Input: the votes of held-out neighbors, and the scores of prototypes learned without the fold.
//! * Evaluation: none of a document's own labels contributes to its scores.
//! * Output: [`LabelErrors`]: the suspicious labels, and an estimate of the number of wrong labels.
//!
//! The *evidence* for a label of a document is the log of its score divided by the best score of
//! the other labels. In multi-label mode it is the log odds of its score. Confident learning
//! (Northcutt, Jiang and Chuang 2021, §3.2) ranks labels by the same comparison of held-out
//! probabilities.
//!
//! How probable an error is at some evidence follows from two groups of labels ([`TwoGroups`]):
//! the labels in the corpus, and labels that are certainly wrong. To get the second group, each
//! document is given labels that it does not have: any labels, and labels of documents that
//! resemble those of the right label, because a wrong label is often a similar one. In multi-label
//! mode, missing labels are found in the same way: among the labels that a document does not have,
//! some have evidence as strong as the labels in the corpus.

mod two_groups;

use std::num::NonZeroUsize;

pub use two_groups::ErrorRate;
use two_groups::TwoGroups;

use super::held_out::LeaveOneOut;
use super::prototypes::HeldOutPrototypes;
use crate::decide::vote::{Outcome, TrainingLabels, VoteWeight, mix_scores, vote_with};
use crate::random::Random;
use crate::threads::{self, Threads};

/// Number of neighbors that vote on a held-out document.
pub(super) const NEIGHBORS: NonZeroUsize = NonZeroUsize::new(40).expect("not zero");
/// The share of prototypes in the scores.
const PROTOTYPES: f64 = 0.85;
/// Added to every score, so that a label without a vote has finite evidence.
const FLOOR: f64 = 1e-4;
/// Number of wrong labels that are drawn for each document in each of the two ways.
const DRAWS: usize = 4;
/// Minimum evidence for a missing label; most pairs of a document and a label have less.
const MIN_MISSING: f64 = -2.0;

/// A label that is probably wrong, or probably missing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Suspect {
    /// Row number of the document.
    pub row: u32,
    /// The label in the corpus that may be wrong; `None` if a label is missing.
    pub given: Option<u32>,
    /// The label that the document should probably have. `None` if a label of several is
    /// superfluous.
    pub suggested: Option<u32>,
    /// The probability that the corpus is wrong here, from 0 to 1.
    pub probability: f64,
    /// The evidence for the label, in nats: negative if other labels are more probable.
    pub evidence: f64,
}

/// The labels of a corpus that are probably wrong.
#[derive(Debug, Clone, Default)]
pub struct LabelErrors {
    /// All labels in the corpus with at least [`LabelErrors::MIN_DOCUMENTS`] documents, and the
    /// labels that may be missing, by decreasing probability of an error.
    pub suspects: Vec<Suspect>,
    /// The number of wrong labels.
    pub wrong: ErrorRate,
    /// The number of missing labels, in multi-label mode.
    pub missing: Option<ErrorRate>,
}

impl LabelErrors {
    /// The minimum number of documents of a label that is checked. Too little is known about rarer
    /// labels: a held-out document may be the only one.
    pub const MIN_DOCUMENTS: u32 = 5;
}

/// The evidence about one document.
#[derive(Debug, Default)]
struct DocumentEvidence {
    /// The labels in the corpus.
    given: Vec<Suspect>,
    /// Labels with evidence that the document does not have.
    absent: Vec<Suspect>,
    /// The number of labels that are checked and that the document does not have.
    absent_labels: u64,
    /// The evidence for wrong labels that were drawn: any labels, and labels of similar documents.
    drawn: [Vec<f64>; 2],
}

/// Finds the labels that are probably wrong. `found` must contain the neighbors of every document.
pub(super) fn learn(
    found: &LeaveOneOut,
    labels: TrainingLabels<'_>,
    prototypes: Option<&HeldOutPrototypes>,
    multi_label: bool,
    threads: &Threads,
) -> LabelErrors {
    let corpus = HeldOutCorpusScores { found, labels, prototypes, multi_label };
    let indices: Vec<usize> = (0..found.len()).collect();
    let mut documents = threads.run(|| threads::map(&indices, |&index| corpus.evidence(index)));
    let lookalikes = Lookalikes::new(&documents, labels.sizes.len());
    let drawn = threads.run(|| threads::map(&indices, |&index| corpus.draw(index, &lookalikes)));
    for (document, drawn) in documents.iter_mut().zip(drawn) {
        document.drawn = drawn;
    }
    let of = |pick: fn(&DocumentEvidence) -> &Vec<Suspect>| {
        documents.iter().flat_map(pick).map(|suspect| suspect.evidence).collect::<Vec<f64>>()
    };
    let given = of(|document| &document.given);
    let drawn = |way: usize| {
        documents.iter().flat_map(|document| document.drawn[way].iter().copied()).collect()
    };
    let pairs = given.len() as u64;
    let wrong = TwoGroups::new(given.clone(), pairs, vec![drawn(0), drawn(1)]);
    let missing = multi_label.then(|| {
        // The evidence is negated: labels are missing where it is high.
        let negated = |all: Vec<f64>| all.into_iter().map(|evidence| -evidence).collect();
        let pairs = documents.iter().map(|document| document.absent_labels).sum();
        TwoGroups::new(negated(of(|document| &document.absent)), pairs, vec![negated(given)])
    });
    let mut suspects = Vec::new();
    for document in documents {
        let probability = |suspect: &Suspect| wrong.probability(suspect.evidence);
        suspects.extend(
            document.given.into_iter().map(|s| Suspect { probability: probability(&s), ..s }),
        );
        if let Some(missing) = &missing {
            let probability = |suspect: &Suspect| missing.probability(-suspect.evidence);
            suspects.extend(
                document.absent.into_iter().map(|s| Suspect { probability: probability(&s), ..s }),
            );
        }
    }
    let strength = |s: &Suspect| if s.given.is_some() { s.evidence } else { -s.evidence };
    suspects.sort_by(|a, b| {
        let by_probability = b.probability.total_cmp(&a.probability);
        by_probability.then(strength(a).total_cmp(&strength(b))).then(a.row.cmp(&b.row))
    });
    LabelErrors { suspects, wrong: wrong.rate, missing: missing.map(|groups| groups.rate) }
}

/// The scores of held-out documents.
struct HeldOutCorpusScores<'a> {
    found: &'a LeaveOneOut,
    labels: TrainingLabels<'a>,
    prototypes: Option<&'a HeldOutPrototypes>,
    multi_label: bool,
}

/// The scores of all labels for one document.
struct Scores {
    /// The score of each label; 0 without votes.
    of: Vec<f64>,
    /// The labels with the two highest scores.
    best: [u32; 2],
    multi_label: bool,
}

impl Scores {
    /// Returns the evidence for a label.
    fn evidence(&self, label: u32) -> f64 {
        let score = self.of[label as usize];
        let against =
            if self.multi_label { 1.0 - score } else { self.of[self.other(label) as usize] };
        libm::log((score + FLOOR) / (against.max(0.0) + FLOOR))
    }

    /// Returns the best label other than `label`.
    fn other(&self, label: u32) -> u32 {
        if self.best[0] == label { self.best[1] } else { self.best[0] }
    }
}

impl HeldOutCorpusScores<'_> {
    fn scores(&self, index: usize) -> Scores {
        let (row, voters) = self.found.get(index);
        let mut outcome = Outcome::default();
        vote_with(voters, VoteWeight::default(), &[], &self.labels, &mut outcome);
        let mut of = vec![0.0; self.labels.sizes.len()];
        for score in outcome.scores {
            of[score.label as usize] = score.score;
        }
        if let Some(prototypes) = self.prototypes {
            for (label, score) in (0u32..).zip(&mut of) {
                let prototype = prototypes.score(row, false, label);
                *score = mix_scores(*score, prototype, PROTOTYPES);
            }
        }
        let mut best = [0, u32::from(of.len() > 1)];
        if of.len() > 1 && of[1] > of[0] {
            best.swap(0, 1);
        }
        for (label, &score) in (0u32..).zip(&of).skip(2) {
            if score > of[best[0] as usize] {
                best = [label, best[0]];
            } else if score > of[best[1] as usize] {
                best[1] = label;
            }
        }
        Scores { of, best, multi_label: self.multi_label }
    }

    /// Whether a label has enough documents to be checked.
    fn is_checked(&self, label: u32) -> bool {
        self.labels.sizes[label as usize] >= LabelErrors::MIN_DOCUMENTS
    }

    /// Returns the evidence for the labels of a document, and for labels that it may lack.
    fn evidence(&self, index: usize) -> DocumentEvidence {
        let (row, _) = self.found.get(index);
        let own = self.labels.labels(row);
        let scores = self.scores(index);
        let suspect = |given: Option<u32>, suggested: Option<u32>| {
            let label = given.or(suggested).unwrap_or(0);
            Suspect { row, given, suggested, probability: 0.0, evidence: scores.evidence(label) }
        };
        let has = |label: u32| own.binary_search(&label).is_ok();
        let suggested = |label| (!self.multi_label).then(|| scores.other(label));
        let given = own.iter().filter(|&&label| self.is_checked(label));
        let given = given.map(|&label| suspect(Some(label), suggested(label))).collect();
        let labels = (0u32..).take(if self.multi_label { scores.of.len() } else { 0 });
        let absent = labels.filter(|label| self.is_checked(*label) && !has(*label));
        let absent: Vec<Suspect> = absent.map(|label| suspect(None, Some(label))).collect();
        DocumentEvidence {
            given,
            absent_labels: absent.len() as u64,
            absent: absent.into_iter().filter(|s| s.evidence >= MIN_MISSING).collect(),
            drawn: <[_; 2]>::default(),
        }
    }

    /// Draws labels that a document does not have, and returns the evidence for them: for any
    /// labels, and for labels of documents that resemble those with its label.
    fn draw(&self, index: usize, lookalikes: &Lookalikes) -> [Vec<f64>; 2] {
        let (row, _) = self.found.get(index);
        let own = self.labels.labels(row);
        let mut drawn = <[Vec<f64>; 2]>::default();
        let labels = self.labels.sizes.len();
        let scores = self.scores(index);
        // A document whose own labels look wrong shows nothing about wrong labels.
        if own.is_empty() || own.iter().any(|&label| scores.evidence(label) <= 0.0) {
            return drawn;
        }
        let mut random = Random::new(row.into());
        for _ in 0..DRAWS {
            let any = u32::try_from(random.below(labels)).expect("a label number");
            let similar = lookalikes.draw(own[random.below(own.len())], &mut random);
            for (label, drawn) in [Some(any), similar].into_iter().zip(&mut drawn) {
                let is_wrong = |label: &u32| own.binary_search(label).is_err();
                let label = label.filter(|label| self.is_checked(*label) && is_wrong(label));
                drawn.extend(label.map(|label| scores.evidence(label)));
            }
        }
        drawn
    }
}

/// For each label, the labels of the documents that look as if they had this label.
struct Lookalikes(Vec<Vec<u32>>);

impl Lookalikes {
    fn new(documents: &[DocumentEvidence], labels: usize) -> Self {
        let mut carried = vec![Vec::new(); labels];
        for suspect in documents.iter().flat_map(|document| &document.given) {
            if let (Some(given), Some(suggested)) = (suspect.given, suspect.suggested)
                && suspect.evidence < 0.0
            {
                carried[suggested as usize].push(given);
            }
        }
        Self(carried)
    }

    fn draw(&self, label: u32, random: &mut Random) -> Option<u32> {
        let carried = &self.0[label as usize];
        (!carried.is_empty()).then(|| carried[random.below(carried.len())])
    }
}
