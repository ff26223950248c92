//! What becomes of somebody else's files when a directory that is to go is swapped for a way to them, again and again, while passes look and
//! the remover removes.

use super::orphans::{Place, copy};
use super::skipped::skipped;
use rustix::mount::{UnmountFlags, mount_bind, unmount};
use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The fewest orphans that are given up meanwhile.
const GIVEN_UP: usize = 30;
/// A test that takes longer has shown nothing.
const TOO_LONG: Duration = Duration::from_secs(60);
/// The same for many: a campaign makes about a hundred in a second.
const LONG_FOR_A_SWAP: Duration = Duration::from_millis(30);

/// What takes the place of what is to go.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// A symbolic link to the tree, for the directory.
    Link,
    /// A second name of the tree's file, for the file in it.
    HardLink,
    /// The tree itself, mounted over the directory.
    Bind,
}

/// Somebody else's tree: a copy of the orphan, and a file that no segment has.
struct Canary {
    place: tempfile::TempDir,
    data: Vec<u8>,
}

impl Canary {
    fn of(orphan: &Path) -> Canary {
        let place = tempfile::tempdir().expect("a directory");
        let tree = place.path().join("tree");
        copy(orphan, &tree);
        fs::write(tree.join("canary"), "alive").expect("written");
        let file = fs::File::options().write(true).open(tree.join("data.0")).expect("there");
        file.set_len(FILE_BYTES).expect("made longer");
        let data = fs::read(tree.join("data.0")).expect("read");
        Canary { place, data }
    }

    fn tree(&self) -> PathBuf {
        self.place.path().join("tree")
    }

    fn is_whole(&self) {
        let tree = self.tree();
        assert_eq!(fs::read_to_string(tree.join("canary")).expect("read"), "alive");
        assert!(fs::read(tree.join("data.0")).expect("read") == self.data, "bytes of its file changed");
        assert_eq!(fs::read_dir(&tree).expect("there").count(), 2);
        assert!(fs::metadata(tree.join("data.0")).expect("there").nlink() >= 1);
    }
}

/// Directories that are to go, in whose place something else comes and goes.
struct Swapper<'a> {
    way: Way,
    tree: &'a Path,
    aside: &'a Path,
    stop: &'a AtomicBool,
}

/// How often something else stood there, and the directory came back.
#[derive(Debug, Default)]
struct Swaps {
    in_place: AtomicU64,
    in_trash: AtomicU64,
}

/// How long each of the two stands there, so that whoever looks meets either.
const EACH: Duration = Duration::from_micros(15);
/// How long an orphan is swapped in its place. Then it is left alone, since one that changes is never given up.
const IN_PLACE: Duration = Duration::from_millis(1);
/// How long what was given up waits in the trash, swapped all the while, before it is let go.
const HOLD_MS: u64 = 20;
/// How long it is swapped there. One that could not be removed by then rests.
const IN_TRASH: Duration = Duration::from_millis(60);
/// As long as a file has to be for being cut before it is unlinked.
const FILE_BYTES: u64 = 8 << 20;

impl Swapper<'_> {
    /// One orphan after the other, each swapped where it stands and again in the trash.
    fn run(&self, path: &Path, trash: &Path, swaps: &Swaps) {
        let mut seen = HashSet::new();
        while !self.stop.load(Ordering::Acquire) {
            self.make(path);
            self.swap_for(path, IN_PLACE, &swaps.in_place);
            while let Some(waiting) = self.next_in(trash, path, &mut seen) {
                self.swap_for(&waiting, IN_TRASH, &swaps.in_trash);
            }
        }
    }

    /// What was given up since: waited for.
    fn next_in(&self, trash: &Path, path: &Path, seen: &mut HashSet<PathBuf>) -> Option<PathBuf> {
        loop {
            let entries = fs::read_dir(trash).expect("there").filter_map(|entry| Some(entry.ok()?.path()));
            if let Some(new) = entries.into_iter().find(|entry| !seen.contains(entry)) {
                seen.insert(new.clone());
                return Some(new);
            }
            if !path.exists() || self.stop.load(Ordering::Acquire) {
                return None;
            }
            if matches!(self.way, Way::Bind) {
                // One that could not be taken away at once would stay for good.
                let _ = unmount(path, UnmountFlags::DETACH);
            }
            std::thread::yield_now();
        }
    }

    fn swap_for(&self, path: &Path, time: Duration, count: &AtomicU64) {
        let until = Instant::now() + time;
        while Instant::now() < until && self.swap(path) {
            count.fetch_add(1, Ordering::Relaxed);
            spin();
        }
    }

    /// Once there and back, for the directory at `path`. False when it is not there any more.
    fn swap(&self, path: &Path) -> bool {
        match self.way {
            Way::Link => self.exchange(path, || symlink(self.tree, path)),
            Way::HardLink => {
                let file = path.join("data.0");
                self.exchange(&file, || fs::hard_link(self.tree.join("data.0"), &file))
            }
            Way::Bind => {
                let is_mounted = mount_bind(self.tree, path).is_ok();
                spin();
                is_mounted && unmount(path, UnmountFlags::DETACH).is_ok()
            }
        }
    }

    /// Puts `path` aside, something else in its place, and it back again.
    fn exchange(&self, path: &Path, put: impl FnOnce() -> std::io::Result<()>) -> bool {
        if fs::rename(path, self.aside).is_err() {
            return false;
        }
        let _ = put();
        spin();
        let _ = fs::remove_file(path);
        if fs::rename(self.aside, path).is_ok() {
            return true;
        }
        // Its directory is gone, or something of the store's has taken its place.
        let _ = fs::remove_file(self.aside).or_else(|_| fs::remove_dir_all(self.aside));
        false
    }

    /// Another orphan, where the last one was given up.
    fn make(&self, path: &Path) {
        if fs::create_dir(path).is_ok() {
            let _ = fs::copy(self.tree.join("data.0"), path.join("data.0"));
        }
    }
}

