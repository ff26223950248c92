//! Descriptors: how many files and directories a shard may have open at once, who waits for room, and what is let go of for him.
//!
//! Nothing on disk depends on what is open: whatever is let go of is durable, and is opened again when it is needed. First go sealed
//! segments that nobody reads, then files that were made ahead, then the heads of logs that are quiet; of each kind what was used longest
//! ago. Whoever opens something takes room for it before, in the order in which it was asked for.

use super::command::LogNumber;
use super::shard::Shard;
use super::timers::Timer;
use crate::config::DESCRIPTORS_MIN;
use crate::error::{AppendError, ReadError};
use crate::log::{self, Log, Successor};
use crate::segment::active::Active;
use crate::segment::closed::Closed;
use crate::segment::unopened::Unopened;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::task::{Poll, Waker};
use strandline_disk::{Disk, DiskError, Errno, Handles, Verb};

/// How long whoever waits for room is let wait while nothing is let go of, in nanoseconds. Then all who wait are refused.
const STUCK_NS: u64 = 2_000_000_000;

/// A log that is not roused for its mark while others wait for room is looked at again after so long at least, in nanoseconds.
const MARK_LATER_NS: u64 = 10_000_000;

/// So much of what a head knows is kept while its log is idle, in bytes.
const KNOWN_BYTES_IDLE: usize = 2_048;

/// How many closed segments a shard keeps open: each costs its index, too.
const LOADED_MAX: usize = 64;

/// The descriptors of a shard. Clones share them.
#[derive(Clone)]
pub(super) struct Descriptors {
    handles: Handles,
    most: usize,
    gate: Rc<Gate>,
}

struct Gate {
    /// How many may be open now: fewer for a while where the host has none left.
    most_now: Cell<usize>,
    /// Room that was taken by those who are opening something now.
    taken: Cell<usize>,
    waiting: RefCell<VecDeque<Rc<Waiter>>>,
}

struct Waiter {
    wanted: usize,
    answer: Cell<Option<bool>>,
    waker: RefCell<Option<Waker>>,
}

/// Room for some descriptors, until this is dropped: what is open by then counts by itself.
pub(super) struct Room {
    gate: Rc<Gate>,
    count: usize,
}

impl Drop for Room {
    fn drop(&mut self) {
        self.gate.taken.set(self.gate.taken.get() - self.count);
    }
}

impl Descriptors {
    pub(super) fn new(handles: Handles, most: usize) -> Descriptors {
        let gate = Gate { most_now: Cell::new(most), taken: Cell::default(), waiting: RefCell::default() };
        Descriptors { handles, most, gate: Rc::new(gate) }
    }

    /// Waits for room for `count` descriptors. Nobody waits for other room while he has some.
    pub(super) async fn room(&self, count: usize) -> Result<Room, DiskError> {
        if !self.gate.waiting.borrow().is_empty() || !self.fits(count) {
            let waiter = Rc::new(Waiter { wanted: count, answer: Cell::default(), waker: RefCell::default() });
            self.gate.waiting.borrow_mut().push_back(waiter.clone());
            let let_in = std::future::poll_fn(|context| match waiter.answer.get() {
                Some(answer) => Poll::Ready(answer),
                None => {
                    *waiter.waker.borrow_mut() = Some(context.waker().clone());
                    Poll::Pending
                }
            });
            // Room was taken for whoever is let in.
            return match let_in.await {
                true => Ok(Room { gate: self.gate.clone(), count }),
                false => Err(DiskError::new(Verb::Open, "a segment", Errno::MFILE)),
            };
        }
        Ok(self.take(count))
    }

    fn take(&self, count: usize) -> Room {
        self.gate.taken.set(self.gate.taken.get() + count);
        Room { gate: self.gate.clone(), count }
    }

    fn fits(&self, count: usize) -> bool {
        self.handles.open().saturating_add(self.gate.taken.get()).saturating_add(count) <= self.gate.most_now.get()
    }

    /// Lets those in who have waited longest, while there is room for them; gives how many.
    fn let_in(&self) -> usize {
        let mut count = 0;
        loop {
            let next = self.gate.waiting.borrow_mut().pop_front_if(|next| self.fits(next.wanted));
            let Some(next) = next else { return count };
            // Whoever waited gives it back.
            self.gate.taken.set(self.gate.taken.get() + next.wanted);
            next.tell(true);
            count += 1;
        }
    }

