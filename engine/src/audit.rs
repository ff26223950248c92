//! The audit log: who changed what, and what was refused, as lines of JSON that are only ever added. It is made whole at its first line,
//! so that a disk without room does not stop it.
//!
//! Four files of one size, used in turn: what is free in them is line feeds, which readers of JSON lines pass over. The newest line
//! is the one with the largest `seq`. When a file is full the oldest one is cleared and used again. Nothing here decides anything: a log
//! that cannot be written is reported, and what it would have said is kept in memory for the next line.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic))]

use crate::layout;
use crate::policy::Fields;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use strandline_disk::{Access, BLOCK, Directory, Disk, DiskError, File, Name, OpenFile, Position, transfer};

/// The files, in the order in which they are used.
const FILES: [&str; 4] = ["0.jsonl", "1.jsonl", "2.jsonl", "3.jsonl"];

/// The most bytes of a line. It fits a file of the smallest size.
const LINE_BYTES_MAX: usize = 8 << 10;

/// The most lines that are kept in memory while the log cannot be written; the oldest go first, and are counted.
const WAITING_MAX: usize = 256;

/// The most characters of a text that came from outside.
const TEXT_CHARACTERS_MAX: usize = 512;

/// The largest piece that is written or read at once, in bytes.
const PIECE: usize = 128 << 10;

/// The most bytes that are read of a file: a quarter of the largest log. One that is longer is no work of ours, and the rest of it is left alone.
const FILE_BYTES_MAX: usize = 16 << 20;

/// The numbers of lines stay below this, which no log reaches and every reader of JSON keeps exactly.
const SEQ_MAX: u64 = 1 << 53;

/// What is free in a file.
const FREE: u8 = b'\n';

/// What one line says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AuditRecord {
    /// When, wall ms.
    pub time_ms: u64,
    /// What was to be done: `policy_defined` and the like, also where it was refused.
    pub event: &'static str,
    /// Who wanted it.
    pub actor: String,
    /// The policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// The topic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// The segment, by the name of its directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub segment: Option<String>,
    /// The seal time that it had, wall ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sealed_at_before_ms: Option<u64>,
    /// And the one that it has, wall ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sealed_at_ms: Option<u64>,
    /// What was defined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fields: Option<Fields>,
    /// It was to be done though topics are bound.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub forced: bool,
    /// `done`, `refused`, or `unknown` where the manifest failed.
    pub outcome: &'static str,
    /// The refusal's short name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<&'static str>,
    /// The refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A line with its place among the others.
#[derive(Serialize)]
struct Line<'a> {
    seq: u64,
    /// So many lines before it were dropped while the log could not be written.
    #[serde(skip_serializing_if = "is_zero")]
    dropped: u64,
    #[serde(flatten)]
    record: &'a AuditRecord,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// What is read of a line again.
#[derive(Deserialize)]
struct Numbered {
    seq: u64,
}

impl AuditRecord {
    /// The same, with what came from outside cut to a length that always fits.
    fn cut(&self) -> AuditRecord {
        let cut = |text: &String| text.chars().take(TEXT_CHARACTERS_MAX / 4).collect::<String>();
        AuditRecord {
            actor: cut(&self.actor),
            policy: self.policy.as_ref().map(cut),
            topic: self.topic.as_ref().map(cut),
            segment: self.segment.as_ref().map(cut),
            reason: self.reason.as_ref().map(cut),
            fields: None,
            ..self.clone()
        }
    }
}

/// A text that came from outside, no longer than it may be.
#[must_use]
pub fn text(text: &str) -> String {
    text.chars().take(TEXT_CHARACTERS_MAX).collect()
}

/// The bytes of a line, its line feed included.
fn line(seq: u64, dropped: u64, record: &AuditRecord) -> Vec<u8> {
    let bytes = |record: &AuditRecord| {
        let mut line = serde_json::to_vec(&Line { seq, dropped, record }).unwrap_or_default();
        line.push(FREE);
        line
    };
    let whole = bytes(record);
    if whole.len() <= LINE_BYTES_MAX { whole } else { bytes(&record.cut()) }
}

