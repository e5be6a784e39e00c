//! Term counts → TF-IDF weights, by SMART codes (Salton and Buckley 1988; Manning, Raghavan and
//! Schütze 2008, figure 6.15).
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
//! where c is the count of the term in the document, df its document frequency among the N training
//! documents, len the document's number of terms and p the exponent of the idf. With a χ² exponent
//! q above 0, the weight has an additional factor (χ² / N)^q, where χ² is the maximum over all
//! labels of the value for term and label in [`select`](crate::text::select): terms that indicate
//! labels count more (supervised term weighting, Debole and Sebastiani 2003). `ntc` is formula (1)
//! and (3) of Bresler et al. 2011; `ltc` is the default; `nsc` gives the weights of scikit-learn's
//! `TfidfVectorizer`; `kkn.nnn` is BM25 (Robertson and Zaragoza 2009) as a dot product. A code of
//! two schemes, `document.query`, weights queries differently.
//!
//! Everything is computed in `f64` in order of term ids, with logarithms that give the same bits on
//! every machine ([`libm`]), and rounded once to `f32`. Weights of 0 are omitted.
//!
//! `scheme` reads the letters, `weighting` weighs a row (read it first), `rows` weighs many on all
//! threads, and `recover` finds the counts behind BM25 weights.

mod recover;
mod rows;
mod scheme;
mod weighting;

pub(crate) use recover::counts_of;
pub(crate) use rows::RawRows;
pub(crate) use weighting::TermWeights;
pub use weighting::{Side, Weighting};
