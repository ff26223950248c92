//! The arena as the ring knows it: where it is, and in which registered buffers. The pool deals it out.

use super::ring::errno;
use super::setup;
use crate::buffer::Pool;
use crate::capabilities;
use crate::error::{DiskError, Verb};
use crate::host::{DiskOptions, SetupError, limits};
use io_uring::IoUring;
use rustix::io::Errno;

/// The kernel takes registered buffers of at most this many bytes.
const PIECE: usize = 1 << 30;

/// Where the arena is, and whether the ring knows it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arena {
    start: usize,
    length: usize,
    registered: bool,
}

impl Arena {
    /// The registered buffer that holds `address`, and how many bytes from there on belong to it.
    pub(super) fn piece_of(&self, address: usize) -> Option<(u16, usize)> {
        let inside = address.checked_sub(self.start).filter(|&inside| self.registered && inside < self.length)?;
        let end = ((inside / PIECE + 1) * PIECE).min(self.length);
        Some((u16::try_from(inside / PIECE).ok()?, end - inside))
    }

    pub(super) fn is_registered(&self) -> bool {
        self.registered
    }

    fn new(pool: Pool, registered: bool, report: &mut capabilities::Ring) -> (Pool, Arena) {
        let (start, length) = pool.arena();
        report.arena_bytes = length as u64;
        report.buffers_registered = registered;
        (pool, Arena { start: start.as_ptr() as usize, length, registered })
    }

    /// Maps the arena and registers it, halving it down to `least` until it fits the limit on locked memory; unregistered, and of
    /// the wanted size, at worst.
    pub(super) fn register(
        io: &IoUring,
        wanted: usize,
        options: &DiskOptions,
        report: &mut capabilities::Ring,
    ) -> Result<(Pool, Arena), SetupError> {
        let least = wanted.min(options.arena_bytes_min);
        let locked = Locked { limit: limits::memlock_bytes(), ring: setup::ring_bytes(options.entries) };
        let limit = locked.limit.map_or(usize::MAX, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        let mut bytes = wanted;
        let mut refused = Errno::NOMEM;
        while bytes >= least {
            if bytes <= limit {
                let pool = map(bytes)?;
                match register_pieces(io, &pool) {
                    Ok(()) => {
                        report.reasons.extend(locked.explain(bytes, wanted));
                        return Ok(Arena::new(pool, true, report));
                    }
                    Err(errno) => refused = errno,
                }
            }
            if refused != Errno::NOMEM {
                break;
            }
            bytes /= 2;
        }
        report.reasons.push(format!(
            "The arena is not registered ({refused}): each transfer pins its memory anew. {}",
            locked.advice(wanted)
        ));
        Ok(Arena::new(map(wanted)?, false, report))
    }
}

fn map(bytes: usize) -> Result<Pool, SetupError> {
    Pool::new(bytes).map_err(|error| SetupError::Disk(DiskError::new(Verb::Setup, "the arena", errno(&error))))
}

/// How much memory may be locked, and how much of it the ring itself takes, in bytes.
struct Locked {
    limit: Option<u64>,
    ring: u64,
}

impl Locked {
    /// Why an arena is smaller than it was to be, where it is.
    fn explain(&self, bytes: usize, wanted: usize) -> Option<String> {
        let reason = || {
            let advice = self.advice(wanted);
            format!("The arena is {bytes} of {wanted} bytes: more does not fit the limit on locked memory. {advice}")
        };
        (bytes < wanted).then(reason)
    }

    /// What to change. All processes of a user share the limit, and the ring counts too.
    fn advice(&self, wanted: usize) -> String {
        let (needed, limit) = (wanted as u64 + self.ring, limits::say(self.limit));
        format!("Locked memory is {limit}, and {needed} bytes are needed: raise it (`ulimit -l`, LimitMEMLOCK=).")
    }
}

fn register_pieces(io: &IoUring, pool: &Pool) -> Result<(), Errno> {
    let (start, length) = pool.arena();
    let piece = |offset: usize| libc::iovec {
        iov_base: start.as_ptr().wrapping_add(offset).cast(),
        iov_len: PIECE.min(length - offset),
    };
    let pieces: Vec<libc::iovec> = (0..length).step_by(PIECE).map(piece).collect();
    // SAFETY: the pieces lie in the arena. It outlives the registration: the disk holds its pool until the ring is gone
    // (invariant 3), and on every other path the ring is dropped unused; the kernel holds the pages themselves besides.
    unsafe { io.submitter().register_buffers(&pieces) }.map_err(|error| errno(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transfer_stays_within_one_registered_buffer() {
        let start = 1 << 40;
        let arena = Arena { start, length: 3 * PIECE, registered: true };
        assert_eq!(arena.piece_of(start), Some((0, PIECE)));
        assert_eq!(arena.piece_of(start + PIECE - 4096), Some((0, 4096)));
        assert_eq!(arena.piece_of(start + 2 * PIECE), Some((2, PIECE)));
        for outside in [0, start - 1, start + 3 * PIECE, usize::MAX] {
            assert_eq!(arena.piece_of(outside), None);
        }
        assert_eq!(Arena { registered: false, ..arena }.piece_of(start), None);
    }
}
