//! A closed segment: one that takes no more appends. Opened and indexed when it is first read.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

use super::survey::{self, Damage, Expected, Survey};
use super::time::Latest;
use crate::format::index::{INDEX_ENTRY_BYTES, Index};
use crate::format::segment::SegmentFooter;
use crate::id::{Generation, Offset, SegmentId, Uid};
use crate::layout;
use std::cell::Cell;
use std::rc::Rc;
use strandline_disk::{Access, BLOCK, Directory, Disk, DiskError, File, OpenFile, Position, transfer};

/// A segment that takes no more appends.
#[derive(Clone, Debug)]
pub struct Closed {
    /// Its segment.
    pub id: SegmentId,
    /// The uid of its file.
    pub uid: Uid,
    /// Its generation.
    pub generation: Generation,
    /// Size of its file in bytes.
    pub size: u64,
    /// The most that may have been in flight past its durable end, in bytes.
    pub look_ahead: u64,
    /// Whether its blocks were written whole and synced before it was used.
    pub anchored: bool,
    /// Its first offset.
    pub base: Offset,
    /// One past its last offset.
    pub end: Offset,
    /// When it took its first record, wall ms.
    pub opened_at_ms: u64,
    /// Whether it has its footer.
    pub sealed: bool,
    /// Its bytes without header block, preallocation or padding to a block, once it is sealed.
    pub logical_bytes: u64,
    /// When it was sealed, wall ms; 0 before.
    pub sealed_at_ms: u64,
    /// How late its batches are, as far as the manifest or an earlier look at it said.
    pub latest: Latest,
    /// Its file and index, once it was opened.
    pub loaded: Option<Rc<Loaded>>,
    /// What is known of a write head that was let go of: its file need not be read to find its batches.
    pub known: Option<Rc<Known>>,
}

/// What a write head knew of its file when that was let go of.
#[derive(Debug)]
pub struct Known {
    /// Its index.
    pub index: Index,
    /// The position after its last batch or mark.
    pub end: Position,
    /// Store times of the first and the last batch, 0 without one.
    pub store_times_ms: (u64, u64),
    /// A checksum of what stands in its last block before that end.
    pub tail_checksum: u32,
}

impl Known {
    /// How much it takes, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.index.entries().len().saturating_mul(INDEX_ENTRY_BYTES)
    }
}

/// An open closed segment.
#[derive(Debug)]
pub struct Loaded {
    /// The file.
    pub file: File,
    /// Its index.
    pub index: Index,
    /// The position after its last batch.
    pub data_end: Position,
    /// Store times of the first and the last batch, 0 without one.
    pub store_times_ms: (u64, u64),
    /// The largest client timestamp in it, ms. An index that was read does not know it.
    pub client_time_max_ms: Option<i64>,
    /// Whether index and damage were found in the data itself, and not read from the footer.
    pub surveyed: bool,
    /// What does not verify below its end, as far as is known.
    pub damage: Vec<Damage>,
    /// When it was read last, since boot in nanoseconds.
    pub used_ns: Cell<u64>,
}

impl Loaded {
    /// A segment as it was surveyed.
    #[must_use]
    pub fn surveyed(file: File, found: Survey) -> Loaded {
        Loaded {
            file,
            client_time_max_ms: found.index.client_time_max_ms(),
            index: found.index,
            data_end: found.end,
            store_times_ms: found.store_times_ms,
            surveyed: true,
            damage: found.damage,
            used_ns: Cell::new(0),
        }
    }

    /// How late its batches are.
    #[must_use]
    pub fn latest(&self) -> Latest {
        Latest { store_ms: Some(self.store_times_ms.1), client_ms: Some(self.client_time_max_ms) }
    }
}

impl Closed {
    /// The footer of this segment as it was loaded, without what is known only when index and footer are written.
    #[must_use]
    pub fn footer(&self, loaded: &Loaded, sealed_at_ms: u64) -> SegmentFooter {
        SegmentFooter {
            uid: self.uid,
            base: self.base,
            end: self.end,
            data_end: loaded.data_end,
            first_store_time_ms: loaded.store_times_ms.0,
            last_store_time_ms: loaded.store_times_ms.1,
            client_time_max_ms: loaded.index.client_time_max_ms(),
            sealed_at_ms,
            index_at: Position(0),
            index_entries: 0,
            index_crc: 0,
        }
    }

    /// The store time of its last batch, wall ms, 0 without one; nothing where that is not known.
    #[must_use]
    pub fn last_store_time_ms(&self) -> Option<u64> {
        self.latest.store_ms.or(self.loaded.as_ref().map(|loaded| loaded.store_times_ms.1))
    }

