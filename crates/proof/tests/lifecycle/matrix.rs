//! The race matrix: every two moves, asked of one plan at once, from everywhere a plan can stand.
//!
//! Both callers must be told what they would have been told one after the other, in one of the
//! two orders, and the plan and its journal must end where that order ends.

use std::collections::BTreeMap;
use std::sync::Arc;

use cleveragents_domain::id::PlanId;
use cleveragents_domain::lifecycle::MAX_REVERSIONS;
use cleveragents_domain::{
    Decision, Event, Move, MoveKind, NewPlan, Plan, Position, StreamId, Timestamp,
};
use cleveragents_engine::ports::StoreError;
use cleveragents_proof::lifecycle_samples::root_decision;
use cleveragents_proof::samples::{name, plan_id};
use cleveragents_proof::verbs::{attempt, read, together, write};
use cleveragents_proof::{Backend, Place, block_on, contract, trials};

use super::asks::{Ask, Caller, Owner, Told, Way, move_of};
use super::history::replay;
use super::scene::{Scene, request};

contract! {
    durable:
    two_moves_of_an_owner_at_once_are_answered_as_if_in_turn,
    an_owners_move_and_a_command_at_once_are_answered_as_if_in_turn,
    two_commands_at_once_are_answered_as_if_in_turn,
    a_deletion_and_a_move_exclude_each_other,
}

/// How many plans are raced for at the same time.
pub(super) const AT_ONCE: usize = 8;

/// The rounds of each pair in a full run.
pub(super) const ROUNDS: u32 = 200;

/// Every place a plan can come to, and the shortest way there; those that differ only in the
/// number of reversions last, the first and the last number before the others.
pub(super) fn reachable() -> Vec<(Position, Vec<Move>)> {
    let mut found = vec![(Position::new(), Vec::new())];
    let mut next = 0;
    while let Some((from, way)) = found.get(next).cloned() {
        for kind in MoveKind::ALL {
            let asked = move_of(*kind, from);
            let Ok(to) = from.after(asked) else { continue };
            if !found.iter().any(|(known, _)| *known == to) {
                found.push((to, [way.as_slice(), &[asked]].concat()));
            }
        }
        next += 1;
    }
    found.sort_by_key(|(position, _)| match position.reversions() {
        0 => 0,
        MAX_REVERSIONS => 1,
        _ => 2,
    });
    found
}

/// Two requests and from where they are made.
#[derive(Debug, Clone)]
struct Round {
    pair: [Ask; 2],
    start: Plan,
    /// What the callers who are not the owner think of it.
    belief: Owner,
}

impl Round {
    fn moves(&self) -> [Move; 2] {
        self.pair.map(|ask| ask.asked(self.start.position))
    }

    /// What both are told and where the plan ends, if `first` comes first.
    fn in_turn(&self, first: usize) -> ([Told; 2], Position) {
        let (asks, moves) = (self.pair, self.moves());
        let second = 1 - first;
        let start = self.start.position;
        let (one, between) = asks[first].alone(moves[first], start, self.belief);
        let passed_over = asks[first].way == Way::Command && matches!(one, Told::Moved(_));
        let (two, end) = match asks[second].way {
            // A command that moves a plan past its owner ends that owner's run.
            Way::Owner if passed_over => (Told::LeaseLost, between),
            _ => asks[second].alone(moves[second], between, self.belief),
        };
        match first {
            0 => ([one, two], end),
            _ => ([two, one], end),
        }
    }
}

/// A plan that came to stand there, under a new id. Nobody decided anything on the way.
pub(super) fn plan_at(brief: &NewPlan, way: &[Move]) -> Plan {
    let mut plan = Plan::new(brief.clone(), plan_id(), Timestamp::default());
    plan.decision_root_id = Some(root_decision(plan.identity.plan_id).decision_id);
    for asked in way {
        plan = plan.make_move(*asked, Timestamp::default()).unwrap();
    }
    plan
}

/// The root of such a plan's decisions.
pub(super) fn root_of(plan: &Plan) -> Decision {
    Decision {
        decision_id: plan.decision_root_id.unwrap(),
        ..root_decision(plan.identity.plan_id)
    }
}

