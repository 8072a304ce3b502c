//! Converts errors of the store into failures with exit code, reason and hints.

use cleveragents_api::action::ActionList;
use cleveragents_api::gc::Gc;
use cleveragents_api::{ExitClass, FailureKind, NextStep};
use cleveragents_ports::{StoreError, UniqueKey};

use super::{RequestError, display_path, excerpt};

impl From<StoreError> for RequestError {
    fn from(error: StoreError) -> Self {
        let shown = error.to_string();
        refused_failure(&error)
            .or_else(|| temporary_failure(&error))
            .or_else(|| unusable_directory_failure(&error))
            .or_else(|| unusable_database_failure(&error))
            .unwrap_or_else(|| {
                RequestError::new(ExitClass::Error, shown)
                    .kind(FailureKind::Internal)
                    .because("this should not happen; please report it")
                    .hint("agents diagnostics")
            })
    }
}

/// Converts errors of a working store that refuses the request.
fn refused_failure(error: &StoreError) -> Option<RequestError> {
    let conflict = |kind| RequestError::new(ExitClass::Conflict, error.to_string()).kind(kind);
    Some(match error {
        StoreError::Conflict { .. } => {
            conflict(FailureKind::Conflict).hint("check its current state, then repeat the command")
        }
        StoreError::Taken {
            key: UniqueKey::SingleUse,
            ..
        } => conflict(FailureKind::Used)
            .because("it has `reusable: false`, so it can be used once")
            .hint("set `reusable: true`, or register it under another name"),
        StoreError::Taken { .. } | StoreError::Referenced { .. } => {
            conflict(FailureKind::Taken).hint("choose another name")
        }
        StoreError::LockNameTooLong { .. } => RequestError::usage("the name of a lock is too long")
            .kind(FailureKind::TooLong)
            .because(error.to_string())
            .hint("give a shorter one"),
        StoreError::Archived { .. } => {
            conflict(FailureKind::Archived).hint(NextStep::send(&ActionList::default()))
        }
        StoreError::Refused { .. } => {
            conflict(FailureKind::Refused).hint("check its current state, then repeat the command")
        }
        StoreError::NotEmpty { contents } => {
            RequestError::new(ExitClass::Conflict, "the database is not empty")
                .kind(FailureKind::NotEmpty)
                .because(format!("it holds {}", contents.join(", ")))
                .with_facts(|facts| facts.contents = Some(contents.clone()))
        }
        StoreError::LockHeld { .. } => conflict(FailureKind::LockHeld).hint("agents diagnostics"),
        StoreError::LockLost { .. } | StoreError::LeaseLost { .. } => {
            conflict(FailureKind::Lost).hint("agents diagnostics")
        }
        StoreError::OperationReused { .. } => conflict(FailureKind::OperationReused),
        StoreError::NotFound { entity, id } => {
            let what = format!("there is no {entity} `{}`", excerpt(id));
            RequestError::new(ExitClass::NotFound, what)
        }
        StoreError::Ambiguous {
            fragment,
            candidates,
        } => RequestError::usage(format!("`{}` is ambiguous", excerpt(fragment)))
            .kind(FailureKind::Ambiguous)
            .because(candidates.join(", "))
            .hint("give more characters")
            .with_candidates(candidates.clone()),
        _ => return None,
    })
}

/// Converts errors that lose nothing and may disappear on a retry.
fn temporary_failure(error: &StoreError) -> Option<RequestError> {
    Some(match error {
        StoreError::Unavailable { reason } => {
            RequestError::new(ExitClass::Temporary, "the database cannot be reached")
                .kind(FailureKind::Unavailable)
                .because(reason)
                .hint("agents config get core.database-url --verbose")
                .hint("check that it runs, then repeat the command")
        }
        StoreError::InUse { holders } => {
            RequestError::new(ExitClass::Temporary, "the database is in use")
                .kind(FailureKind::InUse)
                .because(format!("others have it open: {}", holders.join("; ")))
                .hint("wait until they end, then repeat the command")
                .with_facts(|facts| facts.holders = Some(holders.clone()))
        }
        _ => return None,
    })
}

/// Converts errors of the data directory: full disk, permissions, network file system, removed
/// while in use.
fn unusable_directory_failure(error: &StoreError) -> Option<RequestError> {
    Some(match error {
        StoreError::Full { path, reason } => {
            let what = format!("no space left for {}", display_path(path));
            RequestError::new(ExitClass::Error, what)
                .kind(FailureKind::Full)
                .because(reason)
                .hint("free some space, then repeat the command")
                .hint(NextStep::send(&Gc::default()))
        }
        StoreError::NotWritable { path, reason } => {
            let what = format!("{} cannot be written", display_path(path));
            RequestError::new(ExitClass::Error, what)
                .kind(FailureKind::NotWritable)
                .because(reason)
                .hint(format!(
                    "check owner and permissions: ls -ld '{}'",
                    display_path(path)
                ))
                .hint("agents --data-dir DIR …")
        }
        StoreError::NetworkFileSystem { path, kind } => {
            let what = format!(
                "{} is on a network file system ({kind})",
                display_path(path)
            );
            RequestError::new(ExitClass::Error, what)
                .kind(FailureKind::NetworkFileSystem)
                .because("its locks do not hold between machines, so data could be lost")
                .hint("agents --data-dir DIR … with a directory on a local disk")
                .hint(
                    "to share data between machines: \
                     agents config set core.database-url postgresql://…",
                )
        }
        StoreError::Vanished { path } => {
            let what = format!(
                "the data directory {} was removed or replaced while in use",
                display_path(path)
            );
            RequestError::new(ExitClass::Error, what)
                .kind(FailureKind::Vanished)
                .hint("restore the directory, or run: agents restore FILE")
        }
        _ => return None,
    })
}

