//! The watch: looks how much room the disk has, and acts on it. A part of the remover, on its thread.
//!
//! It looks when room was used, and about once a second while there is little; a store that rests and has room is not looked at. When there is
//! little, the pool of spare files is given back, one file after the other. What of them is half removed at a crash says `spare` still and is
//! shorter than it says, or its directory is empty: the next open knows it by that.

use super::exchange::Exchange;
use super::pressure::{MarksWanted, Stage};
use super::recycle;
use super::release::Doomed;
use super::reserve::Reserve;
use crate::id::{Generation, StoreId};
use crate::layout;
use crate::segment::survey;
use std::sync::Arc;
use strandline_disk::{Access, Disk, DiskError, Errno, OpenFile, transfer};

/// How far apart two looks are at least, in nanoseconds.
const LOOK_EVERY_NS: u64 = 1_000_000_000;

/// How much room the disk should have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// The marks.
    pub wanted: MarksWanted,
    /// The size of the reserve in bytes.
    pub reserve_bytes: u64,
}

/// What the remover knows of the room on its disk, and what it is doing about it.
pub(super) struct Watch<D> {
    disk: D,
    store: StoreId,
    exchange: Arc<Exchange>,
    wanted: MarksWanted,
    reserve: Reserve,
    /// When the last look was made, since boot.
    looked_ns: Option<u64>,
    /// What looked fine last time did not: the same is not said twice.
    said: bool,
    /// Removal itself was refused for want of room.
    refused: bool,
    /// Files of the pool that are being removed, the last one just now.
    leaving: Vec<Doomed>,
}

impl<D: Disk> Watch<D> {
    pub(super) fn new(disk: D, store: StoreId, exchange: Arc<Exchange>, room: Room) -> Watch<D> {
        let Room { wanted, reserve_bytes } = room;
        let reserve = Reserve::new(reserve_bytes);
        Watch {
            disk,
            store,
            exchange,
            wanted,
            reserve,
            looked_ns: None,
            said: false,
            refused: false,
            leaving: Vec::new(),
        }
    }

    /// When it wants to look again, since boot in nanoseconds; `None` while nothing has changed.
    pub(super) fn due_ns(&self) -> Option<u64> {
        let Some(looked_ns) = self.looked_ns else { return Some(0) };
        if self.refused {
            return Some(0);
        }
        if self.wanted.is_off() && !self.reserve.is_missing() {
            return None;
        }
        let changes = self.exchange.gauge.is_stale() || self.exchange.gauge.stage() > Stage::Calm;
        changes.then_some(looked_ns.saturating_add(LOOK_EVERY_NS))
    }

    /// Removal was refused for want of room: at the next look the reserve is spent.
    pub(super) fn note_refusal(&mut self) {
        self.refused = true;
        self.exchange.note_use(true);
    }

    /// Something was removed: a reserve that could not be made may fit now.
    pub(super) fn note_room(&self) {
        if self.reserve.is_missing() {
            self.exchange.note_use(false);
        }
    }

    /// Looks, when it is time to, and does what comes first: the reserve, and opening or closing the pool.
    ///
    /// # Errors
    /// A flush failed. Nothing else that fails here hinders removal, and it is only reported.
    pub(super) async fn look(&mut self) -> Result<(), DiskError> {
        let now_ns = self.disk.now().boot_ns;
        if self.due_ns().is_none_or(|due_ns| due_ns > now_ns) {
            return Ok(());
        }
        let first = self.looked_ns.replace(now_ns).is_none();
        let refused = self.exchange.gauge.begin_look();
        if first {
            let found = self.reserve.find(&self.disk).await;
            self.report(found)?;
        }
        if !self.wanted.is_off() {
            match self.disk.space() {
                Ok(space) => {
                    let marks = self.wanted.marks(space.total);
                    let before = self.exchange.gauge.read();
                    let found = before.after(space, marks, refused);
                    if found.stage != before.stage {
                        tracing::warn!(stage = ?found.stage, free = found.free, soft = marks.soft, hard = marks.hard, "the room on the disk has changed");
                    }
                    self.exchange.spares.open_or_close(found.stage == Stage::Calm);
                    self.exchange.gauge.show(found);
                }
                Err(error) => self.report(Err(error))?,
            }
        }
        if std::mem::take(&mut self.refused) {
            let spent = self.reserve.spend(&self.disk).await;
            if matches!(spent, Ok(true)) {
                tracing::warn!("removal was refused for want of room: the reserve is spent");
            }
            self.report(spent.map(drop))?;
        } else if self.reserve.is_missing() && self.exchange.gauge.stage() == Stage::Calm {
            let made = self.reserve.make(&self.disk).await;
            self.report(made)?;
        }
        Ok(())
    }

