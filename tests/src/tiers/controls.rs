//! The negative controls: deliberate defects, and which tier must notice which. A tier that notices nothing proves nothing.

use super::corruption::Stores;
use super::exhaustive::{self, Operation, Width};
use super::faults::{Plan, Setup, Way};
use super::histories::{self, Size};
use super::kills::{self, Kills};
use super::promise::Promise;
use super::scripts::{self, Script};
use crate::harness::seeds::{NO_OVERLAP, outcome};
use crate::harness::violation::Checked;
use crate::harness::workload::Twist;
use std::fmt;
use std::process::Command;
use strandline::config::Sabotage;
use strandline_disk::Errno;
use strandline_disk::sim::{Lie, Times, What};

/// A tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// Random histories.
    T1,
    /// Scripts with a crash after every turn.
    Scripts,
    /// Every short sequence, every crash, every subset.
    T1b,
    /// Kill -9 on real files.
    T2,
    /// Power cuts under a real file system: a command of its own.
    T3,
    /// The k-th operation fails.
    T5,
    /// The k-th operation of a file system fails below the real ring: a command of its own.
    T5Below,
    /// Flipped bits and cut files.
    T6,
}

/// Every tier.
pub const TIERS: [Tier; 8] =
    [Tier::T1, Tier::Scripts, Tier::T1b, Tier::T2, Tier::T3, Tier::T5, Tier::T5Below, Tier::T6];

/// A deliberate defect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Defect {
    /// Of the engine.
    Engine(Sabotage),
    /// Of the disk.
    Disk(Lie),
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Defect::Engine(sabotage) => write!(f, "{sabotage:?}"),
            Defect::Disk(lie) => write!(f, "disk: {lie:?}"),
        }
    }
}

/// Who notices a defect.
#[derive(Clone, Copy, Debug)]
pub enum By {
    /// Random histories.
    Histories,
    /// One of the scripts.
    Script(fn() -> Script),
    /// A sequence.
    Sequence(&'static [Operation]),
    /// A child that is killed.
    Kills,
    /// Power cuts on ext4, so many at most: `strandline-powercut controls`, as root.
    PowerCuts {
        /// How many.
        cuts: u64,
        /// What is lost, by its name on the command line; all ways in turn where none is named.
        mode: Option<&'static str>,
    },
    /// Operations of a file system that fail, so many cases at most: the same command.
    FaultsBelow {
        /// How many.
        cases: u64,
    },
    /// An operation that fails.
    Fault,
    /// A damaged file.
    Damage,
    /// A test of its own: the file, and the test's name.
    Test(&'static str, &'static str),
    /// It is no defect: what it is for.
    Aid(&'static str),
}

/// A row of the table.
#[derive(Clone, Debug)]
pub struct Control {
    /// The defect.
    pub defect: Defect,
    /// On which kind of machine.
    pub twist: Twist,
    /// Who must notice it.
    pub by: By,
    /// As what: the promises one of which must be found broken.
    pub noticed_as: &'static [&'static str],
}

impl Control {
    /// The tier that must notice it; none for what is no defect.
    #[must_use]
    pub fn tier(&self) -> Option<Tier> {
        match self.by {
            By::Histories => Some(Tier::T1),
            By::Script(_) | By::Test(..) => Some(Tier::Scripts),
            By::Sequence(_) => Some(Tier::T1b),
            By::Kills => Some(Tier::T2),
            By::PowerCuts { .. } => Some(Tier::T3),
            By::FaultsBelow { .. } => Some(Tier::T5Below),
            By::Fault => Some(Tier::T5),
            By::Damage => Some(Tier::T6),
            By::Aid(_) => None,
        }
    }

    /// Whether [`run`] leaves it to a test, or to another command.
    #[must_use]
    pub fn is_run_elsewhere(&self) -> bool {
        matches!(self.by, By::Test(..) | By::PowerCuts { .. } | By::FaultsBelow { .. })
    }
}

fn engine(sabotage: Sabotage, by: By, noticed_as: &'static [&'static str]) -> Control {
    let twist = Twist { sabotage: Some(sabotage), ..Twist::default() };
    Control { defect: Defect::Engine(sabotage), twist, by, noticed_as }
}

fn disk(lie: Lie, by: By, noticed_as: &'static [&'static str]) -> Control {
    Control { defect: Defect::Disk(lie.clone()), twist: Twist { lie: Some(lie), ..Twist::default() }, by, noticed_as }
}

fn on(control: Control, change: impl FnOnce(&mut Twist)) -> Control {
    let mut control = control;
    change(&mut control.twist);
    control
}

// Whose checks name these: a row that names another promise fails.
const READABLE: &[&str] = &["a record acknowledged as durable is readable after any crash"];
const OPENS: &[&str] = &["the store opens after any crash"];
const STAYS: &[&str] = &["a log that was made stays"];
const FILES: &[&str] = &["files on disk are those of the manifest and reported strays"];
const CHANGES: &[&str] = &["a change that was answered stays, and one that was not is whole or absent"];
const DROPPED: &[&str] = &["what recovery dropped never returns"];
const UNCUT: &[&str] = &["nothing is cut off below what is proven to be durable"];

