//! File systems and sectors of other kinds: a whole life on each, and what the report says of direct I/O there.

use crate::common::small;
use crate::lives::whole_life;
use crate::mounted::Mounted;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::path::Path;
use strandline_disk::Capabilities;

const EXT4: [&str; 5] = ["mkfs.ext4", "-q", "-F", "-b", "4096"];
const XFS: [&str; 3] = ["mkfs.xfs", "-q", "-f"];
const BTRFS: [&str; 3] = ["mkfs.btrfs", "-q", "-f"];

/// A whole life on it, and what was found there.
fn live_on(image: &Mounted, kind: &str) -> Capabilities {
    let found = whole_life(small(&image.root()));
    println!("{kind}: {:?}, fallocate {:?}, {:?}", found.direct, found.fallocate, found.barrier);
    assert_eq!(found.filesystem.kind, kind);
    assert!(found.direct.alignment >= 4096 && !found.direct.reason.is_empty(), "{:?}", found.direct);
    found
}

/// Whether a direct write of so many bytes at such a place is taken.
fn takes(path: &Path, length: usize, position: u64) -> bool {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::DIRECT | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR).expect("opened");
    let memory = vec![0; 4 * 16_384];
    let from = memory.as_ptr().align_offset(16_384);
    match rustix::io::pwrite(&file, &memory[from..from + length], position) {
        Ok(moved) => moved == length,
        Err(errno) => {
            assert_eq!(errno, Errno::INVAL);
            false
        }
    }
}

#[test]
fn od_02_a_device_of_4096_byte_sectors_is_written_directly_and_512_is_never_assumed() {
    for (kind, megabytes, mkfs) in [("ext4", 64, &EXT4[..]), ("xfs", 320, &XFS[..])] {
        let Some(image) = Mounted::on_sectors(4096, megabytes, mkfs, &[], "defaults") else { return };
        // Who assumed 512 would fail here.
        assert!(!takes(&image.at("probe"), 512, 512) && takes(&image.at("probe"), 4096, 4096), "{kind}");
        let direct = live_on(&image, kind).direct;
        assert!(direct.effective, "{kind}: {direct:?}");
        assert_eq!((direct.alignment, direct.reported), (4096, Some(4096)), "{kind}");
    }
}

/// What direct I/O would need here is more than a block: so it is not used, rather than tried with too little.
#[test]
fn od_03_od_04_a_file_system_that_asks_for_more_than_a_block_is_used_buffered_and_the_report_says_why() {
    let mkfs = ["mkfs.xfs", "-q", "-f", "-b", "size=16384", "-s", "size=16384"];
    let Some(image) = Mounted::on_sectors(16_384, 400, &mkfs, &[], "defaults") else { return };
    assert!(!takes(&image.at("probe"), 4096, 4096) && takes(&image.at("probe"), 16_384, 16_384));
    let direct = live_on(&image, "xfs").direct;
    assert_eq!((direct.effective, direct.reported), (false, Some(16_384)), "{direct:?}");
    assert!(direct.reason.contains("alignment of 16384 bytes"), "{direct:?}");
}

#[test]
fn od_01_in_memory_and_on_an_overlay_over_memory_a_store_is_buffered_and_says_why() {
    let Some(memory) = Mounted::in_memory(64) else { return };
    let direct = live_on(&memory, "tmpfs").direct;
    assert!(!direct.effective && direct.reason.contains("lives in memory"), "{direct:?}");
    let Some(overlay) = memory.overlay() else { return };
    let direct = live_on(&overlay, "overlay").direct;
    assert!(!direct.effective, "{direct:?}");
}

#[test]
fn od_01_an_overlay_over_a_drive_passes_direct_io_on() {
    let Some(image) = Mounted::new(64, &EXT4, &[], "defaults") else { return };
    let Some(overlay) = image.overlay() else { return };
    let direct = live_on(&overlay, "overlay").direct;
    assert!(direct.effective && direct.reason.contains("past the page cache"), "{direct:?}");
}

/// btrfs takes direct writes of files with checksums, and from Linux 6.14 on lets them go through the page cache. They leave nothing in there, so that
/// only the file itself tells: whether its blocks are copied on write.
#[test]
fn od_05_where_btrfs_copies_on_write_the_report_says_that_direct_writes_are_not_effective() {
    for (options, attribute, copies) in
        [("datacow", false, true), ("datacow", true, false), ("nodatacow", false, false)]
    {
        let Some(image) = Mounted::new(256, &BTRFS, &[], options) else { return };
        if attribute {
            std::fs::create_dir(image.root()).expect("made");
            assert!(image.changed_by("chattr", &["+C", &image.root().to_string_lossy()]));
        }
        let found = live_on(&image, "btrfs");
        assert!(found.direct.effective, "{:?}", found.direct);
        assert_eq!(found.filesystem.copies_on_write, Some(copies), "{options}, chattr +C: {attribute}");
        let warned = found.warnings.iter().any(|warning| warning.contains("not effective for writes"));
        assert_eq!(warned, copies, "{:?}", found.warnings);
    }
}
