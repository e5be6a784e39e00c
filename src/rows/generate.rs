//! Synthetic corpora of any size, shaped like RCV1-v2, for benchmarks.
//!
//! RCV1-v2 (Lewis, Yang, Rose and Li 2004) has 804,414 documents with about 76 terms each; 23,149
//! of them are for training. It has a hierarchy of 103 topics and a vocabulary of 47,236 stems, the
//! most frequent of which occurs in a quarter of the documents. [`rcv1_like`] generates similar
//! documents:
//!
//! * Each of 900 *themes* belongs to a topic and has its own terms. Some themes are far more
//!   frequent than others. A document takes some of its terms from its theme, some from its topic,
//!   and the rest from a background distribution that follows the Zipf–Mandelbrot law.
//! * One document in twelve repeats an earlier document of its theme with a few terms changed, like
//!   an updated news report.
//! * The labels of a document are its topic and all ancestors. One document in four also has the
//!   labels of another theme, and one in six has the labels of another theme instead of its own.
//!
//! The files have the names and formats of the benchmark:
//! `lyrl2004_vectors_{train,test_pt0…3}.dat`, `rcv1-v2.topics.qrels` and `rcv1.topics.hier.orig`.
//! Vectors have unit-length `ltc` weights. Their document frequencies come from the training
//! documents, and terms that do not occur there are omitted. The same seed gives the same bytes.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use crate::random::Random;
use crate::rows::matrix::{Csr, CsrBuilder};
use array_file::output::{Output, OutputError};

/// The number of documents of RCV1-v2.
pub const RCV1_DOCUMENTS: u64 = 804_414;
/// The number of training documents of RCV1-v2.
pub const RCV1_TRAINING_DOCUMENTS: u64 = 23_149;
const TERMS: usize = 47_236;
const THEMES: usize = 900;
/// The number of terms of a theme.
const THEME_TERMS: usize = 60;
/// The number of terms of a topic.
const TOPIC_TERMS: usize = 600;
/// The four roots, with the number of topics under each: 4 + 99 topics in total.
const ROOTS: [(&str, usize); 4] = [("C", 30), ("E", 25), ("G", 28), ("M", 16)];
/// The number of earlier documents of a theme that can be repeated.
const REPEATABLE_DOCUMENTS: usize = 8;
/// The identifier of the first document, as in RCV1.
const FIRST_ID: u64 = 2_286;

/// The numbers of documents that were written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DocumentCounts {
    /// The number of training documents.
    pub training: u64,
    /// The number of test documents.
    pub test: u64,
}

/// Writes a corpus of `documents` documents like RCV1-v2 to `folder`. The number of training
/// documents is 23,149 or half the corpus, whichever is smaller. `progress` is called with the
/// number of documents written so far.
///
/// # Errors
/// If a file cannot be written. All files are opened before the work starts.
pub fn rcv1_like(
    documents: u64,
    seed: u64,
    folder: &Path,
    progress: &dyn Fn(u64),
) -> Result<DocumentCounts, OutputError> {
    std::fs::create_dir_all(folder).map_err(|error| OutputError::write(folder, error))?;
    let parts = (0..4).map(|part| format!("lyrl2004_vectors_test_pt{part}.dat"));
    let names = ["lyrl2004_vectors_train.dat", "rcv1-v2.topics.qrels", "rcv1.topics.hier.orig"];
    let names: Vec<String> = names.into_iter().map(str::to_owned).chain(parts).collect();
    let open = |name: &String| Output::open(&folder.join(name));
    let mut files: Vec<Output> = names.iter().map(open).collect::<Result<_, _>>()?;
    let training = RCV1_TRAINING_DOCUMENTS.min(documents / 2);
    let mut generator = Generator::new(seed);
    let mut qrels = Vec::new();
    let train: Vec<GeneratedDocument> =
        (0..training).map(|number| generator.document(number)).collect();
    let idf = idf(&train);
    fill(&mut files[0], |out| {
        for (number, document) in (0..).zip(&train) {
            document.write(number, &idf, out)?;
            document.write_qrels(number, &generator, &mut qrels)?;
        }
        Ok(())
    })?;
    drop(train);
    let test = documents - training;
    for (part, file) in (0..4).zip(&mut files[3..]) {
        fill(file, |out| {
            for number in training + test * part / 4..training + test * (part + 1) / 4 {
                let document = generator.document(number);
                document.write(number, &idf, out)?;
                document.write_qrels(number, &generator, &mut qrels)?;
                if number.is_multiple_of(1_000) {
                    progress(number);
                }
            }
            Ok(())
        })?;
    }
    fill(&mut files[1], |out| out.write_all(&qrels))?;
    fill(&mut files[2], |out| {
        writeln!(out, "parent: None child: Root child-description: Root")?;
        generator.topics.iter().try_for_each(|topic| {
            let parent = topic.parent.map_or("Root", |parent| &generator.topics[parent].name);
            let name = &topic.name;
            writeln!(out, "parent: {parent} child: {name} child-description: made {name}")
        })
    })?;
    files.into_iter().try_for_each(Output::commit)?;
    Ok(DocumentCounts { training, test })
}

