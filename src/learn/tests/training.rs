//! Tests of complete training runs with tuning.

use std::fmt::Write as _;
use std::num::NonZeroUsize;
use std::sync::Mutex;

use super::{corpus, document};
use crate::decide::decision::DecisionOptions;
use crate::decide::vote::VoteWeight;
use crate::learn::{
    Event, NearDuplicateLimit, Step, TrainOptions, Trainer, TrainingResult, TunableFeatures,
    TuneOptions, TuneScope,
};
use crate::random::Random;
use crate::search::Engines;
use crate::text::corpus::{Content, Document};
use crate::text::tfidf::Weighting;
use crate::threads::Threads;

/// Expected metrics are reported for new documents with and without near-duplicates.
#[test]
fn expected_metrics_count_near_duplicates() {
    let mut random = Random::new(12);
    let mut documents = Vec::new();
    for pair in 0..200 {
        let words: Vec<String> = (0..15).map(|_| format!("word{}", random.below(900))).collect();
        let label = format!("label{}", random.below(2));
        for copy in 0..2 {
            // The copies differ in one word.
            let text = format!("{} copy{copy}", words.join(" "));
            let number = 2 * pair + copy;
            documents.push(document(number, Content::Text(text), vec![label.clone()]));
        }
    }
    let threads = Threads::new(NonZeroUsize::new(2).unwrap()).unwrap();
    let k = Some(NonZeroUsize::MIN);
    // The limit applies to cosines even if the model uses another similarity.
    let found = NearDuplicateLimit::Found;
    let given = NearDuplicateLimit::Above(0.5);
    for (weighting, near_duplicates) in [("ltc", given), ("bm25", given), ("bm25", found)] {
        let scope = TuneScope::Votes;
        let tuning = TuneOptions { scope, near_duplicates, ..TuneOptions::default() };
        let weighting = weighting.parse().unwrap();
        let options =
            TrainOptions { k, weighting, tuning: Some(tuning), ..TrainOptions::default() };
        let trainer = Trainer::builder().options(options).engines(Engines::cpu(&threads)).build();
        let found = trainer.train(&documents).unwrap();
        let report = found.tuning.unwrap();
        assert_eq!(report.documents_with_near_duplicates, 400);
        assert!(report.metrics.accuracy < 0.65, "{:?}", report.metrics);
        let with = report.summary().with_near_duplicates.unwrap();
        assert!(with.metrics.accuracy > 0.99, "{with:?}");
        let [low, high] = with.intervals.unwrap().accuracy;
        assert!((low..=high).contains(&with.metrics.accuracy));
    }
}

/// The model, the trials and their order do not depend on concurrency.
#[test]
fn threads_do_not_matter() {
    for multi_label in [false, true] {
        let documents = corpus(250, multi_label);
        let tuned = |count: usize| {
            let threads = Threads::new(NonZeroUsize::new(count).unwrap()).unwrap();
            let tuning = Some(TuneOptions { cross_validate: false, ..TuneOptions::default() });
            let options =
                TrainOptions { tuning, target_error: Some(0.2), ..TrainOptions::default() };
            let trainer =
                Trainer::builder().options(options).engines(Engines::cpu(&threads)).build();
            let made = trainer.train(&documents).unwrap();
            let report = made.tuning.unwrap();
            assert!(report.trials.iter().any(|trial| trial.vote.prototypes > 0.0));
            assert!(
                report.features.iter().any(|step| step.change.starts_with("learned term weights"))
            );
            (made.model.to_bytes().unwrap(), serde_json::to_string(&report).unwrap())
        };
        let one = tuned(1);
        assert!(one == tuned(2) && one == tuned(5), "multi_label: {multi_label}");
    }
}

