//! Content: what the batch of a number holds, so that it can be told whether it is whole and where it belongs.

use crate::history::Held;
use crate::random::Random;
use strandline::{Batch, Log, Record, StoredBatch, Topic};

/// The logs of a workload.
pub const LOGS: usize = 4;

/// The longest value, in bytes.
const VALUE_BYTES_MAX: u64 = 1_500;

/// From here on numbers stand for the same logs with longer values, so that few batches fill a segment.
pub const LONG: usize = 100 * LOGS;

/// Batches of these numbers and above are appended after a recovery.
pub const AFTER_RECOVERY: u64 = 1 << 40;

/// The topic of a log.
pub fn topic(log: usize) -> Topic {
    let name = ["barley", "millet", "oats", "rye"][log % LOGS];
    Topic::new(name).expect("short names are topics")
}

/// How many records the batch of this number has.
pub fn records(log: usize, number: u64) -> u64 {
    1 + Random::new(number, log as u64).below(4)
}

fn value(log: usize, number: u64, record: u64) -> Vec<u8> {
    let mut random = Random::new(number << 3 | record, log as u64 + 100);
    let length = match random.one_in(8) {
        _ if log >= LONG => VALUE_BYTES_MAX - random.below(VALUE_BYTES_MAX / 4),
        true => VALUE_BYTES_MAX,
        false => random.below(VALUE_BYTES_MAX / 4),
    } as usize;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        bytes.extend_from_slice(&random.next().to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// The batch of this number.
pub fn batch(to: &Log, log: usize, number: u64) -> Batch {
    let mut builder = to.batch();
    for record in 0..records(log, number) {
        let value = value(log, number, record);
        builder.push(&Record { value: Some(&value), ..Record::default() }).expect("room in the batch");
    }
    let mut host = [0; 32];
    host[..8].copy_from_slice(&number.to_le_bytes());
    host[8] = (log % LOGS) as u8;
    builder.set_host_bytes(host);
    builder.build().expect("at least one record")
}

/// Which batch it is.
///
/// # Errors
/// Its bytes are not those of the number that it names.
pub fn recognize(log: usize, batch: &StoredBatch) -> Result<Held, String> {
    let host = batch.host_bytes();
    let number = host[..8].iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    let held = Held { first: batch.first().0, end: batch.end().0, number };
    if host[8] as usize != log % LOGS || u64::from(batch.record_count()) != records(log, number) {
        return Err(format!("{held:?} is not of this log, or has another number of records"));
    }
    for (record, stored) in batch.records().enumerate() {
        let stored = stored.map_err(|error| format!("{held:?}, record {record}: {error}"))?;
        let expected = value(log, number, record as u64);
        if stored.value != Some(&expected[..]) || stored.offset.0 != held.first + record as u64 {
            return Err(format!("{held:?}: record {record} has other bytes or another offset than were appended"));
        }
    }
    Ok(held)
}
