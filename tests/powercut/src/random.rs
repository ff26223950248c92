//! Numbers that a seed decides.

/// SplitMix64: small, and good enough to choose with.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The numbers of this seed, and of this use of it.
    pub fn new(seed: u64, salt: u64) -> Random {
        let mut random = Random(seed ^ salt.wrapping_mul(0xd134_2543_de82_ef95));
        random.next();
        random
    }

    /// The next one.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// One below `limit`, which must not be 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// True once in `times`.
    pub fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// One of these.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}
