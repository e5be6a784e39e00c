//! Documents in another language or script than the corpus.

use std::collections::HashMap;

use serde::Serialize;
use whatlang::{Lang, Script, detect, detect_script};

use super::found_document::FoundDocument;
use crate::learn::HeldOutCorpus;
use crate::text::corpus::Document;

/// The language of a corpus, and documents in other languages.
#[derive(Debug, Clone, Serialize)]
pub struct Languages {
    /// The English name of the language of nearly all documents; `None` if there is no such
    /// language. Then only documents in another script are listed.
    pub usual: Option<String>,
    /// The documents in rare languages or scripts, in the order of the corpus.
    pub documents: Vec<OtherLanguage>,
}

/// A document in another language or script.
#[derive(Debug, Clone, Serialize)]
pub struct OtherLanguage {
    /// The document.
    #[serde(flatten)]
    pub document: FoundDocument,
    /// The English name of the language; that of the script if only the script is certain.
    pub language: String,
}

/// Number of characters from which the language is guessed.
const READ: usize = 1_000;
/// Minimum number of letters from which a language is guessed in the script of the corpus.
const LETTERS: usize = 100;
/// Minimum number of letters of another script.
const SCRIPT_LETTERS: usize = 5;
/// Minimum share of the usual language or script.
const USUAL: f64 = 0.8;
/// Maximum share of a rare language or script.
const RARE: f64 = 0.05;

/// What is certain about the text of a document.
#[derive(Clone, Copy, Default)]
struct Guess {
    script: Option<Script>,
    language: Option<Lang>,
    /// Whether the text is long enough for a guess of the language.
    is_long: bool,
}

impl Guess {
    fn of(document: &Document) -> Self {
        let text = document.content.text().unwrap_or_default();
        let start: String = text.chars().take(READ).collect();
        let letters = start.chars().filter(|char| char.is_alphabetic()).count();
        let language = detect(&start).filter(|found| found.is_reliable() && letters >= LETTERS);
        Self {
            script: detect_script(&start).filter(|_| letters >= SCRIPT_LETTERS),
            language: language.map(|found| found.lang()),
            is_long: letters >= LETTERS,
        }
    }
}

impl Languages {
    pub(super) fn of(corpus: &HeldOutCorpus) -> Self {
        let guesses: Vec<Guess> = corpus.documents.iter().map(Guess::of).collect();
        let scripts = Shares::of(guesses.iter().filter_map(|guess| guess.script).map(Some));
        let languages =
            Shares::of(guesses.iter().filter(|guess| guess.is_long).map(|guess| guess.language));
        let usual = languages.usual();
        let other = |guess: &Guess| {
            let script = guess.script.filter(|script| scripts.is_rare(*script));
            let language =
                guess.language.filter(|language| usual.is_some() && languages.is_rare(*language));
            match (script, language) {
                (Some(_), _) if guess.language.is_some() => guess.language.map(name),
                (Some(script), _) => Some(script.name().to_owned()),
                (None, language) => language.map(name),
            }
        };
        let found = corpus.documents.iter().zip(&guesses).filter_map(|(document, guess)| {
            let language = other(guess)?;
            Some(OtherLanguage { document: FoundDocument::new(document), language })
        });
        Self { usual: usual.map(name), documents: found.collect() }
    }
}

fn name(language: Lang) -> String {
    language.eng_name().to_owned()
}

/// How often each language or script occurs.
struct Shares<T> {
    counts: HashMap<T, u64>,
    all: u64,
}

impl<T: Copy + Eq + std::hash::Hash> Shares<T> {
    /// Counts what was found. Documents in an unknown language count, too: if they are many, the
    /// language of the corpus is probably not among the known ones.
    fn of(found: impl Iterator<Item = Option<T>>) -> Self {
        let mut shares = Self { counts: HashMap::new(), all: 0 };
        for one in found {
            shares.all += 1;
            if let Some(one) = one {
                *shares.counts.entry(one).or_default() += 1;
            }
        }
        shares
    }

    fn share(&self, of: T) -> f64 {
        self.counts[&of] as f64 / self.all as f64
    }

    /// Returns what nearly all documents have.
    fn usual(&self) -> Option<T> {
        self.counts.keys().copied().find(|&one| self.share(one) >= USUAL)
    }

    /// Whether few documents have it, and nearly all others have the same.
    fn is_rare(&self, one: T) -> bool {
        self.usual().is_some() && self.share(one) <= RARE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learn::Trainer;

    #[test]
    fn rare_languages_and_scripts_are_found() {
        let english = "The committee decided that every member of the council should receive the \
                       report before the next meeting, which will take place in the town hall";
        let german = "Der Ausschuss hat beschlossen, dass jedes Mitglied des Rates den Bericht vor \
                      der nächsten Sitzung erhalten soll, die im großen Rathaus stattfinden wird";
        let russian = "Комитет решил";
        let texts = (0..60).map(|n| format!("{english} {n}"));
        let others = [german, russian, "42", "ok"].map(str::to_owned);
        let documents = texts.chain(others).enumerate();
        let documents: Vec<Document> = documents
            .map(|(n, text)| {
                Document::text(n.to_string(), text).labels([if n % 2 == 0 { "a" } else { "b" }])
            })
            .collect();
        let held_out = Trainer::builder().build().hold_out(&documents).unwrap();
        let found = Languages::of(&held_out);
        assert_eq!(found.usual.as_deref(), Some("English"));
        let named: Vec<(&str, &str)> =
            found.documents.iter().map(|one| (&*one.document.id, &*one.language)).collect();
        assert_eq!(named, [("60", "German"), ("61", "Cyrillic")]);
        // In a corpus of two languages, neither is rare.
        let both = Shares::of([Some(Lang::Eng), Some(Lang::Deu)].into_iter());
        assert!(!both.is_rare(Lang::Deu));
    }
}
