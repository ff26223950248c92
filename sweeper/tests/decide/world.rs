//! A small world for histories: logs and their segments as they truly are, a disk beside them, and clocks that can be wrong.

use super::common::{NOW, STORE, log_id, policy_name};
use std::collections::{BTreeMap, BTreeSet};
use strandline::id::{Generation, SegmentId, Seq, Uid};
use strandline::policy::{Bound, Policy};
use strandline::{LogId, Offset};
use strandline_sweeper::decide::*;

/// A source of choices (SplitMix64): all of them follow from the seed.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit.max(1)
    }

    pub fn once_in(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }

    pub fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len() as u64) as usize]
    }
}

/// A segment and what is true of it, whatever a clock said.
pub struct WorldSegment {
    pub segment: Segment,
    pub sealed_true_ms: u64,
    /// Whether the clock was right when it was sealed.
    pub is_stamp_right: bool,
}

pub struct WorldLog {
    pub id: LogId,
    pub segments: Vec<WorldSegment>,
    pub next: u32,
    pub policy: Option<&'static str>,
}

/// Everything there is.
pub struct World {
    pub random: Random,
    pub logs: Vec<WorldLog>,
    pub disk: BTreeMap<DirectoryName, Entry>,
    pub policies: Policies,
    pub global: Global,
    pub backstop: Option<u64>,
    /// How long the world has existed.
    pub true_ms: u64,
    pub booted_ms: u64,
    /// How wrong the wall clock is, now and when the guard took its anchor.
    pub wrong_ms: i64,
    pub anchor_wrong_ms: i64,
    pub guard: ClockGuard,
}

/// Topics that look like each other's segments.
const TOPICS: [&[u8]; 5] = [b"a", b"a-r0-s0", b"x-r1-s2", b"\xff/", b"g2gC"];
const POLICIES: [&str; 3] = ["short", "long", "gone"];

impl World {
    pub fn new(seed: u64) -> World {
        let at = Reading { wall_ms: NOW, boot_ms: 0 };
        World {
            random: Random::new(seed),
            logs: Vec::new(),
            disk: BTreeMap::new(),
            policies: Policies::new(),
            global: Global::default(),
            backstop: None,
            true_ms: NOW,
            booted_ms: NOW,
            wrong_ms: 0,
            anchor_wrong_ms: 0,
            guard: ClockGuard::open(at, None),
        }
    }

    pub fn reading(&self) -> Reading {
        let wall_ms = self.true_ms.saturating_add_signed(self.wrong_ms);
        Reading { wall_ms, boot_ms: self.true_ms - self.booted_ms }
    }