/// What power cuts and faults below a file system call a loss. A record that was acknowledged and that the store calls damaged is lost as well
/// as one that it does not know.
const LOST: &[&str] = &[Promise::Kept.text(), Promise::Readable.text()];

/// The table.
#[must_use]
pub fn table() -> Vec<Control> {
    use Operation::{Append, Commit, Roll, Sync};
    let barrier = || engine(Sabotage::BarrierForAll, By::Script(scripts::side_by_side), READABLE);
    vec![
        disk(Lie::SkipSync, By::Histories, OPENS),
        disk(Lie::SkipDirectorySync, By::Histories, STAYS),
        disk(Lie::SkipSyncOf("manifest".to_owned()), By::Histories, OPENS),
        disk(Lie::AnswerBeforeCompletion, By::Histories, OPENS),
        disk(Lie::SkipBarrier, By::Script(scripts::side_by_side), READABLE),
        engine(Sabotage::SkipFlush, By::Histories, READABLE),
        engine(Sabotage::SkipFlush, By::Sequence(&[Commit]), READABLE),
        engine(Sabotage::SkipFlush, By::Sequence(&[Append, Sync]), READABLE),
        engine(Sabotage::SkipDirectorySync, By::Histories, FILES),
        engine(Sabotage::SkipDirectorySync, By::Sequence(&[Roll, Commit]), FILES),
        engine(Sabotage::AnswerBeforeCompletion, By::Histories, READABLE),
        engine(Sabotage::AnswerBeforeCompletion, By::Sequence(&[Commit]), READABLE),
        engine(Sabotage::AnswerBeforeCompletion, By::Kills, &[kills::KEPT]),
        engine(Sabotage::AnswerBeforeCompletion, By::Fault, READABLE),
        engine(Sabotage::SkipFlush, By::PowerCuts { cuts: 40, mode: None }, LOST),
        engine(Sabotage::AnswerBeforeCompletion, By::PowerCuts { cuts: 80, mode: None }, LOST),
        engine(Sabotage::SkipDirectorySync, By::PowerCuts { cuts: 400, mode: Some("drop") }, LOST),
        engine(Sabotage::SkipFlush, By::FaultsBelow { cases: 40 }, LOST),
        engine(Sabotage::AnswerBeforeCompletion, By::FaultsBelow { cases: 40 }, LOST),
        engine(Sabotage::TrustPageCache, By::Histories, READABLE),
        engine(Sabotage::TruncateOnBadChecksum, By::Damage, UNCUT),
        engine(Sabotage::RecordBeforeEdit, By::Script(scripts::rolls), READABLE),
        engine(Sabotage::KeepDeadTail, By::Script(scripts::two_bursts), DROPPED),
        on(barrier(), |twist| twist.unwritten = true),
        on(barrier(), |twist| twist.direct = Some(false)),
        on(barrier(), |twist| twist.barrier_fails = true),
        engine(Sabotage::RollBeforeFlush, By::Script(scripts::rolls_behind_written_appends), READABLE),
        engine(Sabotage::CutBeforeEdit, By::Script(scripts::truncation), CHANGES),
        engine(Sabotage::WriteBeforeDirty, By::Script(scripts::rest_and_wake), READABLE),
        engine(Sabotage::ReleaseBeforeEdit, By::Script(scripts::release), &[NO_OVERLAP]),
        engine(
            Sabotage::AnswerPolicyBeforeEdit,
            By::Test("policies/crashes.rs", "an_answer_before_the_manifest_knows_is_noticed"),
            &[],
        ),
        engine(
            Sabotage::MoveBeforeEdit,
            By::Test("simulated/orphans.rs", "an_orphan_that_is_moved_before_the_manifest_knows_is_noticed"),
            &[],
        ),
        engine(Sabotage::NeverClean, By::Aid("lets every open look at every log"), &[]),
        engine(Sabotage::PanicOnRead, By::Aid("shows what callers of a shard that panicked are told"), &[]),
        engine(Sabotage::PanicOnOpen, By::Aid("shows what an open that panicked answers"), &[]),
    ]
}

/// How many seeds may pass before a defect has to be noticed.
const SEEDS: u64 = 40;
const HISTORY: Size = Size { operations: 200, crashes: 10 };
const SEQUENCE: Width = Width { all_subsets_of: 8, seeded_subsets: 64, one_in: 1 };

