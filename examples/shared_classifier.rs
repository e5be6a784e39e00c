//! Example: a struct with a classifier that several threads share.
//!
//! `cargo run --example shared_classifier`

#![expect(clippy::print_stdout, reason = "an example prints its results")]

use std::error::Error;
use std::sync::Arc;
use std::thread;

use classify::classifier::Classifier;
use classify::learn::Trainer;
use classify::search::Engines;
use classify::text::corpus::{Corpus, ReadOptions};
use classify::threads::Threads;

/// A service that labels texts.
struct LabelService {
    classifier: Arc<Classifier>,
}

impl LabelService {
    fn open() -> Result<Self, Box<dyn Error>> {
        let threads = Threads::available()?;
        let corpus = Corpus::open(&["corpora/sample/train.jsonl".into()], ReadOptions::default())?;
        let trainer = Trainer::builder().engines(Engines::cpu(&threads)).build();
        let model = trainer.train(corpus)?.model;
        Ok(Self { classifier: Arc::new(Classifier::new(model.into(), &threads)?) })
    }

    fn label(&self, text: &str) -> Result<String, Box<dyn Error + Send + Sync>> {
        Ok(self.classifier.predict(text)?.labels.join(", "))
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let service = Arc::new(LabelService::open()?);
    let texts = ["tighten the derailleur cable", "simmer the sauce", "a comet near Saturn"];
    let answers: Vec<_> = texts
        .map(|text| {
            let service = Arc::clone(&service);
            (text, thread::spawn(move || service.label(text)))
        })
        .into();
    for (text, answer) in answers {
        let label = answer.join().map_err(|_| "a thread panicked")?;
        println!("{text}: {}", label.map_err(|error| error.to_string())?);
    }
    Ok(())
}
