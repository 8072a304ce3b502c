//! Deleting a plan and erasing its journal's payloads: alone, and at once with every move.

use std::sync::Arc;

use cleveragents_domain::{Event, EventKind, Move, Plan, Position, StreamId};
use cleveragents_engine::journal::verify;
use cleveragents_engine::lifecycle::{Erasure, LifecycleError};
use cleveragents_engine::ports::StoreError;
use cleveragents_proof::verbs::{events, give_back, together, write};
use cleveragents_proof::{Backend, Place, block_on, contract, trials};

use super::asks::{Ask, Caller, Owner, Told, Way};
use super::matrix::{AT_ONCE, ROUNDS, Stage, plan_at, reachable, root_of};
use super::scene::{AllThere, Scene};

contract! {
    a_finished_plan_is_deleted_and_its_journal_stays,
    a_plan_that_is_not_finished_is_not_deleted,
    payloads_are_erased_on_the_record_and_the_chain_verifies,
    ; durable:
    a_removal_and_a_move_at_once_are_answered_as_if_in_turn,
}

fn erasure(plan: &Plan) -> Erasure {
    Erasure {
        plan: plan.identity.plan_id,
        first: None,
        last: None,
        reason: "a secret".to_owned(),
        actor: "eva".to_owned(),
    }
}

fn a_finished_plan_is_deleted_and_its_journal_stays(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let scene = Scene::furnished(&place).await;
        let id = scene.new_plan().await.identity.plan_id;
        scene.lifecycle.cancel(id, "enough", "eva").await.unwrap();
        let deleted = scene.lifecycle.delete(id, "eva").await.unwrap();
        assert!(deleted.position.is_terminal());
        assert!(scene.lifecycle.plan(id).await.is_err());
        let again = scene.lifecycle.delete(id, "eva").await;
        assert!(
            matches!(
                again,
                Err(LifecycleError::Store(StoreError::NotFound { .. }))
            ),
            "{again:?}"
        );
        let story = events(&scene.opened.store, StreamId::Plan(id)).await;
        assert_eq!(story.last().unwrap().kind, EventKind::PlanDeleted);
        // What is left can still be erased.
        let erased = scene.lifecycle.purge(erasure(&deleted)).await.unwrap();
        assert_eq!(erased.payloads, story.len() as u64);
        let none = scene.lifecycle.purge(erasure(&deleted)).await.unwrap();
        assert_eq!((none.payloads, none.head_hash), (0, erased.head_hash));
    });
}

fn a_plan_that_is_not_finished_is_not_deleted(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let scene = Scene::furnished(&place).await;
        let id = scene.new_plan().await.identity.plan_id;
        let early = scene.lifecycle.delete(id, "eva").await;
        match early {
            Err(LifecycleError::NotFinished { plan }) => assert_eq!(plan.identity.plan_id, id),
            other => panic!("{other:?} instead of a refusal"),
        }
        let run = scene.claim(id).await;
        scene.lifecycle.start(&run, &AllThere).await.unwrap();
        scene
            .lifecycle
            .cancel_as_owner(&run, "asked")
            .await
            .unwrap();
        // Finished, but its owner may still be cleaning up.
        let owned = scene.lifecycle.delete(id, "eva").await;
        assert!(
            matches!(owned, Err(LifecycleError::Owned { .. })),
            "{owned:?}"
        );
        give_back(run).await;
        scene.lifecycle.delete(id, "eva").await.unwrap();
    });
}

fn payloads_are_erased_on_the_record_and_the_chain_verifies(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let scene = Scene::furnished(&place).await;
        let plan = scene.new_plan().await;
        let stream = StreamId::Plan(plan.identity.plan_id);
        let before = events(&scene.opened.store, stream).await;
        let part = Erasure {
            first: Some(2),
            last: Some(2),
            ..erasure(&plan)
        };
        let erased = scene.lifecycle.purge(part).await.unwrap();
        assert_eq!(erased.payloads, 1);
        let after = events(&scene.opened.store, stream).await;
        let gone = |events: &[Event]| {
            let erased = events.iter().filter(|it| it.payload.is_none());
            erased.map(|it| it.stream_seq).collect::<Vec<_>>()
        };
        assert_eq!(gone(&after), [2]);
        assert_eq!(after.len(), before.len() + 1);
        let verified = verify(&scene.opened.store, stream, Some(erased.head_hash)).await;
        assert_eq!(verified.unwrap().unwrap().purged, 1);
        let all = scene.lifecycle.purge(erasure(&plan)).await.unwrap();
        assert_eq!(all.payloads, before.len() as u64 - 1);
        let verified = verify(&scene.opened.store, stream, None).await;
        assert_eq!(verified.unwrap().unwrap().purged, before.len() as i64);
        let unknown = Erasure {
            plan: cleveragents_proof::samples::plan_id(),
            ..erasure(&plan)
        };
        let unknown = scene.lifecycle.purge(unknown).await;
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
enum Removal {
    Delete,
    Purge,
}

/// What who removes was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Done,
    NotFinished(Position),
    Owned,
}

#[derive(Debug, Clone)]
struct Round {
    ask: Ask,
    removal: Removal,
    start: Plan,
    /// Whether those who are not the owner take it for alive.
    belief: Owner,
}

