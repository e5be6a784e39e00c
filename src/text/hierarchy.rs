//! Label hierarchies. A document with a label also has the label's ancestors.
//!
//! A file contains one pair per line, either `child<TAB>parent` or, as in RCV1-v2's
//! `rcv1.topics.hier.orig` (Lewis et al. 2004, appendix 2),
//! `parent: CCAT  child: C15  child-description: PERFORMANCE`. A label may have several parents. In
//! the second form, the child of `None` is the root, which is not a label.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::limits::{self, LimitedReader};
use crate::text::corpus::{CorpusError, Place, Problem, normalized_label, read_error};

/// A hierarchy of labels, stored as the parents of each label.
///
/// ```
/// use classify::text::hierarchy::Hierarchy;
///
/// let lines = "cat\tanimal\ndog\tanimal\nanimal\tbeing\n";
/// let hierarchy = Hierarchy::parse("tree.tsv", lines).unwrap();
/// let ancestors: Vec<&str> = hierarchy.ancestors("cat").into_iter().collect();
/// assert_eq!(ancestors, ["animal", "being"]);
/// assert_eq!((hierarchy.level("being"), hierarchy.level("dog")), (1, 3));
/// assert!(Hierarchy::parse("tree.tsv", "a\tb\nb\ta\n").is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Hierarchy {
    /// The parents of each label that has parents, in byte order.
    parents: BTreeMap<String, BTreeSet<String>>,
}

impl Hierarchy {
    /// Reads a hierarchy from a file.
    ///
    /// # Errors
    /// If the file cannot be read, is larger than [`limits::MAX_RECORD_BYTES`], is not UTF-8, or is
    /// rejected by [`Hierarchy::parse`].
    pub fn read(path: &Path) -> Result<Self, CorpusError> {
        let source: Arc<str> = path.to_string_lossy().into();
        let place = |line| Place { source: Arc::clone(&source), line };
        let mut bytes = Vec::new();
        File::open(path)
            .map(|file| {
                LimitedReader::new(BufReader::new(file), "a hierarchy", limits::MAX_RECORD_BYTES)
            })
            .and_then(|mut file| file.read_to_end(&mut bytes))
            .map_err(|error| read_error(error, &place(None)))?;
        let text = String::from_utf8(bytes).map_err(|error| {
            let valid = error.utf8_error().valid_up_to();
            let valid_bytes = error.as_bytes().iter().take(valid);
            let line = valid_bytes.filter(|&&byte| byte == b'\n').count() as u64 + 1;
            Problem::OnlyUtf8 { byte: valid as u64 }.at(&place(Some(line)))
        })?;
        Self::parse(&source, &text)
    }

    /// Parses the text of a file. Errors refer to the file as `source`.
    ///
    /// # Errors
    /// If a line has neither form, or if a label is its own ancestor or has more than 1,000
    /// ancestors.
    pub fn parse(source: &str, text: &str) -> Result<Self, CorpusError> {
        let mut hierarchy = Self::default();
        let mut roots: BTreeSet<&str> = BTreeSet::new();
        let mut lines: BTreeMap<String, u64> = BTreeMap::new();
        let place_of = |line| Place { source: source.into(), line: Some(line) };
        for (line, text) in (1..).zip(text.lines()) {
            if text.trim().is_empty() {
                continue;
            }
            let (child, parent) = parse_pair(text).ok_or_else(|| CorpusError {
                place: place_of(line),
                problem: Problem::BadHierarchy,
            })?;
            if parent == "None" && text.trim_start().starts_with("parent:") {
                roots.insert(child);
            } else if !roots.contains(parent) {
                let child = normalized_label(child).into_owned();
                lines.insert(child.clone(), line);
                let parents = hierarchy.parents.entry(child).or_default();
                parents.insert(normalized_label(parent).into_owned());
            }
        }
        let fail = |label: &str, problem| {
            Err(CorpusError { place: place_of(lines.get(label).copied().unwrap_or(1)), problem })
        };
        if let Some(label) = hierarchy.find_cyclic_label() {
            return fail(label, Problem::CyclicLabel { label: label.to_owned() });
        }
        if let Some(label) = hierarchy.find_too_deep_label() {
            let limit = MAX_ANCESTORS;
            return fail(label, Problem::TooManyAncestors { label: label.to_owned(), limit });
        }
        Ok(hierarchy)
    }

    /// Returns a label on a cycle or below one, if there is a cycle.
    fn find_cyclic_label(&self) -> Option<&str> {
        // Repeatedly removes labels whose parents have all been removed (Kahn 1962). The remaining
        // labels are on a cycle or below one.
        let mut children: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        let mut unresolved: BTreeMap<&str, usize> = BTreeMap::new();
        let mut ready: Vec<&str> = Vec::new();
        for (child, parents) in &self.parents {
            unresolved.insert(child, parents.len());
            for parent in parents {
                children.entry(parent).or_default().push(child);
                if !self.parents.contains_key(parent) {
                    ready.push(parent);
                }
            }
        }
        ready.sort_unstable();
        ready.dedup();
        while let Some(parent) = ready.pop() {
            for child in children.remove(parent).into_iter().flatten() {
                if let Some(count) = unresolved.get_mut(child) {
                    *count -= 1;
                    if *count == 0 {
                        unresolved.remove(child);
                        ready.push(child);
                    }
                }
            }
        }
        unresolved.into_keys().next()
    }

