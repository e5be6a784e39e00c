//! `classify tokens`

use std::io::Write;
use std::path::PathBuf;

use array_file::output::Output;
use classify::text::analyze::Analyzer;
use classify::text::corpus::{Content, Corpus, CorpusError, LabelUse, Problem};

use crate::failure::Failure;
use crate::flags::opening::OpeningFlags;
use crate::flags::reading::ReadingFlags;
use crate::flags::training::Analysis;

/// Prints one line per document: its terms, separated by tabs.
#[derive(Debug, clap::Args)]
pub(crate) struct Tokens {
    /// Documents: files, folders, or - for standard input (plain lines or JSONL)
    #[arg(value_name = "CORPUS", default_value = "-")]
    corpora: Vec<PathBuf>,
    /// Use the analyzer of this model; terms that are not in its vocabulary are marked with ?
    #[arg(long, value_name = "MODEL")]
    model: Option<PathBuf>,
    #[command(flatten)]
    opening: OpeningFlags,
    #[command(flatten)]
    reading: ReadingFlags,
    #[command(flatten)]
    analysis: Analysis,
}

impl Tokens {
    pub(crate) fn run(self) -> Result<(), Failure> {
        self.reading.refuse_vectors("tokens")?;
        if self.model.is_some() {
            self.analysis.refuse_with_model()?;
        }
        let model = self.model.as_deref().map(|path| self.opening.model(path)).transpose()?;
        let analyzer = match &model {
            Some(model) => model.analyzer().ok_or_else(|| {
                Failure::Usage(
                    "--model: this model was trained on features, so it has no analyzer".into(),
                )
            })?,
            None => Analyzer::new(self.analysis.spec(false)),
        };
        let mut options = self.reading.options(LabelUse::Optional, None)?;
        options.text_only = true;
        let mut out = Output::standard()?;
        for document in Corpus::open(&self.corpora, options)? {
            let document = document?;
            let text = match &document.content {
                Content::Text(text) => text,
                Content::Fields(texts) => &texts.join("\n"),
                Content::Features(_) => {
                    let problem =
                        Problem::WrongContent { found: "features", expected: "tokens needs texts" };
                    return Err(CorpusError { place: document.place, problem }.into());
                }
            };
            let mut terms = analyzer.terms(text);
            if let Some(model) = &model {
                for term in &mut terms {
                    if model.vocabulary().id(term).is_none() {
                        term.insert(0, '?');
                    }
                }
            }
            writeln!(out, "{}", terms.join("\t")).map_err(Failure::stdout)?;
        }
        Ok(out.commit()?)
    }
}
