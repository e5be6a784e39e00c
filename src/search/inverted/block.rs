//! A block of training rows: frequent terms stored densely, the others as posting lists.

use std::ops::Range;

use multiversion::multiversion;

use crate::matrix::{CsrView, row};

/// Rows per strip, which the head pass holds in registers.
pub(super) const STRIP: usize = 64;
/// A term belongs to the head if at least this share of the rows contains it: reading its zeros
/// sixteen at a time is then cheaper than adding its postings one by one.
const HEAD_SHARE: f64 = 0.03;
/// Head terms per strip: 128 · 64 · 4 bytes are 32 KiB, which fits a first-level cache.
const HEAD_TERMS: usize = 128;

/// The terms stored densely.
#[derive(Debug)]
pub(super) struct Head {
    /// The dense column of each term, or `NONE`.
    column: Vec<u16>,
    pub(super) columns: usize,
}

const NONE: u16 = u16::MAX;

impl Head {
    /// The most frequent terms, as many as take no more memory than their postings would.
    pub(super) fn new(training: &CsrView<'_>) -> Self {
        let rows = training.rows();
        let mut frequencies = vec![0u32; training.cols()];
        for &term in training.indices() {
            frequencies[term as usize] += 1;
        }
        let least = (rows as f64 * HEAD_SHARE).max(1.0);
        let mut head: Vec<usize> =
            (0..frequencies.len()).filter(|&term| f64::from(frequencies[term]) >= least).collect();
        head.sort_by_key(|&term| (std::cmp::Reverse(frequencies[term]), term));
        // Four bytes per row versus six per non-zero.
        let affordable = training.nnz() * 3 / (2 * rows.max(1));
        head.truncate(HEAD_TERMS.min(affordable));
        let mut column = vec![NONE; frequencies.len()];
        for (number, &term) in (0..).zip(&head) {
            column[term] = number;
        }
        Self { column, columns: head.len() }
    }

    /// The dense column of a term.
    pub(super) fn column(&self, term: u32) -> Option<u16> {
        Some(self.column[term as usize]).filter(|&column| column != NONE)
    }
}

/// The training rows from `first_row` on, by term.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) first_row: u32,
    pub(super) rows: usize,
    /// The head, strip by strip: `STRIP` weights of the first head term, of the second, …
    strips: Vec<f32>,
    columns: usize,
    /// Term `t` of the tail has the postings `offsets[t]..offsets[t + 1]`.
    offsets: Vec<u32>,
    /// Row numbers, relative to the block's first row.
    posting_rows: Vec<u16>,
    posting_weights: Vec<f32>,
}

/// A query's weights, split into head and tail.
#[derive(Debug)]
pub(super) struct SplitQuery {
    head: Vec<(u16, f32)>,
    tail: Vec<(u32, f32)>,
}

impl SplitQuery {
    pub(super) fn new((terms, weights): (&[u32], &[f32]), head: &Head) -> Self {
        let mut split = Self { head: Vec::new(), tail: Vec::with_capacity(terms.len()) };
        for (&term, &weight) in terms.iter().zip(weights) {
            match head.column(term) {
                Some(column) => split.head.push((column, weight)),
                None => split.tail.push((term, weight)),
            }
        }
        split
    }
}

impl Block {
    pub(super) fn new(training: &CsrView<'_>, rows: Range<usize>, head: &Head) -> Self {
        let narrow = |n: usize| u32::try_from(n).expect("blocks are cut below 2^32 postings");
        let columns = head.columns;
        let mut strips = vec![0f32; rows.len().div_ceil(STRIP) * columns * STRIP];
        let mut offsets = vec![0u32; training.cols() + 1];
        for (local, index) in rows.clone().enumerate() {
            let (terms, weights) = row(training, index);
            for (&term, &weight) in terms.iter().zip(weights) {
                match head.column(term) {
                    Some(column) => {
                        let strip = local / STRIP * columns + usize::from(column);
                        strips[strip * STRIP + local % STRIP] = weight;
                    }
                    None => offsets[term as usize + 1] += 1,
                }
            }
        }
        for term in 1..offsets.len() {
            offsets[term] += offsets[term - 1];
        }
        let postings = offsets.last().map_or(0, |&end| end as usize);
        let mut posting_rows = vec![0u16; postings];
        let mut posting_weights = vec![0f32; postings];
        let mut next = offsets.clone();
        for (local, index) in (0..=u16::MAX).zip(rows.clone()) {
            let (terms, weights) = row(training, index);
            for (&term, &weight) in terms.iter().zip(weights) {
                if head.column(term).is_none() {
                    let at = next[term as usize] as usize;
                    posting_rows[at] = local;
                    posting_weights[at] = weight;
                    next[term as usize] += 1;
                }
            }
        }
        Self {
            first_row: narrow(rows.start),
            rows: rows.len(),
            strips,
            columns,
            offsets,
            posting_rows,
            posting_weights,
        }
    }

    /// Sets the accumulators of each query to the products of its head with every row; the
    /// accumulators of query `q` start at `q · stride`.
    pub(super) fn add_head(&self, queries: &[&SplitQuery], sums: &mut [f32], stride: usize) {
        let heads: Vec<&[(u16, f32)]> = queries.iter().map(|query| &*query.head).collect();
        let strips = self.rows.div_ceil(STRIP);
        head_products(&self.strips, self.columns * STRIP, strips, &heads, sums, stride);
    }

    /// Adds the products of the query's tail.
    pub(super) fn add_tail(&self, query: &SplitQuery, sums: &mut [f32]) {
        for &(term, weight) in &query.tail {
            let term = term as usize;
            let postings = self.offsets[term] as usize..self.offsets[term + 1] as usize;
            let rows = &self.posting_rows[postings.clone()];
            for (&row, &posting) in rows.iter().zip(&self.posting_weights[postings]) {
                sums[usize::from(row)] += weight * posting;
            }
        }
    }
}

/// For each strip, while it is in the first-level cache, and each query: the sum of weight · column
/// over the query's head terms, held in registers.
#[multiversion(targets("x86_64+avx512f+avx512vl", "x86_64+avx2", "aarch64+neon"))]
fn head_products(
    weights: &[f32],
    strip_length: usize,
    strips: usize,
    heads: &[&[(u16, f32)]],
    sums: &mut [f32],
    stride: usize,
) {
    for strip in 0..strips {
        let columns = &weights[strip * strip_length..][..strip_length];
        for (query, head) in heads.iter().enumerate() {
            let mut products = [0f32; STRIP];
            for &(column, weight) in *head {
                let column = &columns[usize::from(column) * STRIP..][..STRIP];
                for (product, &value) in products.iter_mut().zip(column) {
                    *product += weight * value;
                }
            }
            sums[query * stride + strip * STRIP..][..STRIP].copy_from_slice(&products);
        }
    }
}

/// `maxima[g]` = the maximum of 0 and the accumulators g, g + G, g + 2 G, … of G groups.
#[multiversion(targets("x86_64+avx512f+avx512vl", "x86_64+avx2", "aarch64+neon"))]
pub(super) fn group_maxima(sums: &[f32], maxima: &mut [f32]) {
    maxima.fill(0.0);
    for chunk in sums.chunks(maxima.len()) {
        for (max, &sum) in maxima.iter_mut().zip(chunk) {
            *max = if sum > *max { sum } else { *max };
        }
    }
}
