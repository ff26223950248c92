//! Resting: a write head whose file is let go of. What it held is durable, so nothing on disk changes by it.

use super::active::Active;
use super::closed::{Closed, Known};
use super::time::Latest;
use super::unopened::Unopened;
use crate::id::Offset;
use std::rc::Rc;

/// The head of a log that ends at `end` as a segment at the end of the closed ones, and its file to be opened again.
#[must_use]
pub fn rest(active: Active, end: Offset) -> (Closed, Unopened) {
    let (file, end_position, tail_checksum) = (Unopened::from(&active), active.durable_end(), active.tail_checksum());
    let logical_bytes = active.logical_bytes();
    let Active { id, uid, generation, size, look_ahead, anchored, base, opened_at_ms, mut index, .. } = active;
    let store_times_ms = active.store_times_ms;
    index.shrink();
    let latest = Latest { store_ms: Some(store_times_ms.1), client_ms: Some(index.client_time_max_ms()) };
    let known = Known { index, end: end_position, store_times_ms, tail_checksum };
    let closed = Closed {
        id,
        uid,
        generation,
        size,
        look_ahead,
        anchored,
        base,
        end,
        opened_at_ms,
        sealed: false,
        logical_bytes,
        sealed_at_ms: 0,
        latest,
        loaded: None,
        known: Some(Rc::new(known)),
    };
    (closed, file)
}
