//! Kinds of indexes with their parameters, as values and as text.

use std::fmt;
use std::str::FromStr;

use crate::error::Error;

/// The size of clusters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ClusterSize {
    /// Each cluster has a center and the given number of other points, as in Barrientos 2011.
    Points(u32),
    /// Each cluster has a center and all remaining points within the given radius of the center.
    Radius(f32),
}

/// A method to choose pivots.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pivots {
    /// Sparse Spatial Selection. A point is a pivot if its distance from all earlier pivots is at
    /// least the given fraction α of the greatest distance.
    ///
    /// α is between 0 and 1, and around 0.4 in the literature. With 0, every point is a pivot. The
    /// greatest distance is estimated as the greatest distance from the point that is farthest from
    /// the first point.
    Spread(f32),
    /// The given number of pivots, chosen by farthest-first traversal instead of Sparse Spatial
    /// Selection. Each pivot is the point farthest from all earlier pivots.
    Count(u32),
}

/// The parameters of an [`Egnat`](super::Egnat).
///
/// ```
/// use metric_index::index::EgnatOptions;
///
/// let options = EgnatOptions { bucket: 50, ..EgnatOptions::default() };
/// assert_eq!(options.arity, 16);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EgnatOptions {
    /// Maximum number of centers per inner node, 2 to 32.
    pub arity: u32,
    /// Maximum number of points per leaf, at least 1. A leaf with more points becomes an inner
    /// node.
    pub bucket: u32,
}

impl EgnatOptions {
    pub(super) fn check(self) -> Result<(), Error> {
        if !(2..=32).contains(&self.arity) {
            let option = "arity";
            let value = self.arity;
            return Err(Error::Option { option, value, expected: "2 to 32" });
        }
        if self.bucket == 0 {
            return Err(Error::Option { option: "bucket", value: 0, expected: "1 or more" });
        }
        Ok(())
    }
}

impl Default for EgnatOptions {
    fn default() -> Self {
        Self { arity: 16, bucket: 64 }
    }
}

/// A kind of index with its parameters. Its text form is, for example, `lc:64`.
///
/// ```
/// use metric_index::index::{Index, Kind};
/// use metric_index::metric::Edit;
/// use metric_index::points::Strings;
///
/// let kind: Kind = "egnat:16x64".parse()?;
/// assert_eq!(kind.to_string(), "egnat:16x64");
/// let words: Strings = ["casa", "cosa", "pez"].into_iter().collect();
/// assert_eq!(kind.build(words, Edit)?.within("casa", 1.0)?.len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// `brute-force` has no parameters.
    BruteForce,
    /// `lc:64` has clusters of a center and 64 points; `lc:r0.5` has clusters of radius 0.5.
    ListOfClusters(ClusterSize),
    /// `sss-index:0.4` chooses pivots by Sparse Spatial Selection; `sss-index:32p`, the default,
    /// chooses 32 pivots by farthest-first traversal.
    SssIndex(Pivots),
    /// `sss-tree:0.4` chooses centers by Sparse Spatial Selection with α = 0.4.
    SssTree(f32),
    /// `egnat:16x64` has up to 16 centers per node and buckets of up to 64 points.
    Egnat(EgnatOptions),
    /// `m-tree:32` has up to 32 entries per page.
    MTree(u32),
    /// `vp-tree` has no parameters.
    VpTree,
    /// `kd-tree` requires a metric with [coordinates](crate::metric::Metric::coordinates).
    KdTree,
}

