//! Outcomes: every one is counted.

use cleveragents_integration_tests::store_access::{read, run_concurrently, write};
use cleveragents_integration_tests::{Backend, TestDatabase, block_on, contract};
use cleveragents_ports::{OperationOutcome, OutcomeCounts};

contract! {
    an_uncounted_operation_has_no_outcomes,
    concurrent_outcomes_are_all_counted,
}

fn an_uncounted_operation_has_no_outcomes(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let none = read(&opened.store, |tx| tx.outcome_counts("edit \0 code")).await;
        assert_eq!(
            (none, none.success_rate()),
            (OutcomeCounts::default(), None)
        );
        let one = write(&opened.store, |tx| {
            tx.count_outcome("edit \0 code", OperationOutcome::Failure)
        })
        .await;
        assert_eq!((one.successes, one.failures), (0, 1));
        assert_eq!(one.success_rate(), Some(0.0));
        let other = read(&opened.store, |tx| tx.outcome_counts("edit code")).await;
        assert_eq!(other, OutcomeCounts::default());
    });
}

fn concurrent_outcomes_are_all_counted(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let answers = run_concurrently(16, |_| {
            let store = opened.store.clone();
            async move {
                let mut counts = Vec::new();
                for round in 0..20 {
                    let outcome = match round % 4 {
                        0 => OperationOutcome::Failure,
                        _ => OperationOutcome::Success,
                    };
                    let answer = write(&store, move |tx| {
                        tx.count_outcome("execute_command", outcome)
                    });
                    counts.push(answer.await);
                }
                counts
            }
        })
        .await;
        let counts = read(&opened.store, |tx| tx.outcome_counts("execute_command")).await;
        assert_eq!((counts.successes, counts.failures), (240, 80));
        assert_eq!(counts.success_rate(), Some(0.75));
        // Each result includes its own outcome and counts no other twice.
        let mut sums: Vec<u64> = answers
            .iter()
            .flatten()
            .map(|counts| counts.successes + counts.failures)
            .collect();
        sums.sort_unstable();
        assert_eq!(sums, (1..=320).collect::<Vec<u64>>());
    });
}
