//! T6: every single flipped bit and every length that a file can be cut to, of every file of a small store. A case is one of them.
//!
//! What is intact can be read. What is damaged is read right, or reported with its place; it is never repaired by guessing, never appended
//! over, and no segment goes because of it.

use super::tally::Tally;
use crate::harness::files::{Disk, SegmentFile};
use crate::harness::machine::{Machine, small};
use crate::harness::model::{Held, Model};
use crate::harness::step::{Ask, At, Step};
use crate::harness::violation::{Checked, broken, ensure};
use std::collections::BTreeMap;
use strandline::config::{CheckedConfig, Config, Preallocate, Sabotage};
use strandline::format::batch::{BatchHeader, HEADER_BYTES};
use strandline::manifest::state::Stage;
use strandline::{ReadError, layout};
use strandline_disk::Position;
use strandline_disk::sim::{SECTOR, SimWorld};

/// A file of up to so many bytes is cut to every length, a longer one to every multiple of a sector.
const EVERY_LENGTH_UP_TO: u64 = 32 << 10;

/// How the store was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// Closed in order: the manifest knows where each log ends.
    Closed,
    /// Killed at rest: the mark at the end of each log says that all before it was durable.
    KilledAtRest,
    /// Killed right behind its last answer.
    KilledBusy,
}

const LEFT: [Left; 3] = [Left::Closed, Left::KilledAtRest, Left::KilledBusy];

/// What happens to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// One bit, counted from the start of the file.
    Flip(u64),
    /// It ends here.
    Cut(u64),
}

/// A case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// How the store was left.
    pub left: Left,
    /// Which file is damaged.
    pub path: String,
    /// How.
    pub damage: Damage,
}

/// A batch, or a mark, where it stands.
struct Placed {
    at: Position,
    header: BatchHeader,
}

impl Placed {
    /// The position after its last byte that means anything: what follows to the next batch is under no checksum.
    fn content_end(&self) -> u64 {
        self.at.0 + HEADER_BYTES as u64 + u64::from(self.header.payload_bytes)
    }

    fn is_touched(&self, damage: Damage) -> bool {
        match damage {
            Damage::Flip(bit) => (self.at.0..self.at.plus(self.header.total_length()).0).contains(&(bit / 8)),
            Damage::Cut(length) => self.content_end() > length,
        }
    }
}

/// A store as it was left, whole.
struct Whole {
    left: Left,
    world: SimWorld,
    model: Model,
    disk: Disk,
    /// The batches of each segment's file, marks included.
    placed: BTreeMap<String, Vec<Placed>>,
}

impl Whole {
    fn live(&self) -> impl Iterator<Item = &SegmentFile> {
        self.disk.segments().iter().filter(|segment| segment.record.opening().is_some())
    }
}

impl Case {
    /// A copy of a store with this damage.
    fn damaged(&self, whole: &Whole) -> SimWorld {
        let world = whole.world.snapshot();
        match self.damage {
            Damage::Flip(bit) => world.rot(&self.path, bit / 8, 1 << (bit % 8)),
            Damage::Cut(length) => world.truncate_file(&self.path, length),
        }
        world
    }

    /// There is one copy of these: a store whose identity cannot be read is refused, and left alone.
    fn is_of_one_copy(&self) -> bool {
        [layout::FORMAT_FILE, layout::ID_FILE].contains(&&*self.path)
    }
}

/// The stores that are damaged: each case damages a copy.
pub struct Stores {
    config: CheckedConfig,
    whole: Vec<Whole>,
    files: Vec<Target>,
}

/// A damaged store, to be laid out elsewhere.
#[derive(Debug)]
pub struct Laid {
    /// What is damaged.
    pub case: Case,
    /// The configuration of its maker.
    pub config: Config,
    /// The directories of the store itself.
    pub directories: Vec<&'static str>,
    /// Its files.
    pub files: BTreeMap<String, Vec<u8>>,
    /// The directories of its live segments.
    pub live: Vec<String>,
    /// Wall ms of its maker's clock in the end.
    pub changed_ms: u64,
    /// The damage is in a file of which there is one copy: the store may be refused.
    pub may_be_refused: bool,
}