fn fill(
    output: &mut Output,
    write: impl FnOnce(&mut Output) -> io::Result<()>,
) -> Result<(), OutputError> {
    write(output).map_err(|error| output.error(error))
}

/// The rows of a corpus like RCV1-v2: the vectors that [`rcv1_like`] writes, with full-precision
/// weights.
#[derive(Debug)]
pub struct Rows {
    /// The matrix of training documents and terms. Rows have length 1.
    pub training: Arc<Csr>,
    /// The matrix of test documents and the same terms. Rows have length 1.
    pub test: Csr,
}

/// Generates the rows of a corpus like RCV1-v2: `training` documents, then `test` documents.
///
/// ```
/// let rows = classify::rows::generate::rcv1_like_rows(200, 50, 0);
/// assert_eq!((rows.training.rows(), rows.test.rows()), (200, 50));
/// ```
pub fn rcv1_like_rows(training: u64, test: u64, seed: u64) -> Rows {
    let mut generator = Generator::new(seed);
    let train: Vec<GeneratedDocument> =
        (0..training).map(|number| generator.document(number)).collect();
    let idf = idf(&train);
    let matrix = |documents: &mut dyn Iterator<Item = GeneratedDocument>| {
        let mut rows = CsrBuilder::default();
        for document in documents {
            let (weights, norm) = document.weights(&idf);
            #[expect(clippy::cast_possible_truncation, reason = "weights are kept as f32")]
            rows.push_row(weights.map(|(term, weight)| (term, (weight / norm) as f32)));
        }
        rows.build(TERMS)
    };
    Rows {
        training: Arc::new(matrix(&mut train.into_iter())),
        test: matrix(&mut (training..training + test).map(|number| generator.document(number))),
    }
}

/// Returns ln(N / df) of each term, or 0 for a term that occurs in no training document.
fn idf(train: &[GeneratedDocument]) -> Vec<f64> {
    let mut frequencies = vec![0u32; TERMS];
    for document in train {
        for &term in document.terms.keys() {
            frequencies[term as usize] += 1;
        }
    }
    let term_idf = |&df: &u32| match df {
        0 => 0.0,
        df => libm::log(train.len() as f64 / f64::from(df)),
    };
    frequencies.iter().map(term_idf).collect()
}

/// Draws a number below `limit` from the 53 bits of [`Random::unit`]. Do not change this: generated
/// corpora depend on it.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below the limit")]
fn draw_below(random: &mut Random, limit: usize) -> usize {
    ((random.unit() * limit as f64) as usize).min(limit - 1)
}

/// Draws an approximately normal number with mean 0 and standard deviation 1: the sum of twelve
/// uniform numbers, minus 6.
fn normal(random: &mut Random) -> f64 {
    (0..12).map(|_| random.unit()).sum::<f64>() - 6.0
}

/// A sampler of ranks, counted from 0, with probabilities proportional to 1 / (rank + shift)^power.
#[derive(Debug)]
struct ZipfSampler {
    cumulative: Vec<f64>,
}

impl ZipfSampler {
    fn new(count: usize, shift: f64, power: f64) -> Self {
        let mut sum = 0.0;
        let cumulative = (0..count).map(|rank| {
            sum += libm::pow(rank as f64 + shift, -power);
            sum
        });
        Self { cumulative: cumulative.collect() }
    }

