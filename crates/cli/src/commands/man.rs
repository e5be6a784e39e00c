//! `classify man`

use std::path::PathBuf;

use array_file::output::{Output, OutputError};
use clap::Command;

use crate::failure::Failure;
use crate::output::files::write;

#[derive(Debug, clap::Args)]
pub(crate) struct Man {
    /// The folder; created if it does not exist
    folder: PathBuf,
}

/// A manual page.
struct Page {
    /// The name of its file.
    name: String,
    text: Vec<u8>,
}

impl Man {
    /// Writes the pages of `program`.
    pub(crate) fn run(self, program: Command) -> Result<(), Failure> {
        let failed = Failure::output(&self.folder);
        std::fs::create_dir_all(&self.folder).map_err(&failed)?;
        let mut command = program.disable_help_subcommand(true);
        command.build();
        let mut pages = Vec::new();
        render(&command, &mut pages).map_err(&failed)?;
        // All files are opened before the first is written.
        let open = |page: &Page| Output::open(&self.folder.join(&page.name));
        let outputs = pages.iter().map(open).collect::<Result<Vec<_>, OutputError>>()?;
        outputs.into_iter().zip(&pages).try_for_each(|(output, page)| write(output, &page.text))
    }
}

/// Adds the pages of a command and its subcommands.
fn render(command: &Command, pages: &mut Vec<Page>) -> std::io::Result<()> {
    for subcommand in command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()) {
        render(subcommand, pages)?;
    }
    let page = clap_mangen::Man::new(command.clone());
    let mut text = Vec::new();
    page.render(&mut text)?;
    pages.push(Page { name: page.get_filename(), text });
    Ok(())
}
