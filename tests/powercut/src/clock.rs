//! Clock: how far the record of the disk has come, told to another process through a file in memory. It is set before a write is answered, so
//! whoever was answered reads a number that counts that write.

use rustix::io::{pread, pwrite};
use std::fs::File;
use std::io;
use std::path::Path;

/// The clock, on either side.
#[derive(Debug)]
pub struct Clock(File);

/// What it shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Time {
    /// How many events there are.
    pub events: u64,
    /// How many bytes their writes have.
    pub bytes: u64,
}

impl Clock {
    /// A new one, at zero.
    ///
    /// # Errors
    /// What the file system answered.
    pub fn make(path: &Path) -> io::Result<Clock> {
        let clock = Clock(File::options().create(true).truncate(true).read(true).write(true).open(path)?);
        clock.set(Time::default())?;
        Ok(clock)
    }

    /// One that another process has made.
    ///
    /// # Errors
    /// What the file system answered.
    pub fn open(path: &Path) -> io::Result<Clock> {
        File::open(path).map(Clock)
    }

    /// Sets it.
    ///
    /// # Errors
    /// What the file system answered.
    pub fn set(&self, time: Time) -> io::Result<()> {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&time.events.to_le_bytes());
        bytes[8..].copy_from_slice(&time.bytes.to_le_bytes());
        pwrite(&self.0, &bytes, 0)?;
        Ok(())
    }

    /// Reads it.
    ///
    /// # Errors
    /// What the file system answered.
    pub fn read(&self) -> io::Result<Time> {
        let mut bytes = [0; 16];
        pread(&self.0, &mut bytes, 0)?;
        let number = |from: usize| bytes[from..from + 8].iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        Ok(Time { events: number(0), bytes: number(8) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_side_sets_the_other_reads() {
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().join("clock");
        let (here, there) = (Clock::make(&path).expect("made"), Clock::open(&path).expect("opened"));
        let time = Time { events: 1 << 33, bytes: 77 };
        here.set(time).expect("set");
        assert_eq!(there.read().expect("read"), time);
    }
}
