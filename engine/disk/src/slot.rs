//! Slots: what is in flight, and the futures that wait for it. Shared by every disk.
//!
//! Invariants that the unsafe code of this crate cites:
//! 1. **Owned until seen.** A slot keeps its operation (buffer, handles, names) until [`Slots::finish`] is called for it,
//!    whether or not anybody still waits.
//! 2. **Never a pointer.** The kernel is given a [`Token`]: an index and a generation. A completion that comes twice, or
//!    from a forked child, finds another generation and is ignored.

use crate::disk::{Operation, Outcome, Success};
use crate::error::DiskError;
use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Names an operation in flight: an index and a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token {
    index: u32,
    generation: u32,
}

impl Token {
    /// As the 64 bits that a completion carries.
    #[must_use]
    pub fn to_bits(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    /// From the 64 bits that a completion carries.
    #[must_use]
    pub fn from_bits(bits: u64) -> Token {
        Token { index: bits as u32, generation: (bits >> 32) as u32 }
    }
}

/// What a slot holds.
#[derive(Debug)]
enum State {
    Free,
    Flying { operation: Operation, waker: Option<Waker>, awaited: bool },
    Landed(Outcome),
}

#[derive(Debug)]
struct Slot {
    generation: u32,
    state: State,
}

#[derive(Debug, Default)]
struct Table {
    slots: Vec<Slot>,
    free: Vec<u32>,
    flying: usize,
    failed_flush: Option<DiskError>,
}

/// The table of slots. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Slots(Rc<RefCell<Table>>);

impl Slots {
    /// Takes a slot for `operation`; gives its token and the future of its outcome.
    #[must_use]
    pub fn begin(&self, operation: Operation) -> (Token, InFlight) {
        let mut table = self.0.borrow_mut();
        table.flying += 1;
        let state = State::Flying { operation, waker: None, awaited: true };
        let index = match table.free.pop() {
            Some(index) => {
                table.slots[index as usize].state = state;
                index
            }
            None => {
                table.slots.push(Slot { generation: 1, state });
                (table.slots.len() - 1) as u32
            }
        };
        let token = Token { index, generation: table.slots[index as usize].generation };
        (token, InFlight { slots: self.clone(), token })
    }

    /// Looks at an operation in flight; `None` for a token that is not.
    pub fn with<R>(&self, token: Token, look: impl FnOnce(&mut Operation) -> R) -> Option<R> {
        let mut table = self.0.borrow_mut();
        let slot = table.slots.get_mut(token.index as usize)?;
        match &mut slot.state {
            State::Flying { operation, .. } if slot.generation == token.generation => Some(look(operation)),
            _ => None,
        }
    }

    /// Ends an operation: its future becomes ready, or, when nobody waits, all that it owned is dropped.
    /// False for a token that is not in flight (a completion seen twice).
    pub fn finish(&self, token: Token, result: Result<Success, DiskError>) -> bool {
        let mut table = self.0.borrow_mut();
        let Some(slot) = table.slots.get_mut(token.index as usize) else { return false };
        if slot.generation != token.generation || !matches!(slot.state, State::Flying { .. }) {
            return false;
        }
        let State::Flying { operation, waker, awaited } = std::mem::replace(&mut slot.state, State::Free) else {
            return false;
        };
        table.flying -= 1;
        if let Some(error) = result.as_ref().err().filter(|error| error.is_failed_flush() && !error.is_tried_again()) {
            // One for want of room takes nothing along: it must not hide another.
            if table.failed_flush.as_ref().is_none_or(DiskError::is_full) {
                table.failed_flush = Some(error.clone());
            }
        }
        if awaited {
            table.slots[token.index as usize].state =
                State::Landed(Outcome { result, buffer: operation.into_buffer() });
            drop(table);
            if let Some(waker) = waker {
                waker.wake();
            }
        } else {
            table.release(token.index);
            // Dropped outside the borrow: a handle's drop may come back to the disk.
            drop(table);
            drop((operation, result));
        }
        true
    }

    /// The last flush that failed since this was asked before.
    pub fn take_failed_flush(&self) -> Option<DiskError> {
        self.0.borrow_mut().failed_flush.take()
    }

    /// Operations in flight.
    #[must_use]
    pub fn flying(&self) -> usize {
        self.0.borrow().flying
    }

    /// The tokens of all operations in flight, oldest slot first.
    #[must_use]
    pub fn tokens(&self) -> Vec<Token> {
        let table = self.0.borrow();
        let flying = table.slots.iter().enumerate().filter(|(_, slot)| matches!(slot.state, State::Flying { .. }));
        flying.map(|(index, slot)| Token { index: index as u32, generation: slot.generation }).collect()
    }
}

impl Table {
    fn release(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        slot.generation = slot.generation.wrapping_add(1).max(1);
        slot.state = State::Free;
        self.free.push(index);
    }
}

/// The outcome of an operation, later. Dropping it does not stop the operation, nor free what it owns.
#[derive(Debug)]
pub struct InFlight {
    slots: Slots,
    token: Token,
}

impl Future for InFlight {
    type Output = Outcome;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        let mut table = self.slots.0.borrow_mut();
        let slot = &mut table.slots[self.token.index as usize];
        assert_eq!(slot.generation, self.token.generation, "an outcome is taken once");
        match std::mem::replace(&mut slot.state, State::Free) {
            State::Landed(outcome) => {
                table.release(self.token.index);
                Poll::Ready(outcome)
            }
            State::Flying { operation, awaited, .. } => {
                slot.state = State::Flying { operation, waker: Some(context.waker().clone()), awaited };
                Poll::Pending
            }
            State::Free => unreachable!("a slot stays taken while its future lives"),
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let mut table = self.slots.0.borrow_mut();
        let slot = &mut table.slots[self.token.index as usize];
        if slot.generation != self.token.generation {
            return; // Taken already.
        }
        match &mut slot.state {
            State::Flying { awaited, waker, .. } => {
                *awaited = false;
                *waker = None;
            }
            State::Landed(_) => {
                let landed = std::mem::replace(&mut slot.state, State::Free);
                table.release(self.token.index);
                drop(table);
                drop(landed);
            }
            State::Free => {}
        }
    }
}
