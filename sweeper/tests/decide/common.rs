//! What the tests of decisions are built from: short ways to say a segment, a log, a directory, and strategies that draw them.

use proptest::prelude::*;
use std::collections::{HashMap, HashSet};
use strandline::id::{Generation, SegmentId, Seq, StoreId, Uid};
use strandline::policy::PolicyName;
use strandline::{LogId, Offset, RangeNumber, Topic};
use strandline_sweeper::decide::*;

pub const STORE: StoreId = StoreId(7);
/// An instant like any other, wall ms.
pub const NOW: u64 = 1_700_000_000_000;
pub const HOUR: u64 = 3_600_000;
pub const DAY: u64 = 24 * HOUR;

pub fn log_id(topic: impl AsRef<[u8]>, range: u32) -> LogId {
    let topic = Topic::new(topic).expect("a short topic");
    LogId { topic, range: RangeNumber::new(range).expect("a small range") }
}

pub fn seq(number: u32) -> Seq {
    Seq::new(number).expect("a small seq")
}

pub fn segment_id(topic: impl AsRef<[u8]>, range: u32, number: u32) -> SegmentId {
    SegmentId { log: log_id(topic, range), seq: seq(number) }
}

/// A sealed segment of ten records and a hundred bytes.
pub fn sealed(number: u32, sealed_at_ms: u64) -> Segment {
    Segment {
        seq: seq(number),
        state: State::Sealed,
        base: Offset(u64::from(number) * 10),
        end: Offset(u64::from(number) * 10 + 10),
        byte_size: 100,
        opened_at_ms: Some(sealed_at_ms.saturating_sub(1_000)),
        sealed_at_ms: Some(sealed_at_ms),
    }
}

/// The same as the write head, opened then.
pub fn active(number: u32, opened_at_ms: u64) -> Segment {
    Segment {
        state: State::Active,
        opened_at_ms: Some(opened_at_ms),
        sealed_at_ms: None,
        ..sealed(number, opened_at_ms)
    }
}

/// A name of a policy.
pub fn policy_name(name: &str) -> PolicyName {
    PolicyName::new(name).expect("a name")
}

/// What applies without a policy, rolls off.
pub fn bounds(max_age_ms: Option<u64>, max_bytes: Option<u64>) -> Effective {
    rolling(max_age_ms, max_bytes, None)
}

pub fn rolling(max_age_ms: Option<u64>, max_bytes: Option<u64>, segment_max_age_ms: Option<u64>) -> Effective {
    effective(None, &Policies::new(), &Global { max_age_ms, max_bytes, segment_max_age_ms }, None)
}

pub fn kept(segments: Vec<Segment>, effective: Effective) -> KeptLog {
    KeptLog { id: log_id("t", 0), segments, effective, pins: Vec::new() }
}

pub fn seqs(expiries: &[Expiry]) -> Vec<u32> {
    expiries.iter().map(|expiry| expiry.seq.get()).collect()
}

/// Caps that nothing reaches.
pub const NO_CAPS: Caps = Caps { segments_per_pass: usize::MAX, segments_per_log: usize::MAX };

pub fn header(segment: &SegmentId) -> Header {
    Header { store: STORE, uid: Uid(1), segment: segment.clone(), generation: Generation::default() }
}

/// A directory of this name that nobody has touched for a day.
pub fn directory(name: impl AsRef<[u8]>, evidence: Evidence) -> Entry {
    Entry { name: DirectoryName::new(name), kind: Kind::Directory, evidence, ctime_ms: NOW - DAY }
}

/// The directory of this segment, with its data in it.
pub fn live_directory(id: &SegmentId) -> Entry {
    directory(id.to_string(), Evidence::Live { header: header(id), opened_at_ms: NOW - DAY })
}

/// A whole pass up to what is unexplained, of an authority that knows exactly `known`.
pub struct Sweep {
    pub known: HashSet<SegmentId>,
    pub is_host: bool,
    pub tracked_max: usize,
    pub live_uids: HashMap<Uid, SegmentId>,
    pub attempts: Attempts,
}

impl Default for Sweep {
    fn default() -> Sweep {
        let (known, live_uids) = (HashSet::new(), HashMap::new());
        Sweep { known, is_host: false, tracked_max: TRACKED_MAX, live_uids, attempts: Attempts::default() }
    }
}

impl Sweep {
    pub fn candidates(&self, entries: &[Entry], now_ms: u64) -> Candidates {
        let authority = if self.is_host { Authority::Host } else { Authority::Own { known: &self.known } };
        let (live_uids, tracked_max) = (&self.live_uids, self.tracked_max);
        let survey = Survey { store: STORE, live_uids, authority, age_min_ms: AGE_MIN_MS, tracked_max };
        candidates(entries, &Now::trusted(now_ms), &survey, &self.attempts).expect("no clock is held")
    }