/// Documents of a group are correct or wrong together, so the error bound must count groups, not
/// documents.
#[test]
fn groups_widen_the_bound_of_the_error() {
    let threads = Threads::new(NonZeroUsize::new(2).unwrap()).unwrap();
    let bound = |grouped: bool| {
        let mut random = Random::new(3);
        // 60 groups of 10 documents. The labels of 3 groups are wrong.
        let one = |number: usize| {
            let group = number / 10;
            let label = group % 2;
            let text = format!("of{label} word{} term{}", random.below(50), random.below(50));
            let given = if group.is_multiple_of(20) { 1 - label } else { label };
            let made = document(number, Content::Text(text), vec![format!("label{given}")]);
            Document { group: grouped.then(|| group.to_string()), weight: 1.0, ..made }
        };
        let documents: Vec<Document> = (0..600).map(one).collect();
        let tuning = TuneOptions {
            scope: TuneScope::Votes,
            near_duplicates: NearDuplicateLimit::Off,
            time_order: Some(false),
            ..TuneOptions::default()
        };
        let k = NonZeroUsize::new(30);
        let target_error = Some(0.4);
        let options =
            TrainOptions { k, target_error, tuning: Some(tuning), ..TrainOptions::default() };
        let found = Mutex::new(None);
        let on_event = |event: Event<'_>| {
            if let Event::Abstention(limit) = event {
                *found.lock().unwrap() = Some(*limit);
            }
        };
        let trainer = Trainer::builder().options(options).engines(Engines::cpu(&threads));
        let trainer = trainer.on_event(&on_event).build();
        trainer.train(documents).unwrap();
        found.into_inner().unwrap().unwrap()
    };
    let alone = bound(false);
    let together = bound(true);
    for limit in [alone, together] {
        assert!(limit.coverage > 0.99 && (limit.error - 0.05).abs() < 0.01, "{limit:?}");
    }
    assert!(alone.error_bound < 0.09, "{alone:?}");
    assert!(together.error_bound > 0.11, "{together:?}");
}

/// Features are tried on a part of the sample first; the steps do not depend on the number of
/// threads.
#[test]
fn features_are_tried_by_successive_halving() {
    let documents = corpus(2_400, true);
    let k_max = NonZeroUsize::new(15).unwrap();
    let free = TunableFeatures { selection: false, ..TunableFeatures::default() };
    let tuned = |threads: usize| {
        let threads = Threads::new(NonZeroUsize::new(threads).unwrap()).unwrap();
        let options = TrainOptions {
            tuning: Some(TuneOptions { sample: 2_100, k_max, free, ..TuneOptions::default() }),
            ..TrainOptions::default()
        };
        let trainer = Trainer::builder().options(options).engines(Engines::cpu(&threads)).build();
        trainer.train(&documents).unwrap().tuning.unwrap()
    };
    let report = tuned(1);
    let whole = |step: &&Step| step.documents == 2_100;
    let by_neighbors = |step: &&Step| !step.change.starts_with("with prototypes");
    let steps: Vec<&Step> = report.features.iter().filter(by_neighbors).collect();
    let all = steps.len();
    let part = steps.iter().filter(|step| !whole(step)).count();
    assert!(part > 5 && all - part > 5, "{part} of {all}");
    for step in steps.iter().filter(|step| !whole(step)) {
        assert!(step.documents.abs_diff(420) < 20 && !step.kept, "{step:?}");
    }
    // An exponent of 1.5 is tried only if 1 is better than 0.5.
    let tried = |what: &str| {
        let of_kind = |step: &&Step| step.change.ends_with(what);
        report.features.iter().filter(of_kind).collect::<Vec<_>>()
    };
    let exponents = ["idf power 0.5", "idf power 1", "idf power 1.5"].map(|what| tried(what).len());
    assert!(exponents[2] < exponents[0], "{exponents:?}");
    assert_eq!(tuned(3).features, report.features);
}

