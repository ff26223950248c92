//! Random histories of whole stores: whatever happens, nothing that is live is selected, and nothing goes before its time.
//!
//! `STRANDLINE_SEEDS` says how many histories are run, `STRANDLINE_SEED_FIRST` from which seed on, `STRANDLINE_SEED` runs one alone.

use super::common::{STORE, deleting};
use super::world::{World, WorldLog};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use strandline::id::SegmentId;
use strandline::layout::candidate_ids;
use strandline_sweeper::decide::*;

/// What happened in how many histories, so that a run in which nothing happens does not pass for a good one.
#[derive(Debug, Default)]
struct Counts {
    expired: u64,
    held_by_clock: u64,
    orphans_removed: u64,
    orphans_kept: u64,
    skipped: u64,
    braked: u64,
}

/// A history and the rules that it is checked against.
struct History {
    world: World,
    turn: Turn,
    sightings: Sightings,
    attempts: Attempts,
    is_host: bool,
    tracked_max: usize,
    /// In how many passes each directory was unexplained, counted by hand.
    seen: BTreeMap<DirectoryName, (u32, Entry)>,
    counts: Counts,
}

type Checked = Result<(), String>;

macro_rules! ensure {
    ($holds:expr, $($words:tt)+) => {
        if !$holds {
            return Err(format!($($words)+));
        }
    };
}

impl History {
    fn run(seed: u64) -> Result<Counts, String> {
        let mut world = World::new(seed);
        let (is_host, tracked_max) = (world.random.once_in(2), world.random.pick(&[2, 6, 40]));
        let (turn, sightings, attempts) = (Turn::default(), Sightings::default(), Attempts::default());
        let (seen, counts) = (BTreeMap::new(), Counts::default());
        let mut history = History { world, turn, sightings, attempts, is_host, tracked_max, seen, counts };
        for _ in 0..60 {
            history.step()?;
        }
        Ok(history.counts)
    }

    fn step(&mut self) -> Checked {
        match self.world.random.below(24) {
            0..=4 => self.world.append(),
            5..=7 => self.world.seal(None),
            8..=10 => self.world.wait(),
            11..=13 => return self.expire_pass(),
            14..=18 => return self.orphan_pass(),
            19 => self.world.jump(),
            20 if self.world.random.once_in(3) => {
                self.world.restart();
                (self.sightings, self.attempts) = (Sightings::default(), Attempts::default());
                self.seen.clear();
            }
            20 => self.world.confirm(),
            21 => self.world.change_policy(),
            22 => self.world.litter(),
            _ if self.world.random.once_in(3) => self.world.litter_much(),
            _ => self.world.litter(),
        }
        Ok(())
    }

    /// The instant of a pass, checked: a clock that left its anchor is never believed.
    fn now(&mut self) -> Result<Now, String> {
        let reading = self.world.reading();
        let now = self.world.guard.observe(reading);
        let off = self.world.wrong_ms.abs_diff(self.world.anchor_wrong_ms);
        ensure!(now.held.is_some() || off <= CLOCK_TOLERANCE_MS, "a clock {off} ms off was believed");
        Ok(now)
    }

    fn expire_pass(&mut self) -> Checked {
        let now = self.now()?;
        let kept = self.world.kept();
        let caps = Caps { segments_per_pass: 5, segments_per_log: 3 };
        let plan = plan(&kept, &now, &caps, std::mem::take(&mut self.turn));
        ensure!(plan.expire.len() <= 5, "over the cap of a pass");
        self.counts.held_by_clock += u64::from(now.held.is_some());
        for planned in &plan.expire {
            let at = kept.iter().position(|log| log.id == planned.segment.log).ok_or("a log that is not there")?;
            self.check_expiry(&kept[at].effective, &self.world.logs[at], planned, &now)?;
            // It was the oldest, since those before it are gone by now.
            let log = &mut self.world.logs[at];
            ensure!(log.segments[0].segment.seq == planned.segment.seq, "{} left a gap", planned);
            log.segments.remove(0);
            self.counts.expired += 1;
            // The bytes go, unless the process dies between the steps.
            if !self.world.random.once_in(3) {
                self.world.disk.remove(&DirectoryName::new(planned.segment.to_string()));
            }
        }
        for (id, _) in &plan.roll {
            ensure!(now.held.is_none(), "{id} rolled by a clock in doubt");
            let at = self.world.logs.iter().position(|log| log.id == id.log);
            self.world.seal(at);
        }
        self.turn = plan.turn;
        Ok(())
    }

