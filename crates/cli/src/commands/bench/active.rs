//! `classify bench active`: simulates labeling on a corpus whose labels are known.

use std::path::PathBuf;
use std::sync::Arc;

use clap::ValueEnum;
use classify::classifier::Classifier;
use classify::decide::decision::DecisionOptions;
use classify::learn::Trainer;
use classify::propose::{Pool, uncertainty};
use classify::random::Random;
use classify::text::corpus::{Document, LabelUse};
use classify::threads::Threads;
use serde::Serialize;

use crate::failure::Failure;
use crate::flags::reading::{ReadingFlags, read_all};
use crate::flags::searching::SearchFlags;
use crate::flags::training::TrainingFlags;
use crate::output::files::{Files, write, write_json};
use crate::output::progress::Verbosity;

#[derive(Debug, clap::Args)]
pub(crate) struct Active {
    /// The labeled corpora whose documents are labeled one batch after the other
    #[arg(required = true, value_name = "CORPUS")]
    corpora: Vec<PathBuf>,
    /// The labeled test corpora
    #[arg(long, value_name = "CORPUS", num_args = 1.., required = true)]
    test: Vec<PathBuf>,
    /// The number of documents that are labeled at random at first
    #[arg(long, value_name = "N", default_value_t = 50)]
    start: usize,
    /// The number of documents that are then labeled in each round
    #[arg(long, value_name = "N", default_value_t = 100)]
    batch: usize,
    /// The number of rounds
    #[arg(long, value_name = "N", default_value_t = 20)]
    rounds: usize,
    /// The number of simulations, each with other documents at first
    #[arg(
        long, value_name = "N", default_value_t = 10,
        value_parser = clap::value_parser!(u64).range(1..)
    )]
    seeds: u64,
    /// The ways to choose documents
    #[arg(
        long, value_enum, value_delimiter = ',', value_name = "WAY",
        default_values = ["random", "margin", "next"]
    )]
    ways: Vec<Way>,
    /// Write the learning curves as JSON (schema classify.bench-active/1)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    reading: ReadingFlags,
    #[command(flatten)]
    training: TrainingFlags,
    #[command(flatten)]
    searching: SearchFlags,
}

/// A way to choose the documents of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Way {
    /// At random
    Random,
    /// The most uncertain documents (breaking ties, Luo et al. 2005)
    Margin,
    /// As `classify next` does
    Next,
}

/// The learning curves of one way.
#[derive(Debug, Serialize)]
struct Curves {
    way: Way,
    /// The micro F1 after each round, for each simulation.
    micro_f1: Vec<Vec<f64>>,
}

#[derive(Debug, Serialize)]
struct Report {
    schema: &'static str,
    /// The micro F1 of a model trained on all documents.
    full: f64,
    /// The number of labeled documents after each round.
    labeled: Vec<usize>,
    ways: Vec<Curves>,
}

/// A corpus on which labeling is simulated.
struct Simulation<'a> {
    trainer: Trainer<'a>,
    documents: &'a [Document],
    test: &'a [Document],
    pool: Pool,
    multi_label: bool,
    threads: &'a Threads,
}

impl Active {
    pub(crate) fn run(self, threads: &Threads, verbosity: Verbosity) -> Result<(), Failure> {
        let format = self.reading.format();
        let files = Files::default().with_corpora(&self.corpora, format);
        let mut files = files.with_corpora(&self.test, format).with_inputs(self.reading.files());
        let json = files.optional(self.json.as_ref())?;
        let printed = files.report()?;
        let mut read_options = self.reading.options(LabelUse::Required, Some(threads))?;
        let mut options = self.training.options(&read_options, false)?;
        options.fields.read_apart(&mut read_options);
        let documents = read_all(&self.corpora, read_options.clone(), verbosity)?;
        let test = read_all(&self.test, read_options, verbosity)?;
        // Only the predictions matter here.
        if let Some(tuning) = &mut options.tuning {
            tuning.cross_validate = false;
        }
        let several = documents.iter().any(|document| document.labels.len() > 1);
        // The first documents may have one label each, although others have several.
        options.decision = DecisionOptions {
            multi_label: options.decision.multi_label.or(Some(several)),
            ..options.decision
        };
        let multi_label = options.decision.is_multi_label(several);
        let engines = self.training.engines(self.searching, threads, verbosity)?;
        let trainer = Trainer::builder().options(options).engines(engines).build();
        let pool = Pool::new(&trainer, &documents)?;
        let simulation =
            Simulation { trainer, documents: &documents, test: &test, pool, multi_label, threads };
        let all: Vec<usize> = (0..documents.len()).collect();
        let full = simulation.micro_f1(&simulation.train(&all)?)?;
        let start = self.start.clamp(1, documents.len());
        let labeled = (0..=self.rounds).map(|round| start + round * self.batch);
        let labeled: Vec<usize> = labeled.take_while(|&count| count <= documents.len()).collect();
        let mut ways = Vec::new();
        for &way in &self.ways {
            let mut micro_f1 = Vec::new();
            for seed in 0..self.seeds {
                verbosity.print(&format!("{way:?}, simulation {seed}"));
                micro_f1.push(simulation.run(way, &labeled, seed)?);
            }
            ways.push(Curves { way, micro_f1 });
        }
        let report = Report { schema: "classify.bench-active/1", full, labeled, ways };
        if let Some(printed) = printed {
            write(printed, report.table().as_bytes())?;
        }
        if let Some(json) = json {
            write_json(json, &report)?;
        }
        Ok(())
    }
}