    pub fn explained(&self, entries: &[Entry], now_ms: u64) -> Explained {
        let inquiry = Inquiry::new(&self.candidates(entries, now_ms));
        let mut answers = Answers::default();
        for page in inquiry.pages(3) {
            answers.take(Ok(page.iter().map(|id| (id.clone(), self.standing(id))).collect()));
        }
        explain(inquiry, &answers).expect("answered")
    }

    fn standing(&self, id: &SegmentId) -> Standing {
        if self.known.contains(id) { Standing::Known } else { Standing::Unknown }
    }
}

/// Limits of a sweep that deletes and has no brake.
pub fn deleting(sightings: u32, removals_per_pass: usize) -> ReviewLimits {
    let mode = Mode::Delete;
    ReviewLimits { mode, sightings, removals_per_pass, tracked_max: TRACKED_MAX, mass_confirmed: true }
}

pub fn ready_names(review: &Review) -> Vec<String> {
    review.ready.iter().map(|ready| ready.candidate.name.to_string()).collect()
}

/// Numbers at which sums, differences and comparisons go wrong.
pub fn edgy() -> impl Strategy<Value = u64> + Clone {
    prop_oneof![0..12_u64, 0..12_u64, NOW - 3..NOW + 3, u64::MAX - 3..=u64::MAX, any::<u64>()]
}

pub fn any_state() -> impl Strategy<Value = State> {
    let sealed = Just(State::Sealed);
    prop_oneof![5 => sealed, 1 => Just(State::Fenced), 1 => Just(State::Active), 1 => Just(State::Prepared)]
}

pub fn any_segments() -> impl Strategy<Value = Vec<Segment>> {
    let time = || prop::option::weighted(0.9, edgy());
    let one = (any_state(), 0..3_u64, edgy(), time(), time());
    prop::collection::vec(one, 0..12).prop_map(|drawn| {
        let numbered = drawn.into_iter().zip(0..);
        let segment = |((state, records, byte_size, opened_at_ms, sealed_at_ms), number): (_, u32)| Segment {
            seq: seq(number * 2),
            state,
            base: Offset(u64::from(number) * 3),
            end: Offset(u64::from(number) * 3 + records),
            byte_size,
            opened_at_ms,
            sealed_at_ms,
        };
        numbered.map(segment).collect()
    })
}

pub fn any_bounds() -> impl Strategy<Value = Effective> {
    let value = || prop::option::weighted(0.8, edgy());
    (value(), value(), value()).prop_map(|(age, bytes, roll)| rolling(age, bytes, roll))
}

pub fn any_pins() -> impl Strategy<Value = Vec<Pin>> {
    let one = ("[a-c]", 0..40_u64, edgy());
    let pin = |(holder, from, bytes_max)| Pin { holder, from: Offset(from), bytes_max };
    prop::collection::vec(one.prop_map(pin), 0..3)
}

pub fn any_log() -> impl Strategy<Value = KeptLog> {
    (any_segments(), any_bounds(), any_pins())
        .prop_map(|(segments, effective, pins)| KeptLog { pins, ..kept(segments, effective) })
}

/// Topics that look like names of segments, topics of any bytes, and plain ones.
pub fn any_topic() -> impl Strategy<Value = Vec<u8>> {
    let look_alike = "(x|a-r0-s0|g2gC|-|\\.\\.)(-r[0-9]{1,2}-s[0-9]{1,2}){0,2}".prop_map(String::into_bytes);
    let plain = "[a-c]{1,2}".prop_map(String::into_bytes);
    prop_oneof![look_alike, plain, prop::collection::vec(any::<u8>(), 0..12)]
}

pub fn any_id() -> impl Strategy<Value = SegmentId> {
    let number = || prop_oneof![0..3_u32, 250..260_u32, Just(i32::MAX as u32)];
    (any_topic(), number(), number()).prop_map(|(topic, range, number)| segment_id(topic, range, number))
}

/// Names below a root: of segments, nearly of segments, and of anything else.
pub fn any_name() -> impl Strategy<Value = Vec<u8>> {
    let near = "(x|-|)(-r0{0,2}[0-9]{0,2}){0,2}(-s0{0,1}[0-9]{0,10}){0,2}".prop_map(String::into_bytes);
    let foreign =
        prop::sample::select(vec!["backup", "lost+found", "t-r0-s01", "-r0-s1", ".", "..", "manifest", "trash"]);
    let foreign = foreign.prop_map(|name| name.as_bytes().to_vec());
    let reserved =
        prop::sample::select(strandline::layout::RESERVED.to_vec()).prop_map(|name| name.as_bytes().to_vec());
    let written = any_id().prop_map(|id| id.to_string().into_bytes());
    prop_oneof![3 => written, 1 => near, 1 => foreign, 1 => reserved, 1 => prop::collection::vec(any::<u8>(), 0..20)]
}