/// The log of one store, opened at its first line.
#[derive(Debug, Default)]
pub struct AuditLog {
    open: Option<OpenLog>,
    waiting: VecDeque<AuditRecord>,
    dropped: u64,
}

impl AuditLog {
    /// Adds a line, durably, and before it those that could not be written earlier.
    ///
    /// # Errors
    /// What the disk answered. The line is kept, and written before the next one.
    pub async fn note<D: Disk>(&mut self, disk: &D, bytes: u64, record: AuditRecord) -> Result<(), DiskError> {
        if self.waiting.len() == WAITING_MAX {
            self.waiting.pop_front();
            self.dropped += 1;
        }
        self.waiting.push_back(record);
        // One that failed is not gone on with: what its files hold is looked at afresh, and the lines are written again.
        let mut open = match self.open.take() {
            Some(open) => open,
            None => OpenLog::open(disk, bytes).await?,
        };
        while let Some(record) = self.waiting.front() {
            open.append(disk, &line(open.seq + 1, self.dropped, record)).await?;
            open.seq += 1;
            self.dropped = 0;
            self.waiting.pop_front();
        }
        self.open = Some(open);
        Ok(())
    }
}

/// The files, and where the next line goes.
#[derive(Debug)]
struct OpenLog {
    files: Vec<Kept>,
    current: usize,
    /// Where the next line starts in the current file.
    end: usize,
    /// What stands in the block of the end before it.
    tail: Vec<u8>,
    /// The number of the last line.
    seq: u64,
}

/// A file of whole blocks.
#[derive(Debug)]
struct Kept {
    file: File,
    bytes: usize,
}

impl OpenLog {
    async fn open<D: Disk>(disk: &D, bytes: u64) -> Result<OpenLog, DiskError> {
        let directory = directory(disk).await?;
        let mut log = OpenLog { files: Vec::new(), current: 0, end: 0, tail: Vec::new(), seq: 0 };
        for (number, name) in FILES.into_iter().enumerate() {
            let (kept, content) = keep(disk, &directory, name, bytes as usize / FILES.len()).await?;
            let seq = last_seq(&content);
            log.files.push(kept);
            if seq > log.seq || number == 0 {
                // Behind a line that was torn its own line feed may be missing.
                let end = content.iter().rposition(|byte| *byte != FREE).map_or(0, |last| last + 2);
                let end = end.min(content.len());
                (log.current, log.end, log.seq) = (number, end, seq);
                log.tail = content.get(end - end % BLOCK..end).unwrap_or_default().to_vec();
            }
        }
        // Without it the files could vanish behind lines that were acknowledged.
        transfer::sync_directory(disk, &directory).await?;
        Ok(log)
    }

    #[expect(clippy::indexing_slicing, reason = "the current file and the next one are among the files")]
    async fn append<D: Disk>(&mut self, disk: &D, line: &[u8]) -> Result<(), DiskError> {
        if self.end + line.len() > self.files[self.current].bytes {
            let oldest = (self.current + 1) % self.files.len();
            let Kept { file, bytes } = &self.files[oldest];
            // Cleared durably first: old lines behind new ones would be taken for the end of the log.
            write_whole(disk, file, &vec![FREE; *bytes]).await?;
            (self.current, self.end, self.tail) = (oldest, 0, Vec::new());
        }
        let start = self.end - self.tail.len();
        let mut block = [self.tail.as_slice(), line].concat();
        let filled = block.len();
        block.resize(filled.next_multiple_of(BLOCK), FREE);
        let buffer = transfer::buffer_of(disk, &block).await;
        // Durable before the change is answered: whoever is told of a change finds its line.
        transfer::write(disk, &self.files[self.current].file, buffer, Position(start as u64), true).await.1?;
        self.end += line.len();
        block.truncate(filled);
        self.tail = block.split_off(filled - filled % BLOCK);
        Ok(())
    }
}

#[expect(clippy::expect_used, reason = "the store's own names")]
fn plain(name: &str) -> Name {
    Name::new(name).expect("the store's own names are plain")
}

async fn directory<D: Disk>(disk: &D) -> Result<Directory, DiskError> {
    transfer::open_or_create_directory(disk, &disk.root(), &plain(layout::AUDIT_DIRECTORY)).await
}

