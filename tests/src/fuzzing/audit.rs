//! The audit log: whatever its files hold, the next line is the newest.

use super::{choices, cut};
use strandline::audit::{AuditLog, AuditRecord};
use strandline_disk::sim::{SimWorld, drive};

/// The size of the log, in bytes.
const BYTES: u64 = 64 << 10;

const FILES: [&str; 4] = ["audit/0.jsonl", "audit/1.jsonl", "audit/2.jsonl", "audit/3.jsonl"];

#[derive(serde::Deserialize)]
struct Read {
    seq: u64,
    #[serde(default)]
    actor: Option<String>,
}

/// Two bytes that choose which of the files are there, then what stands in them.
pub fn check(bytes: &[u8]) {
    let ([present, at], content) = choices::<2>(cut(bytes));
    let (one, other) = content.split_at(content.len() * usize::from(at) / 256);
    let world = SimWorld::new(1);
    world.set_pool_bytes(1 << 20);
    for (number, file) in FILES.into_iter().enumerate().filter(|(number, _)| present & 1 << number == 0) {
        world.put_file(file, if (present >> 4) as usize & 3 == number { one } else { other });
    }
    let disk = world.open();
    let mut log = AuditLog::default();
    for actor in ["first", "second"] {
        let record =
            AuditRecord { actor: actor.to_owned(), event: "fuzzed", outcome: "done", ..AuditRecord::default() };
        drive(&disk, log.note(&disk, BYTES, record)).expect("the disk takes it");
        assert_eq!(newest(&world).as_deref(), Some(actor), "what was noted last has the largest number");
    }
    let mut log = AuditLog::default();
    let record = AuditRecord { actor: "third".to_owned(), ..AuditRecord::default() };
    drive(&disk, log.note(&disk, BYTES, record)).expect("the disk takes it");
    assert_eq!(newest(&world).as_deref(), Some("third"), "also after the log was opened again");
}

/// Who stands in the line with the largest number, of the last good lines of the files: within one they grow. A number that no reader of
/// JSON keeps exactly says nothing.
fn newest(world: &SimWorld) -> Option<String> {
    let last = |file| {
        let content = world.read_file(file).expect("all of them are there now");
        let lines = content.rsplit(|byte| *byte == b'\n');
        let mut good = lines.filter_map(|line| serde_json::from_slice::<Read>(line).ok());
        good.find(|read| read.seq < 1 << 53)
    };
    let newest = FILES.into_iter().filter_map(last).max_by_key(|read| read.seq)?;
    newest.actor
}
