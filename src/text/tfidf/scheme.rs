//! Three-letter SMART codes.

use std::fmt;
use std::str::FromStr;

/// The term-frequency component of a scheme.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tf {
    Natural,
    Logarithm,
    Augmented,
    Boolean,
    LogAverage,
    Okapi,
}

/// The document-frequency component of a scheme.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IdfVariant {
    None,
    Idf,
    Probabilistic,
    Smooth,
    Okapi,
}

/// A three-letter SMART code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Scheme {
    pub(super) tf: Tf,
    pub(super) df: IdfVariant,
    pub(super) has_unit_length: bool,
}

impl FromStr for Scheme {
    type Err = ();

    fn from_str(code: &str) -> Result<Self, ()> {
        let &[tf, df, norm] = code.as_bytes() else { return Err(()) };
        let tf = match tf {
            b'n' => Tf::Natural,
            b'l' => Tf::Logarithm,
            b'a' => Tf::Augmented,
            b'b' => Tf::Boolean,
            b'L' => Tf::LogAverage,
            b'k' => Tf::Okapi,
            _ => return Err(()),
        };
        let df = match df {
            b'n' => IdfVariant::None,
            b't' => IdfVariant::Idf,
            b'p' => IdfVariant::Probabilistic,
            b's' => IdfVariant::Smooth,
            b'k' => IdfVariant::Okapi,
            _ => return Err(()),
        };
        let has_unit_length = match norm {
            b'n' => false,
            b'c' => true,
            _ => return Err(()),
        };
        Ok(Self { tf, df, has_unit_length })
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tf = match self.tf {
            Tf::Natural => 'n',
            Tf::Logarithm => 'l',
            Tf::Augmented => 'a',
            Tf::Boolean => 'b',
            Tf::LogAverage => 'L',
            Tf::Okapi => 'k',
        };
        let df = match self.df {
            IdfVariant::None => 'n',
            IdfVariant::Idf => 't',
            IdfVariant::Probabilistic => 'p',
            IdfVariant::Smooth => 's',
            IdfVariant::Okapi => 'k',
        };
        let norm = if self.has_unit_length { 'c' } else { 'n' };
        write!(f, "{tf}{df}{norm}")
    }
}

impl Scheme {
    /// Returns the formula as text.
    pub(super) fn formula(self) -> String {
        let tf = match self.tf {
            Tf::Natural => "c",
            Tf::Logarithm => "(1 + ln c)",
            Tf::Augmented => "(0.5 + 0.5 c / max c)",
            Tf::Boolean => "1",
            Tf::LogAverage => "(1 + ln c) / (1 + ln mean c)",
            Tf::Okapi => "c (k1 + 1) / (c + k1 (1 - b + b len / mean len))",
        };
        let df = match self.df {
            IdfVariant::None => "",
            IdfVariant::Idf => " · ln(N / df)^p",
            IdfVariant::Probabilistic => " · max(0, ln((N - df) / df))^p",
            IdfVariant::Smooth => " · (ln((1 + N) / (1 + df)) + 1)^p",
            IdfVariant::Okapi => " · ln(1 + (N - df + 0.5) / (df + 0.5))^p",
        };
        let norm =
            if self.has_unit_length { ", divided by the row's Euclidean length" } else { "" };
        format!("{tf}{df}{norm}")
    }
}
