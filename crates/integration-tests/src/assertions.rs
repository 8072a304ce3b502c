//! Assertions about expected refusals, with all their details.

use std::fmt::Debug;

use cleveragents_ports::{Result, StoreError};

/// Asserts `Taken` with this `(key, name, holder)`.
///
/// # Panics
///
/// If the result is different.
#[track_caller]
pub fn assert_taken<T: Debug>(answer: Result<T>, wanted: (&str, &str, &str)) {
    match answer {
        Err(StoreError::Taken { key, name, holder }) => {
            let key = key.to_string();
            assert_eq!((key.as_str(), name.as_str(), holder.as_str()), wanted);
        }
        other => panic!("{other:?} instead of Taken"),
    }
}

/// Asserts `Referenced` with this `(entity, name)` and these referrers.
///
/// # Panics
///
/// If the result is different.
#[track_caller]
pub fn assert_referenced<T: Debug>(answer: Result<T>, wanted: (&str, &str), by: &[&str]) {
    match answer {
        Err(StoreError::Referenced {
            entity,
            name,
            referrers,
        }) => {
            assert_eq!((entity.as_str(), name.as_str()), wanted);
            assert_eq!(referrers, by);
        }
        other => panic!("{other:?} instead of Referenced"),
    }
}

/// Asserts `NotFound` with this `(entity, id)`.
///
/// # Panics
///
/// If the result is different.
#[track_caller]
pub fn assert_missing<T: Debug>(answer: Result<T>, wanted: (&str, &str)) {
    match answer {
        Err(StoreError::NotFound { entity, id }) => {
            assert_eq!((entity.as_str(), id.as_str()), wanted);
        }
        other => panic!("{other:?} instead of NotFound"),
    }
}

/// Asserts `Conflict` with this `(entity, expected, found)`.
///
/// # Panics
///
/// If the result is different.
#[track_caller]
pub fn assert_conflict<T: Debug>(answer: Result<T>, wanted: (&str, i64, i64)) {
    match answer {
        Err(StoreError::Conflict {
            entity,
            expected,
            found,
            ..
        }) => assert_eq!((entity.as_str(), expected, found), wanted),
        other => panic!("{other:?} instead of a conflict"),
    }
}

/// Asserts `Refused` with this `(entity, id, reason)`.
///
/// # Panics
///
/// If the result is different.
#[track_caller]
pub fn assert_refused<T: Debug>(answer: Result<T>, wanted: (&str, &str, &str)) {
    match answer {
        Err(StoreError::Refused { entity, id, reason }) => {
            assert_eq!((entity.as_str(), id.as_str(), reason.as_str()), wanted);
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
