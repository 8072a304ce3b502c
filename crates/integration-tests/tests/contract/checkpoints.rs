//! Checkpoints: numbered, pruned to a maximum, marked when undone.

use cleveragents_domain::checkpoint::Checkpoint;
use cleveragents_domain::id::{CheckpointId, IdFragment, PlanId, SandboxId};
use cleveragents_integration_tests::assertions::{assert_ambiguous, assert_missing, assert_taken};
use cleveragents_integration_tests::execution_samples::{checkpoint, store_sandbox};
use cleveragents_integration_tests::samples::plan_id;
use cleveragents_integration_tests::store_access::{read, run_concurrently, try_write, write};
use cleveragents_integration_tests::{Backend, TestDatabase, block_on, contract};
use cleveragents_ports::system::SystemIds;
use cleveragents_ports::{Ids, Result, StoreHandle};

contract! {
    a_checkpoint_reads_back_with_its_number,
    the_oldest_checkpoints_are_pruned,
    concurrent_checkpoints_are_numbered_without_gaps,
    later_checkpoints_are_undone_once,
    a_checkpoint_is_found_by_its_id_or_its_number,
}

async fn insert(store: &StoreHandle, checkpoint: &Checkpoint, keep: u32) -> Result<i64> {
    let checkpoint = checkpoint.clone();
    try_write(store, move |tx| tx.insert_checkpoint(&checkpoint, keep)).await
}

async fn of_plan(store: &StoreHandle, plan: PlanId) -> Vec<Checkpoint> {
    read(store, move |tx| tx.checkpoints_of(plan)).await
}

fn a_checkpoint_reads_back_with_its_number(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let (plan, sandbox) = store_sandbox(&opened.store).await;
        let mut wanted = Vec::new();
        for number in 1..=3 {
            let sample = checkpoint(plan, sandbox);
            assert_eq!(insert(&opened.store, &sample, 9).await.unwrap(), number);
            wanted.push(Checkpoint { number, ..sample });
        }
        assert_eq!(of_plan(&opened.store, plan).await, wanted);
        assert_taken(
            insert(&opened.store, &wanted[0], 9).await,
            (
                "the checkpoint id",
                &wanted[0].id.to_string(),
                "another checkpoint",
            ),
        );
        let unowned = plan_id();
        assert_missing(
            insert(&opened.store, &checkpoint(unowned, sandbox), 9).await,
            ("plan", &unowned.to_string()),
        );
        assert!(of_plan(&opened.store, unowned).await.is_empty());
    });
}

/// The numbers of the kept checkpoints.
async fn numbers(store: &StoreHandle, plan: PlanId) -> Vec<i64> {
    let found = of_plan(store, plan).await;
    found.iter().map(|checkpoint| checkpoint.number).collect()
}

fn the_oldest_checkpoints_are_pruned(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let (plan, sandbox) = store_sandbox(&opened.store).await;
        let (other, elsewhere) = store_sandbox(&opened.store).await;
        insert(&opened.store, &checkpoint(other, elsewhere), 1)
            .await
            .unwrap();
        let steps: [(u32, &[i64]); 7] = [
            (3, &[1]),
            (3, &[1, 2]),
            (3, &[1, 2, 3]),
            (3, &[2, 3, 4]),
            (2, &[4, 5]),
            (9, &[4, 5, 6]),
            // One always stays, because the next number is derived from it.
            (0, &[7]),
        ];
        for (keep, kept) in steps {
            let number = insert(&opened.store, &checkpoint(plan, sandbox), keep).await;
            assert_eq!(number.unwrap(), *kept.last().unwrap());
            assert_eq!(numbers(&opened.store, plan).await, kept);
        }
        assert_eq!(numbers(&opened.store, other).await, [1]);
    });
}

