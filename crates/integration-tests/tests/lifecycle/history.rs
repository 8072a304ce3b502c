//! The moves recorded in a plan's journal.

use cleveragents_domain::event::payloads::{PhaseChange, StateChange};
use cleveragents_domain::{Event, EventBody, EventKind, Move, MoveKind, Position};

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

/// The change of a plan's position that an event records.
enum PositionChange {
    Phase(PhaseChange),
    State(StateChange),
}

impl PositionChange {
    fn of(event: &Event) -> Option<Self> {
        match event.read_body().unwrap().known()? {
            EventBody::PlanPhaseChanged(it) => Some(Self::Phase(it.0)),
            EventBody::PlanReverted(it) => Some(Self::Phase(it.0)),
            EventBody::PlanCorrected(it) => Some(Self::Phase(it.0)),
            EventBody::PlanStateChanged(it) => Some(Self::State(it.0)),
            EventBody::PlanApplied(it) => Some(Self::State(it.0)),
            EventBody::PlanCancelled(it) => Some(Self::State(it.0)),
            EventBody::PlanErrored(it) => Some(Self::State(it.0)),
            EventBody::PlanWaiting(it) => Some(Self::State(it.0)),
            _ => None,
        }
    }
}

/// The move that an event records, made from `at`.
fn move_of_event(event: &Event, at: Position) -> Option<Move> {
    match PositionChange::of(event)? {
        PositionChange::Phase(record) => {
            assert_eq!((record.from, record.from_state), (at.phase(), at.state()));
            Some(match event.kind {
                EventKind::PlanReverted => Move::Revert,
                EventKind::PlanCorrected => Move::Correct(record.to),
                _ => Move::Advance(record.to),
            })
        }
        PositionChange::State(record) => {
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
    }
}

fn assert_event_matches(event: &Event, to: Position) {
    match PositionChange::of(event) {
        Some(PositionChange::Phase(record)) => assert_eq!(
            (record.to, record.reversions),
            (to.phase(), to.reversions())
        ),
        Some(PositionChange::State(record)) => {
            assert_eq!((record.to, record.waiting), (to.state(), to.waiting()));
            assert_eq!(record.point_of_no_return, to.point_of_no_return());
        }
        None => panic!("{} records no move", event.kind),
    }
}