    fn draw(&self, random: &mut Random) -> usize {
        let last = self.cumulative.len() - 1;
        let point = random.unit() * self.cumulative[last];
        self.cumulative.partition_point(|&sum| sum <= point).min(last)
    }
}

#[derive(Debug)]
struct Topic {
    name: String,
    parent: Option<usize>,
    terms: Vec<u32>,
}

#[derive(Debug)]
struct Theme {
    topic: usize,
    terms: Vec<u32>,
    /// The fraction of a document's terms that come from its theme. It is high for reports that
    /// follow a template.
    share: f64,
    recent_documents: Vec<GeneratedDocument>,
}

/// A generated document.
#[derive(Debug, Clone)]
struct GeneratedDocument {
    /// The number of occurrences of each term.
    terms: BTreeMap<u32, u32>,
    /// The topics, without their ancestors.
    topics: Vec<usize>,
}

#[derive(Debug)]
struct Generator {
    random: Random,
    topics: Vec<Topic>,
    themes: Vec<Theme>,
    background: ZipfSampler,
    theme_sampler: ZipfSampler,
    theme_term_sampler: ZipfSampler,
    topic_term_sampler: ZipfSampler,
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small numbers")]
impl Generator {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let background = ZipfSampler::new(TERMS, 13.0, 1.0);
        let mut topics: Vec<Topic> = Vec::new();
        for (letter, count) in ROOTS {
            let root = topics.len();
            topics.push(Topic { name: format!("{letter}CAT"), parent: None, terms: Vec::new() });
            for number in 0..count {
                // Every third topic is a child of another topic of its root.
                let candidate =
                    if number % 3 == 2 { root + 1 + draw_below(&mut random, number) } else { root };
                let is_too_deep =
                    topics[candidate].parent.is_some_and(|grandparent| grandparent != root);
                let parent = if is_too_deep { root } else { candidate };
                let name = format!("{letter}{}", 10 + number);
                topics.push(Topic { name, parent: Some(parent), terms: Vec::new() });
            }
        }
        // Themes and topics have terms of medium frequency: neither the most frequent nor the
        // rarest terms.
        let mut draw_terms = |count: usize| -> Vec<u32> {
            (0..count).map(|_| 60 + draw_below(&mut random, TERMS / 3 - 60) as u32).collect()
        };
        for topic in &mut topics {
            topic.terms = draw_terms(TOPIC_TERMS);
        }
        let mut theme_lists: Vec<Vec<u32>> = (0..THEMES).map(|_| draw_terms(THEME_TERMS)).collect();
        let topic_sampler = ZipfSampler::new(topics.len() - ROOTS.len(), 3.0, 1.0);
        let mut leaves: Vec<usize> =
            (0..topics.len()).filter(|&topic| topics[topic].parent.is_some()).collect();
        for index in (1..leaves.len()).rev() {
            leaves.swap(index, draw_below(&mut random, index + 1));
        }
        let themes = theme_lists
            .drain(..)
            .zip(0..)
            .map(|(terms, number): (_, usize)| {
                // Every topic has a theme: the rarest themes each get a different topic.
                let assigned = (THEMES - number).checked_sub(1).and_then(|index| leaves.get(index));
                let topic =
                    assigned.copied().unwrap_or_else(|| leaves[topic_sampler.draw(&mut random)]);
                let share = 0.36 + 0.5 * random.unit();
                Theme { topic, terms, share, recent_documents: Vec::new() }
            })
            .collect();
        Self {
            random,
            topics,
            themes,
            background,
            theme_sampler: ZipfSampler::new(THEMES, 20.0, 0.9),
            theme_term_sampler: ZipfSampler::new(THEME_TERMS, 8.0, 1.0),
            topic_term_sampler: ZipfSampler::new(TOPIC_TERMS, 4.0, 1.0),
        }
    }

