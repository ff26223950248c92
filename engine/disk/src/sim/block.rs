//! A block of a file, 4 KiB in 8 sectors: what is durable, what was written since, and what the page cache shows.
//!
//! It knows nothing of files, lengths or processes.
//!
//! Worked example. Sector 0 of a block is durably `A`. Write 7 puts `B` there, write 9 puts `C`; neither was synced. Then
//! `durable` = A, `current` = C, `versions` = [7: B, 9: C], and a power failure leaves any of A, B, C. A sync that had
//! started after write 7 and before write 9 settles through 7: `durable` = B, `versions` = [9: C].

use crate::buffer::BLOCK;
use std::rc::Rc;

/// The sector: what the medium writes whole or not at all, in bytes.
pub const SECTOR: usize = 512;

/// Sectors of a block.
pub(super) const SECTORS: usize = BLOCK / SECTOR;

/// All sectors of a block, as a mask.
pub(super) const ALL: u8 = 0xff;

/// The bytes of one block. `None` reads as zeros.
pub(super) type Content = Option<Rc<[u8]>>;

/// What the file system knows of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Extent {
    /// A hole.
    #[default]
    Unallocated,
    /// Preallocated, reads as zeros.
    Unwritten,
    Written,
}

/// One undurable change of a block.
#[derive(Clone, Debug)]
struct Version {
    sequence: u64,
    mask: u8,
    content: Content,
    made: Made,
}

/// How a version came about: that decides what takes it along to the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Made {
    /// By a write.
    Written,
    /// By a direct write into a block that was anchored then: a barrier takes it along.
    Overwritten,
    /// By a truncation: it persists exactly when the new length does.
    Cut,
}

impl Version {
    fn is_cut(&self) -> bool {
        self.made == Made::Cut
    }

