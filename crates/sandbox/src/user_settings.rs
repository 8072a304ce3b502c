//! The few settings of the user's that decide how files look, read once and then passed as values.

use std::path::{Path, PathBuf};

use cleveragents_engine::ports::sandbox::{Coverage, Objects, SandboxResult};

use crate::git::{Call, Git};
use crate::users_command::UsersCommand;

/// Settings that shape the files of a checkout, under the names git lists them.
const SHAPING: [&str; 5] = [
    "core.autocrlf",
    "core.eol",
    "core.filemode",
    "core.symlinks",
    "core.ignorecase",
];

/// Settings that say how git compares an index with the files of a working tree.
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
    /// How files look: to be given to every git that reads or writes them.
    pub(crate) shaping: Vec<(String, String)>,
    /// Rules of ignoring and attributes of the user's own; a repository cannot name these files,
    /// because their text is copied into sandboxes.
    pub(crate) excludes_file: PathBuf,
    pub(crate) attributes_file: PathBuf,
    pub(crate) objects: Objects,
    pub(crate) coverage: Coverage,
    pub(crate) index: IndexForm,
    /// Whether the user's commits are signed, and what that needs.
    pub(crate) signing: Signing,
    /// Who the user is, as far as the settings say.
    pub(crate) name: Option<String>,
    pub(crate) email: Option<String>,
    /// The folder that the repository says it is of.
    pub(crate) worktree: Option<PathBuf>,
    /// How an index is compared with files.
    comparing: Vec<(String, String)>,
}

/// Whether git may keep folders outside of a sparse checkout as one entry of the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IndexForm {
    Full,
    Sparse,
}

/// How the user signs commits.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Signing {
    pub(crate) wanted: Wanted,
    /// Which key, which program: to be given to a git that signs. Only the user's own
    /// configuration says so.
    pub(crate) means: Vec<(String, String)>,
    /// Settings of the repository's that would have signed in another way.
    pub(crate) refused: Vec<String>,
}

/// Whose configuration a value is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// The user's, or the machine's.
    User,
    /// In the repository, where anybody may have written it.
    Repository,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Wanted {
    Yes,
    #[default]
    No,
}

impl UserSettings {
    pub(crate) fn read(git: &Git, git_dir: &Path) -> SandboxResult<Self> {
        let answer = git.users(git_dir, UsersCommand::ListConfiguration).run()?;
        let configured = git.home().join(".config/git");
        let mut settings = Self {
            shaping: Vec::new(),
            excludes_file: configured.join("ignore"),
            attributes_file: configured.join("attributes"),
            objects: Objects::Complete,
            coverage: Coverage::Complete,
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
                // The command's own settings are ours.
                "command" => continue,
                "system" | "global" => Scope::User,
                _ => Scope::Repository,
            };
            settings.take(key, value, scope, git.home());
        }
        Ok(settings)
    }

    fn take(&mut self, key: &str, value: &str, scope: Scope, home: &Path) {
        if SHAPING.contains(&key) {
            put(&mut self.shaping, key, value);
        }
        if COMPARING.contains(&key) {
            put(&mut self.comparing, key, value);
        }
        let path = || match value.strip_prefix("~/") {
            Some(rest) => home.join(rest),
            None => PathBuf::from(value),
        };
        match key {
            "user.name" => self.name = Some(value.to_owned()),
            "core.worktree" if scope == Scope::Repository => self.worktree = Some(path()),
            "user.email" => self.email = Some(value.to_owned()),
            _ if key == "user.signingkey" || key.starts_with("gpg.") => {
                self.signing.take(key, value, scope);
            }
            "core.excludesfile" if scope == Scope::User => self.excludes_file = path(),
            "core.attributesfile" if scope == Scope::User => self.attributes_file = path(),
            "core.sparsecheckout" if is_true(value) => self.coverage = Coverage::Sparse,
            "core.sparsecheckout" => self.coverage = Coverage::Complete,
            "index.sparse" if is_true(value) => self.index = IndexForm::Sparse,
            "index.sparse" => self.index = IndexForm::Full,
            "commit.gpgsign" if is_true(value) => self.signing.wanted = Wanted::Yes,
            "commit.gpgsign" => self.signing.wanted = Wanted::No,
            "extensions.partialclone" => self.objects = Objects::Partial,
            _ if key.starts_with("remote.") && key.ends_with(".promisor") && is_true(value) => {
                self.objects = Objects::Partial;
            }
            _ => {}
        }
    }

    /// Gives a run of git on the user's files what they depend on.
    pub(crate) fn apply_to(&self, call: Call) -> Call {
        call.settings(&self.shaping)
            .settings(&self.comparing)
            .setting("core.excludesFile", &self.excludes_file)
            .setting("core.attributesFile", &self.attributes_file)
    }

    /// Whether attributes can come from elsewhere than the tree.
    pub(crate) fn has_own_attributes(&self, common_dir: &Path) -> bool {
        self.attributes_file.is_file() || common_dir.join("info/attributes").is_file()
    }
}

impl Signing {
    fn take(&mut self, key: &str, value: &str, scope: Scope) {
        match scope {
            Scope::User => put(&mut self.means, key, value),
            Scope::Repository => {
                let is_same = |(known, own): &(String, String)| known == key && own == value;
                if !self.means.iter().any(is_same) {
                    self.refused.push(key.to_owned());
                }
            }
        }
    }
}

/// The last value of a key holds.
fn put(settings: &mut Vec<(String, String)>, key: &str, value: &str) {
    settings.retain(|(known, _)| known != key);
    settings.push((key.to_owned(), value.to_owned()));
}

/// How git reads a yes.
fn is_true(value: &str) -> bool {
    ["true", "yes", "on", "1"].contains(&value.to_ascii_lowercase().as_str())
}
