//! Reads the properties of a user's repository. Writes nothing: the index is not even refreshed.

use std::ops::Deref;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use cleveragents_domain::ResourcePath;
use cleveragents_ports::commit_history::HistoryCommit;
use cleveragents_ports::sandbox::{
    Checkout, CheckoutCoverage, HistoryCompleteness, Inspection, ObjectFormat, RepositoryHead,
    SandboxError, SandboxResult, UncommittedFile, UncommittedKind,
};

use crate::attributes::{self, Attribute};
use crate::files::{io_error, resource_path};
use crate::git::Git;
use crate::git_dir_links;
use crate::git_dir_owner;
use crate::user_git_command::{UserGitCall, UserGitCommand};
use crate::user_settings::UserSettings;
use crate::view::RepositoryView;

#[derive(Debug, Clone)]
pub(crate) struct UserRepository {
    git: Git,
    info: RepositoryInfo,
}

/// Git's answers about a repository.
#[derive(Debug, Clone)]
pub(crate) struct RepositoryInfo {
    pub(crate) git_dir: PathBuf,
    pub(crate) common_dir: PathBuf,
    pub(crate) object_format: ObjectFormat,
    pub(crate) checkout: Checkout,
    pub(crate) settings: UserSettings,
}

impl Deref for UserRepository {
    type Target = RepositoryInfo;

