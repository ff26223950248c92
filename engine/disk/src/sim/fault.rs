//! Faults: which operations go wrong, and how. It only picks; what a fault does to the medium is done where the operation lands.

use crate::error::Verb;
use rustix::io::Errno;

/// Something that goes wrong.
#[derive(Clone, Debug)]
pub struct Fault {
    /// Which operation it strikes. Sleeps are not counted and not struck, except by `When::Verb(Verb::Sleep)`.
    pub when: When,
    /// What happens to it.
    pub what: What,
    /// How often.
    pub times: Times,
}

/// Which operation a fault strikes. Operations are counted as they are started, from 1, since the injection.
#[derive(Clone, Debug)]
pub enum When {
    /// The k-th operation; with `Times::Forever`, all from the k-th on.
    KthOperation(u64),
    /// The k-th operation with this verb; with `Times::Forever`, all from the k-th on.
    KthOf(Verb, u64),
    /// Operations with this verb.
    Verb(Verb),
    /// Operations on a path that contains this. For a rename, the path of the old name.
    PathContains(String),
    /// Operations with this verb on a path that contains this.
    VerbOnPath(Verb, String),
}

/// How often a fault strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// Once.
    Once,
    /// Every time.
    Forever,
}

/// What happens to an operation. One that cannot suffer it (a sync cannot be short) goes on unharmed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// It answers this errno and does nothing. A write that answers EIO may have landed in any of its sectors that
    /// overwrite written blocks.
    Errno(Errno),
    /// A transfer moves a strict part: whole blocks of a direct file, whole sectors of a buffered one where there are several.
    /// A write of one block moves nothing; a read of one block is not struck, since a read of nothing means the end of the file.
    Short,
    /// A write answers that it moved 0 bytes, and did.
    Nothing,
    /// A sync, barrier or durable write answers EIO, and the bytes of that file that are not durable are dropped. A buffered file's
    /// cache goes on showing them; the medium has the old ones; a later sync answers Ok.
    FailedSyncDropsDirty,
    /// As `FailedSyncDropsDirty`, and the same for every other file of the device: what a failed flush of a drive's cache loses.
    FailedSyncDropsDevice,
    /// A write answers Ok and lands elsewhere: at another block of the same file or in another file.
    Misdirected,
    /// It is not completed for so many turns, and then goes on as usual.
    Delay(u32),
}

impl What {
    fn fits(&self, verb: Verb, durable: bool) -> bool {
        match self {
            What::Errno(_) | What::Delay(_) => true,
            What::Short => verb == Verb::Read || verb.is_a(Verb::Write),
            What::Nothing | What::Misdirected => verb.is_a(Verb::Write),
            What::FailedSyncDropsDirty | What::FailedSyncDropsDevice => {
                matches!(verb, Verb::Sync | Verb::Barrier) || durable
            }
        }
    }
}

/// The faults that wait, with what each has counted.
#[derive(Clone, Debug, Default)]
pub(super) struct Faults {
    armed: Vec<Armed>,
    fired: u64,
}

#[derive(Clone, Debug)]
struct Armed {
    fault: Fault,
    counted: u64,
    spent: bool,
}

impl Faults {
    pub(super) fn inject(&mut self, fault: Fault) {
        self.armed.push(Armed { fault, counted: 0, spent: false });
    }

    pub(super) fn clear(&mut self) {
        self.armed.clear();
    }

    pub(super) fn fired(&self) -> u64 {
        self.fired
    }

    /// Counts an operation that starts, and answers what happens to it: of several faults that strike, the oldest does.
    pub(super) fn strike(&mut self, verb: Verb, durable: bool, path: &str) -> Option<What> {
        let mut struck = None;
        for armed in &mut self.armed {
            let strikes = armed.count(verb, path) && armed.fault.what.fits(verb, durable) && struck.is_none();
            if strikes {
                armed.spent |= armed.fault.times == Times::Once;
                struck = Some(armed.fault.what.clone());
            }
        }
        self.armed.retain(|armed| !armed.spent);
        self.fired += u64::from(struck.is_some());
        struck
    }
}

impl Armed {
    /// Counts the operation where this fault counts, and tells whether it is one to strike.
    fn count(&mut self, verb: Verb, path: &str) -> bool {
        let (counts, first) = match &self.fault.when {
            When::KthOperation(k) => (verb != Verb::Sleep, *k),
            When::KthOf(wanted, k) => (verb.is_a(*wanted), *k),
            When::Verb(wanted) => return verb.is_a(*wanted),
            When::PathContains(part) => return verb != Verb::Sleep && path.contains(part),
            When::VerbOnPath(wanted, part) => return verb.is_a(*wanted) && path.contains(part),
        };
        self.counted += u64::from(counts);
        counts && if self.fault.times == Times::Once { self.counted == first } else { self.counted >= first }
    }
}
