//! The governor: how fast bytes may go. A plain function of what commits took meanwhile: no clock, no I/O.
//!
//! To free a written block costs the device a discard, and a burst of discards stalls every append on it. So a file is shrunk in steps.
//! The rate of the steps follows the appends: up while they stay well within the budget, down at once when they do not. Where at half the
//! rate no fewer of them wait, and no less, it is not the rate that they wait for: to go slowly would only make it longer, and the rate goes
//! back to what it was for a while. The size of a step follows what a step takes: an append that meets one waits for it, so it may take no
//! more than half the budget.

use super::latencies::Seen;
use std::collections::VecDeque;
use std::time::Duration;

const MIB: u64 = 1 << 20;
/// Where it begins, in bytes a second: about what appends do not notice on the drives that were measured.
const RATE_FIRST: u64 = 384 * MIB;
/// It never goes faster, in bytes a second.
const RATE_MAX: u64 = 2_048 * MIB;
/// The smallest, the first and the largest step, in bytes.
const STEP_MIN: u64 = 128 << 10;
const STEP_FIRST: u64 = 512 << 10;
const STEP_MAX: u64 = 2 * MIB;
/// Steps are multiples of this.
const STEP_GRAIN: u64 = 64 << 10;
/// A window says something from so many commits on.
const SAMPLES_MIN: u64 = 1_000;
/// A window that is over with fewer than these disturbs nobody.
const SAMPLES_FEW: u64 = 20;
/// How long a window lasts, with enough commits and at most, in nanoseconds.
const WINDOW_NS: u64 = 50_000_000;
const WINDOW_MAX_NS: u64 = 1_000_000_000;
/// So many windows without removal are remembered, and say something together from so many commits on.
const CALM_WINDOWS: usize = 8;
const CALM_SAMPLES_MIN: u64 = 100;
/// Up to this part of what they may take, in percent, appends bear more.
const EASY_PERCENT: u64 = 85;
/// Appends are helped by going slower when their p99, or how many of them are over the budget, has come to this part of before, in percent.
const HELPED_PERCENT: u64 = 75;
/// How long the rate then stays, as long as appends do not get this much slower, in percent of before, in nanoseconds.
const FIRM_NS: u64 = 10_000_000_000;
const FIRM_PERCENT: u64 = 125;
/// After so much removal it is time to look again what commits take without, in nanoseconds.
const CALM_EVERY_NS: u64 = 2_000_000_000;

/// What the operator allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowed {
    /// The p99 that commits may have beside removal even where they are faster without, in nanoseconds.
    pub budget_ns: u64,
    /// Bytes a second that are removed whatever it costs, so that the disk does not fill.
    pub rate_min: u64,
}

/// What was so before it went slower.
#[derive(Clone, Copy, Debug)]
struct Before {
    rate: u64,
    p99_ns: u64,
    /// Commits over the bound, of a thousand.
    over: u64,
}

impl Before {
    /// Whether appends are better off than then: those that wait do so for less long, or they are fewer.
    fn is_helped_by(&self, p99_ns: u64, over: u64) -> bool {
        let is_less = |now: u64, then: u64| now.saturating_mul(100) <= then.saturating_mul(HELPED_PERCENT);
        is_less(p99_ns, self.p99_ns) || is_less(over, self.over)
    }
}

/// Going slower has not helped: until then commits may have this p99.
#[derive(Clone, Copy, Debug)]
struct Firm {
    until_ns: u64,
    p99_ns: u64,
    /// And it goes no faster than this.
    rate: u64,
}

/// Adapts the rate of removal to the commits beside it.
#[derive(Debug)]
pub struct Governor {
    allowed: Allowed,
    /// Bytes a second.
    rate: u64,
    /// Bytes.
    step: u64,
    /// Commits of windows in which nothing was removed, the newest first, and when the last of them ended.
    calm: VecDeque<Seen>,
    calm_at_ns: u64,
    /// See [`Governor::budget_ns`]. Each step asks for it, and it changes only when there is another such window.
    budget_ns: u64,
    /// What had been counted when the window began, and when that was.
    before: Seen,
    since_ns: u64,
    /// Since when it goes slower and slower, and whether that was of no use.
    slowing: Option<Before>,
    firm: Option<Firm>,
    /// Nobody writes: the last window had hardly any commits.
    alone: bool,
    held_back: u64,
}

