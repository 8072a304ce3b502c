//! The durable steps of an apply, and the watcher that is notified of them.

use std::fmt::Debug;

/// A step that leaves something new on disk. A process may be killed after each of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ApplyStep {
    /// The files to be written are prepared.
    Staged,
    /// The new commit is in our private store.
    Committed,
    /// The pack is about to be installed, and the record names it.
    PackRecorded,
    /// The new objects are in the user's repository, protected by a `.keep` file.
    PackInstalled,
    /// The new objects are protected by a ref of ours.
    Pinned,
    /// The intent is recorded; preparation ends here.
    IntentWritten,
    /// One index is locked against the user's git.
    IndexLocked,
    /// The branch is locked against the user's git.
    BranchLocked,
    /// The record says that the user's data changes from now on.
    Started,
    /// The new content of one path is beside it, possibly incomplete.
    PathDrafted,
    /// The new content of one path is beside it, complete.
    PathWritten,
    /// The new content is in place, the old one beside it.
    PathSwapped,
    /// The old content of one path is removed.
    PathSettled,
    /// One index matches the new files.
    IndexReplaced,
    /// The branch is at the new commit.
    BranchMoved,
    /// The user's git may use one index again.
    IndexUnlocked,
    /// The apply is recorded as done.
    DoneRecorded,
}

impl ApplyStep {
    pub const ALL: [Self; 17] = [
        Self::Staged,
        Self::Committed,
        Self::PackRecorded,
        Self::PackInstalled,
        Self::Pinned,
        Self::IntentWritten,
        Self::IndexLocked,
        Self::BranchLocked,
        Self::Started,
        Self::PathDrafted,
        Self::PathWritten,
        Self::PathSwapped,
        Self::PathSettled,
        Self::IndexReplaced,
        Self::BranchMoved,
        Self::IndexUnlocked,
        Self::DoneRecorded,
    ];

    /// Returns the name for users and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Staged => "staged",
            Self::Committed => "committed",
            Self::PackRecorded => "pack noted",
            Self::PackInstalled => "pack given",
            Self::Pinned => "pinned",
            Self::IntentWritten => "intent kept",
            Self::Started => "begun",
            Self::IndexLocked => "index locked",
            Self::BranchLocked => "branch locked",
            Self::PathDrafted => "path drafted",
            Self::PathWritten => "path written",
            Self::PathSwapped => "path swapped",
            Self::PathSettled => "path settled",
            Self::IndexReplaced => "index replaced",
            Self::BranchMoved => "branch moved",
            Self::IndexUnlocked => "index unlocked",
            Self::DoneRecorded => "done noted",
        }
    }
}

/// Notified of each step as soon as it is on disk.
pub trait Watcher: Send + Sync + Debug {
    fn reached(&self, step: ApplyStep) {
        let _ = step;
    }

    /// Whether targets may be prepared in parallel. A watcher that counts steps needs a fixed order.
    fn allows_parallel(&self) -> bool {
        false
    }
}

/// Ignores every step.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoWatcher;

impl Watcher for NoWatcher {
    fn allows_parallel(&self) -> bool {
        true
    }
}
