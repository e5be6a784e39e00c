//! Which documents each client works on. Others do not get them for ten minutes.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// A list that proposes documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Tab {
    /// Documents of the pool to label.
    Label,
    /// Documents of the model to review.
    Review,
}

/// The documents that clients work on.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    by_client: HashMap<(String, Tab), Claim>,
}

#[derive(Debug)]
struct Claim {
    ids: Vec<String>,
    until: Instant,
}

/// Time after which a document that a client got is proposed to others.
const KEPT: Duration = Duration::from_mins(10);
/// Maximum number of claims.
const MAX_CLAIMS: usize = 10_000;

impl Claims {
    /// Gives documents to a client instead of those that it had.
    pub(crate) fn set(&mut self, client: &str, tab: Tab, ids: Vec<String>) {
        let now = Instant::now();
        self.by_client.retain(|_, claim| claim.until > now);
        if self.by_client.len() < MAX_CLAIMS {
            let claim = Claim { ids, until: now + KEPT };
            let _ = self.by_client.insert((client.to_owned(), tab), claim);
        }
    }

    /// Returns the documents of a client.
    pub(crate) fn of(&self, client: &str, tab: Tab) -> &[String] {
        self.by_client.get(&(client.to_owned(), tab)).map_or(&[], |claim| &claim.ids)
    }

    /// Returns the documents of all other clients.
    pub(crate) fn of_others(&self, client: &str) -> impl Iterator<Item = &str> {
        let now = Instant::now();
        let others = self.by_client.iter();
        let others = others.filter(move |((other, _), claim)| other != client && claim.until > now);
        others.flat_map(|(_, claim)| claim.ids.iter().map(String::as_str))
    }
}