/// A file of at least so many bytes, and what stands in it. One that is missing or was not made to its end is made whole.
async fn keep<D: Disk>(
    disk: &D,
    directory: &Directory,
    name: &str,
    bytes: usize,
) -> Result<(Kept, Vec<u8>), DiskError> {
    let name = plain(name);
    let file = match transfer::open(disk, directory, &name, OpenFile::Existing, Access::Auto).await {
        Err(error) if error.is_absent() => transfer::open(disk, directory, &name, OpenFile::New, Access::Auto).await?,
        opened => opened?,
    };
    let mut content = read_whole(disk, &file).await?;
    let bytes = bytes.max(content.len().next_multiple_of(BLOCK));
    if content.len() < bytes || content.contains(&0) {
        content.resize(bytes, FREE);
        content.iter_mut().filter(|byte| **byte == 0).for_each(|byte| *byte = FREE);
        transfer::allocate(disk, &file, bytes as u64).await?;
        write_whole(disk, &file, &content).await?;
    }
    Ok((Kept { file, bytes }, content))
}

async fn read_whole<D: Disk>(disk: &D, file: &File) -> Result<Vec<u8>, DiskError> {
    let mut content = Vec::new();
    loop {
        let buffer = transfer::take_buffer(disk, PIECE).await;
        let (buffer, got) = transfer::read(disk, file, buffer, Position(content.len() as u64)).await;
        let got = got?;
        content.extend_from_slice(buffer.get(..got).unwrap_or_default());
        if got < PIECE || content.len() >= FILE_BYTES_MAX {
            return Ok(content);
        }
    }
}

/// Writes a file of whole blocks from its start, and syncs it.
async fn write_whole<D: Disk>(disk: &D, file: &File, content: &[u8]) -> Result<(), DiskError> {
    for (number, piece) in content.chunks(PIECE).enumerate() {
        let buffer = transfer::buffer_of(disk, piece).await;
        transfer::write(disk, file, buffer, Position((number * PIECE) as u64), false).await.1?;
    }
    transfer::sync(disk, file).await
}

