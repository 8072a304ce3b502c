//! The guarantees of the table, checked from every position. `reversions` covers reversions and
//! corrections.

use std::collections::{BTreeSet, HashSet, VecDeque};

use proptest::prelude::*;

use super::*;

mod reversions;

const WAIT_REASONS: [WaitReason; 5] = [
    WaitReason::Slot,
    WaitReason::Approval { decision: None },
    WaitReason::Answer { decision: None },
    WaitReason::Budget,
    WaitReason::Until {
        until: Timestamp::from_micros(1),
    },
];

fn every_move() -> Vec<Move> {
    let mut moves = vec![
        Move::Start,
        Move::Complete,
        Move::Fail,
        Move::Constrain,
        Move::Decide,
        Move::Apply,
        Move::Abort,
        Move::Unapply,
        Move::Resume,
        Move::Retry,
        Move::Revert,
        Move::Cancel,
    ];
    moves.extend(WAIT_REASONS.map(Move::Wait));
    moves.extend(Phase::ALL.iter().map(|phase| Move::Advance(*phase)));
    moves.extend(Phase::ALL.iter().map(|phase| Move::Correct(*phase)));
    moves
}

fn walk(moves: &[Move]) -> Position {
    moves.iter().fold(Position::new(), |position, asked| {
        position.after(*asked).unwrap()
    })
}

fn moves_to_execute() -> Vec<Move> {
    vec![
        Move::Start,
        Move::Complete,
        Move::Advance(Phase::Execute),
        Move::Start,
    ]
}

fn moves_to_apply() -> Vec<Move> {
    let rest = [Move::Complete, Move::Advance(Phase::Apply), Move::Start];
    moves_to_execute().into_iter().chain(rest).collect()
}

fn applying_position() -> Position {
    walk(&moves_to_apply())
}

fn reachable_positions() -> HashSet<Position> {
    let mut seen = HashSet::from([Position::new()]);
    let mut open = VecDeque::from([Position::new()]);
    while let Some(position) = open.pop_front() {
        for asked in every_move() {
            if let Ok(next) = position.after(asked)
                && seen.insert(next)
            {
                open.push_back(next);
            }
        }
    }
    seen
}

/// Every combination of parts, legal or not.
fn all_parts() -> Vec<PositionParts> {
    let waits = || WAIT_REASONS.into_iter().map(Some).chain([None]);
    let mut all = Vec::new();
    for phase in Phase::ALL.iter().copied() {
        for state in PlanState::ALL.iter().copied() {
            for waiting in waits() {
                for reversions in 0..=MAX_REVERSIONS + 1 {
                    for point_of_no_return in PointOfNoReturn::ALL.iter().copied() {
                        all.push(PositionParts {
                            phase,
                            state,
                            waiting,
                            reversions,
                            point_of_no_return,
                        });
                    }
                }
            }
        }
    }
    all
}

#[test]
fn phases_allow_exactly_their_legal_states() {
    let expected = BTreeSet::from(
        [
            "strategize/queued",
            "strategize/processing",
            "strategize/complete",
            "strategize/errored",
            "strategize/cancelled",
            "execute/queued",
            "execute/processing",
            "execute/complete",
            "execute/errored",
            "execute/cancelled",
            "execute/constrained",
            "apply/queued",
            "apply/processing",
            "apply/errored",
            "apply/cancelled",
            "apply/constrained",
            "apply/applied",
            "apply/unapplied",
        ]
        .map(str::to_owned),
    );
    let reached: BTreeSet<String> = reachable_positions()
        .iter()
        .map(Position::to_string)
        .collect();
    assert_eq!(reached, expected);
}

#[test]
fn reachable_positions_are_exactly_the_storable_ones() {
    let storable: HashSet<Position> = all_parts()
        .into_iter()
        .filter_map(|parts| Position::try_from(parts).ok())
        .collect();
    assert_eq!(reachable_positions(), storable);
}

#[test]
fn every_wait_reason_is_reachable_in_every_phase() {
    let reached: HashSet<_> = reachable_positions()
        .iter()
        .filter_map(|position| Some((position.phase(), position.waiting()?.kind())))
        .collect();
    assert_eq!(reached.len(), Phase::ALL.len() * WaitReasonKind::ALL.len());
}

