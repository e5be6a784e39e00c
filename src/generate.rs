//! Corpora of any size with the shape of RCV1-v2, for measurements: made, not found.
//!
//! RCV1-v2 (Lewis, Yang, Rose and Li 2004) has 804,414 documents of about 76 terms, 23,149 of them for
//! training, a vocabulary of 47,236 stems of which the most frequent is in a quarter of the documents,
//! and 103 topics in a hierarchy. [`rcv1_like`] draws documents like these:
//!
//! * a *theme* (one of 900, some far more frequent than others) belongs to a topic and has terms of its
//!   own; a document takes a share of its terms from its theme, others from its topic, the rest from a
//!   background that falls as Zipf and Mandelbrot say;
//! * one document in twelve repeats an earlier one of its theme with a few terms changed, as wire
//!   services do;
//! * its labels are its topic and all topics above it, and for one document in four those of another
//!   theme; one document in six has the labels of another theme altogether.
//!
//! The files are those of the benchmark: `lyrl2004_vectors_{train,test_pt0…3}.dat` with unit-length
//! `ltc` weights (document frequencies of the training documents; terms that these have not are left
//! out), `rcv1-v2.topics.qrels`, `rcv1.topics.hier.orig`. The same seed gives the same bytes.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;

use crate::matrix::{Csr, CsrBuilder};
use metric_index::output::write_atomically;

/// The documents of RCV1-v2.
pub const DOCUMENTS: u64 = 804_414;
/// Its training documents.
pub const TRAINING: u64 = 23_149;
const TERMS: usize = 47_236;
const THEMES: usize = 900;
/// The terms of a theme, and of a topic.
const THEME_TERMS: usize = 60;
const TOPIC_TERMS: usize = 600;
/// The topics under each of the four roots: 4 + 99.
const ROOTS: [(&str, usize); 4] = [("C", 30), ("E", 25), ("G", 28), ("M", 16)];
/// How many earlier documents of a theme are at hand to be repeated.
const REMEMBERED: usize = 8;
/// The number of the first document, as in RCV1.
const FIRST_ID: u64 = 2_286;

/// How many documents were written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// For training.
    pub training: u64,
    /// For testing.
    pub test: u64,
}

/// Writes a corpus like RCV1-v2 of so many documents into `folder`: 23,149 of them for training, or
/// half of a smaller corpus. `progress` is told how many are written.
///
/// # Errors
/// If a file cannot be written.
pub fn rcv1_like(
    documents: u64,
    seed: u64,
    folder: &Path,
    progress: &dyn Fn(u64),
) -> io::Result<Written> {
    std::fs::create_dir_all(folder)?;
    let training = TRAINING.min(documents / 2);
    let mut world = World::new(seed);
    let mut qrels = Vec::new();
    let train: Vec<Made> = (0..training).map(|number| world.document(number)).collect();
    let idf = idf(&train);
    write_atomically(&folder.join("lyrl2004_vectors_train.dat"), |out| {
        for (number, document) in (0..).zip(&train) {
            document.write(number, &idf, out)?;
            document.judge(number, &world, &mut qrels)?;
        }
        Ok(())
    })?;
    drop(train);
    let test = documents - training;
    for part in 0..4 {
        let file = folder.join(format!("lyrl2004_vectors_test_pt{part}.dat"));
        write_atomically(&file, |out| {
            for number in training + test * part / 4..training + test * (part + 1) / 4 {
                let document = world.document(number);
                document.write(number, &idf, out)?;
                document.judge(number, &world, &mut qrels)?;
                if number.is_multiple_of(1_000) {
                    progress(number);
                }
            }
            Ok(())
        })?;
    }
    write_atomically(&folder.join("rcv1-v2.topics.qrels"), |out| out.write_all(&qrels))?;
    write_atomically(&folder.join("rcv1.topics.hier.orig"), |out| {
        writeln!(out, "parent: None child: Root child-description: Root")?;
        world.topics.iter().try_for_each(|topic| {
            let parent = topic.parent.map_or("Root", |parent| &world.topics[parent].name);
            let name = &topic.name;
            writeln!(out, "parent: {parent} child: {name} child-description: made {name}")
        })
    })?;
    Ok(Written { training, test })
}

/// The rows of a corpus like RCV1-v2, without files: what the files of [`rcv1_like`] hold, with all
/// digits of the weights.
#[derive(Debug)]
pub struct Rows {
    /// Training documents × terms, unit rows.
    pub training: Csr,
    /// Test documents × the same terms.
    pub test: Csr,
}