/// The rounds of a pair: from every place where one of the two is legal, then again.
fn rounds_of(pair: [Ask; 2], places: &[(Position, Vec<Move>)], brief: &NewPlan) -> Vec<Round> {
    let one_is_legal =
        |(at, _): &&(Position, Vec<Move>)| pair.iter().any(|ask| at.after(ask.asked(*at)).is_ok());
    let from: Vec<_> = places.iter().filter(one_is_legal).collect();
    assert!(!from.is_empty(), "{pair:?} are never legal");
    // The table asks for the number of reversions only of those who go back.
    let goes_back = |ask: &Ask| matches!(ask.kind, MoveKind::Revert | MoveKind::Correct);
    let reverts = pair.iter().any(goes_back);
    let differs = |(at, _): &&&(Position, Vec<Move>)| match at.reversions() {
        0 => true,
        MAX_REVERSIONS => reverts,
        _ => false,
    };
    let least = from.iter().filter(differs).count();
    let owned = pair.iter().any(|ask| ask.way == Way::Owner);
    let rounds = least.max(trials(ROUNDS, 1) as usize);
    (0..rounds)
        .map(|round| Round {
            pair,
            start: plan_at(brief, &from[round % from.len()].1),
            belief: match owned && (round + round / from.len()).is_multiple_of(2) {
                true => Owner::Alive,
                false => Owner::NoneOrDead,
            },
        })
        .collect()
}

/// Two openings of one place by those who see who lives, and one by somebody who does not.
pub(super) struct Stage {
    pub(super) owner: Scene,
    pub(super) other: Scene,
    pub(super) mistaken: Scene,
}

impl Stage {
    pub(super) async fn new(place: &Place) -> (Self, NewPlan) {
        let owner = Scene::furnished(place).await;
        let mut sample = owner.new_plan().await;
        sample.brief.invariants.clear();
        let brief = NewPlan {
            brief: sample.brief,
            parent: None,
        };
        let stage = Self {
            owner,
            other: Scene::open(place),
            mistaken: Scene::open_believing_all_dead(place),
        };
        (stage, brief)
    }

    /// Who makes the request of a round: the second caller has an opening of its own.
    fn caller(&self, round: &Round, which: usize) -> &Scene {
        match (round.pair[which].way, round.belief, which) {
            (Way::Command, Owner::NoneOrDead, _) if self.is_owned(round) => &self.mistaken,
            (_, _, 0) => &self.owner,
            _ => &self.other,
        }
    }

    fn is_owned(&self, round: &Round) -> bool {
        round.pair.iter().any(|ask| ask.way == Way::Owner)
    }
}

fn two_moves_of_an_owner_at_once_are_answered_as_if_in_turn(backend: Backend) {
    race_all(backend, [Way::Owner, Way::Owner]);
}

fn an_owners_move_and_a_command_at_once_are_answered_as_if_in_turn(backend: Backend) {
    race_all(backend, [Way::Owner, Way::Command]);
}

fn two_commands_at_once_are_answered_as_if_in_turn(backend: Backend) {
    race_all(backend, [Way::Command, Way::Command]);
}

/// Every two requests that are made in these ways.
fn pairs(ways: [Way; 2]) -> Vec<[Ask; 2]> {
    let all = Ask::all();
    let mut pairs = Vec::new();
    for (number, one) in all.iter().enumerate() {
        for two in &all[number..] {
            match [one.way, two.way] {
                found if found == ways => pairs.push([*one, *two]),
                [two_way, one_way] if [one_way, two_way] == ways => pairs.push([*two, *one]),
                _ => {}
            }
        }
    }
    pairs
}

fn race_all(backend: Backend, ways: [Way; 2]) {
    let place = Place::new(backend);
    block_on(async {
        let (stage, brief) = Stage::new(&place).await;
        let (stage, places) = (Arc::new(stage), reachable());
        for pair in pairs(ways) {
            for some in rounds_of(pair, &places, &brief).chunks(AT_ONCE) {
                race(&stage, some).await;
            }
        }
    });
}

#[test]
fn every_pair_of_moves_is_in_the_matrix() {
    let all = Ask::all();
    assert!(
        MoveKind::ALL
            .iter()
            .all(|kind| all.iter().any(|ask| ask.kind == *kind))
    );
    let ways = [
        [Way::Owner, Way::Owner],
        [Way::Owner, Way::Command],
        [Way::Command, Way::Command],
    ];
    let raced: usize = ways.into_iter().map(|ways| pairs(ways).len()).sum();
    assert_eq!(raced, all.len() * (all.len() + 1) / 2);
}

