//! The few settings of the user's that decide how files look, read once and then passed as values.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use cleveragents_engine::ports::sandbox::{Coverage, Objects, SandboxResult};

use crate::git::{Call, Git};

/// Settings that shape the files of a checkout, under the names git lists them.
const SHAPING: [&str; 5] = [
    "core.autocrlf",
    "core.eol",
    "core.filemode",
    "core.symlinks",
    "core.ignorecase",
];

/// The effective settings of one repository.
#[derive(Debug, Clone)]
pub(crate) struct UserSettings {
    /// How files look: to be given to every git that reads or writes them.
    pub(crate) shaping: Vec<(String, String)>,
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
    /// Names of the filters that are configured; all are switched off.
    filters: BTreeSet<String>,
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
    /// Which key, which program: to be given to a git that signs.
    pub(crate) means: Vec<(String, String)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Wanted {
    Yes,
    #[default]
    No,
}

impl UserSettings {
    pub(crate) fn read(git: &Git, git_dir: &Path) -> SandboxResult<Self> {
        let call = git.call(["config", "--list", "--includes", "--show-scope", "-z"]);
        let answer = call.git_dir(git_dir).with_user_configuration().run()?;
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
            filters: BTreeSet::new(),
        };
        let answer = String::from_utf8_lossy(&answer);
        let mut fields = answer.split('\0');
        while let (Some(scope), Some(record)) = (fields.next(), fields.next()) {
            let (key, value) = record.split_once('\n').unwrap_or((record, "true"));
            // The command's own settings are ours.
            if scope != "command" {
                settings.take(key, value, git.home());
            }
        }
        Ok(settings)
    }

    fn take(&mut self, key: &str, value: &str, home: &Path) {
        if SHAPING.contains(&key) {
            self.shaping.retain(|(known, _)| known != key);
            self.shaping.push((key.to_owned(), value.to_owned()));
            return;
        }
        let path = || match value.strip_prefix("~/") {
            Some(rest) => home.join(rest),
            None => PathBuf::from(value),
        };
        match key {
            "user.name" => self.name = Some(value.to_owned()),
            "user.email" => self.email = Some(value.to_owned()),
            _ if key == "user.signingkey" || key.starts_with("gpg.") => {
                let setting = (key.to_owned(), value.to_owned());
                self.signing.means.push(setting);
            }
            "core.excludesfile" if value != "/dev/null" => self.excludes_file = path(),
            "core.attributesfile" if value != "/dev/null" => self.attributes_file = path(),
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
            _ => {
                let name = key.strip_prefix("filter.");
                let name = name.and_then(|rest| rest.rsplit_once('.'));
                self.filters.extend(name.map(|(name, _)| name.to_owned()));
            }
        }
    }

    /// Gives a run of git what shapes files and rules of ignoring, and takes its filters away.
    pub(crate) fn apply_to(&self, call: Call) -> Call {
        let call = call
            .settings(&self.shaping)
            .setting("core.excludesFile", &self.excludes_file)
            .setting("core.attributesFile", &self.attributes_file);
        self.filters.iter().fold(call, |call, name| {
            call.setting(&format!("filter.{name}.clean"), "")
                .setting(&format!("filter.{name}.smudge"), "")
                .setting(&format!("filter.{name}.process"), "")
                .setting(&format!("filter.{name}.required"), "false")
        })
    }

    /// Whether attributes can come from elsewhere than the tree.
    pub(crate) fn has_own_attributes(&self, common_dir: &Path) -> bool {
        self.attributes_file.is_file() || common_dir.join("info/attributes").is_file()
    }
}

/// How git reads a yes.
fn is_true(value: &str) -> bool {
    ["true", "yes", "on", "1"].contains(&value.to_ascii_lowercase().as_str())
}
