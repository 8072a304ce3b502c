//! Slots: the maximum number of concurrent runs of a node.

use std::collections::BTreeSet;
use std::time::Duration;

use cleveragents_domain::id::PlanId;
use cleveragents_integration_tests::samples::{owner, plan_id};
use cleveragents_integration_tests::store_access::run_concurrently;
use cleveragents_integration_tests::{Backend, TestDatabase, block_on, contract};
use cleveragents_ports::{Claim, RunClaimOutcome, Slots, StoreHandle};

use super::runs::{LONG, claim, claim_lease, release, runs, try_claim};

contract! {
    slots_limit_the_runs_of_a_node,
    slots_count_neither_shared_nor_foreign_nor_expired_nor_ended_runs,
    sixteen_claims_for_four_slots_have_four_winners,
    sixteen_claims_for_one_slot_have_one_winner,
}

/// A claim of `plan` that needs one of `limit` slots.
fn limited_claim(plan: PlanId, limit: u32) -> Claim {
    Claim {
        slots: Slots::Limit(limit),
        ..claim(plan, owner(), LONG)
    }
}

/// The plans whose runs leave no slot for `claim`.
async fn slot_holders(store: &StoreHandle, claim: Claim) -> Vec<PlanId> {
    match try_claim(store, claim).await {
        RunClaimOutcome::NoSlot { running } => running.iter().map(|run| run.plan).collect(),
        other => panic!("{other:?}"),
    }
}

fn slots_limit_the_runs_of_a_node(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let mut plans = [plan_id(), plan_id()];
    plans.sort_by_key(ToString::to_string);
    block_on(async {
        let nothing = try_claim(&opened.store, limited_claim(plan_id(), 0)).await;
        assert_eq!(nothing, RunClaimOutcome::NoSlot { running: vec![] });
        let first = limited_claim(plans[0], 2);
        let lease = claim_lease(&opened.store, first.clone()).await;
        claim_lease(&opened.store, limited_claim(plans[1], 2)).await;
        let third = plan_id();
        assert_eq!(
            slot_holders(&opened.store, limited_claim(third, 2)).await,
            plans
        );
        assert_eq!(
            runs(&opened.store).await.len(),
            2,
            "a refused claim leaves no run"
        );
        // The plan's own run does not count against it: it needs no second slot.
        assert!(
            matches!(try_claim(&opened.store, first).await, RunClaimOutcome::Held(run) if run.epoch == 1)
        );
        assert_eq!(
            claim_lease(&opened.store, limited_claim(third, 3))
                .await
                .epoch,
            1
        );
        release(&opened.store, &lease).await.unwrap();
        claim_lease(&opened.store, limited_claim(plan_id(), 3)).await;
    });
}

fn slots_count_neither_shared_nor_foreign_nor_expired_nor_ended_runs(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        claim_lease(&opened.store, claim(plan_id(), owner(), LONG)).await;
        let foreign = Claim {
            node: "there".to_owned(),
            ..limited_claim(plan_id(), 1)
        };
        claim_lease(&opened.store, foreign).await;
        let expired = Claim {
            lease: Duration::ZERO,
            ..limited_claim(plan_id(), 1)
        };
        claim_lease(&opened.store, expired).await;
        let ended = claim_lease(&opened.store, limited_claim(plan_id(), 1)).await;
        release(&opened.store, &ended).await.unwrap();
        let plan = plan_id();
        claim_lease(&opened.store, limited_claim(plan, 1)).await;
        assert_eq!(
            slot_holders(&opened.store, limited_claim(plan_id(), 1)).await,
            [plan]
        );
        // A child runs within its parent's slot, however full the node is.
        claim_lease(&opened.store, claim(plan_id(), owner(), LONG)).await;
    });
}

/// With one slot, two concurrent claims are already too many; ten nodes give ten chances to detect
/// a race.
fn sixteen_claims_for_one_slot_have_one_winner(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        for round in 0..10 {
            let answers = run_concurrently(16, |_| {
                let store = opened.store.clone();
                async move {
                    let claim = Claim {
                        node: format!("node-{round}"),
                        ..limited_claim(plan_id(), 1)
                    };
                    try_claim(&store, claim).await
                }
            })
            .await;
            let won = |answer: &&RunClaimOutcome| matches!(answer, RunClaimOutcome::Won(_));
            assert_eq!(answers.iter().filter(won).count(), 1, "round {round}");
        }
    });
}

fn sixteen_claims_for_four_slots_have_four_winners(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let answers = run_concurrently(16, |_| {
            let store = opened.store.clone();
            async move {
                let claim = limited_claim(plan_id(), 4);
                (claim.plan, try_claim(&store, claim).await)
            }
        })
        .await;
        let mut winners = BTreeSet::new();
        let mut refusals = Vec::new();
        for (plan, answer) in answers {
            match answer {
                RunClaimOutcome::Won(lease) => {
                    assert!(winners.insert(lease.plan) && lease.plan == plan)
                }
                RunClaimOutcome::NoSlot { running } => refusals.push(running),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!((winners.len(), refusals.len()), (4, 12));
        for running in refusals {
            let running = running.into_iter().map(|run| run.plan);
            assert_eq!(running.collect::<BTreeSet<_>>(), winners);
        }
    });
}
