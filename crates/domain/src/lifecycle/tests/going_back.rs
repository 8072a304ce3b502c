//! Back to an earlier phase: reversions, and corrections of decisions.

use super::*;

#[test]
fn the_fourth_reversion_is_refused_but_strategize_may_be_retried() {
    let mut position = Position::new();
    for count in 1..=MAX_REVERSIONS {
        for asked in to_execute() {
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
    for asked in to_execute() {
        position = position.after(asked).unwrap();
    }
    let refused = position.after(Move::Revert).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "cannot revert: the plan is at execute/processing and has been reverted 3 times, \
         which is all; legal now: complete, fail, constrain, wait, correct, cancel"
    );
}

#[test]
fn a_correction_leads_to_the_phase_it_names_from_everywhere_before_the_end() {
    for position in reachable() {
        let ahead = position.point_of_no_return() == PointOfNoReturn::Ahead;
        let unapplied = position.state() == State::Unapplied;
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
            assert_eq!((corrected.phase(), corrected.state()), (to, State::Queued));
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
fn a_correction_is_never_one_that_was_made_before() {
    let again = Position::new();
    let asked = Move::Correct(Phase::Strategize);
    assert_eq!(again.ask(asked), Ok(Answer::Moved(again)));
    assert_eq!(
        walk(&[Move::Cancel]).ask(asked).unwrap_err().to_string(),
        "cannot correct: the plan is at strategize/cancelled, which is final"
    );
}

#[test]
fn a_refused_correction_says_what_is_in_the_way() {
    let obstacle = |at: Position, to| at.after(Move::Correct(to)).unwrap_err().obstacle;
    let back = Obstacle::GoesBackTo(Phase::Strategize);
    assert_eq!(obstacle(Position::new(), Phase::Execute), Some(back));
    let decided = applying().after(Move::Decide).unwrap();
    assert_eq!(
        obstacle(decided, Phase::Strategize),
        Some(Obstacle::PointOfNoReturnPassed)
    );
    assert!(decided.after(Move::Correct(Phase::Execute)).is_err());
    let mut spent = Position::new();
    for _ in 0..MAX_REVERSIONS {
        for asked in to_execute() {
            spent = spent.after(asked).unwrap();
        }
        spent = spent.after(Move::Correct(Phase::Strategize)).unwrap();
    }
    for asked in to_execute() {
        spent = spent.after(asked).unwrap();
    }
    assert_eq!(
        obstacle(spent, Phase::Strategize),
        Some(Obstacle::ReversionsSpent)
    );
    assert!(spent.after(Move::Correct(Phase::Execute)).is_ok());
}
