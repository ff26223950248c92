//! Lies: disks that break their word, for tests that prove that a crash test bites.

use super::names::{Inode, Names};
use crate::error::Verb;
use std::collections::BTreeSet;

/// A promise that the disk breaks from now on, and answers as if it had kept it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lie {
    /// No sync, no barrier and no durable write makes anything durable.
    SkipSync,
    /// As `SkipSync`, for files whose path contains this. A barrier through another file passes them over.
    SkipSyncOf(String),
    /// No barrier makes anything durable, neither of its own file nor of others.
    SkipBarrier,
    /// No sync of a directory makes a name durable.
    SkipDirectorySync,
    /// A write answers when it is started. Its bytes land at a later turn, or never when a crash comes first.
    AnswerBeforeCompletion,
}

/// The lies told at present.
#[derive(Clone, Debug, Default)]
pub(super) struct Lies(Vec<Lie>);

impl Lies {
    pub(super) fn add(&mut self, lie: Lie) {
        self.0.push(lie);
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// True when the durability that `verb` promises for `path` is not given.
    pub(super) fn skips(&self, verb: Verb, path: &str) -> bool {
        self.0.iter().any(|lie| match lie {
            Lie::SkipSync => verb != Verb::SyncDirectory,
            Lie::SkipSyncOf(part) => verb != Verb::SyncDirectory && path.contains(part),
            Lie::SkipBarrier => verb == Verb::Barrier,
            Lie::SkipDirectorySync => verb == Verb::SyncDirectory,
            Lie::AnswerBeforeCompletion => false,
        })
    }

    /// The files that a barrier through another file passes over.
    pub(super) fn unsynced(&self, names: &Names) -> BTreeSet<Inode> {
        let lied_about =
            |path: &str| self.0.iter().any(|lie| matches!(lie, Lie::SkipSyncOf(part) if path.contains(part)));
        if !self.0.iter().any(|lie| matches!(lie, Lie::SkipSyncOf(_))) {
            return BTreeSet::new();
        }
        names.files().into_iter().filter(|(path, _)| lied_about(path)).map(|(_, inode)| inode).collect()
    }

    /// True when a write is answered before it is done.
    pub(super) fn answers_early(&self) -> bool {
        self.0.contains(&Lie::AnswerBeforeCompletion)
    }
}
