//! Crashes: a process that dies, and a machine that loses power. List what is loose, choose what stays, lose the rest.

use super::file::Change;
use super::names::Inode;
use super::random::Random;
use super::world::World;
use std::collections::BTreeSet;
use std::rc::Rc;

/// What a power failure does with the changes that are not durable. They are numbered from 0, oldest first; those of one
/// operation stand together, sector by sector. Some imply others and then keep them too: a length implies the earlier
/// lengths of its file, a change of a name the earlier ones of that name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Any subset, as the seed chooses; often whole operations, often torn ones, sometimes all or none.
    Random,
    /// Nothing stays.
    DropAll,
    /// Everything stays, operations in flight included.
    KeepAll,
    /// The oldest stay, up to a place that the seed chooses: a disk that keeps the order.
    Prefix,
    /// The oldest so many stay.
    First(usize),
    /// Only this one stays.
    Only(usize),
    /// All stay but this one.
    AllBut(usize),
    /// Change k stays where bit k is set; from the 65th on nothing stays. For trying every subset.
    Subset(u64),
}

/// A change that is not durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Loose {
    sequence: u64,
    of: Of,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Of {
    File(Inode, Change),
    /// A change of names, by its place among those that are not durable.
    Name(usize),
}

impl Of {
    /// True for two sectors of one block.
    fn is_beside(self, other: Of) -> bool {
        match (self, other) {
            (Of::File(file, Change::Sector { block, .. }), Of::File(other, Change::Sector { block: of, .. })) => {
                file == other && block == of
            }
            _ => false,
        }
    }

    /// Its bit among those beside it.
    fn bit(self) -> u8 {
        match self {
            Of::File(_, Change::Sector { sector, .. }) => 1 << sector,
            _ => 1,
        }
    }
}

impl World {
    /// The process dies: see [`super::SimWorld::kill`].
    pub(super) fn kill(&mut self) {
        self.life += 1;
        self.handles.clear();
        let mut flights = self.flights.take_all();
        self.shuffle(&mut flights);
        let mut landed = 0;
        for mut flight in flights {
            flight.token = None;
            match self.random.below(4) {
                _ if !flight.effect.may_outlive_its_process() => {}
                // It had not been submitted yet, or the kernel cancelled it.
                0 => {}
                1 => self.flights.add(flight),
                _ => {
                    landed += 1;
                    // Nobody is left to be told.
                    let _ = self.land(&mut flight);
                }
            }
        }
        let left = self.flights.iter().count();
        self.trace.note(&[landed, left as u64], || format!("kill: {landed} landed, {left} still in flight"));
        self.forget_unreachable();
    }

    /// The power fails: see [`super::SimWorld::power_failure`].
    pub(super) fn power_failure(&mut self, loss: Loss) {
        let loose = self.loosen(matches!(loss, Loss::Random));
        let mut kept = choose(&loose, loss, &mut self.random);
        close_lengths(&loose, &mut kept);
        let count = kept.iter().filter(|kept| **kept).count();
        let bits = kept.iter().fold(0u64, |bits, kept| bits.rotate_left(1) ^ u64::from(*kept));
        self.trace.note(&[loose.len() as u64, bits], || format!("power failure: kept {count} of {}", loose.len()));
        self.lost += (loose.len() - count) as u64;
        self.lose(&loose, &kept);
        self.collapse(loss);
        self.life += 1;
        self.handles.clear();
        self.flights.take_all();
        let off_ms = 1_000 + self.random.below(60_000) as u64;
        self.clock.reboot(off_ms);
        self.forget_unreachable();
    }

