//! Moves to an earlier phase: reversions, and corrections of decisions.

use super::*;

#[test]
fn the_fourth_reversion_is_refused_but_strategize_may_be_retried() {
    let mut position = Position::new();
    for count in 1..=MAX_REVERSIONS {
        for asked in moves_to_execute() {
            position = position.after(asked).unwrap();
        }
        position = position.after(Move::Fail).unwrap();
        position = position.after(Move::Revert).unwrap();
        assert_eq!(position.reversions(), count);
        assert_eq!(position.to_string(), "strategize/queued");
    }
    let errored = position.after(Move::Start).unwrap();
    let errored = errored.after(Move::Fail).unwrap();
    let again = errored.after(Move::Revert).unwrap();
    assert_eq!(again.reversions(), MAX_REVERSIONS);
    for asked in moves_to_execute() {
        position = position.after(asked).unwrap();
    }
    let refused = position.after(Move::Revert).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "cannot revert: the plan is at execute/processing and has been reverted 3 times, \
         the maximum"
    );
}

#[test]
fn a_correction_reaches_its_phase_from_every_open_position() {
    for position in reachable_positions() {
        let ahead = position.point_of_no_return() == PointOfNoReturn::Ahead;
        let unapplied = position.state() == PlanState::Unapplied;
        let open = (!position.is_terminal() || unapplied) && ahead;
        let left = position.reversions() < MAX_REVERSIONS;
        let early = position.phase() == Phase::Strategize;
        for to in Phase::ALL.iter().copied() {
            let expected = open
                && match to {
                    Phase::Strategize => early || left,
                    Phase::Execute => !early,
                    Phase::Apply => false,
                };
            let corrected = position.after(Move::Correct(to));
            assert_eq!(corrected.is_ok(), expected, "{position:?} to {to}");
            let Ok(corrected) = corrected else { continue };
            assert_eq!(
                (corrected.phase(), corrected.state()),
                (to, PlanState::Queued)
            );
            assert_eq!(corrected.waiting(), None);
            let reversion = to == Phase::Strategize && !early;
            assert_eq!(
                corrected.reversions(),
                position.reversions() + u32::from(reversion)
            );
        }
    }
}

#[test]
fn a_repeated_correction_is_a_new_correction() {
    let again = Position::new();
    let asked = Move::Correct(Phase::Strategize);
    assert_eq!(again.request_move(asked), Ok(PositionOutcome::Moved(again)));
    assert_eq!(
        walk(&[Move::Cancel])
            .request_move(asked)
            .unwrap_err()
            .to_string(),
        "cannot correct: the plan is at strategize/cancelled, which is final"
    );
}

#[test]
fn a_refused_correction_names_the_obstacle() {
    let obstacle = |at: Position, to| at.after(Move::Correct(to)).unwrap_err().obstacle;
    let back = Obstacle::WrongCorrectionPhase(Phase::Strategize);
    assert_eq!(obstacle(Position::new(), Phase::Execute), Some(back));
    let decided = applying_position().after(Move::Decide).unwrap();
    assert_eq!(
        obstacle(decided, Phase::Strategize),
        Some(Obstacle::PointOfNoReturnPassed)
    );
    assert!(decided.after(Move::Correct(Phase::Execute)).is_err());
    let mut spent = Position::new();
    for _ in 0..MAX_REVERSIONS {
        for asked in moves_to_execute() {
            spent = spent.after(asked).unwrap();
        }
        spent = spent.after(Move::Correct(Phase::Strategize)).unwrap();
    }
    for asked in moves_to_execute() {
        spent = spent.after(asked).unwrap();
    }
    assert_eq!(
        obstacle(spent, Phase::Strategize),
        Some(Obstacle::ReversionsExhausted)
    );
    assert!(spent.after(Move::Correct(Phase::Execute)).is_ok());
}