/// A file that is damaged.
struct Target {
    store: usize,
    path: String,
    length: u64,
}

impl std::fmt::Debug for Stores {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Stores({} cases)", self.cases())
    }
}

const fn append(log: usize, batches: usize) -> Step {
    Step::Append { log, batches, records: 2, bytes: 500 }
}

fn config(sabotage: Option<Sabotage>) -> Config {
    // Files that grow hold little but what was written into them.
    Config { preallocate: Preallocate::Off, batch_bytes_max: 2 << 10, sabotage, ..small() }
}

impl Stores {
    /// Makes them.
    ///
    /// # Errors
    /// When an honest history breaks a promise.
    ///
    /// # Panics
    /// When the configuration cannot work.
    pub fn new(sabotage: Option<Sabotage>) -> Checked<Stores> {
        let whole = LEFT.iter().map(|left| whole(*left)).collect::<Checked<Vec<_>>>()?;
        let (config, files) = (config(sabotage).check().expect("a configuration that works"), targets(&whole));
        Ok(Stores { config, whole, files })
    }

    /// How many cases there are.
    #[must_use]
    pub fn cases(&self) -> u64 {
        self.files.iter().map(Target::cases).sum()
    }

    /// How many of them, the first ones, do not damage the manifest.
    #[must_use]
    pub fn cases_beside_the_manifest(&self) -> u64 {
        self.files.iter().filter(|file| !file.is_manifest()).map(Target::cases).sum()
    }

    fn find(&self, mut number: u64) -> (&Whole, Case) {
        for file in &self.files {
            if number < file.cases() {
                let whole = &self.whole[file.store];
                return (whole, Case { left: whole.left, path: file.path.clone(), damage: file.damage(number) });
            }
            number -= file.cases();
        }
        panic!("there is no case {number} past the last");
    }

    /// The case of a number.
    ///
    /// # Panics
    /// When there is none.
    #[must_use]
    pub fn case(&self, number: u64) -> Case {
        self.find(number).1
    }

    /// The damaged files of a case.
    ///
    /// # Panics
    /// When there is none.
    #[must_use]
    pub fn laid(&self, number: u64) -> Laid {
        let (whole, case) = self.find(number);
        let world = case.damaged(whole);
        let live = whole.live().map(|segment| segment.path.split('/').next().unwrap_or_default().to_owned());
        Laid {
            may_be_refused: case.is_of_one_copy(),
            config: config(None),
            directories: vec![
                layout::MANIFEST_DIRECTORY,
                layout::SPARE_DIRECTORY,
                layout::TRASH_DIRECTORY,
                layout::AUDIT_DIRECTORY,
            ],
            files: contents(&world),
            live: live.collect(),
            changed_ms: whole.world.now().wall_ms,
            case,
        }
    }

    /// Runs a case.
    ///
    /// # Errors
    /// The first broken promise, with the case.
    pub fn run(&self, number: u64) -> Checked<Tally> {
        let (whole, case) = self.find(number);
        Attempt { whole, case: &case, config: &self.config }.run().map_err(|violation| {
            let seen = format!("{} (case {number}: {case:?})", violation.seen);
            crate::harness::Violation { seen, ..violation }
        })?;
        Ok(Tally { crashes: 0, dropped: 0, faults: 1 })
    }
}

/// A store with a sealed segment, one that is written, and a second log.
fn whole(left: Left) -> Checked<Whole> {
    // It is made by an engine without a defect.
    let mut machine = Machine::new(7, config(None));
    machine.open()?;
    let seal = Step::Verb { log: 0, ask: Ask::Seal };
    machine.run(&[Step::OpenLog(0), Step::OpenLog(1), Step::Answer, append(0, 3), append(1, 1), Step::Answer])?;
    machine.run(&[seal, Step::Answer, Step::Idle])?;
    for _ in 0..3 {
        machine.run(&[append(0, 1), append(1, 1), Step::Answer])?;
    }
    match left {
        Left::Closed => machine.run(&[Step::Idle]).and_then(|()| machine.close())?,
        Left::KilledAtRest => machine.run(&[Step::Idle]).and_then(|()| machine.kill())?,
        Left::KilledBusy => machine.kill()?,
    }
    machine.world.land_strays();
    let disk = Disk::look(&machine.world, &machine.config)?;
    let placed = disk.segments().iter().map(|segment| {
        let found = crate::harness::checker::walk(disk.bytes(&segment.path).unwrap_or_default(), segment.record.uid);
        (segment.path.clone(), found.into_iter().map(|(at, header)| Placed { at, header }).collect())
    });
    let placed = placed.collect();
    Ok(Whole { left, world: machine.world, model: machine.model, disk, placed })
}