/// Races the rounds, each of which one of the two orders must explain.
async fn race(stage: &Arc<Stage>, rounds: &[Round]) {
    let starts: Vec<Plan> = rounds.iter().map(|round| round.start.clone()).collect();
    write(&stage.owner.opened.store, move |unit| {
        starts.iter().try_for_each(|plan| {
            unit.insert_plan(plan)?;
            unit.insert_decision(&root_of(plan)).map(drop)
        })
    })
    .await;
    let leases = together(rounds.len(), |number| {
        let id = rounds[number].start.identity.plan_id;
        let owned = stage.is_owned(&rounds[number]);
        let stage = Arc::clone(stage);
        async move {
            match owned {
                true => Some(Arc::new(stage.owner.claim(id).await)),
                false => None,
            }
        }
    })
    .await;
    let told = together(rounds.len() * 2, |task| {
        let (round, which) = (rounds[task / 2].clone(), task % 2);
        let (lease, stage) = (leases[task / 2].clone(), Arc::clone(stage));
        async move {
            let caller = Caller {
                scene: stage.caller(&round, which),
                run: lease.as_deref(),
                plan: round.start.identity.plan_id,
                name: "eva",
            };
            let asked = round.moves()[which];
            round.pair[which].perform(&caller, asked).await
        }
    })
    .await;
    let ids: Vec<PlanId> = rounds.iter().map(|it| it.start.identity.plan_id).collect();
    let ends = ends(&stage.other, ids).await;
    for (round, told) in rounds.iter().zip(told.chunks(2)) {
        let (plan, events) = &ends[&round.start.identity.plan_id];
        check(round, [told[0], told[1]], plan, events);
    }
}

/// Where the plans stand, and what their journals say.
async fn ends(scene: &Scene, ids: Vec<PlanId>) -> BTreeMap<PlanId, (Plan, Vec<Event>)> {
    read(&scene.opened.store, move |unit| {
        ids.iter()
            .map(|id| {
                let events = unit.events(StreamId::Plan(*id), 0, u32::MAX)?;
                Ok((*id, (unit.plan(*id)?, events)))
            })
            .collect()
    })
    .await
}

/// One of the orders explains what both were told, where the plan stands and what the journal says.
fn check(round: &Round, told: [Told; 2], end: &Plan, events: &[Event]) {
    let seen = (told, end.position);
    let orders = [round.in_turn(0), round.in_turn(1)];
    assert!(
        orders.contains(&seen),
        "{:?} from {} ({:?}): {seen:?} is neither of {orders:?}",
        round.pair,
        round.start.position,
        round.belief
    );
    let replayed = replay(events, round.start.position);
    assert_eq!(replayed.position, end.position, "{round:?}");
    let moved = told.iter().filter(|it| matches!(it, Told::Moved(_)));
    assert_eq!(replayed.moves.len(), moved.count(), "{round:?}");
}

fn a_deletion_and_a_move_exclude_each_other(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let owner = Arc::new(Scene::furnished(&place).await);
        let other = Scene::open(&place);
        for _ in 0..trials(200, 5) {
            let plan = owner.new_plan().await;
            let id = plan.identity.plan_id;
            let run = Arc::new(owner.claim(id).await);
            let answers = together(2, |task| {
                let (plan, store) = (plan.clone(), other.opened.store.clone());
                let (owner, run) = (Arc::clone(&owner), Arc::clone(&run));
                async move {
                    if task == 0 {
                        let started = Ask {
                            kind: MoveKind::Start,
                            way: Way::Owner,
                        };
                        let caller = Caller {
                            scene: &owner,
                            run: Some(&run),
                            plan: id,
                            name: "eva",
                        };
                        return Ok(started.perform(&caller, Move::Start).await);
                    }
                    let deleted = attempt(&store, move |unit| unit.delete_plan(&plan));
                    deleted.await.map(|()| Told::Missing)
                }
            })
            .await;
            match (&answers[0], &answers[1]) {
                (Ok(Told::Missing), Ok(_)) => {
                    let found = owner.lifecycle.plan(id).await;
                    assert!(found.is_err(), "a deleted plan is there");
                }
                (Ok(Told::Moved(position)), Err(StoreError::Conflict { .. })) => {
                    assert_eq!(owner.plan(id).await.position, *position);
                }
                other => panic!("{other:?} are not in turn"),
            }
        }
        // The action can be used as before.
        let again = owner.lifecycle.use_action(request()).await.unwrap();
        assert_eq!(again.brief.action_name, name("local/lint"));
    });
}
