//! Run: case after case, each on a fresh copy of a store in memory.

use super::fault::{Counts, Fault, Fired, KINDS, Times, Way};
use super::job::{Answer, Job, Task};
use super::model::Model;
use super::options::Options;
use super::plan::{Case, End, Plan};
use super::report::Report;
use super::served::Server;
use super::tree::{Loss, Tree};
use crate::child::{self, Errand, Outcome};
use crate::clock::Clock;
use crate::error::{Trouble, system};
use crate::fuse;
use crate::interrupt::Interrupt;
use crate::job::sentences;
use crate::random::Random;
use crate::shape::{Io, Shape, Sync};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use strandline_tests::tiers::promise::{Broken, Promise};
use tempfile::TempDir;

/// After how long a call counts as never answered. A process makes a few hundred of them in well under a second.
const HANGS_AFTER: Duration = Duration::from_secs(30);

/// The configurations. There is no barrier on FUSE.
const TURNS: [(Io, Sync); 4] =
    [(Io::Direct, Sync::Auto), (Io::Direct, Sync::File), (Io::Buffered, Sync::Auto), (Io::Buffered, Sync::File)];

/// How often a configuration runs without a fault before the cases, to see how often each kind is met at least.
const REHEARSALS: usize = 3;

/// Cases of a run. Fields are dropped in their order: the server last but for the directory that it stands in.
pub struct Run<'a> {
    options: &'a Options,
    interrupt: Interrupt,
    report: Report,
    server: Server,
    place: TempDir,
}

/// A store that was made where nothing failed.
struct Base {
    shape: Shape,
    tree: Tree,
    models: Vec<Model>,
}

/// What one process left.
struct Left {
    answer: Answer,
    tree: Tree,
    counts: Counts,
    fired: Fired,
}