/// The files that are damaged: the manifest's last, and in one store only, since it hardly differs in the others.
fn targets(whole: &[Whole]) -> Vec<Target> {
    let of_store = |(store, whole): (usize, &Whole)| {
        let files = whole.world.files().into_iter();
        files.map(|(path, length)| Target { store, path, length }).collect::<Vec<_>>()
    };
    let mut files: Vec<Target> = whole.iter().enumerate().flat_map(of_store).collect();
    files.retain(|file| !file.is_manifest() || whole[file.store].left == Left::KilledAtRest);
    files.sort_by_key(Target::is_manifest);
    files
}

impl Target {
    fn is_manifest(&self) -> bool {
        self.path.starts_with("manifest/")
    }

    /// What lies between two lengths that it is cut to.
    fn stride(&self) -> u64 {
        if self.length <= EVERY_LENGTH_UP_TO { 1 } else { SECTOR as u64 }
    }

    fn cases(&self) -> u64 {
        self.length * 8 + self.length.div_ceil(self.stride())
    }

    fn damage(&self, number: u64) -> Damage {
        let flips = self.length * 8;
        if number < flips { Damage::Flip(number) } else { Damage::Cut((number - flips) * self.stride()) }
    }
}

/// One damaged copy.
struct Attempt<'a> {
    whole: &'a Whole,
    case: &'a Case,
    config: &'a CheckedConfig,
}

