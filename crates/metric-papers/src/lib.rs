//! Published algorithms for searching metric spaces, implemented as published.
//!
//! Programs that only need neighbors should use [`metric_index`], which is faster. This crate
//! reproduces the algorithms of four publications with the points, metrics and indexes of
//! `metric_index`. The answers are exactly the same. The program `metric-index` repeats the
//! experiments.
//!
//! * [`strategy`]: R. J. Barrientos, thesis, 2011, chapter 3: strategies for answering a stream of
//!   queries with several threads (algorithms 8 to 10, sections 3.2.4, 3.3.1 and 3.3.2). The
//!   command is `metric-index bench thesis`.
//! * [`barrientos`]: the same thesis, chapter 4: range and nearest-neighbor searches on a GPU
//!   (algorithms 11 to 13, 15 and 16, sections 4.2.1 and 4.3). The command is `metric-index bench
//!   thesis --device cuda`.
//! * [`barrientos::OneStage`], [`barrientos::TwoStage`]: R. J. Barrientos et al., 2012, section
//!   VII: several GPUs. The command is `metric-index bench multi-gpu --words FILE`.
//! * [`cordeiro`]: Cordeiro, 2023: PPK, PPB and SBQ-KNN (algorithms 1 to 3), brute force on a GPU.
//!   The command is `metric-index bench cordeiro`.
//! * [`karelis`]: Karelis, 2020: VP-trees and KD-trees that are built and searched on a GPU. The
//!   command is `metric-index bench karelis`.
//!
//! Read [`strategy`] first: a search is a stack of tasks that threads can share, and the rest of
//! chapter 3 builds on this idea. [`cordeiro`] is the shortest GPU module. The kernels of each GPU
//! module are in `kernels/MODULE.cu` and are launched by `MODULE/launch.rs`. The crate's README
//! lists the results, with the hardware and command of each result.
//!
//! Neither a GPU nor its driver is needed to build the crate or to use [`strategy`].

mod gpu;

pub mod barrientos;
pub mod cordeiro;
pub mod karelis;
pub mod strategy;
