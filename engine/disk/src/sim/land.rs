//! Landing: what an operation does to the world at the moment it takes effect, faults and lies included.

use super::block::SECTOR;
use super::effect::{Effect, Place, Write};
use super::fault::What;
use super::file::{FILE_BYTES_MAX, File};
use super::flight::Flight;
use super::names::{Inode, Link};
use super::world::World;
use crate::buffer::BLOCK;
use crate::disk::{Access, EntryKind, OpenFile};
use rustix::io::Errno;
use std::rc::Rc;

/// What a landed operation answers.
#[derive(Debug)]
pub(super) enum Answer {
    Done,
    Moved(usize),
    Bytes(Vec<u8>),
    File { number: u32, length: u64, direct: bool },
    Directory { number: u32 },
}

impl World {
    /// Lands one operation.
    pub(super) fn land(&mut self, flight: &mut Flight) -> Result<Answer, Errno> {
        let result = self.carry_out(flight);
        let code = match &result {
            Ok(Answer::Bytes(bytes)) => bytes.len() as u64,
            Ok(Answer::Moved(moved)) => *moved as u64,
            Ok(_) => u64::MAX,
            Err(errno) => u64::MAX - errno.raw_os_error() as u64,
        };
        let now = self.clock.now().boot_ns;
        self.trace.note(&[flight.number, code, now], || match &result {
            Ok(Answer::Bytes(bytes)) => format!("land  {flight}: {} bytes", bytes.len()),
            result => format!("land  {flight}: {result:?}"),
        });
        result
    }

    fn carry_out(&mut self, flight: &mut Flight) -> Result<Answer, Errno> {
        if let Some(What::Errno(errno)) = flight.fate {
            if let (Errno::IO, Effect::Write(write)) = (errno, &flight.effect) {
                self.land_in_part(write, &mut flight.landed);
            }
            return Err(errno);
        }
        let skipped = self.lies.skips(flight.verb, &flight.path);
        let (started, fate) = (flight.started, flight.fate.clone());
        match &flight.effect {
            Effect::Write(write) => {
                let durable = write.durable && !skipped;
                self.land_write(write, started, fate, durable, &flight.landed).map(Answer::Moved)
            }
            Effect::Read { file, position, length, direct } => {
                self.stir(*file, *position, *length);
                let length = match strict_part(*length, *direct) {
                    part if part > 0 && fate == Some(What::Short) => part,
                    _ => *length,
                };
                Ok(Answer::Bytes(self.file(*file).read(*position, length, !direct)))
            }
            Effect::Sync { file, direct } => self.land_sync(*file, *direct, started, fate, skipped),
            Effect::Barrier { file, direct } => {
                let answer = self.land_sync(*file, *direct, started, fate, skipped)?;
                if self.options.barrier_works && !skipped {
                    self.land_barrier(started);
                }
                Ok(answer)
            }
            Effect::Allocate { file, length } => self.land_allocate(*file, *length),
            Effect::WriteZeroes { file, from, length } => self.land_write_zeroes(*file, *from, *length),
            Effect::Truncate { length, .. } if *length > FILE_BYTES_MAX => Err(Errno::FBIG),
            Effect::Truncate { file, length } => {
                let sequence = self.tick();
                self.file(*file).truncate(sequence, *length);
                Ok(Answer::Done)
            }
            Effect::SyncDirectory { directory } => {
                if !skipped {
                    self.names().sync(*directory, started);
                }
                self.forget_unreachable();
                Ok(Answer::Done)
            }
            Effect::Sleep { .. } => Ok(Answer::Done),
            effect => self.land_name(effect, flight.token.map(|_| flight.disk)),
        }
    }

    fn land_name(&mut self, effect: &Effect, disk: Option<u32>) -> Result<Answer, Errno> {
        let sequence = self.tick();
        match effect {
            Effect::Open { at, how, access } => self.land_open(at, *how, *access, disk, sequence),
            Effect::OpenDirectory { at: (directory, name) } => {
                let link = self.names.get(*directory, name)?;
                if link.kind != EntryKind::Directory {
                    return Err(Errno::NOTDIR);
                }
                self.has_a_descriptor()?;
                Ok(Answer::Directory { number: disk.map_or(0, |disk| self.handle(disk, link.inode)) })
            }
            Effect::CreateDirectory { at: (directory, name) } => {
                let link = Link { inode: self.next_inode(), kind: EntryKind::Directory };
                self.names().add(sequence, *directory, name, link)?;
                self.touched(&[link.inode, *directory])
            }
            Effect::Rename { from, to } => {
                let (from, to) = ((from.0, &*from.1), (to.0, &*to.1));
                let moved = self.names.get(from.0, from.1)?;
                self.names().rename(sequence, from, to)?;
                self.touched(&[moved.inode, from.0, to.0])
            }
            Effect::Unlink { at: (directory, name) } => {
                self.names().unlink(sequence, *directory, name)?;
                self.touched(&[*directory])
            }
            Effect::RemoveDirectory { at: (directory, name) } => {
                self.names().remove_directory(sequence, *directory, name)?;
                self.touched(&[*directory])
            }
            other => unreachable!("{other} changes no name"),
        }
    }