    /// The rules once more, from what is true rather than from what is stored.
    fn check_expiry(&self, effective: &Effective, log: &WorldLog, planned: &Planned, now: &Now) -> Checked {
        let at = log.segments.iter().position(|one| one.segment.seq == planned.segment.seq);
        let at = at.ok_or_else(|| format!("{planned} is not there"))?;
        let one = &log.segments[at];
        ensure!(one.segment.state == State::Sealed, "{planned} is {}", one.segment.state);
        let undefined = log.policy.is_some_and(|name| !self.world.policies.contains_key(name));
        ensure!(!undefined || self.world.backstop.is_some(), "{planned} went under an undefined policy");

        let sealed = log.segments[at..].iter().filter(|one| one.segment.state == State::Sealed);
        let bytes: u64 = sealed.map(|one| one.segment.byte_size).sum();
        let by_size = !undefined && effective.max_bytes.value.is_some_and(|most| most == 0 || bytes > most);
        let (reading, stamp) = (self.world.reading(), one.segment.sealed_at_ms);
        let by_age = now.held.is_none()
            && effective
                .max_age_ms
                .value
                .zip(stamp)
                .is_some_and(|(most, at)| reading.wall_ms.saturating_sub(at) > most);
        ensure!(by_size || by_age, "{planned} was not due");

        let is_clock_right = self.world.wrong_ms.unsigned_abs() <= CLOCK_TOLERANCE_MS && one.is_stamp_right;
        if let (false, true, Some(most)) = (by_size, is_clock_right, effective.max_age_ms.value) {
            let true_age = self.world.true_ms - one.sealed_true_ms;
            ensure!(true_age + 2 * CLOCK_TOLERANCE_MS > most, "{planned} is {true_age} ms old in truth");
        }
        Ok(())
    }

    fn orphan_pass(&mut self) -> Checked {
        let live: HashSet<SegmentId> = self.world.live().collect();
        let is_list_lost = self.world.random.once_in(12);
        let listed = if is_list_lost { HashSet::new() } else { live.clone() };
        let complete = !self.world.random.once_in(12);
        let (segments, half) = (listed.len() as u64, listed.len() / 2);
        // What is not complete lacks segments that live.
        let listed = if complete { listed } else { self.world.live().take(half).collect() };
        let set = LiveSet { complete, segments };
        let now = self.now()?;
        let entries: Vec<Entry> = self.world.disk.values().cloned().collect();
        match self.explain_pass(&entries, &now, &listed, set) {
            Err(skipped) => {
                ensure!(!skipped.to_string().is_empty(), "a pass was skipped without a word");
                self.counts.skipped += 1;
                Ok(())
            }
            Ok(explained) => self.review_pass(&explained, &live),
        }
    }

    fn explain_pass(
        &mut self,
        entries: &[Entry],
        now: &Now,
        listed: &HashSet<SegmentId>,
        set: LiveSet,
    ) -> Result<Explained, Skipped> {
        let authority = if self.is_host { Authority::Host } else { Authority::Own { known: listed } };
        let (live_uids, tracked_max) = (HashMap::new(), self.tracked_max);
        let survey = Survey { store: STORE, live_uids: &live_uids, authority, age_min_ms: AGE_MIN_MS, tracked_max };
        let candidates = candidates(entries, now, &survey, &self.attempts)?;
        check_authority(set, candidates.directories)?;
        let inquiry = Inquiry::new(&candidates);
        // The world goes on while the authority is asked.
        self.world.append();
        let mut answers = Answers::default();
        for page in inquiry.pages(3) {
            answers.take(self.answer(page, listed));
        }
        Ok(explain(inquiry, &answers)?)
    }

    /// An authority that may fail, leave something out, or not know, but that never denies what it lists.
    fn answer(
        &mut self,
        page: &[SegmentId],
        listed: &HashSet<SegmentId>,
    ) -> Result<Vec<(SegmentId, Standing)>, AuthorityError> {
        let random = &mut self.world.random;
        if random.once_in(20) {
            return Err(AuthorityError { reason: "its time was up".to_owned() });
        }
        let mut answers = Vec::new();
        for id in page {
            let unsure = [Standing::Unroutable, Standing::Migrating, Standing::Misplaced];
            let standing = match (random.once_in(15), listed.contains(id)) {
                (true, _) => random.pick(&unsure),
                (false, true) => Standing::Known,
                (false, false) => Standing::Unknown,
            };
            if !random.once_in(40) {
                answers.push((id.clone(), standing));
            }
        }
        Ok(answers)
    }

