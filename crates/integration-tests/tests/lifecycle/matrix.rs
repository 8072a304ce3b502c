//! The race matrix: every pair of concurrent moves on one plan, from every position.
//!
//! Both callers must get the answers of one of the two sequential orders, and the plan and its
//! journal must end as in that order.

use std::collections::BTreeMap;
use std::sync::Arc;

use cleveragents_domain::id::PlanId;
use cleveragents_domain::lifecycle::MAX_REVERSIONS;
use cleveragents_domain::{
    Decision, Event, Move, MoveKind, NewPlan, Plan, Position, StreamId, Timestamp,
};
use cleveragents_integration_tests::lifecycle_samples::root_decision;
use cleveragents_integration_tests::samples::{name, plan_id};
use cleveragents_integration_tests::store_access::{read, run_concurrently, try_write, write};
use cleveragents_integration_tests::{Backend, TestDatabase, block_on, contract, trials};
use cleveragents_ports::StoreError;

use super::fixture::{LifecycleFixture, request};
use super::history::replay;
use super::sample_moves::{
    AssumedLiveness, MoveAnswer, MoveCaller, Requester, SampleMove, move_of,
};

contract! {
    durable:
    concurrent_owner_moves_are_serializable,
    a_concurrent_owner_move_and_command_are_serializable,
    concurrent_commands_are_serializable,
    a_deletion_and_a_move_exclude_each_other,
}

/// The number of plans raced for concurrently.
pub(super) const CONCURRENT_PLANS: usize = 8;

/// The rounds of each pair in a full run.
pub(super) const ROUNDS: u32 = 200;

