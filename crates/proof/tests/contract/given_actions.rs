//! Single-use actions that are given, not registered: one plan for each content of a name.

use cleveragents_domain::id::PlanId;
use cleveragents_engine::ports::{Result, StoreError, StoreHandle};
use cleveragents_proof::answers::{assert_taken, one_winner};
use cleveragents_proof::samples::{name, plan, plan_id};
use cleveragents_proof::verbs::{attempt, read, together, write};
use cleveragents_proof::{Backend, Place, block_on, contract};

contract! {
    sixty_four_who_use_a_given_action_have_one_winner,
    another_content_or_name_is_another_action,
    a_claim_that_is_undone_is_free_again,
    a_claim_outlives_its_plan,
}

const WHAT: &str = "the single-use action";

/// One use, as a plan is made: the claim and the plan in one transaction.
async fn use_given(store: &StoreHandle, text: &str, content: &str) -> Result<PlanId> {
    let (action, content) = (name(text), content.to_owned());
    let made = plan(plan_id(), 0);
    attempt(store, move |unit| {
        let id = made.identity.plan_id;
        unit.use_given_action(&action, &content, id)?;
        unit.insert_plan(&made)?;
        Ok(id)
    })
    .await
}

async fn name_of(store: &StoreHandle, id: PlanId) -> String {
    read(store, move |unit| unit.plan(id))
        .await
        .name
        .to_string()
}

fn sixty_four_who_use_a_given_action_have_one_winner(backend: Backend) {
    let place = Place::new(backend);
    let opened = place.open();
    block_on(async {
        let answers = together(64, |_| {
            let store = opened.store.clone();
            async move { use_given(&store, "once", "hash").await }
        })
        .await;
        let (winner, refused) = one_winner(answers);
        let holder = name_of(&opened.store, winner).await;
        for error in refused {
            assert_taken::<()>(Err(error), (WHAT, "local/once", &holder));
        }
        let plans = read(&opened.store, |unit| unit.plans()).await;
        assert_eq!(plans.len(), 1);
    });
}

fn another_content_or_name_is_another_action(backend: Backend) {
    let place = Place::new(backend);
    let opened = place.open();
    block_on(async {
        for (text, content) in [("once", "a"), ("once", "b"), ("twice", "a")] {
            use_given(&opened.store, text, content).await.unwrap();
        }
        let refused = use_given(&opened.store, "once", "b").await;
        assert!(
            matches!(refused, Err(StoreError::Taken { .. })),
            "{refused:?}"
        );
    });
}

fn a_claim_that_is_undone_is_free_again(backend: Backend) {
    let place = Place::new(backend);
    let opened = place.open();
    block_on(async {
        let refused: Result<()> = attempt(&opened.store, move |unit| {
            unit.use_given_action(&name("once"), "a", plan_id())?;
            Err(StoreError::internal("the caller thinks better of it"))
        })
        .await;
        refused.unwrap_err();
        use_given(&opened.store, "once", "a").await.unwrap();
    });
}

fn a_claim_outlives_its_plan(backend: Backend) {
    let place = Place::new(backend);
    let opened = place.open();
    block_on(async {
        let id = use_given(&opened.store, "once", "a").await.unwrap();
        let holder = name_of(&opened.store, id).await;
        let refused = use_given(&opened.store, "once", "a").await;
        assert_taken(refused, (WHAT, "local/once", &holder));
        let made = read(&opened.store, move |unit| unit.plan(id)).await;
        write(&opened.store, move |unit| unit.delete_plan(&made)).await;
        assert_taken(
            use_given(&opened.store, "once", "a").await,
            (WHAT, "local/once", "a plan that is not there any more"),
        );
    });
}
