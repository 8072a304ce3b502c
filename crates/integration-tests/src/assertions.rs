//! Assertions about expected refusals, with all their details.

use std::fmt::Debug;

use cleveragents_engine::ports::{Result, StoreError};

/// Asserts `Taken` with this `(what, name, holder)`.
///
/// # Panics
///
/// If the result is different.
#[track_caller]
pub fn assert_taken<T: Debug>(answer: Result<T>, wanted: (&str, &str, &str)) {
    match answer {
        Err(StoreError::Taken { what, name, holder }) => {
            assert_eq!((what, name.as_str(), holder.as_str()), wanted);
        }
        other => panic!("{other:?} instead of Taken"),
    }
}

/// Asserts `NotFound` with this `(what, id)`.
///
/// # Panics
///
/// If the result is different.
#[track_caller]
pub fn assert_missing<T: Debug>(answer: Result<T>, wanted: (&str, &str)) {
    match answer {
        Err(StoreError::NotFound { what, id }) => assert_eq!((what, id.as_str()), wanted),
        other => panic!("{other:?} instead of NotFound"),
    }
}

/// Asserts `Conflict` with this `(what, expected, found)`.
///
/// # Panics
///
/// If the result is different.
#[track_caller]
pub fn assert_conflict<T: Debug>(answer: Result<T>, wanted: (&str, i64, i64)) {
    match answer {
        Err(StoreError::Conflict {
            what,
            expected,
            found,
            ..
        }) => assert_eq!((what, expected, found), wanted),
        other => panic!("{other:?} instead of a conflict"),
    }
}

/// Asserts `Refused` with this `(what, id, reason)`.
///
/// # Panics
///
/// If the result is different.
#[track_caller]
pub fn assert_refused<T: Debug>(answer: Result<T>, wanted: (&str, &str, &str)) {
    match answer {
        Err(StoreError::Refused { what, id, reason }) => {
            assert_eq!((what, id.as_str(), reason.as_str()), wanted);
        }
        other => panic!("{other:?} instead of a refusal"),
    }
}

/// Asserts `Ambiguous` with these candidates.
///
/// # Panics
///
/// If the result is different.
#[track_caller]
pub fn assert_ambiguous<T: Debug>(answer: Result<T>, wanted: &[String]) {
    match answer {
        Err(StoreError::Ambiguous { candidates, .. }) => assert_eq!(candidates, wanted),
        other => panic!("{other:?} instead of Ambiguous"),
    }
}

/// Returns the only successful result, and all refusals.
///
/// # Panics
///
/// If none or several succeeded.
#[track_caller]
pub fn assert_one_winner<T: Debug>(answers: Vec<Result<T>>) -> (T, Vec<StoreError>) {
    let mut winners = Vec::new();
    let mut refused = Vec::new();
    for answer in answers {
        match answer {
            Ok(value) => winners.push(value),
            Err(error) => refused.push(error),
        }
    }
    match (winners.pop(), winners.is_empty()) {
        (Some(winner), true) => (winner, refused),
        (winner, _) => panic!("not one winner: {winner:?} and {winners:?}"),
    }
}
