//! Fault: which operation of a file system goes wrong, how, and how often. It only counts and picks. Pure.

use rustix::io::Errno;
use serde::Serialize;
use std::fmt;
use std::time::Duration;

/// A kind of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Bytes are read.
    Read,
    /// Bytes are written.
    Write,
    /// Bytes are written, and durable before the answer.
    DurableWrite,
    /// A file is synced.
    Sync,
    /// A directory is synced.
    SyncDirectory,
    /// Room is allocated, or given back in the middle.
    Allocate,
    /// A file's length is set.
    Truncate,
    /// A file is made.
    Create,
    /// A file that is there is opened.
    Open,
    /// A directory is made.
    MakeDirectory,
    /// A directory is listed.
    List,
    /// Something is renamed.
    Rename,
    /// A file's name is removed.
    Unlink,
    /// A directory is removed.
    RemoveDirectory,
    /// Anything that changes or syncs.
    Change,
}

/// All of them.
pub const KINDS: [Kind; 15] = [
    Kind::Read,
    Kind::Write,
    Kind::DurableWrite,
    Kind::Sync,
    Kind::SyncDirectory,
    Kind::Allocate,
    Kind::Truncate,
    Kind::Create,
    Kind::Open,
    Kind::MakeDirectory,
    Kind::List,
    Kind::Rename,
    Kind::Unlink,
    Kind::RemoveDirectory,
    Kind::Change,
];

/// How often each kind was met.
pub type Counts = [u64; KINDS.len()];

impl Kind {
    /// Whether an operation of this kind changes or syncs something.
    fn changes(self) -> bool {
        !matches!(self, Kind::Read | Kind::Open | Kind::List)
    }

    /// A transfer that answers EAGAIN for ever ends late: the kernel makes each of the engine's thousand attempts about 128 times more. A read of
    /// half a block that is half a block again the next time is the end of the file.
    fn has_no_end(self, way: Way) -> bool {
        self.is_transfer() && way == Way::Errno(Errno::AGAIN) || self == Kind::Read && way == Way::Short
    }

    fn is_transfer(self) -> bool {
        matches!(self, Kind::Read | Kind::Write | Kind::DurableWrite)
    }

    /// Its place in [`Counts`].
    pub fn place(self) -> usize {
        self as usize
    }

    /// The ways in which it can go wrong, each with how often that makes sense.
    pub fn ways(self) -> Vec<(Way, Times)> {
        let errnos: &[Errno] = match self {
            Kind::Read | Kind::Open | Kind::List => &[Errno::IO, Errno::INTR, Errno::AGAIN, Errno::CANCELED],
            Kind::Change => &[Errno::IO, Errno::NOSPC, Errno::ROFS],
            _ => &ERRNOS,
        };
        let more: &[Way] = match self {
            Kind::Read => &[Way::Short],
            Kind::Write => &[Way::Late, Way::Torn, Way::Short],
            Kind::DurableWrite => &[Way::Late, Way::Torn, Way::Short, Way::DropsFile, Way::DropsAll],
            Kind::Sync => &[Way::DropsFile, Way::DropsAll],
            // The kernel would go on believing that what it could not rename is where it was.
            Kind::Rename => &[],
            Kind::Open | Kind::List | Kind::SyncDirectory | Kind::Change => &[],
            _ => &[Way::Late],
        };
        let ways = errnos.iter().map(|errno| Way::Errno(*errno)).chain(more.iter().copied());
        let twice = ways.flat_map(|way| [(way, Times::Once), (way, Times::Forever)]);
        let ends = |(way, times): &(Way, Times)| *times == Times::Once || !self.has_no_end(*way);
        twice.filter(ends).chain([(Way::Delay, Times::Once)]).collect()
    }
}

/// How an operation goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// It answers this, and does nothing.
    Errno(Errno),
    /// It is done, and answers EIO all the same.
    Late,
    /// Of a write the first half is done, and it answers EIO.
    Torn,
    /// Of a transfer the first half is done, and it says so.
    Short,
    /// It answers EIO, and what of the file was not durable is gone.
    DropsFile,
    /// It answers EIO, and what of any file was not durable is gone.
    DropsAll,
    /// It is done, after a while.
    Delay,
}

/// How long a delay is.
pub const DELAY: Duration = Duration::from_millis(200);

/// How often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// Once.
    Once,
    /// From then on.
    Forever,
}

