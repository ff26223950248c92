//! A file system of one's own: an image file on a loop device, mounted, and taken down again however the test ends.

use crate::skipped::skipped;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

/// A mounted image. Dropping it unmounts, detaches and removes.
pub struct Mounted {
    place: TempDir,
    devices: Vec<String>,
    mounted: bool,
}

/// Why there is no file system to test on.
struct Missing(String);

impl Mounted {
    /// Makes an image of `megabytes` with `mkfs` (the program and its arguments), changes it with `tune` when there is any,
    /// and mounts it. None, which is said, where mounting is not for us: not root, no loop device, no such program.
    ///
    /// `JOURNAL` among the arguments of `mkfs` stands for a second device, made as a journal of its own.
    pub fn new(megabytes: u64, mkfs: &[&str], tune: &[&str], options: &str) -> Option<Mounted> {
        Mounted::on_sectors(512, megabytes, mkfs, tune, options)
    }

    /// The same on a device whose logical sectors have so many bytes.
    pub fn on_sectors(sector: u32, megabytes: u64, mkfs: &[&str], tune: &[&str], options: &str) -> Option<Mounted> {
        let made = Mounted::make(sector, megabytes, mkfs, tune, options);
        let told = |Missing(why)| skipped(format_args!("{mkfs:?} {tune:?} on {sector} -o {options}: {why}"));
        made.map_err(told).ok()
    }

    /// A file system of so many megabytes in memory.
    pub fn in_memory(megabytes: u64) -> Option<Mounted> {
        let make = || {
            let mut mounted = Mounted::nothing()?;
            let point = mounted.make_point();
            run("mount", &["-t", "tmpfs", "-o", &format!("size={megabytes}m"), "none", &point.to_string_lossy()])?;
            mounted.mounted = true;
            Ok(mounted)
        };
        make().map_err(|Missing(why)| skipped(format_args!("tmpfs: {why}"))).ok()
    }

    /// An overlay whose upper directory is on this one, which has to stay longer.
    pub fn overlay(&self) -> Option<Mounted> {
        let make = || {
            let mut mounted = Mounted::nothing()?;
            let point = mounted.make_point();
            let [lower, upper, work] = [mounted.place.path().join("lower"), self.at("upper"), self.at("work")];
            [&lower, &upper, &work].into_iter().for_each(|path| std::fs::create_dir(path).expect("made"));
            let (lower, upper, work) = (lower.display(), upper.display(), work.display());
            let options = format!("lowerdir={lower},upperdir={upper},workdir={work}");
            run("mount", &["-t", "overlay", "-o", &options, "none", &point.to_string_lossy()])?;
            mounted.mounted = true;
            Ok(mounted)
        };
        make().map_err(|Missing(why)| skipped(format_args!("overlay: {why}"))).ok()
    }

    fn nothing() -> Result<Mounted, Missing> {
        if !rustix::process::geteuid().is_root() {
            return Err(Missing("only root may mount".into()));
        }
        let place = tempfile::tempdir().expect("a temporary directory");
        Ok(Mounted { place, devices: Vec::new(), mounted: false })
    }

    fn make_point(&self) -> PathBuf {
        let point = self.place.path().join("mounted");
        std::fs::create_dir(&point).expect("made");
        point
    }

    fn make(sector: u32, megabytes: u64, mkfs: &[&str], tune: &[&str], options: &str) -> Result<Mounted, Missing> {
        let mut mounted = Mounted::nothing()?;
        let device = mounted.attach("image", megabytes, sector)?;
        let mut arguments: Vec<String> = mkfs.iter().map(|&argument| argument.to_owned()).collect();
        for argument in arguments.iter_mut().filter(|argument| argument.contains("JOURNAL")) {
            let journal = mounted.attach("journal", megabytes, sector)?;
            run("mke2fs", &["-q", "-F", "-b", "4096", "-O", "journal_dev", &journal])?;
            *argument = argument.replace("JOURNAL", &journal);
        }
        let (program, rest) = arguments.split_first().expect("a program");
        let rest = rest.iter().map(String::as_str);
        run(program, &rest.chain([device.as_str()]).collect::<Vec<_>>())?;
        if let Some((program, rest)) = tune.split_first() {
            run(program, &rest.iter().copied().chain([device.as_str()]).collect::<Vec<_>>())?;
        }
        let point = mounted.make_point();
        run("mount", &["-o", options, &device, &point.to_string_lossy()])?;
        mounted.mounted = true;
        Ok(mounted)
    }

    /// A directory on it for a root: the top one holds what mkfs left.
    pub fn root(&self) -> PathBuf {
        self.at("root")
    }

    /// A path on it.
    pub fn at(&self, name: &str) -> PathBuf {
        self.place.path().join("mounted").join(name)
    }

    /// The name of its device, as `loop0`.
    pub fn device(&self) -> &str {
        self.devices[0].trim_start_matches("/dev/")
    }

    /// A program that changes it; false where it is not installed, which is said.
    pub fn changed_by(&self, program: &str, arguments: &[&str]) -> bool {
        run(program, arguments).map_err(|Missing(why)| skipped(why)).is_ok()
    }

    /// Unmounts and mounts again, so that what is read then comes from the device.
    pub fn remount(&mut self, options: &str) {
        let point = self.place.path().join("mounted");
        assert!(unmount(&point), "nobody uses it any more");
        self.mounted = false;
        run("mount", &["-o", options, &self.devices[0], &point.to_string_lossy()]).ok().expect("mounted again");
        self.mounted = true;
    }

    fn attach(&mut self, name: &str, megabytes: u64, sector: u32) -> Result<String, Missing> {
        let image = self.place.path().join(name);
        let file = std::fs::File::create(&image).expect("made");
        file.set_len(megabytes << 20).expect("room for a sparse file");
        let sector = sector.to_string();
        let found = Command::new("losetup").args(["--find", "--show", "--sector-size", &sector]).arg(&image).output();
        match found {
            Ok(output) if output.status.success() => {
                let device = String::from_utf8_lossy(&output.stdout).trim().to_owned();
                self.devices.push(device.clone());
                Ok(device)
            }
            Ok(output) => {
                Err(Missing(format!("no loop device is to be had: {}", String::from_utf8_lossy(&output.stderr))))
            }
            Err(error) => Err(Missing(format!("losetup: {error}"))),
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.mounted && !unmount(&self.place.path().join("mounted")) {
            eprintln!("{} stays mounted: somebody still uses it", self.place.path().display());
            return;
        }
        for device in &self.devices {
            let _ = Command::new("losetup").args(["--detach", device]).status();
        }
    }
}

/// A closed ring lets go of its files a little later than its owner is told.
fn unmount(point: &Path) -> bool {
    for _ in 0..50 {
        if Command::new("umount").arg(point).output().is_ok_and(|output| output.status.success()) {
            return true;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    false
}

/// A program that is not installed is missing; one that fails fails the test.
fn run(program: &str, arguments: &[&str]) -> Result<(), Missing> {
    let output = match Command::new(program).args(arguments).output() {
        Ok(output) => output,
        Err(error) => return Err(Missing(format!("{program}: {error}"))),
    };
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {told}");
    Ok(())
}
