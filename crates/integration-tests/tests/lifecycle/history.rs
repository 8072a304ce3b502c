//! The moves recorded in a plan's journal.

use cleveragents_domain::{Event, EventKind, Move, MoveKind, Position};
use cleveragents_engine::lifecycle::{PhaseRecord, StateRecord};
use serde::de::DeserializeOwned;

/// A recorded move, its author and its target position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JournalMove {
    pub(crate) actor: String,
    pub(crate) kind: MoveKind,
    pub(crate) to: Position,
}

#[derive(Debug)]
pub(crate) struct ReplayResult {
    pub(crate) position: Position,
    pub(crate) moves: Vec<JournalMove>,
}

/// Replays the journal's moves. Each must be legal at its position and lead to the recorded one.
#[track_caller]
pub(crate) fn replay(events: &[Event], start: Position) -> ReplayResult {
    let mut replayed = ReplayResult {
        position: start,
        moves: Vec::new(),
    };
    for event in events {
        let Some(asked) = move_of_event(event, replayed.position) else {
            continue;
        };
        replayed.position = match replayed.position.after(asked) {
            Ok(next) => next,
            Err(illegal) => panic!("the journal tells of an illegal move: {illegal}"),
        };
        assert_event_matches(event, replayed.position);
        replayed.moves.push(JournalMove {
            actor: event.actor.clone(),
            kind: asked.kind(),
            to: replayed.position,
        });
    }
    replayed
}

pub(crate) fn payload<T: DeserializeOwned>(event: &Event) -> T {
    serde_json::from_str(event.payload.as_ref().unwrap().get()).unwrap()
}

/// The move that an event records, made from `at`.
fn move_of_event(event: &Event, at: Position) -> Option<Move> {
    match event.kind {
        EventKind::PlanPhaseChanged | EventKind::PlanReverted | EventKind::PlanCorrected => {
            let record: PhaseRecord = payload(event);
            assert_eq!((record.from, record.from_state), (at.phase(), at.state()));
            Some(match event.kind {
                EventKind::PlanReverted => Move::Revert,
                EventKind::PlanCorrected => Move::Correct(record.to),
                _ => Move::Advance(record.to),
            })
        }
        EventKind::PlanStateChanged
        | EventKind::PlanApplied
        | EventKind::PlanCancelled
        | EventKind::PlanErrored
        | EventKind::PlanWaiting => {
            let record: StateRecord = payload(event);
            assert_eq!((record.phase, record.from), (at.phase(), at.state()));
            Some(match record.by {
                MoveKind::Start => Move::Start,
                MoveKind::Complete => Move::Complete,
                MoveKind::Fail => Move::Fail,
                MoveKind::Constrain => Move::Constrain,
                MoveKind::Decide => Move::Decide,
                MoveKind::Apply => Move::Apply,
                MoveKind::Abort => Move::Abort,
                MoveKind::Unapply => Move::Unapply,
                MoveKind::Wait => Move::Wait(record.waiting.unwrap()),
                MoveKind::Resume => Move::Resume,
                MoveKind::Retry => Move::Retry,
                MoveKind::Cancel => Move::Cancel,
                MoveKind::Advance | MoveKind::Revert | MoveKind::Correct => {
                    panic!("{record:?} enters a phase")
                }
            })
        }
        _ => None,
    }
}

fn assert_event_matches(event: &Event, to: Position) {
    if matches!(
        event.kind,
        EventKind::PlanPhaseChanged | EventKind::PlanReverted | EventKind::PlanCorrected
    ) {
        let record: PhaseRecord = payload(event);
        assert_eq!(
            (record.to, record.reversions),
            (to.phase(), to.reversions())
        );
    } else {
        let record: StateRecord = payload(event);
        assert_eq!((record.to, record.waiting), (to.state(), to.waiting()));
        assert_eq!(record.point_of_no_return, to.point_of_no_return());
    }
}
