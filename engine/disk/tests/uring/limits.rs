//! What happens where the host allows less. Each case runs in a process of its own, since limits are a process's.

use crate::seccomp;
use crate::skipped::skipped;
use crate::support::{open_at, options, place};
use crate::transfers::round_trip;
use rustix::process::{Resource, Rlimit, setrlimit};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use strandline_disk::Disk;
use strandline_disk::uring::{SetupError, UringDisk, UringOptions};

const ROOT: &str = "STRANDLINE_TEST_ROOT";
const NOBODY: u32 = 65534;

/// In the child: the root to use. In the parent: runs this same test again in a child, as nobody when we are root.
fn child_root(test: &str, unprivileged: bool) -> Option<PathBuf> {
    if let Some(root) = std::env::var_os(ROOT) {
        return Some(root.into());
    }
    let place = place();
    let mut program = std::env::current_exe().expect("this program");
    let root = place.path().join("store");
    std::fs::create_dir(&root).expect("made");
    let as_nobody = unprivileged && rustix::process::geteuid().is_root();
    if as_nobody {
        std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o755)).expect("set");
        chown(&root, Some(NOBODY), Some(NOBODY)).expect("given away");
        if !everybody_may_run(&program) {
            // It was built in a directory of root's own.
            let copy = place.path().join("test");
            std::fs::copy(&program, &copy).expect("room for a copy");
            std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o755)).expect("set");
            program = copy;
        }
        if !everybody_may_run(&program) {
            skipped(format_args!("an unprivileged user cannot reach {}", program.display()));
            return None;
        }
    }
    let mut command = Command::new(&program);
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]).env(ROOT, &root).current_dir("/");
    if as_nobody {
        command.uid(NOBODY).gid(NOBODY);
    }
    let status = command.status().expect("started");
    assert!(status.success(), "the child failed: {status}");
    None
}

fn everybody_may_run(program: &Path) -> bool {
    let open = |path: &Path| std::fs::metadata(path).is_ok_and(|found| found.permissions().mode() & 0o001 != 0);
    program.ancestors().all(open)
}

fn limit(resource: Resource, value: u64) {
    setrlimit(resource, Rlimit { current: Some(value), maximum: Some(value) }).expect("lowered");
}

/// Opens a disk that is as it should be. Memory is locked by user: what else runs as the same one has to end first.
fn open_when_alone(root: &Path, options: &UringOptions, is_so: impl Fn(&UringDisk) -> bool) -> UringDisk {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        match UringDisk::open(root, options) {
            Ok(disk) if is_so(&disk) || Instant::now() > until => return disk,
            Ok(_) | Err(SetupError::NoMemory) => assert!(Instant::now() < until, "this user has no memory left"),
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
    let options = UringOptions { arena_bytes: 16 << 20, ..options() };
    let disk = open_when_alone(&root, &options, |disk| disk.capabilities().ring.buffers_registered);
    let capabilities = disk.capabilities();
    assert_eq!(capabilities.memlock_bytes, Some(2 << 20));
    assert!(capabilities.ring.buffers_registered, "{:?}", capabilities.ring);
    assert!(capabilities.ring.arena_bytes <= 2 << 20, "{:?}", capabilities.ring);
    assert_eq!(disk.pool().largest() as u64, capabilities.ring.arena_bytes);
    assert!(capabilities.ring.reasons.iter().any(|reason| reason.contains("locked memory")));
    assert!(!capabilities.warnings.is_empty());
    round_trip(&disk);
}

#[test]
fn without_locked_memory_the_arena_is_whole_and_unregistered() {
    let test = "limits::without_locked_memory_the_arena_is_whole_and_unregistered";
    let Some(root) = child_root(test, true) else { return };
    limit(Resource::Memlock, 64 << 10);
    let disk = open_when_alone(&root, &options(), |_| true);
    let capabilities = disk.capabilities();
    assert!(!capabilities.ring.buffers_registered);
    assert_eq!(capabilities.ring.arena_bytes, 8 << 20);
    assert!(capabilities.warnings.iter().any(|warning| warning.contains("not registered")));
    round_trip(&disk);
}

#[test]
fn the_file_table_fits_the_limit_on_open_files() {
    let Some(root) = child_root("limits::the_file_table_fits_the_limit_on_open_files", false) else { return };
    limit(Resource::Nofile, 64);
    let disk = open_at(&root, &options());
    let ring = &disk.capabilities().ring;
    assert!(ring.files_registered && ring.reasons.iter().any(|reason| reason.contains("64 of 4096 slots")), "{ring:?}");
    round_trip(&disk);
}

#[test]
fn a_policy_that_refuses_the_ring_is_named_whichever_call_it_refuses() {
    let test = "limits::a_policy_that_refuses_the_ring_is_named_whichever_call_it_refuses";
    let Some(root) = child_root(test, false) else { return };
    // Filters stay and add up, and each binds only the thread that set it and its children.
    for (call, errno) in [(425, libc::EPERM), (426, libc::EPERM), (427, libc::EPERM), (425, libc::ENOSYS)] {
        let path = root.clone();
        let tried = std::thread::spawn(move || {
            seccomp::refuse(call, errno);
            UringDisk::open(&path, &options()).expect_err("refused")
        });
        let error = tried.join().expect("no panic");
        println!("{call}: {error}");
        match errno {
            libc::EPERM => assert!(matches!(error, SetupError::BlockedByPolicy { .. }), "{call}: {error}"),
            _ => assert!(matches!(error, SetupError::KernelTooOld { .. }), "{call}: {error}"),
        }
        assert!(UringDisk::open(&root, &options()).is_ok(), "a refused open leaves no lock behind");
    }
}
