//! Memory for reads: the bytes of one read, shared by its batches and used again by later ones.

use crossbeam_queue::ArrayQueue;
use std::ops::Deref;
use std::sync::Arc;
use strandline_disk::SharedBuffer;

/// Memory for reads, used again: fresh memory would cost a page fault for each 4 KiB that is read.
#[derive(Clone, Debug)]
pub struct ReadMemory {
    kept: Arc<ArrayQueue<Vec<u8>>>,
    bytes_max: usize,
}

impl ReadMemory {
    /// Keeps at most `pieces` pieces, each of at most `bytes_max` bytes.
    #[must_use]
    pub fn new(pieces: usize, bytes_max: usize) -> ReadMemory {
        ReadMemory { kept: Arc::new(ArrayQueue::new(pieces.max(1))), bytes_max }
    }

    /// Empty memory with room for `bytes`.
    #[must_use]
    pub fn take(&self, bytes: usize) -> ReadBytes {
        let mut memory = self.kept.pop().unwrap_or_default();
        memory.clear();
        memory.reserve(bytes);
        ReadBytes(Held::Own { bytes: memory, home: Some(self.clone()) })
    }
}

/// Bytes that several batches share, wherever they are kept.
pub trait SharedBytes: Send + Sync {
    /// The bytes.
    fn bytes(&self) -> &[u8];
}

impl SharedBytes for ReadBytes {
    fn bytes(&self) -> &[u8] {
        self
    }
}

/// The bytes of one read, shared by its batches: a piece of the disk's arena that they keep from it, or memory that goes back for use
/// again with the last of them.
#[derive(Debug)]
pub struct ReadBytes(Held);

#[derive(Debug)]
enum Held {
    Lent(SharedBuffer),
    Own { bytes: Vec<u8>, home: Option<ReadMemory> },
}

impl ReadBytes {
    /// Adds bytes to memory of its own, up to `length` in all.
    pub(crate) fn extend(&mut self, more: &[u8], length: usize) {
        if let Held::Own { bytes, .. } = &mut self.0 {
            let room = length.saturating_sub(bytes.len()).min(more.len());
            bytes.extend_from_slice(more.get(..room).unwrap_or_default());
        }
    }
}

impl From<Vec<u8>> for ReadBytes {
    fn from(bytes: Vec<u8>) -> ReadBytes {
        ReadBytes(Held::Own { bytes, home: None })
    }
}

impl From<SharedBuffer> for ReadBytes {
    fn from(buffer: SharedBuffer) -> ReadBytes {
        ReadBytes(Held::Lent(buffer))
    }
}

impl Deref for ReadBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Held::Lent(buffer) => buffer,
            Held::Own { bytes, .. } => bytes,
        }
    }
}

impl Drop for ReadBytes {
    fn drop(&mut self) {
        if let Held::Own { bytes, home: Some(home) } = &mut self.0
            && bytes.capacity() <= home.bytes_max
        {
            let _ = home.kept.push(std::mem::take(bytes));
        }
    }
}
