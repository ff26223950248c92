//! Directories that could not be removed. They stay candidates, behind the others.

use super::entry::DirectoryName;
use std::collections::BTreeMap;

/// How often each directory could not be removed. Such a directory comes after the others, so that it starves none of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attempts(BTreeMap<DirectoryName, u32>);

impl Attempts {
    /// A removal failed.
    pub fn failed(&mut self, name: &DirectoryName) {
        let failures = self.0.entry(name.clone()).or_default();
        *failures = failures.saturating_add(1);
    }

    /// Forgets the names that are gone.
    pub fn retain(&mut self, is_there: impl Fn(&DirectoryName) -> bool) {
        self.0.retain(|name, _| is_there(name));
    }

    /// How often this name failed.
    #[must_use]
    pub fn failures(&self, name: &DirectoryName) -> u32 {
        self.0.get(name).copied().unwrap_or_default()
    }
}