/// Every reachable position with the shortest way there. Positions that differ only in the number
/// of reversions come last, with the lowest and highest number before the others.
pub(super) fn reachable_positions() -> Vec<(Position, Vec<Move>)> {
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

/// Two requests and their starting position.
#[derive(Debug, Clone)]
struct MoveRace {
    pair: [SampleMove; 2],
    start: Plan,
    /// The owner's liveness as assumed by callers that are not the owner.
    assumed_liveness: AssumedLiveness,
}

impl MoveRace {
    fn moves(&self) -> [Move; 2] {
        self.pair.map(|ask| ask.to_move(self.start.position))
    }

    /// The answers and the final position if `first` comes first.
    fn sequential_result(&self, first: usize) -> ([MoveAnswer; 2], Position) {
        let (asks, moves) = (self.pair, self.moves());
        let second = 1 - first;
        let start = self.start.position;
        let (one, between) =
            asks[first].expected_answer(moves[first], start, self.assumed_liveness);
        let passed_over =
            asks[first].requester == Requester::Command && matches!(one, MoveAnswer::Moved(_));
        let (two, end) = match asks[second].requester {
            // A command that moves a plan past its owner ends that owner's run.
            Requester::Owner if passed_over => (MoveAnswer::LeaseLost, between),
            _ => asks[second].expected_answer(moves[second], between, self.assumed_liveness),
        };
        match first {
            0 => ([one, two], end),
            _ => ([two, one], end),
        }
    }
}

/// A plan at that position, with a new id and without decisions.
pub(super) fn plan_at(brief: &NewPlan, way: &[Move]) -> Plan {
    let mut plan = Plan::new(brief.clone(), plan_id(), Timestamp::default());
    plan.decision_root_id = Some(root_decision(plan.identity.plan_id).decision_id);
    for asked in way {
        plan = plan.make_move(*asked, Timestamp::default()).unwrap();
    }
    plan
}

/// The root decision of such a plan.
pub(super) fn root_of(plan: &Plan) -> Decision {
    Decision {
        decision_id: plan.decision_root_id.unwrap(),
        ..root_decision(plan.identity.plan_id)
    }
}

/// The rounds of a pair: from every position where one of the two is legal, repeatedly.
fn races_of_pair(
    pair: [SampleMove; 2],
    places: &[(Position, Vec<Move>)],
    brief: &NewPlan,
) -> Vec<MoveRace> {
    let one_is_legal = |(at, _): &&(Position, Vec<Move>)| {
        pair.iter().any(|ask| at.after(ask.to_move(*at)).is_ok())
    };
    let from: Vec<_> = places.iter().filter(one_is_legal).collect();
    assert!(!from.is_empty(), "{pair:?} are never legal");
    // Only moves that go back depend on the number of reversions.
    let goes_back = |ask: &SampleMove| matches!(ask.kind, MoveKind::Revert | MoveKind::Correct);
    let reverts = pair.iter().any(goes_back);
    let differs = |(at, _): &&&(Position, Vec<Move>)| match at.reversions() {
        0 => true,
        MAX_REVERSIONS => reverts,
        _ => false,
    };
    let least = from.iter().filter(differs).count();
    let owned = pair.iter().any(|ask| ask.requester == Requester::Owner);
    let rounds = least.max(trials(ROUNDS, 1) as usize);
    (0..rounds)
        .map(|round| MoveRace {
            pair,
            start: plan_at(brief, &from[round % from.len()].1),
            assumed_liveness: if owned && (round + round / from.len()).is_multiple_of(2) {
                AssumedLiveness::Alive
            } else {
                AssumedLiveness::NoneOrDead
            },
        })
        .collect()
}

/// Two views of one database with real liveness, and one that assumes every owner dead.
pub(super) struct RaceFixtures {
    pub(super) owner: LifecycleFixture,
    pub(super) other: LifecycleFixture,
    pub(super) all_dead: LifecycleFixture,
}

impl RaceFixtures {
    pub(super) async fn new(test_db: &TestDatabase) -> (Self, NewPlan) {
        let owner = LifecycleFixture::with_samples(test_db).await;
        let mut sample = owner.new_plan().await;
        sample.brief.invariants.clear();
        let brief = NewPlan {
            brief: sample.brief,
            parent: None,
        };
        let stage = Self {
            owner,
            other: LifecycleFixture::open(test_db),
            all_dead: LifecycleFixture::open_with_all_dead(test_db),
        };
        (stage, brief)
    }

    /// The view that makes the request of a round; the second caller has its own.
    fn fixture_for(&self, round: &MoveRace, which: usize) -> &LifecycleFixture {
        match (round.pair[which].requester, round.assumed_liveness, which) {
            (Requester::Command, AssumedLiveness::NoneOrDead, _) if self.is_owned(round) => {
                &self.all_dead
            }
            (_, _, 0) => &self.owner,
            _ => &self.other,
        }
    }

    fn is_owned(&self, round: &MoveRace) -> bool {
        round
            .pair
            .iter()
            .any(|ask| ask.requester == Requester::Owner)
    }
}

fn concurrent_owner_moves_are_serializable(backend: Backend) {
    race_all(backend, [Requester::Owner, Requester::Owner]);
}

fn a_concurrent_owner_move_and_command_are_serializable(backend: Backend) {
    race_all(backend, [Requester::Owner, Requester::Command]);
}

fn concurrent_commands_are_serializable(backend: Backend) {
    race_all(backend, [Requester::Command, Requester::Command]);
}

/// Every pair of requests with these requesters.
fn pairs(ways: [Requester; 2]) -> Vec<[SampleMove; 2]> {
    let all = SampleMove::all();
    let mut pairs = Vec::new();
    for (number, one) in all.iter().enumerate() {
        for two in &all[number..] {
            match [one.requester, two.requester] {
                found if found == ways => pairs.push([*one, *two]),
                [two_way, one_way] if [one_way, two_way] == ways => pairs.push([*two, *one]),
                _ => {}
            }
        }
    }
    pairs
}

fn race_all(backend: Backend, ways: [Requester; 2]) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let (stage, brief) = RaceFixtures::new(&test_db).await;
        let (stage, places) = (Arc::new(stage), reachable_positions());
        for pair in pairs(ways) {
            for some in races_of_pair(pair, &places, &brief).chunks(CONCURRENT_PLANS) {
                race(&stage, some).await;
            }
        }
    });
}

#[test]
fn every_pair_of_moves_is_in_the_matrix() {
    let all = SampleMove::all();
    assert!(
        MoveKind::ALL
            .iter()
            .all(|kind| all.iter().any(|ask| ask.kind == *kind))
    );
    let ways = [
        [Requester::Owner, Requester::Owner],
        [Requester::Owner, Requester::Command],
        [Requester::Command, Requester::Command],
    ];
    let raced: usize = ways.into_iter().map(|ways| pairs(ways).len()).sum();
    assert_eq!(raced, all.len() * (all.len() + 1) / 2);
}