fn spin() {
    let until = Instant::now() + EACH;
    while Instant::now() < until {
        std::hint::spin_loop();
    }
}

/// What was mounted over these directories, and over those in that one, is taken away, however the test ends.
struct Unmounted {
    path: PathBuf,
    trash: PathBuf,
}

impl Drop for Unmounted {
    fn drop(&mut self) {
        let trashed = fs::read_dir(&self.trash).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
        for path in trashed.chain([self.path.clone()]) {
            while unmount(&path, UnmountFlags::DETACH).is_ok() {}
        }
    }
}

/// Swaps orphans so many times at least, where they stand and in the trash, while passes look at them that give up what is left alone and let
/// it go a moment later.
fn swapped_meanwhile(way: Way, wanted: u64) {
    let mut place = Place::new();
    let orphan = place.orphan("swapped");
    let (path, trash) = (place.path(&orphan), place.path("trash"));
    let canary = Canary::of(&path);
    (place.limits.review.sightings, place.limits.age_min_ms, place.limits.hold_ms) = (1, 0, HOLD_MS);
    let (aside, tree) = (place.root.path().join("swap"), canary.tree());
    let _unmounted = Unmounted { path: path.clone(), trash: trash.clone() };
    let (stop, swaps) = (AtomicBool::new(false), Swaps::default());
    let swapper = Swapper { way, tree: &tree, aside: &aside, stop: &stop };
    let (mut passes, mut given_up, mut let_go, mut last) = (0_u64, 0, 0, None);
    let counted = || (swaps.in_place.load(Ordering::Relaxed), swaps.in_trash.load(Ordering::Relaxed));
    let (started, too_long) = (Instant::now(), TOO_LONG.max(LONG_FOR_A_SWAP * wanted as u32));
    std::thread::scope(|scope| {
        scope.spawn(|| swapper.run(&path, &trash, &swaps));
        while counted().0 + counted().1 < wanted || given_up < GIVEN_UP {
            let outcome = place.try_pass();
            if let Ok(report) = &outcome {
                given_up += report.given_up.len();
                let_go += report.let_go.gone.len();
            }
            last = Some(outcome);
            passes += 1;
            if started.elapsed() > too_long {
                break;
            }
        }
        stop.store(true, Ordering::Release);
    });
    let took = started.elapsed();
    eprintln!("{way:?}: {swaps:?}, {passes} passes, {given_up} given up, {let_go} let go, {took:?}");
    canary.is_whole();
    place.still_works();
    assert!(took < too_long, "{given_up} of {GIVEN_UP} were given up, and the last pass: {last:?}");
}

fn may_mount() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        skipped("only root may mount");
    }
    is_root
}

#[test]
fn os_14_a_directory_that_becomes_a_link_leads_nowhere() {
    swapped_meanwhile(Way::Link, 800);
}

#[test]
fn os_14_a_file_that_gets_a_second_name_is_never_cut() {
    swapped_meanwhile(Way::HardLink, 1_500);
}

#[test]
fn os_14_a_directory_that_another_is_mounted_over_leads_nowhere() {
    if may_mount() {
        swapped_meanwhile(Way::Bind, 400);
    }
}

/// `cargo test -p strandline-sweeper --test passes -- --ignored os_14`.
#[test]
#[ignore = "campaigns of 100,000 swaps"]
fn os_14_campaign_of_swaps() {
    swapped_meanwhile(Way::Link, 100_000);
    swapped_meanwhile(Way::HardLink, 100_000);
    if may_mount() {
        swapped_meanwhile(Way::Bind, 100_000);
    }
}
