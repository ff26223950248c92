//! T2: kill -9. A child appends to real files and is killed at a random moment, over and over in one directory. What it had told of as
//! acknowledged is there, what is there is an unbroken prefix, and appends go on behind it. What the host refuses is a panic.

use super::tally::Tally;
use crate::harness::violation::{Checked, broken, ensure};
use crate::real::{self, Random, bytes_of, log_of, open, place};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;
use strandline::config::Sabotage;
use strandline::{Batch, Config, Log, Offset, Record, Store, StoredBatch};
use tempfile::TempDir;

/// Tells the child where the store is, which life it is, and whether it is to have a defect.
const ROOT: &str = "STRANDLINE_KILL_ROOT";
const LIFE: &str = "STRANDLINE_KILL_LIFE";
const DEFECT: &str = "STRANDLINE_KILL_DEFECT";
const LOGS: [&str; 2] = ["left", "right"];
/// How many appends of each log the child keeps outstanding.
const OUTSTANDING: usize = 8;
/// A directory is looked at from front to end once in so many cycles.
const WHOLE_EVERY: u64 = 25;
/// After so many cycles a new directory begins.
const CYCLES_MAX: u64 = 300;

fn config(root: &Path) -> Config {
    Config { lock_wait: Duration::from_secs(30), manifest_bytes: 4 << 20, ..real::small(root) }
}

/// What batch `number` of `life` in `log` holds: one to three records that say so, of a length that differs.
fn batch(log: &Log, which: usize, life: u64, number: u64) -> Batch {
    let mut builder = log.batch();
    for record in 0..number % 3 + 1 {
        builder.push(&Record { value: Some(&value(which, life, number, record)), ..Record::default() }).expect("room");
    }
    let mut host = [0; 32];
    host[..8].copy_from_slice(&life.to_le_bytes());
    host[8..16].copy_from_slice(&number.to_le_bytes());
    builder.set_host_bytes(host);
    builder.build().expect("records")
}

fn value(which: usize, life: u64, number: u64, record: u64) -> Vec<u8> {
    let seed = life << 40 | number << 8 | record << 4 | which as u64;
    bytes_of(seed, (seed.wrapping_mul(0x9e37_79b9) >> 7) as usize % 700)
}

/// What was told of as acknowledged is there.
pub const KEPT: &str = "what was acknowledged before a kill is there";
const RIGHT: &str = "bytes read equal bytes appended";
const PREFIX: &str = "what a life left is an unbroken prefix of what it appended";

/// The life and the number that a batch says it has; its records must be those of [`batch`].
fn verify(which: usize, batch: &StoredBatch) -> Checked<(u64, u64)> {
    let host = batch.host_bytes();
    let number_at = |at: usize| u64::from_le_bytes(host[at..at + 8].try_into().expect("8 bytes"));
    let (life, number) = (number_at(0), number_at(8));
    let count = u64::from(batch.record_count());
    ensure(count == number % 3 + 1, RIGHT, || format!("{count} records in batch {number}"))?;
    for (record, stored) in batch.records().enumerate() {
        let at = batch.first().plus(record as u64);
        let stored = stored.or_else(|error| broken(RIGHT, format!("{at}: {error}")))?;
        let same = stored.value == Some(&value(which, life, number, record as u64)[..]);
        ensure(same && stored.offset == at, RIGHT, || format!("record {record} of batch {number} at {at}"))?;
    }
    Ok((life, number))
}

/// The child. It does nothing unless it is told where the store is; then it appends until it is killed.
///
/// # Panics
/// When an append fails.
pub fn child() {
    let Ok(root) = std::env::var(ROOT) else { return };
    let sabotage = std::env::var(DEFECT).is_ok().then_some(Sabotage::AnswerBeforeCompletion);
    let store = open(Config { sabotage, ..config(Path::new(&root)) });
    let logs = LOGS.map(|name| log_of(&store, name));
    let life = std::env::var(LIFE).ok().and_then(|text| text.parse().ok()).expect("a number");
    let mut waiting = std::collections::VecDeque::new();
    let mut out = std::io::stderr();
    for number in 0_u64.. {
        for (which, log) in logs.iter().enumerate() {
            waiting.push_back((which, number, log.append(batch(log, which, life, number)).expect("room")));
        }
        while waiting.len() >= 2 * OUTSTANDING {
            let Some((which, number, pending)) = waiting.pop_front() else { break };
            let receipt = pending.wait().expect("an append");
            let line = format!("ack {which} {} {} {life} {number}\n", receipt.first, receipt.end);
            out.write_all(line.as_bytes()).expect("the parent listens");
        }
    }
}

/// A child that is killed and waited for, however the test ends.
struct Victim {
    child: Child,
    told: Option<BufReader<ChildStderr>>,
}