/// Makes the rows of a corpus like RCV1-v2: `training` documents, then `test` ones.
///
/// ```
/// let rows = classify::generate::rcv1_like_rows(200, 50, 0);
/// assert_eq!((rows.training.rows(), rows.test.rows()), (200, 50));
/// ```
pub fn rcv1_like_rows(training: u64, test: u64, seed: u64) -> Rows {
    let mut world = World::new(seed);
    let train: Vec<Made> = (0..training).map(|number| world.document(number)).collect();
    let idf = idf(&train);
    let matrix = |documents: &mut dyn Iterator<Item = Made>| {
        let mut rows = CsrBuilder::default();
        for document in documents {
            let (weights, norm) = document.weights(&idf);
            #[expect(clippy::cast_possible_truncation, reason = "weights are kept as f32")]
            rows.push_row(weights.map(|(term, weight)| (term, (weight / norm) as f32)));
        }
        rows.build(TERMS)
    };
    Rows {
        training: matrix(&mut train.into_iter()),
        test: matrix(&mut (training..training + test).map(|number| world.document(number))),
    }
}

/// ln(N / df) of each term; 0 for one that no training document has.
fn idf(train: &[Made]) -> Vec<f64> {
    let mut frequencies = vec![0u32; TERMS];
    for document in train {
        for &term in document.terms.keys() {
            frequencies[term as usize] += 1;
        }
    }
    let of_term = |&df: &u32| match df {
        0 => 0.0,
        df => libm::log(train.len() as f64 / f64::from(df)),
    };
    frequencies.iter().map(of_term).collect()
}

/// Random numbers: `SplitMix64` (Steele, Lea and Flood 2014).
#[derive(Debug, Clone)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ (x >> 31)
    }

    /// In [0, 1).
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Below `limit`.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below the limit")]
    fn below(&mut self, limit: usize) -> usize {
        ((self.unit() * limit as f64) as usize).min(limit - 1)
    }

    /// About normal, mean 0, deviation 1: the sum of twelve.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }
}

/// Numbers from 0 with falling probability, 1 / (rank + shift)^power.
#[derive(Debug)]
struct Falling {
    cumulative: Vec<f64>,
}

impl Falling {
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
        let at = random.unit() * self.cumulative[last];
        self.cumulative.partition_point(|&sum| sum <= at).min(last)
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
    /// How much of a document comes from its theme: reports that follow a form have much.
    share: f64,
    remembered: Vec<Made>,
}

/// A document that was drawn.
#[derive(Debug, Clone)]
struct Made {
    /// Terms and how often each occurs.
    terms: BTreeMap<u32, u32>,
    /// The topics, without those above them.
    topics: Vec<usize>,
}