/// Runs a control: the defect has to be noticed, and the same run without it has to pass. `kill_child` is the command that runs
/// [`super::kills::child`]. Answers by what it was noticed.
///
/// # Errors
/// That it was not noticed, or that an honest run failed.
pub fn run(control: &Control, kill_child: fn() -> Command) -> Result<String, String> {
    let Twist { sabotage, .. } = control.twist;
    let honest = Twist { sabotage: None, lie: None, ..control.twist.clone() };
    match control.by {
        By::Histories => notice(control, 0..SEEDS, |seed, is_honest| {
            let twist = if is_honest { &honest } else { &control.twist };
            histories::run(seed, HISTORY, twist).map(drop)
        }),
        By::Script(script) => notice(control, 1..7, |seed, is_honest| {
            let twist = if is_honest { &honest } else { &control.twist };
            scripts::run(seed, &script(), twist)
        }),
        By::Sequence(sequence) => {
            let numbers = (0..exhaustive::cases()).filter(|number| exhaustive::case(*number).sequence == sequence);
            notice(control, numbers, |number, is_honest| {
                exhaustive::run(number, SEQUENCE, sabotage.filter(|_| !is_honest)).map(drop)
            })
        }
        By::Kills => {
            let mut kills = Kills::new(1, move || Kills::with_a_defect(kill_child()));
            // Moments of kills do not repeat, so there is no honest run of the same ones; the tier itself is that.
            notice(control, 0..100, |_, is_honest| if is_honest { Ok(()) } else { kills.cycle().map(drop) })
        }
        By::Fault => {
            let ways = vec![Way { what: What::Errno(Errno::IO), times: Times::Once }];
            let [one, other] = [sabotage, None].map(|sabotage| Plan::new(ways.clone(), &[Setup::Chosen], sabotage));
            let (one, other) = (one.map_err(|error| error.to_string())?, other.map_err(|error| error.to_string())?);
            let plan = |is_honest| if is_honest { &other } else { &one };
            notice(control, 0..one.cases(), |case, is_honest| plan(is_honest).run(case).map(drop))
        }
        By::Damage => {
            let [one, other] = [sabotage, None].map(Stores::new);
            let (one, other) = (one.map_err(|error| error.to_string())?, other.map_err(|error| error.to_string())?);
            let stores = |is_honest| if is_honest { &other } else { &one };
            let cases = (0..one.cases_beside_the_manifest()).step_by(211);
            notice(control, cases, |case, is_honest| stores(is_honest).run(case).map(drop))
        }
        By::PowerCuts { .. } | By::FaultsBelow { .. } => Ok("strandline-powercut controls".to_owned()),
        By::Test(file, name) => Ok(format!("the test {name} of {file}")),
        By::Aid(what) => Ok(format!("no defect: {what}")),
    }
}

/// The first number whose run fails with the defect, by one of the promises that the row names; without it, it must pass. What breaks another
/// promise shows that something is wrong, and not that the tier can see this.
fn notice(
    control: &Control,
    numbers: impl IntoIterator<Item = u64>,
    mut run: impl FnMut(u64, bool) -> Checked,
) -> Result<String, String> {
    let (mut tried, mut found, mut other) = (0, None, None);
    for number in numbers {
        tried += 1;
        match outcome(|| run(number, false)) {
            Err(violation) if control.noticed_as.contains(&violation.promise) => {
                found = Some((number, violation));
                break;
            }
            Err(violation) => other = other.or(Some((number, violation))),
            Ok(()) => {}
        }
    }
    let (number, violation) = found.ok_or_else(|| match other {
        Some((number, violation)) => format!("run {number} noticed something else: {violation}"),
        None => format!("none of {tried} runs noticed it"),
    })?;
    outcome(|| run(number, true)).map_err(|violation| format!("the honest run {number} failed: {violation}"))?;
    Ok(format!("run {tried} ({number}): {violation}"))
}

/// What is missing in the table: a defect of the source without a row, a tier without a defect.
#[must_use]
pub fn missing() -> Vec<String> {
    let table = table();
    let source = include_str!("../../../engine/src/config.rs");
    let lies = include_str!("../../../engine/disk/src/sim/lie.rs");
    let named = |variant: &String| {
        table.iter().any(|control| match &control.defect {
            Defect::Engine(sabotage) => format!("{sabotage:?}") == *variant,
            Defect::Disk(lie) => format!("{lie:?}").split('(').next() == Some(variant),
        })
    };
    let variants = variants(source, "pub enum Sabotage {").into_iter().chain(self::variants(lies, "pub enum Lie {"));
    let defects = variants.filter(|variant| !named(variant)).map(|variant| format!("no row for {variant}"));
    let noticed = |tier: &Tier| table.iter().any(|control| control.tier() == Some(*tier));
    let tiers = TIERS.iter().filter(|tier| !noticed(tier)).map(|tier| format!("no defect for {tier:?}"));
    defects.chain(tiers).collect()
}

/// The names of the variants of an enum in a source.
fn variants(source: &str, head: &str) -> Vec<String> {
    let body = source.split_once(head).and_then(|(_, rest)| rest.split_once("\n}")).map_or("", |(body, _)| body);
    let lines = body.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//"));
    let names = lines.map(|line| line.chars().take_while(|letter| letter.is_alphanumeric()).collect::<String>());
    names.filter(|name| !name.is_empty()).collect()
}