impl Round {
    fn asked(&self) -> Move {
        self.ask.asked(self.start.position)
    }

    /// Only an owner's move needs an owner.
    fn is_owned(&self) -> bool {
        self.ask.way == Way::Owner
    }

    /// What the one who removes is told at `at`.
    fn removed(&self, at: Position) -> Answer {
        match (self.is_owned(), self.belief, self.removal) {
            (true, Owner::Alive, _) => Answer::Owned,
            (_, _, Removal::Purge) => Answer::Done,
            _ if at.is_terminal() => Answer::Done,
            _ => Answer::NotFinished(at),
        }
    }

    fn move_first(&self) -> (Told, Answer, Option<Position>) {
        let (told, at) = self
            .ask
            .alone(self.asked(), self.start.position, self.belief);
        let answer = self.removed(at);
        (told, answer, self.left(answer, at))
    }

    fn removal_first(&self) -> (Told, Answer, Option<Position>) {
        let at = self.start.position;
        let answer = self.removed(at);
        let (told, end) = match (answer, self.ask.way, self.removal) {
            (Answer::Done, Way::Owner, _) => (Told::LeaseLost, at),
            (Answer::Done, Way::Command, Removal::Delete) => (Told::Missing, at),
            _ => self.ask.alone(self.asked(), at, self.belief),
        };
        (told, answer, self.left(answer, end))
    }

    fn left(&self, answer: Answer, at: Position) -> Option<Position> {
        match (self.removal, answer) {
            (Removal::Delete, Answer::Done) => None,
            _ => Some(at),
        }
    }
}

fn rounds(stage_brief: &cleveragents_domain::NewPlan) -> Vec<Round> {
    let places = reachable();
    let places: Vec<_> = places
        .iter()
        .filter(|(at, _)| at.reversions() == 0)
        .collect();
    let mut rounds = Vec::new();
    for ask in Ask::all() {
        for removal in [Removal::Delete, Removal::Purge] {
            let least = trials(ROUNDS, 1) as usize;
            for number in 0..least.max(places.len()) {
                let (_, way) = places[number % places.len()];
                rounds.push(Round {
                    ask,
                    removal,
                    start: plan_at(stage_brief, way),
                    belief: match ask.way == Way::Owner && number.is_multiple_of(2) {
                        true => Owner::Alive,
                        false => Owner::NoneOrDead,
                    },
                });
            }
        }
    }
    rounds
}

fn a_removal_and_a_move_at_once_are_answered_as_if_in_turn(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let (stage, brief) = Stage::new(&place).await;
        let stage = Arc::new(stage);
        for some in rounds(&brief).chunks(AT_ONCE) {
            race(&stage, some).await;
        }
    });
}

async fn race(stage: &Arc<Stage>, rounds: &[Round]) {
    let starts: Vec<Plan> = rounds.iter().map(|round| round.start.clone()).collect();
    write(&stage.owner.opened.store, move |unit| {
        for plan in &starts {
            unit.insert_plan(plan)?;
            unit.insert_decision(&root_of(plan))?;
            let made = cleveragents_proof::samples::event(1);
            unit.append(StreamId::Plan(plan.identity.plan_id), &[made])?;
        }
        Ok(())
    })
    .await;
    let told = together(rounds.len(), |number| {
        let (round, stage) = (rounds[number].clone(), Arc::clone(stage));
        async move {
            let id = round.start.identity.plan_id;
            let run = match round.is_owned() {
                true => Some(stage.owner.claim(id).await),
                false => None,
            };
            let caller = Caller {
                scene: &stage.owner,
                run: run.as_ref(),
                plan: id,
                name: "eva",
            };
            let remover = match (round.is_owned(), round.belief) {
                (true, Owner::NoneOrDead) => &stage.mistaken,
                _ => &stage.other,
            };
            tokio::join!(
                round.ask.perform(&caller, round.asked()),
                remove(remover, &round)
            )
        }
    })
    .await;
    for (round, (told, answer)) in rounds.iter().zip(told) {
        let left = stage.other.lifecycle.plan(round.start.identity.plan_id);
        let seen = (told, answer, left.await.ok().map(|plan| plan.position));
        let orders = [round.move_first(), round.removal_first()];
        assert!(
            orders.contains(&seen),
            "{round:?}: {seen:?} is neither of {orders:?}"
        );
        let stream = StreamId::Plan(round.start.identity.plan_id);
        let verified = verify(&stage.other.opened.store, stream, None).await;
        assert!(verified.unwrap().is_ok(), "{round:?}");
    }
}

async fn remove(scene: &Scene, round: &Round) -> Answer {
    let removed = match round.removal {
        Removal::Delete => {
            let deleted = scene
                .lifecycle
                .delete(round.start.identity.plan_id, "remover");
            deleted.await.map(|_| ())
        }
        Removal::Purge => {
            let purged = scene.lifecycle.purge(erasure(&round.start));
            purged.await.map(|_| ())
        }
    };
    match removed {
        Ok(()) => Answer::Done,
        Err(LifecycleError::NotFinished { plan }) => Answer::NotFinished(plan.position),
        Err(LifecycleError::Owned { .. }) => Answer::Owned,
        Err(other) => panic!("{other} instead of an answer"),
    }
}
