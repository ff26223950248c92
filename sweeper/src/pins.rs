//! What a host holds back from expiry. Kept in memory: a host that starts again says so again, before it has the first pass made.

use crate::decide::Pin;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use strandline::LogId;

/// The most that a pin holds back unless [`crate::pass::Limits`] say otherwise, in bytes.
pub const PIN_BYTES_MAX: u64 = 16 << 30;

/// The pins of a store, shared by the host that sets them and the passes that heed them.
#[derive(Clone, Debug, Default)]
pub struct PinBoard(Arc<Mutex<BTreeMap<LogId, BTreeMap<String, Pin>>>>);

impl PinBoard {
    /// Holds back segments of a log. A pin of the same holder on that log is replaced: so it moves on.
    pub fn hold(&self, log: &LogId, pin: Pin) {
        self.pins().entry(log.clone()).or_default().insert(pin.holder.clone(), pin);
    }

    /// Lets go of what this holder holds of a log. True if there was something.
    pub fn let_go(&self, log: &LogId, holder: &str) -> bool {
        let mut pins = self.pins();
        let Some(of_log) = pins.get_mut(log) else { return false };
        let was_there = of_log.remove(holder).is_some();
        if of_log.is_empty() {
            pins.remove(log);
        }
        was_there
    }

    /// What is held of a log, none of it more than `bytes_max`.
    #[must_use]
    pub fn of(&self, log: &LogId, bytes_max: u64) -> Vec<Pin> {
        let bounded = |pin: &Pin| Pin { bytes_max: pin.bytes_max.min(bytes_max), ..pin.clone() };
        self.pins().get(log).into_iter().flat_map(BTreeMap::values).map(bounded).collect()
    }

    fn pins(&self) -> MutexGuard<'_, BTreeMap<LogId, BTreeMap<String, Pin>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use strandline::{Offset, RangeNumber, Topic};

    #[test]
    fn a_holder_has_one_pin_of_a_log_and_none_holds_more_than_the_limit() {
        let (board, topic) = (PinBoard::default(), Topic::new("t").expect("a name"));
        let log = LogId { topic, range: RangeNumber::default() };
        let pin = |holder: &str, from| Pin { holder: holder.to_owned(), from: Offset(from), bytes_max: 100 };
        board.hold(&log, pin("a", 1));
        board.hold(&log, pin("b", 2));
        board.hold(&log, pin("a", 3));
        assert_eq!(board.of(&log, 1_000), [pin("a", 3), pin("b", 2)]);
        assert_eq!(board.of(&log, 7).iter().map(|pin| pin.bytes_max).collect::<Vec<_>>(), [7, 7]);
        assert!(board.let_go(&log, "a") && !board.let_go(&log, "a"));
        assert!(board.let_go(&log, "b") && board.of(&log, 7).is_empty());
    }
}
