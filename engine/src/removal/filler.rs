//! Filler: makes files for the pool ahead, where segments ask for more than come back.

use super::exchange::Exchange;
use super::filling::{Filling, Wanted};
use super::pressure::Stage;
use crate::id::StoreId;
use std::sync::Arc;
use std::time::Duration;
use strandline_disk::{Disk, DiskError};

/// How long it rests after it could not make one.
const RETRY: Duration = Duration::from_secs(60);

/// Makes one file at a time, a burst of zeros at a time.
pub(super) struct Filler<D: Disk> {
    disk: D,
    store: StoreId,
    exchange: Arc<Exchange>,
    /// Files of each size that there should be.
    spares_min: usize,
    filling: Option<Filling>,
    /// When the next may be begun.
    from_ns: u64,
}

impl<D: Disk> Filler<D> {
    /// Nothing has been begun.
    pub(super) fn new(disk: D, store: StoreId, exchange: Arc<Exchange>, spares_min: usize) -> Filler<D> {
        Filler { disk, store, exchange, spares_min, filling: None, from_ns: 0 }
    }

    /// A file is being made, or should be.
    pub(super) fn has_work(&self) -> bool {
        self.is_needed() || (self.filling.is_some() && self.is_short())
    }

    /// Whether a file is asked for, unless one could not be made just now.
    fn is_needed(&self) -> bool {
        let half_made = self.filling.as_ref().map(|filling| filling.spare.size);
        self.disk.now().boot_ns >= self.from_ns && self.exchange.spares.asks_for_more(half_made, self.spares_min)
    }

    /// The disk is short of room.
    fn is_short(&self) -> bool {
        self.exchange.gauge.stage() > Stage::Calm
    }

    /// One burst of zeros, when appends leave room for it.
    ///
    /// # Errors
    /// What the disk answered: the file was given up, and the next is tried after a while.
    pub(super) async fn burst(&mut self) -> Result<(), DiskError> {
        if self.is_short() {
            if let Some(filling) = self.filling.take() {
                self.give_up(filling).await;
            }
            return Ok(());
        }
        if !self.is_needed() {
            return Ok(());
        }
        let commits = self.exchange.latencies.count();
        let Some(mut filling) = self.begin(commits).await? else { return Ok(()) };
        let filled = match filling.may_burst(commits) {
            true => filling.burst(&self.disk).await,
            false => Ok(false),
        };
        let filled = match filled {
            Ok(false) => {
                self.filling = Some(filling);
                return Ok(());
            }
            Ok(true) => filling.finish(&self.disk, self.store).await,
            Err(error) => Err(error),
        };
        match filled {
            Ok(spare) => self.exchange.spares.put_made(spare),
            Err(error) => {
                self.give_up(filling).await;
                self.rest();
                return Err(error);
            }
        }
        Ok(())
    }

    /// The file that is being made, or a new one if one is wanted and there is room.
    async fn begin(&mut self, commits: u64) -> Result<Option<Filling>, DiskError> {
        if let Some(filling) = self.filling.take() {
            return Ok(Some(filling));
        }
        let has_room = |wanted: &Wanted| self.exchange.spares.take_room(wanted.size);
        let Some(wanted) = self.exchange.spares.wanted(self.spares_min).filter(has_room) else { return Ok(None) };
        let size = wanted.size;
        match Filling::begin(&self.disk, wanted, commits).await {
            Ok(filling) => Ok(Some(filling)),
            Err(error) => {
                self.exchange.spares.give_room_back(size);
                self.rest();
                Err(error)
            }
        }
    }

    async fn give_up(&self, filling: Filling) {
        self.exchange.spares.give_room_back(filling.spare.size);
        filling.abandon(&self.disk).await;
    }

    fn rest(&mut self) {
        self.from_ns = self.disk.now().boot_ns.saturating_add(RETRY.as_nanos() as u64);
    }
}
