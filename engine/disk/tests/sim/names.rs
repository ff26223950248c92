//! What a sync of a directory makes durable, and what a crash may make of names otherwise.

use crate::support::*;
use rustix::io::Errno;
use std::collections::BTreeSet;
use strandline_disk::sim::{Loss, SimDisk, SimWorld, drive};
use strandline_disk::{Access, BLOCK, Disk, Entry, EntryKind, OpenFile, Operation, transfer};

fn names(world: &SimWorld) -> Vec<String> {
    world.files().into_iter().map(|(path, _)| path).collect()
}

/// Runs `act` on a fresh world for many seeds and gathers which names a power failure leaves.
fn outcomes(put: &[&str], act: impl Fn(&SimDisk)) -> BTreeSet<Vec<String>> {
    let mut seen = BTreeSet::new();
    for seed in 0..120 {
        let world = SimWorld::new(seed);
        put.iter().for_each(|path| world.put_file(path, path.as_bytes()));
        act(&world.open());
        world.power_failure(Loss::Random);
        seen.insert(names(&world));
    }
    seen
}

fn sets(expected: &[&[&str]]) -> BTreeSet<Vec<String>> {
    expected.iter().map(|names| names.iter().map(|name| (*name).to_owned()).collect()).collect()
}

#[test]
fn a_synced_file_vanishes_unless_its_directory_was_synced_too() {
    let make = |disk: &SimDisk| {
        let file = open(disk, &disk.root(), "f", OpenFile::New, Access::Auto);
        write(disk, &file, b'x', 0, BLOCK, true);
        sync(disk, &file);
    };
    assert_eq!(outcomes(&[], make), sets(&[&[], &["f"]]));
    let make_durably = |disk: &SimDisk| {
        make(disk);
        sync_directory(disk, &disk.root());
    };
    assert_eq!(outcomes(&[], make_durably), sets(&[&["f"]]));
}

#[test]
fn a_directory_whose_parent_was_not_synced_vanishes_with_all_inside() {
    let make = |disk: &SimDisk| {
        let directory = make_directory(disk, "d");
        open(disk, &directory, "f", OpenFile::New, Access::Auto);
        sync_directory(disk, &directory);
    };
    assert_eq!(outcomes(&[], make), sets(&[&[], &["d/f"]]));
    let world = SimWorld::new(1);
    make(&world.open());
    world.power_failure(Loss::DropAll);
    let disk = world.open();
    assert_eq!(disk.list(&disk.root()).expect("the root is there"), []);
}

#[test]
fn a_rename_is_found_under_exactly_one_name() {
    let within = |disk: &SimDisk| rename(disk, (&disk.root(), "a"), (&disk.root(), "b"));
    assert_eq!(outcomes(&["a"], within), sets(&[&["a"], &["b"]]));
    let across = |disk: &SimDisk| {
        let directory = make_directory(disk, "d");
        sync_directory(disk, &disk.root());
        rename(disk, (&disk.root(), "a"), (&directory, "b"));
        sync_directory(disk, &directory);
    };
    assert_eq!(outcomes(&["a"], across), sets(&[&["a"], &["d/b"]]), "it needs a sync of both directories");
    let durably = |disk: &SimDisk| {
        across(disk);
        sync_directory(disk, &disk.root());
    };
    assert_eq!(outcomes(&["a"], durably), sets(&[&["d/b"]]));
}

#[test]
fn a_replaced_file_is_old_or_new_and_never_missing() {
    let mut seen = BTreeSet::new();
    for seed in 0..60 {
        let world = SimWorld::new(seed);
        world.put_file("f", b"old");
        world.put_file("f.new", b"new");
        let disk = world.open();
        rename(&disk, (&disk.root(), "f.new"), (&disk.root(), "f"));
        world.power_failure(Loss::Random);
        let bytes = world.read_file("f").expect("a rename never loses both");
        assert_eq!(world.read_file("f.new").is_some(), bytes == b"old");
        seen.insert(bytes);
    }
    assert_eq!(seen, BTreeSet::from([b"old".to_vec(), b"new".to_vec()]));
}