    /// Returns whether no label has a parent.
    pub fn is_empty(&self) -> bool {
        self.parents.is_empty()
    }

    /// The labels that have parents, in byte order.
    pub fn children(&self) -> impl Iterator<Item = &str> {
        self.parents.keys().map(String::as_str)
    }

    /// Returns the ancestors of a label, in byte order.
    pub fn ancestors(&self, label: &str) -> BTreeSet<&str> {
        let mut found = BTreeSet::new();
        let mut pending = vec![label];
        while let Some(label) = pending.pop() {
            for parent in self.parents.get(label).into_iter().flatten() {
                if found.insert(parent.as_str()) {
                    pending.push(parent);
                }
            }
        }
        found
    }

    /// Returns the level of a label: 1 if it has no parents, otherwise one more than the minimum
    /// level of its parents.
    pub fn level(&self, label: &str) -> usize {
        let mut level = 1;
        let mut current = BTreeSet::from([label]);
        // The loop ends because there are no cycles.
        while current.iter().all(|label| self.parents.contains_key(*label)) {
            let parents = current.iter().filter_map(|label| self.parents.get(*label)).flatten();
            current = parents.map(String::as_str).collect();
            level += 1;
        }
        level
    }

    /// Returns the positions in `labels` of each label's ancestors.
    pub(crate) fn ancestor_positions<'a>(
        &self,
        labels: impl Iterator<Item = &'a str>,
    ) -> Vec<Vec<u32>> {
        let labels: Vec<&str> = labels.collect();
        let numbers: BTreeMap<&str, u32> = labels.iter().copied().zip(0..).collect();
        let ancestors_of = |label: &&str| {
            let ancestors = self.ancestors(label).into_iter();
            ancestors.filter_map(|ancestor| numbers.get(ancestor).copied()).collect()
        };
        labels.iter().map(ancestors_of).collect()
    }

    /// Returns a label with more than [`MAX_ANCESTORS`] ancestors, if there is one.
    fn find_too_deep_label(&self) -> Option<&str> {
        let is_too_deep = |label: &&str| {
            let mut found = BTreeSet::new();
            let mut pending = vec![*label];
            while let Some(label) = pending.pop() {
                let parents = self.parents.get(label).into_iter().flatten();
                pending.extend(parents.map(String::as_str).filter(|parent| found.insert(*parent)));
                if found.len() > MAX_ANCESTORS {
                    return true;
                }
            }
            false
        };
        self.children().find(is_too_deep)
    }

    /// Returns whether a hierarchy from a model file is valid: no label is its own ancestor or has
    /// too many ancestors, and every entry has parents.
    pub(crate) fn is_valid(&self) -> bool {
        self.find_cyclic_label().is_none()
            && self.find_too_deep_label().is_none()
            && self.parents.values().all(|parents| !parents.is_empty())
    }
}

/// The maximum number of ancestors of a label. The limit bounds the time of predictions, which
/// compare the ancestors of their labels.
const MAX_ANCESTORS: usize = 1_000;

/// Parses the child and the parent in a line.
fn parse_pair(line: &str) -> Option<(&str, &str)> {
    if let Some(rest) = line.trim_start().strip_prefix("parent:") {
        let (parent, rest) = rest.split_once("child:")?;
        let child = rest.split_once("child-description:").map_or(rest, |(child, _)| child);
        let child = child.trim();
        let parent = parent.trim();
        return (!child.is_empty() && !parent.is_empty()).then_some((child, parent));
    }
    let (child, parent) = line.split_once('\t')?;
    let child = child.trim();
    let parent = parent.trim();
    (!child.is_empty() && !parent.is_empty() && !parent.contains('\t')).then_some((child, parent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_rcv1() {
        let text = "parent: None child: Root child-description: Root\n\
                    parent: Root                 child: CCAT child-description: CORPORATE\n\
                    parent: CCAT                 child: C15  child-description: PERFORMANCE\n\
                    parent: C15                  child: C151 child-description: ACCOUNTS\n";
        let hierarchy = Hierarchy::parse("hier", text).unwrap();
        let ancestors: Vec<&str> = hierarchy.ancestors("C151").into_iter().collect();
        assert_eq!(ancestors, ["C15", "CCAT"]);
        assert_eq!((hierarchy.level("CCAT"), hierarchy.level("C151")), (1, 3));
        let ancestor_positions = hierarchy.ancestor_positions(["C15", "C151", "CCAT"].into_iter());
        assert_eq!(ancestor_positions, [vec![2], vec![0, 2], vec![]]);
    }

    #[test]
    fn deep_hierarchies_are_refused() {
        let chain = |levels: usize| {
            let pairs = (0..levels).map(|level| format!("n{level}\tn{}\n", level + 1));
            Hierarchy::parse("chain", &pairs.collect::<String>())
        };
        assert!(chain(MAX_ANCESTORS).is_ok());
        let error = chain(20_000).unwrap_err();
        assert!(matches!(error.problem, Problem::TooManyAncestors { .. }), "{error}");
    }

    #[test]
    fn errors_name_the_line() {
        let error = Hierarchy::parse("tree", "a\tb\nno tab here\n").unwrap_err();
        assert_eq!(error.place.line, Some(2));
        let error = Hierarchy::parse("tree", "a\tb\nb\tc\nc\ta\n").unwrap_err();
        assert_eq!(error.place.line, Some(1));
        assert!(error.to_string().contains('a'), "{error}");
    }
}
