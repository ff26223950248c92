//! Reader: threads that read what was appended last, and what is old, while it is written and expires.

use super::child::Shared;
use super::role::{Keep, ROLES};
use super::told::Told;
use crate::content;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use strandline::{Follower, Log, Offset, ReadError, StoredBatch};
use strandline_tests::tiers::promise::Promise;

/// The bytes that one read asks for.
const READ_BYTES: usize = 64 << 10;

/// How long a follower waits for more before the next one is looked at.
const PATIENCE: Duration = Duration::from_millis(30);

/// How often it is told how far a follower has come.
const TOLD_EVERY: Duration = Duration::from_millis(300);

/// Rest after a log that was read, and after something was refused.
const REST: Duration = Duration::from_millis(150);

/// The followers' logs: such that are never cut and never go.
fn followed() -> impl Iterator<Item = usize> {
    (0..ROLES.len()).filter(|log| matches!(ROLES[*log].keep, Keep::Bytes | Keep::Age))
}

/// The logs that are never deleted: [`strandline::Store::find`] makes one that goes between its two looks again.
pub fn stays() -> impl Iterator<Item = usize> {
    (0..ROLES.len()).filter(|log| ROLES[*log].keep != Keep::Guest)
}

/// Follows logs at their ends.
pub fn follow(shared: &Arc<Shared>) {
    let mut followers: Vec<(usize, Option<Follower>, Instant)> =
        followed().map(|log| (log, None, Instant::now())).collect();
    while !shared.is_over() {
        for (which, place, told) in &mut followers {
            let Some(follower) = place else {
                *place = shared.find(*which).map(|log| log.follower(log.latest()));
                if place.is_none() {
                    shared.rest(REST);
                }
                continue;
            };
            let from = follower.position();
            match follower.next_blocking(READ_BYTES, Some(PATIENCE)) {
                Ok(read) => {
                    compare(shared, *which, from, &read.batches);
                    if told.elapsed() > TOLD_EVERY && !read.batches.is_empty() {
                        *told = Instant::now();
                        shared.teller.tell(&Told::Read(*which, follower.position().0));
                    }
                }
                // It was too slow: what it was to read has expired.
                Err(ReadError::OutOfRange { earliest, .. }) => follower.seek(earliest),
                Err(error) => {
                    unread(shared, *which, &error);
                    *place = None;
                }
            }
        }
    }
}

/// Reads all logs from their beginnings, one after the other, again and again.
pub fn catch_up(shared: &Arc<Shared>) {
    while !shared.is_over() {
        for which in stays() {
            if let Some(log) = shared.find(which) {
                read_whole(shared, which, &log);
            }
            shared.rest(REST);
        }
    }
}

fn read_whole(shared: &Arc<Shared>, which: usize, log: &Log) {
    let (mut next, end) = (log.earliest(), log.latest());
    while next < end && !shared.is_over() {
        match log.read(next, READ_BYTES).wait() {
            Ok(read) if read.batches.is_empty() => return, // It was cut meanwhile.
            Ok(read) => {
                compare(shared, which, next, &read.batches);
                next = read.next;
            }
            Err(ReadError::OutOfRange { earliest, .. }) if earliest > next => next = earliest,
            Err(ReadError::OutOfRange { .. } | ReadError::Deleted { .. }) => return,
            Err(error) => return unread(shared, which, &error),
        }
        // A reader that catches up leaves time for others.
        shared.rest(Duration::from_millis(1));
    }
}

fn unread(shared: &Arc<Shared>, which: usize, error: &ReadError) {
    match error {
        ReadError::Corrupt { from, .. } => shared.teller.tell(&Told::Damaged(which, from.0, error.to_string())),
        error => shared.teller.refused(&format!("{}: a read", ROLES[which].topic), error),
    }
    shared.rest(REST);
}

/// They hold what their numbers say, and follow each other without a gap.
fn compare(shared: &Arc<Shared>, which: usize, from: Offset, batches: &[StoredBatch]) {
    let mut next = from.0;
    for (place, batch) in batches.iter().enumerate() {
        match content::recognize(ROLES[which].of, batch) {
            // The first one holds what was asked for.
            Ok(held) if held.first == next || place == 0 && held.first < next => next = held.end,
            Ok(held) => {
                let seen = format!("{}: {held:?} where {next} was to be", ROLES[which].topic);
                shared.teller.broke(Promise::Right, seen);
            }
            Err(error) => shared.teller.broke(Promise::Right, format!("{}: {error}", ROLES[which].topic)),
        }
    }
    shared.teller.read.fetch_add(batches.len() as u64, Ordering::Relaxed);
}
