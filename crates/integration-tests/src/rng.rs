//! Random choices of the tests, from one seed that is printed so that a run can be reproduced.

use std::time::{Duration, Instant};

use cleveragents_ports::Ids;
use cleveragents_ports::system::SystemIds;

/// A splitmix64 sequence: small, and good enough to pick moments.
#[derive(Debug)]
pub struct RaceRng(u64);

impl RaceRng {
    /// A sequence with a fresh seed.
    pub fn new() -> Self {
        let ulid = u128::from(SystemIds.next());
        Self((ulid & u128::from(u64::MAX)) as u64)
    }

    /// A number below `end`; 0 if `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        mixed.checked_rem(end).unwrap_or(0)
    }

    /// Spins for a random part of `most`, to hit an unpredictable moment.
    pub fn spin_randomly(&mut self, most: Duration) {
        let started = Instant::now();
        let micros = u64::try_from(most.as_micros()).unwrap_or(u64::MAX);
        let span = Duration::from_micros(self.below(micros));
        while started.elapsed() < span {
            std::hint::spin_loop();
        }
    }
}

impl Default for RaceRng {
    fn default() -> Self {
        Self::new()
    }
}
