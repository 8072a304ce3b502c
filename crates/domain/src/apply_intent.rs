//! The change that an apply makes to one target, computed in full before anything is written, so that
//! any process can finish it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::apply_record::Destination;
use crate::change::ResourcePath;
use crate::id::{ApplyId, PlanId};
use crate::project::{AbsolutePath, ResourceType};

/// Everything needed to execute or finish an apply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApplyIntent {
    pub version: u32,
    pub id: ApplyId,
    pub plan: PlanId,
    pub resource: AbsolutePath,
    pub resource_type: ResourceType,
    pub destination: Destination,
    /// Ordered by path.
    pub changes: Vec<PathChange>,
    pub effect: ApplyEffect,
    pub commit: CommitMetadata,
}

impl ApplyIntent {
    /// The current format version.
    pub const VERSION: u32 = 1;

    /// Whether the result is a change of this intent. A branch may have got the same change by a
    /// commit of another program, which is not ours to undo.
    pub fn owns(&self, result: &AppliedResult) -> bool {
        match &self.effect {
            ApplyEffect::Commit(_) => result.commit.is_some(),
            ApplyEffect::Files(_) | ApplyEffect::Patch(_) => true,
        }
    }
}

/// One path with its old and new state; `None` means no file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathChange {
    pub path: ResourcePath,
    pub old: Option<PathState>,
    pub new: Option<PathState>,
    /// The file has uncommitted edits of the user, which it keeps: its contents are those on disk,
    /// while the objects are those of the commits.
    #[serde(default, skip_serializing_if = "is_false")]
    pub keeps_edits: bool,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_false(flag: &bool) -> bool {
    !*flag
}

/// State of a path, in the object store and on disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathState {
    /// Git file mode.
    pub mode: u32,
    pub object: String,
    /// BLAKE3 of the bytes on disk, or of a link's target. `None` where no file is written.
    pub content: Option<ContentHash>,
}

/// Identifies a content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContentHash {
    pub hash: String,
    pub size: u64,
}

/// The changes of a commit of the intent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApplyEffect {
    /// A commit, and the files and indexes of every working tree that has its branch checked out.
    Commit(CommitEffect),
    /// Files below one folder.
    Files(FilesEffect),
    /// One new file.
    Patch(PatchEffect),
}

/// Moves a branch (or a detached `HEAD`) from one commit to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitEffect {
    /// Its full name; `None` for a detached `HEAD`.
    pub reference: Option<String>,
    /// `None` for a branch that has no commit or does not exist yet.
    pub old: Option<String>,
    pub new: String,
    pub old_tree: String,
    pub new_tree: String,
    pub object_format: ObjectFormat,
    /// Every working tree that has it checked out.
    pub checkouts: Vec<CheckoutEffect>,
}

/// One working tree and its index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckoutEffect {
    pub root: AbsolutePath,
    pub git_dir: AbsolutePath,
    /// Changed paths outside a sparse checkout: their index entries change, but no file.
    pub sparse: Vec<ResourcePath>,
}

/// Files below one folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilesEffect {
    pub root: AbsolutePath,
    /// Empty folders that are created. `removed` folders go only if they are still empty.
    pub made: Vec<ResourcePath>,
    pub removed: Vec<ResourcePath>,
}

/// A file that is created, or removed when reversed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PatchEffect {
    pub file: AbsolutePath,
    pub content: ContentHash,
    pub direction: PatchDirection,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PatchDirection {
    Write,
    Remove,
}

/// Location of the applied result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AppliedResult {
    /// The commit of the apply. `None` for files and patches, and for a branch that got the same change
    /// by another commit.
    pub commit: Option<String>,
    /// The full name of its branch.
    pub reference: Option<String>,
    /// The patch file that was written.
    pub file: Option<AbsolutePath>,
}

/// Author, time and message of a commit; nothing is read from the environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitMetadata {
    pub name: String,
    pub email: String,
    /// Seconds since 1970, UTC.
    pub seconds: i64,
    pub message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ObjectFormat {
    Sha1,
    Sha256,
}

impl ObjectFormat {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sha1 => "sha1",
            Self::Sha256 => "sha256",
        }
    }

    /// Number of hexadecimal digits of an object id.
    pub fn id_length(self) -> usize {
        match self {
            Self::Sha1 => 40,
            Self::Sha256 => 64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_intent_reads_back_as_it_was_written() {
        let path = |text: &str| AbsolutePath::from_bytes(text).unwrap();
        let state = |object: &str| PathState {
            mode: 0o100_644,
            object: object.repeat(20),
            content: Some(ContentHash {
                hash: "c3".repeat(32),
                size: 3,
            }),
        };
        let mut intent = ApplyIntent {
            version: ApplyIntent::VERSION,
            id: "01JZZZZZZZ0000000000ABCDEF".parse().unwrap(),
            plan: "01JZZZZZZZ0000000000ABCDEF".parse().unwrap(),
            resource: path("/home/a\u{1}b"),
            resource_type: ResourceType::GitCheckout,
            destination: Destination::Branch("topic".into()),
            changes: vec![PathChange {
                path: ResourcePath::from_bytes(&b"a\xff"[..]).unwrap(),
                old: Some(state("a1")),
                new: None,
                keeps_edits: true,
            }],
            effect: ApplyEffect::Commit(CommitEffect {
                reference: Some("refs/heads/topic".into()),
                old: None,
                new: "a1".repeat(20),
                old_tree: "b2".repeat(20),
                new_tree: "c3".repeat(20),
                object_format: ObjectFormat::Sha1,
                checkouts: vec![CheckoutEffect {
                    root: path("/home/a"),
                    git_dir: path("/home/a/.git"),
                    sparse: Vec::new(),
                }],
            }),
            commit: CommitMetadata {
                name: "A".into(),
                email: "a@localhost".into(),
                seconds: 7,
                message: "m".into(),
            },
        };
        let patch = ApplyEffect::Patch(PatchEffect {
            file: path("/tmp/p"),
            content: ContentHash {
                hash: "c3".repeat(32),
                size: 3,
            },
            direction: PatchDirection::Write,
        });
        let files = ApplyEffect::Files(FilesEffect {
            root: path("/home/a"),
            made: Vec::new(),
            removed: Vec::new(),
        });
        for effect in [intent.effect.clone(), patch, files] {
            intent.effect = effect;
            let json = serde_json::to_string(&intent).unwrap();
            assert_eq!(serde_json::from_str::<ApplyIntent>(&json).unwrap(), intent);
        }
    }
}
