//! What was found out about repositories a moment ago.
//!
//! Whoever works on a plan asks the same repository several times within a second what it is, and
//! each answer takes git twice. What is known holds for a short time, and only while the files that
//! would tell otherwise are as they were.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::repository::Found;

/// How long an answer holds.
const HOLDS: Duration = Duration::from_secs(2);

/// How many repositories are known at a time.
const MOST: usize = 64;

/// The repositories that were asked lately, for all who share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct KnownRepositories(Arc<Mutex<HashMap<PathBuf, Known>>>);

#[derive(Debug, Clone)]
struct Known {
    found: Found,
    at: Instant,
    witnesses: Witnesses,
}

/// The files that say what a repository is, as they were.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Witnesses([Option<[i64; 5]>; 3]);

impl Witnesses {
    fn of(found: &Found) -> Self {
        let files = [
            found.git_dir.clone(),
            found.git_dir.join("config.worktree"),
            found.common_dir.join("config"),
        ];
        Self(files.map(|file| {
            let facts = fs::metadata(file).ok()?;
            let id = [facts.dev().cast_signed(), facts.ino().cast_signed()];
            let state = [
                facts.mtime(),
                facts.mtime_nsec(),
                facts.size().cast_signed(),
            ];
            Some([id[0], id[1], state[0], state[1], state[2]])
        }))
    }
}

impl KnownRepositories {
    /// What is known of the repository at `path`, if that still holds.
    pub(crate) fn get(&self, path: &Path) -> Option<Found> {
        let known = {
            let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            known.get(path)?.clone()
        };
        let holds = known.at.elapsed() < HOLDS && known.witnesses == Witnesses::of(&known.found);
        holds.then_some(known.found)
    }

    pub(crate) fn keep(&self, path: PathBuf, found: Found) {
        let witnesses = Witnesses::of(&found);
        let at = Instant::now();
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(
            path,
            Known {
                found,
                at,
                witnesses,
            },
        );
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use cleveragents_engine::ports::sandbox::{ObjectFormat, SandboxError};

    use crate::git::{Git, GitSettings};
    use crate::private_dir::PrivateGitDir;
    use crate::repository::Repository;

    fn shaping(repository: &Repository) -> Option<String> {
        let mut settings = repository.settings.shaping.iter();
        let found = settings.find(|(key, _)| key.eq_ignore_ascii_case("core.autocrlf"));
        found.map(|(_, value)| value.clone())
    }

    #[test]
    fn what_is_known_holds_until_the_repository_is_another() {
        let folder = tempfile::tempdir().unwrap();
        let settings = GitSettings {
            program: "git".into(),
            search_path: "/usr/local/bin:/usr/bin:/bin".into(),
            home: "/nonexistent".into(),
            timeout: Duration::from_secs(60),
        };
        let git = Git::new(settings, folder.path().join("scratch"));
        let path = folder.path().join("shop");
        std::fs::create_dir(&path).unwrap();
        let dir = PrivateGitDir::new(path.join(".git"));
        dir.init(ObjectFormat::Sha1).unwrap();
        let first = Repository::known(&git, &path).unwrap();
        assert_eq!(shaping(&first), None);
        let call = git.private(&dir, ["config", "core.autocrlf", "input"]);
        call.run().unwrap();
        let second = Repository::known(&git, &path).unwrap();
        assert_eq!(shaping(&second).as_deref(), Some("input"));
        std::fs::remove_dir_all(path.join(".git")).unwrap();
        let gone = Repository::known(&git, &path);
        assert!(
            matches!(gone, Err(SandboxError::NotARepository { .. })),
            "{gone:?}"
        );
    }
}