    fn is_settled_by_barrier(&self, through: u64) -> bool {
        self.made == Made::Overwritten && self.sequence <= through
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Block {
    durable: Content,
    current: Content,
    /// What the page cache shows where it differs from the device: only after a failed sync dropped dirty bytes.
    cached: Content,
    versions: Vec<Version>,
    extent: Extent,
    durable_extent: Extent,
    extent_sequence: u64,
    /// Written, and then made durable by a sync or a durable write of this very file: what a barrier may rely on.
    anchored: bool,
}

impl Block {
    pub(super) fn is_allocated(&self) -> bool {
        self.extent != Extent::Unallocated
    }

    pub(super) fn is_written(&self) -> bool {
        self.extent == Extent::Written
    }

    pub(super) fn is_anchored(&self) -> bool {
        self.anchored
    }

    pub(super) fn is_loose(&self) -> bool {
        !self.versions.is_empty() || self.extent != self.durable_extent
    }

    /// True while a change of its extent, or what a truncation cut off, is not durable.
    pub(super) fn has_pending_extent(&self) -> bool {
        self.extent != self.durable_extent || self.versions.iter().any(Version::is_cut)
    }

    /// True when the page cache shows other bytes than the device has.
    pub(super) fn has_cache(&self) -> bool {
        self.cached.is_some()
    }

    /// What a read gives: of the page cache when `buffered`, else of the device.
    pub(super) fn read(&self, buffered: bool) -> Option<&[u8]> {
        let content = if buffered && self.cached.is_some() { &self.cached } else { &self.current };
        content.as_deref()
    }

    pub(super) fn durable(&self) -> Option<&[u8]> {
        self.durable.as_deref()
    }

    /// Writes `bytes` at `within`, in the sectors of `only`. Nothing of it is durable yet.
    pub(super) fn write(&mut self, sequence: u64, within: usize, bytes: &[u8], buffered: bool, only: u8) {
        let touched = mask_of(within, bytes.len()) & only;
        if touched == 0 {
            return;
        }
        // Write-back is by whole pages: touching a page whose dirty bytes a failed sync dropped writes those bytes again.
        let whole_page = buffered && self.cached.is_some();
        let content = if touched == ALL && bytes.len() == BLOCK {
            Rc::from(bytes)
        } else {
            let mut page = page_of(self.read(buffered));
            patch(&mut page, within, bytes, touched);
            page
        };
        self.cached = None;
        self.current = Some(content.clone());
        let made = if self.anchored && !buffered { Made::Overwritten } else { Made::Written };
        self.push(sequence, if whole_page { ALL } else { touched }, Some(content), made);
        if self.extent != Extent::Written {
            (self.extent, self.extent_sequence) = (Extent::Written, sequence);
        }
    }

    /// Makes a hole an unwritten extent.
    pub(super) fn allocate(&mut self, sequence: u64) {
        if self.extent == Extent::Unallocated {
            (self.extent, self.extent_sequence) = (Extent::Unwritten, sequence);
        }
    }

    /// Cuts off what stands at `within` and after it; at 0 the whole block becomes a hole.
    pub(super) fn cut(&mut self, sequence: u64, within: usize) {
        if !self.is_allocated() {
            return;
        }
        self.cached = None;
        if within == 0 {
            self.current = None;
            (self.extent, self.extent_sequence) = (Extent::Unallocated, sequence);
            self.anchored = false;
            self.push(sequence, ALL, None, Made::Cut);
        } else if self.current.is_some() {
            let mut page = page_of(self.current.as_deref());
            writable(&mut page)[within..].fill(0);
            self.current = Some(page.clone());
            self.push(sequence, mask_of(within, BLOCK - within), Some(page), Made::Cut);
        }
    }

    fn push(&mut self, sequence: u64, mask: u8, content: Content, made: Made) {
        self.versions.push(Version { sequence, mask, content, made });
    }

    /// Makes durable what was written up to and with `through`.
    pub(super) fn settle(&mut self, through: u64) {
        let settled = self.versions.partition_point(|version| version.sequence <= through);
        let mut last = None;
        for version in self.versions.drain(..settled) {
            last = Some(version.is_cut());
            self.durable = overlay(&self.durable, version.mask, &version.content);
        }
        // The extent changed again after `through`: then the last version that is settled tells what it was then.
        self.durable_extent = match last {
            _ if self.extent_sequence <= through => self.extent,
            Some(false) => Extent::Written,
            Some(true) => Extent::Unallocated,
            None => self.durable_extent,
        };
        if self.durable_extent != Extent::Written {
            self.durable = None;
        }
        self.anchored |= self.durable_extent == Extent::Written && self.extent == Extent::Written;
    }

    /// A barrier makes the direct overwrites durable that had landed up to and with `through`. What was written to their
    /// sectors before them is gone, as it is from the page cache when a direct write comes.
    pub(super) fn settle_overwrites(&mut self, through: u64) {
        while let Some(overwritten) = self.versions.iter().position(|version| version.is_settled_by_barrier(through)) {
            let Version { sequence, mask, content, .. } = self.versions.remove(overwritten);
            self.durable = overlay(&self.durable, mask, &content);
            self.forget(mask, |version| version.sequence <= sequence);
        }
    }

    /// Makes the bytes at `within` durable as they now stand, and the extent with them: the end of a durable write.
    pub(super) fn harden(&mut self, within: usize, length: usize) {
        let mask = mask_of(within, length);
        self.durable = overlay(&self.durable, mask, &self.current);
        self.forget(mask, |_| true);
        self.durable_extent = Extent::Written;
        self.anchored = true;
    }

    /// A sync failed: the device never gets the bytes that were not durable. With `buffered`, the page cache goes on
    /// showing them, clean, so that no later sync writes them.
    pub(super) fn drop_dirty(&mut self, buffered: bool) {
        let dirty =
            self.versions.iter().filter(|version| !version.is_cut()).fold(0, |mask, version| mask | version.mask);
        if dirty == 0 {
            return;
        }
        if buffered && self.cached.is_none() {
            self.cached = Some(page_of(self.current.as_deref()));
        }
        self.current = overlay(&self.current, dirty, &self.durable);
        self.versions.retain(Version::is_cut);
    }

    /// Evicts the clean page: reads show the device again.
    pub(super) fn evict(&mut self) {
        self.cached = None;
    }

    /// Calls `see(sequence, sector)` for every undurable sector of every version. What a truncation made is left out: it
    /// follows the length.
    pub(super) fn each_loose(&self, mut see: impl FnMut(u64, usize)) {
        for version in self.versions.iter().filter(|version| !version.is_cut()) {
            for sector in (0..SECTORS).filter(|sector| version.mask >> sector & 1 == 1) {
                see(version.sequence, sector);
            }
        }
    }

    /// Loses some sectors of the version `sequence`.
    pub(super) fn lose(&mut self, sequence: u64, mask: u8) {
        self.forget(mask, |version| version.sequence == sequence && !version.is_cut());
    }

    /// Loses what the truncation `sequence` did.
    pub(super) fn lose_cut(&mut self, sequence: u64) {
        self.forget(ALL, |version| version.sequence == sequence && version.is_cut());
    }

    fn forget(&mut self, mask: u8, of: impl Fn(&Version) -> bool) {
        for version in self.versions.iter_mut().filter(|version| of(version)) {
            version.mask &= !mask;
        }
        self.versions.retain(|version| version.mask != 0);
    }

    /// The power fails: what has not been lost by now is durable. (The cache is evicted by the caller.) The last version that is left
    /// decides the extent, because the conversion and the data persist together or the block reads as zeros.
    pub(super) fn collapse(&mut self, keep_allocation: bool) {
        let allocated = keep_allocation && self.extent == Extent::Unwritten;
        // A cut within the block leaves its extent alone, so it is passed over here.
        let extent = match self.versions.iter().rev().find(|version| !version.is_cut() || version.content.is_none()) {
            Some(version) if !version.is_cut() => Extent::Written,
            Some(version) if version.mask != ALL => self.durable_extent,
            Some(_) if allocated => Extent::Unwritten,
            Some(_) => Extent::Unallocated,
            None if allocated && self.durable_extent == Extent::Unallocated => Extent::Unwritten,
            None => self.durable_extent,
        };
        self.extent = extent;
        self.extent_sequence = 0;
        self.settle(u64::MAX);
        self.current = self.durable.clone();
    }

    /// Changes the bytes of every state alike, as damage on the medium does.
    pub(super) fn damage(&mut self, change: impl Fn(&mut [u8])) {
        let alter = |content: &mut Content| {
            let mut page = page_of(content.as_deref());
            change(writable(&mut page));
            *content = Some(page);
        };
        alter(&mut self.durable);
        alter(&mut self.current);
        self.versions.iter_mut().for_each(|version| alter(&mut version.content));
        self.cached = None;
        (self.extent, self.durable_extent) = (Extent::Written, Extent::Written);
    }
}

/// The sectors that `length` bytes at `within` touch.
pub(super) fn mask_of(within: usize, length: usize) -> u8 {
    if length == 0 {
        return 0;
    }
    let (first, last) = (within / SECTOR, (within + length - 1) / SECTOR);
    (ALL >> (SECTORS - 1 - last)) & (ALL << first)
}

/// A copy of the bytes, alone in its allocation.
fn page_of(bytes: Option<&[u8]>) -> Rc<[u8]> {
    match bytes {
        Some(bytes) => Rc::from(bytes),
        None => Rc::from([0; BLOCK].as_slice()),
    }
}

fn writable(page: &mut Rc<[u8]>) -> &mut [u8] {
    Rc::get_mut(page).expect("a page just made has one owner")
}

/// Puts the part of `bytes` (which stand at `within`) that lies in the sectors of `mask` into the page.
fn patch(page: &mut Rc<[u8]>, within: usize, bytes: &[u8], mask: u8) {
    let page = writable(page);
    for sector in (0..SECTORS).filter(|sector| mask >> sector & 1 == 1) {
        let from = (sector * SECTOR).max(within);
        let to = ((sector + 1) * SECTOR).min(within + bytes.len());
        page[from..to].copy_from_slice(&bytes[from - within..to - within]);
    }
}

/// `base` with the sectors of `mask` taken from `over`.
fn overlay(base: &Content, mask: u8, over: &Content) -> Content {
    if mask == ALL {
        return over.clone();
    }
    let mut page = page_of(base.as_deref());
    match over.as_deref() {
        Some(over) => patch(&mut page, 0, over, mask),
        None => patch(&mut page, 0, &[0; BLOCK], mask),
    }
    Some(page)
}