    /// Lands all that is in flight as far as a power failure might find it landed, and lists what is not durable.
    pub(super) fn loosen(&mut self, any_order: bool) -> Vec<Loose> {
        let mut flights = self.flights.take_all();
        if any_order {
            self.shuffle(&mut flights);
        }
        flights.iter_mut().for_each(|flight| self.land_loosely(flight));
        let mut loose = Vec::new();
        for (inode, file) in &self.files {
            file.each_loose(|sequence, change| loose.push(Loose { sequence, of: Of::File(*inode, change) }));
        }
        let names = self.names.loose().enumerate();
        loose.extend(names.map(|(index, sequence)| Loose { sequence, of: Of::Name(index) }));
        loose.sort_unstable();
        loose
    }

    fn lose(&mut self, loose: &[Loose], kept: &[bool]) {
        let mut names = vec![false; self.names.loose().count()];
        let mut rest = kept.iter();
        for group in loose.chunk_by(|one, other| one.sequence == other.sequence && one.of.is_beside(other.of)) {
            let lost = group.iter().zip(&mut rest).filter(|(_, kept)| !**kept).map(|(change, _)| change.of);
            let mask = lost.fold(0u8, |mask, of| mask | of.bit());
            match group[0].of {
                Of::Name(index) => names[index] = mask == 0,
                Of::File(..) if mask == 0 => {}
                Of::File(file, Change::Length) => self.file(file).lose_length(group[0].sequence),
                Of::File(file, Change::Sector { block, .. }) => {
                    self.file(file).lose_sectors(group[0].sequence, block, mask);
                }
            }
        }
        self.names.close(&mut names);
        self.names().collapse(&names);
    }

    fn collapse(&mut self, loss: Loss) {
        for file in self.files.values_mut().filter(|file| file.is_loose()) {
            let keep_allocation = match loss {
                Loss::KeepAll => true,
                Loss::Random => self.random.chance(1, 2),
                _ => false,
            };
            Rc::make_mut(file).collapse(keep_allocation);
        }
    }
}

/// Chooses what stays.
fn choose(loose: &[Loose], loss: Loss, random: &mut Random) -> Vec<bool> {
    let count = loose.len();
    let first = |first: usize| (0..count).map(|index| index < first).collect();
    match loss {
        Loss::Random => choose_any(loose, random),
        Loss::DropAll => first(0),
        Loss::KeepAll => first(count),
        Loss::Prefix => first(random.below(count + 1)),
        Loss::First(kept) => first(kept),
        Loss::Only(only) => (0..count).map(|index| index == only).collect(),
        Loss::AllBut(lost) => (0..count).map(|index| index != lost).collect(),
        Loss::Subset(bits) => (0..count).map(|index| index < 64 && bits >> index & 1 == 1).collect(),
    }
}

/// A fair coin per sector would hardly ever keep a write of 100 sectors whole, or lose it whole; those are the crashes that
/// matter most. So each operation is kept, lost, torn evenly or torn with the bias of this crash, one time in four each.
fn choose_any(loose: &[Loose], random: &mut Random) -> Vec<bool> {
    match random.below(8) {
        0 => return choose(loose, Loss::DropAll, random),
        1 => return choose(loose, Loss::KeepAll, random),
        2 => return choose(loose, Loss::Prefix, random),
        _ => {}
    }
    let bias = [1, 8, 15][random.below(3)];
    let mut kept = Vec::with_capacity(loose.len());
    for operation in loose.chunk_by(|one, other| one.sequence == other.sequence) {
        let hits = [0, 16, 8, bias][random.below(4)];
        kept.extend(operation.iter().map(|_| random.chance(hits, 16)));
    }
    kept
}

/// A length that stays keeps the earlier ones of its file, and so what truncations cut off: the length is one number of
/// the inode, and its history is written in order.
fn close_lengths(loose: &[Loose], kept: &mut [bool]) {
    let mut later: BTreeSet<Inode> = BTreeSet::new();
    for (change, kept) in loose.iter().zip(kept).rev() {
        if let Of::File(inode, Change::Length) = change.of {
            *kept |= later.contains(&inode);
            if *kept {
                later.insert(inode);
            }
        }
    }
}