    /// Whether a spare file is to be removed.
    pub(super) fn has_work(&self) -> bool {
        self.waiting() > 0
    }

    /// How many spare files are to be removed.
    pub(super) fn waiting(&self) -> usize {
        let any = self.gives_the_pool_back();
        self.leaving.len() + self.exchange.spares.count_to_remove(any)
    }

    /// What was to be a spare file and is not made is to be removed too.
    pub(super) fn take_over(&mut self, given_up: Option<Doomed>) {
        self.leaving.extend(given_up);
    }

    fn gives_the_pool_back(&self) -> bool {
        self.exchange.gauge.stage() > Stage::Calm
    }

    /// One step of removing a spare file, of at most so many bytes. Gives how many were freed.
    ///
    /// # Errors
    /// A flush failed.
    pub(super) async fn give_back(&mut self, step: u64) -> Result<u64, DiskError> {
        let stepped = self.step(step).await;
        if stepped.as_ref().is_err_and(DiskError::is_full) {
            self.note_refusal();
        }
        match stepped {
            Ok(freed) => Ok(freed),
            // It is out of the pool and where it was; the next open finds it.
            Err(error) => self.report(Err(error)).map(|()| 0),
        }
    }

    async fn step(&mut self, step: u64) -> Result<u64, DiskError> {
        let mut doomed = match self.leaving.pop() {
            Some(doomed) => doomed,
            None => match self.next().await? {
                Some(doomed) => doomed,
                None => return Ok(0),
            },
        };
        if doomed.file.is_some() && doomed.bytes > step {
            let freed = doomed.shrink(&self.disk, step).await?;
            self.leaving.push(doomed);
            return Ok(freed);
        }
        doomed.unlink(&self.disk).await?;
        // It need not be gone for good before anything else happens, but its blocks are free only then.
        transfer::sync_directory(&self.disk, &recycle::pool(&self.disk).await?).await?;
        // There may be enough now: no more is given back than is needed.
        self.looked_ns = self.looked_ns.map(|_| 0);
        Ok(doomed.bytes)
    }

    /// Opens the next spare file that is to go. `None` when there is none, or it is not what it should be.
    async fn next(&self) -> Result<Option<Doomed>, DiskError> {
        let disk = &self.disk;
        let Some(uid) = self.exchange.spares.take_to_remove(self.gives_the_pool_back()) else { return Ok(None) };
        let (pool, name) = (recycle::pool(disk).await?, layout::uid_directory_name(uid));
        let directory = match transfer::open_directory(disk, &pool, &name).await {
            Err(error) if error.is_absent() => return Ok(None),
            opened => opened?,
        };
        let file_name = layout::data_file_name(Generation(0));
        let file = match transfer::open(disk, &directory, &file_name, OpenFile::Existing, Access::Auto).await {
            Err(error) if error.is_absent() => {
                return Ok(Some(Doomed::new(pool, directory, (name, None), None)));
            }
            // A snapshot has it too: only its name here goes.
            Err(error) if error.errno == Errno::MLINK => {
                return Ok(Some(Doomed::new(pool, directory, (name, Some(file_name)), None)));
            }
            opened => opened?,
        };
        let header = survey::read_header(disk, &file).await?;
        if !header.is_ok_and(|header| header.uid == uid && recycle::is_spare(&header, self.store)) {
            tracing::warn!(%uid, "a spare file is not what its name says: it is left alone");
            return Ok(None);
        }
        Ok(Some(Doomed::new(pool, directory, (name, Some(file_name)), Some(file))))
    }

    /// Says that something failed, once until something else works. A flush that failed concerns others: it is handed on.
    fn report(&mut self, result: Result<(), DiskError>) -> Result<(), DiskError> {
        match result {
            Ok(()) => self.said = false,
            Err(error) if error.is_failed_flush() => return Err(error),
            Err(error) if !std::mem::replace(&mut self.said, true) => {
                tracing::warn!(%error, "the room on the disk is not looked after as it should be");
            }
            Err(_) => {}
        }
        Ok(())
    }
}