    fn review_pass(&mut self, explained: &Explained, live: &HashSet<SegmentId>) -> Checked {
        self.count_sightings(explained);
        let limits = ReviewLimits { mass_confirmed: false, tracked_max: self.tracked_max, ..deleting(2, 3) };
        let reviewed = review(&explained.unexplained, &self.sightings, &self.attempts, &limits);
        ensure!(reviewed.ready.len() <= 3, "over the cap of a pass");
        self.counts.braked += u64::from(reviewed.brake.is_some());
        self.counts.orphans_kept += reviewed.held.len() as u64;
        for ready in &reviewed.ready {
            let name = &ready.candidate.name;
            let readings = candidate_ids(name.as_bytes());
            ensure!(!readings.is_empty(), "{ready} is no segment's");
            ensure!(!readings.iter().any(|id| live.contains(id)), "{ready} is live");
            let entry = self.world.disk.get(name).ok_or_else(|| format!("{ready} is not there"))?;
            ensure!(entry.kind == Kind::Directory, "{ready} is no directory");
            ensure!(entry.evidence != Evidence::NoHeader, "{ready} may hold anything");
            let seen = self.seen.get(name).map_or(0, |(passes, _)| *passes);
            ensure!(seen >= 2, "{ready} was unexplained in {seen} passes");
            self.remove(name);
        }
        self.sightings = reviewed.sightings;
        Ok(())
    }

    fn count_sightings(&mut self, explained: &Explained) {
        let former = std::mem::take(&mut self.seen);
        for name in explained.unexplained.names() {
            let Some(entry) = self.world.disk.get(name) else { continue };
            let passes = former.get(name).filter(|(_, then)| then == entry).map_or(0, |(passes, _)| *passes);
            self.seen.insert(name.clone(), (passes + 1, entry.clone()));
        }
    }

    fn remove(&mut self, name: &DirectoryName) {
        let wall_ms = self.world.reading().wall_ms;
        match self.world.random.below(4) {
            0 => self.attempts.failed(name),
            1 => {
                // Half removed: the name stays, and a later pass finishes it.
                if let Some(entry) = self.world.disk.get_mut(name) {
                    (entry.evidence, entry.ctime_ms) = (Evidence::Empty, wall_ms);
                }
            }
            _ => {
                self.world.disk.remove(name);
                self.counts.orphans_removed += 1;
            }
        }
    }
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} = {text} is no number")))
}

fn run_histories(count: u64) {
    let seeds = match number("STRANDLINE_SEED") {
        Some(seed) => seed..seed + 1,
        None => {
            let first = number("STRANDLINE_SEED_FIRST").unwrap_or(0);
            first..first + number("STRANDLINE_SEEDS").unwrap_or(count)
        }
    };
    let (started, is_long) = (std::time::Instant::now(), seeds.end - seeds.start > 100);
    let mut all = Counts::default();
    for seed in seeds.clone() {
        let outcome = catch_unwind(AssertUnwindSafe(|| History::run(seed)));
        let outcome = outcome.unwrap_or_else(|_| Err("nothing panics".to_owned()));
        let counts = outcome.unwrap_or_else(|broken| panic!("STRANDLINE_SEED={seed}: {broken}"));
        all.expired += counts.expired;
        all.held_by_clock += counts.held_by_clock;
        all.orphans_removed += counts.orphans_removed;
        all.orphans_kept += counts.orphans_kept;
        all.skipped += counts.skipped;
        all.braked += counts.braked;
    }
    eprintln!("seeds {seeds:?} in {:?}: {all:?}", started.elapsed());
    if is_long {
        let counts = [all.expired, all.held_by_clock, all.orphans_removed, all.orphans_kept, all.skipped, all.braked];
        assert!(counts.iter().all(|count| *count > 0), "something never happened: {all:?}");
    }
}

#[test]
fn no_history_ever_selects_what_is_live() {
    run_histories(4_000);
}

/// `cargo test --release -p strandline-sweeper --test decide -- --ignored campaign_of_histories`; piece by piece with
/// `STRANDLINE_SEED_FIRST` and `STRANDLINE_SEEDS`.
#[test]
#[ignore = "a campaign of a million histories: minutes in release"]
fn campaign_of_histories() {
    run_histories(1_000_000);
}