    fn touched(&mut self, changed: &[Inode]) -> Result<Answer, Errno> {
        changed.iter().for_each(|inode| self.touch(*inode));
        Ok(Answer::Done)
    }

    fn land_open(
        &mut self,
        (directory, name): &Place,
        how: OpenFile,
        access: Access,
        disk: Option<u32>,
        sequence: u64,
    ) -> Result<Answer, Errno> {
        // As Linux does, before the name is looked at.
        self.has_a_descriptor()?;
        let inode = match how {
            OpenFile::New => {
                let link = Link { inode: self.next_inode(), kind: EntryKind::File };
                self.names().add(sequence, *directory, name, link)?;
                self.files.insert(link.inode, Rc::new(File::default()));
                self.touch(link.inode);
                self.touch(*directory);
                link.inode
            }
            OpenFile::Existing => {
                let link = self.names.get(*directory, name)?;
                match link.kind {
                    EntryKind::File => link.inode,
                    EntryKind::Directory => return Err(Errno::ISDIR),
                    EntryKind::Symlink => return Err(Errno::LOOP),
                    EntryKind::Other => return Err(Errno::PERM),
                }
            }
        };
        let length = self.file(inode).length();
        let direct = self.options.direct && access == Access::Auto;
        Ok(Answer::File { number: disk.map_or(0, |disk| self.handle(disk, inode)), length, direct })
    }

    /// Lands a write, or what of it its fate lets land, and answers how much moved.
    fn land_write(
        &mut self,
        write: &Write,
        started: u64,
        fate: Option<What>,
        durable: bool,
        landed: &[u8],
    ) -> Result<usize, Errno> {
        match fate {
            Some(What::Nothing) => return Ok(0),
            Some(What::Misdirected) => {
                self.land_elsewhere(write, durable);
                return Ok(write.bytes.len());
            }
            _ => {}
        }
        let moved =
            if fate == Some(What::Short) { strict_part(write.bytes.len(), write.direct) } else { write.bytes.len() };
        let moved = self.room_for(write, moved)?;
        let sequence = self.tick();
        let file = self.file(write.file);
        file.write(sequence, write.position, &write.bytes[..moved], !write.direct, landed);
        match fate {
            Some(What::FailedSyncDropsDirty) => {
                file.drop_dirty(!write.direct);
                return Err(Errno::IO);
            }
            Some(What::FailedSyncDropsDevice) => {
                self.drop_dirty_everywhere(write.file, write.direct);
                return Err(Errno::IO);
            }
            _ if durable => file.harden(started, write.position, moved),
            _ => {}
        }
        Ok(moved)
    }

    fn land_sync(
        &mut self,
        file: Inode,
        direct: bool,
        started: u64,
        fate: Option<What>,
        skipped: bool,
    ) -> Result<Answer, Errno> {
        match fate {
            Some(What::FailedSyncDropsDirty) => self.file(file).drop_dirty(!direct),
            Some(What::FailedSyncDropsDevice) => self.drop_dirty_everywhere(file, direct),
            _ => {
                if !skipped {
                    self.file(file).sync(started);
                }
                return Ok(Answer::Done);
            }
        }
        Err(Errno::IO)
    }

    /// The flush of a barrier, as far as other files than its own may rely on it.
    fn land_barrier(&mut self, started: u64) {
        let passed_over = self.lies.unsynced(&self.names);
        for (inode, file) in &mut self.files {
            if file.has_loose_blocks() && !passed_over.contains(inode) {
                Rc::make_mut(file).settle_overwrites(started);
            }
        }
    }

    /// A failed flush: every file of the device loses what was not durable. Only of the file that was synced is it known
    /// whether it is read through the page cache; the others are taken to be of the same kind.
    fn drop_dirty_everywhere(&mut self, file: Inode, direct: bool) {
        let files: Vec<Inode> = self.files.keys().copied().chain([file]).collect();
        files.into_iter().for_each(|file| self.file(file).drop_dirty(!direct));
    }

    fn land_allocate(&mut self, file: Inode, length: u64) -> Result<Answer, Errno> {
        if length > FILE_BYTES_MAX {
            return Err(Errno::FBIG);
        }
        let needed = self.file(file).holes(0, length as usize) * BLOCK;
        if needed as u64 > self.free_bytes() {
            return Err(Errno::NOSPC);
        }
        let sequence = self.tick();
        self.file(file).allocate(sequence, length);
        Ok(Answer::Done)
    }