#[test]
fn cancelled_plans_are_final_and_applied_ones_only_unapply() {
    for position in reachable_positions() {
        let exits = position.legal_moves();
        assert_eq!(
            exits.is_empty(),
            position.state() == PlanState::Cancelled,
            "{position}"
        );
        if position.state() == PlanState::Applied {
            assert_eq!(exits, [MoveKind::Unapply]);
        }
    }
}

#[test]
fn cancel_is_legal_exactly_before_the_end_and_the_point_of_no_return() {
    for position in reachable_positions() {
        let expected =
            !position.is_terminal() && position.point_of_no_return() == PointOfNoReturn::Ahead;
        assert_eq!(
            position.after(Move::Cancel).is_ok(),
            expected,
            "{position:?}"
        );
    }
}

#[test]
fn legal_moves_are_exactly_those_that_succeed() {
    for position in reachable_positions() {
        let succeed: BTreeSet<MoveKind> = every_move()
            .into_iter()
            .filter(|asked| position.after(*asked).is_ok())
            .map(Move::kind)
            .collect();
        let listed = position.legal_moves();
        assert_eq!(listed.iter().copied().collect::<BTreeSet<_>>(), succeed);
        assert_eq!(listed.len(), succeed.len(), "{position} lists one twice");
    }
}

#[test]
fn a_plan_goes_through_its_phases_to_applied() {
    let decided = applying_position().after(Move::Decide).unwrap();
    let applied = decided.after(Move::Apply).unwrap();
    assert_eq!(applied.to_string(), "apply/applied");
    assert!(applied.is_terminal());
}

#[test]
fn a_phase_is_entered_only_when_the_one_before_is_complete() {
    for position in reachable_positions() {
        for to in Phase::ALL.iter().copied() {
            let expected =
                position.state() == PlanState::Complete && position.phase().next() == Some(to);
            assert_eq!(position.after(Move::Advance(to)).is_ok(), expected);
        }
    }
}

#[test]
fn only_stopped_plans_can_be_retried_in_their_phase() {
    for position in reachable_positions() {
        let stopped = matches!(
            position.state(),
            PlanState::Errored | PlanState::Constrained | PlanState::Unapplied
        );
        match position.after(Move::Retry) {
            Ok(retried) => {
                assert!(stopped, "{position}");
                assert_eq!(retried.phase(), position.phase());
                assert_eq!(retried.state(), PlanState::Queued);
                assert_eq!(retried.reversions(), position.reversions());
            }
            Err(_) => assert!(!stopped, "{position}"),
        }
    }
}

#[test]
fn after_the_point_of_no_return_apply_only_goes_forward() {
    let decided = applying_position().after(Move::Decide).unwrap();
    for asked in [
        Move::Cancel,
        Move::Revert,
        Move::Correct(Phase::Strategize),
        Move::Correct(Phase::Execute),
        Move::Constrain,
        Move::Decide,
        Move::Complete,
    ] {
        assert!(decided.after(asked).is_err(), "{asked:?}");
    }
    let retried = decided.after(Move::Fail).unwrap();
    let retried = retried.after(Move::Retry).unwrap();
    assert_eq!(retried.point_of_no_return(), PointOfNoReturn::Passed);
    assert_eq!(
        retried.after(Move::Cancel).unwrap_err().obstacle,
        Some(Obstacle::PointOfNoReturnPassed)
    );
}

#[test]
fn an_aborted_apply_can_be_decided_again() {
    for position in reachable_positions() {
        let stopped = matches!(position.state(), PlanState::Queued | PlanState::Errored)
            && position.point_of_no_return() == PointOfNoReturn::Passed;
        match position.after(Move::Abort) {
            Ok(aborted) => {
                assert!(stopped, "{position}");
                assert_eq!(aborted.to_string(), "apply/constrained");
                assert_eq!(aborted.point_of_no_return(), PointOfNoReturn::Ahead);
                assert_eq!(aborted.waiting(), None);
                assert!(aborted.after(Move::Cancel).is_ok());
                assert!(aborted.after(Move::Retry).is_ok());
            }
            Err(_) => assert!(!stopped, "{position}"),
        }
    }
}