    fn document(&mut self, number: u64) -> GeneratedDocument {
        let theme = self.theme_sampler.draw(&mut self.random);
        let is_repeat = draw_below(&mut self.random, 12) == 0
            && !self.themes[theme].recent_documents.is_empty();
        let document = if is_repeat {
            let index = draw_below(&mut self.random, self.themes[theme].recent_documents.len());
            let mut document = self.themes[theme].recent_documents[index].clone();
            for _ in 0..document.terms.len() / 8 {
                let position = draw_below(&mut self.random, document.terms.len());
                let removed = document
                    .terms
                    .keys()
                    .nth(position)
                    .copied()
                    .expect("the position is below the length");
                document.terms.remove(&removed);
                *document
                    .terms
                    .entry(self.background.draw(&mut self.random) as u32)
                    .or_default() += 1;
            }
            document
        } else {
            self.draw(theme)
        };
        let recent_documents = &mut self.themes[theme].recent_documents;
        if recent_documents.len() < REPEATABLE_DOCUMENTS {
            recent_documents.push(document.clone());
        } else {
            recent_documents[(number % REPEATABLE_DOCUMENTS as u64) as usize] = document.clone();
        }
        document
    }

    fn draw(&mut self, theme: usize) -> GeneratedDocument {
        let random = &mut self.random;
        // The length is log-normal, with a mean of about 76 terms.
        let length = (66.0 * libm::exp(0.55 * normal(random))).clamp(5.0, 600.0) as usize;
        let main_theme = &self.themes[theme];
        // Simulate label noise: one document in six has the topic of another theme.
        let labeling_theme =
            if draw_below(random, 6) == 0 { self.theme_sampler.draw(random) } else { theme };
        let mut topics = vec![self.themes[labeling_theme].topic];
        let other = (draw_below(random, 4) == 0).then(|| self.theme_sampler.draw(random));
        if let Some(other) = other
            && self.themes[other].topic != topics[0]
        {
            topics.push(self.themes[other].topic);
        }
        let share = (main_theme.share + 0.1 * normal(random)).clamp(0.05, 0.85);
        let mut terms = BTreeMap::new();
        let mut tries = 0;
        while terms.len() < length && tries < 4 * length {
            tries += 1;
            let draw = random.unit();
            let term = if draw < share {
                let list = match other {
                    Some(other) if draw_below(random, 3) == 0 => &self.themes[other].terms,
                    _ => &main_theme.terms,
                };
                list[self.theme_term_sampler.draw(random)]
            } else if draw < share + 0.2 * (1.0 - share) {
                let topic = topics[draw_below(random, topics.len())];
                self.topics[topic].terms[self.topic_term_sampler.draw(random)]
            } else {
                self.background.draw(random) as u32
            };
            *terms.entry(term).or_default() += 1;
        }
        GeneratedDocument { terms, topics }
    }
}

impl GeneratedDocument {
    /// Returns the positive `ltc` weights before normalization, and their Euclidean length.
    fn weights<'a>(&'a self, idf: &'a [f64]) -> (impl Iterator<Item = (u32, f64)> + 'a, f64) {
        let weight = move |(&term, &count): (&u32, &u32)| {
            (term, (1.0 + libm::log(f64::from(count))) * idf[term as usize])
        };
        let squares = self.terms.iter().map(weight).map(|(_, weight)| weight * weight);
        let norm = squares.sum::<f64>().sqrt();
        (self.terms.iter().map(weight).filter(|(_, weight)| *weight > 0.0), norm)
    }

    /// Writes the line of this document to a vector file.
    fn write(&self, number: u64, idf: &[f64], out: &mut dyn Write) -> io::Result<()> {
        let (weights, norm) = self.weights(idf);
        write!(out, "{} ", FIRST_ID + number)?;
        for (term, weight) in weights {
            write!(out, " {}:{:.8}", term + 1, weight / norm)?;
        }
        writeln!(out)
    }

    /// Appends the lines of this document to the qrels.
    fn write_qrels(
        &self,
        number: u64,
        generator: &Generator,
        qrels: &mut Vec<u8>,
    ) -> io::Result<()> {
        let mut labels: Vec<usize> = Vec::new();
        for &topic in &self.topics {
            let mut next = Some(topic);
            while let Some(topic) = next {
                labels.push(topic);
                next = generator.topics[topic].parent;
            }
        }
        labels.sort_unstable();
        labels.dedup();
        for label in labels {
            writeln!(qrels, "{} {} 1", generator.topics[label].name, FIRST_ID + number)?;
        }
        Ok(())
    }
}
