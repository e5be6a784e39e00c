//! `classify compact`

use std::path::PathBuf;

use classify::learn::reweigh;
use classify::model::UpdatedModel;
use classify::threads::Threads;

use crate::failure::Failure;
use crate::output::files::Files;
use crate::output::progress::Verbosity;

#[derive(Debug, clap::Args)]
pub(crate) struct Compact {
    /// The model
    model: PathBuf,
    /// Count and weight the stored texts again, so that the model knows the terms of all documents
    #[arg(long)]
    reweigh: bool,
}

impl Compact {
    pub(crate) fn run(self, threads: &Threads, verbosity: Verbosity) -> Result<(), Failure> {
        let updated = UpdatedModel::open(&self.model)?;
        let documents = updated.collection().len();
        if self.reweigh {
            let model = updated.model();
            let output = Files::default().file(&self.model, "a model")?;
            let reweighted = reweigh(&model, threads)?;
            updated.replace(&reweighted, output)?;
            verbosity.print(&format!(
                "{}: {documents} documents, reweighted: {} terms instead of {}",
                self.model.display(),
                reweighted.vocabulary().len(),
                model.vocabulary().len()
            ));
        } else {
            updated.compact()?;
            verbosity.print(&format!("{}: {documents} documents", self.model.display()));
        }
        Ok(())
    }
}
