//! A loan: the part of a buffer that a thread reads or fills while the buffer's owner waits.

use crate::buffer::Buffer;
use crate::host::ways;
use crate::position::Position;
use rustix::io::Errno;
use std::ops::Range;
use std::ptr::NonNull;

/// Bytes of an operation in flight. Made once for each operation, and gone before its answer is given.
#[derive(Debug)]
pub(super) struct Loan {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: the bytes belong to the buffer of an operation, which its slot keeps until `finish` (invariant 1). That is called when the
// answer was taken, and the answer is given after the loan is gone. Until then nobody else reaches the bytes (invariant 3), so they
// have one user at a time, whichever thread it is on; queue and answers pass through locks, which order what each has done.
unsafe impl Send for Loan {}

impl Loan {
    /// Checks a transfer and lends its bytes. The caller keeps `buffer` in its slot, and looks at no byte of it, until the loan is gone.
    pub(super) fn of(buffer: &mut Buffer, span: &Range<usize>, position: Position) -> Result<Loan, Errno> {
        let bytes = ways::part(buffer, span, position)?;
        Ok(Loan { start: NonNull::from(&mut *bytes).cast(), length: bytes.len() })
    }

    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: as for `Send`: the bytes are mapped and initialised, and for as long as the loan lasts nobody else reaches them.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`; and the loan itself is borrowed for writing.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }
}
