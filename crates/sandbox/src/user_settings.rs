//! The user's git settings that decide how files look, read once and then passed as values.

use std::path::{Path, PathBuf};

use cleveragents_ports::sandbox::{CheckoutCoverage, ObjectCompleteness, SandboxResult};

use crate::git::Git;
use crate::git_call::GitCall;
use crate::user_git_command::UserGitCommand;

/// Settings that shape the files of a checkout, under the names that git lists.
const SHAPING: [&str; 5] = [
    "core.autocrlf",
    "core.eol",
    "core.filemode",
    "core.symlinks",
    "core.ignorecase",
];

/// Settings for how git compares an index with the files of a working tree.
const COMPARING: [&str; 7] = [
    "core.checkstat",
    "core.precomposeunicode",
    "core.protecthfs",
    "core.sparsecheckout",
    "core.sparsecheckoutcone",
    "core.trustctime",
    "sparse.expectfilesoutsideofpatterns",
];

/// The effective settings of one repository.
#[derive(Debug, Clone)]
pub(crate) struct UserSettings {
    /// Settings of file contents. Passed to every git that reads or writes files.
    pub(crate) shaping: Vec<(String, String)>,
    /// The user's own ignore and attribute files. A repository cannot set these paths, because the
    /// content of the files is copied into sandboxes.
    pub(crate) excludes_file: PathBuf,
    pub(crate) attributes_file: PathBuf,
    pub(crate) objects: ObjectCompleteness,
    pub(crate) coverage: CheckoutCoverage,
    pub(crate) index: IndexForm,
    /// Whether the user's commits are signed, and the settings for that.
    pub(crate) signing: Signing,
    /// The user's identity, if configured.
    pub(crate) name: Option<String>,
    pub(crate) email: Option<String>,
    /// `core.worktree`: the folder that the repository names as its working tree.
    pub(crate) worktree: Option<PathBuf>,
    /// Settings of the comparison of an index with files.
    comparing: Vec<(String, String)>,
}

/// Whether git may store a folder outside a sparse checkout as one index entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IndexForm {
    Full,
    Sparse,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Signing {
    pub(crate) sign_commits: SignCommits,
    /// Key and program, passed to a git that signs. Read only from the user's own configuration.
    pub(crate) settings: Vec<(String, String)>,
    /// Settings of the repository that would have changed how commits are signed.
    pub(crate) refused: Vec<String>,
}

/// The source of a configured value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConfigScope {
    /// In the configuration of the user or the machine.
    User,
    /// In the repository, which anyone may have written.
    Repository,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum SignCommits {
    Yes,
    #[default]
    No,
}

impl UserSettings {
    pub(crate) fn read(git: &Git, git_dir: &Path) -> SandboxResult<Self> {
        let answer = git
            .user_call(git_dir, UserGitCommand::ListConfiguration)
            .run()?;
        let configured = git.home().join(".config/git");
        let mut settings = Self {
            shaping: Vec::new(),
            excludes_file: configured.join("ignore"),
            attributes_file: configured.join("attributes"),
            objects: ObjectCompleteness::Complete,
            coverage: CheckoutCoverage::Complete,
            index: IndexForm::Full,
            signing: Signing::default(),
            name: None,
            email: None,
            worktree: None,
            comparing: Vec::new(),
        };
        let answer = String::from_utf8_lossy(&answer);
        let mut fields = answer.split('\0');
        while let (Some(scope), Some(record)) = (fields.next(), fields.next()) {
            let (key, value) = record.split_once('\n').unwrap_or((record, "true"));
            let scope = match scope {
                // Settings of scope `command` are ours.
                "command" => continue,
                "system" | "global" => ConfigScope::User,
                _ => ConfigScope::Repository,
            };
            settings.apply_setting(key, value, scope, git.home());
        }
        Ok(settings)
    }

    fn apply_setting(&mut self, key: &str, value: &str, scope: ConfigScope, home: &Path) {
        if SHAPING.contains(&key) {
            set_setting(&mut self.shaping, key, value);
        }
        if COMPARING.contains(&key) {
            set_setting(&mut self.comparing, key, value);
        }
        let path = || match value.strip_prefix("~/") {
            Some(rest) => home.join(rest),
            None => PathBuf::from(value),
        };
        match key {
            "user.name" => self.name = Some(value.to_owned()),
            "core.worktree" if scope == ConfigScope::Repository => self.worktree = Some(path()),
            "user.email" => self.email = Some(value.to_owned()),
            _ if key == "user.signingkey" || key.starts_with("gpg.") => {
                self.signing.apply_setting(key, value, scope);
            }
            "core.excludesfile" if scope == ConfigScope::User => self.excludes_file = path(),
            "core.attributesfile" if scope == ConfigScope::User => self.attributes_file = path(),
            "core.sparsecheckout" if is_true(value) => self.coverage = CheckoutCoverage::Sparse,
            "core.sparsecheckout" => self.coverage = CheckoutCoverage::Complete,
            "index.sparse" if is_true(value) => self.index = IndexForm::Sparse,
            "index.sparse" => self.index = IndexForm::Full,
            "commit.gpgsign" if is_true(value) => self.signing.sign_commits = SignCommits::Yes,
            "commit.gpgsign" => self.signing.sign_commits = SignCommits::No,
            "extensions.partialclone" => self.objects = ObjectCompleteness::Partial,
            _ if key.starts_with("remote.") && key.ends_with(".promisor") && is_true(value) => {
                self.objects = ObjectCompleteness::Partial;
            }
            _ => {}
        }
    }

    /// Adds the settings that a run of git on the user's files needs.
    pub(crate) fn apply_to(&self, call: GitCall) -> GitCall {
        call.settings(&self.shaping)
            .settings(&self.comparing)
            .setting("core.excludesFile", &self.excludes_file)
            .setting("core.attributesFile", &self.attributes_file)
    }

    /// Returns whether attributes can come from elsewhere than the tree.
    pub(crate) fn has_own_attributes(&self, common_dir: &Path) -> bool {
        self.attributes_file.is_file() || common_dir.join("info/attributes").is_file()
    }
}

impl Signing {
    fn apply_setting(&mut self, key: &str, value: &str, scope: ConfigScope) {
        match scope {
            ConfigScope::User => set_setting(&mut self.settings, key, value),
            ConfigScope::Repository => {
                let is_same = |(known, own): &(String, String)| known == key && own == value;
                if !self.settings.iter().any(is_same) {
                    self.refused.push(key.to_owned());
                }
            }
        }
    }
}

/// The last value of a key wins.
fn set_setting(settings: &mut Vec<(String, String)>, key: &str, value: &str) {
    settings.retain(|(known, _)| known != key);
    settings.push((key.to_owned(), value.to_owned()));
}

/// Parses a boolean like git.
fn is_true(value: &str) -> bool {
    ["true", "yes", "on", "1"].contains(&value.to_ascii_lowercase().as_str())
}
