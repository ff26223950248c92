//! Filler: makes files for the pool ahead, where segments ask for more than come back.

use super::exchange::Exchange;
use super::filling::Filling;
use super::pressure::Stage;
use super::release::Doomed;
use super::spares::Filled;
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
    given_up: Option<Doomed>,
    /// When the next may be begun.
    from_ns: u64,
}

impl<D: Disk> Filler<D> {
    /// Nothing has been begun.
    pub(super) fn new(disk: D, store: StoreId, exchange: Arc<Exchange>, spares_min: usize) -> Filler<D> {
        Filler { disk, store, exchange, spares_min, filling: None, given_up: None, from_ns: 0 }
    }

    /// A file is being made, or should be, or has to go.
    pub(super) fn has_work(&self) -> bool {
        self.asked() != Filled::Nothing
    }

    /// What is to be done. After a failure nothing is begun for a while.
    fn asked(&self) -> Filled {
        let half_made = self.filling.as_ref().map(|filling| filling.spare.size);
        let is_short = self.exchange.gauge.stage() > Stage::Calm;
        match half_made {
            Some(_) if is_short => Filled::GiveUp,
            None if is_short || self.disk.now().boot_ns < self.from_ns => Filled::Nothing,
            half_made => self.exchange.spares.asked(half_made, self.spares_min),
        }
    }

    /// What was given up, for whoever removes it.
    pub(super) fn take_given_up(&mut self) -> Option<Doomed> {
        self.given_up.take()
    }

    /// One burst of zeros, when appends leave room for it.
    ///
    /// # Errors
    /// What the disk answered: the file was given up, and the next is tried after a while.
    pub(super) async fn burst(&mut self) -> Result<(), DiskError> {
        match self.asked() {
            Filled::Nothing => return Ok(()),
            Filled::GiveUp => {
                if let Some(filling) = self.filling.take() {
                    self.give_up(filling);
                }
                return Ok(());
            }
            Filled::More => {}
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
                self.give_up(filling);
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
        let Some(wanted) = self.exchange.spares.begin_filling(self.spares_min) else { return Ok(None) };
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

    fn give_up(&mut self, filling: Filling) {
        self.exchange.spares.give_room_back(filling.spare.size);
        self.given_up = Some(filling.abandon());
    }

    fn rest(&mut self) {
        self.from_ns = self.disk.now().boot_ns.saturating_add(RETRY.as_nanos() as u64);
    }
}
