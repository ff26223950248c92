//! The tail cache: what was appended to a log last, kept where readers take it without disk, lock or another thread.
//!
//! The shard publishes one chunk a commit into a ring of slots; readers look for the chunk that holds their offset. What is read from
//! the disk never comes in here, so that a scan of old records evicts nothing.

use crate::batch::{SharedBytes, StoredBatch};
use crate::format::batch::BatchHeader;
use crate::id::Offset;
use arc_swap::ArcSwapOption;
use crossbeam_queue::ArrayQueue;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use strandline_disk::Position;

/// How many commits of a log are kept at most.
const SLOTS: usize = 256;

/// How many slots are made at once: a log that was written a few times has room for no more than it needs.
const SLOTS_OF_ROW: usize = 16;
const ROWS: usize = SLOTS / SLOTS_OF_ROW;

type Slot = ArcSwapOption<Chunk>;
type Row = OnceLock<Box<[Slot; SLOTS_OF_ROW]>>;

/// A batch in a chunk.
#[derive(Debug)]
pub struct Kept {
    /// Where it stands.
    pub position: Position,
    /// Its header.
    pub header: BatchHeader,
    /// Its payload.
    pub payload: Vec<u8>,
}

/// The batches of one commit.
#[derive(Debug)]
pub struct Chunk {
    number: u64,
    batches: Vec<Kept>,
    /// Where the payload buffers go when nobody reads them any more.
    home: Home,
}

/// Buffers that are used again.
#[derive(Clone, Debug)]
pub struct Home {
    /// The buffers.
    pub buffers: Arc<ArrayQueue<Vec<u8>>>,
    /// Larger ones are not kept.
    pub bytes_max: usize,
}

impl Home {
    /// Gives a buffer back for use again, unless it is a large one.
    pub fn give_back(&self, buffer: Vec<u8>) {
        if buffer.capacity() <= self.bytes_max {
            let _ = self.buffers.push(buffer);
        }
    }
}

impl Chunk {
    fn first(&self) -> Offset {
        self.batches.first().map_or(Offset(0), |kept| kept.header.first)
    }

    fn end(&self) -> Offset {
        self.batches.last().map_or(Offset(0), |kept| kept.header.end)
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        for kept in self.batches.drain(..) {
            self.home.give_back(kept.payload);
        }
    }
}

/// One payload of a chunk.
#[derive(Debug)]
struct Payload {
    chunk: Arc<Chunk>,
    place: usize,
}

impl SharedBytes for Payload {
    fn bytes(&self) -> &[u8] {
        self.chunk.batches.get(self.place).map_or(&[], |kept| &kept.payload)
    }
}

/// The chunks of one log.
#[derive(Debug, Default)]
pub struct TailCache {
    /// Made with the first append, and each row with the first chunk in it: a log that only rests costs nothing.
    rows: OnceLock<Box<[Row; ROWS]>>,
    /// The number of the first chunk that is kept.
    oldest: AtomicU64,
    /// The number that the next chunk gets.
    next: AtomicU64,
}

impl TailCache {
    /// True before the first chunk.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.next.load(Ordering::Acquire) == 0
    }

    /// Takes a commit in, behind the ones before it. Only the shard calls it. Gives how many bytes the chunk that it pushed out had.
    pub fn publish(&self, batches: Vec<Kept>, home: &Home) -> usize {
        let number = self.next.load(Ordering::Relaxed);
        let chunk = Chunk { number, batches, home: home.clone() };
        let mut freed = 0;
        if number - self.oldest.load(Ordering::Relaxed) >= SLOTS as u64 {
            freed = self.evict();
        }
        let (row, place) = place_of(number);
        if let Some(row) = self.rows.get_or_init(Box::default).get(row)
            && let Some(slot) = row.get_or_init(Box::default).get(place)
        {
            slot.store(Some(Arc::new(chunk)));
        }
        self.next.store(number + 1, Ordering::Release);
        freed
    }

    /// Gives the oldest chunk up; gives how many bytes it had. Only the shard calls it.
    pub fn evict(&self) -> usize {
        let number = self.oldest.load(Ordering::Relaxed);
        if number == self.next.load(Ordering::Relaxed) {
            return 0;
        }
        self.oldest.store(number + 1, Ordering::Release);
        let gone = self.slot(number).and_then(|slot| slot.swap(None));
        gone.map_or(0, |chunk| bytes_of(&chunk.batches))
    }

    /// Gives everything up: what was kept is no longer what the log holds. Gives how many bytes, in how many chunks, that was.
    pub fn clear(&self) -> (usize, usize) {
        let (mut bytes, mut chunks) = (0, 0);
        while self.oldest.load(Ordering::Relaxed) < self.next.load(Ordering::Relaxed) {
            bytes += self.evict();
            chunks += 1;
        }
        (bytes, chunks)
    }

    /// Whole batches from `offset` on and below `end`, about `bytes` of them. `None` when the first one is not kept.
    #[must_use]
    pub fn read(&self, offset: Offset, end: Offset, bytes: usize) -> Option<Vec<StoredBatch>> {
        let mut number = self.find(offset)?;
        let (mut read, mut taken) = (Vec::new(), 0);
        while let Some(chunk) = self.chunk(number) {
            let from = chunk.batches.partition_point(|kept| kept.header.end <= offset);
            for (place, kept) in chunk.batches.iter().enumerate().skip(from) {
                let full = !read.is_empty() && taken + kept.payload.len() > bytes;
                if full || kept.header.end > end {
                    return Some(read).filter(|read| !read.is_empty());
                }
                taken += kept.payload.len();
                let payload = Arc::new(Payload { chunk: chunk.clone(), place });
                read.push(StoredBatch::kept(kept.position, kept.header, payload, 0..kept.payload.len()));
            }
            number += 1;
        }
        Some(read).filter(|read| !read.is_empty())
    }

    /// The number of the chunk that holds `offset`.
    fn find(&self, offset: Offset) -> Option<u64> {
        let (mut low, mut high) = (self.oldest.load(Ordering::Acquire), self.next.load(Ordering::Acquire));
        while low < high {
            let middle = low + (high - low) / 2;
            match self.chunk(middle) {
                Some(chunk) if chunk.end() <= offset => low = middle + 1,
                Some(chunk) if chunk.first() > offset => high = middle,
                Some(_) => return Some(middle),
                None => low = middle + 1, // It was evicted meanwhile, and all before it.
            }
        }
        None
    }

    /// The chunk of this number, unless its slot holds another by now.
    fn chunk(&self, number: u64) -> Option<Arc<Chunk>> {
        let chunk = self.slot(number)?.load_full()?;
        (chunk.number == number).then_some(chunk)
    }

    /// The slot of a chunk of this number, once its row was made.
    fn slot(&self, number: u64) -> Option<&Slot> {
        let (row, place) = place_of(number);
        self.rows.get()?.get(row)?.get()?.get(place)
    }
}

