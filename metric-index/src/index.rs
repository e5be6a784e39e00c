//! Indexes.

mod brute_force;

pub use brute_force::BruteForce;
