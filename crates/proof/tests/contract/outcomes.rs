//! Outcomes: every one is counted.

use cleveragents_engine::ports::{Outcome, OutcomeCounts};
use cleveragents_proof::verbs::{read, together, write};
use cleveragents_proof::{Backend, Place, block_on, contract};

contract! {
    an_operation_nobody_counted_has_no_outcomes,
    all_that_sixteen_count_is_counted,
}

fn an_operation_nobody_counted_has_no_outcomes(backend: Backend) {
    let place = Place::new(backend);
    let opened = place.open();
    block_on(async {
        let none = read(&opened.store, |unit| unit.outcome("edit \0 code")).await;
        assert_eq!(
            (none, none.success_rate()),
            (OutcomeCounts::default(), None)
        );
        let one = write(&opened.store, |unit| {
            unit.count_outcome("edit \0 code", Outcome::Failure)
        })
        .await;
        assert_eq!((one.successes, one.failures), (0, 1));
        assert_eq!(one.success_rate(), Some(0.0));
        let other = read(&opened.store, |unit| unit.outcome("edit code")).await;
        assert_eq!(other, OutcomeCounts::default());
    });
}

fn all_that_sixteen_count_is_counted(backend: Backend) {
    let place = Place::new(backend);
    let opened = place.open();
    block_on(async {
        let answers = together(16, |_| {
            let store = opened.store.clone();
            async move {
                let mut counts = Vec::new();
                for round in 0..20 {
                    let outcome = match round % 4 {
                        0 => Outcome::Failure,
                        _ => Outcome::Success,
                    };
                    let answer = write(&store, move |unit| {
                        unit.count_outcome("execute_command", outcome)
                    });
                    counts.push(answer.await);
                }
                counts
            }
        })
        .await;
        let counts = read(&opened.store, |unit| unit.outcome("execute_command")).await;
        assert_eq!((counts.successes, counts.failures), (240, 80));
        assert_eq!(counts.success_rate(), Some(0.75));
        // Each answer includes its own outcome and no other's twice.
        let mut sums: Vec<u64> = answers
            .iter()
            .flatten()
            .map(|counts| counts.successes + counts.failures)
            .collect();
        sums.sort_unstable();
        assert_eq!(sums, (1..=320).collect::<Vec<u64>>());
    });
}