#[test]
fn an_unapplied_plan_can_be_reworked() {
    let applied = applying_position().after(Move::Decide).unwrap();
    let applied = applied.after(Move::Apply).unwrap();
    let unapplied = applied.after(Move::Unapply).unwrap();
    assert_eq!(unapplied.to_string(), "apply/unapplied");
    assert!(unapplied.is_terminal());
    assert_eq!(unapplied.point_of_no_return(), PointOfNoReturn::Ahead);
    assert_eq!(
        unapplied.request_move(Move::Cancel),
        Ok(PositionOutcome::Unchanged(unapplied))
    );
    assert_eq!(
        unapplied.request_move(Move::Unapply),
        Ok(PositionOutcome::Unchanged(unapplied))
    );
    let again = unapplied.after(Move::Retry).unwrap();
    assert_eq!(again.to_string(), "apply/queued");
    let reverted = unapplied.after(Move::Revert).unwrap();
    assert_eq!(reverted.to_string(), "strategize/queued");
    let corrected = unapplied.after(Move::Correct(Phase::Execute)).unwrap();
    assert_eq!(corrected.to_string(), "execute/queued");
}

/// From every position that is not terminal, `applied` and another terminal state are reachable.
#[test]
fn no_position_is_a_dead_end() {
    for position in reachable_positions()
        .into_iter()
        .filter(|it| !it.is_terminal())
    {
        for wanted in [PlanState::Applied, PlanState::Cancelled] {
            let mut seen = HashSet::from([position]);
            let mut open = VecDeque::from([position]);
            let mut found = std::iter::from_fn(|| {
                let next = open.pop_front()?;
                for asked in every_move() {
                    if let Ok(after) = next.after(asked)
                        && seen.insert(after)
                    {
                        open.push_back(after);
                    }
                }
                Some(next)
            });
            let reached = found.any(|it| it.state() == wanted);
            assert!(reached, "{position:?} never becomes {wanted}");
        }
    }
}

#[test]
fn a_refusal_names_the_state_and_the_obstacle() {
    let errored = walk(&[Move::Start, Move::Fail]);
    assert_eq!(
        errored.after(Move::Apply).unwrap_err().to_string(),
        "cannot apply: the plan is at strategize/errored"
    );
    let waiting = walk(&[Move::Wait(WaitReason::Budget)]);
    assert_eq!(
        waiting.after(Move::Start).unwrap_err().to_string(),
        "cannot start: the plan is at strategize/queued and waits (budget)"
    );
    let complete = walk(&[Move::Start, Move::Complete]);
    assert_eq!(
        complete
            .after(Move::Advance(Phase::Apply))
            .unwrap_err()
            .to_string(),
        "cannot apply: the plan is at strategize/complete and must enter execute first"
    );
    assert_eq!(
        walk(&[Move::Cancel])
            .after(Move::Start)
            .unwrap_err()
            .to_string(),
        "cannot start: the plan is at strategize/cancelled, which is final"
    );
    assert_eq!(
        applying_position().after(Move::Apply).unwrap_err().obstacle,
        Some(Obstacle::PointOfNoReturnAhead)
    );
    assert_eq!(
        Position::new().after(Move::Resume).unwrap_err().obstacle,
        Some(Obstacle::NotWaiting)
    );
}

#[test]
fn every_obstacle_has_a_message() {
    for (obstacle, said) in [
        (Obstacle::NotWaiting, "waits for nothing"),
        (
            Obstacle::PointOfNoReturnPassed,
            "has passed the point of no return",
        ),
        (
            Obstacle::PointOfNoReturnAhead,
            "has not passed the point of no return",
        ),
        (
            Obstacle::WrongCorrectionPhase(Phase::Strategize),
            "returns to strategize",
        ),
    ] {
        assert_eq!(obstacle.to_string(), said);
    }
}

