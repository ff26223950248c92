//! fjall: a key-value store whose journal is the log. Each record is an insert under the next number, and then
//! `persist(PersistMode::SyncAll)`, which is an `fsync` of the journal under its lock.

use super::{Engine, Setting};
use crate::error::{PeersError, failed};
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

const NAME: &str = "fjall";

/// The database with its one keyspace.
pub struct Journal {
    // Before the database: it is closed first.
    records: Keyspace,
    database: Database,
    next: AtomicU64,
    synced: bool,
}

impl Journal {
    /// Opens it.
    ///
    /// # Errors
    /// What it answered.
    pub fn open(directory: &Path, setting: Setting) -> Result<Journal, PeersError> {
        // The journal is flushed to the system once, by what syncs it.
        let opened = Database::builder(directory.join(NAME)).manual_journal_persist(true).open();
        let database = opened.map_err(failed(NAME, "opening it"))?;
        let options = || KeyspaceCreateOptions::default().manual_journal_persist(true);
        let records = database.keyspace("records", options).map_err(failed(NAME, "making a keyspace"))?;
        Ok(Journal { records, database, next: AtomicU64::new(0), synced: setting.synced })
    }
}

impl Engine for Journal {
    fn append(&self, _producer: usize, value: &[u8]) -> Result<(), PeersError> {
        let key = self.next.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        self.records.insert(key, value).map_err(failed(NAME, "inserting"))?;
        let mode = if self.synced { PersistMode::SyncAll } else { PersistMode::Buffer };
        self.database.persist(mode).map_err(failed(NAME, "persisting"))
    }
}