impl Kind {
    /// Returns the name of the kind, without parameters.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::BruteForce => "brute-force",
            Self::ListOfClusters(_) => "lc",
            Self::SssIndex(_) => "sss-index",
            Self::SssTree(_) => "sss-tree",
            Self::Egnat(_) => "egnat",
            Self::MTree(_) => "m-tree",
            Self::VpTree => "vp-tree",
            Self::KdTree => "kd-tree",
        }
    }

    /// Returns every kind once, with parameters that suit most data.
    pub fn all() -> [Self; 8] {
        let mut all = [Self::KdTree; 8];
        all[..7].copy_from_slice(&Self::of_any_metric());
        all
    }

    /// Returns every kind that supports any metric, with parameters that suit most data.
    pub fn of_any_metric() -> [Self; 7] {
        [
            Self::BruteForce,
            Self::ListOfClusters(ClusterSize::Points(64)),
            Self::SssIndex(Pivots::Count(32)),
            Self::SssTree(0.4),
            Self::Egnat(EgnatOptions::default()),
            Self::MTree(32),
            Self::VpTree,
        ]
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match self {
            Self::BruteForce | Self::VpTree | Self::KdTree => Ok(()),
            Self::ListOfClusters(ClusterSize::Points(points)) => write!(f, ":{points}"),
            Self::ListOfClusters(ClusterSize::Radius(radius)) => write!(f, ":r{radius}"),
            Self::SssIndex(Pivots::Spread(share)) | Self::SssTree(share) => write!(f, ":{share}"),
            Self::SssIndex(Pivots::Count(pivots)) => write!(f, ":{pivots}p"),
            Self::Egnat(EgnatOptions { arity, bucket }) => write!(f, ":{arity}x{bucket}"),
            Self::MTree(page) => write!(f, ":{page}"),
        }
    }
}

/// The error for a text that is not a kind of index.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a kind of index; expected brute-force, lc:POINTS, lc:rRADIUS, \
     sss-index:SHARE, sss-index:PIVOTSp, sss-tree:SHARE, egnat:ARITYxBUCKET, m-tree:PAGE, \
     vp-tree or kd-tree"
)]
pub struct UnknownKind {
    text: String,
}

impl FromStr for Kind {
    type Err = UnknownKind;

    /// Parses a kind; parameters may be omitted.
    fn from_str(text: &str) -> Result<Self, UnknownKind> {
        let (name, parameter) = text.split_once(':').unwrap_or((text, ""));
        let read = || -> Option<Self> {
            let is_bare = !text.contains(':');
            let share = || if is_bare { Some(0.4) } else { parameter.parse().ok() };
            Some(match name {
                "brute-force" if is_bare => Self::BruteForce,
                "vp-tree" if is_bare => Self::VpTree,
                "kd-tree" if is_bare => Self::KdTree,
                "lc" if is_bare => Self::ListOfClusters(ClusterSize::Points(64)),
                "lc" => Self::ListOfClusters(match parameter.strip_prefix('r') {
                    Some(radius) => ClusterSize::Radius(radius.parse().ok()?),
                    None => ClusterSize::Points(parameter.parse().ok()?),
                }),
                "sss-index" if is_bare => Self::SssIndex(Pivots::Count(32)),
                "sss-index" => Self::SssIndex(match parameter.strip_suffix('p') {
                    Some(pivots) => Pivots::Count(pivots.parse().ok()?),
                    None => Pivots::Spread(parameter.parse().ok()?),
                }),
                "sss-tree" => Self::SssTree(share()?),
                "egnat" if is_bare => Self::Egnat(EgnatOptions::default()),
                "egnat" => {
                    let (arity, bucket) = parameter.split_once('x')?;
                    let arity = arity.parse().ok()?;
                    let bucket = bucket.parse().ok()?;
                    Self::Egnat(EgnatOptions { arity, bucket })
                }
                "m-tree" if is_bare => Self::MTree(32),
                "m-tree" => Self::MTree(parameter.parse().ok()?),
                _ => return None,
            })
        };
        read().ok_or_else(|| UnknownKind { text: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_round_trip_through_text() {
        let more = ["lc:r0.5", "sss-index:0.4"].map(|text| text.parse().unwrap());
        for kind in Kind::all().into_iter().chain(more) {
            assert_eq!(kind.to_string().parse(), Ok(kind));
            let name = kind.to_string();
            assert!(name.split(':').next().unwrap().parse::<Kind>().is_ok(), "{name}");
        }
        for bad in
            ["", "lc:", "lc:x", "lc:-1", "egnat:4", "egnat:4x", "vp-tree:3", "kd", "m-tree:4p"]
        {
            assert!(bad.parse::<Kind>().unwrap_err().to_string().contains("vp-tree"), "{bad}");
        }
    }
}