impl Simulation<'_> {
    /// Returns the micro F1 after each round. `labeled` are the numbers of labeled documents.
    fn run(&self, way: Way, labeled: &[usize], seed: u64) -> Result<Vec<f64>, Failure> {
        let count = self.documents.len();
        let mut random = Random::stream(seed, 0);
        let first = random.sample(count, labeled[0]);
        let mut rows: Vec<usize> = first.into_iter().map(|row| row as usize).collect();
        let mut curve = Vec::new();
        for &size in labeled {
            if size > rows.len() {
                let classifier = self.train(&rows)?;
                let new = self.choose(way, &classifier, &rows, size - rows.len(), &mut random)?;
                rows.extend(new);
            }
            curve.push(self.micro_f1(&self.train(&rows)?)?);
        }
        Ok(curve)
    }

    fn train(&self, rows: &[usize]) -> Result<Classifier, Failure> {
        let documents = rows.iter().map(|&row| &self.documents[row]);
        let model = self.trainer.train(documents)?.model;
        Ok(Classifier::new(Arc::new(model), self.threads)?)
    }

    fn micro_f1(&self, classifier: &Classifier) -> Result<f64, Failure> {
        let predictions = classifier.predict_documents(self.test, &classifier.options())?;
        // F1 is twice the number of right labels, divided by the number of predicted and of given.
        let mut right = 0;
        let mut all = 0;
        for (document, prediction) in self.test.iter().zip(&predictions) {
            let names = prediction.labels.iter().map(|&label| classifier.model().label_name(label));
            right += 2 * names.filter(|name| document.labels.iter().any(|l| l == name)).count();
            all += prediction.labels.len() + document.labels.len();
        }
        Ok(right as f64 / all.max(1) as f64)
    }

    /// Chooses `count` documents that are not labeled yet.
    fn choose(
        &self,
        way: Way,
        classifier: &Classifier,
        labeled: &[usize],
        count: usize,
        random: &mut Random,
    ) -> Result<Vec<usize>, Failure> {
        let mut is_labeled = vec![false; self.documents.len()];
        for &row in labeled {
            is_labeled[row] = true;
        }
        let mut open: Vec<usize> =
            (0..self.documents.len()).filter(|&row| !is_labeled[row]).collect();
        if way == Way::Random {
            let chosen = random.sample(open.len(), count);
            return Ok(chosen.into_iter().map(|at| open[at as usize]).collect());
        }
        let predictions = classifier.predict_documents(self.documents, &classifier.options())?;
        let uncertain = predictions.iter().zip(&is_labeled).map(|(prediction, &labeled)| {
            if labeled { 0.0 } else { uncertainty(prediction, self.multi_label) }
        });
        let uncertain: Vec<f64> = uncertain.collect();
        if way == Way::Margin {
            open.sort_by(|&a, &b| uncertain[b].total_cmp(&uncertain[a]));
            open.truncate(count);
            return Ok(open);
        }
        let proposed = self.pool.propose(&uncertain, count, random.next_u64());
        let mut chosen: Vec<usize> =
            proposed.into_iter().map(|proposal| proposal.row as usize).collect();
        // If too few documents are uncertain, any others are chosen.
        open.retain(|row| !chosen.contains(row));
        let missing = random.sample(open.len(), count - chosen.len());
        chosen.extend(missing.into_iter().map(|at| open[at as usize]));
        Ok(chosen)
    }
}

impl Report {
    /// Formats, for each way, the mean micro F1 over all rounds, the labels needed for 95 % of the
    /// full micro F1, and the learning curve.
    fn table(&self) -> String {
        use std::fmt::Write as _;
        let mut text = format!(
            "all {} labels: micro F1 {:.4}\n\n{:8} {:>22} {:>28}  micro F1 at {} to {} labels\n",
            "documents'",
            self.full,
            "way",
            "mean micro F1",
            "labels for 95 % of it",
            self.labeled[0],
            self.labeled[self.labeled.len() - 1]
        );
        for Curves { way, micro_f1 } in &self.ways {
            let rounds = self.labeled.len();
            let area = |curve: &Vec<f64>| curve.iter().sum::<f64>() / rounds as f64;
            let areas: Vec<f64> = micro_f1.iter().map(area).collect();
            let needed = |curve: &Vec<f64>| {
                let reached = curve.iter().position(|&f1| f1 >= 0.95 * self.full);
                reached.map(|round| self.labeled[round] as f64)
            };
            let needed: Option<Vec<f64>> = micro_f1.iter().map(needed).collect();
            let needed = match &needed {
                Some(needed) => interval(needed, 0),
                None => format!("over {}", self.labeled[rounds - 1]),
            };
            let mean = |round: usize| {
                micro_f1.iter().map(|curve| curve[round]).sum::<f64>() / micro_f1.len() as f64
            };
            let shown = (0..rounds).step_by(rounds.div_ceil(8));
            let curve: Vec<String> = shown
                .filter(|&round| round + 1 < rounds)
                .chain([rounds - 1])
                .map(|round| format!("{:.3}", mean(round)))
                .collect();
            let name =
                way.to_possible_value().map_or(String::new(), |value| value.get_name().into());
            let _ = writeln!(
                text,
                "{name:8} {:>22} {needed:>28}  {}",
                interval(&areas, 4),
                curve.join(" ")
            );
        }
        text
    }
}

/// The 97.5 % quantiles of Student's t distribution with 1 to 9 degrees of freedom.
const T: [f64; 9] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262];

/// Formats a mean and its 95 % interval (Student's t). With more than ten values, the interval is a
/// little too wide.
fn interval(values: &[f64], digits: usize) -> String {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>()
        / (count - 1.0).max(1.0);
    if values.len() < 2 {
        return format!("{mean:.digits$}");
    }
    let half = T[(values.len() - 2).min(T.len() - 1)] * (variance / count).sqrt();
    format!("{mean:.digits$} [{:.digits$}, {:.digits$}]", mean - half, mean + half)
}
