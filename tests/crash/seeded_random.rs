//! Reproducible random choices.

/// Xorshift64* generator.
pub(crate) struct SeededRandom(u64);

impl SeededRandom {
    /// Creates a generator for one purpose from the run's seed.
    pub(crate) fn new(seed: u64, what: u64) -> Self {
        let mixed = (seed ^ 0x9E37_79B9_7F4A_7C15)
            .wrapping_mul(0xBF58_476D_1CE4_E5B9)
            .wrapping_add(what.wrapping_mul(0x94D0_49BB_1331_11EB));
        let mut random = Self(mixed | 1);
        random.roll(2);
        random
    }

    /// A number from 0 to `sides` - 1.
    pub(crate) fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let rolled = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33;
        usize::try_from(rolled).unwrap() % sides.max(1)
    }

    pub(crate) fn one_of<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.roll(from.len())]
    }

    /// True with a probability of 1 / `times`.
    pub(crate) fn once_in(&mut self, times: usize) -> bool {
        self.roll(times) == 0
    }
}
