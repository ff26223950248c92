//! The checksum of everything on disk: CRC32C, whole or piece by piece.
//!
//! It finds accidents; it does not stop a forger.

/// The CRC32C of `bytes`.
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}

/// A CRC32C in the making: the pieces may be cut anywhere, the sum is that of all of them together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checksum(u32);

impl Checksum {
    /// The checksum of nothing.
    #[must_use]
    pub fn new() -> Checksum {
        Checksum(0)
    }

    /// This checksum, with `bytes` behind what it covers already.
    #[must_use]
    pub fn with(self, bytes: &[u8]) -> Checksum {
        Checksum(crc32c::crc32c_append(self.0, bytes))
    }

    /// The number that is written.
    #[must_use]
    pub fn get(self) -> u32 {
        self.0
    }
}

/// How far apart the sums of [`Sums`] stand, in bytes.
const SUM_EVERY: usize = 8;

/// The checksums of all beginnings of some bytes, from which that of any part of them follows without another look at it: bytes that claim to be
/// many overlapping things take no longer for it.
#[derive(Clone, Debug)]
pub struct Sums<'bytes> {
    bytes: &'bytes [u8],
    beginnings: Vec<u32>,
}

impl<'bytes> Sums<'bytes> {
    /// Of these bytes: they are looked at once. Takes half as much memory as they do.
    #[must_use]
    pub fn of(bytes: &'bytes [u8]) -> Sums<'bytes> {
        let mut sum = Checksum::new();
        let first = std::iter::once(sum.get());
        let beginnings = first.chain(bytes.chunks_exact(SUM_EVERY).map(|piece| {
            sum = sum.with(piece);
            sum.get()
        }));
        Sums { bytes, beginnings: beginnings.collect() }
    }

    /// The checksum of a part that begins at a multiple of 8; nothing for one that is not among the bytes.
    #[must_use]
    pub fn part(&self, start: usize, length: usize) -> Option<Checksum> {
        let end = start.checked_add(length).filter(|_| start.is_multiple_of(SUM_EVERY))?;
        let whole = self.bytes.get(..end)?;
        let before = *self.beginnings.get(start / SUM_EVERY)?;
        let up_to = *self.beginnings.get(end / SUM_EVERY)?;
        let sum = Checksum(up_to).with(whole.chunks_exact(SUM_EVERY).remainder());
        // The sum of two parts is that of the first, moved on by the length of the second, and that of the second.
        Some(Checksum(sum.get() ^ crc32c::crc32c_combine(before, 0, length)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_of_any_part_follows_from_those_of_the_beginnings() {
        let bytes: Vec<u8> = (0..=255).chain(0..77).collect();
        let sums = Sums::of(&bytes);
        for start in (0..=bytes.len()).step_by(8) {
            for length in 0..=bytes.len() - start {
                let sum = sums.part(start, length).map(Checksum::get);
                assert_eq!(sum, Some(crc32c(&bytes[start..start + length])), "{start}, {length}");
            }
            assert_eq!(sums.part(start, bytes.len() - start + 1), None);
        }
        assert_eq!((sums.part(3, 1), sums.part(8, usize::MAX)), (None, None));
    }

    #[test]
    fn it_is_castagnoli() {
        // The check value of CRC-32C, and the vector of 32 zeros from RFC 3720, appendix B.4.
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(b""), 0);
    }

    #[test]
    fn pieces_sum_up_to_the_whole_wherever_they_are_cut() {
        let bytes: Vec<u8> = (0..=255).collect();
        for cut in 0..=bytes.len() {
            let (head, tail) = bytes.split_at(cut);
            assert_eq!(Checksum::new().with(head).with(tail).get(), crc32c(&bytes), "cut at {cut}");
        }
    }
}
