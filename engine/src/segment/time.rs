//! Times: what a search by time asks for, and how late the batches of a segment are, so that a search passes it over unopened.

use crate::format::batch::BatchHeader;
use crate::format::index::Index;
use crate::format::segment::SegmentFooter;
use crate::id::Offset;
use strandline_disk::Position;

/// A time to look for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Time {
    /// When the store took a batch, wall ms.
    Store(u64),
    /// The timestamp that a client gave a record, ms.
    Client(i64),
}

impl Time {
    /// Whether a batch is of this time or later; by client time, whether one of its records is.
    #[must_use]
    pub fn is_reached_by(self, header: &BatchHeader) -> bool {
        match self {
            _ if header.is_mark() => false,
            Time::Store(time_ms) => header.store_time_ms >= time_ms,
            Time::Client(time_ms) => header.client_time_max_ms >= Some(time_ms),
        }
    }

    /// Where to start looking in a segment that begins with offset `base`: no batch before it is of this time or later.
    #[must_use]
    pub fn start(self, index: &Index, base: Offset) -> (Position, Offset) {
        let position = match self {
            Time::Store(time_ms) => index.locate_time(time_ms),
            Time::Client(time_ms) => index.locate_client_time(time_ms),
        };
        let place = index.entries().partition_point(|entry| entry.position < position);
        (position, index.entries().get(place).map_or(base, |entry| entry.first_offset.max(base)))
    }
}

/// How late the batches of a segment are, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latest {
    /// The store time of its last batch, wall ms. Within a segment it is the largest.
    pub store_ms: Option<u64>,
    /// The largest client timestamp in it, ms, which may be none at all.
    pub client_ms: Option<Option<i64>>,
}

impl Latest {
    /// What the footer of a segment says.
    #[must_use]
    pub fn of(footer: &SegmentFooter) -> Latest {
        Latest { store_ms: Some(footer.last_store_time_ms), client_ms: Some(footer.client_time_max_ms) }
    }

    /// Whether something in the segment is of this time or later; nothing when that is not known.
    #[must_use]
    pub fn reaches(&self, time: Time) -> Option<bool> {
        match time {
            Time::Store(time_ms) => self.store_ms.map(|latest_ms| latest_ms >= time_ms),
            Time::Client(time_ms) => self.client_ms.map(|latest_ms| latest_ms >= Some(time_ms)),
        }
    }
}
