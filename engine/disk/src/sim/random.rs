//! The generator that every choice of the simulation is drawn from: splitmix64. It must never read a clock or an address.

/// A seeded stream of numbers.
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `limit`, or 0 when `limit` is 0. The bias of the multiplication is far below what a test could see.
    pub(super) fn below(&mut self, limit: usize) -> usize {
        ((u128::from(self.next()) * limit as u128) >> 64) as usize
    }

    /// True `hits` times of `of`.
    pub(super) fn chance(&mut self, hits: usize, of: usize) -> bool {
        self.below(of) < hits
    }

    /// A stream of its own that depends on this one.
    pub(super) fn fork(&mut self) -> Random {
        Random(self.next())
    }
}

/// The finaliser of splitmix64: every input bit reaches every output bit.
pub(super) fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}