    fn land_write_zeroes(&mut self, file: Inode, from: u64, length: u64) -> Result<Answer, Errno> {
        if !self.options.write_zeroes {
            return Err(Errno::OPNOTSUPP);
        }
        if from + length > FILE_BYTES_MAX {
            return Err(Errno::FBIG);
        }
        let needed = self.file(file).holes(from, length as usize) * BLOCK;
        if needed as u64 > self.free_bytes() {
            return Err(Errno::NOSPC);
        }
        let sequence = self.tick();
        self.file(file).write(sequence, from, &vec![0; length as usize], false, &[]);
        Ok(Answer::Done)
    }

    /// How much of the first `length` bytes of a write the file system has room for: as Linux does, it takes the blocks
    /// that fit and answers a short write, and ENOSPC only when none fits.
    fn room_for(&mut self, write: &Write, length: usize) -> Result<usize, Errno> {
        if write.position + length as u64 > FILE_BYTES_MAX {
            return Err(Errno::FBIG);
        }
        let free = self.free_bytes();
        let copies = self.options.copy_on_write && length as u64 > free;
        if copies && self.random.chance(1, 2) {
            return Err(Errno::NOSPC);
        }
        let fits = |world: &mut World, length: usize| {
            (world.file(write.file).holes(write.position, length) * BLOCK) as u64 <= free
        };
        let mut fitting = length;
        while fitting > 0 && !fits(self, fitting) {
            fitting = (fitting - 1) / BLOCK * BLOCK;
        }
        if fitting == 0 && length > 0 { Err(Errno::NOSPC) } else { Ok(fitting) }
    }

    /// Lands a write at another block of the same file, or in another file; nowhere when there is no other place.
    fn land_elsewhere(&mut self, write: &Write, durable: bool) {
        let blocks = write.bytes.len().div_ceil(BLOCK) as u64;
        let mut places = Vec::new();
        for (_, inode) in self.names.files() {
            let whole = self.file(inode).length() / BLOCK as u64;
            let starts = (0..(whole + 1).saturating_sub(blocks)).map(|block| block * BLOCK as u64);
            places.extend(starts.filter(|at| inode != write.file || *at != write.position).map(|at| (inode, at)));
        }
        if places.is_empty() {
            return;
        }
        let (inode, position) = places[self.random.below(places.len())];
        let sequence = self.tick();
        let file = self.file(inode);
        file.write(sequence, position, &write.bytes, !write.direct, &[]);
        if durable {
            file.harden(sequence, position, write.bytes.len());
        }
    }

    /// Lands some sectors of a write that then fails.
    fn land_in_part(&mut self, write: &Write, landed: &mut Vec<u8>) {
        let sequence = self.tick();
        let random = &mut self.random;
        let file = Rc::make_mut(self.files.get_mut(&write.file).expect("a file in use stays"));
        let what = (write.position, &*write.bytes, !write.direct);
        file.scatter(sequence, what, landed, |_, _| random.chance(1, 2));
    }

    /// Before a read: lands some sectors of the writes in flight that it overlaps, so that it sees each old or new, and no
    /// later read sees an older state than this one did.
    fn stir(&mut self, file: Inode, position: u64, length: usize) {
        let writes = self.flights.writes_over(file, position, length);
        if writes.is_empty() {
            return;
        }
        self.sequence += 1;
        let random = &mut self.random;
        let file = Rc::make_mut(self.files.get_mut(&file).expect("a file in use stays"));
        for (write, landed) in writes {
            let what = (write.position, &*write.bytes, !write.direct);
            file.scatter(self.sequence, what, landed, |_, _| random.chance(1, 2));
        }
    }

    /// Lands an operation in flight at a power failure as far as it goes: nothing of it is durable.
    pub(super) fn land_loosely(&mut self, flight: &mut Flight) {
        if flight.fate.is_some() {
            return;
        }
        let landed = match &flight.effect {
            Effect::Write(write) => self.land_write(write, flight.started, None, false, &flight.landed).map(drop),
            Effect::Sync { .. } | Effect::Barrier { .. } | Effect::SyncDirectory { .. } => Ok(()),
            effect if effect.may_outlive_its_process() => {
                flight.token = None;
                self.carry_out(flight).map(drop)
            }
            _ => Ok(()),
        };
        // One that would have failed (no room, no such name) has changed nothing, and nobody waits for its answer.
        let _ = landed;
    }
}

/// A part of a transfer that is neither nothing nor all, where there is one that its alignment allows; else nothing.
fn strict_part(length: usize, direct: bool) -> usize {
    let unit = if direct { BLOCK } else { SECTOR };
    match length.div_ceil(unit) {
        0 | 1 if direct => 0,
        0 | 1 => length / 2,
        units => (units / 2) * unit,
    }
}
