//! The commands, one file each.

pub(crate) mod add;
pub(crate) mod bench;
pub(crate) mod check;
pub(crate) mod cluster;
pub(crate) mod compact;
pub(crate) mod compare;
pub(crate) mod completions;
pub(crate) mod devices;
pub(crate) mod evaluate;
pub(crate) mod explain;
mod fixing;
pub(crate) mod generate;
pub(crate) mod info;
pub(crate) mod man;
pub(crate) mod next;
pub(crate) mod predict;
pub(crate) mod relabel;
pub(crate) mod remove;
#[cfg(feature = "serve")]
pub(crate) mod serve;
pub(crate) mod tokens;
pub(crate) mod train;
pub(crate) mod tune;
mod updating;
pub(crate) mod vectorize;
