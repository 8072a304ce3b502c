//! Deleting a plan and erasing its journal's payloads: alone, and concurrently with every move.

use std::sync::Arc;

use cleveragents_domain::{Event, EventKind, Move, Plan, Position, StreamId};
use cleveragents_engine::journal::verify;
use cleveragents_engine::lifecycle::{LifecycleError, PlanPurgeRequest};
use cleveragents_integration_tests::store_access::{events, release_run, run_concurrently, write};
use cleveragents_integration_tests::{Backend, TestDatabase, block_on, contract, trials};
use cleveragents_ports::StoreError;

use super::fixture::LifecycleFixture;
use super::matrix::{
    CONCURRENT_PLANS, ROUNDS, RaceFixtures, plan_at, reachable_positions, root_of,
};
use super::sample_moves::{AssumedLiveness, MoveAnswer, MoveCaller, Requester, SampleMove};

contract! {
    a_finished_plan_is_deleted_and_its_journal_stays,
    a_plan_that_is_not_finished_is_not_deleted,
    payloads_are_erased_on_the_record_and_the_chain_verifies,
    ; durable:
    concurrent_removal_and_move_are_serializable,
}

fn erasure(plan: &Plan) -> PlanPurgeRequest {
    PlanPurgeRequest {
        plan: plan.identity.plan_id,
        first: None,
        last: None,
        reason: "a secret".to_owned(),
        actor: "eva".to_owned(),
    }
}

fn a_finished_plan_is_deleted_and_its_journal_stays(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        let id = fixture.new_plan().await.identity.plan_id;
        fixture.lifecycle.cancel(id, "enough", "eva").await.unwrap();
        let deleted = fixture.lifecycle.delete(id, "eva").await.unwrap();
        assert!(deleted.position.is_terminal());
        assert!(fixture.lifecycle.plan(id).await.is_err());
        let again = fixture.lifecycle.delete(id, "eva").await;
        assert!(
            matches!(
                again,
                Err(LifecycleError::Store(StoreError::NotFound { .. }))
            ),
            "{again:?}"
        );
        let story = events(&fixture.opened.store, StreamId::Plan(id)).await;
        assert_eq!(story.last().unwrap().kind, EventKind::PlanDeleted);
        // The remaining journal can still be erased.
        let erased = fixture.lifecycle.purge(erasure(&deleted)).await.unwrap();
        assert_eq!(erased.payloads, story.len() as u64);
        let none = fixture.lifecycle.purge(erasure(&deleted)).await.unwrap();
        assert_eq!((none.payloads, none.head_hash), (0, erased.head_hash));
    });
}

fn a_plan_that_is_not_finished_is_not_deleted(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        let id = fixture.new_plan().await.identity.plan_id;
        let early = fixture.lifecycle.delete(id, "eva").await;
        match early {
            Err(LifecycleError::NotFinished { plan }) => assert_eq!(plan.identity.plan_id, id),
            other => panic!("{other:?} instead of a refusal"),
        }
        let run = fixture.claim(id).await;
        fixture.start(&run).await;
        fixture
            .lifecycle
            .as_owner(&run)
            .cancel("asked")
            .await
            .unwrap();
        // Finished, but its owner may still be cleaning up.
        let owned = fixture.lifecycle.delete(id, "eva").await;
        assert!(
            matches!(owned, Err(LifecycleError::Owned { .. })),
            "{owned:?}"
        );
        release_run(run).await;
        fixture.lifecycle.delete(id, "eva").await.unwrap();
    });
}

