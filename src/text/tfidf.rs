//! Converts term counts to TF-IDF weights. SMART codes select the formulas (Salton and Buckley
//! 1988; Manning, Raghavan and Schütze 2008, figure 6.15).
//!
//! The weight of term `t` in document `d` is `tf · idfᵖ / norm`, with
//!
//! | letter | tf | | letter | idf | | letter | norm |
//! |---|---|---|---|---|---|---|---|
//! | `n` | c | | `n` | 1 | | `n` | 1 |
//! | `l` | 1 + ln c (c below 1: c) | | `t` | ln(N / df) | | `c` | √(Σ weight²) |
//! | `a` | 0.5 + 0.5 c / max c | | `p` | max(0, ln((N − df) / df)) | | | |
//! | `b` | 1 | | `s` | ln((1 + N) / (1 + df)) + 1 | | | |
//! | `L` | (1 + ln c) / (1 + ln mean c) | | `k` | ln(1 + (N − df + ½) / (df + ½)) | | | |
//! | `k` | c (k₁ + 1) / (c + k₁ (1 − b + b · len / mean len)) | | | | | | |
//!
//! where c is the count of the term in the document, and df is the number of the N training
//! documents that contain the term. The length len is the sum of the document's counts, and p is
//! the exponent of the idf.
//!
//! With a χ² exponent q above 0, each weight is multiplied by (χ² / N)^q. χ² is the value of
//! [`select`](crate::text::select) for the term, maximized over all labels. This raises the weight
//! of terms that indicate a label (supervised term weighting, Debole and Sebastiani 2003).
//!
//! | code | meaning |
//! |---|---|
//! | `ltc` | the default |
//! | `ntc` | formulas (1) and (3) of Bresler et al. 2011 |
//! | `nsc` | the weights of scikit-learn's `TfidfVectorizer` |
//! | `kkn.nnn` | BM25 as a dot product (Robertson and Zaragoza 2009) |
//! | `document.query` | one scheme for documents and another for queries |
//!
//! All weights are computed in `f64`, in order of term ids, and rounded once to `f32`. Logarithms
//! come from [`libm`], which gives the same bits on every machine. Weights of 0 are omitted.
//!
//! `scheme` parses the codes, `weighting` weights a row (read it first), `rows` weights many rows
//! on all threads, and `recover` computes counts from BM25 weights.

mod recover;
mod rows;
mod scheme;
mod weighting;

pub(crate) use recover::counts_of;
pub(crate) use rows::RawRows;
pub(crate) use weighting::TermWeights;
pub use weighting::{Side, Weighting};
