//! A test in a process of its own, since limits are a process's: as nobody where they do not bind root, and never for longer than it may take.

use crate::skipped::skipped;
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Tells the child where it is to work.
const ROOT: &str = "STRANDLINE_TEST_ROOT";

/// Who may do nothing.
const NOBODY: u32 = 65534;

/// After this long a child hangs.
const PATIENCE: Duration = Duration::from_secs(600);

/// In the child: the root to use. In the parent: runs this same test again in a child, as nobody when we are root and it is to be
/// unprivileged, and fails unless that ends well.
pub fn child_with(
    test: &str,
    unprivileged: bool,
    prepare: impl FnOnce(&mut Command) -> &mut Command,
) -> Option<PathBuf> {
    if let Some(root) = std::env::var_os(ROOT) {
        return Some(root.into());
    }
    let place = tempfile::tempdir().expect("a temporary directory");
    let root = place.path().join("store");
    std::fs::create_dir(&root).expect("made");
    if let Some(status) = child_at(test, &root, unprivileged, prepare) {
        assert!(status.success(), "the child failed: {status}");
    }
    None
}

/// Runs `test` in a child with this root, which is made over to nobody where the child is to be that. Gives how it ended; nothing where it
/// could not be run, which is said.
pub fn child_at(
    test: &str,
    root: &Path,
    unprivileged: bool,
    prepare: impl FnOnce(&mut Command) -> &mut Command,
) -> Option<ExitStatus> {
    let mut program = std::env::current_exe().expect("this program");
    let as_nobody = unprivileged && rustix::process::geteuid().is_root();
    let above = root.parent().expect("a place that is ours");
    if as_nobody {
        std::fs::set_permissions(above, std::fs::Permissions::from_mode(0o755)).expect("set");
        chown(root, Some(NOBODY), Some(NOBODY)).expect("given away");
        if !everybody_may_run(&program) {
            // It was built in a directory of root's own.
            let copy = above.join("test");
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
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]).env(ROOT, root).current_dir("/");
    if as_nobody {
        command.uid(NOBODY).gid(NOBODY);
    }
    // Through pipes: what it says must not itself meet a limit on files.
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = prepare(&mut command).spawn().expect("started");
    let (out, err) = (child.stdout.take(), child.stderr.take());
    std::thread::scope(|scope| {
        let told = [scope.spawn(|| read(out)), scope.spawn(|| read(err))];
        let status = wait(&mut child);
        told.into_iter().for_each(|told| print!("{}", told.join().expect("read")));
        Some(status)
    })
}

fn read(mut from: Option<impl Read>) -> String {
    let mut bytes = Vec::new();
    from.as_mut().map(|from| from.read_to_end(&mut bytes)).transpose().expect("a pipe can be read");
    String::from_utf8_lossy(&bytes).into_owned()
}

/// In the child: the root to use.
pub fn root_of_child() -> Option<PathBuf> {
    std::env::var_os(ROOT).map(PathBuf::from)
}

fn wait(child: &mut Child) -> ExitStatus {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = child.try_wait().expect("it is ours") {
            return status;
        }
        if Instant::now() > until {
            child.kill().expect("it is ours");
            panic!("the child hung and was killed: {}", child.wait().expect("it is ours"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn everybody_may_run(program: &Path) -> bool {
    let open = |path: &Path| std::fs::metadata(path).is_ok_and(|found| found.permissions().mode() & 0o001 != 0);
    program.ancestors().all(open)
}

/// Has this process ignore SIGXFSZ, or not.
pub fn ignore_file_size_signal(ignored: bool) {
    let handler = if ignored { libc::SIG_IGN } else { libc::SIG_DFL };
    // SAFETY: neither of the two is a function of ours that would have to be safe in a signal.
    let before = unsafe { libc::signal(libc::SIGXFSZ, handler) };
    assert_ne!(before, libc::SIG_ERR, "a signal that exists");
}