/// The largest number of a line; 0 without one. A line that is no line of ours, as a torn one, says nothing.
fn last_seq(content: &[u8]) -> u64 {
    // From the end: the numbers grow from line to line, and a shard that has others to serve reads this.
    let mut lines = content.rsplit(|byte| *byte == FREE).filter(|line| !line.is_empty());
    let ours = |line: &[u8]| serde_json::from_slice::<Numbered>(line).ok().filter(|line| line.seq < SEQ_MAX);
    lines.find_map(ours).map_or(0, |line| line.seq)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::FieldValue;
    use strandline_disk::Errno;
    use strandline_disk::sim::{Fault, Loss, SimDisk, SimWorld, Times, What, When, drive};

    const BYTES: u64 = 64 << 10;

    fn record(actor: &str) -> AuditRecord {
        AuditRecord { event: "policy_defined", actor: actor.to_owned(), outcome: "done", ..AuditRecord::default() }
    }

    fn note(disk: &SimDisk, log: &mut AuditLog, record: AuditRecord) -> Result<(), DiskError> {
        drive(disk, Box::pin(log.note(disk, BYTES, record)))
    }

    /// The actors of all lines, in the order of their numbers.
    fn actors(world: &SimWorld) -> Vec<(u64, String)> {
        let mut lines = Vec::new();
        for name in FILES {
            let content = world.read_file(&format!("audit/{name}")).unwrap_or_default();
            assert!(!content.contains(&0), "readers of lines meet no zeros");
            for line in content.split(|byte| *byte == FREE).filter(|line| !line.is_empty()) {
                let line: serde_json::Value = serde_json::from_slice(line).expect("a line of JSON");
                lines.push((
                    line["seq"].as_u64().expect("a number"),
                    line["actor"].as_str().expect("a text").to_owned(),
                ));
            }
        }
        lines.sort();
        lines
    }

    #[test]
    fn lines_are_kept_over_restarts_and_the_oldest_file_makes_room() {
        let world = SimWorld::new(1);
        for life in 0..6_u64 {
            let disk = world.open();
            let mut log = AuditLog::default();
            for number in 0..100 {
                // Lines of about 300 bytes: a file of 16 KiB takes some 54 of them.
                let actor = format!("{life}-{number}-{}", "x".repeat(220));
                note(&disk, &mut log, record(&actor)).expect("written");
            }
            drop(disk);
            world.power_failure(Loss::DropAll);
        }
        let lines = actors(&world);
        let numbers: Vec<u64> = lines.iter().map(|(seq, _)| *seq).collect();
        let first = numbers[0];
        assert_eq!(numbers, (first..=600).collect::<Vec<_>>(), "none is missing in the middle");
        assert!(numbers.len() > 150, "three whole files at least");
        assert!(lines.last().expect("lines").1.starts_with("5-99-"));
        assert!(world.files().iter().all(|(_, length)| *length == BYTES / 4));
    }

    #[test]
    fn a_full_disk_does_not_stop_a_log_that_was_made() {
        let world = SimWorld::new(2);
        let disk = world.open();
        let mut log = AuditLog::default();
        note(&disk, &mut log, record("first")).expect("made");
        world.inject(Fault {
            when: When::Verb(strandline_disk::Verb::Allocate),
            what: What::Errno(Errno::NOSPC),
            times: Times::Forever,
        });
        for number in 0..1_000 {
            note(&disk, &mut log, record(&format!("{number}"))).expect("no new blocks are needed");
        }
    }

    #[test]
    fn a_line_that_failed_is_written_before_the_next_one_and_twice_at_most() {
        for k in 1..60 {
            let world = SimWorld::new(k);
            let disk = world.open();
            let mut log = AuditLog::default();
            note(&disk, &mut log, record("a")).expect("made");
            drop(disk);
            let disk = world.open();
            let mut log = AuditLog::default();
            world.inject(Fault { when: When::KthOperation(k), what: What::Errno(Errno::IO), times: Times::Once });
            let told: Vec<bool> =
                ["b", "c", "d"].into_iter().map(|actor| note(&disk, &mut log, record(actor)).is_ok()).collect();
            world.clear_faults();
            note(&disk, &mut log, record("e")).expect("the fault is over");
            assert!(told.iter().filter(|told| !**told).count() <= 1, "operation {k}: {told:?}");
            drop(disk);
            world.power_failure(Loss::DropAll);
            let mut found: Vec<String> = actors(&world).into_iter().map(|(_, actor)| actor).collect();
            found.dedup();
            assert_eq!(found, ["a", "b", "c", "d", "e"], "operation {k}");
        }
    }

    #[test]
    fn a_torn_line_harms_no_other() {
        let world = SimWorld::new(3);
        let disk = world.open();
        let mut log = AuditLog::default();
        note(&disk, &mut log, record("whole")).expect("written");
        let mut content = world.read_file("audit/0.jsonl").expect("a file");
        let end = content.iter().position(|byte| *byte == FREE).expect("an end") + 1;
        content[end..end + 9].copy_from_slice(b"{\"seq\":7,");
        content[end + 300..end + 303].copy_from_slice(b"e\"}");
        world.put_file("audit/0.jsonl", &content);
        let mut log = AuditLog::default();
        note(&disk, &mut log, record("after")).expect("written");
        let content = world.read_file("audit/0.jsonl").expect("a file");
        let lines: Vec<&[u8]> = content.split(|byte| *byte == FREE).filter(|line| !line.is_empty()).collect();
        assert_eq!(lines.len(), 4);
        assert!(lines[3].starts_with(b"{\"seq\":2,"), "a number that nobody was given is not taken for one");
    }

    #[test]
    fn a_line_is_never_longer_than_it_may_be() {
        let long = "\u{1}".repeat(100_000);
        let fields =
            (0..200).fold(Fields::new(), |fields, n| fields.with(format!("{n}"), FieldValue::Text(long.clone())));
        let record = AuditRecord {
            actor: text(&long),
            policy: Some(text(&long)),
            topic: Some(text(&long)),
            reason: Some(text(&long)),
            fields: Some(fields),
            ..record("")
        };
        let line = line(u64::MAX, u64::MAX, &record);
        assert!(line.len() <= LINE_BYTES_MAX, "{} bytes", line.len());
        assert!(serde_json::from_slice::<Numbered>(&line).is_ok());
    }
}
