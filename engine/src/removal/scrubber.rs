//! Scrubber: reads segments again, where somebody asked for it, at a rate that appends do not notice. It goes when nothing is to be removed, a
//! piece at a time, and writes nothing.

use super::exchange::Exchange;
use super::governor::{Allowed, Governor};
use crate::error::VerbError;
use crate::pending::Answer;
use crate::segment::scrub::{Found, Scrub, Step, Target};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use strandline_disk::{Disk, DiskError};

/// What is read at once, in bytes. An append that meets a piece waits for it, however small: few large ones are met by few.
const PIECE: u64 = 1 << 20;
/// It never goes slower than this part of its rate, whatever appends say.
const RATE_PARTS: u64 = 16;
/// How long the first piece waits, so that it is seen what commits take without, in nanoseconds.
const CALM_NS: u64 = 200_000_000;

/// What a segment that was read again answers.
pub type ScrubAnswer = Result<Found, VerbError>;

/// A segment is to be read again.
pub struct ScrubAsked {
    /// Which.
    pub target: Target,
    /// Who waits for it.
    pub answer: Answer<ScrubAnswer>,
}

impl fmt::Debug for ScrubAsked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScrubAsked").field("target", &self.target).finish_non_exhaustive()
    }
}

/// What was read again since the store was opened, as it is counted.
#[derive(Debug, Default)]
pub struct ScrubbedSoFar {
    segments: AtomicU64,
    bytes: AtomicU64,
    damaged: AtomicU64,
    indexes: AtomicU64,
    failures: AtomicU64,
}

/// What was read again since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScrubCounters {
    /// Segments that were read to their end.
    pub segments: u64,
    /// Bytes that were read.
    pub bytes: u64,
    /// Segments in which something did not verify, each time.
    pub damaged: u64,
    /// Segments whose index or footer did not, each time.
    pub indexes: u64,
    /// Segments that could not be read, each time.
    pub failures: u64,
}

impl ScrubbedSoFar {
    /// In numbers.
    #[must_use]
    pub fn counters(&self) -> ScrubCounters {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ScrubCounters {
            segments: get(&self.segments),
            bytes: get(&self.bytes),
            damaged: get(&self.damaged),
            indexes: get(&self.indexes),
            failures: get(&self.failures),
        }
    }

    /// A segment that is still what it was could not be read.
    pub fn note_failure(&self) {
        self.failures.fetch_add(1, Ordering::Relaxed);
    }

    /// A segment was read to its end, and was still what it had been.
    pub fn note(&self, found: &Found) {
        self.segments.fetch_add(1, Ordering::Relaxed);
        self.damaged.fetch_add(u64::from(!found.damage.is_empty()), Ordering::Relaxed);
        self.indexes.fetch_add(u64::from(found.index.is_some()), Ordering::Relaxed);
    }
}

/// How fast it may go.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScrubSettings {
    /// Slower, where appends suffer.
    pub(super) governed: bool,
    /// Bytes a second at most.
    pub(super) rate: u64,
    /// The p99 that commits may have beside it, in nanoseconds.
    pub(super) budget_ns: u64,
}

/// Reads one segment at a time.
pub(super) struct Scrubber<D: Disk> {
    disk: D,
    exchange: Arc<Exchange>,
    settings: ScrubSettings,
    governor: Governor,
    at_work: Option<(Scrub, Answer<ScrubAnswer>)>,
    /// A segment is wanted: the governor looks what commits take until the first piece.
    asked: Option<ScrubAsked>,
    is_governing: bool,
    /// When the next piece may be read.
    next_ns: u64,
}

impl<D: Disk> Scrubber<D> {
    /// Begins with nothing.
    pub(super) fn new(disk: D, exchange: Arc<Exchange>, settings: ScrubSettings) -> Scrubber<D> {
        let rate_min = settings.rate / RATE_PARTS;
        let governor = Governor::new(Allowed { budget_ns: settings.budget_ns, rate_min });
        Scrubber { disk, exchange, settings, governor, at_work: None, asked: None, is_governing: false, next_ns: 0 }
    }

    /// How long it rests until its next piece; `None` while it has nothing to read.
    pub(super) fn rests_for(&self) -> Option<Duration> {
        let has_work = self.at_work.is_some() || self.asked.is_some();
        has_work.then(|| Duration::from_nanos(self.next_ns.saturating_sub(self.now_ns())))
    }

    /// Reads a piece, when it is time for one.
    pub(super) async fn work(&mut self) {
        if self.at_work.is_none() && self.asked.is_none() {
            self.asked = self.exchange.scrubs.take();
            match self.asked {
                Some(_) => self.look_first(),
                None => return self.rest(),
            }
        }
        if self.next_ns > self.now_ns() {
            return;
        }
        let result = self.step().await;
        if let Err(error) = result {
            let answer = self.at_work.take().map(|(_, answer)| answer);
            if let Some(answer) = answer.or(self.asked.take().map(|asked| asked.answer)) {
                answer.give(Err(error.into()));
            }
        }
    }

    async fn step(&mut self) -> Result<(), DiskError> {
        let seen = self.exchange.latencies.seen();
        if !std::mem::replace(&mut self.is_governing, true) {
            self.governor.begin(seen, self.now_ns());
        } else if self.governor.wants_to_look(self.now_ns()) {
            self.governor.look(seen, self.now_ns());
        }
        if let Some(asked) = &self.asked {
            let scrub = Scrub::begin(&self.disk, asked.target.clone()).await?;
            self.at_work = self.asked.take().map(|asked| (scrub, asked.answer));
        }
        let Some((scrub, _)) = &mut self.at_work else { return Ok(()) };
        let from_ns = self.disk.now().boot_ns;
        let bytes = match scrub.step(&self.disk, PIECE as usize).await? {
            Step::More(bytes) => bytes,
            Step::Done(bytes, found) => {
                if let Some((_, answer)) = self.at_work.take() {
                    answer.give(Ok(found));
                }
                bytes
            }
        };
        self.exchange.scrubbed.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.next_ns = from_ns.saturating_add(self.pause_ns(bytes));
        Ok(())
    }

    /// How long so many bytes are to take.
    fn pause_ns(&self, bytes: u64) -> u64 {
        let at_most = u128::from(bytes) * 1_000_000_000 / u128::from(self.settings.rate.max(1));
        let governed = if self.settings.governed { self.governor.pause(bytes).as_nanos() } else { 0 };
        at_most.max(governed).try_into().unwrap_or(u64::MAX)
    }

    /// What commits take without it is to be seen first, and now and then.
    fn look_first(&mut self) {
        let now_ns = self.now_ns();
        if self.settings.governed && (!self.is_governing || self.governor.wants_calm(now_ns)) {
            self.rest();
            self.next_ns = self.next_ns.max(now_ns.saturating_add(CALM_NS));
        }
    }

    /// Nothing is read.
    fn rest(&mut self) {
        if std::mem::take(&mut self.is_governing) {
            self.governor.end(self.exchange.latencies.seen());
        }
    }

    fn now_ns(&self) -> u64 {
        self.disk.now().boot_ns
    }
}