impl Victim {
    fn start(mut command: Command, root: &Path, life: u64) -> Victim {
        let mut child = command
            .env(ROOT, root)
            .env(LIFE, life.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("a child");
        let told = child.stderr.take().map(BufReader::new);
        Victim { child, told }
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Kills it at a random moment after its first acknowledgement, sometimes after it was stopped; gives all that it told.
    fn kill(mut self, random: &mut Random) -> Vec<String> {
        let mut told = self.told.take().expect("taken once");
        let mut first = String::new();
        told.read_line(&mut first).expect("a line");
        // Its pipe must not fill up while it is to be busy.
        let rest = std::thread::spawn(move || {
            let lines = told.lines().map_while(Result::ok).map(|line| line + "\n");
            lines.collect::<Vec<_>>()
        });
        std::thread::sleep(Duration::from_micros(random.below(60_000)));
        let stopped = random.below(5) == 0;
        if stopped {
            kill_process(self.pid(), Signal::STOP).expect("it runs");
            std::thread::sleep(Duration::from_millis(random.below(20)));
        }
        if stopped && random.below(2) == 0 {
            kill_process(self.pid(), Signal::CONT).expect("it is stopped");
            std::thread::sleep(Duration::from_millis(random.below(10)));
        }
        self.child.kill().expect("it runs");
        let status = self.child.wait().expect("a status");
        let mut lines = vec![first];
        lines.extend(rest.join().expect("no panic"));
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9), "it ended by itself: {lines:?}");
        lines
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What is known of one log: for each acknowledged batch its first offset, its end, and who it is.
#[derive(Debug, Default)]
struct Known {
    acknowledged: BTreeMap<u64, (u64, u64, u64)>,
    /// Up to here everything was looked at before the last kill.
    checked: u64,
    end: u64,
}

impl Known {
    fn note(&mut self, line: &str) -> Option<()> {
        let mut numbers = line.trim_end().split(' ').skip(2).map(str::parse::<u64>);
        let mut next = || numbers.next()?.ok();
        let (first, end, life, number) = (next()?, next()?, next()?, next()?);
        self.acknowledged.insert(first, (end, life, number));
        Some(())
    }

    /// Looks at everything from `from` on: in order, whole, nothing acknowledged missing.
    fn check(&mut self, which: usize, log: &Log, from: u64) -> Checked<u64> {
        let read = real::read_from(log, Offset(from));
        let batches = read.or_else(|error| broken("what is there can be read", format!("from {from}: {error}")))?;
        let mut end = from;
        let mut last: Option<(u64, u64)> = None;
        let mut wanted = self.acknowledged.range(from..);
        let mut next_wanted = wanted.next();
        let mut bytes = 0;
        for batch in &batches {
            let follows = batch.first().0 == end;
            ensure(follows, "offsets are contiguous", || format!("{} stands where {end} was due", batch.first()))?;
            end = batch.end().0;
            let (life, number) = verify(which, batch)?;
            let is_next = match last.filter(|(before, _)| *before == life) {
                Some((_, before)) => number == before + 1,
                None => last.is_none() || number == 0,
            };
            ensure(is_next, PREFIX, || format!("batch {number} of life {life} stands behind {last:?}"))?;
            last = Some((life, number));
            if next_wanted.is_some_and(|(first, _)| *first == batch.first().0) {
                let same = next_wanted.map(|(_, wanted)| *wanted) == Some((end, life, number));
                ensure(same, KEPT, || format!("{next_wanted:?}, and there is {:?}", (end, life, number)))?;
                next_wanted = wanted.next();
            }
            bytes += batch.payload().len() as u64;
        }
        ensure(next_wanted.is_none(), KEPT, || format!("{next_wanted:?}, and the log ends at {end}"))?;
        (self.checked, self.end) = (self.end, end);
        Ok(bytes)
    }
}

/// Opens the store, checks both logs, and appends a batch to each.
fn check(root: &Path, known: &mut [Known; 2], whole: bool, life: u64) -> Checked<(Store, u64)> {
    let opened = Store::open(config(root));
    let store = opened.or_else(|error| broken("the store opens after a kill", error.to_string()))?;
    let report = store.report();
    ensure(report.damaged.is_empty(), "a kill damages nothing", || format!("{report:?}"))?;
    let mut bytes = 0;
    for (which, known) in known.iter_mut().enumerate() {
        let log = log_of(&store, LOGS[which]);
        let from = if whole { 0 } else { known.checked };
        bytes += known.check(which, &log, from)?;
        let receipt = log.append(batch(&log, which, life, 0)).expect("room").wait().expect("an append");
        let (first, end) = (receipt.first.0, known.end);
        ensure(first == end, "appends go on where the log ends", || format!("at {first}, and it ended at {end}"))?;
        known.acknowledged.insert(receipt.first.0, (receipt.end.0, life, 0));
        known.end = receipt.end.0;
    }
    Ok((store, bytes))
}

/// What cycles came to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sums {
    /// Cycles.
    pub cycles: u64,
    /// Batches that were acknowledged, and found.
    pub acknowledged: u64,
    /// Payload bytes that were looked at.
    pub bytes: u64,
    /// Bytes past the end that recoveries cleared.
    pub torn_bytes: u64,
    /// Cycles in which they cleared some.
    pub torn: u64,
}

/// A directory in which children live and die.
pub struct Kills {
    child: Box<dyn Fn() -> Command>,
    random: Random,
    place: TempDir,
    known: [Known; 2],
    /// Cycles in this directory.
    cycle: u64,
    sums: Sums,
}

impl std::fmt::Debug for Kills {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Kills({}, {:?})", self.place.path().display(), self.sums)
    }
}

