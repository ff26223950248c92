//! Many operations of all kinds at once.

use crate::support::{make_file, name, on_ring, open_at, options, place, run};
use std::fs;
use std::time::Duration;
use strandline_disk::host::DiskOptions;
use strandline_disk::real::RealDisk;
use strandline_disk::{BLOCK, Directory, Disk, File, InFlight, Operation, Position, Success};

const FILES: usize = 16;
const BLOCKS: usize = 64;

/// What an operation in flight must answer.
enum Expected {
    Done,
    Written,
    /// A read of a block that holds this value throughout.
    Read(u8),
}

/// A small random generator (xorshift): the same seed gives the same load.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

struct Load {
    random: Random,
    root: Directory,
    files: Vec<File>,
    model: Vec<[u8; BLOCKS]>,
    names: u64,
}

impl Load {
    /// Starts a batch larger than the ring, in which no two operations touch the same block or name.
    fn start(&mut self, disk: &RealDisk) -> Vec<(Expected, InFlight)> {
        let mut touched = vec![[false; BLOCKS]; FILES];
        let count = 50 + self.random.below(100);
        (0..count)
            .map(|_| {
                let file = self.random.below(FILES as u64) as usize;
                let block = self.random.below(BLOCKS as u64) as usize;
                let free = !std::mem::replace(&mut touched[file][block], true);
                self.start_one(disk, file, block, free)
            })
            .collect()
    }

    fn start_one(&mut self, disk: &RealDisk, file: usize, block: usize, free: bool) -> (Expected, InFlight) {
        let position = Position((block * BLOCK) as u64);
        let span = 0..BLOCK;
        let kind = self.random.below(8);
        let (expected, operation) = match kind {
            0..=2 if free => {
                let mut buffer = disk.pool().take(BLOCK).expect("room");
                let value = self.random.below(255) as u8 + 1;
                buffer.fill(value);
                self.model[file][block] = value;
                let (file, durable) = (self.files[file].clone(), self.random.below(2) == 0);
                (Expected::Written, Operation::Write { file, buffer, span, position, durable })
            }
            3..=5 if free => {
                let buffer = disk.pool().take(BLOCK).expect("room");
                let expected = Expected::Read(self.model[file][block]);
                (expected, Operation::Read { file: self.files[file].clone(), buffer, span, position })
            }
            6 => {
                self.names += 1;
                let name = name(&format!("d{}", self.names));
                (Expected::Done, Operation::CreateDirectory { directory: self.root.clone(), name })
            }
            _ => {
                let duration = Duration::from_micros(self.random.below(300));
                (Expected::Done, Operation::Sleep { duration })
            }
        };
        (expected, disk.start(operation))
    }
}

#[test]
fn ten_thousand_mixed_operations_answer_each_once() {
    let place = place();
    let disk = open_at(place.path(), &DiskOptions { entries: 8, ..options() });
    let root = disk.root();
    let files = (0..FILES).map(|index| make_file(&disk, &root, &format!("f{index}")).expect("made")).collect();
    let seed = 0x2545_f491_4f6c_dd1d;
    println!("seed {seed:#x}");
    let mut load = Load { random: Random(seed), root, files, model: vec![[0; BLOCKS]; FILES], names: 0 };
    let mut answered = 0;
    while answered < 10_000 {
        for (expected, in_flight) in load.start(&disk) {
            let outcome = run(&disk, in_flight);
            answered += 1;
            match (expected, outcome.result.expect("every operation works")) {
                (Expected::Done, Success::Done) => {}
                (Expected::Written, Success::Moved(moved)) => assert_eq!(moved, BLOCK),
                (Expected::Read(value), Success::Moved(moved)) => {
                    let buffer = outcome.buffer.expect("the buffer");
                    assert!(buffer[..moved].iter().all(|&byte| byte == value), "a read saw another value");
                    assert!(moved == BLOCK || value == 0, "only what was never written may be past the end");
                }
                (_, success) => panic!("an odd answer: {success:?}"),
            }
        }
    }
    assert_eq!(disk.in_flight(), 0);
    let counters = disk.counters();
    // A ring's watch of the doorbell has not completed.
    assert_eq!(counters.submitted(), counters.completed() + u64::from(on_ring(&disk)));
    for (index, blocks) in load.model.iter().enumerate() {
        let bytes = fs::read(place.path().join(format!("f{index}"))).expect("there");
        for (block, piece) in bytes.chunks(BLOCK).enumerate() {
            assert!(piece.iter().all(|&byte| byte == blocks[block]), "file {index} block {block}");
        }
    }
}