#[test]
fn a_repeated_command_returns_the_current_position() {
    let executing = walk(&moves_to_execute());
    let advance = Move::Advance(Phase::Execute);
    assert_eq!(
        executing.request_move(advance),
        Ok(PositionOutcome::Unchanged(executing))
    );
    assert!(Position::new().request_move(advance).is_err());

    let decided = applying_position().after(Move::Decide).unwrap();
    assert_eq!(
        decided.request_move(Move::Cancel),
        Ok(PositionOutcome::Unchanged(decided))
    );

    let applied = decided.after(Move::Apply).unwrap();
    let repeatable = |asked: &Move| !matches!(asked.kind(), MoveKind::Correct | MoveKind::Unapply);
    for asked in every_move().into_iter().filter(repeatable) {
        assert_eq!(
            applied.request_move(asked),
            Ok(PositionOutcome::Unchanged(applied))
        );
    }

    let reverted = executing.after(Move::Revert).unwrap();
    assert_eq!(
        executing.request_move(Move::Revert),
        Ok(PositionOutcome::Moved(reverted))
    );
    assert_eq!(
        reverted.request_move(Move::Revert),
        Ok(PositionOutcome::Unchanged(reverted))
    );
    let complete = walk(&[Move::Start, Move::Complete]);
    assert!(complete.request_move(Move::Revert).is_err());
}

#[test]
fn a_repeated_advance_never_enters_the_phase_after() {
    let executed = walk(&moves_to_execute()).after(Move::Complete).unwrap();
    assert_eq!(
        executed.request_move(Move::Advance(Phase::Execute)),
        Ok(PositionOutcome::Unchanged(executed))
    );
}

#[test]
fn a_phase_is_passed_when_its_work_is_done() {
    let strategized = walk(&[Move::Start, Move::Complete]);
    assert!(strategized.has_passed(Phase::Strategize));
    assert!(!strategized.has_passed(Phase::Execute));
    assert!(walk(&moves_to_execute()).has_passed(Phase::Strategize));
    assert!(!walk(&[Move::Cancel]).has_passed(Phase::Strategize));
}

#[test]
fn a_position_reads_back_from_json_and_an_impossible_one_is_refused() {
    for position in reachable_positions() {
        let json = serde_json::to_string(&position).unwrap();
        assert_eq!(serde_json::from_str::<Position>(&json).unwrap(), position);
    }
    let json = serde_json::to_string(&walk(&[Move::Wait(WAIT_REASONS[4])])).unwrap();
    assert_eq!(
        json,
        r#"{"phase":"strategize","state":"queued","waiting":{"kind":"until","until":"1970-01-01T00:00:00.000001Z"},"reversions":0,"point_of_no_return":"ahead"}"#
    );
    let impossible = json.replace("queued", "applied");
    let error = serde_json::from_str::<Position>(&impossible).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("a plan cannot be applied in strategize")
    );
}

#[test]
fn a_wait_reason_serialises_its_kind_as_text() {
    for waiting in WAIT_REASONS {
        let json = serde_json::to_value(waiting).unwrap();
        assert_eq!(json["kind"], waiting.kind().as_str());
    }
}

#[test]
fn a_new_plan_is_queued_for_strategize() {
    assert_eq!(Position::default().to_string(), "strategize/queued");
    assert_eq!(PositionParts::from(Position::new()).waiting, None);
}

proptest! {
    #[test]
    fn no_sequence_of_moves_reaches_an_illegal_position(
        moves in prop::collection::vec(prop::sample::select(every_move()), 0..200)
    ) {
        let mut position = Position::new();
        for asked in moves {
            let before = position;
            if let Ok(next) = position.after(asked) {
                position = next;
            }
            prop_assert!(Position::try_from(position.parts()).is_ok());
            prop_assert!(position.state().is_legal_in(position.phase()));
            prop_assert!(position.waiting().is_none() || position.state() == PlanState::Queued);
            prop_assert!(position.reversions() <= MAX_REVERSIONS);
            prop_assert!(position.reversions() >= before.reversions());
            prop_assert!(before.state() != PlanState::Cancelled || position == before);
            let unapplied = position.state() == PlanState::Unapplied;
            prop_assert!(before.state() != PlanState::Applied || position == before || unapplied);
        }
    }

    #[test]
    fn only_legal_moves_make_progress_and_no_walk_gets_stuck(
        choices in prop::collection::vec(any::<prop::sample::Index>(), 1..100)
    ) {
        let mut position = Position::new();
        for choice in choices {
            let legal: Vec<Move> = every_move()
                .into_iter()
                .filter(|asked| position.after(*asked).is_ok())
                .collect();
            if legal.is_empty() {
                prop_assert!(position.is_terminal());
                break;
            }
            position = position.after(*choice.get(&legal)).unwrap();
        }
    }
}