/// Converts errors of a database that this program cannot use.
fn unusable_database_failure(error: &StoreError) -> Option<RequestError> {
    Some(match error {
        StoreError::Altered { path, fault } => {
            let what = format!("the journal in {} was altered", display_path(path));
            RequestError::new(ExitClass::Error, what)
                .kind(FailureKind::Altered)
                .because(fault)
                .hint("agents diagnostics")
        }
        StoreError::Corrupt { path, reason } => {
            let what = format!("{} is damaged", display_path(path));
            RequestError::new(ExitClass::Error, what)
                .kind(FailureKind::Corrupt)
                .because(reason)
                .hint("agents restore FILE --force (keeps the damaged file)")
                .hint("agents diagnostics")
        }
        StoreError::Newer {
            place,
            found,
            known,
            written_by,
        } => RequestError::new(
            ExitClass::Error,
            format!("{place} was written by a newer version of agents"),
        )
        .kind(FailureKind::Newer)
        .because(format!(
            "it has schema {found}, written by agents {written_by}; \
                 this one knows schemas up to {known}"
        ))
        .hint(format!("upgrade to agents {written_by} or newer"))
        .hint("agents --data-dir DIR …"),
        StoreError::Address { reason } => {
            RequestError::usage("the database address (core.database-url) is not usable")
                .kind(FailureKind::DatabaseAddress)
                .because(reason)
                .hint("agents config get core.database-url --verbose")
                .hint("agents config set core.database-url postgresql://USER@HOST/DATABASE")
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use cleveragents_domain::Timestamp;
    use cleveragents_ports::Entity;

    use super::*;

    fn text() -> String {
        "text".to_owned()
    }

    fn conflicts() -> [StoreError; 9] {
        let id = "01JZZZZZZZ0000000000ABCDEF";
        let (owner, plan) = (id.parse().unwrap(), id.parse().unwrap());
        [
            StoreError::Conflict {
                entity: Entity::Plan,
                id: text(),
                expected: 1,
                found: 2,
            },
            StoreError::Taken {
                key: UniqueKey::Name(Entity::Plan),
                name: text(),
                holder: text(),
            },
            StoreError::Archived {
                entity: Entity::Action,
                name: text(),
            },
            StoreError::Refused {
                entity: Entity::Changeset,
                id: text(),
                reason: text(),
            },
            StoreError::NotEmpty {
                contents: vec![text()],
            },
            StoreError::LockHeld {
                name: text(),
                owner,
                node: text(),
                epoch: 1,
                expires_at: Timestamp::default(),
            },
            StoreError::LockLost {
                name: text(),
                owner,
                epoch: 1,
            },
            StoreError::LeaseLost { plan, epoch: 1 },
            StoreError::OperationReused {
                id: text(),
                first: text(),
                second: text(),
            },
        ]
    }

    fn broken_directories() -> [StoreError; 8] {
        let (path, reason) = (PathBuf::from("/p"), text());
        [
            StoreError::Full {
                path: path.clone(),
                reason: reason.clone(),
            },
            StoreError::NotWritable {
                path: path.clone(),
                reason: reason.clone(),
            },
            StoreError::Corrupt {
                path: path.clone(),
                reason,
            },
            StoreError::Altered {
                path: path.clone(),
                fault: text(),
            },
            StoreError::Newer {
                place: text(),
                found: 9,
                known: 1,
                written_by: text(),
            },
            StoreError::NetworkFileSystem {
                path: path.clone(),
                kind: text(),
            },
            StoreError::Vanished { path },
            StoreError::internal("text"),
        ]
    }

    fn other_errors() -> [(StoreError, ExitClass); 6] {
        let too_long = StoreError::LockNameTooLong {
            length: 2000,
            maximum: 1000,
        };
        let not_found = StoreError::NotFound {
            entity: Entity::Plan,
            id: text(),
        };
        let ambiguous = StoreError::Ambiguous {
            fragment: text(),
            candidates: vec![text()],
        };
        let in_use = StoreError::InUse {
            holders: vec![text()],
        };
        [
            (not_found, ExitClass::NotFound),
            (too_long, ExitClass::Usage),
            (ambiguous, ExitClass::Usage),
            (StoreError::Address { reason: text() }, ExitClass::Usage),
            (StoreError::unavailable("text"), ExitClass::Temporary),
            (in_use, ExitClass::Temporary),
        ]
    }

    #[test]
    fn a_too_long_value_reports_both_lengths() {
        let failure = RequestError::from(StoreError::LockNameTooLong {
            length: 2000,
            maximum: 1000,
        });
        assert_eq!(failure.kind, FailureKind::TooLong);
        assert_eq!(
            failure.to_string(),
            "the name of a lock is too long: \
             the name of a lock may be 1000 bytes long, this one has 2000"
        );
    }

    #[test]
    fn every_refusal_has_an_exit_code_and_a_hint() {
        let conflicts = conflicts().map(|error| (error, ExitClass::Conflict));
        let broken = broken_directories().map(|error| (error, ExitClass::Error));
        for (error, exit) in conflicts.into_iter().chain(broken).chain(other_errors()) {
            let shown = format!("{error:?}");
            let failure = RequestError::from(error);
            assert_eq!(failure.exit, exit, "{shown}");
            assert!(!failure.message.is_empty(), "{shown}");
            let reused = failure.kind == FailureKind::OperationReused;
            let explained = !failure.next_steps.is_empty() || exit == ExitClass::NotFound;
            assert!(
                explained || reused || failure.kind == FailureKind::NotEmpty,
                "{shown}"
            );
        }
    }
}
