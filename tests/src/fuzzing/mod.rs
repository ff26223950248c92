//! What is fuzzed: every decoder of bytes that come from a disk, each with a body that takes any bytes and asserts what must hold.
//!
//! A body reads its bytes as they are, and once more with their checksums made right, since a checksum stops nearly every input. It knows
//! of no fuzzer: `cargo test` runs all of them over the saved corpus and over random changes of it (`tests/tests/fuzzing`), the
//! crate in `tests/fuzz` runs each for as long as one likes.

pub mod audit;
pub mod batch;
pub mod frame;
pub mod index;
pub mod manifest;
pub mod marker;
pub mod mutation;
pub mod names;
pub mod policies;
pub mod recovery;
pub mod scan;
pub mod segment;
pub mod sign;

use strandline::id::{StoreId, Uid};
use strandline_disk::Position;

/// The store, the file and the place that every input claims to come from: those of the golden files.
const STORE: StoreId = StoreId(0x1112_1314_1516_1718_191a_1b1c_1d1e_1f20);
const UID: Uid = Uid(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10);
const AT: Position = Position(0x1_0000_1008);

/// A body and how it is called.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The name of its corpus and of its program.
    pub name: &'static str,
    /// The body. It panics where something does not hold.
    pub check: fn(&[u8]),
    /// The most bytes that it may ask for at once, beside [`BYTES_PER_BYTE`] for each byte of its input.
    pub bytes_max: usize,
}

/// How much memory a byte of an input may justify: an empty edit of five bytes becomes a value of some two hundred.
pub const BYTES_PER_BYTE: usize = 64;

/// The longest input that a body looks at, in bytes. A longer one is cut.
pub const INPUT_BYTES_MAX: usize = 128 << 10;

/// All of them.
pub const TARGETS: [Target; 11] = [
    // A payload may have been as long as this before it was packed.
    Target { name: "batch", check: batch::check, bytes_max: 64 << 20 },
    Target { name: "scan", check: scan::check, bytes_max: 64 << 10 },
    // The simulated disk has a pool of this size.
    Target { name: "recovery", check: recovery::check, bytes_max: 2 << 20 },
    Target { name: "index", check: index::check, bytes_max: 64 << 10 },
    Target { name: "segment", check: segment::check, bytes_max: 64 << 10 },
    Target { name: "frame", check: frame::check, bytes_max: 64 << 10 },
    Target { name: "manifest", check: manifest::check, bytes_max: 256 << 10 },
    Target { name: "marker", check: marker::check, bytes_max: 64 << 10 },
    Target { name: "names", check: names::check, bytes_max: 64 << 10 },
    Target { name: "policies", check: policies::check, bytes_max: 64 << 10 },
    Target { name: "audit", check: audit::check, bytes_max: 2 << 20 },
];

/// No more of an input than is looked at.
fn cut(bytes: &[u8]) -> &[u8] {
    bytes.get(..INPUT_BYTES_MAX).unwrap_or(bytes)
}

/// The first `N` bytes of an input, which choose what is done with the others; zeros where there are fewer.
fn choices<const N: usize>(bytes: &[u8]) -> ([u8; N], &[u8]) {
    match bytes.split_first_chunk::<N>() {
        Some((choices, rest)) => (*choices, rest),
        None => ([0; N], &[]),
    }
}
