//! A file system that is read-only, from the start or from some moment on.

use crate::common::{append, log_of, open, small, values};
use crate::lives::{attempt, bounded};
use crate::mounted::Mounted;
use rustix::io::Errno;
use strandline::{AppendError, Offset, OpenError, Store};
use strandline_disk::host::SetupError;

fn images() -> impl Iterator<Item = (&'static str, Mounted)> {
    let kinds: [(&str, u64, &[&str]); 3] = [
        ("ext4", 64, &["mkfs.ext4", "-q", "-F", "-b", "4096"]),
        ("xfs", 320, &["mkfs.xfs", "-q", "-f"]),
        ("btrfs", 128, &["mkfs.btrfs", "-q", "-f"]),
    ];
    kinds.into_iter().filter_map(|(kind, size, mkfs)| Some((kind, Mounted::new(size, mkfs, &[], "defaults")?)))
}

#[test]
fn a_store_on_a_read_only_file_system_is_refused_as_such_and_opens_when_it_is_writable_again() {
    for (kind, mut image) in images() {
        let root = image.root();
        let store = open(small(&root));
        append(&log_of(&store, "kept"), b"v");
        store.close().expect("a clean close");
        image.remount("ro");
        for root in [root.clone(), image.at("another")] {
            let refused = bounded({
                let config = small(&root);
                move || Store::open(config).expect_err("nothing can be written")
            });
            let OpenError::Setup(why) = refused else { panic!("{refused}") };
            assert_eq!(*why, SetupError::ReadOnly { path: root });
            assert!(why.to_string().contains("remount,rw"), "{why}");
        }
        image.remount("rw");
        let store = open(small(&root));
        let log = log_of(&store, "kept");
        assert_eq!(values(&log), [b"v"], "{kind}");
        append(&log, b"v");
        store.close().expect("a clean close");
    }
}

/// As ext4 does it after an error, with files open: no unmount, no warning.
#[test]
fn a_file_system_that_becomes_read_only_refuses_appends_serves_reads_and_loses_nothing() {
    let ext4 = ["mkfs.ext4", "-q", "-F", "-b", "4096"];
    let Some(mut image) = Mounted::new(64, &ext4, &[], "errors=remount-ro") else { return };
    let root = image.root();
    let store = open(small(&root));
    let (log, other) = (log_of(&store, "log"), log_of(&store, "other"));
    let mut kept = Vec::new();
    for number in 0..20_u8 {
        kept.push(vec![number; 20_000]);
        append(&log, &kept[usize::from(number)]);
    }
    append(&other, b"v");
    std::fs::write(format!("/sys/fs/ext4/{}/trigger_fs_error", image.device()), "strandline").expect("an error");
    let kept = bounded(move || {
        for (number, log) in [&log, &log, &other, &log].into_iter().enumerate() {
            // Linux 6.1 still writes to a file that is open and whose blocks are there, and says that it is durable.
            let refused = match attempt(log, &[7; 20_000]) {
                Ok(_) if number == 2 => continue,
                Ok(_) => {
                    kept.push(vec![7; 20_000]);
                    continue;
                }
                Err(refused) => refused,
            };
            println!("{refused}");
            // What fails first is a write, or the next segment; a log that a write failed in says so from then on.
            let source = match &refused {
                AppendError::Failed { latch, .. } | AppendError::Latched { latch, .. } => &latch.source,
                AppendError::Prepare { source, .. } => source,
                other => panic!("append {number}: {other}"),
            };
            assert!([Errno::ROFS, Errno::IO].contains(&source.errno), "append {number}: {refused}");
        }
        assert!(values(&log) == kept, "what is there is read");
        assert_eq!(values(&other)[0], b"v");
        println!("trim: {:?}", log.trim(Offset(3)).wait());
        drop((log, other));
        println!("closed: {:?}", store.close());
        kept
    });
    // What ext4 found wrong it notes on the device; here there was nothing.
    image.remount("rw");
    let store = open(small(&root));
    let log = log_of(&store, "log");
    assert!(store.report().damaged.is_empty(), "{:?}", store.report());
    assert!(values(&log).starts_with(&kept), "{} records", values(&log).len());
    assert_eq!(values(&log_of(&store, "other"))[0], b"v");
    append(&log, b"goes on");
    store.close().expect("a clean close");
}