    fn refuse_all(&self) -> usize {
        let refused = std::mem::take(&mut *self.gate.waiting.borrow_mut());
        refused.iter().for_each(|waiter| waiter.tell(false));
        refused.len()
    }

    /// How many descriptors whoever waits longest lacks; `None` while nobody waits.
    fn lacking(&self) -> Option<usize> {
        let wanted = self.gate.waiting.borrow().front()?.wanted;
        Some((self.handles.open() + self.gate.taken.get() + wanted).saturating_sub(self.gate.most_now.get()))
    }

    fn are_awaited(&self) -> bool {
        !self.gate.waiting.borrow().is_empty()
    }

    /// How many are open, and how many may be.
    pub(super) fn count(&self) -> (usize, usize) {
        (self.handles.open(), self.most)
    }

    /// Whether so little is left that nothing is made ahead of its time.
    pub(super) fn are_few(&self) -> bool {
        self.handles.open() + self.gate.taken.get() > self.most / 4 * 3
    }
}

impl Waiter {
    fn tell(&self, answer: bool) {
        self.answer.set(Some(answer));
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }
}

/// How it goes with those who wait for room.
#[derive(Default)]
pub(super) struct Pressing {
    /// Since when nothing was let go of, and how many were open then.
    stuck: Option<(u64, usize)>,
    seen_shortages: u64,
    /// Until when fewer may be open, since boot in nanoseconds.
    lowered_to_ns: u64,
    /// Logs that are being roused for their mark alone.
    marking: Vec<LogNumber>,
}

impl<D: Disk> Shard<D> {
    /// Makes room for those who wait for some. True when somebody was let in, or refused.
    pub(super) fn make_way(&mut self) -> bool {
        self.heed_shortages();
        let mut moved = self.descriptors.let_in();
        let Some(lacking) = self.descriptors.lacking() else {
            self.pressing.stuck = None;
            return moved > 0;
        };
        let batch = self.descriptors.most / 16;
        if self.let_go_of(lacking, batch.max(lacking)) > 0 {
            moved += self.descriptors.let_in();
        }
        let open = self.descriptors.handles.open();
        match self.pressing.stuck {
            Some((since_ns, then)) if moved == 0 && open >= then => {
                if self.now.boot_ns.saturating_sub(since_ns) >= STUCK_NS {
                    tracing::warn!(open, most = self.descriptors.most, "no descriptor can be let go of");
                    self.pressing.stuck = None;
                    moved += self.descriptors.refuse_all();
                }
            }
            _ => self.pressing.stuck = Some((self.now.boot_ns, open)),
        }
        moved > 0
    }

    /// When somebody who waits for room is let in because as many may be open again as before, or refused, since boot in nanoseconds.
    pub(super) fn presses_at_ns(&self) -> u64 {
        let lowered = self.descriptors.gate.most_now.get() < self.descriptors.most;
        let restored_ns = if lowered { self.pressing.lowered_to_ns } else { u64::MAX };
        self.pressing.stuck.map_or(u64::MAX, |(since_ns, _)| since_ns.saturating_add(STUCK_NS).min(restored_ns))
    }

    /// Opens a head again that was let go of without its mark. Only a few at once and none while somebody waits for room: he would stand behind
    /// all of them.
    pub(super) fn rouse_for_its_mark(&mut self, number: LogNumber) {
        let (logs, marking) = (&self.logs, &mut self.pressing.marking);
        marking.retain(|number| logs[number.0].rousing);
        let is_crowded = marking.len() >= (self.descriptors.most / 8).max(1) || self.descriptors.are_awaited();
        if is_crowded && self.closing.is_none() {
            let later_ns = self.idle_mark_after_ns.max(MARK_LATER_NS);
            return self.timers.set(number, Timer::Mark, self.now.boot_ns.saturating_add(later_ns));
        }
        marking.push(number);
        self.rouse(number);
    }

    /// The host has none left for us although we are within our limit: some go, so that what was refused can be done.
    fn heed_shortages(&mut self) {
        let shortages = self.descriptors.handles.shortages();
        let met = shortages - std::mem::replace(&mut self.pressing.seen_shortages, shortages);
        if met == 0 {
            if self.now.boot_ns >= self.pressing.lowered_to_ns {
                self.descriptors.gate.most_now.set(self.descriptors.most);
            }
        } else {
            // Whoever opens something next has as many as there are now to himself, not to share with others who have opened half of theirs.
            let open = self.descriptors.handles.open();
            self.descriptors.gate.most_now.set(open.max(DESCRIPTORS_MIN).min(self.descriptors.most));
            self.pressing.lowered_to_ns = self.now.boot_ns.saturating_add(STUCK_NS / 2);
            self.queue.counters.descriptors_refused.fetch_add(met, Ordering::Relaxed);
            let some = (open / 8).max(4);
            self.let_go_of(some, some);
        }
    }

