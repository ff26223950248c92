//! How each operation becomes a call. Makes none itself.

use super::call::{Call, Held};
use super::loan::Loan;
use crate::disk::{Access, Operation};
use crate::handle::{Directory, File};
use crate::host::direct::WRITE_ZEROES;
use crate::host::numbers::Numbers;
use crate::host_clock::boot_ns;
use rustix::fs::{AtFlags, FallocateFlags};
use rustix::io::Errno;

/// An operation, ready.
pub(super) enum Prepared {
    /// For a thread. What it is lent belongs to the operation (invariant 1).
    Call(Call),
    /// A sleep, which ends at this time since boot in nanoseconds.
    Sleep(u64),
}

/// Puts an operation to the terms of a thread.
pub(super) fn prepare(operation: &mut Operation, held: &Numbers<Held>, direct: bool) -> Result<Prepared, Errno> {
    let of_file = |file: &File| held.get(file.number()).cloned().ok_or(Errno::BADF);
    let of = |directory: &Directory| held.get(directory.number()).cloned().ok_or(Errno::BADF);
    Ok(Prepared::Call(match operation {
        Operation::Write { file, buffer, span, position, durable } => {
            let part = Loan::of(buffer, span, *position)?;
            Call::Write { file: of_file(file)?, part, position: position.0, durable: *durable }
        }
        Operation::Read { file, buffer, span, position } => {
            let part = Loan::of(buffer, span, *position)?;
            Call::Read { file: of_file(file)?, part, position: position.0 }
        }
        // What else a barrier covers is the file system's doing; where it does none of it, the report forbids barriers.
        Operation::Sync { file } | Operation::Barrier { file } => Call::SyncData { file: of_file(file)? },
        Operation::Allocate { file, length } => {
            Call::Allocate { file: of_file(file)?, mode: FallocateFlags::empty(), from: 0, length: *length }
        }
        Operation::WriteZeroes { file, from, length } => {
            let mode = FallocateFlags::from_bits_retain(WRITE_ZEROES);
            Call::Allocate { file: of_file(file)?, mode, from: from.0, length: *length }
        }
        Operation::Truncate { file, length } => Call::Truncate { file: of_file(file)?, length: *length },
        Operation::Open { directory, name, how, access } => {
            let direct = *access == Access::Auto && direct;
            Call::Open { directory: of(directory)?, name: name.clone(), how: *how, direct }
        }
        Operation::OpenDirectory { directory, name } => {
            Call::OpenDirectory { directory: of(directory)?, name: name.clone() }
        }
        Operation::CreateDirectory { directory, name } => {
            Call::CreateDirectory { directory: of(directory)?, name: name.clone() }
        }
        Operation::SyncDirectory { directory } => Call::SyncAll { directory: of(directory)? },
        Operation::Rename { from, from_name, to, to_name } => {
            let (from_name, to_name) = (from_name.clone(), to_name.clone());
            Call::Rename { from: of(from)?, from_name, to: of(to)?, to_name }
        }
        Operation::Unlink { directory, name } => {
            Call::Unlink { directory: of(directory)?, name: name.clone(), flags: AtFlags::empty() }
        }
        Operation::RemoveDirectory { directory, name } => {
            Call::Unlink { directory: of(directory)?, name: name.clone(), flags: AtFlags::REMOVEDIR }
        }
        Operation::Sleep { duration } => {
            let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
            return Ok(Prepared::Sleep(boot_ns().saturating_add(nanoseconds)));
        }
    }))
}
