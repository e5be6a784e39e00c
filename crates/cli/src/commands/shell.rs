//! `classify completions` and `classify man`

use std::path::PathBuf;

use array_file::output::{Output, OutputError};
use clap::{Command, CommandFactory};
use clap_complete::Shell;

use crate::Arguments;
use crate::failure::Failure;
use crate::output::files::{print, write};

#[derive(Debug, clap::Args)]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Arguments::command(), "classify", &mut script);
        print(&script)
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct Man {
    /// The folder; created if it does not exist
    folder: PathBuf,
}

impl Man {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let failed = Failure::output(&self.folder);
        std::fs::create_dir_all(&self.folder).map_err(&failed)?;
        let mut command = Arguments::command().disable_help_subcommand(true);
        command.build();
        let mut pages = Vec::new();
        render(&command, &mut pages).map_err(&failed)?;
        let open = |(name, page)| Ok((Output::open(&self.folder.join(name))?, page));
        let pages = pages.into_iter().map(open).collect::<Result<Vec<_>, OutputError>>()?;
        pages.into_iter().try_for_each(|(output, page)| write(output, &page))
    }
}

/// The file names and contents of the pages of a command and its subcommands.
fn render(command: &Command, pages: &mut Vec<(String, Vec<u8>)>) -> std::io::Result<()> {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        render(below, pages)?;
    }
    let page = clap_mangen::Man::new(command.clone());
    let mut text = Vec::new();
    page.render(&mut text)?;
    pages.push((page.get_filename(), text));
    Ok(())
}