    /// Opens the file and reads its index, unless that is known; where footer or index are missing or wrong, builds it from the data.
    ///
    /// # Errors
    /// What the disk answered.
    pub async fn load<D: Disk>(&self, disk: &D) -> Result<Loaded, DiskError> {
        let (_, file) = open_file(disk, &self.id, self.generation).await?;
        if let Some(known) = &self.known {
            return Ok(Loaded {
                file,
                index: known.index.clone(),
                data_end: known.end,
                store_times_ms: known.store_times_ms,
                client_time_max_ms: known.index.client_time_max_ms(),
                surveyed: false,
                damage: Vec::new(),
                used_ns: Cell::new(0),
            });
        }
        if self.sealed {
            match self.read_index(disk, &file).await? {
                Ok((index, footer)) => {
                    return Ok(Loaded {
                        file,
                        index,
                        data_end: footer.data_end,
                        store_times_ms: (footer.first_store_time_ms, footer.last_store_time_ms),
                        client_time_max_ms: footer.client_time_max_ms,
                        surveyed: false,
                        damage: Vec::new(),
                        used_ns: Cell::new(0),
                    });
                }
                Err(reason) => tracing::warn!(segment = %self.id, reason, "the index is built again from the data"),
            }
        }
        self.survey(disk, file).await
    }

    /// Builds the index from the data, and finds what is damaged.
    ///
    /// # Errors
    /// What the disk answered.
    pub async fn survey<D: Disk>(&self, disk: &D, file: File) -> Result<Loaded, DiskError> {
        let found = survey::survey(disk, &file, &self.expected()).await?;
        Ok(Loaded::surveyed(file, found))
    }

    /// What is known of it before it is surveyed.
    #[must_use]
    pub fn expected(&self) -> Expected {
        let Closed { uid, base, end, size, look_ahead, .. } = *self;
        // Its end is known, and what a truncation dropped does not reach below it.
        Expected { uid, base, end: Some(end), size, look_ahead, cut: None }
    }

    /// Reads from the footer alone how late its batches are. Nothing when it has none, or one that does not verify.
    ///
    /// # Errors
    /// What the disk answered.
    pub async fn read_latest<D: Disk>(&self, disk: &D) -> Result<Option<Latest>, DiskError> {
        if !self.sealed {
            return Ok(None);
        }
        let (_, file) = open_file(disk, &self.id, self.generation).await?;
        let footer = self.read_footer(disk, &file).await?.ok();
        Ok(footer.map(|footer| Latest::of(&footer)))
    }

    /// Whether footer and index verify, and are those of this segment.
    ///
    /// # Errors
    /// What the disk answered.
    pub(super) async fn check_index<D: Disk>(
        &self,
        disk: &D,
        file: &File,
    ) -> Result<Result<(), &'static str>, DiskError> {
        Ok(self.read_index(disk, file).await?.map(drop))
    }

    async fn read_footer<D: Disk>(
        &self,
        disk: &D,
        file: &File,
    ) -> Result<Result<SegmentFooter, &'static str>, DiskError> {
        let Some(footer_at) = self.size.checked_sub(BLOCK as u64) else { return Ok(Err("the size is too small")) };
        let block = survey::read_window(disk, file, Position(footer_at), Position(self.size)).await?;
        let Ok(footer) = SegmentFooter::decode(&block) else { return Ok(Err("the footer does not verify")) };
        if footer.uid != self.uid || footer.base != self.base || footer.end != self.end {
            return Ok(Err("the footer belongs to another file"));
        }
        let index_end = footer.index_at.plus(index_bytes(&footer));
        if index_end.0 > footer_at || footer.data_end.0 > footer_at {
            return Ok(Err("the footer points past the end"));
        }
        Ok(Ok(footer))
    }

    async fn read_index<D: Disk>(
        &self,
        disk: &D,
        file: &File,
    ) -> Result<Result<(Index, SegmentFooter), &'static str>, DiskError> {
        let footer = match self.read_footer(disk, file).await? {
            Ok(footer) => footer,
            Err(reason) => return Ok(Err(reason)),
        };
        let index_end = footer.index_at.plus(index_bytes(&footer));
        let bytes = survey::read_window(disk, file, footer.index_at, index_end).await?;
        match Index::decode(&bytes, footer.index_entries, footer.index_crc) {
            Ok(index) => Ok(Ok((index, footer))),
            Err(_) => Ok(Err("the index does not verify")),
        }
    }
}

/// How long the index is that a footer promises.
fn index_bytes(footer: &SegmentFooter) -> usize {
    (footer.index_entries as usize).saturating_mul(INDEX_ENTRY_BYTES)
}

/// Opens the data file of a segment, and the directory that it is in.
///
/// # Errors
/// What the disk answered.
pub async fn open_file<D: Disk>(
    disk: &D,
    segment: &SegmentId,
    generation: Generation,
) -> Result<(Directory, File), DiskError> {
    let directory = transfer::open_directory(disk, &disk.root(), &layout::directory_name(segment)).await?;
    let name = layout::data_file_name(generation);
    let file = transfer::open(disk, &directory, &name, OpenFile::Existing, Access::Auto).await?;
    Ok((directory, file))
}