    /// Lets go of at least `lacking` descriptors where that can be, and of `batch` of the kind that it comes to; gives how many are free now.
    /// Where there are fewer, marks are written so that more heads may go soon.
    fn let_go_of(&mut self, lacking: usize, batch: usize) -> usize {
        let mut freed = self.let_loaded_go(batch);
        if freed < lacking {
            freed += self.let_successors_go(batch - freed);
        }
        if freed < lacking {
            freed += self.let_heads_go(batch - freed);
        }
        if freed < lacking {
            self.mark_those_that_may_go(lacking - freed);
        }
        freed
    }

    /// Lets go of closed segments that nobody reads just now, those first that were read longest ago.
    fn let_loaded_go(&mut self, count: usize) -> usize {
        let idle = |(log, segment): &(LogNumber, crate::id::Seq)| {
            let loaded = self.logs[log.0].closed_at(*segment)?.loaded.as_ref()?;
            let is_idle = Rc::strong_count(loaded) == 1 && loaded.file.holders() == 1;
            is_idle.then(|| (loaded.used_ns.get(), (*log, *segment)))
        };
        let found = self.loaded.iter().filter_map(idle).collect();
        let going = oldest(found, count);
        for (log, segment) in &going {
            if let Some(closed) = self.logs[log.0].closed_at_mut(*segment) {
                closed.loaded = None;
            }
        }
        self.forget_what_is_not_loaded();
        going.len()
    }

    /// The list holds what is loaded, and nothing else.
    fn forget_what_is_not_loaded(&mut self) {
        let logs = &self.logs;
        let is_loaded =
            |log: &LogNumber, segment| logs[log.0].closed_at(segment).is_some_and(|closed| closed.loaded.is_some());
        self.loaded.retain(|(log, segment)| is_loaded(log, *segment));
    }

    /// Sees to it that no more closed segments are open than are worth their memory.
    pub(super) fn bound_loaded(&mut self) {
        if self.loaded.len() > LOADED_MAX {
            self.forget_what_is_not_loaded();
            self.let_loaded_go(self.loaded.len().saturating_sub(LOADED_MAX));
        }
    }

    fn let_successors_go(&mut self, count: usize) -> usize {
        let idle = |number: LogNumber| {
            let log = &self.logs[number.0];
            let is_idle = log.queued.is_empty()
                && match &log.successor {
                    Successor::Ready(prepared) => prepared.file.holders() == 1,
                    Successor::Making(making) => making.holds(),
                    _ => false,
                };
            is_idle.then_some((log.settled_ns, number))
        };
        let found = (0..self.logs.len()).map(LogNumber).filter_map(idle).collect();
        oldest(found, count).into_iter().map(|number| let_successor_go(&mut self.logs[number.0])).sum()
    }

    fn let_heads_go(&mut self, count: usize) -> usize {
        let idle = |number: LogNumber| self.may_fall_asleep(number).then(|| (self.logs[number.0].settled_ns, number));
        let found = (0..self.logs.len()).map(LogNumber).filter_map(idle).collect();
        let going = oldest(found, count);
        let slept = going.into_iter().filter(|number| log::fall_asleep(&mut self.logs[number.0])).count();
        self.queue.counters.heads_let_go.fetch_add(slept as u64, Ordering::Relaxed);
        slept
    }

    /// Whether the head of a log may be let go of now.
    fn may_fall_asleep(&self, number: LogNumber) -> bool {
        let log = &self.logs[number.0];
        // Reads that are under way hold it: it would not be closed by that. What the manifest does not know yet does not fall asleep.
        let is_read = |active: &Active| active.file.holders() > 1 || !active.announced || active.is_new();
        let is_held = log.active.as_ref().is_none_or(is_read);
        let awaited = self.verbs.get(&number).is_some_and(|verbs| !verbs.is_empty());
        !is_held && !awaited && log::is_quiet(log) && log::is_marked(log)
    }

