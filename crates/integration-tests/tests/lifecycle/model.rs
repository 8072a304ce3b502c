//! Random requests of three concurrent clients on two plans, against a model that knows only a
//! plan's position and whether it exists.
//!
//! The journal defines the order. When replayed, every move must be legal and end at the plan's
//! position; each client's moves must be in it exactly once and in the order of their
//! acknowledgements; refused moves must not be in it.

use std::sync::Arc;

use cleveragents_domain::event::payloads::PlanDeleted;
use cleveragents_domain::id::PlanId;
use cleveragents_domain::{Event, EventKind, MoveKind, NewEvent, Position, StreamId};
use cleveragents_engine::runs::RunLease;
use cleveragents_integration_tests::store_access::{events, run_concurrently, try_write};
use cleveragents_integration_tests::{Backend, TestDatabase, block_on, contract, trials};
use cleveragents_ports::{Result, StoreError};
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any};
use proptest::sample::select;
use proptest::test_runner::{Config, TestRunner};
use tokio::sync::Mutex;

use super::fixture::LifecycleFixture;
use super::history::{self, replay};
use super::sample_moves::{MoveAnswer, MoveCaller, Requester, SampleMove};

contract! {
    durable: three_concurrent_clients_are_linearizable,
}

const CLIENTS: usize = 3;
const PLANS: usize = 2;

/// One step of a client.
#[derive(Debug, Clone, Copy)]
enum ClientStep {
    Move(SampleMove),
    Delete,
}

/// The steps of each client and the plans they apply to, in order.
type ClientScripts = Vec<Vec<(usize, ClientStep)>>;

fn any_scripts() -> impl Strategy<Value = ClientScripts> {
    let step = proptest::prop_oneof![
        // Forward moves are frequent enough that plans make progress.
        20 => select(vec![MoveKind::Start, MoveKind::Complete, MoveKind::Advance])
            .prop_map(|kind| ClientStep::Move(SampleMove { kind, requester: Requester::Owner })),
        20 => select(SampleMove::all()).prop_map(ClientStep::Move),
        1 => Just(ClientStep::Delete),
    ];
    let on = any::<bool>().prop_map(usize::from);
    vec(vec((on, step), 1..16), CLIENTS)
}

/// A move acknowledged to a client.
type AckedMove = (usize, history::JournalMove);

fn three_concurrent_clients_are_linearizable(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let clients = block_on(async {
        [
            Arc::new(LifecycleFixture::with_samples(&test_db).await),
            Arc::new(LifecycleFixture::open(&test_db)),
            Arc::new(LifecycleFixture::open_with_all_dead(&test_db)),
        ]
    });
    let mut runner = TestRunner::new(Config {
        cases: trials(300, 10),
        failure_persistence: None,
        ..Config::default()
    });
    let explained = runner.run(&any_scripts(), |script| {
        block_on(run_clients(&clients, script));
        Ok(())
    });
    explained.unwrap();
}

async fn run_clients(clients: &[Arc<LifecycleFixture>; CLIENTS], script: ClientScripts) {
    let mut plans = Vec::new();
    for _ in 0..PLANS {
        let id = clients[0].new_plan().await.identity.plan_id;
        plans.push((id, SharedRun::claim(&clients[0], id).await));
    }
    let message: Vec<Vec<AckedMove>> = run_concurrently(CLIENTS, |client| {
        let (fixture, plans) = (Arc::clone(&clients[client]), plans.clone());
        let steps = script[client].clone();
        async move {
            let name = format!("client {client}");
            let mut acknowledged = Vec::new();
            for (number, step) in steps {
                let (plan, run) = &plans[number];
                if let Some(message) = run_step(&fixture, (*plan, run), step, &name).await {
                    acknowledged.push((number, message));
                }
            }
            acknowledged
        }
    })
    .await;
    for (number, (plan, run)) in plans.iter().enumerate() {
        let story = events(&clients[0].opened.store, StreamId::Plan(*plan)).await;
        let owner = run.current().await.lease().owner.to_string();
        check(&clients[1], *plan, &story).await;
        assert_owner_moves_only_what_it_owns(&story, &owner);
        assert_acks_in_journal(&story, &owner, &message, number);
    }
}

/// All share one lease, as the tasks of one owner do, so only the plan's row separates them. If a
/// command evicts the owner, the run is claimed again.
#[derive(Debug, Clone)]
struct SharedRun {
    owner: Arc<LifecycleFixture>,
    plan: PlanId,
    run: Arc<Mutex<Arc<RunLease>>>,
}