impl Kills {
    /// `child` is a command that runs [`child`]; the moments follow from the seed as far as the host's clock lets them.
    #[must_use]
    pub fn new(seed: u64, child: impl Fn() -> Command + 'static) -> Kills {
        let (child, random) = (Box::new(child), Random(seed));
        Kills { child, random, place: place(), known: Default::default(), cycle: 0, sums: Sums::default() }
    }

    /// A command whose child has a defect: it is answered before its writes have completed.
    #[must_use]
    pub fn with_a_defect(mut command: Command) -> Command {
        command.env(DEFECT, "1");
        command
    }

    /// What all cycles came to.
    #[must_use]
    pub fn sums(&self) -> Sums {
        self.sums
    }

    /// One life of a child, and a look at what it left.
    ///
    /// # Errors
    /// The first broken promise.
    ///
    /// # Panics
    /// When the host refuses something, or the child says what it should not.
    pub fn cycle(&mut self) -> Checked<Tally> {
        if self.cycle == CYCLES_MAX {
            self.look_at_all()?;
            (self.place, self.known, self.cycle) = (place(), Default::default(), 0);
        }
        let life = 2 * self.cycle;
        for line in Victim::start((self.child)(), self.place.path(), life).kill(&mut self.random) {
            // The last line may have been cut by the kill, and a panic of the child is no acknowledgement.
            let which = line.strip_prefix("ack ").and_then(|rest| rest.chars().next()?.to_digit(10));
            match which.filter(|_| line.ends_with('\n')) {
                Some(which) => {
                    self.known[which as usize].note(&line).expect("four numbers");
                    self.sums.acknowledged += 1;
                }
                None => ensure(!line.contains("panicked"), "nothing panics", || line)?,
            }
        }
        self.cycle += 1;
        let (store, read) =
            check(self.place.path(), &mut self.known, self.cycle.is_multiple_of(WHOLE_EVERY), life + 1)?;
        let torn = store.report().torn_bytes;
        self.sums.cycles += 1;
        self.sums.torn_bytes += torn;
        self.sums.torn += u64::from(torn > 0);
        self.sums.bytes += read;
        // Sometimes the next life finds a store that was closed, sometimes one that was dropped.
        if self.random.below(2) == 0 {
            store.close().expect("a clean close")
        } else {
            drop(store)
        }
        Ok(Tally { crashes: 1, ..Tally::default() })
    }

    /// Looks at everything that was ever acknowledged in this directory.
    ///
    /// # Errors
    /// The first broken promise.
    ///
    /// # Panics
    /// When the store does not close.
    pub fn look_at_all(&mut self) -> Checked {
        if self.cycle > 0 {
            let life = 2 * self.cycle + 1;
            let (store, read) = check(self.place.path(), &mut self.known, true, life)?;
            self.sums.bytes += read;
            self.cycle += 1;
            store.close().expect("a clean close");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The check itself: it must notice what it is there for.
    #[test]
    fn a_lost_or_changed_acknowledgement_is_noticed() {
        let place = place();
        let store = open(config(place.path()));
        let log = log_of(&store, LOGS[0]);
        let mut known = Known::default();
        for number in 0..20 {
            let receipt = log.append(batch(&log, 0, 7, number)).expect("room").wait().expect("an append");
            known.acknowledged.insert(receipt.first.0, (receipt.end.0, 7, number));
            known.end = receipt.end.0;
        }
        known.check(0, &log, 0).expect("all is well");
        let noticed = |change: &dyn Fn(&mut Known)| {
            let mut changed = Known { acknowledged: known.acknowledged.clone(), ..Known::default() };
            change(&mut changed);
            changed.check(0, &log, 0).err().map(|violation| violation.promise)
        };
        assert_eq!(noticed(&|_| {}), None);
        assert_eq!(noticed(&|known| note(known, 1_000, (1_001, 7, 20))), Some(KEPT), "one is missing");
        assert_eq!(noticed(&|known| note(known, 0, (1, 7, 1))), Some(KEPT), "another one stands there");
        assert_eq!(noticed(&|known| note(known, 2, (3, 7, 1))), Some(KEPT), "none begins there");
        // A batch that no child would write, and a number that is left out.
        log.append(real::one(&log, b"strange")).expect("room").wait().expect("an append");
        assert_eq!(noticed(&|_| {}), Some(RIGHT));
    }

    fn note(known: &mut Known, first: u64, rest: (u64, u64, u64)) {
        known.acknowledged.insert(first, rest);
    }
}