fn concurrent_checkpoints_are_numbered_without_gaps(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let (plan, sandbox) = store_sandbox(&opened.store).await;
        let given = run_concurrently(16, |_| {
            let store = opened.store.clone();
            async move {
                let mut given = Vec::new();
                for _ in 0..5 {
                    let sample = checkpoint(plan, sandbox);
                    given.push(insert(&store, &sample, 10).await.unwrap());
                }
                given
            }
        })
        .await;
        let mut given: Vec<i64> = given.into_iter().flatten().collect();
        given.sort_unstable();
        assert_eq!(given, (1..=80).collect::<Vec<i64>>());
        let kept = numbers(&opened.store, plan).await;
        assert_eq!(kept, (71..=80).collect::<Vec<i64>>());
    });
}

fn later_checkpoints_are_undone_once(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let (plan, sandbox) = store_sandbox(&opened.store).await;
        let (other, elsewhere) = store_sandbox(&opened.store).await;
        insert(&opened.store, &checkpoint(other, elsewhere), 9)
            .await
            .unwrap();
        for _ in 0..4 {
            insert(&opened.store, &checkpoint(plan, sandbox), 9)
                .await
                .unwrap();
        }
        let [one, two] = [(); 2].map(|()| CheckpointId::new(SystemIds.next()));
        let undo = |number, by| {
            let store = opened.store.clone();
            async move { write(&store, move |tx| tx.undo_checkpoints(plan, number, by)).await }
        };
        assert_eq!(undo(3, one).await, 1);
        assert_eq!(undo(1, two).await, 2);
        assert_eq!(undo(0, one).await, 1);
        let marks = |found: Vec<Checkpoint>| -> Vec<Option<CheckpointId>> {
            found.into_iter().map(|it| it.undone_by).collect()
        };
        assert_eq!(
            marks(of_plan(&opened.store, plan).await),
            [Some(one), Some(two), Some(two), Some(one)]
        );
        assert_eq!(marks(of_plan(&opened.store, other).await), [None]);
    });
}

/// A checkpoint with exactly this id.
fn with_id(plan: PlanId, sandbox: SandboxId, id: &str) -> Checkpoint {
    Checkpoint {
        id: id.parse().unwrap(),
        ..checkpoint(plan, sandbox)
    }
}

fn a_checkpoint_is_found_by_its_id_or_its_number(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let (plan, sandbox) = store_sandbox(&opened.store).await;
        let (other, elsewhere) = store_sandbox(&opened.store).await;
        let samples = [
            with_id(plan, sandbox, "01JZZZZZZZ0000000000ABCDEF"),
            with_id(plan, sandbox, "01JZZZZZZZ00000000000AAA02"),
            with_id(plan, sandbox, "01JZZZZZZZ0000000000DD0002"),
        ];
        for sample in &samples {
            insert(&opened.store, sample, 9).await.unwrap();
        }
        insert(
            &opened.store,
            &with_id(other, elsewhere, "01JZZZZZZZ0000000000EEEEEE"),
            9,
        )
        .await
        .unwrap();
        let find = |text: &str| {
            let fragment: IdFragment = text.parse().unwrap();
            let store = opened.store.clone();
            async move {
                let found = store.read(move |tx| tx.find_checkpoint(plan, &fragment));
                found.await.map(|checkpoint: Checkpoint| checkpoint.number)
            }
        };
        assert_eq!(find("abcdef").await.unwrap(), 1);
        assert_eq!(find("0001").await.unwrap(), 1);
        assert_eq!(find("000003").await.unwrap(), 3);
        let shown = |at: usize| format!("{} (number {})", samples[at].id, at + 1);
        assert_ambiguous(find("01JZ").await, &[shown(0), shown(1), shown(2)]);
        // The number of one and the end of another.
        assert_ambiguous(find("0002").await, &[shown(1), shown(2)]);
        for missing in ["0004", "EEEEEE", "9999999999999999999999"] {
            assert_missing(find(missing).await, ("checkpoint of this plan", missing));
        }
    });
}