fn payloads_are_erased_on_the_record_and_the_chain_verifies(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        let plan = fixture.new_plan().await;
        let stream = StreamId::Plan(plan.identity.plan_id);
        let before = events(&fixture.opened.store, stream).await;
        let part = PlanPurgeRequest {
            first: Some(2),
            last: Some(2),
            ..erasure(&plan)
        };
        let erased = fixture.lifecycle.purge(part).await.unwrap();
        assert_eq!(erased.payloads, 1);
        let after = events(&fixture.opened.store, stream).await;
        let gone = |events: &[Event]| {
            let erased = events.iter().filter(|it| it.payload.is_none());
            erased.map(|it| it.stream_seq).collect::<Vec<_>>()
        };
        assert_eq!(gone(&after), [2]);
        assert_eq!(after.len(), before.len() + 1);
        let verified = verify(&fixture.opened.store, stream, Some(erased.head_hash)).await;
        assert_eq!(verified.unwrap().unwrap().purged, 1);
        let all = fixture.lifecycle.purge(erasure(&plan)).await.unwrap();
        assert_eq!(all.payloads, before.len() as u64 - 1);
        let verified = verify(&fixture.opened.store, stream, None).await;
        assert_eq!(verified.unwrap().unwrap().purged, before.len() as i64);
        let unknown = PlanPurgeRequest {
            plan: cleveragents_integration_tests::samples::plan_id(),
            ..erasure(&plan)
        };
        let unknown = fixture.lifecycle.purge(unknown).await;
        assert!(
            matches!(
                unknown,
                Err(LifecycleError::Store(StoreError::NotFound { .. }))
            ),
            "{unknown:?}"
        );
    });
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PlanRemoval {
    Delete,
    Purge,
}

/// The answer to a removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RemovalAnswer {
    Done,
    NotFinished(Position),
    Owned,
}

#[derive(Debug, Clone)]
struct RemovalRace {
    sample_move: SampleMove,
    removal: PlanRemoval,
    start: Plan,
    /// Whether callers other than the owner assume it alive.
    assumed_liveness: AssumedLiveness,
}

impl RemovalRace {
    fn requested_move(&self) -> Move {
        self.sample_move.to_move(self.start.position)
    }

    /// Only an owner's move needs an owner.
    fn is_owned(&self) -> bool {
        self.sample_move.requester == Requester::Owner
    }

    /// The expected answer to a removal at `at`.
    fn expected_removal(&self, at: Position) -> RemovalAnswer {
        match (self.is_owned(), self.assumed_liveness, self.removal) {
            (true, AssumedLiveness::Alive, _) => RemovalAnswer::Owned,
            (_, _, PlanRemoval::Purge) => RemovalAnswer::Done,
            _ if at.is_terminal() => RemovalAnswer::Done,
            _ => RemovalAnswer::NotFinished(at),
        }
    }

    fn move_first(&self) -> (MoveAnswer, RemovalAnswer, Option<Position>) {
        let (message, at) = self.sample_move.expected_answer(
            self.requested_move(),
            self.start.position,
            self.assumed_liveness,
        );
        let answer = self.expected_removal(at);
        (message, answer, self.expected_position(answer, at))
    }

    fn removal_first(&self) -> (MoveAnswer, RemovalAnswer, Option<Position>) {
        let at = self.start.position;
        let answer = self.expected_removal(at);
        let (message, end) = match (answer, self.sample_move.requester, self.removal) {
            (RemovalAnswer::Done, Requester::Owner, _) => (MoveAnswer::LeaseLost, at),
            (RemovalAnswer::Done, Requester::Command, PlanRemoval::Delete) => {
                (MoveAnswer::Missing, at)
            }
            _ => self
                .sample_move
                .expected_answer(self.requested_move(), at, self.assumed_liveness),
        };
        (message, answer, self.expected_position(answer, end))
    }

    fn expected_position(&self, answer: RemovalAnswer, at: Position) -> Option<Position> {
        match (self.removal, answer) {
            (PlanRemoval::Delete, RemovalAnswer::Done) => None,
            _ => Some(at),
        }
    }
}

