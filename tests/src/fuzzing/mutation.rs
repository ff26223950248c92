//! Random changes of an input, as far as they need no fuzzer: what every run of the tests does with the corpus.

use crate::harness::Random;

/// Numbers at which things go wrong.
const NUMBERS: [u64; 12] =
    [0, 1, 7, 8, 127, 4096, 0xffff, 1 << 20, 64 << 20, u32::MAX as u64, i64::MAX as u64, u64::MAX];

/// The longest stretch that is taken out, put in or doubled.
const STRETCH: usize = 200;

/// A few changes of `input`, some of them with bytes of `other`.
#[must_use]
pub fn mutated(random: &mut Random, input: &[u8], other: &[u8]) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for _ in 0..=random.below(4) {
        change(random, &mut bytes, other);
    }
    bytes
}

fn change(random: &mut Random, bytes: &mut Vec<u8>, other: &[u8]) {
    let at = random.below(bytes.len());
    let to = (at + 1 + random.below(STRETCH)).min(bytes.len());
    match random.below(9) {
        _ if bytes.is_empty() => bytes.push(random.bits() as u8),
        0 | 1 => bytes[at] ^= 1 << random.below(8),
        2 => bytes[at] = random.bits() as u8,
        3 | 4 => {
            let width = random.pick(&[1, 2, 4, 8]);
            let number = random.pick(&NUMBERS).wrapping_add(random.below(3) as u64).wrapping_sub(1).to_le_bytes();
            // Fields stand at even places, mostly.
            let at = at & !1;
            bytes[at..].iter_mut().zip(&number[..width]).for_each(|(byte, new)| *byte = *new);
        }
        5 => drop(bytes.drain(at..to)),
        6 => {
            let again = bytes[at..to].to_vec();
            bytes.splice(to..to, again);
        }
        7 => bytes.truncate(at),
        _ => {
            let from = random.below(other.len());
            let stretch = &other[from..(from + STRETCH).min(other.len())];
            bytes.splice(at..at, stretch.iter().copied());
        }
    }
}