#[test]
fn an_unlinked_file_may_come_back_until_its_directory_is_synced() {
    let remove = |disk: &SimDisk| unlink(disk, &disk.root(), "f");
    assert_eq!(outcomes(&["f"], remove), sets(&[&[], &["f"]]));
    let durably = |disk: &SimDisk| {
        remove(disk);
        sync_directory(disk, &disk.root());
    };
    assert_eq!(outcomes(&["f"], durably), sets(&[&[]]));
    let world = SimWorld::new(1);
    world.put_file("f", b"bytes");
    remove(&world.open());
    world.power_failure(Loss::DropAll);
    assert_eq!(world.read_file("f").as_deref(), Some(b"bytes".as_slice()));
}

#[test]
fn names_are_kept_and_lost_in_no_order() {
    let make = |disk: &SimDisk| {
        for file in ["a", "b"] {
            open(disk, &disk.root(), file, OpenFile::New, Access::Auto);
        }
    };
    assert_eq!(outcomes(&[], make), sets(&[&[], &["a"], &["b"], &["a", "b"]]));
}

#[test]
fn what_was_moved_twice_is_never_found_twice() {
    let move_twice = |disk: &SimDisk| {
        rename(disk, (&disk.root(), "a"), (&disk.root(), "b"));
        rename(disk, (&disk.root(), "b"), (&disk.root(), "c"));
    };
    assert_eq!(outcomes(&["a/f"], move_twice), sets(&[&["a/f"], &["b/f"], &["c/f"]]));
}

#[test]
fn what_was_moved_out_of_a_removed_directory_is_not_lost_with_it() {
    let empty = |disk: &SimDisk| {
        let root = disk.root();
        let directory = drive(disk, transfer::open_directory(disk, &root, &name("d"))).expect("it opens");
        rename(disk, (&directory, "f"), (&root, "f"));
        drive(disk, disk.start(Operation::RemoveDirectory { directory: root, name: name("d") })).result.expect("empty");
    };
    assert_eq!(outcomes(&["d/f"], empty), sets(&[&["d/f"], &["f"]]));
}

#[test]
fn a_sync_of_a_directory_covers_only_what_had_completed_when_it_started() {
    for seed in 0..30 {
        let world = SimWorld::new(seed);
        let disk = world.open();
        let (directory, how, access) = (disk.root(), OpenFile::New, Access::Auto);
        let making = disk.start(Operation::Open { directory: directory.clone(), name: name("f"), how, access });
        let syncing = disk.start(Operation::SyncDirectory { directory });
        drive(&disk, making).result.expect("it is made");
        drive(&disk, syncing).result.expect("it is synced");
        world.power_failure(Loss::DropAll);
        assert_eq!(world.files(), []);
    }
}

#[test]
fn wrong_names_get_the_errno_of_linux() {
    let world = SimWorld::new(1);
    world.put_file("d/f", b"");
    world.put_file("g", b"");
    world.put_file("e/sub/h", b"");
    let disk = world.open();
    let root = disk.root();
    let answer = |operation| drive(&disk, disk.start(operation)).result.map(drop).map_err(|error| error.errno);
    let open = |text: &str, how| {
        answer(Operation::Open { directory: root.clone(), name: name(text), how, access: Access::Auto })
    };
    assert_eq!(open("g", OpenFile::New), Err(Errno::EXIST));
    assert_eq!(open("x", OpenFile::Existing), Err(Errno::NOENT));
    assert_eq!(open("d", OpenFile::Existing), Err(Errno::ISDIR));
    let in_root = |text: &str| (root.clone(), name(text));
    let (directory, text) = in_root("g");
    assert_eq!(answer(Operation::OpenDirectory { directory, name: text }), Err(Errno::NOTDIR));
    let (directory, text) = in_root("d");
    assert_eq!(answer(Operation::CreateDirectory { directory, name: text }), Err(Errno::EXIST));
    let (directory, text) = in_root("d");
    assert_eq!(answer(Operation::RemoveDirectory { directory, name: text }), Err(Errno::NOTEMPTY));
    let (directory, text) = in_root("g");
    assert_eq!(answer(Operation::RemoveDirectory { directory, name: text }), Err(Errno::NOTDIR));
    let (directory, text) = in_root("d");
    assert_eq!(answer(Operation::Unlink { directory, name: text }), Err(Errno::ISDIR));
    let rename = |from: &str, to: &str| {
        let (from, from_name) = in_root(from);
        answer(Operation::Rename { from, from_name, to: root.clone(), to_name: name(to) })
    };
    assert_eq!(rename("x", "y"), Err(Errno::NOENT));
    assert_eq!(rename("g", "d"), Err(Errno::ISDIR));
    assert_eq!(rename("d", "g"), Err(Errno::NOTDIR));
    assert_eq!(rename("d", "e"), Err(Errno::NOTEMPTY));
    let inside = drive(&disk, transfer::open_directory(&disk, &root, &name("e"))).expect("it opens");
    let (from, from_name) = in_root("e");
    assert_eq!(answer(Operation::Rename { from, from_name, to: inside, to_name: name("e") }), Err(Errno::INVAL));
    assert_eq!(names(&world), ["d/f", "e/sub/h", "g"]);
}

