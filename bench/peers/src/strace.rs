//! What strace wrote, read again: for each append, whether its bytes were made durable before it was acknowledged. Pure.
//!
//! An append counts when, between its mark and the next one, at least as many bytes as its record has were written to files of the engine,
//! and after that a sync of such a file (or an `msync`) began and succeeded, or the writes themselves were durable: to a descriptor
//! opened with `O_SYNC` or `O_DSYNC`, or with `RWF_DSYNC` or `RWF_SYNC`.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Where no file is.
const MARKERS: &str = "/strandline-peers/append/";

/// What strace has to follow for this.
pub const TRACED: &str =
    "trace=fsync,fdatasync,sync_file_range,msync,openat,write,writev,pwrite64,pwritev,pwritev2,io_uring_enter";

/// What was counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Syncs {
    /// Appends that were marked.
    pub appends: u64,
    /// Those of them that were durable when they were acknowledged.
    pub durable: u64,
    /// Successful calls that make something durable, by their names.
    pub calls: BTreeMap<String, u64>,
}

/// The path whose opening marks where an append begins.
pub fn marker(number: u64) -> String {
    format!("{MARKERS}{number}")
}

/// Counts what `trace` has of files below `directory`, for records of so many bytes.
pub fn count(trace: &str, directory: &str, record_bytes: u64) -> Syncs {
    let mut reader = Reader { directory, record_bytes, ..Reader::default() };
    trace.lines().for_each(|line| reader.line(line));
    reader.syncs
}

#[derive(Default)]
struct Reader<'a> {
    directory: &'a str,
    record_bytes: u64,
    syncs: Syncs,
    /// Descriptors and paths that were opened to write durably.
    durable_files: HashSet<String>,
    /// Calls that have begun, by thread.
    begun: HashMap<&'a str, Begun<'a>>,
    /// The append that is being looked at.
    append: Option<Append>,
}

/// A call that has begun, and how many bytes had been written when it did.
#[derive(Clone, Copy)]
struct Begun<'a> {
    call: &'a str,
    written_before: u64,
}

#[derive(Default)]
struct Append {
    written: u64,
    written_durably: u64,
    synced: bool,
}

impl<'a> Reader<'a> {
    /// `PID call(arguments) = result`, or one of the two parts of a call that another thread's came between.
    fn line(&mut self, line: &'a str) {
        let Some((thread, rest)) = line.split_once(' ') else { return };
        let rest = rest.trim_start();
        let written_before = self.append.as_ref().map_or(0, |append| append.written);
        if let Some(call) = rest.strip_suffix("<unfinished ...>") {
            self.begun.insert(thread, Begun { call, written_before });
        } else if rest.starts_with("<... ") {
            let Some(begun) = self.begun.remove(thread) else { return };
            self.done(begun, rest);
        } else {
            self.done(Begun { call: rest, written_before }, rest);
        }
    }

    /// A call that has ended; `ending` ends with its result.
    fn done(&mut self, begun: Begun<'a>, ending: &str) {
        let Some((name, arguments)) = begun.call.split_once('(') else { return };
        let Some((_, result)) = ending.rsplit_once(" = ") else { return };
        if name == "openat" {
            return self.opened(arguments, result);
        }
        let Some(moved) = result.split([' ', '<']).next().and_then(|number| number.parse::<u64>().ok()) else { return };
        let file = arguments.split_inclusive('>').next().unwrap_or_default();
        let is_ours = file.contains(self.directory);
        match name {
            "fsync" | "fdatasync" if is_ours => self.synced(name, begun.written_before),
            // It names no file.
            "msync" if arguments.contains("MS_SYNC") => self.synced(name, begun.written_before),
            "write" | "writev" | "pwrite64" | "pwritev" | "pwritev2" if is_ours => {
                let is_durable = arguments.contains("RWF_DSYNC")
                    || arguments.contains("RWF_SYNC")
                    || self.durable_files.contains(file);
                self.wrote(name, moved, is_durable);
            }
            _ => {}
        }
    }

    /// `AT_FDCWD</..>, "path", FLAGS, MODE`, and `7</path>` or an error.
    fn opened(&mut self, arguments: &str, result: &str) {
        if arguments.contains(MARKERS) {
            self.next_append();
        } else if arguments.contains("O_SYNC") || arguments.contains("O_DSYNC") {
            self.durable_files.insert(result.trim().to_owned());
        } else {
            // The number may have been another file's.
            self.durable_files.remove(result.trim());
        }
    }

    /// The append before this mark was acknowledged.
    fn next_append(&mut self) {
        if let Some(append) = self.append.replace(Append::default()) {
            self.syncs.appends += 1;
            self.syncs.durable += u64::from(append.synced || append.written_durably >= self.record_bytes);
        }
    }

