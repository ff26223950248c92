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

#[cfg(test)]
mod tests {
    use super::*;

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