/// The row of a chunk's slot, and its place in that.
fn place_of(number: u64) -> (usize, usize) {
    let slot = number as usize % SLOTS;
    (slot / SLOTS_OF_ROW, slot % SLOTS_OF_ROW)
}

/// What a chunk of these batches costs, in bytes.
#[must_use]
pub fn bytes_of(batches: &[Kept]) -> usize {
    batches.iter().map(|kept| kept.payload.capacity() + size_of::<Kept>()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home() -> Home {
        Home { buffers: Arc::new(ArrayQueue::new(8)), bytes_max: 1 << 20 }
    }

    fn kept(first: u64, records: u64, bytes: usize) -> Kept {
        let (first, end) = (Offset(first), Offset(first + records));
        let header = BatchHeader { first, end, records: records as u32, ..BatchHeader::default() };
        Kept { position: Position(first.0), header, payload: vec![first.0 as u8; bytes] }
    }

    fn offsets(read: Option<Vec<StoredBatch>>) -> Option<Vec<u64>> {
        read.map(|read| read.iter().map(|batch| batch.first().0).collect())
    }

    #[test]
    fn a_reader_gets_whole_batches_from_the_one_that_holds_its_offset() {
        let (cache, home) = (TailCache::default(), home());
        cache.publish(vec![kept(10, 2, 100), kept(12, 1, 100)], &home);
        cache.publish(vec![kept(13, 5, 100)], &home);
        assert_eq!(offsets(cache.read(Offset(11), Offset(18), 1000)), Some(vec![10, 12, 13]));
        assert_eq!(offsets(cache.read(Offset(12), Offset(18), 150)), Some(vec![12]));
        assert_eq!(offsets(cache.read(Offset(9), Offset(18), 1000)), None, "it begins before what is kept");
        assert_eq!(offsets(cache.read(Offset(11), Offset(13), 1000)), Some(vec![10, 12]), "the rest is not durable");
        assert_eq!(offsets(cache.read(Offset(14), Offset(13), 1000)), None);
        assert_eq!(cache.read(Offset(12), Offset(18), 1).expect("one at least")[0].payload(), [12; 100]);
    }

    #[test]
    fn what_is_pushed_out_is_not_found_and_its_buffers_are_used_again() {
        let (cache, home) = (TailCache::default(), home());
        for first in 0..SLOTS as u64 + 3 {
            cache.publish(vec![kept(first, 1, 10)], &home);
        }
        assert_eq!(offsets(cache.read(Offset(2), Offset(1000), 10)), None);
        assert_eq!(offsets(cache.read(Offset(3), Offset(1000), 10)), Some(vec![3]));
        assert_eq!(home.buffers.len(), 3);
        let held = cache.read(Offset(3), Offset(1000), 10).expect("kept");
        assert!(cache.clear().0 > 0);
        assert_eq!(held[0].payload(), [3; 10], "a reader keeps what it has");
        assert_eq!(offsets(cache.read(Offset(200), Offset(1000), 10)), None);
    }

    #[test]
    fn room_is_made_for_a_few_commits_at_a_time() {
        let (cache, home) = (TailCache::default(), home());
        let rows = |cache: &TailCache| cache.rows.get().map_or(0, |rows| rows.iter().filter_map(Row::get).count());
        assert_eq!(rows(&cache), 0);
        for first in 0..=SLOTS_OF_ROW as u64 {
            cache.publish(vec![kept(first, 1, 10)], &home);
            assert_eq!(rows(&cache), 1 + first as usize / SLOTS_OF_ROW);
        }
        assert_eq!(offsets(cache.read(Offset(SLOTS_OF_ROW as u64 - 1), Offset(1000), 20)), Some(vec![15, 16]));
    }

    #[test]
    fn readers_and_the_shard_never_wait_for_each_other() {
        let (cache, home) = (TailCache::default(), home());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for first in 0..20_000 {
                    let _ = cache.publish(vec![kept(first, 1, 8)], &home);
                }
            });
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut next = 0;
                    while next < 19_999 {
                        match cache.read(Offset(next), Offset(u64::MAX), 100) {
                            Some(read) => {
                                for batch in &read {
                                    assert_eq!(batch.payload(), [batch.first().0 as u8; 8]);
                                    assert_eq!(batch.first().0, next);
                                    next = batch.end().0;
                                }
                            }
                            None => {
                                next = next.max(cache.next.load(Ordering::Acquire).saturating_sub(SLOTS as u64 / 2))
                            }
                        }
                    }
                });
            }
        });
    }
}
