//! The commands, one file each.

pub(crate) mod bench;
pub(crate) mod cluster;
pub(crate) mod compare;
pub(crate) mod devices;
pub(crate) mod documents;
pub(crate) mod evaluate;
pub(crate) mod explain;
pub(crate) mod generate;
pub(crate) mod info;
pub(crate) mod predict;
#[cfg(feature = "serve")]
pub(crate) mod serve;
pub(crate) mod shell;
pub(crate) mod tokens;
pub(crate) mod train;
pub(crate) mod tune;
pub(crate) mod vectorize;
