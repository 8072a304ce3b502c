//! Long sequential histories: the shipped breaker and the reference give the same answers.

use cleveragents_engine::breaker::{CircuitBreaker, StdLock};
use proptest::prelude::*;

use cleveragents_integration_tests::breaker::reference::ReferenceBreaker;
use cleveragents_integration_tests::breaker::script::{
    BreakerCall, BreakerCaller, circuit_snapshot, settings,
};

const CALLERS: usize = 3;

/// Times go forward and backward, as those of concurrent callers do.
fn any_call() -> impl Strategy<Value = BreakerCall> {
    (0_i64..40, 0_usize..10).prop_map(|(now, kind)| match kind {
        0..=2 => BreakerCall::Admit(now),
        3 => BreakerCall::Success(now),
        4 | 5 => BreakerCall::Failure(now),
        6 => BreakerCall::Drop,
        7 => BreakerCall::RecordFailure(now),
        8 => BreakerCall::IsOpen(now),
        _ if now % 3 == 0 => BreakerCall::Reset(now),
        _ => BreakerCall::RecordSuccess(now),
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn the_breaker_answers_as_the_reference_does(
        cool_down in prop_oneof![Just(0_i64), Just(1), Just(10)],
        history in prop::collection::vec((0..CALLERS, any_call()), 0..120),
    ) {
        let breaker: CircuitBreaker<StdLock> = CircuitBreaker::new(settings(cool_down), Vec::new());
        let mut callers: Vec<BreakerCaller<StdLock>> = (0..CALLERS).map(|_| BreakerCaller::new()).collect();
        let mut reference = ReferenceBreaker::new(cool_down, CALLERS);
        for (number, (caller, verb)) in history.iter().enumerate() {
            let answer = callers[*caller].perform(&breaker, *verb);
            prop_assert_eq!(answer, reference.perform(*caller, *verb), "step {}", number);
            prop_assert_eq!(circuit_snapshot(&breaker), reference.snapshot(), "step {}", number);
        }
    }
}
