//! What recovery makes of a segment's file, whatever the manifest says of it and whatever stands in it.

use super::{INPUT_BYTES_MAX, UID, choices, cut, sign};
use strandline::format::batch::HEADER_BYTES;
use strandline::format::segment::DATA_START;
use strandline::id::{Cut, Epoch, Offset};
use strandline::segment::survey::{self, Expected, Survey};
use strandline_disk::sim::{SimDisk, SimWorld, drive};
use strandline_disk::{Access, BLOCK, Disk, File, Name, OpenFile, Position, transfer};

/// The simulated disk's buffers, in bytes.
const POOL_BYTES: usize = 1 << 20;

/// Sixteen bytes that say what the manifest says, then what stands in the file from its first batch on.
pub fn check(bytes: &[u8]) {
    let (said, file) = choices::<16>(cut(bytes));
    let mut content = vec![0; BLOCK];
    content.extend_from_slice(file);
    look(&content, &expected(said, content.len()));
    sign::batches(&mut content[BLOCK..], UID, DATA_START, |batch| batch == usize::from(said[15]) % 32);
    look(&content, &expected(said, content.len()));
}

/// What the manifest may say: numbers that fit a file of this length, and any others.
fn expected(said: [u8; 16], length: usize) -> Expected {
    let number =
        |at: usize| u64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|byte| said.get(at + byte).copied().unwrap_or(0)));
    let blocks = length.div_ceil(BLOCK) as u64;
    let small = |byte: u8| u64::from(byte >> 2);
    let is = |byte: usize, bit: u8| said[byte] & 1 << bit != 0;
    let size = if is(0, 0) { (blocks + 2 + small(said[1])) * BLOCK as u64 } else { number(1) << (said[1] % 40) };
    let look_ahead = if is(0, 1) { small(said[2]) * BLOCK as u64 } else { number(2) };
    let base = Offset(if is(0, 2) { small(said[3]) } else { number(3) });
    let end = is(0, 3).then(|| Offset(if is(0, 4) { base.0.saturating_add(u64::from(said[4])) } else { number(4) }));
    let cut = is(0, 5).then(|| Cut { end: base.plus(u64::from(said[5])), epoch: Epoch(small(said[6])) });
    Expected { uid: UID, base, end, size, look_ahead, cut }
}

/// A disk with one file.
fn disk_of(content: &[u8]) -> (SimDisk, File) {
    let world = SimWorld::new(1);
    world.set_pool_bytes(POOL_BYTES);
    world.put_file("data", content);
    let disk = world.open();
    let name = Name::new("data").expect("a plain name");
    let root = disk.root();
    let file = drive(&disk, transfer::open(&disk, &root, &name, OpenFile::Existing, Access::Auto));
    (disk, file.expect("the file is there"))
}

fn look(content: &[u8], expected: &Expected) {
    let (disk, file) = disk_of(content);
    let before = disk.world().operations();
    let survey = drive(&disk, survey::survey(&disk, &file, expected)).expect("the disk answers");
    let reads = disk.world().operations() - before;
    within(&survey, content.len() as u64, expected);
    // At most: the walk, its windows and what lies behind the end, each of which goes over the file a few times.
    let most = 64 + 16 * (content.len() / BLOCK) as u64;
    assert!(reads <= most, "{reads} reads of a file of {} bytes, {} damages", content.len(), survey.damage.len());
    let first = drive(&disk, survey::first_batch(&disk, &file, UID, expected.look_ahead)).expect("the disk answers");
    if let Some((position, header, _)) = first {
        assert!(position >= DATA_START && position.plus(header.total_length()).0 <= padded(content.len() as u64));
    }
}

/// Where the last batch of a file may end whose last bytes are missing: padding is not looked at.
fn padded(length: u64) -> u64 {
    length.next_multiple_of(8)
}

/// Every position that is reported lies in the file, and every number agrees with the others.
fn within(survey: &Survey, length: u64, expected: &Expected) {
    let end = padded(length);
    assert!(survey.end >= DATA_START && survey.end.0 <= end.max(DATA_START.0), "{} of {length} bytes", survey.end);
    assert!(survey.end_offset >= expected.base);
    assert!(survey.batches as usize <= INPUT_BYTES_MAX / HEADER_BYTES);
    assert!(survey.index.entries().len() as u64 <= survey.batches);
    assert!(survey.index.entries().iter().all(|entry| entry.position < survey.end));
    let mut from = expected.base;
    for damage in &survey.damage {
        assert!(damage.position >= DATA_START && damage.position <= survey.end, "{damage:?}");
        assert!(damage.from >= from && damage.to >= damage.from, "{damage:?}");
        from = damage.to;
    }
    if let Some(torn) = &survey.torn {
        assert!(torn.end > survey.end && torn.end.0 <= end, "{torn:?}");
        assert!(torn.batches <= INPUT_BYTES_MAX / HEADER_BYTES);
    }
    let dropped_to = survey.dropped_to.unwrap_or(survey.end);
    assert!(dropped_to.0 <= Position(expected.size).max(survey.end).0);
    assert_eq!(survey.tail.end(), survey.end);
}