impl Attempt<'_> {
    fn run(&self) -> Checked {
        let world = self.case.damaged(self.whole);
        let damaged = world.read_file(&self.case.path).unwrap_or_default();
        let mut machine = Machine::on(world, self.config.clone(), self.whole.model.clone());
        // There is one copy of these: a store whose identity cannot be read is refused, and left alone.
        machine.tolerant = self.case.is_of_one_copy();
        let before = machine.tolerant.then(|| contents(&machine.world));
        if !machine.start(None)? {
            let same = before.is_some_and(|before| contents(&machine.world) == before);
            return ensure(same, "a store that is refused is left as it was", || "files differ".to_owned());
        }
        machine.tolerant = false;
        machine.run(&[Step::OpenLog(0), Step::OpenLog(1), Step::Answer])?;
        for log in 0..machine.model.logs.len() {
            self.read_each(&mut machine, log)?;
        }
        self.go_on(&mut machine)?;
        for log in 0..machine.model.logs.len() {
            self.read_each(&mut machine, log)?;
        }
        self.nothing_is_removed(&machine)?;
        self.what_is_damaged_is_kept(&machine, &damaged)
    }

    /// Reads every batch by itself.
    fn read_each(&self, machine: &mut Machine, log: usize) -> Checked {
        for held in machine.model.logs[log].held.clone() {
            let touched = self.is_touched(machine, log, &held);
            match machine.read(log, held.first, 1)? {
                // The window of the promise: what nothing that is left proves to have been durable looks torn, and all behind it goes.
                Ok(read) if read.batches.is_empty() && touched && !self.is_proven(&held) => {
                    machine.model.log(log).held.retain(|kept| kept.first < held.first);
                    return Ok(());
                }
                Ok(read) => {
                    let promise = "nothing is cut off below what is proven to be durable";
                    ensure(!read.batches.is_empty(), promise, || format!("log {log} ends at {}", held.first))?;
                    let got = read.batches.first();
                    let right =
                        got.is_some_and(|got| (got.first(), got.payload()) == (held.first, &*held.sent.payload));
                    ensure(right, "bytes read equal bytes appended", || format!("log {log}, {}", held.first))?;
                }
                Err(ReadError::Corrupt { position, from, to, .. }) if touched => {
                    let named = from <= held.first && held.first < to && self.may_be_named(position);
                    ensure(named, "what is damaged is reported with its place", || {
                        format!("log {log}, {}: {from} to {to} at {position}", held.first)
                    })?;
                }
                Err(error) => {
                    let promise = if touched { "damage is reported" } else { "what is intact can be read" };
                    return broken(promise, format!("log {log}, {}: {error}", held.first));
                }
            }
        }
        Ok(())
    }

    /// Whether the damage is in this batch.
    fn is_touched(&self, machine: &Machine, log: usize, held: &Held) -> bool {
        let directory = machine.model.logs[log].id.to_string();
        let is_of_log = self.case.path.starts_with(&format!("{directory}-s"));
        is_of_log && self.placed().iter().any(|placed| is_at(placed, held) && placed.is_touched(self.case.damage))
    }

    fn placed(&self) -> &[Placed] {
        self.whole.placed.get(&self.case.path).map_or(&[], Vec::as_slice)
    }

    /// Whether a place may be named for the damage: that of a batch that it touches.
    fn may_be_named(&self, position: Position) -> bool {
        self.placed().iter().any(|placed| placed.at == position && placed.is_touched(self.case.damage))
    }

    /// Whether something that is left says that this batch had been durable.
    fn is_proven(&self, held: &Held) -> bool {
        let segments = self.whole.disk.segments();
        let record = segments.iter().find(|segment| segment.path == self.case.path).map(|segment| segment.record);
        if self.whole.left == Left::Closed || !matches!(record.map(|record| record.stage), Some(Stage::Live(_))) {
            return true;
        }
        let left = self.placed().iter().filter(|placed| !placed.is_touched(self.case.damage));
        let later = left.filter(|placed| placed.header.first >= held.end());
        later.map(|placed| placed.header.durable_to).max() >= Some(held.end())
    }

    /// Appends, trims nothing, rests, closes and opens: what removes has its turn.
    fn go_on(&self, machine: &mut Machine) -> Checked {
        let trim = |log| Step::Verb { log, ask: Ask::Trim(At::Start) };
        machine.run(&[append(0, 1), append(1, 1), Step::Answer, trim(0), trim(1), Step::Answer, Step::Idle])?;
        machine.close()?;
        ensure(machine.start(None)?, "the store opens again", || "it was refused".to_owned())?;
        machine.run(&[Step::OpenLog(0), Step::OpenLog(1), Step::Answer, Step::Idle])
    }

    fn nothing_is_removed(&self, machine: &Machine) -> Checked {
        let after = Disk::look(&machine.world, &machine.config)?;
        for segment in self.whole.live() {
            let known = after.segments().iter().any(|known| known.id == segment.id && known.path == segment.path);
            ensure(known && after.bytes(&segment.path).is_some(), "no live segment goes because of damage", || {
                segment.path.clone()
            })?;
        }
        Ok(())
    }

    /// A file in which something proven is damaged stays byte for byte.
    fn what_is_damaged_is_kept(&self, machine: &Machine, damaged: &[u8]) -> Checked {
        let held = self.whole.model.logs.iter().enumerate();
        let mut held = held.flat_map(|(log, of_log)| of_log.held.iter().map(move |held| (log, held)));
        if !held.any(|(log, held)| self.is_touched(machine, log, held) && self.is_proven(held)) {
            return Ok(());
        }
        let end = self.placed().iter().map(Placed::content_end).max().unwrap_or(0) as usize;
        let now = machine.world.read_file(&self.case.path).unwrap_or_default();
        let end = end.min(damaged.len());
        ensure(now.get(..end) == damaged.get(..end), "what is damaged is kept as it is", || "bytes differ".to_owned())
    }
}

fn is_at(placed: &Placed, held: &Held) -> bool {
    !placed.header.is_mark() && placed.header.first == held.first
}

fn contents(world: &SimWorld) -> BTreeMap<String, Vec<u8>> {
    let files = world.files().into_iter();
    files.map(|(path, _)| (path.clone(), world.read_file(&path).unwrap_or_default())).collect()
}