/// Learned term weights gain most with all steps here, so fewer steps are tried until the result is
/// worse.
#[test]
fn fewer_steps_are_tried_while_they_improve() {
    let mut random = Random::new(11);
    // One word in six indicates the subject, most of the time.
    let texts = (0..2_000).map(|number| {
        let subject = random.below(6);
        let mut text = String::new();
        for word in 0..12 {
            if word % 6 == 0 {
                let topic = if random.below(3) > 0 { subject } else { random.below(6) };
                write!(text, "subject{topic}word{} ", random.below(8)).unwrap();
            } else {
                write!(text, "common{} ", random.below(60)).unwrap();
            }
        }
        document(number, Content::Text(text), vec![format!("subject{subject}")])
    });
    let free = TunableFeatures {
        analyzer: false,
        chi2_power: false,
        selection: false,
        ..TunableFeatures::default()
    };
    let k_max = NonZeroUsize::new(30).unwrap();
    let tuning = TuneOptions { free, k_max, ..TuneOptions::default() };
    let options = TrainOptions { tuning: Some(tuning), ..TrainOptions::default() };
    let threads = Threads::new(NonZeroUsize::new(2).unwrap()).unwrap();
    let trainer = Trainer::builder().options(options).engines(Engines::cpu(&threads)).build();
    let result = trainer.train(texts).unwrap();
    let steps = result.tuning.unwrap().features;
    let learned = steps.iter().filter(|step| step.change.starts_with("learned term weights"));
    let kept: Vec<(&str, bool)> = learned.map(|step| (&*step.change, step.kept)).collect();
    let of_steps = |steps: u32| format!("learned term weights, {steps} steps");
    assert_eq!(kept, [(&*of_steps(20), true), (&*of_steps(10), false)]);
}

/// The order of the documents must not matter. The same documents are held out in the same folds,
/// so the same features are chosen. Only neighbors with equal similarity change their order.
#[test]
fn the_order_of_documents_does_not_matter() {
    let mut documents = corpus(1_500, false);
    let tuned = |documents: &[Document], tuning: TuneOptions| {
        let options = TrainOptions { tuning: Some(tuning), ..TrainOptions::default() };
        let trainer = Trainer::builder()
            .options(options)
            .engines(Engines::cpu(&Threads::available().unwrap()))
            .build();
        trainer.train(documents).unwrap()
    };
    let k_max = NonZeroUsize::new(15).unwrap();
    let all = TuneOptions { sample: 600, k_max, ..TuneOptions::default() };
    let quick = TuneOptions { sample: 300, ..TuneOptions::quick() };
    let before = [all, quick].map(|tuning| tuned(&documents, tuning));
    documents.sort_by(|a, b| a.labels.cmp(&b.labels).then(b.id.cmp(&a.id)));
    let after = [all, quick].map(|tuning| tuned(&documents, tuning));
    for (before, after) in before.iter().zip(&after) {
        let a = before.model.settings();
        let b = after.model.settings();
        assert_eq!((a.weighting, a.selection, &a.input), (b.weighting, b.selection, &b.input));
        let accuracy = |trained: &TrainingResult| trained.tuning.as_ref().unwrap().metrics.accuracy;
        let more = (accuracy(before) - accuracy(after)).abs();
        assert!(more < 0.02, "{} and {}", accuracy(before), accuracy(after));
    }
    let steps = |trained: &TrainingResult| {
        let steps = &trained.tuning.as_ref().unwrap().features;
        steps.iter().map(|step| step.documents).collect::<Vec<_>>()
    };
    assert_eq!(steps(&before[0])[0], 600);
    assert_eq!(before[1].tuning.as_ref().unwrap().documents, 300);
}

