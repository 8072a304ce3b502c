//! A short-lived cache of repository properties.
//!
//! Running a plan queries the same repository several times within a second, and each query runs git
//! twice. An entry is valid for a short time, and only while the files that define the repository are
//! unchanged.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::repository::RepositoryInfo;

/// Lifetime of an entry.
const CACHE_TTL: Duration = Duration::from_secs(2);

/// Maximum number of entries.
const MAX_ENTRIES: usize = 64;

/// Recently queried repositories. Clones share the cache.
#[derive(Debug, Clone, Default)]
pub(crate) struct RepositoryCache(Arc<Mutex<HashMap<PathBuf, CachedRepository>>>);

#[derive(Debug, Clone)]
struct CachedRepository {
    info: RepositoryInfo,
    cached_at: Instant,
    fingerprint: RepositoryFingerprint,
}

/// The state of the files that define a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
struct RepositoryFingerprint([Option<[i64; 5]>; 3]);

impl RepositoryFingerprint {
    fn read(found: &RepositoryInfo) -> Self {
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

impl RepositoryCache {
    /// Returns the cached entry for `path` if it is still valid.
    pub(crate) fn get(&self, path: &Path) -> Option<RepositoryInfo> {
        // The mutex is released before the files are read (law 7).
        let known = {
            let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            known.get(path)?.clone()
        };
        let holds = known.cached_at.elapsed() < CACHE_TTL
            && known.fingerprint == RepositoryFingerprint::read(&known.info);
        holds.then_some(known.info)
    }

    pub(crate) fn insert(&self, path: PathBuf, found: RepositoryInfo) {
        let witnesses = RepositoryFingerprint::read(&found);
        let at = Instant::now();
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_ENTRIES {
            known.clear();
        }
        known.insert(
            path,
            CachedRepository {
                info: found,
                cached_at: at,
                fingerprint: witnesses,
            },
        );
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use cleveragents_ports::sandbox::{ObjectFormat, SandboxError};

    use crate::git::{Git, GitSettings};
    use crate::private_dir::PrivateGitDir;
    use crate::repository::UserRepository;

    fn shaping(repository: &UserRepository) -> Option<String> {
        let mut settings = repository.settings.shaping.iter();
        let found = settings.find(|(key, _)| key.eq_ignore_ascii_case("core.autocrlf"));
        found.map(|(_, value)| value.clone())
    }

    #[test]
    fn a_cached_repository_is_dropped_when_it_changes() {
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
        let first = UserRepository::find_cached(&git, &path).unwrap();
        assert_eq!(shaping(&first), None);
        let call = git.private_call(&dir, ["config", "core.autocrlf", "input"]);
        call.run().unwrap();
        let second = UserRepository::find_cached(&git, &path).unwrap();
        assert_eq!(shaping(&second).as_deref(), Some("input"));
        std::fs::remove_dir_all(path.join(".git")).unwrap();
        let gone = UserRepository::find_cached(&git, &path);
        assert!(
            matches!(gone, Err(SandboxError::NotARepository { .. })),
            "{gone:?}"
        );
    }
}