    fn deref(&self) -> &RepositoryInfo {
        &self.info
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Commit {
    pub(crate) id: String,
    pub(crate) tree: String,
}

/// One tracked path of the user's index.
#[derive(Debug)]
struct IndexPath {
    mode: u32,
    path: Vec<u8>,
}

impl UserRepository {
    /// Returns the repository that contains `path`, from the cache if it was found a moment ago.
    pub(crate) fn find_cached(git: &Git, path: &Path) -> SandboxResult<Self> {
        let git = git.clone();
        if let Some(found) = git.repositories.get(path) {
            return Ok(Self { git, info: found });
        }
        let repository = Self::find(&git, path)?;
        git.repositories
            .insert(path.to_owned(), repository.info.clone());
        Ok(repository)
    }

    /// Returns the repository that contains `path`, as git finds it.
    pub(crate) fn find(git: &Git, path: &Path) -> SandboxResult<Self> {
        let path = path.canonicalize().map_err(io_error(path))?;
        if !path.is_dir() {
            return Err(SandboxError::NotAFolder { path });
        }
        let ask = |questions: &[&str]| git.discover(&path, questions);
        // A repository without a working tree answers all queries except `--show-toplevel`.
        let questions = [
            "--show-object-format",
            "--absolute-git-dir",
            "--git-common-dir",
        ];
        let found = ask(&[&questions[..], &["--show-toplevel"]].concat()).output()?;
        let lines: Vec<&[u8]> = found
            .stdout
            .split_inclusive(|byte| *byte == b'\n')
            .collect();
        let answers: Vec<Vec<u8>> = match (lines.len(), found.status.success()) {
            (0, false) => return Err(discovery_error(path, found.stderr)),
            (4, true) | (3, false) => lines.into_iter().map(<[u8]>::to_vec).collect(),
            // A path contains a newline, so the answers must be queried one by one.
            _ => {
                let answers = questions.iter().map(|question| ask(&[question]).run());
                let mut answers = answers.collect::<SandboxResult<Vec<_>>>()?;
                let top_level = ask(&["--show-toplevel"]).output()?;
                answers.extend(top_level.status.success().then_some(top_level.stdout));
                answers
            }
        };
        let mut answers = answers.into_iter();
        let object_format = match answers.next().as_deref() {
            Some(b"sha256\n") => ObjectFormat::Sha256,
            _ => ObjectFormat::Sha1,
        };
        let (Some(git_dir), Some(common_dir)) = (answers.next(), answers.next()) else {
            return Err(discovery_error(path, found.stderr));
        };
        let (git_dir, common_dir) = (parse_path(git_dir), parse_path(common_dir));
        let checkout = match answers.next() {
            Some(top_level) => Checkout::At(parse_path(top_level)),
            None => Checkout::Bare,
        };
        let settings = UserSettings::read(git, &git_dir)?;
        let found = RepositoryInfo {
            git_dir,
            common_dir,
            object_format,
            checkout,
            settings,
        };
        git_dir_owner::check(&found, &path)?;
        git_dir_links::check(&found)?;
        Ok(Self {
            git: git.clone(),
            info: found,
        })
    }

    pub(crate) fn objects_dir(&self) -> PathBuf {
        self.common_dir.join("objects")
    }

    pub(crate) fn git(&self) -> &Git {
        &self.git
    }

    /// Creates a run of a command that starts no program, in the user's own git directory.
    pub(crate) fn call(&self, command: UserGitCommand<'_>) -> UserGitCall {
        self.git.user_call(&self.git_dir, command)
    }

    pub(crate) fn inspect(&self) -> SandboxResult<Inspection> {
        let bare = self.checkout == Checkout::Bare;
        let tracked = if bare {
            Vec::new()
        } else {
            self.list_tracked()?
        };
        let submodules = tracked.iter().filter(|it| it.mode == 0o160_000);
        let submodules: SandboxResult<Vec<_>> =
            submodules.map(|it| resource_path(&it.path)).collect();
        Ok(Inspection {
            checkout: self.checkout.clone(),
            git_dir: self.git_dir.clone(),
            common_dir: self.common_dir.clone(),
            object_format: self.object_format,
            head: self.head()?,
            history: self.history(),
            objects: self.settings.objects,
            coverage: self.coverage(),
            submodules: submodules?,
            filtered: self.list_filtered(&tracked)?,
            uncommitted: if bare {
                Vec::new()
            } else {
                self.uncommitted()?
            },
        })
    }

    pub(crate) fn head(&self) -> SandboxResult<RepositoryHead> {
        let reference = self.call(UserGitCommand::CurrentBranch).optional_line()?;
        let commit = self
            .call(UserGitCommand::Resolve("HEAD^{commit}"))
            .optional_line()?;
        match (reference, commit) {
            (Some(reference), Some(commit)) => Ok(RepositoryHead::Branch { reference, commit }),
            (Some(reference), None) => Ok(RepositoryHead::Unborn { reference }),
            (None, Some(commit)) => Ok(RepositoryHead::Detached { commit }),
            (None, None) => Err(SandboxError::Malformed {
                what: format!("HEAD of {} names no commit", self.git_dir.display()),
            }),
        }
    }

    /// Returns the commits with these names, each with its tree, and `None` for a name without a
    /// commit.
    pub(crate) fn commits(&self, names: &[&str]) -> SandboxResult<Vec<Option<Commit>>> {
        let found = self.history_commits(names)?.into_iter();
        let found = found.map(|it| it.map(|HistoryCommit { id, tree, .. }| Commit { id, tree }));
        Ok(found.collect())
    }

    /// Like [`Self::commits`], with the messages.
    pub(crate) fn history_commits(
        &self,
        names: &[&str],
    ) -> SandboxResult<Vec<Option<HistoryCommit>>> {
        let questions: Vec<String> = names
            .iter()
            .map(|name| format!("{name}^{{commit}}\n"))
            .collect();
        let call = self.call(UserGitCommand::ReadObjects);
        let answer = call.run_with(questions.concat().as_bytes())?;
        let malformed = || SandboxError::Malformed {
            what: "git cat-file returned unexpected output".to_owned(),
        };
        let mut rest = answer.as_slice();
        let mut commits = Vec::with_capacity(names.len());
        for _ in names {
            let end = rest.iter().position(|byte| *byte == b'\n');
            let (head, after) = rest.split_at(end.ok_or_else(malformed)?);
            let head = String::from_utf8_lossy(head);
            let after = &after[1..];
            if head.ends_with(" missing") {
                commits.push(None);
                rest = after;
                continue;
            }
            let mut fields = head.split(' ');
            let (id, size) = (fields.next(), fields.nth(1));
            let size = size.and_then(|size| size.parse::<usize>().ok());
            let (content, next) = size
                .and_then(|size| after.split_at_checked(size))
                .ok_or_else(malformed)?;
            let tree = content.strip_prefix(b"tree ");
            let tree = tree.and_then(|it| it.get(..self.object_format.id_length()));
            let (Some(id), Some(tree)) = (id, tree) else {
                return Err(malformed());
            };
            let blank = content.windows(2).position(|it| it == b"\n\n");
            let message = blank.map_or(&[][..], |at| &content[at + 2..]);
            commits.push(Some(HistoryCommit {
                id: id.to_owned(),
                tree: trimmed_text(tree),
                message: String::from_utf8_lossy(message).into_owned(),
            }));
            rest = next.get(1..).unwrap_or_default();
        }
        Ok(commits)
    }

    pub(crate) fn history(&self) -> HistoryCompleteness {
        if self.common_dir.join("shallow").exists() {
            HistoryCompleteness::Shallow
        } else {
            HistoryCompleteness::Complete
        }
    }

    pub(crate) fn coverage(&self) -> CheckoutCoverage {
        self.settings.coverage
    }

    /// Returns tracked and untracked changes, without ignored files.
    pub(crate) fn uncommitted(&self) -> SandboxResult<Vec<UncommittedFile>> {
        let view = RepositoryView::new(self)?;
        // Without its commit the view would report every file as new.
        if let Some(head) = self.commits(&["HEAD"])?.pop().flatten() {
            view.set_head(&head.id)?;
        }
        let call = view.call(["status", "--porcelain=v2", "-z", "--untracked-files=all"]);
        let call = call.arguments(["--no-renames", "--ignore-submodules=dirty"]);
        let answer = call.run()?;
        let mut uncommitted = Vec::new();
        for record in nul_records(&answer) {
            uncommitted.extend(parse_status(record)?);
        }
        Ok(uncommitted)
    }

    fn list_tracked(&self) -> SandboxResult<Vec<IndexPath>> {
        let answer = RepositoryView::new(self)?
            .call(["ls-files", "--stage", "-z"])
            .run()?;
        let parse = |record: &[u8]| {
            let tab = record.iter().position(|byte| *byte == b'\t')?;
            let mode = std::str::from_utf8(record.get(..6)?).ok()?;
            Some(IndexPath {
                mode: u32::from_str_radix(mode, 8).ok()?,
                path: record[tab + 1..].to_vec(),
            })
        };
        let tracked: Option<Vec<_>> = nul_records(&answer).map(parse).collect();
        tracked.ok_or_else(|| SandboxError::Malformed {
            what: "git ls-files returned unexpected output".to_owned(),
        })
    }

    fn list_filtered(&self, tracked: &[IndexPath]) -> SandboxResult<Vec<ResourcePath>> {
        let files = tracked.iter().filter(|it| it.mode != 0o160_000);
        let mut paths: Vec<&[u8]> = files.map(|it| it.path.as_slice()).collect();
        paths.dedup();
        let attributes_file = |path: &&[u8]| path.ends_with(b".gitattributes");
        let has_attributes =
            paths.iter().any(attributes_file) || self.settings.has_own_attributes(&self.common_dir);
        if paths.is_empty() || !has_attributes {
            return Ok(Vec::new());
        }
        let view = RepositoryView::new(self)?;
        let found = attributes::query_attributes(|| view.call([]), &paths, &[Attribute::Filter])?;
        let filtered = found.iter().filter(|(_, it)| it.filter().is_some());
        filtered.map(|(path, _)| resource_path(path)).collect()
    }
}

fn discovery_error(path: PathBuf, stderr: String) -> SandboxError {
    if stderr.contains("not a git repository") {
        return SandboxError::NotARepository { path };
    }
    let reason = stderr.lines().next().unwrap_or_default();
    let reason = reason.trim_start_matches("fatal: ").to_owned();
    SandboxError::Refused { path, reason }
}

/// Splits output into its NUL-terminated parts.
pub(crate) fn nul_records(answer: &[u8]) -> impl Iterator<Item = &[u8]> {
    answer.split(|byte| *byte == 0).filter(|it| !it.is_empty())
}

pub(crate) fn trimmed_text(answer: &[u8]) -> String {
    String::from_utf8_lossy(answer).trim_end().to_owned()
}

fn parse_path(mut answer: Vec<u8>) -> PathBuf {
    if answer.last() == Some(&b'\n') {
        answer.pop();
    }
    PathBuf::from(std::ffi::OsString::from_vec(answer))
}

fn parse_status(record: &[u8]) -> SandboxResult<Option<UncommittedFile>> {
    let fields = match record.first() {
        Some(b'1') => 9,
        Some(b'u') => 11,
        Some(b'?') => 2,
        _ => return Ok(None),
    };
    let parts: Vec<&[u8]> = record.splitn(fields, |byte| *byte == b' ').collect();
    let (Some(state), Some(path)) = (parts.get(1), parts.get(fields - 1)) else {
        return Ok(None);
    };
    let kind = match record[0] {
        b'u' => UncommittedKind::Unmerged,
        b'?' if path.ends_with(b"/") => UncommittedKind::UntrackedRepository,
        b'?' => UncommittedKind::Untracked,
        _ if state.first() == Some(&b'.') => UncommittedKind::Changed,
        _ => UncommittedKind::Staged,
    };
    let path = resource_path(path.strip_suffix(b"/").unwrap_or(path))?;
    Ok(Some(UncommittedFile { path, kind }))
}
