//! Transfers made whole: what is short or interrupted is finished here, for every disk alike.

use crate::buffer::{BLOCK, Buffer};
use crate::disk::{Access, Disk, OpenFile, Operation, Success};
use crate::error::{DiskError, Verb};
use crate::handle::{Directory, File};
use crate::name::Name;
use crate::position::Position;
use rustix::io::Errno;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// How often in a row a transfer may answer EINTR, EAGAIN or 0 bytes before it counts as failed.
pub const STALLS_MAX: u32 = 1_000;

/// The pauses between tries of an open for which there is no descriptor double from the first to the second: about 130 ms in all.
const SHORTAGE_PAUSE: Duration = Duration::from_millis(1);
const SHORTAGE_PAUSE_MAX: Duration = Duration::from_millis(64);

/// Writes the whole buffer at `position`; with `durable`, answers when all of it is on stable storage.
///
/// A durable write that comes back short is continued by durable writes, so its end is covered too.
pub async fn write<D: Disk>(
    disk: &D,
    file: &File,
    mut buffer: Buffer,
    position: Position,
    durable: bool,
) -> (Buffer, Result<(), DiskError>) {
    let (mut done, mut stalls) = (0, 0);
    while done < buffer.len() {
        let from = restart(file, done);
        let (span, at) = (from..buffer.len(), position.plus(from));
        let outcome = disk.start(Operation::Write { file: file.clone(), buffer, span, position: at, durable }).await;
        buffer = given_back(outcome.buffer);
        match advance(outcome.result, done - from, &mut done, &mut stalls) {
            Ok(0) if stalls > STALLS_MAX => {
                return (buffer, Err(DiskError::new(Verb::of_write(durable), file.path().clone(), Errno::IO)));
            }
            Ok(_) => {}
            Err(error) => return (buffer, Err(error)),
        }
    }
    (buffer, Ok(()))
}

/// Fills the buffer from `position`; answers the bytes read, fewer than its length only at the end of the file.
pub async fn read<D: Disk>(
    disk: &D,
    file: &File,
    mut buffer: Buffer,
    position: Position,
) -> (Buffer, Result<usize, DiskError>) {
    let (mut done, mut stalls) = (0, 0);
    while done < buffer.len() {
        let from = restart(file, done);
        let (span, at) = (from..buffer.len(), position.plus(from));
        let outcome = disk.start(Operation::Read { file: file.clone(), buffer, span, position: at }).await;
        buffer = given_back(outcome.buffer);
        let passing = matches!(&outcome.result, Err(error) if error.is_passing());
        match advance(outcome.result, done - from, &mut done, &mut stalls) {
            Ok(0) if !passing => break, // The end of the file.
            Ok(0) if stalls > STALLS_MAX => {
                return (buffer, Err(DiskError::new(Verb::Read, file.path().clone(), Errno::IO)));
            }
            Ok(_) => {}
            Err(error) => return (buffer, Err(error)),
        }
    }
    (buffer, Ok(done))
}

/// Where a transfer goes on after `done` bytes: on a direct file at the start of a block. Worked example: a file of 4,097
/// bytes answers 4,097 to a direct read of two blocks; the read that finds its end starts at 4,096 again, not at 4,097,
/// which direct I/O would refuse.
fn restart(file: &File, done: usize) -> usize {
    if file.is_direct() { done - done % BLOCK } else { done }
}

/// Counts what moved, without the `again` bytes that had moved before. A passing error counts as nothing moved.
fn advance(
    result: Result<Success, DiskError>,
    again: usize,
    done: &mut usize,
    stalls: &mut u32,
) -> Result<usize, DiskError> {
    let moved = match result {
        Ok(Success::Moved(moved)) => moved.saturating_sub(again),
        Ok(_) => unreachable!("a transfer answers how much it moved"),
        Err(error) if error.is_passing() => 0,
        Err(error) => return Err(error),
    };
    *done += moved;
    *stalls = if moved == 0 { *stalls + 1 } else { 0 };
    if *stalls > STALLS_MAX { Ok(0) } else { Ok(moved) }
}