    /// A head that has no mark yet gets it at once, so that it may be let go of when that is durable.
    fn mark_those_that_may_go(&mut self, count: usize) {
        let idle = |number: LogNumber| {
            let log = &self.logs[number.0];
            (log.wants_mark() && log::is_quiet(log)).then_some((log.settled_ns, number))
        };
        let found = (0..self.logs.len()).map(LogNumber).filter_map(idle).collect();
        let mut marks = std::mem::take(&mut self.writes);
        for number in oldest(found, count) {
            marks.extend(self.lay_mark(number));
            self.sleep_later(number);
        }
        self.start(&mut marks);
        self.writes = marks;
    }

    /// Has a log looked at when it has been quiet for so long that it keeps no file open.
    pub(super) fn close_later(&mut self, number: LogNumber) {
        let Some(after) = self.config.idle_close_after else { return };
        let after = u64::try_from(after.as_nanos()).unwrap_or(u64::MAX);
        self.timers.set(number, Timer::Close, self.now.boot_ns.saturating_add(after));
    }

    /// Lets go of what a log has open, where it was quiet for long enough.
    pub(super) fn close_is_due(&mut self, number: LogNumber) {
        let Some(after) = self.config.idle_close_after else { return };
        let (now_ns, after_ns) = (self.now.boot_ns, u64::try_from(after.as_nanos()).unwrap_or(u64::MAX));
        let is_long_ago = |then_ns: u64| now_ns.saturating_sub(then_ns) >= after_ns;
        let is_idle = is_long_ago(self.logs[number.0].settled_ns);
        if is_idle && self.may_fall_asleep(number) {
            log::fall_asleep(&mut self.logs[number.0]);
        }
        let log = &mut self.logs[number.0];
        if is_idle && log.queued.is_empty() {
            let_successor_go(log);
            log::forget_much(log, KNOWN_BYTES_IDLE);
        }
        let mut left = log.active.is_some() || matches!(log.successor, Successor::Ready(_) | Successor::Making(_));
        left |= log.dormant.is_some() && !is_idle;
        // One that is damaged and has no footer stays: only what is open says so.
        let is_whole = |closed: &&mut Closed| closed.loaded.as_ref().is_none_or(|loaded| loaded.damage.is_empty());
        for closed in log.closed.iter_mut().filter(|closed| closed.sealed || is_whole(closed)) {
            closed.loaded.take_if(|loaded| Rc::strong_count(loaded) == 1 && is_long_ago(loaded.used_ns.get()));
            left |= closed.loaded.is_some();
        }
        if left {
            self.close_later(number);
        }
    }

    /// What an append is answered for which nothing could be opened.
    pub(super) fn explain_append(&self, error: AppendError) -> AppendError {
        let (held, budget) = self.descriptors.count();
        match error {
            AppendError::Rouse { log, source } | AppendError::Prepare { log, source }
                if source.is_out_of_descriptors() =>
            {
                AppendError::TooManyOpen { log, held, budget, source }
            }
            error => error,
        }
    }

    /// What a read is answered for which nothing could be opened.
    pub(super) fn explain_read<T>(&self, result: Result<T, ReadError>) -> Result<T, ReadError> {
        let (held, budget) = self.descriptors.count();
        result.map_err(|error| match error {
            ReadError::Disk { segment, source, .. } if source.is_out_of_descriptors() => {
                ReadError::TooManyOpen { segment, held, budget, source }
            }
            error => error,
        })
    }
}

/// Closes the file that was made ahead for a log, or is being made; gives how many descriptors that frees at once.
pub(super) fn let_successor_go<A>(log: &mut Log<A>) -> usize {
    match &log.successor {
        Successor::Ready(prepared) => {
            log.ahead = Some(Unopened::from(prepared));
            log.successor = Successor::None;
            1
        }
        Successor::Making(making) => {
            making.let_go();
            0
        }
        Successor::None | Successor::Failed(..) => 0,
    }
}

/// Of what was found with the time of its last use, the `count` that were used longest ago.
fn oldest<T: Ord>(mut found: Vec<(u64, T)>, count: usize) -> Vec<T> {
    found.sort_unstable();
    found.truncate(count);
    found.into_iter().map(|(_, what)| what).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_longest_ago_goes_first() {
        assert_eq!(oldest(vec![(30, 'a'), (10, 'b'), (20, 'c')], 2), ['b', 'c']);
        assert_eq!(oldest(vec![(30, 'a')], 2), ['a']);
        assert_eq!(oldest(Vec::<(u64, char)>::new(), 2), []);
    }
}