    fn synced(&mut self, name: &str, written_before: u64) {
        let Some(append) = &mut self.append else { return };
        append.synced |= written_before >= self.record_bytes;
        *self.syncs.calls.entry(name.to_owned()).or_default() += 1;
    }

    fn wrote(&mut self, name: &str, bytes: u64, is_durable: bool) {
        let Some(append) = &mut self.append else { return };
        append.written += bytes;
        if is_durable {
            append.written_durably += bytes;
            *self.syncs.calls.entry(format!("durable {name}")).or_default() += 1;
        }
    }
}

impl Syncs {
    /// Whether every append was durable when it was acknowledged.
    pub fn is_durable(&self) -> bool {
        self.appends > 0 && self.durable == self.appends
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPEN: &str =
        "7 openat(AT_FDCWD</>, \"/strandline-peers/append/0\", O_RDONLY|O_CLOEXEC) = -1 ENOENT (No such file)\n";

    /// Between two marks.
    fn counted(calls: &str) -> Syncs {
        count(&format!("{OPEN}{calls}{}", OPEN.replace("append/0", "append/1")), "/data/engine", 1024)
    }

    fn is_durable(calls: &str) -> bool {
        let syncs = counted(calls);
        assert_eq!(syncs.appends, 1, "{calls}");
        syncs.is_durable()
    }

    #[test]
    fn a_sync_behind_the_write_makes_an_append_durable() {
        let write = "7 pwrite64(3</data/engine/log>, \"\"..., 1040, 0) = 1040\n";
        assert!(is_durable(&format!("{write}7 fdatasync(3</data/engine/log>) = 0\n")));
        assert!(is_durable(&format!("{write}7 msync(0x7f0, 4096, MS_SYNC) = 0\n")));
        assert_eq!(counted(&format!("{write}7 fsync(3</data/engine/log>) = 0\n")).calls["fsync"], 1);
    }

    #[test]
    fn what_does_not_make_this_append_durable_is_not_counted() {
        let write = "7 write(3</data/engine/log>, \"\"..., 1040) = 1040\n";
        let sync = "8 fdatasync(3</data/engine/log>) = 0\n";
        for calls in [
            String::new(),
            write.to_owned(),
            // Before the write, or begun before its end.
            format!("{sync}{write}"),
            format!("8 fdatasync(3</data/engine/log> <unfinished ...>\n{write}8 <... fdatasync resumed>) = 0\n"),
            // It failed.
            format!("{write}7 fdatasync(3</data/engine/log>) = -1 EIO (Input/output error)\n"),
            // Another file.
            format!("{write}7 fdatasync(3</data/other/log>) = 0\n"),
            format!("7 write(1</dev/pts/0>, \"\"..., 1040) = 1040\n{sync}"),
            // Less than the record.
            format!("7 write(3</data/engine/log>, \"\"..., 12) = 12\n{sync}"),
            format!("{write}7 msync(0x7f0, 4096, MS_ASYNC) = 0\n"),
            // Not waited for.
            format!("{write}7 fdatasync(3</data/engine/log> <unfinished ...>\n"),
        ] {
            assert!(!is_durable(&calls), "{calls}");
        }
        assert!(!count("", "/data/engine", 1024).is_durable(), "nothing was seen");
    }

    #[test]
    fn a_sync_of_another_thread_counts_where_it_began_behind_the_write() {
        let calls = "7 write(3</data/engine/log>, \"\"..., 1040 <unfinished ...>\n\
                     8 io_uring_enter(4, 1, 0, 0, NULL, 8) = 1\n\
                     7 <... write resumed>) = 1040\n\
                     8 fdatasync(3</data/engine/log> <unfinished ...>\n\
                     7 futex(0x7f0, FUTEX_WAIT, 1, NULL <unfinished ...>\n\
                     8 <... fdatasync resumed>) = 0\n";
        assert!(is_durable(calls));
    }

    #[test]
    fn writes_may_be_durable_themselves() {
        let open = "7 openat(AT_FDCWD</>, \"/data/engine/a\", O_RDWR|O_SYNC|O_CLOEXEC) = 9</data/engine/a>\n";
        let write = "7 pwrite64(9</data/engine/a>, \"\"..., 1088, 0) = 1088\n";
        assert!(is_durable(&format!("{open}{write}")));
        assert!(!is_durable(write));
        let again = open.replace("|O_SYNC", "");
        assert!(!is_durable(&format!("{open}{again}{write}")), "its number went to another");
        let vector = "7 pwritev2(9</data/engine/a>, [{iov_base=\"\"..., iov_len=4096}], 1, 8192, RWF_DSYNC) = 4096\n";
        assert!(is_durable(vector));
        assert!(!is_durable(&vector.replace("RWF_DSYNC", "0")));
    }
}