fn given_back(buffer: Option<Buffer>) -> Buffer {
    buffer.expect("a transfer gives its buffer back")
}

/// Repeats an operation without a buffer while it answers EINTR or EAGAIN. Never used for a sync that failed.
async fn steady<D: Disk>(disk: &D, make: impl Fn() -> Operation) -> Result<Success, DiskError> {
    let mut stalls = 0;
    loop {
        match disk.start(make()).await.result {
            Err(error) if error.is_passing() && stalls < STALLS_MAX => stalls += 1,
            result => return result,
        }
    }
}

/// Repeats an open for which there is no descriptor, after a pause each time: whoever may let go of some hears of it meanwhile.
async fn patient<D: Disk>(disk: &D, make: impl Fn() -> Operation) -> Result<Success, DiskError> {
    let mut pause = SHORTAGE_PAUSE;
    loop {
        match steady(disk, &make).await {
            Err(error) if error.is_out_of_descriptors() && pause <= SHORTAGE_PAUSE_MAX => {
                disk.handles().note_shortage();
                sleep(disk, pause).await?;
                pause *= 2;
            }
            result => return result,
        }
    }
}

/// Makes all completed writes of `file` durable. An EINTR here has synced nothing, so it may be called again;
/// any other failure is final.
pub async fn sync<D: Disk>(disk: &D, file: &File) -> Result<(), DiskError> {
    steady(disk, || Operation::Sync { file: file.clone() }).await.map(drop)
}

/// Makes all completed writes of `file` durable and, where the capability report allows it, the completed direct overwrites of
/// other files: see [`Operation::Barrier`]. A failure is final, as that of a sync, and concerns all that it might have covered.
pub async fn barrier<D: Disk>(disk: &D, file: &File) -> Result<(), DiskError> {
    steady(disk, || Operation::Barrier { file: file.clone() }).await.map(drop)
}

/// Makes the names in `directory` durable.
pub async fn sync_directory<D: Disk>(disk: &D, directory: &Directory) -> Result<(), DiskError> {
    steady(disk, || Operation::SyncDirectory { directory: directory.clone() }).await.map(drop)
}

/// Preallocates the file up to `length` and sets its length.
pub async fn allocate<D: Disk>(disk: &D, file: &File, length: u64) -> Result<(), DiskError> {
    steady(disk, || Operation::Allocate { file: file.clone(), length }).await.map(drop)
}

/// Preallocates `length` bytes of the file as written zeros; it is at least as long as their end then. Only where the capability report
/// lists `write_zeroes`.
pub async fn write_zeroes<D: Disk>(disk: &D, file: &File, from: Position, length: u64) -> Result<(), DiskError> {
    steady(disk, || Operation::WriteZeroes { file: file.clone(), from, length }).await.map(drop)
}

/// Sets the file's length.
pub async fn truncate<D: Disk>(disk: &D, file: &File, length: u64) -> Result<(), DiskError> {
    steady(disk, || Operation::Truncate { file: file.clone(), length }).await.map(drop)
}

/// Opens or makes a file. Without a descriptor for it nothing is made, so that it is tried again for a while.
pub async fn open<D: Disk>(
    disk: &D,
    directory: &Directory,
    name: &Name,
    how: OpenFile,
    access: Access,
) -> Result<File, DiskError> {
    let make = || Operation::Open { directory: directory.clone(), name: name.clone(), how, access };
    match patient(disk, make).await? {
        Success::File(file) => Ok(file),
        _ => unreachable!("an open answers a file"),
    }
}

/// Opens a directory, as [`open`] does a file.
pub async fn open_directory<D: Disk>(disk: &D, directory: &Directory, name: &Name) -> Result<Directory, DiskError> {
    let make = || Operation::OpenDirectory { directory: directory.clone(), name: name.clone() };
    match patient(disk, make).await? {
        Success::Directory(directory) => Ok(directory),
        _ => unreachable!("an open answers a directory"),
    }
}

