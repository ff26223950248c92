//! What happens where the host allows less. Each case runs in a process of its own, since limits are a process's.

use crate::child::{child_with, ignore_file_size_signal};
use crate::seccomp;
use crate::support::{filled, make_file, open_at, open_file, options, run};
use crate::transfers::round_trip;
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, setrlimit};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use strandline_disk::host::{BACKEND_VARIABLE, Backend, DiskOptions, SetupError};
use strandline_disk::real::RealDisk;
use strandline_disk::{BLOCK, Disk, DiskError, Position, Verb, transfer};

/// As [`child_with`], where the environment says nothing of backends: most of these tests are about rings.
fn child_root(test: &str, unprivileged: bool) -> Option<PathBuf> {
    child_with(test, unprivileged, |child| child.env_remove(BACKEND_VARIABLE))
}

/// A ring, or nothing.
fn ring_options() -> DiskOptions {
    DiskOptions { backend: Backend::Uring, ..options() }
}

fn limit(resource: Resource, value: u64) {
    setrlimit(resource, Rlimit { current: Some(value), maximum: Some(value) }).expect("lowered");
}

/// Opens a disk that is as it should be. Memory is locked by user: what else runs as the same one has to end first.
fn open_when_alone(root: &Path, options: &DiskOptions, is_so: impl Fn(&RealDisk) -> bool) -> RealDisk {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        match RealDisk::open(root, options) {
            Ok(disk) if is_so(&disk) || Instant::now() > until => return disk,
            Ok(_) | Err(SetupError::NoMemory { .. }) => assert!(Instant::now() < until, "this user has no memory left"),
            Err(error) => panic!("{error}"),
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn the_arena_shrinks_to_the_limit_on_locked_memory() {
    let test = "limits::the_arena_shrinks_to_the_limit_on_locked_memory";
    let Some(root) = child_root(test, true) else { return };
    limit(Resource::Memlock, 2 << 20);
    let options = DiskOptions { arena_bytes: 16 << 20, ..ring_options() };
    let disk = open_when_alone(&root, &options, |disk| disk.capabilities().ring.buffers_registered);
    let capabilities = disk.capabilities();
    assert_eq!(capabilities.memlock_bytes, Some(2 << 20));
    assert!(capabilities.ring.buffers_registered, "{:?}", capabilities.ring);
    assert!(capabilities.ring.arena_bytes <= 2 << 20, "{:?}", capabilities.ring);
    assert_eq!(disk.pool().largest() as u64, capabilities.ring.arena_bytes);
    assert!(
        capabilities.ring.reasons.iter().any(|reason| reason.contains("Locked memory is limited to 2097152 bytes"))
    );
    assert!(!capabilities.warnings.is_empty());
    round_trip(&disk);
}

#[test]
fn without_locked_memory_the_arena_is_whole_and_unregistered() {
    let test = "limits::without_locked_memory_the_arena_is_whole_and_unregistered";
    let Some(root) = child_root(test, true) else { return };
    limit(Resource::Memlock, 64 << 10);
    let disk = open_when_alone(&root, &ring_options(), |_| true);
    let capabilities = disk.capabilities();
    assert!(!capabilities.ring.buffers_registered);
    assert_eq!(capabilities.ring.arena_bytes, 8 << 20);
    assert!(capabilities.warnings.iter().any(|warning| warning.contains("not registered")));
    let advice = "limited to 65536 bytes, and 83";
    assert!(capabilities.ring.reasons.iter().any(|reason| reason.contains(advice)), "{:?}", capabilities.ring);
    round_trip(&disk);
}

#[test]
fn the_file_table_fits_the_limit_on_open_files() {
    let Some(root) = child_root("limits::the_file_table_fits_the_limit_on_open_files", false) else { return };
    limit(Resource::Nofile, 64);
    let disk = open_at(&root, &ring_options());
    let ring = &disk.capabilities().ring;
    assert!(ring.files_registered && ring.reasons.iter().any(|reason| reason.contains("64 of 4096 slots")), "{ring:?}");
    round_trip(&disk);
}

/// Every way in which a policy can refuse a ring. Filters stay and add up, and each binds only the thread that set it and its children.
const REFUSALS: [(u32, i32); 4] = [(425, libc::EPERM), (426, libc::EPERM), (427, libc::EPERM), (425, libc::ENOSYS)];

#[test]
fn ur_02_a_policy_that_refuses_the_ring_is_named_whichever_call_it_refuses() {
    let test = "limits::ur_02_a_policy_that_refuses_the_ring_is_named_whichever_call_it_refuses";
    let Some(root) = child_root(test, false) else { return };
    for (call, errno) in REFUSALS {
        let path = root.clone();
        let tried = std::thread::spawn(move || {
            seccomp::refuse(call, errno);
            RealDisk::open(&path, &ring_options()).expect_err("refused")
        });
        let error = tried.join().expect("no panic");
        println!("{call}: {error}");
        let named = ["io_uring_setup", "io_uring_enter", "io_uring_register"][call as usize - 425];
        let errno = Errno::from_raw_os_error(errno);
        assert_eq!(error, SetupError::BlockedByPolicy { call: named, errno });
        assert!(RealDisk::open(&root, &ring_options()).is_ok(), "a refused open leaves no lock behind");
    }
}

#[test]
fn ur_02_where_a_policy_refuses_the_ring_plain_calls_take_over_and_say_why() {
    let test = "limits::ur_02_where_a_policy_refuses_the_ring_plain_calls_take_over_and_say_why";
    let Some(root) = child_root(test, false) else { return };
    for (number, (call, errno)) in REFUSALS.into_iter().enumerate() {
        let root = root.join(number.to_string());
        let serve = move || {
            seccomp::refuse(call, errno);
            let disk = open_at(&root, &DiskOptions { backend: Backend::Auto, ..options() });
            assert_eq!(disk.backend(), Backend::Posix);
            let capabilities = disk.capabilities();
            let why = capabilities.fallback.as_ref().expect("it says why");
            assert!(why.contains("blocked by policy") && capabilities.backend == "posix", "{why}");
            assert!(capabilities.warnings.iter().any(|warning| warning.contains(why)), "{:?}", capabilities.warnings);
            round_trip(&disk);
        };
        std::thread::spawn(serve).join().expect("no panic");
    }
}

#[test]
fn ur_01_where_not_even_the_ring_may_be_locked_the_error_names_limit_and_need() {
    let test = "limits::ur_01_where_not_even_the_ring_may_be_locked_the_error_names_limit_and_need";
    let Some(root) = child_root(test, true) else { return };
    limit(Resource::Memlock, 4096);
    let refused = RealDisk::open(&root, &DiskOptions { entries: 4096, ..ring_options() });
    let Err(error) = refused else {
        // Kernels from 5.12 on that do not count the ring itself only leave its arena unregistered.
        let capabilities = refused.expect("a ring").capabilities();
        let told = capabilities.ring.reasons.iter().any(|reason| reason.contains("limited to 4096 bytes"));
        return assert!(told && !capabilities.ring.buffers_registered, "{:?}", capabilities.ring);
    };
    println!("{error}");
    let SetupError::NoMemory { needed_bytes, limit_bytes: Some(4096) } = error else { panic!("{error}") };
    assert!((4096 * 64..1 << 20).contains(&needed_bytes), "{needed_bytes}");
    let disk = open_at(&root, &DiskOptions { entries: 4096, backend: Backend::Auto, ..options() });
    assert_eq!(disk.backend(), Backend::Posix);
    round_trip(&disk);
}

#[test]
fn ur_13_the_environment_forces_plain_calls_whatever_the_options_say() {
    let test = "limits::ur_13_the_environment_forces_plain_calls_whatever_the_options_say";
    let Some(root) = child_with(test, false, |child| child.env(BACKEND_VARIABLE, "posix")) else { return };
    for backend in [Backend::Auto, Backend::Uring, Backend::Posix] {
        let disk = open_at(&root.join(backend.to_string()), &DiskOptions { backend, ..options() });
        let capabilities = disk.capabilities();
        assert_eq!((disk.backend(), capabilities.backend.as_str()), (Backend::Posix, "posix"));
        assert_eq!(capabilities.fallback, None, "nothing was fallen back from");
        round_trip(&disk);
    }
}

#[test]
fn ur_13_a_backend_that_does_not_exist_is_refused_by_its_name() {
    let test = "limits::ur_13_a_backend_that_does_not_exist_is_refused_by_its_name";
    let Some(root) = child_with(test, false, |child| child.env(BACKEND_VARIABLE, "iouring")) else { return };
    let error = RealDisk::open(&root, &options()).expect_err("refused");
    assert_eq!(error, SetupError::UnknownBackend { value: "iouring".into() });
    assert_eq!(RealDisk::open(&root, &options()).expect_err("refused"), error, "no lock was left behind");
}

#[test]
fn without_a_ring_the_limit_on_locked_memory_does_not_matter() {
    let test = "limits::without_a_ring_the_limit_on_locked_memory_does_not_matter";
    let Some(root) = child_root(test, true) else { return };
    limit(Resource::Memlock, 4096);
    let disk = open_at(&root, &DiskOptions { backend: Backend::Posix, ..options() });
    let capabilities = disk.capabilities();
    assert_eq!((capabilities.ring.arena_bytes, capabilities.memlock_bytes), (8 << 20, Some(4096)));
    assert!(!capabilities.warnings.iter().any(|warning| warning.contains("locked")), "{:?}", capabilities.warnings);
    round_trip(&disk);
}

/// The limit on the size of a file, which may be raised again.
fn limit_files(bytes: u64) {
    setrlimit(Resource::Fsize, Rlimit { current: Some(bytes), maximum: None }).expect("lowered");
}

#[test]
fn a_limit_on_files_that_not_even_the_trial_of_direct_io_fits_refuses_the_disk() {
    let test = "limits::a_limit_on_files_that_not_even_the_trial_of_direct_io_fits_refuses_the_disk";
    let Some(root) = child_with(test, true, |child| child) else { return };
    limit_files(4 * BLOCK as u64 - 1);
    let error = RealDisk::open(&root, &options()).expect_err("refused");
    let SetupError::FileSizeLimit { what, needed_bytes: 16_384, limit_bytes: 16_383 } = &error else {
        panic!("{error}")
    };
    assert!(error.to_string().contains("LimitFSIZE=") && what.contains("direct I/O"), "{error}");
    limit_files(4 * BLOCK as u64);
    open_at(&root, &options());
}

/// Without SIGXFSZ ignored: a process that the kernel hears about the limit from would be dead.
#[test]
fn what_would_pass_the_limit_on_files_is_refused_without_a_signal_and_taken_when_it_is_raised() {
    let test = "limits::what_would_pass_the_limit_on_files_is_refused_without_a_signal_and_taken_when_it_is_raised";
    let Some(root) = child_with(test, true, |child| child) else { return };
    ignore_file_size_signal(false);
    let block = BLOCK as u64;
    for how in ["written before", "open when it was lowered"] {
        let disk = open_at(&root, &options());
        let file = make_file(&disk, &disk.root(), "long").expect("made");
        run(&disk, transfer::allocate(&disk, &file, 32 * block)).expect("allocated");
        let disk = if how == "written before" {
            drop((file, disk));
            limit_files(8 * block);
            open_at(&root, &options())
        } else {
            limit_files(8 * block);
            disk
        };
        let long = open_file(&disk, &disk.root(), "long").expect("there");
        let short = make_file(&disk, &disk.root(), "short").expect("made");
        let refused = |verb: Verb, answer: Result<(), DiskError>| {
            let error = answer.expect_err("past the limit");
            assert_eq!((error.verb, error.errno), (verb, Errno::FBIG), "{how}: {error}");
            assert!(error.is_without_room() && !error.is_full() && !error.is_failed_flush(), "{error}");
            assert!(error.remedy().contains("RLIMIT_FSIZE"), "{}", error.remedy());
        };
        // What makes a file longer ahead has the limit looked at; a write after that knows it.
        refused(Verb::Allocate, run(&disk, transfer::allocate(&disk, &short, 8 * block + 1)));
        refused(Verb::WriteZeroes, run(&disk, transfer::write_zeroes(&disk, &short, Position(7 * block), 2 * block)));
        let write = |file, at, durable| {
            run(&disk, transfer::write(&disk, file, filled(&disk, BLOCK, 1), Position(at), durable)).1
        };
        refused(Verb::Write, write(&long, 8 * block, false));
        refused(Verb::DurableWrite, write(&long, 31 * block, true));
        refused(Verb::DurableWrite, write(&short, u64::from(u32::MAX) / block * block, true));
        run(&disk, transfer::allocate(&disk, &short, 8 * block)).expect("at the limit");
        write(&short, 7 * block, true).expect("at the limit");
        let (_, read) = run(&disk, transfer::read(&disk, &long, filled(&disk, BLOCK, 0), Position(31 * block)));
        assert_eq!(read.expect("what is past the limit can be read"), BLOCK);
        run(&disk, transfer::truncate(&disk, &long, 16 * block)).expect("and cut off, down to more than the limit");
        limit_files(u64::from(u32::MAX));
        write(&long, 31 * block, true).expect("raised");
        run(&disk, transfer::allocate(&disk, &short, 9 * block)).expect("raised");
        drop((long, short, disk));
        ["long", "short"].iter().for_each(|name| std::fs::remove_file(root.join(name)).expect("removed"));
    }
}
