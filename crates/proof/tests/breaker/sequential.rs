//! Long histories, one verb after the other: the shipped breaker and the reference answer alike.

use cleveragents_engine::breaker::{CircuitBreaker, StdLock};
use proptest::prelude::*;

use cleveragents_proof::breaker::reference::Reference;
use cleveragents_proof::breaker::script::{Caller, Verb, settings, standing};

const CALLERS: usize = 3;

/// Times go forth and back, as those of many callers do.
fn verb() -> impl Strategy<Value = Verb> {
    (0_i64..40, 0_usize..10).prop_map(|(now, kind)| match kind {
        0..=2 => Verb::Admit(now),
        3 => Verb::Success(now),
        4 | 5 => Verb::Failure(now),
        6 => Verb::Drop,
        7 => Verb::RecordFailure(now),
        8 => Verb::IsOpen(now),
        _ if now % 3 == 0 => Verb::Reset(now),
        _ => Verb::RecordSuccess(now),
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn the_breaker_answers_as_the_reference_does(
        cool_down in prop_oneof![Just(0_i64), Just(1), Just(10)],
        history in prop::collection::vec((0..CALLERS, verb()), 0..120),
    ) {
        let breaker: CircuitBreaker<StdLock> = CircuitBreaker::new(settings(cool_down), Vec::new());
        let mut callers: Vec<Caller<StdLock>> = (0..CALLERS).map(|_| Caller::new()).collect();
        let mut reference = Reference::new(cool_down, CALLERS);
        for (number, (caller, verb)) in history.iter().enumerate() {
            let answer = callers[*caller].play(&breaker, *verb);
            prop_assert_eq!(answer, reference.play(*caller, *verb), "step {}", number);
            prop_assert_eq!(standing(&breaker), reference.standing(), "step {}", number);
        }
    }
}
