//! The documents that each client is working on. Other clients do not get them for ten minutes.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// A tab of the page, which proposes documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Tab {
    /// Documents of the pool to label.
    Label,
    /// Documents of the model to review.
    Review,
}

/// The documents that clients are working on.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    by_client: HashMap<(String, Tab), Claim>,
}

#[derive(Debug)]
struct Claim {
    ids: Vec<String>,
    until: Instant,
}

/// Duration of a claim, after which its documents are proposed to other clients.
const CLAIM_DURATION: Duration = Duration::from_mins(10);
/// Maximum number of claims.
const MAX_CLAIMS: usize = 10_000;

impl Claims {
    /// Replaces the documents that a client has claimed.
    pub(crate) fn set(&mut self, client: &str, tab: Tab, ids: Vec<String>) {
        let now = Instant::now();
        self.by_client.retain(|_, claim| claim.until > now);
        if self.by_client.len() < MAX_CLAIMS {
            let claim = Claim { ids, until: now + CLAIM_DURATION };
            let _ = self.by_client.insert((client.to_owned(), tab), claim);
        }
    }

    /// Returns the documents that a client has claimed.
    pub(crate) fn of(&self, client: &str, tab: Tab) -> &[String] {
        self.by_client.get(&(client.to_owned(), tab)).map_or(&[], |claim| &claim.ids)
    }

    /// Returns the documents that other clients have claimed.
    pub(crate) fn of_others(&self, client: &str) -> impl Iterator<Item = &str> {
        let now = Instant::now();
        let others = self.by_client.iter();
        let others = others.filter(move |((other, _), claim)| other != client && claim.until > now);
        others.flat_map(|(_, claim)| claim.ids.iter().map(String::as_str))
    }
}
