//! The breaker without threads, written apart from the shipped one and in the plainest way, and
//! what follows from it for many callers.

use std::collections::{BTreeSet, HashSet, VecDeque};

use super::script::{Answer, Standing, State, THRESHOLD, Verb};

/// One circuit and the permits of all callers, oldest first, each known by its era.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Reference {
    cool_down: i64,
    standing: Standing,
    era: u64,
    probe: Probe,
    permits: Vec<VecDeque<u64>>,
}

/// Whether the probe of this era is out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Probe {
    Out,
    Home,
}

/// What every caller was answered, and how the circuit stood in the end.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Outcome {
    pub answers: Vec<Vec<Answer>>,
    pub end: Standing,
}

impl Reference {
    pub fn new(cool_down: i64, callers: usize) -> Self {
        Self {
            cool_down,
            standing: Standing {
                state: State::Closed,
                consecutive: 0,
                successes: 0,
                failures: 0,
                trips: 0,
            },
            era: 0,
            probe: Probe::Home,
            permits: vec![VecDeque::new(); callers],
        }
    }

    pub fn standing(&self) -> Standing {
        self.standing
    }

    pub fn play(&mut self, caller: usize, verb: Verb) -> Answer {
        match verb {
            Verb::Admit(now) => self.admit(caller, now),
            Verb::Success(_) => match self.permits[caller].pop_front() {
                None => Answer::NoPermit,
                Some(era) => {
                    self.standing.successes += 1;
                    if era == self.era {
                        self.close();
                    }
                    Answer::Done
                }
            },
            Verb::Failure(now) => match self.permits[caller].pop_front() {
                None => Answer::NoPermit,
                Some(era) if era == self.era => self.failure(now),
                Some(_) => {
                    self.standing.failures += 1;
                    Answer::Counted(self.standing.consecutive)
                }
            },
            Verb::Drop => match self.permits[caller].pop_front() {
                None => Answer::NoPermit,
                Some(era) => {
                    if era == self.era {
                        self.probe = Probe::Home;
                    }
                    Answer::Done
                }
            },
            Verb::RecordSuccess(_) => {
                self.standing.successes += 1;
                self.close();
                Answer::Done
            }
            Verb::RecordFailure(now) => self.failure(now),
            Verb::IsOpen(now) => Answer::IsOpen(match self.standing.state {
                State::Closed => false,
                State::Open { until } => now < until,
                State::HalfOpen => self.probe == Probe::Out,
            }),
            Verb::Reset(_) => {
                self.standing.consecutive = 0;
                self.standing.state = State::Closed;
                self.new_era();
                Answer::Done
            }
        }
    }

    fn admit(&mut self, caller: usize, now: i64) -> Answer {
        let wait = now + self.cool_down;
        if let State::Open { until } = self.standing.state {
            if now < until {
                let until = until.min(wait);
                self.standing.state = State::Open { until };
                return Answer::Open { until };
            }
            self.standing.state = State::HalfOpen;
            self.new_era();
        }
        if self.probe == Probe::Out {
            return Answer::Open { until: wait };
        }
        if self.standing.state == State::HalfOpen {
            self.probe = Probe::Out;
        }
        self.permits[caller].push_back(self.era);
        Answer::Permit
    }

    fn failure(&mut self, now: i64) -> Answer {
        self.standing.failures += 1;
        self.standing.consecutive += 1;
        let still_open = matches!(self.standing.state, State::Open { until } if now < until);
        if still_open || self.standing.consecutive < u64::from(THRESHOLD.get()) {
            return Answer::Counted(self.standing.consecutive);
        }
        self.standing.trips += 1;
        self.standing.state = State::Open {
            until: now + self.cool_down,
        };
        self.new_era();
        Answer::Tripped
    }

    fn close(&mut self) {
        self.standing.consecutive = 0;
        if self.standing.state != State::Closed {
            self.standing.state = State::Closed;
            self.new_era();
        }
    }

    fn new_era(&mut self) {
        self.era += 1;
        self.probe = Probe::Home;
    }

    /// Everything that may come of the callers' scripts, one verb after the other in any order.
    pub fn outcomes(&self, scripts: &[Vec<Verb>]) -> BTreeSet<Outcome> {
        let mut found = BTreeSet::new();
        let mut answers = vec![Vec::new(); scripts.len()];
        self.walk(scripts, &mut answers, &mut found);
        found
    }

    fn walk(
        &self,
        scripts: &[Vec<Verb>],
        answers: &mut Vec<Vec<Answer>>,
        found: &mut BTreeSet<Outcome>,
    ) {
        let mut at_end = true;
        for (caller, script) in scripts.iter().enumerate() {
            let Some(verb) = script.get(answers[caller].len()) else {
                continue;
            };
            at_end = false;
            let mut next = self.clone();
            answers[caller].push(next.play(caller, *verb));
            next.walk(scripts, answers, found);
            answers[caller].pop();
        }
        if at_end {
            found.insert(Outcome {
                answers: answers.clone(),
                end: self.standing,
            });
        }
    }

    /// Whether some order of the callers' verbs explains what they were answered.
    pub fn explains(&self, scripts: &[Vec<Verb>], outcome: &Outcome) -> bool {
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
                if next.play(caller, *verb) == outcome.answers[caller][place] {
                    let mut places = places.clone();
                    places[caller] += 1;
                    if seen.insert((places.clone(), next.clone())) {
                        waiting.push((places, next));
                    }
                }
            }
            if at_end && reference.standing == outcome.end {
                return true;
            }
        }
        false
    }
}