/// Races the rounds; one of the two orders must explain each.
async fn race(fixtures: &Arc<RaceFixtures>, rounds: &[MoveRace]) {
    let starts: Vec<Plan> = rounds.iter().map(|round| round.start.clone()).collect();
    write(&fixtures.owner.opened.store, move |tx| {
        starts.iter().try_for_each(|plan| {
            tx.insert_plan(plan)?;
            tx.insert_decision(&root_of(plan)).map(drop)
        })
    })
    .await;
    let leases = run_concurrently(rounds.len(), |number| {
        let id = rounds[number].start.identity.plan_id;
        let owned = fixtures.is_owned(&rounds[number]);
        let stage = Arc::clone(fixtures);
        async move {
            if owned {
                Some(Arc::new(stage.owner.claim(id).await))
            } else {
                None
            }
        }
    })
    .await;
    let message = run_concurrently(rounds.len() * 2, |task| {
        let (round, which) = (rounds[task / 2].clone(), task % 2);
        let (lease, stage) = (leases[task / 2].clone(), Arc::clone(fixtures));
        async move {
            let caller = MoveCaller {
                fixture: stage.fixture_for(&round, which),
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
    let ends = read_results(&fixtures.other, ids).await;
    for (round, message) in rounds.iter().zip(message.chunks(2)) {
        let (plan, events) = &ends[&round.start.identity.plan_id];
        check(round, [message[0], message[1]], plan, events);
    }
}

/// The final plans and their journals.
async fn read_results(
    fixture: &LifecycleFixture,
    ids: Vec<PlanId>,
) -> BTreeMap<PlanId, (Plan, Vec<Event>)> {
    read(&fixture.opened.store, move |tx| {
        ids.iter()
            .map(|id| {
                let events = tx.events(StreamId::Plan(*id), 0, u32::MAX)?;
                Ok((*id, (tx.plan(*id)?, events)))
            })
            .collect()
    })
    .await
}

/// One of the orders explains both answers, the final position and the journal.
fn check(round: &MoveRace, message: [MoveAnswer; 2], end: &Plan, events: &[Event]) {
    let seen = (message, end.position);
    let orders = [round.sequential_result(0), round.sequential_result(1)];
    assert!(
        orders.contains(&seen),
        "{:?} from {} ({:?}): {seen:?} is neither of {orders:?}",
        round.pair,
        round.start.position,
        round.assumed_liveness
    );
    let replayed = replay(events, round.start.position);
    assert_eq!(replayed.position, end.position, "{round:?}");
    let moved = message
        .iter()
        .filter(|it| matches!(it, MoveAnswer::Moved(_)));
    assert_eq!(replayed.moves.len(), moved.count(), "{round:?}");
}

fn a_deletion_and_a_move_exclude_each_other(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let owner = Arc::new(LifecycleFixture::with_samples(&test_db).await);
        let other = LifecycleFixture::open(&test_db);
        for _ in 0..trials(200, 5) {
            let plan = owner.new_plan().await;
            let id = plan.identity.plan_id;
            let run = Arc::new(owner.claim(id).await);
            let answers = run_concurrently(2, |task| {
                let (plan, store) = (plan.clone(), other.opened.store.clone());
                let (owner, run) = (Arc::clone(&owner), Arc::clone(&run));
                async move {
                    if task == 0 {
                        let started = SampleMove {
                            kind: MoveKind::Start,
                            requester: Requester::Owner,
                        };
                        let caller = MoveCaller {
                            fixture: &owner,
                            run: Some(&run),
                            plan: id,
                            name: "eva",
                        };
                        return Ok(started.perform(&caller, Move::Start).await);
                    }
                    let deleted = try_write(&store, move |tx| tx.delete_plan(&plan));
                    deleted.await.map(|()| MoveAnswer::Missing)
                }
            })
            .await;
            match (&answers[0], &answers[1]) {
                (Ok(MoveAnswer::Missing), Ok(_)) => {
                    let found = owner.lifecycle.plan(id).await;
                    assert!(found.is_err(), "a deleted plan is there");
                }
                (Ok(MoveAnswer::Moved(position)), Err(StoreError::Conflict { .. })) => {
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