fn all_races(brief: &cleveragents_domain::NewPlan) -> Vec<RemovalRace> {
    let places = reachable_positions();
    let places: Vec<_> = places
        .iter()
        .filter(|(at, _)| at.reversions() == 0)
        .collect();
    let mut rounds = Vec::new();
    for ask in SampleMove::all() {
        for removal in [PlanRemoval::Delete, PlanRemoval::Purge] {
            let least = trials(ROUNDS, 1) as usize;
            for number in 0..least.max(places.len()) {
                let (_, way) = places[number % places.len()];
                rounds.push(RemovalRace {
                    sample_move: ask,
                    removal,
                    start: plan_at(brief, way),
                    assumed_liveness: if ask.requester == Requester::Owner
                        && number.is_multiple_of(2)
                    {
                        AssumedLiveness::Alive
                    } else {
                        AssumedLiveness::NoneOrDead
                    },
                });
            }
        }
    }
    rounds
}

fn concurrent_removal_and_move_are_serializable(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let (stage, brief) = RaceFixtures::new(&test_db).await;
        let stage = Arc::new(stage);
        for some in all_races(&brief).chunks(CONCURRENT_PLANS) {
            race(&stage, some).await;
        }
    });
}

async fn race(fixtures: &Arc<RaceFixtures>, rounds: &[RemovalRace]) {
    let starts: Vec<Plan> = rounds.iter().map(|round| round.start.clone()).collect();
    write(&fixtures.owner.opened.store, move |tx| {
        for plan in &starts {
            tx.insert_plan(plan)?;
            tx.insert_decision(&root_of(plan))?;
            let made = cleveragents_integration_tests::samples::event(1);
            tx.append(StreamId::Plan(plan.identity.plan_id), &[made])?;
        }
        Ok(())
    })
    .await;
    let message = run_concurrently(rounds.len(), |number| {
        let (round, stage) = (rounds[number].clone(), Arc::clone(fixtures));
        async move {
            let id = round.start.identity.plan_id;
            let run = if round.is_owned() {
                Some(stage.owner.claim(id).await)
            } else {
                None
            };
            let caller = MoveCaller {
                fixture: &stage.owner,
                run: run.as_ref(),
                plan: id,
                name: "eva",
            };
            let remover = match (round.is_owned(), round.assumed_liveness) {
                (true, AssumedLiveness::NoneOrDead) => &stage.all_dead,
                _ => &stage.other,
            };
            tokio::join!(
                round.sample_move.perform(&caller, round.requested_move()),
                remove(remover, &round)
            )
        }
    })
    .await;
    for (round, (message, answer)) in rounds.iter().zip(message) {
        let left = fixtures.other.lifecycle.plan(round.start.identity.plan_id);
        let seen = (message, answer, left.await.ok().map(|plan| plan.position));
        let orders = [round.move_first(), round.removal_first()];
        assert!(
            orders.contains(&seen),
            "{round:?}: {seen:?} is neither of {orders:?}"
        );
        let stream = StreamId::Plan(round.start.identity.plan_id);
        let verified = verify(&fixtures.other.opened.store, stream, None).await;
        assert!(verified.unwrap().is_ok(), "{round:?}");
    }
}

async fn remove(fixture: &LifecycleFixture, round: &RemovalRace) -> RemovalAnswer {
    let removed = match round.removal {
        PlanRemoval::Delete => {
            let deleted = fixture
                .lifecycle
                .delete(round.start.identity.plan_id, "remover");
            deleted.await.map(|_| ())
        }
        PlanRemoval::Purge => {
            let purged = fixture.lifecycle.purge(erasure(&round.start));
            purged.await.map(|_| ())
        }
    };
    match removed {
        Ok(()) => RemovalAnswer::Done,
        Err(LifecycleError::NotFinished { plan }) => RemovalAnswer::NotFinished(plan.position),
        Err(LifecycleError::Owned { .. }) => RemovalAnswer::Owned,
        Err(other) => panic!("{other} instead of an answer"),
    }
}