impl Governor {
    /// Nothing is being removed yet.
    #[must_use]
    pub fn new(allowed: Allowed) -> Governor {
        Governor {
            allowed,
            rate: RATE_FIRST.max(allowed.rate_min),
            step: STEP_FIRST,
            calm: VecDeque::new(),
            calm_at_ns: 0,
            budget_ns: allowed.budget_ns,
            before: Seen::default(),
            since_ns: 0,
            slowing: None,
            firm: None,
            alone: false,
            held_back: 0,
        }
    }

    /// From now on it never goes slower than this, in bytes a second.
    pub fn set_rate_min(&mut self, rate_min: u64) {
        self.allowed.rate_min = rate_min;
        self.rate = self.rate.max(rate_min);
    }

    /// Removal begins at `now_ns`, or goes on: what came since it ended shows commits by themselves.
    pub fn begin(&mut self, seen: Seen, now_ns: u64) {
        self.calm.truncate(CALM_WINDOWS - 1);
        self.calm.push_front(seen.since(&self.before));
        let calm = self.calm.iter().fold(Seen::default(), |all, window| all.and(window));
        let p99 = if calm.count() < CALM_SAMPLES_MIN { 0 } else { calm.p99_ns() };
        self.budget_ns = self.allowed.budget_ns.max(p99.saturating_mul(2));
        (self.before, self.since_ns, self.calm_at_ns) = (seen, now_ns, now_ns);
    }

    /// Removal has gone on for so long that it should end for a moment, and begin again.
    #[must_use]
    pub fn wants_calm(&self, now_ns: u64) -> bool {
        !self.alone && now_ns.saturating_sub(self.calm_at_ns) >= CALM_EVERY_NS
    }

    /// Removal has ended.
    pub fn end(&mut self, seen: Seen) {
        self.before = seen;
    }

