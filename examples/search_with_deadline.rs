//! Example: a search with a deadline.
//!
//! `cargo run --release --example search_with_deadline`

#![expect(clippy::print_stdout, reason = "an example prints its results")]

use std::error::Error;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use classify::rows::generate::rcv1_like_rows;
use classify::search::{Inverted, NeighborLists, Request, Search, SearchError, Stop};
use classify::threads::Threads;

fn main() -> Result<(), Box<dyn Error>> {
    let rows = rcv1_like_rows(5_000, 20_000, 0);
    let engine = Inverted::new(Arc::clone(&rows.training), Threads::available()?)?;
    let k = NonZeroUsize::new(30).ok_or("k is above 0")?;
    let mut found = NeighborLists::default();
    for time in [Duration::from_millis(20), Duration::from_mins(10)] {
        let stop = Stop::after(time);
        let start = Instant::now();
        match engine.search(&Request::new(&rows.test, k).until(&stop), &mut found) {
            Ok(report) => println!("{time:?}: {} queries answered, {report:?}", found.len()),
            Err(SearchError::Stopped) => {
                println!("{time:?}: stopped after {:?}, without an answer", start.elapsed());
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