/// Opens a directory that is made where it is missing, durably.
pub async fn open_or_create_directory<D: Disk>(
    disk: &D,
    directory: &Directory,
    name: &Name,
) -> Result<Directory, DiskError> {
    match open_directory(disk, directory, name).await {
        Err(error) if error.is_absent() => {}
        opened => return opened,
    }
    match create_directory(disk, directory, name).await {
        Err(error) if error.errno != Errno::EXIST => return Err(error),
        _ => {}
    }
    // Before anything is put into it.
    sync_directory(disk, directory).await?;
    open_directory(disk, directory, name).await
}

/// Makes a directory.
pub async fn create_directory<D: Disk>(disk: &D, directory: &Directory, name: &Name) -> Result<(), DiskError> {
    steady(disk, || Operation::CreateDirectory { directory: directory.clone(), name: name.clone() }).await.map(drop)
}

/// Renames within `directory`, replacing a file that has the new name.
pub async fn rename<D: Disk>(disk: &D, directory: &Directory, from: &Name, to: &Name) -> Result<(), DiskError> {
    rename_to(disk, (directory, from), (directory, to)).await
}

/// Renames from one directory to another. An empty directory that has the new name is replaced.
pub async fn rename_to<D: Disk>(
    disk: &D,
    (from, from_name): (&Directory, &Name),
    (to, to_name): (&Directory, &Name),
) -> Result<(), DiskError> {
    let make = || Operation::Rename {
        from: from.clone(),
        from_name: from_name.clone(),
        to: to.clone(),
        to_name: to_name.clone(),
    };
    steady(disk, make).await.map(drop)
}

/// Removes a file's name.
pub async fn unlink<D: Disk>(disk: &D, directory: &Directory, name: &Name) -> Result<(), DiskError> {
    steady(disk, || Operation::Unlink { directory: directory.clone(), name: name.clone() }).await.map(drop)
}

/// Removes an empty directory.
pub async fn remove_directory<D: Disk>(disk: &D, directory: &Directory, name: &Name) -> Result<(), DiskError> {
    steady(disk, || Operation::RemoveDirectory { directory: directory.clone(), name: name.clone() }).await.map(drop)
}

/// Waits.
pub async fn sleep<D: Disk>(disk: &D, duration: Duration) -> Result<(), DiskError> {
    steady(disk, || Operation::Sleep { duration }).await.map(drop)
}

/// Starts a transfer now, and not when it is first awaited.
pub fn begin<F: Future>(transfer: F) -> impl Future<Output = F::Output> {
    let mut transfer = Box::pin(transfer);
    // Nobody is woken for this first look; whoever awaits it looks again.
    let first = transfer.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    async move {
        match first {
            Poll::Ready(output) => output,
            Poll::Pending => transfer.await,
        }
    }
}

/// Gives way once without waiting for anything, so that whoever drives this task can turn the disk: for tasks that have much to compute
/// before they wait.
pub async fn submit() {
    let mut waited = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut waited, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Takes a buffer, waiting for one while the arena is in use.
///
/// # Panics
/// When `length` is more than the arena could ever deal.
pub async fn take_buffer<D: Disk>(disk: &D, length: usize) -> Buffer {
    assert!(length <= disk.pool().largest(), "a buffer of {length} bytes is larger than the arena");
    loop {
        if let Some(buffer) = disk.pool().take(length) {
            return buffer;
        }
        // A wait that fails only makes this a busier loop.
        let _ = sleep(disk, Duration::from_micros(500)).await;
    }
}

/// Takes a buffer that holds `bytes`, and zeros behind them up to the block boundary.
///
/// # Panics
/// As [`take_buffer`].
pub async fn buffer_of<D: Disk>(disk: &D, bytes: &[u8]) -> Buffer {
    let mut buffer = take_buffer(disk, bytes.len().next_multiple_of(BLOCK)).await;
    buffer[..bytes.len()].copy_from_slice(bytes);
    buffer[bytes.len()..].fill(0);
    buffer
}