/// What an operation that changes or syncs can answer.
const ERRNOS: [Errno; 8] =
    [Errno::IO, Errno::NOSPC, Errno::DQUOT, Errno::ROFS, Errno::FBIG, Errno::INTR, Errno::AGAIN, Errno::CANCELED];

/// One fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What it strikes.
    pub kind: Kind,
    /// Which one of these, from 1.
    pub k: u64,
    /// How.
    pub way: Way,
    /// How often.
    pub times: Times,
}

impl Fault {
    /// Whether nobody who uses the store may notice: a transfer that is cut short or interrupted once is finished, and a delay ends.
    pub fn is_harmless(&self) -> bool {
        match self.way {
            Way::Delay => true,
            Way::Short | Way::Errno(Errno::INTR | Errno::AGAIN) => self.kind.is_transfer() && self.times == Times::Once,
            _ => false,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fault { kind, k, way, times } = self;
        let times = if *times == Times::Once { "once" } else { "from then on" };
        write!(f, "{kind:?} {k}: {way:?} {times}")
    }
}

/// Counts operations and strikes the one that was chosen.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    armed: Option<Fault>,
    counts: Counts,
    fired: Fired,
}

/// What became of a fault.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Fired {
    /// How often it struck.
    pub times: u64,
    /// What it struck first.
    pub first: Option<String>,
}

impl Faults {
    /// Counts anew, and strikes where this says.
    pub fn arm(&mut self, fault: Option<Fault>) {
        *self = Faults { armed: fault, ..Faults::default() };
    }

    /// Strikes no more. What was counted stays.
    pub fn lift(&mut self) {
        self.armed = None;
    }

    /// What was counted.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// What became of the fault.
    pub fn fired(&self) -> &Fired {
        &self.fired
    }

    /// An operation of this kind begins, on `path`: how it goes wrong, if it does.
    pub fn next(&mut self, kind: Kind, path: impl FnOnce() -> String) -> Option<Way> {
        self.counts[kind.place()] += 1;
        if kind.changes() {
            self.counts[Kind::Change.place()] += 1;
        }
        let fault = self.armed?;
        if fault.kind != kind && !(fault.kind == Kind::Change && kind.changes()) {
            return None;
        }
        let at = self.counts[fault.kind.place()];
        let strikes = if fault.times == Times::Once { at == fault.k } else { at >= fault.k };
        if !strikes {
            return None;
        }
        self.fired.times += 1;
        self.fired.first.get_or_insert_with(|| format!("{kind:?} {}", path()));
        Some(fault.way)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn struck(fault: Fault, kinds: &[Kind]) -> Vec<bool> {
        let mut faults = Faults::default();
        faults.arm(Some(fault));
        kinds.iter().map(|kind| faults.next(*kind, String::new).is_some()).collect()
    }

    #[test]
    fn exactly_the_kth_of_a_kind_is_struck_or_all_from_there_on() {
        let kinds = [Kind::Write, Kind::Sync, Kind::Write, Kind::Read, Kind::Write];
        let fault = Fault { kind: Kind::Write, k: 2, way: Way::Late, times: Times::Once };
        assert_eq!(struck(fault, &kinds), [false, false, true, false, false]);
        let fault = Fault { times: Times::Forever, ..fault };
        assert_eq!(struck(fault, &kinds), [false, false, true, false, true]);
        let fault = Fault { kind: Kind::Change, ..fault };
        assert_eq!(struck(fault, &kinds), [false, true, true, false, true]);
    }

    #[test]
    fn a_fault_that_was_lifted_strikes_no_more_and_says_what_it_struck() {
        let mut faults = Faults::default();
        faults.arm(Some(Fault { kind: Kind::Sync, k: 1, way: Way::DropsAll, times: Times::Forever }));
        assert_eq!(faults.next(Kind::Sync, || "/a".to_owned()), Some(Way::DropsAll));
        assert_eq!(faults.next(Kind::Sync, || "/b".to_owned()), Some(Way::DropsAll));
        faults.lift();
        assert_eq!(faults.next(Kind::Sync, String::new), None);
        assert_eq!(faults.fired(), &Fired { times: 2, first: Some("Sync /a".to_owned()) });
        assert_eq!((faults.counts()[Kind::Sync.place()], faults.counts()[Kind::Change.place()]), (3, 3));
    }

    #[test]
    fn every_kind_knows_its_place_and_a_way_to_go_wrong() {
        for (place, kind) in KINDS.iter().enumerate() {
            assert_eq!(kind.place(), place);
            assert!(kind.ways().contains(&(Way::Errno(Errno::IO), Times::Once)));
        }
    }
}
