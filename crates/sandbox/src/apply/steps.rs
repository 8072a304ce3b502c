//! The durable steps of an apply, and who is told of them.

use std::fmt::Debug;

/// A step after which something is on disk that was not there before. A process may die at each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ApplyStep {
    /// The files to be written lie ready.
    Staged,
    /// The new commit is in a store of ours.
    Committed,
    /// The pack is about to be given, and it is written down which.
    PackRecorded,
    /// The new objects are in the user's repository, kept by a file.
    PackInstalled,
    /// The new objects are kept by a ref of ours.
    Pinned,
    /// The intent is written down; preparing ends here.
    IntentWritten,
    /// One index is locked against the user's git.
    IndexLocked,
    /// The branch is locked against the user's git.
    BranchLocked,
    /// Carrying out has begun.
    Started,
    /// The new content of one path lies beside it, perhaps not yet whole.
    PathDrafted,
    /// The new content of one path lies beside it, whole.
    PathWritten,
    /// The new content is in place, the old one beside it.
    PathSwapped,
    /// The old content of one path is gone.
    PathSettled,
    /// One index says what the files are.
    IndexReplaced,
    /// The branch stands at the new commit.
    BranchMoved,
    /// One index may be used by the user's git again.
    IndexUnlocked,
    /// It is written down that all is done.
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

    /// Its name for people and logs.
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

/// Is told of each step as soon as it is on disk.
pub trait Watcher: Send + Sync + Debug {
    fn reached(&self, step: ApplyStep) {
        let _ = step;
    }

    /// Whether several targets are prepared at the same time. Who counts steps needs their order.
    fn allows_parallel(&self) -> bool {
        false
    }
}

/// Looks away.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoWatcher;

impl Watcher for NoWatcher {
    fn allows_parallel(&self) -> bool {
        true
    }
}
