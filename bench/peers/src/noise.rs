//! Values for records: bytes that neither a drive nor a host can compress or share, from a fixed seed.

/// `length` bytes, the same for the same length.
pub fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64 ^ length as u64;
    let step = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    std::iter::repeat_with(step).take(length).collect()
}