    /// Every segment that truly exists.
    pub fn live(&self) -> impl Iterator<Item = SegmentId> + '_ {
        self.logs
            .iter()
            .flat_map(|log| log.segments.iter().map(|one| SegmentId { log: log.id.clone(), seq: one.segment.seq }))
    }

    pub fn kept(&self) -> Vec<KeptLog> {
        let kept = |log: &WorldLog| KeptLog {
            id: log.id.clone(),
            segments: log.segments.iter().map(|one| one.segment.clone()).collect(),
            effective: effective(log.policy, &self.policies, &self.global, self.backstop),
            pins: Vec::new(),
        };
        self.logs.iter().map(kept).collect()
    }

    fn some_log(&mut self) -> Option<usize> {
        if self.logs.is_empty() { None } else { Some(self.random.below(self.logs.len() as u64) as usize) }
    }

    fn put_directory(&mut self, id: &SegmentId, evidence: Evidence) {
        let (name, ctime_ms) = (DirectoryName::new(id.to_string()), self.reading().wall_ms);
        self.disk.insert(name.clone(), Entry { name, kind: Kind::Directory, evidence, ctime_ms });
    }

    fn live_evidence(&mut self, id: &SegmentId) -> Evidence {
        let uid = Uid(u128::from(self.random.below(u64::MAX)));
        Evidence::Live {
            header: Header { store: STORE, uid, segment: id.clone(), generation: Generation::default() },
            opened_at_ms: self.reading().wall_ms,
        }
    }

    /// A new log, or a successor of a sealed segment, or a few more bytes in the write head.
    pub fn append(&mut self) {
        let id = log_id(self.random.pick(&TOPICS), self.random.below(2) as u32);
        let at = match self.logs.iter().position(|log| log.id == id) {
            Some(at) => at,
            None => {
                self.logs.push(WorldLog { id, segments: Vec::new(), next: 0, policy: None });
                self.logs.len() - 1
            }
        };
        let bytes = self.random.below(50);
        let head = self.logs[at].segments.last_mut().filter(|one| one.segment.state == State::Active);
        match head {
            Some(head) => {
                head.segment.byte_size += bytes;
                head.segment.end = head.segment.end.plus(1);
            }
            None => self.open_segment(at, bytes),
        }
    }

    fn open_segment(&mut self, at: usize, byte_size: u64) {
        let log = &mut self.logs[at];
        let base = log.segments.last().map_or(Offset(0), |one| one.segment.end);
        let seq = Seq::new(log.next).expect("few segments");
        log.next += 1;
        let id = SegmentId { log: log.id.clone(), seq };
        let evidence = self.live_evidence(&id);
        self.put_directory(&id, evidence);
        let opened_at_ms = Some(self.reading().wall_ms);
        let segment =
            Segment { seq, state: State::Active, base, end: base.plus(1), byte_size, opened_at_ms, sealed_at_ms: None };
        self.logs[at].segments.push(WorldSegment { segment, sealed_true_ms: 0, is_stamp_right: false });
    }

    /// Seals the write head of some log, or of this one.
    pub fn seal(&mut self, which: Option<usize>) {
        let Some(at) = which.or_else(|| self.some_log()) else { return };
        let (wall_ms, is_stamp_right) = (self.reading().wall_ms, self.wrong_ms.unsigned_abs() <= CLOCK_TOLERANCE_MS);
        let unknown = self.random.once_in(20);
        if let Some(head) = self.logs[at].segments.last_mut().filter(|one| one.segment.state == State::Active) {
            head.segment.state = State::Sealed;
            head.segment.sealed_at_ms = if unknown { None } else { Some(wall_ms) };
            (head.sealed_true_ms, head.is_stamp_right) = (self.true_ms, is_stamp_right);
        }
    }

    pub fn wait(&mut self) {
        let step = self.random.pick(&[60_000, 600_000, 3_600_000, 3_600_000, 40 * 3_600_000]);
        self.true_ms += self.random.below(step) + 1;
    }

    pub fn jump(&mut self) {
        let minute = 60_000;
        self.wrong_ms =
            self.random.pick(&[0, 0, 0, 0, 4 * minute, -4 * minute, 90 * minute, -90 * minute, 5_000_000 * minute]);
    }

    /// The process starts again, perhaps after a while, perhaps on a machine that started again as well.
    pub fn restart(&mut self) {
        let sure_ms = self.guard.sure_ms();
        if self.random.once_in(2) {
            self.wait();
            self.booted_ms = self.true_ms;
        }
        self.guard = ClockGuard::open(self.reading(), sure_ms);
        self.anchor_wrong_ms = self.wrong_ms;
    }

    pub fn confirm(&mut self) {
        self.guard.confirm(self.reading());
        self.anchor_wrong_ms = self.wrong_ms;
    }

    pub fn change_policy(&mut self) {
        let any_bound = |random: &mut Random| match random.below(4) {
            0 => Bound::Inherit,
            1 => Bound::Off,
            _ => Bound::Is(random.pick(&[0, 30, 100, 600_000, 3_600_000])),
        };
        let name = self.random.pick(&POLICIES[..2]);
        let (max_age_ms, max_bytes) = (any_bound(&mut self.random), any_bound(&mut self.random));
        match self.random.below(5) {
            0 => drop(self.policies.remove(name)),
            1 => drop(self.policies.insert(policy_name(name), Policy { max_age_ms, max_bytes, ..Policy::default() })),
            2 => self.global.max_age_ms = self.random.pick(&[None, Some(0), Some(3_600_000)]),
            3 => self.backstop = self.random.pick(&[None, Some(3_600_000)]),
            _ => {
                let policy = self.random.pick(&[None, Some(POLICIES[0]), Some(POLICIES[1]), Some(POLICIES[2])]);
                if let Some(at) = self.some_log() {
                    self.logs[at].policy = policy;
                }
            }
        }
    }

    /// Late repairs of many segments that retention has taken already: so many orphans at once that the brake must ask.
    pub fn litter_much(&mut self) {
        let Some(at) = self.some_log() else { return };
        for _ in 0..self.random.below(15) {
            let log = &mut self.logs[at];
            let id = SegmentId { log: log.id.clone(), seq: Seq::new(log.next).expect("few segments") };
            log.next += 1;
            let evidence = self.live_evidence(&id);
            self.put_directory(&id, evidence);
        }
    }

    /// Puts something on the disk that no list explains: what a late repair, a crash or an operator leaves.
    pub fn litter(&mut self) {
        let Some(at) = self.some_log() else { return };
        let (log, next) = (self.logs[at].id.clone(), self.logs[at].next);
        let live: BTreeSet<u32> = self.logs[at].segments.iter().map(|one| one.segment.seq.get()).collect();
        let seq = self.random.below(u64::from(next) + 40) as u32;
        let id = SegmentId { log, seq: Seq::new(seq).expect("few segments") };
        let is_dead = seq < next && !live.contains(&seq);
        let ctime_ms = self.reading().wall_ms;
        let mut put = |name: &[u8], kind, evidence| {
            let name = DirectoryName::new(name);
            let entry = Entry { name: name.clone(), kind, evidence, ctime_ms };
            self.disk.entry(name).or_insert(entry);
        };
        match self.random.below(6) {
            0 => put(b"lost+found", Kind::Directory, Evidence::NoHeader),
            1 => put(b"a-r0-s01", Kind::Directory, Evidence::Empty),
            2 if is_dead => put(id.to_string().as_bytes(), Kind::Symlink, Evidence::Empty),
            3 if is_dead => put(id.to_string().as_bytes(), Kind::Directory, Evidence::NoHeader),
            4 if is_dead => put(id.to_string().as_bytes(), Kind::Directory, Evidence::AllZero),
            _ if is_dead => {
                let evidence = self.live_evidence(&id);
                self.put_directory(&id, evidence);
            }
            _ => {}
        }
    }
}
