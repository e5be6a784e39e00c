//! The flags and the outputs of `metric-index bench thesis`.

use std::num::NonZero;
use std::path::PathBuf;

use array_file::output::{Output, OutputError, Outputs};
use clap::Args;

use crate::device::DeviceFlag;
use crate::failure::Failure;

#[derive(Debug, Args)]
pub(crate) struct Thesis {
    /// Repeat the experiments of chapter 4 on a GPU instead (cuda or cuda:N): range queries and
    /// nearest neighbors by the kernels of the thesis and of this program, cluster sizes, numbers
    /// of pivots, and throughput by batch size
    #[arg(long, value_name = "WHERE", default_value = "cpu")]
    pub(super) device: DeviceFlag,
    /// A file with one word per line; some are held out as queries, half of them with one letter
    /// changed [default: vectors only]
    #[arg(long, value_name = "FILE")]
    pub(super) words: Option<PathBuf>,
    /// Compute edit distances with the table of Wagner and Fischer, as in the thesis. This is at
    /// least ten times slower than the default; the ranking of strategies depends on the cost of a
    /// distance
    #[arg(long)]
    pub(super) table: bool,
    /// Number of vectors with 20 dimensions to generate; 0 for none
    #[arg(long, value_name = "N", default_value_t = 120_000)]
    pub(super) vectors: usize,
    /// Number of queries per space
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub(super) queries: usize,
    /// Number of threads, P in the thesis [default: all cores]
    #[arg(short = 'j', long, value_name = "N")]
    pub(super) threads: Option<NonZero<usize>>,
    /// Number of distances per thread and superstep, R in the thesis
    #[arg(long, value_name = "N", default_value = "512")]
    pub(super) evaluations: NonZero<u64>,
    /// Number of waiting queries per thread above which Hybrid uses Local, `C_max` in the thesis
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub(super) waiting: u32,
    /// Spread α of the pivots of the SSS-Index. The thesis uses 0.4, which gives several times as
    /// many pivots on these data
    #[arg(long, value_name = "A", default_value_t = 0.6)]
    pub(super) alpha: f32,
    /// Runs of each measurement; the median is shown
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub(super) runs: usize,
    /// Seed of the random numbers
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) seed: u64,
    /// Write all measurements as JSON (schema metric-index.bench-thesis/1)
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    /// Draw the figures into a folder
    #[arg(long, value_name = "FOLDER")]
    pub(super) svg: Option<PathBuf>,
}

/// The output file of a figure.
pub(super) struct FigureFile {
    /// The file name, which consists of the figure's name and the space.
    pub(super) name: String,
    pub(super) out: Output,
}

/// The output files of a benchmark, which are written when it ends.
pub(super) struct Files {
    pub(super) json: Option<Output>,
    pub(super) figures: Vec<FigureFile>,
    /// Standard output, unless another output already uses it.
    pub(super) standard_output: Option<Output>,
}

impl Thesis {
    /// Opens the output files before anything is measured.
    pub(super) fn outputs(&self, drawn: &[&str]) -> Result<Files, Failure> {
        let mut files = Outputs::default();
        self.words.iter().for_each(|words| files.add_input(words));
        let json = self.json.as_ref().map(|path| files.open(path)).transpose()?;
        let mut figures = Vec::new();
        if let Some(folder) = &self.svg {
            let created = std::fs::create_dir_all(folder);
            created.map_err(|error| OutputError::write(folder, error))?;
            let words = self.words.as_ref().map(|_| "words");
            let vectors = (self.vectors > 0).then_some("vectors");
            for space in words.into_iter().chain(vectors) {
                for figure in drawn {
                    let name = format!("{figure}-{space}.svg");
                    let output = files.open(&folder.join(&name))?;
                    figures.push(FigureFile { name, out: output });
                }
            }
        }
        let standard_output =
            if files.include_standard_output() { None } else { Some(Output::standard()?) };
        Ok(Files { json, figures, standard_output })
    }
}
