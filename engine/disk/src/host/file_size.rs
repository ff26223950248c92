//! How large a file of this process may be (RLIMIT_FSIZE). Reads the limit, changes none, and leaves signals alone.
//!
//! The kernel sends SIGXFSZ to a process that would pass the limit, which ends it unless the signal is ignored, and that is its host's
//! business. So what would pass the limit is answered here, as the kernel would answer it, and the kernel never hears of it.

use super::setup_error::SetupError;
use crate::disk::Operation;
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use std::cell::Cell;

/// Refuses files of so many bytes where the limit does not allow them. `what` is what decides their size.
///
/// # Errors
/// [`SetupError::FileSizeLimit`].
pub fn check_file_size(what: &'static str, needed_bytes: u64) -> Result<(), SetupError> {
    let limit_bytes = limit();
    if needed_bytes <= limit_bytes {
        return Ok(());
    }
    Err(SetupError::FileSizeLimit { what, needed_bytes, limit_bytes })
}

fn limit() -> u64 {
    getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX)
}

/// The limit as it was read last.
#[derive(Debug)]
pub(crate) struct FileSize(Cell<u64>);

impl FileSize {
    pub(crate) fn read() -> FileSize {
        FileSize(Cell::new(limit()))
    }

    /// EFBIG for what would pass the limit. It is read again for what makes a file longer ahead, and for what would pass it, since it may
    /// have been raised; a plain write below it costs no system call, so that one that was lowered under a file is the kernel's to tell.
    pub(crate) fn refusal(&self, operation: &Operation) -> Option<Errno> {
        let (end, ahead) = match operation {
            Operation::Write { span, position, .. } => (position.0.saturating_add(span.len() as u64), false),
            Operation::Allocate { length, .. } => (*length, true),
            Operation::WriteZeroes { from, length, .. } => (from.0.saturating_add(*length), true),
            _ => return None,
        };
        if ahead || end > self.0.get() {
            self.0.set(limit());
        }
        (end > self.0.get()).then_some(Errno::FBIG)
    }
}
