//! A single-threaded breaker, written independently of the shipped one and as simply as possible,
//! and the outcomes it implies for concurrent callers.

use std::collections::{BTreeSet, HashSet, VecDeque};

use super::script::{BreakerAnswer, BreakerCall, ReferenceSnapshot, ReferenceState, THRESHOLD};

/// One circuit and the permits of all callers, oldest first, each identified by its era.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ReferenceBreaker {
    cool_down: i64,
    snapshot: ReferenceSnapshot,
    era: u64,
    probe: ReferenceProbe,
    permits: Vec<VecDeque<u64>>,
}

/// Whether the probe of this era is in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum ReferenceProbe {
    InFlight,
    Idle,
}

/// The answers to every caller, and the final state of the circuit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BreakerOutcome {
    pub answers: Vec<Vec<BreakerAnswer>>,
    pub end: ReferenceSnapshot,
}

impl ReferenceBreaker {
    pub fn new(cool_down: i64, callers: usize) -> Self {
        Self {
            cool_down,
            snapshot: ReferenceSnapshot {
                state: ReferenceState::Closed,
                consecutive: 0,
                successes: 0,
                failures: 0,
                trips: 0,
            },
            era: 0,
            probe: ReferenceProbe::Idle,
            permits: vec![VecDeque::new(); callers],
        }
    }

    pub fn snapshot(&self) -> ReferenceSnapshot {
        self.snapshot
    }

    pub fn perform(&mut self, caller: usize, verb: BreakerCall) -> BreakerAnswer {
        match verb {
            BreakerCall::Admit(now) => self.admit(caller, now),
            BreakerCall::Success(_) => match self.permits[caller].pop_front() {
                None => BreakerAnswer::NoPermit,
                Some(era) => {
                    self.snapshot.successes += 1;
                    if era == self.era {
                        self.close();
                    }
                    BreakerAnswer::Done
                }
            },
            BreakerCall::Failure(now) => match self.permits[caller].pop_front() {
                None => BreakerAnswer::NoPermit,
                Some(era) if era == self.era => self.failure(now),
                Some(_) => {
                    self.snapshot.failures += 1;
                    BreakerAnswer::Counted(self.snapshot.consecutive)
                }
            },
            BreakerCall::Drop => match self.permits[caller].pop_front() {
                None => BreakerAnswer::NoPermit,
                Some(era) => {
                    if era == self.era {
                        self.probe = ReferenceProbe::Idle;
                    }
                    BreakerAnswer::Done
                }
            },
            BreakerCall::RecordSuccess(_) => {
                self.snapshot.successes += 1;
                self.close();
                BreakerAnswer::Done
            }
            BreakerCall::RecordFailure(now) => self.failure(now),
            BreakerCall::IsOpen(now) => BreakerAnswer::IsOpen(match self.snapshot.state {
                ReferenceState::Closed => false,
                ReferenceState::Open { until } => now < until,
                ReferenceState::HalfOpen => self.probe == ReferenceProbe::InFlight,
            }),
            BreakerCall::Reset(_) => {
                self.snapshot.consecutive = 0;
                self.snapshot.state = ReferenceState::Closed;
                self.start_era();
                BreakerAnswer::Done
            }
        }
    }

    fn admit(&mut self, caller: usize, now: i64) -> BreakerAnswer {
        let wait = now + self.cool_down;
        if let ReferenceState::Open { until } = self.snapshot.state {
            if now < until {
                let until = until.min(wait);
                self.snapshot.state = ReferenceState::Open { until };
                return BreakerAnswer::Open { until };
            }
            self.snapshot.state = ReferenceState::HalfOpen;
            self.start_era();
        }
        if self.probe == ReferenceProbe::InFlight {
            return BreakerAnswer::Open { until: wait };
        }
        if self.snapshot.state == ReferenceState::HalfOpen {
            self.probe = ReferenceProbe::InFlight;
        }
        self.permits[caller].push_back(self.era);
        BreakerAnswer::Permit
    }

    fn failure(&mut self, now: i64) -> BreakerAnswer {
        self.snapshot.failures += 1;
        self.snapshot.consecutive += 1;
        let still_open =
            matches!(self.snapshot.state, ReferenceState::Open { until } if now < until);
        if still_open || self.snapshot.consecutive < u64::from(THRESHOLD.get()) {
            return BreakerAnswer::Counted(self.snapshot.consecutive);
        }
        self.snapshot.trips += 1;
        self.snapshot.state = ReferenceState::Open {
            until: now + self.cool_down,
        };
        self.start_era();
        BreakerAnswer::Tripped
    }

    fn close(&mut self) {
        self.snapshot.consecutive = 0;
        if self.snapshot.state != ReferenceState::Closed {
            self.snapshot.state = ReferenceState::Closed;
            self.start_era();
        }
    }

    fn start_era(&mut self) {
        self.era += 1;
        self.probe = ReferenceProbe::Idle;
    }

    /// Returns every possible outcome of the callers' scripts, over all interleavings of calls.
    pub fn outcomes(&self, scripts: &[Vec<BreakerCall>]) -> BTreeSet<BreakerOutcome> {
        let mut found = BTreeSet::new();
        let mut answers = vec![Vec::new(); scripts.len()];
        self.collect_outcomes(scripts, &mut answers, &mut found);
        found
    }

    fn collect_outcomes(
        &self,
        scripts: &[Vec<BreakerCall>],
        answers: &mut Vec<Vec<BreakerAnswer>>,
        found: &mut BTreeSet<BreakerOutcome>,
    ) {
        let mut at_end = true;
        for (caller, script) in scripts.iter().enumerate() {
            let Some(verb) = script.get(answers[caller].len()) else {
                continue;
            };
            at_end = false;
            let mut next = self.clone();
            answers[caller].push(next.perform(caller, *verb));
            next.collect_outcomes(scripts, answers, found);
            answers[caller].pop();
        }
        if at_end {
            found.insert(BreakerOutcome {
                answers: answers.clone(),
                end: self.snapshot,
            });
        }
    }

    /// Returns whether some interleaving of the callers' calls explains the outcome.
    pub fn explains(&self, scripts: &[Vec<BreakerCall>], outcome: &BreakerOutcome) -> bool {
        let mut seen = HashSet::new();
        let mut waiting = vec![(vec![0; scripts.len()], self.clone())];
        while let Some((places, reference)) = waiting.pop() {
            let mut at_end = true;
            for (caller, script) in scripts.iter().enumerate() {
                let place: usize = places[caller];
                let Some(verb) = script.get(place) else {
                    continue;
                };
                at_end = false;
                let mut next = reference.clone();
                if next.perform(caller, *verb) == outcome.answers[caller][place] {
                    let mut places = places.clone();
                    places[caller] += 1;
                    if seen.insert((places.clone(), next.clone())) {
                        waiting.push((places, next));
                    }
                }
            }
            if at_end && reference.snapshot == outcome.end {
                return true;
            }
        }
        false
    }
}