impl<'a> Run<'a> {
    /// Serves at a temporary directory.
    ///
    /// # Errors
    /// There is no FUSE, or mounting is not for us.
    pub fn new(options: &'a Options, interrupt: Interrupt) -> Result<Run<'a>, Trouble> {
        let place = fuse::place().map_err(system("a temporary directory"))?;
        let point = place.path().join("mounted");
        std::fs::create_dir(&point).map_err(system("a directory to mount at"))?;
        let server = Server::start(&point).map_err(system("mounting FUSE: this needs root"))?;
        let report = Report::new(options.seed.unwrap_or(1), options.sabotage);
        Ok(Run { options, interrupt, report, server, place })
    }

    /// Runs as many cases as were asked for.
    ///
    /// # Errors
    /// What keeps the run from going on. Violations stand in the report.
    pub fn run(mut self) -> Result<Report, Trouble> {
        let since = Instant::now();
        let mut bases = Vec::new();
        let mut counts = Vec::new();
        for turn in 0..TURNS.len() {
            let base = self.make(turn)?;
            counts.push(self.rehearse(&base)?);
            bases.push(base);
        }
        let plan = Plan::new(self.seed(), &counts);
        let until = self.options.seconds.map(|seconds| since + Duration::from_secs(seconds));
        let (first, cases) = self.options.case.map_or((0, self.options.cases), |case| (case, 1));
        for number in first..first.saturating_add(cases) {
            let late = until.is_some_and(|until| Instant::now() >= until);
            if late || self.options.expect_violation && !self.report.violations.is_empty() {
                break;
            }
            let mut case = plan.case(number);
            case.fault.k = self.options.k.unwrap_or(case.fault.k);
            let base = &bases[case.turn];
            self.case(&case, base)?;
        }
        self.report.took(since.elapsed().as_millis() as u64);
        Ok(self.report)
    }

    fn seed(&self) -> u64 {
        self.options.seed.unwrap_or(1)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// Has a job done on a tree, with a fault in waiting.
    fn send(&self, shape: Shape, tree: Tree, fault: Option<Fault>, task: Task) -> Result<Left, Trouble> {
        self.interrupt.check()?;
        let (root, clock, answer) = (self.path("mounted/store"), self.path("clock"), self.path("answer"));
        self.server.put_up(tree, fault, Some(Clock::make(&clock).map_err(system("the clock"))?));
        let (job, place) = (Job { root, clock, answer, shape, task }, self.place.path());
        let release = || self.server.lift();
        let (arguments, limit) = (&["faults"], HANGS_AFTER);
        let errand = Errand { arguments, answer: &job.answer, place, limit, release: &release };
        let outcome = child::run::<Answer>(&job, &errand, &self.interrupt);
        let (tree, counts, fired) = self.server.take_down();
        let answer = match outcome? {
            Outcome::Answered(answer) => answer,
            Outcome::Died(why) => Answer { violations: vec![Broken::new(Promise::Lives, why)], ..Answer::default() },
        };
        Ok(Left { answer, tree, counts, fired })
    }

    fn make(&self, turn: usize) -> Result<Base, Trouble> {
        let ((io, sync), seed) = (TURNS[turn], self.seed() * TURNS.len() as u64 + turn as u64);
        let shape = Shape { io, sync, defect: None, seed };
        let Left { answer, tree, .. } = self.send(shape, Tree::default(), None, Task::Make)?;
        honest(&answer, shape)?;
        Ok(Base { shape: Shape { defect: self.options.sabotage, ..shape }, tree, models: answer.models })
    }

    /// How often each kind is met at least where nothing fails.
    fn rehearse(&self, base: &Base) -> Result<Counts, Trouble> {
        let mut least = [u64::MAX; KINDS.len()];
        let shape = Shape { defect: None, ..base.shape };
        for _ in 0..REHEARSALS {
            let models = base.models.clone();
            let task = Task::Load { models, once: true, drops: false, end: End::Close };
            let Left { answer, counts, .. } = self.send(shape, base.tree.clone(), None, task)?;
            honest(&answer, shape)?;
            least.iter_mut().zip(counts).for_each(|(least, count)| *least = (*least).min(count));
        }
        Ok(least)
    }

    fn case(&mut self, case: &Case, base: &Base) -> Result<(), Trouble> {
        let Case { fault, end, number, .. } = *case;
        let (once, drops) = (fault.times == Times::Once, matches!(fault.way, Way::DropsFile | Way::DropsAll));
        let task = Task::Load { models: base.models.clone(), once, drops, end };
        let Left { mut answer, mut tree, fired, .. } = self.send(base.shape, base.tree.clone(), Some(fault), task)?;
        judge(&fault, &fired, &mut answer);
        let mut random = Random::new(self.seed(), 3_000 + number);
        match end {
            End::Close | End::Kill => {}
            End::PowerAll => tree.cut(Loss::All, &mut random),
            End::PowerSome => tree.cut(Loss::Some, &mut random),
        }
        let (mut models, mut checked) = (std::mem::take(&mut answer.models), 0);
        for closes in [number.is_multiple_of(2), true] {
            if !answer.violations.is_empty() {
                break;
            }
            let shape = Shape { defect: base.shape.defect, ..base.shape };
            let left = self.send(shape, tree.clone(), None, Task::Look { models, closes })?;
            answer.violations = left.answer.violations;
            checked += left.answer.checked;
            (models, tree) = (left.answer.models, left.tree);
            if !closes {
                tree.cut(Loss::All, &mut random);
            }
        }
        self.report.add(case, fired.times, &answer, checked);
        if !answer.violations.is_empty() {
            self.violated(case, base, &fired, &answer);
        }
        Ok(())
    }

    fn violated(&mut self, case: &Case, base: &Base, fired: &Fired, answer: &Answer) {
        let Case { number, fault, end, .. } = case;
        let (seed, shape) = (self.seed(), base.shape);
        let (what, refusals) = (sentences(&answer.violations), answer.refusals.join("\n  refused: "));
        let again = format!("strandline-powercut faults --seed {seed} --case {number} --k {}", fault.k);
        let first = fired.first.as_deref().unwrap_or("nothing");
        let text = format!(
            "case {number}, {fault}, struck {} times, first {first}; end {end:?}, {shape:?}:\n  {what}\n  refused: {refusals}\n  again: {again}",
            fired.times
        );
        eprintln!("violation: {text}");
        self.report.violations.push(text);
        self.report.broken.extend(answer.violations.iter().map(|broken| broken.promise));
    }
}

/// Where nothing fails nothing is refused.
fn honest(answer: &Answer, shape: Shape) -> Result<(), Trouble> {
    match answer.violations.first() {
        None => Ok(()),
        Some(first) => Err(Trouble::Workload(format!("{first} ({shape:?})"))),
    }
}

/// What the processes cannot see: whether anybody may notice this fault at all, and where it struck.
fn judge(fault: &Fault, fired: &Fired, answer: &mut Answer) {
    if fault.is_harmless() && answer.refused > 0 {
        let seen = format!("{} calls were refused for what harms nobody", answer.refused);
        answer.violations.push(Broken::new(Promise::GoesOn, seen));
    }
    let elsewhere = |path: &String| !path.contains("/manifest") && !path.contains("/strandline.");
    if let (Some(why), true) = (&answer.quiet, fired.first.as_ref().is_some_and(elsewhere)) {
        let seen = format!("a log that was at rest when the fault struck is refused: {why}");
        answer.violations.push(Broken::new(Promise::Apart, seen));
    }
}

#[cfg(test)]
mod tests {
    use super::super::fault::Kind;
    use super::*;

    fn judged(way: Way, path: &str, answer: Answer) -> bool {
        let fault = Fault { kind: Kind::Write, k: 1, way, times: Times::Once };
        let mut answer = answer;
        judge(&fault, &Fired { times: 1, first: Some(path.to_owned()) }, &mut answer);
        answer.violations.is_empty()
    }

    #[test]
    fn what_harms_nobody_must_not_be_noticed_and_others_go_on_unless_the_manifest_was_struck() {
        let refused = || Answer { refused: 1, ..Answer::default() };
        assert!(judged(Way::Torn, "/store/a", refused()));
        assert!(!judged(Way::Delay, "/store/a", refused()) && judged(Way::Delay, "/store/a", Answer::default()));
        let quiet = || Answer { quiet: Some(String::new()), ..Answer::default() };
        assert!(
            judged(Way::Torn, "/store/manifest/a", quiet()) && !judged(Way::Torn, "/store/rye-r0-s0/data", quiet())
        );
    }
}
