//! How a ring is set up: the best that the kernel has, made disabled, filled and restricted. What was obtained, and why not
//! more, goes into the report.

use super::ring::errno;
use crate::capabilities;
use crate::host::{SetupError, limits, probe};
use io_uring::register::Restriction;
use io_uring::{IoUring, Probe, opcode, squeue};
use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::io::Errno;

/// The opcodes without which there is no disk. All are in Linux 5.15.
const OPCODES_NEEDED: [(u8, &str); 13] = [
    (opcode::WriteFixed::CODE, "WRITE_FIXED"),
    (opcode::ReadFixed::CODE, "READ_FIXED"),
    (opcode::Write::CODE, "WRITE"),
    (opcode::Read::CODE, "READ"),
    (opcode::Fsync::CODE, "FSYNC"),
    (opcode::Fallocate::CODE, "FALLOCATE"),
    (opcode::OpenAt2::CODE, "OPENAT2"),
    (opcode::MkDirAt::CODE, "MKDIRAT"),
    (opcode::RenameAt::CODE, "RENAMEAT"),
    (opcode::UnlinkAt::CODE, "UNLINKAT"),
    (opcode::Timeout::CODE, "TIMEOUT"),
    (opcode::PollAdd::CODE, "POLL_ADD"),
    (opcode::AsyncCancel::CODE, "ASYNC_CANCEL"),
];

/// Register opcodes that are used after the ring is enabled (linux/io_uring.h; the crate keeps its numbers to itself).
const UNREGISTER_BUFFERS: u8 = 1;
const UNREGISTER_FILES: u8 = 3;
const REGISTER_FILES_UPDATE: u8 = 6;

/// What is asked for, the best first: from Linux 6.1, from 5.19, and always.
const LADDER: [&[&str]; 3] = [
    &["SINGLE_ISSUER", "DEFER_TASKRUN", "TASKRUN_FLAG", "SUBMIT_ALL"],
    &["COOP_TASKRUN", "TASKRUN_FLAG", "SUBMIT_ALL"],
    &[],
];

/// The best ring that the kernel has from rung `first` of the ladder on, still disabled.
pub(super) fn build(first: usize, entries: u32, report: &mut capabilities::Ring) -> Result<IoUring, SetupError> {
    for (rung, flags) in LADDER.into_iter().enumerate().skip(first) {
        let mut builder = IoUring::builder();
        builder.dontfork().setup_clamp().setup_r_disabled().setup_cqsize(entries.saturating_mul(4).max(2));
        match rung {
            0 => builder.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag().setup_submit_all(),
            1 => builder.setup_coop_taskrun().setup_taskrun_flag().setup_submit_all(),
            _ => &mut builder,
        };
        match builder.build(entries.max(1)).map_err(|error| errno(&error)) {
            Ok(io) if io.params().is_feature_nodrop() && io.params().is_feature_ext_arg() => {
                report.flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
                report.flags.push("R_DISABLED".into());
                report.entries = io.params().sq_entries();
                return Ok(io);
            }
            Ok(_) => return Err(too_old("completions that are never dropped, and waits with a limit")),
            Err(Errno::INVAL) => report.reasons.push(format!("The kernel does not know {}.", flags.join(" | "))),
            Err(errno) => return Err(SetupError::from_ring_call("io_uring_setup", errno, ring_bytes(entries))),
        }
    }
    Err(too_old("io_uring rings that start disabled"))
}

/// About what a ring takes by itself, in bytes: its entries, and the two queues that name them.
pub(super) fn ring_bytes(entries: u32) -> u64 {
    let entries = u64::from(entries.max(1).next_power_of_two());
    let whole_pages = |bytes: u64| bytes.next_multiple_of(4096);
    whole_pages(entries * 64) + whole_pages(entries * (4 * 16 + 4) + 512)
}

fn too_old(missing: &str) -> SetupError {
    SetupError::KernelTooOld { release: probe::kernel_release(), missing: missing.into() }
}

/// The opcodes of ours that the kernel has; an error when it lacks one that is needed.
pub(super) fn supported_opcodes(io: &IoUring, entries: u32) -> Result<Vec<u8>, SetupError> {
    let mut probe = Probe::new();
    let answer = io.submitter().register_probe(&mut probe);
    let refused = |error| SetupError::from_ring_call("io_uring_register", errno(&error), ring_bytes(entries));
    answer.map_err(refused)?;
    if let Some((_, name)) = OPCODES_NEEDED.iter().find(|(code, _)| !probe.is_supported(*code)) {
        return Err(too_old(&format!("the io_uring operation {name}")));
    }
    let optional = [opcode::Ftruncate::CODE].into_iter().filter(|&code| probe.is_supported(code));
    Ok(OPCODES_NEEDED.iter().map(|&(code, _)| code).chain(optional).collect())
}

/// Registers a file table with the lock in slot 0; gives its size, 0 without one.
pub(super) fn register_files(io: &IoUring, wanted: u32, lock: BorrowedFd<'_>, report: &mut capabilities::Ring) -> u32 {
    let slots = limits::table_size(wanted.max(1));
    if slots < wanted {
        report.reasons.push(format!("The file table has {slots} of {wanted} slots: the limit on open files."));
    }
    let submitter = io.submitter();
    let sparse = submitter.register_files_sparse(slots);
    // Before Linux 5.19 an empty table is a list of absent files.
    let registered = sparse.or_else(|_| submitter.register_files(&vec![-1; slots as usize]));
    let locked = registered.and_then(|()| submitter.register_files_update(0, &[lock.as_raw_fd()]));
    match locked {
        Ok(_) => {
            report.files_registered = true;
            slots
        }
        Err(error) => {
            report.reasons.push(format!(
                "Files are not registered ({error}): after a kill, the lock can be free before the last write has landed."
            ));
            0
        }
    }
}

pub(super) fn limit_workers(io: &IoUring, workers: u32, report: &mut capabilities::Ring) {
    // The second number is for work without an end, of which we have none; 1 is the least that can be said.
    if let Err(error) = io.submitter().register_iowq_max_workers(&mut [workers.max(1), 1]) {
        report.reasons.push(format!("The number of kernel workers could not be limited: {error}."));
    }
}

/// Allows the opcodes that are used and nothing else, for the case that somebody else gets hold of the ring.
pub(super) fn restrict(io: &IoUring, supported: &[u8], report: &mut capabilities::Ring) {
    let mut allowed: Vec<Restriction> = supported.iter().map(|&code| Restriction::sqe_op(code)).collect();
    allowed.extend([UNREGISTER_BUFFERS, UNREGISTER_FILES, REGISTER_FILES_UPDATE].map(Restriction::register_op));
    allowed.push(Restriction::sqe_flags_allowed(squeue::Flags::FIXED_FILE.bits()));
    match io.submitter().register_restrictions(&mut allowed) {
        Ok(()) => report.restricted = true,
        Err(error) => report.reasons.push(format!("The ring could not be restricted: {error}.")),
    }
}