#[derive(Debug)]
struct World {
    random: Random,
    topics: Vec<Topic>,
    themes: Vec<Theme>,
    background: Falling,
    themes_drawn: Falling,
    theme_terms: Falling,
    topic_terms: Falling,
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small numbers")]
impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let background = Falling::new(TERMS, 13.0, 1.0);
        let mut topics: Vec<Topic> = Vec::new();
        for (letter, count) in ROOTS {
            let root = topics.len();
            topics.push(Topic { name: format!("{letter}CAT"), parent: None, terms: Vec::new() });
            for number in 0..count {
                // Every third topic is under another one of its root.
                let under = if number % 3 == 2 { root + 1 + random.below(number) } else { root };
                let deep = topics[under].parent.is_some_and(|above| above != root);
                let parent = if deep { root } else { under };
                let name = format!("{letter}{}", 10 + number);
                topics.push(Topic { name, parent: Some(parent), terms: Vec::new() });
            }
        }
        // Terms of middle frequency: neither the words of all documents nor the rarest.
        let mut special = |count: usize| -> Vec<u32> {
            (0..count).map(|_| 60 + random.below(TERMS / 3 - 60) as u32).collect()
        };
        for topic in &mut topics {
            topic.terms = special(TOPIC_TERMS);
        }
        let mut theme_lists: Vec<Vec<u32>> = (0..THEMES).map(|_| special(THEME_TERMS)).collect();
        let popular = Falling::new(topics.len() - ROOTS.len(), 3.0, 1.0);
        let mut leaves: Vec<usize> =
            (0..topics.len()).filter(|&topic| topics[topic].parent.is_some()).collect();
        for at in (1..leaves.len()).rev() {
            leaves.swap(at, random.below(at + 1));
        }
        let themes = theme_lists
            .drain(..)
            .zip(0..)
            .map(|(terms, number): (_, usize)| {
                // Every topic has a theme: the rarest ones go round.
                let last = (THEMES - number).checked_sub(1).and_then(|at| leaves.get(at));
                let topic = last.copied().unwrap_or_else(|| leaves[popular.draw(&mut random)]);
                let share = 0.36 + 0.5 * random.unit();
                Theme { topic, terms, share, remembered: Vec::new() }
            })
            .collect();
        Self {
            random,
            topics,
            themes,
            background,
            themes_drawn: Falling::new(THEMES, 20.0, 0.9),
            theme_terms: Falling::new(THEME_TERMS, 8.0, 1.0),
            topic_terms: Falling::new(TOPIC_TERMS, 4.0, 1.0),
        }
    }

    fn document(&mut self, number: u64) -> Made {
        let theme = self.themes_drawn.draw(&mut self.random);
        let repeated = self.random.below(12) == 0 && !self.themes[theme].remembered.is_empty();
        let made = if repeated {
            let known = self.random.below(self.themes[theme].remembered.len());
            let mut made = self.themes[theme].remembered[known].clone();
            for _ in 0..made.terms.len() / 8 {
                let at = self.random.below(made.terms.len());
                let gone = made.terms.keys().nth(at).copied().unwrap_or_default();
                made.terms.remove(&gone);
                *made.terms.entry(self.background.draw(&mut self.random) as u32).or_default() += 1;
            }
            made
        } else {
            self.drawn(theme)
        };
        let remembered = &mut self.themes[theme].remembered;
        if remembered.len() < REMEMBERED {
            remembered.push(made.clone());
        } else {
            remembered[(number % REMEMBERED as u64) as usize] = made.clone();
        }
        made
    }

    fn drawn(&mut self, theme: usize) -> Made {
        let random = &mut self.random;
        // Log-normal, about 76 terms in the mean.
        let length = (66.0 * libm::exp(0.55 * random.normal())).clamp(5.0, 600.0) as usize;
        let own = &self.themes[theme];
        // Editors differ: one document in six has the topic of another theme.
        let judged = if random.below(6) == 0 { self.themes_drawn.draw(random) } else { theme };
        let mut topics = vec![self.themes[judged].topic];
        let other = (random.below(4) == 0).then(|| self.themes_drawn.draw(random));
        if let Some(other) = other
            && self.themes[other].topic != topics[0]
        {
            topics.push(self.themes[other].topic);
        }
        let share = (own.share + 0.1 * random.normal()).clamp(0.05, 0.85);
        let mut terms = BTreeMap::new();
        let mut tries = 0;
        while terms.len() < length && tries < 4 * length {
            tries += 1;
            let from = random.unit();
            let term = if from < share {
                let list = match other {
                    Some(other) if random.below(3) == 0 => &self.themes[other].terms,
                    _ => &own.terms,
                };
                list[self.theme_terms.draw(random)]
            } else if from < share + 0.2 * (1.0 - share) {
                let topic = topics[random.below(topics.len())];
                self.topics[topic].terms[self.topic_terms.draw(random)]
            } else {
                self.background.draw(random) as u32
            };
            *terms.entry(term).or_default() += 1;
        }
        Made { terms, topics }
    }
}

impl Made {
    /// Its `ltc` weights above 0 before they are normalized, and their Euclidean length.
    fn weights<'a>(&'a self, idf: &'a [f64]) -> (impl Iterator<Item = (u32, f64)> + 'a, f64) {
        let weight = move |(&term, &count): (&u32, &u32)| {
            (term, (1.0 + libm::log(f64::from(count))) * idf[term as usize])
        };
        let squares = self.terms.iter().map(weight).map(|(_, weight)| weight * weight);
        let norm = squares.sum::<f64>().sqrt();
        (self.terms.iter().map(weight).filter(|(_, weight)| *weight > 0.0), norm)
    }

    /// The document's line of a vector file.
    fn write(&self, number: u64, idf: &[f64], out: &mut dyn Write) -> io::Result<()> {
        let (weights, norm) = self.weights(idf);
        write!(out, "{} ", FIRST_ID + number)?;
        for (term, weight) in weights {
            write!(out, " {}:{:.8}", term + 1, weight / norm)?;
        }
        writeln!(out)
    }

    /// The document's lines of the qrels.
    fn judge(&self, number: u64, world: &World, qrels: &mut Vec<u8>) -> io::Result<()> {
        let mut labels: Vec<usize> = Vec::new();
        for &topic in &self.topics {
            let mut at = Some(topic);
            while let Some(topic) = at {
                labels.push(topic);
                at = world.topics[topic].parent;
            }
        }
        labels.sort_unstable();
        labels.dedup();
        for label in labels {
            writeln!(qrels, "{} {} 1", world.topics[label].name, FIRST_ID + number)?;
        }
        Ok(())
    }
}