impl SharedRun {
    async fn claim(owner: &Arc<LifecycleFixture>, plan: PlanId) -> Self {
        let run = Arc::new(owner.claim(plan).await);
        Self {
            owner: Arc::clone(owner),
            plan,
            run: Arc::new(Mutex::new(run)),
        }
    }

    async fn current(&self) -> Arc<RunLease> {
        Arc::clone(&*self.run.lock().await)
    }

    async fn reclaim(&self, lost: &RunLease) {
        let mut run = self.run.lock().await;
        if run.lease().epoch == lost.lease().epoch {
            *run = Arc::new(self.owner.claim(self.plan).await);
        }
    }
}

/// Runs one step; returns the acknowledged move, if it changed anything.
async fn run_step(
    fixture: &LifecycleFixture,
    (plan, shared): (PlanId, &SharedRun),
    step: ClientStep,
    name: &str,
) -> Option<history::JournalMove> {
    let ask = match step {
        ClientStep::Move(ask) => ask,
        ClientStep::Delete => {
            match delete(fixture, plan).await {
                Ok(()) | Err(StoreError::NotFound { .. }) => {}
                Err(other) => panic!("{other} instead of a deletion"),
            }
            return None;
        }
    };
    // As users do: read the plan, then request what makes sense there. The read may be stale.
    let seen = fixture.lifecycle.plan(plan).await;
    let seen = seen.map_or(Position::new(), |plan| plan.position);
    let run = shared.current().await;
    let caller = MoveCaller {
        fixture,
        run: Some(&run),
        plan,
        name,
    };
    match ask.perform(&caller, ask.to_move(seen)).await {
        MoveAnswer::Moved(to) => Some(history::JournalMove {
            actor: match ask.requester {
                Requester::Owner => run.lease().owner.to_string(),
                Requester::Command => name.to_owned(),
            },
            kind: ask.kind,
            to,
        }),
        MoveAnswer::LeaseLost => {
            shared.reclaim(&run).await;
            None
        }
        _ => None,
    }
}

/// Deletes the plan as it is at that moment, with a record.
async fn delete(fixture: &LifecycleFixture, plan: PlanId) -> Result<()> {
    try_write(&fixture.opened.store, move |tx| {
        let found = tx.plan_for_update(plan)?;
        tx.delete_plan(&found)?;
        let deleted = PlanDeleted {
            name: found.name.clone(),
            action: found.brief.action_name.clone(),
            phase: found.position.phase(),
            state: found.position.state(),
        };
        let event = NewEvent::of("client", &deleted).map_err(StoreError::internal)?;
        tx.append(StreamId::Plan(plan), &[event])?;
        Ok(())
    })
    .await
}

/// The plan is where its journal ends; a deleted plan is gone, and nothing moved it afterwards.
async fn check(fixture: &LifecycleFixture, plan: PlanId, story: &[Event]) {
    let replayed = replay(story, Position::new());
    let deleted = story
        .iter()
        .position(|it| it.kind == EventKind::PlanDeleted);
    match deleted {
        Some(place) => {
            assert!(fixture.lifecycle.plan(plan).await.is_err());
            assert!(replay(&story[..place], Position::new()).moves == replayed.moves);
        }
        None => assert_eq!(fixture.plan(plan).await.position, replayed.position),
    }
}

/// Between an eviction of the owner and the next claim, the owner moves nothing.
fn assert_owner_moves_only_what_it_owns(story: &[Event], owner: &str) {
    let mut owned = false;
    for event in story {
        match event.kind {
            EventKind::RunClaimed => owned = true,
            EventKind::RunEvicted => owned = false,
            _ => assert!(owned || event.actor != owner, "{event:?} by a past owner"),
        }
    }
}

/// Each acknowledged move is recorded once. The moves of one client are in its order; those through
/// the lease are all recorded as the owner's, so they are matched client by client.
fn assert_acks_in_journal(story: &[Event], owner: &str, acks: &[Vec<AckedMove>], number: usize) {
    let moves = replay(story, Position::new()).moves;
    for (client, all) in acks.iter().enumerate() {
        let mut rest = moves.iter();
        for (_, wanted) in all.iter().filter(|(plan, _)| *plan == number) {
            assert!(
                rest.any(|found| found == wanted),
                "client {client}: {wanted:?} is not in its place"
            );
        }
    }
    let acknowledged = acks.iter().flatten().filter(|(plan, _)| *plan == number);
    let mut left: Vec<&history::JournalMove> = moves.iter().collect();
    for (_, wanted) in acknowledged {
        let place = left.iter().position(|found| *found == wanted);
        left.remove(place.unwrap());
    }
    assert!(left.is_empty(), "unacknowledged: {left:?} ({owner})");
}