#[test]
fn a_listing_is_in_name_order_with_the_kinds() {
    let world = SimWorld::new(1);
    world.put_file("b", b"");
    world.put_file("a/f", b"");
    let disk = world.open();
    let entry = |name: &str, kind| Entry { name: name.into(), kind };
    let expected = [entry("a", EntryKind::Directory), entry("b", EntryKind::File)];
    assert_eq!(disk.list(&disk.root()).expect("it lists"), expected);
}

#[test]
fn an_open_file_outlives_its_name() {
    let world = world_with(1, &[b'x'; BLOCK]);
    let disk = world.open();
    let file = open_f(&disk);
    unlink(&disk, &disk.root(), "f");
    sync_directory(&disk, &disk.root());
    assert_eq!(read(&disk, &file, 0, BLOCK), [b'x'; BLOCK]);
}

#[test]
fn a_stat_tells_links_from_directories_and_when_one_of_those_changed() {
    let world = SimWorld::new(1);
    world.put_file("d/f", &[1; 700]);
    world.put_symlink("link");
    world.put_directory("empty");
    let disk = world.open();
    let root = disk.root();
    let stat = |text| disk.stat(&root, &name(text)).map_err(|error| error.errno);
    let made = stat("d").expect("a directory");
    assert_eq!((made.kind, made.ctime_ms), (EntryKind::Directory, world.now().wall_ms));
    assert_eq!(stat("link").expect("a link").kind, EntryKind::Symlink);
    assert_eq!(stat("absent"), Err(Errno::NOENT));
    let listed = disk.list(&root).expect("listed").into_iter().map(|entry| entry.kind).collect::<Vec<_>>();
    assert_eq!(listed, [EntryKind::Directory, EntryKind::Directory, EntryKind::Symlink]);
    assert!(drive(&disk, transfer::open_directory(&disk, &root, &name("link"))).is_err());

    // A name that comes or goes, and a move of the directory itself; neither a look nor time alone.
    let mut before = made.ctime_ms;
    let mut changes = |act: &dyn Fn(), as_name: &'static str, is_change: bool| {
        world.jump_clock(1_000);
        act();
        let after = stat(as_name).expect("a directory").ctime_ms;
        assert_eq!(after != before, is_change, "{as_name} {before} {after}");
        before = after;
    };
    let directory = drive(&disk, transfer::open_directory(&disk, &root, &name("d"))).expect("opened");
    changes(&|| drop(disk.list(&directory)), "d", false);
    changes(&|| drop(open(&disk, &directory, "g", OpenFile::New, Access::Auto)), "d", true);
    let unlink = || drive(&disk, transfer::unlink(&disk, &directory, &name("g"))).expect("unlinked");
    changes(&unlink, "d", true);
    changes(&|| rename(&disk, (&root, "d"), (&root, "e")), "e", true);
    let file = disk.stat(&directory, &name("f")).expect("a file");
    assert_eq!((file.kind, file.bytes), (EntryKind::File, 700));
}