    /// Whether the window may be over, so that it is worth to look at what was counted.
    #[must_use]
    pub fn wants_to_look(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.since_ns) >= WINDOW_NS
    }

    /// Looks at the commits of a window in which something was removed, and changes the rate when it says enough.
    pub fn look(&mut self, seen: Seen, now_ns: u64) {
        let window = seen.since(&self.before);
        let (count, took) = (window.count(), now_ns.saturating_sub(self.since_ns));
        if count < SAMPLES_MIN && took < WINDOW_MAX_NS {
            return;
        }
        self.alone = count < SAMPLES_FEW;
        self.rate = if self.alone { self.rate / 2 * 3 } else { self.next_rate(&window, now_ns) };
        self.rate = self.rate.min(RATE_MAX).max(self.allowed.rate_min);
        (self.before, self.since_ns) = (seen, now_ns);
    }

    /// The rate after a window of such commits.
    fn next_rate(&mut self, window: &Seen, now_ns: u64) -> u64 {
        self.firm = self.firm.filter(|firm| now_ns < firm.until_ns);
        let bound = self.firm.map_or(self.budget_ns, |firm| firm.p99_ns.max(self.budget_ns));
        let (p99_ns, over) = (window.p99_ns(), window.over_per_mille(bound));
        if p99_ns <= bound {
            self.slowing = None;
            let percent = if p99_ns > bound / 100 * EASY_PERCENT { 100 } else { 110 };
            return (self.rate * percent / 100).min(self.firm.map_or(RATE_MAX, |firm| firm.rate));
        }
        let before = *self.slowing.get_or_insert(Before { rate: self.rate, p99_ns, over });
        let is_half = self.rate < before.rate && self.rate <= (before.rate / 2).max(self.allowed.rate_min);
        if is_half && !before.is_helped_by(p99_ns, over) {
            let p99_ns = before.p99_ns.max(p99_ns) / 100 * FIRM_PERCENT;
            let (rate, until_ns) = (before.rate, now_ns.saturating_add(FIRM_NS));
            (self.firm, self.slowing) = (Some(Firm { until_ns, p99_ns, rate }), None);
            return rate;
        }
        self.held_back += 1;
        if is_half {
            self.slowing = Some(Before { rate: self.rate, p99_ns, over }); // It helped, and not enough yet.
        }
        let percent = if p99_ns > bound.saturating_mul(2) { 50 } else { 70 };
        self.rate * percent / 100
    }

    /// A step of so many bytes took so long.
    pub fn stepped(&mut self, bytes: u64, took_ns: u64) {
        let budget = self.budget_ns();
        if took_ns > budget / 2 {
            self.step = (bytes.min(self.step) / 8 * 7).max(STEP_MIN);
        } else if took_ns < budget / 4 || self.alone {
            self.step = (self.step / 16 * 17).min(STEP_MAX);
        }
    }

    /// The p99 that commits may have beside removal, in nanoseconds: twice what they have without, and no less than was allowed.
    #[must_use]
    pub fn budget_ns(&self) -> u64 {
        self.budget_ns
    }

    /// Bytes a second at which it removes now.
    #[must_use]
    pub fn rate(&self) -> u64 {
        self.rate
    }

    /// Windows in which it went slower because commits took too long.
    #[must_use]
    pub fn held_back(&self) -> u64 {
        self.held_back
    }

    /// How much of a file goes in one step, in bytes.
    #[must_use]
    pub fn step_bytes(&self) -> u64 {
        self.step - self.step % STEP_GRAIN
    }

    /// How long the next step comes after one that freed so many bytes.
    #[must_use]
    pub fn pause(&self, bytes: u64) -> Duration {
        Duration::from_nanos((u128::from(bytes) * 1_000_000_000 / u128::from(self.rate.max(1))) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::removal::latencies::Latencies;

    const ALLOWED: Allowed = Allowed { budget_ns: 1_000_000, rate_min: 32 * MIB };
    const SECOND: u64 = 1_000_000_000;

    fn governor() -> (Governor, Latencies) {
        (Governor::new(ALLOWED), Latencies::default())
    }

    /// Windows of commits whose p99 follows the rate as a device has it, and the rate after them.
    fn after(governor: &mut Governor, windows: u32, p99_of: impl Fn(u64) -> u64) -> u64 {
        let (latencies, mut now) = (Latencies::default(), 0);
        governor.begin(latencies.seen(), now);
        (0..windows).for_each(|_| {
            let ns = p99_of(governor.rate());
            window(governor, &latencies, &mut now, ns);
        });
        governor.rate()
    }

    /// A window of enough commits that took so long each.
    fn window(governor: &mut Governor, latencies: &Latencies, now_ns: &mut u64, ns: u64) {
        (0..SAMPLES_MIN).for_each(|_| latencies.note(ns));
        *now_ns += WINDOW_NS;
        governor.look(latencies.seen(), *now_ns);
    }

    /// Each MiB a second costs appends 20 us.
    fn follows(rate: u64) -> u64 {
        rate / MIB * 20_000
    }

    #[test]
    fn appends_that_suffer_slow_it_down_to_what_they_bear_or_to_its_least() {
        let (mut governor, _) = governor();
        let rate = after(&mut governor, 50, follows);
        assert!((30 * MIB..=60 * MIB).contains(&rate), "50 MiB/s make a millisecond: {rate}");
        assert!(governor.held_back() >= 3, "{}", governor.held_back());
        let mut governor = Governor::new(ALLOWED);
        assert_eq!(after(&mut governor, 50, |rate| 5 * follows(rate)), ALLOWED.rate_min, "and no further");
    }

    #[test]
    fn appends_that_a_slower_rate_does_not_help_do_not_slow_it_down() {
        let (mut governor, latencies) = governor();
        let (mut now, mut rates) = (0, Vec::new());
        governor.begin(latencies.seen(), now);
        // Forty seconds: a p99 of one and a half of the budget, whatever the rate is.
        for _ in 0..800 {
            window(&mut governor, &latencies, &mut now, 1_500_000);
            rates.push(governor.rate());
        }
        let slow = rates.iter().filter(|rate| **rate < RATE_FIRST).count();
        assert!(slow > 0, "it has tried");
        assert!(slow <= 20, "for {slow} windows of 800: {rates:?}");
        assert!(rates.iter().all(|rate| (RATE_FIRST / 3..=RATE_FIRST).contains(rate)), "no faster either: {rates:?}");
    }

    #[test]
    fn a_slower_rate_helps_also_when_those_that_wait_wait_as_long_but_are_fewer() {
        let (mut governor, latencies) = governor();
        let mut now = 0;
        governor.begin(latencies.seen(), now);
        for _ in 0..50 {
            // Each MiB a second has one commit in five thousand wait, and that for 3 ms.
            let slow = governor.rate() / MIB * SAMPLES_MIN / 5_000;
            (0..slow).for_each(|_| latencies.note(3_000_000));
            (slow..SAMPLES_MIN).for_each(|_| latencies.note(200_000));
            now += WINDOW_NS;
            governor.look(latencies.seen(), now);
        }
        let rate = governor.rate();
        assert!((30 * MIB..=60 * MIB).contains(&rate), "at 50 MiB/s one in a hundred waits: {rate}");
    }

    #[test]
    fn what_did_not_help_once_is_tried_again_when_appends_get_slower_than_before() {
        let (mut governor, latencies) = governor();
        let mut now = 0;
        governor.begin(latencies.seen(), now);
        (0..10).for_each(|_| window(&mut governor, &latencies, &mut now, 1_500_000));
        assert!(governor.rate() >= RATE_FIRST, "it stays firm");
        for _ in 0..60 {
            let ns = follows(governor.rate()).max(1_500_000);
            window(&mut governor, &latencies, &mut now, ns);
        }
        let rate = governor.rate();
        assert!(rate < 200 * MIB, "{rate}");
    }

    #[test]
    fn appends_that_do_not_notice_let_it_go_faster_up_to_a_bound() {
        let (mut governor, latencies) = governor();
        let mut now = 0;
        (0..50).for_each(|_| window(&mut governor, &latencies, &mut now, 300_000));
        assert_eq!(governor.rate(), RATE_MAX);
        assert_eq!(governor.held_back(), 0);
    }

    #[test]
    fn a_little_below_the_budget_nothing_changes() {
        let (mut governor, latencies) = governor();
        let (mut now, before) = (0, governor.rate());
        window(&mut governor, &latencies, &mut now, 890_000);
        assert_eq!(governor.rate(), before);
    }

    #[test]
    fn the_budget_is_twice_what_commits_take_without_removal() {
        let (mut governor, latencies) = governor();
        (0..1_000).for_each(|_| latencies.note(3_000_000));
        governor.begin(latencies.seen(), SECOND);
        assert!((6_000_000..=7_000_000).contains(&governor.budget_ns()), "{}", governor.budget_ns());
        let (mut now, before) = (SECOND, governor.rate());
        window(&mut governor, &latencies, &mut now, 4_000_000);
        assert!(governor.rate() > before, "what would be slow elsewhere is usual here");
    }

    #[test]
    fn an_append_that_meets_a_step_waits_for_half_the_budget_at_most() {
        let (mut governor, _) = governor();
        let ns_of = |bytes: u64| 300_000 + bytes; // What a discard takes: a call, and a millisecond for each MiB.
        (0..100).for_each(|_| governor.stepped(governor.step_bytes(), ns_of(governor.step_bytes())));
        let step = governor.step_bytes();
        assert!(step >= STEP_MIN && ns_of(step) <= ALLOWED.budget_ns / 2, "{step}");
        (0..100).for_each(|_| governor.stepped(governor.step_bytes(), 20_000));
        assert_eq!(governor.step_bytes(), STEP_MAX, "where the file system discards later");
        (0..100).for_each(|_| governor.stepped(governor.step_bytes(), 9_000_000));
        assert_eq!(governor.step_bytes(), STEP_MIN);
    }

    #[test]
    fn it_looks_again_what_commits_take_without_removal_unless_there_are_none() {
        let (mut governor, latencies) = governor();
        governor.begin(latencies.seen(), SECOND);
        assert!(!governor.wants_calm(SECOND + CALM_EVERY_NS - 1) && governor.wants_calm(SECOND + CALM_EVERY_NS));
        let mut now = SECOND;
        window(&mut governor, &latencies, &mut now, 300_000);
        assert!(governor.wants_calm(SECOND + CALM_EVERY_NS));
        governor.look(latencies.seen(), now + WINDOW_MAX_NS);
        assert!(!governor.wants_calm(9 * SECOND), "nobody writes");
    }

    #[test]
    fn windows_without_removal_count_together_and_old_ones_are_forgotten() {
        let (mut governor, latencies) = governor();
        for _ in 0..CALM_WINDOWS {
            (0..50).for_each(|_| latencies.note(3_000_000));
            governor.begin(latencies.seen(), SECOND);
        }
        assert!(governor.budget_ns() >= 6_000_000, "each alone has too few");
        for _ in 0..CALM_WINDOWS {
            (0..50).for_each(|_| latencies.note(100_000));
            governor.begin(latencies.seen(), SECOND);
        }
        assert_eq!(governor.budget_ns(), ALLOWED.budget_ns);
    }

    #[test]
    fn what_commits_take_beside_removal_does_not_raise_the_budget() {
        let (mut governor, latencies) = governor();
        governor.begin(latencies.seen(), 0);
        let mut now = 0;
        window(&mut governor, &latencies, &mut now, 50_000_000);
        governor.end(latencies.seen());
        governor.begin(latencies.seen(), now);
        assert_eq!(governor.budget_ns(), ALLOWED.budget_ns);
    }

    #[test]
    fn a_few_commits_say_nothing_until_a_second_is_over_and_none_at_all_disturb_nobody() {
        let (mut governor, latencies) = governor();
        let before = governor.rate();
        (0..50).for_each(|_| latencies.note(9_000_000));
        governor.look(latencies.seen(), WINDOW_NS);
        assert_eq!(governor.rate(), before);
        governor.look(latencies.seen(), WINDOW_MAX_NS);
        assert!(governor.rate() < before, "50 slow ones in a second count");
        let before = governor.rate();
        governor.look(latencies.seen(), 2 * WINDOW_MAX_NS);
        assert!(governor.rate() > before);
    }

    #[test]
    fn a_higher_least_rate_holds_at_once_and_a_lower_one_slows_nothing_down_by_itself() {
        let (mut governor, latencies) = governor();
        governor.begin(latencies.seen(), 0);
        let mut now = 0;
        let mut suffer =
            |governor: &mut Governor| window(governor, &latencies, &mut now, 50 * follows(governor.rate()));
        (0..50).for_each(|_| suffer(&mut governor));
        governor.set_rate_min(256 * MIB);
        assert_eq!(governor.rate(), 256 * MIB);
        suffer(&mut governor);
        assert_eq!(governor.rate(), 256 * MIB, "whatever it does to appends");
        governor.set_rate_min(ALLOWED.rate_min);
        assert_eq!(governor.rate(), 256 * MIB);
        suffer(&mut governor);
        assert!(governor.rate() < 256 * MIB);
    }

    #[test]
    fn a_pause_makes_the_rate() {
        let (governor, _) = governor();
        let pause = governor.pause(governor.rate());
        assert_eq!(pause, Duration::from_secs(1));
    }
}
