//! Groups of flags that several commands share.

pub(crate) mod deciding;
mod encoder;
pub(crate) mod features;
pub(crate) mod opening;
pub(crate) mod positive;
pub(crate) mod reading;
pub(crate) mod searching;
pub(crate) mod seed;
pub(crate) mod training;
pub(crate) mod tuning;