/// By default, k and vote are chosen by holding out some documents, unless options set them or
/// there are few documents.
#[test]
fn quick_choices() {
    let threads = Threads::available().unwrap();
    let trained = |documents: &[Document], options: TrainOptions| {
        let trainer = Trainer::builder().options(options).engines(Engines::cpu(&threads)).build();
        trainer.train(documents).unwrap()
    };
    // Pairs of documents of 300 topics: a vote of 30 neighbors carries no information.
    let mut random = Random::new(8);
    let pairs: Vec<Document> = (0..600)
        .map(|number| {
            let topic = number / 2;
            let words = (0..6)
                .map(|_| format!("topic{topic}word{} common{} ", random.below(3), random.below(9)));
            document(number, Content::Text(words.collect()), vec![format!("label{topic}")])
        })
        .collect();
    let quick = TuneOptions { near_duplicates: NearDuplicateLimit::Off, ..TuneOptions::quick() };
    let chosen = trained(&pairs, TrainOptions { tuning: Some(quick), ..TrainOptions::default() });
    let report = chosen.tuning.unwrap();
    assert!(report.metrics.accuracy > 0.9 && report.scope == TuneScope::Quick, "{report:?}");
    assert_eq!((report.scope, report.documents), (TuneScope::Quick, 600));
    let fixed = |options: TrainOptions| trained(&pairs, options).tuning.is_none();
    let k = NonZeroUsize::new(3);
    let vote = Some(VoteWeight::Uniform.into());
    assert!(fixed(TrainOptions { tuning: None, ..TrainOptions::default() }));
    assert!(fixed(TrainOptions { k, vote, ..TrainOptions::default() }));
    let several = DecisionOptions { multi_label: Some(true), ..DecisionOptions::default() };
    let threshold = DecisionOptions { threshold: Some(0.2), ..several };
    assert!(fixed(TrainOptions { decision: threshold, ..TrainOptions::default() }));
    let half = trained(&pairs, TrainOptions { k, ..TrainOptions::default() });
    assert_eq!(half.model.settings().k.get(), 3);
    assert!(half.tuning.is_some());
    assert!(trained(&pairs[..99], TrainOptions::default()).tuning.is_none());
}

/// Concurrent trials must give the same steps as one thread.
#[test]
fn concurrent_trials() {
    let mut documents = corpus(1_300, false);
    // Enough terms for several threads to compute their values.
    for (number, document) in documents.iter_mut().enumerate() {
        if let Content::Text(text) = &mut document.content {
            write!(text, "own{} of{}", number / 2, number % 650).unwrap();
        }
    }
    let tuned = |threads: usize| {
        let threads = Threads::new(NonZeroUsize::new(threads).unwrap()).unwrap();
        let k_max = NonZeroUsize::new(15).unwrap();
        let tuning = TuneOptions { k_max, ..TuneOptions::default() };
        let options = TrainOptions { tuning: Some(tuning), ..TrainOptions::default() };
        let trainer = Trainer::builder().options(options).engines(Engines::cpu(&threads)).build();
        let features = trainer.train(&documents).unwrap().tuning.unwrap().features;
        // Selections smaller than the vocabulary are tried.
        assert!(features.iter().any(|step| step.change.starts_with("chi2:500 ")), "{features:?}");
        features
    };
    assert_eq!(tuned(8), tuned(1));
}

/// Labels are unrelated to the texts. Terms weighted by labels must not make held-out documents
/// easy to classify, as they would if they used the labels of held-out documents.
#[test]
fn term_weights_do_not_use_held_out_labels() {
    let mut random = Random::new(11);
    let documents: Vec<Document> = (0..800)
        .map(|number| {
            let words = (0..15).map(|_| format!("word{} ", random.below(1_500)));
            let text: String = words.collect::<Vec<_>>().concat();
            document(number, Content::Text(text), vec![format!("label{}", random.below(2))])
        })
        .collect();
    let threads = Threads::new(NonZeroUsize::new(2).unwrap()).unwrap();
    let weighting = "ltc".parse::<Weighting>().unwrap().with_chi2_power(0.5).unwrap();
    let tuning = TuneOptions { scope: TuneScope::Votes, ..TuneOptions::default() };
    let options = TrainOptions { weighting, tuning: Some(tuning), ..TrainOptions::default() };
    let trainer = Trainer::builder().options(options).engines(Engines::cpu(&threads)).build();
    let found = trainer.train(&documents).unwrap();
    let report = found.tuning.unwrap();
    assert!(report.nested);
    // The best of many settings is also partly due to chance.
    assert!(report.metrics.accuracy < 0.6, "{:?}", report.metrics);
}
