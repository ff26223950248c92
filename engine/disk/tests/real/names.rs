//! Files and directories by name, and what is refused.

use crate::skipped::skipped;
use crate::support::{descriptors_below, filled, make_file, name, open_at, open_file, options, place, run};
use rustix::io::Errno;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::Duration;
use strandline_disk::host::{DiskOptions, LOCK_NAME, Look, RootLock};
use strandline_disk::real::RealDisk;
use strandline_disk::{BLOCK, Disk, EntryKind, Operation, Position, Wait, transfer};

#[test]
fn links_and_other_kinds_are_not_opened() {
    let place = place();
    let disk = open_at(place.path(), &options());
    let outside = crate::support::place();
    fs::write(outside.path().join("canary"), "alive").expect("written");
    symlink(outside.path().join("canary"), place.path().join("link")).expect("linked");
    symlink(outside.path(), place.path().join("dirlink")).expect("linked");
    fs::write(place.path().join("one"), "x").expect("written");
    fs::hard_link(place.path().join("one"), place.path().join("two")).expect("linked");
    fs::create_dir(place.path().join("dir")).expect("made");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        place.path().join("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .expect("made");
    let root = disk.root();
    let errno = |text| open_file(&disk, &root, text).expect_err("refused").errno;
    assert_eq!(errno("link"), Errno::LOOP);
    assert_eq!(errno("two"), Errno::MLINK);
    assert_eq!(errno("dir"), Errno::ISDIR);
    assert_eq!(errno("absent"), Errno::NOENT);
    assert!([Errno::PERM, Errno::INVAL].contains(&errno("pipe")));
    let error = run(&disk, transfer::open_directory(&disk, &root, &name("dirlink"))).expect_err("refused");
    assert!([Errno::LOOP, Errno::NOTDIR].contains(&error.errno), "{error}");
    assert_eq!(&*error.path, "dirlink");
    let error = run(&disk, transfer::open_directory(&disk, &root, &name("one"))).expect_err("refused");
    assert_eq!(error.errno, Errno::NOTDIR);
    assert_eq!(make_file(&disk, &root, "one").expect_err("it exists").errno, Errno::EXIST);
    // A link is removed itself, never what it leads to.
    run(&disk, transfer::unlink(&disk, &root, &name("link"))).expect("unlinked");
    assert_eq!(fs::read_to_string(outside.path().join("canary")).expect("there"), "alive");
    disk.turn(Wait::No).expect("a turn");
    for refused in ["one", "pipe"] {
        assert_eq!(descriptors_below(&place.path().join(refused)), 0, "what is refused is closed");
    }
}

#[test]
fn a_file_of_somebody_else_is_not_opened() {
    if !rustix::process::geteuid().is_root() {
        return skipped("only root can give a file away");
    }
    let place = place();
    let disk = open_at(place.path(), &options());
    fs::write(place.path().join("theirs"), "x").expect("written");
    std::os::unix::fs::chown(place.path().join("theirs"), Some(65534), None).expect("given away");
    assert_eq!(open_file(&disk, &disk.root(), "theirs").expect_err("refused").errno, Errno::PERM);
}

#[test]
fn another_mount_is_not_entered() {
    let Ok(lock) = RootLock::acquire(Path::new("/dev"), Duration::ZERO) else {
        return skipped("this needs a root of ours with a mount in it, which only root has in /dev");
    };
    let disk = RealDisk::open_locked(lock, &options()).expect("a disk");
    let error = run(&disk, transfer::open_directory(&disk, &disk.root(), &name("shm"))).expect_err("refused");
    fs::remove_file(Path::new("/dev").join(LOCK_NAME)).expect("removed");
    assert_eq!(error.errno, Errno::XDEV);
}

#[test]
fn names_and_directories_follow_their_operations() {
    let place = place();
    let disk = open_at(place.path(), &options());
    let root = disk.root();
    run(&disk, transfer::create_directory(&disk, &root, &name("a"))).expect("made");
    run(&disk, transfer::sync_directory(&disk, &root)).expect("synced");
    let directory = run(&disk, transfer::open_directory(&disk, &root, &name("a"))).expect("opened");
    let file = make_file(&disk, &directory, "x").expect("made");
    assert_eq!(&**file.path(), "a/x");
    run(&disk, transfer::allocate(&disk, &file, 64 * BLOCK as u64)).expect("allocated");
    let metadata = fs::metadata(place.path().join("a/x")).expect("there");
    assert_eq!(metadata.len(), 64 * BLOCK as u64);
    assert_eq!(metadata.permissions().mode() & 0o7777, 0o600);
    assert!(metadata.blocks() * 512 >= metadata.len());
    let mode = fs::metadata(place.path().join("a")).expect("there").permissions().mode();
    assert_eq!(mode & 0o7777, 0o700);
    run(&disk, transfer::truncate(&disk, &file, BLOCK as u64)).expect("cut");
    assert_eq!(open_file(&disk, &directory, "x").expect("opened").length(), BLOCK as u64);
    run(&disk, transfer::rename(&disk, &directory, &name("x"), &name("y"))).expect("renamed");
    let moved = Operation::Rename { from: directory, from_name: name("y"), to: root.clone(), to_name: name("z") };
    run(&disk, disk.start(moved)).result.expect("moved up");
    let listed: Vec<_> = disk.list(&root).expect("listed").into_iter().map(|entry| (entry.name, entry.kind)).collect();
    let expected = [("a", EntryKind::Directory), (LOCK_NAME, EntryKind::File), ("z", EntryKind::File)];
    assert_eq!(listed, expected.map(|(name, kind)| (name.into(), kind)));
    let remove = |text| Operation::RemoveDirectory { directory: root.clone(), name: name(text) };
    let error = run(&disk, disk.start(remove("z"))).result.expect_err("no directory");
    assert_eq!(error.errno, Errno::NOTDIR);
    run(&disk, disk.start(remove("a"))).result.expect("removed");
    run(&disk, transfer::unlink(&disk, &root, &name("z"))).expect("unlinked");
    assert_eq!(disk.in_flight(), 0);
}

#[test]
fn files_beyond_the_rings_table_work_and_closed_ones_leave_nothing_open() {
    let place = place();
    let disk = open_at(place.path(), &DiskOptions { files_max: 4, ..options() });
    let root = disk.root();
    for round in 0..3 {
        let open = descriptors_below(place.path());
        let files: Vec<_> =
            (0..10).map(|index| make_file(&disk, &root, &format!("{round}-{index}")).expect("made")).collect();
        for (index, file) in files.iter().enumerate() {
            let buffer = filled(&disk, BLOCK, index as u8);
            let (_, result) = run(&disk, transfer::write(&disk, file, buffer, Position(0), true));
            result.expect("written");
        }
        for (index, file) in files.iter().enumerate() {
            let read = disk.pool().take(BLOCK).expect("room");
            let (read, result) = run(&disk, transfer::read(&disk, file, read, Position(0)));
            assert_eq!(result.expect("read"), BLOCK);
            assert_eq!(read[..], filled(&disk, BLOCK, index as u8)[..]);
        }
        drop(files);
        disk.turn(Wait::No).expect("a turn");
        assert_eq!(descriptors_below(place.path()), open);
    }
}

#[test]
fn a_look_past_the_ring_sees_what_is_there_and_follows_nothing() {
    let outside = place();
    fs::create_dir(outside.path().join("tree")).expect("made");
    fs::write(outside.path().join("tree/canary"), "alive").expect("written");
    let place = place();
    let disk = open_at(place.path(), &options());
    fs::create_dir(place.path().join("d")).expect("made");
    fs::write(place.path().join("d/short"), "abc").expect("written");
    fs::hard_link(place.path().join("d/short"), place.path().join("d/second")).expect("linked");
    fs::write(place.path().join("d/alone"), "abc").expect("written");
    symlink(outside.path().join("tree"), place.path().join("link")).expect("linked");
    symlink(outside.path().join("tree/canary"), place.path().join("d/link")).expect("linked");
    let look = Look::new(disk.lock());
    let entries = look.entries().expect("listed");
    let kinds: Vec<_> = entries.iter().map(|(name, stat)| (name.to_str().expect("text"), stat.kind)).collect();
    assert_eq!(kinds, [("d", EntryKind::Directory), ("link", EntryKind::Symlink), (LOCK_NAME, EntryKind::File)]);
    let path = |text: &'static str| text.split('/').map(std::ffi::OsStr::new).collect::<Vec<_>>();
    let meta = fs::metadata(place.path().join("d")).expect("there");
    let ctime_ms = meta.ctime() as u64 * 1_000 + meta.ctime_nsec() as u64 / 1_000_000;
    assert_eq!(look.stat(&path("d")).expect("there").ctime_ms, ctime_ms);
    assert_eq!(disk.stat(&disk.root(), &name("d")).expect("there"), look.stat(&path("d")).expect("there"));
    assert_eq!(disk.stat(&disk.root(), &name("link")).expect("there").kind, EntryKind::Symlink);
    assert_eq!(disk.stat(&disk.root(), &name("absent")).expect_err("absent").errno, Errno::NOENT);
    let block = look.first_block(&path("d/alone")).expect("read");
    assert!(block.starts_with(b"abc") && block[3..].iter().all(|byte| *byte == 0));
    let refused = |text| look.first_block(&path(text)).expect_err("refused").errno;
    assert_eq!(refused("d/short"), Errno::MLINK);
    for link in ["d/link", "link/canary"] {
        assert_eq!(refused(link), Errno::LOOP, "{link}");
    }
    assert!(look.list(&path("link")).is_err());
    assert!(look.list(&path("..")).is_err() && look.stat(&path("../x")).is_err());
}
