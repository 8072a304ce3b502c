//! An isolated environment for one test: home, data directory, and a user's repositories.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cleveragents_domain::id::{PlanId, SandboxId};
use cleveragents_domain::{AbsolutePath, BaseSource, ResourcePath, ResourceType};
use cleveragents_ports::sandbox::{
    Capture, CreatedSandbox, NewSandbox, Sandbox, SandboxResult, Sandboxes, TouchedPaths,
};
use cleveragents_ports::stop::StopSignal;
use cleveragents_sandbox::{GitSettings, LocalSandboxes};
use tempfile::TempDir;

pub(crate) const SEARCH_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

pub(crate) struct SandboxTestWorld {
    folder: TempDir,
    numbers: AtomicU64,
    pub(crate) sandboxes: LocalSandboxes,
}

/// Path to what is there: kind, executable or not, content or target.
pub(crate) type TreeListing = BTreeMap<Vec<u8>, (char, Vec<u8>)>;

impl SandboxTestWorld {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("home");
        fs::create_dir(&home).unwrap();
        let data = folder.path().join("data");
        let sandboxes = LocalSandboxes::open(&data, git_settings(home)).unwrap();
        Self {
            folder,
            numbers: AtomicU64::new(1),
            sandboxes,
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    pub(crate) fn next_id(&self) -> String {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        format!("01JZZZZZZZ{number:016}")
    }

    /// Runs the user's git, which must succeed.
    pub(crate) fn git(&self, repository: &Path, arguments: &[&str]) -> String {
        let output = self.try_git(repository, arguments);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "git {arguments:?}: {stderr}");
        String::from_utf8_lossy(&output.stdout)
            .trim_end()
            .to_owned()
    }

    pub(crate) fn try_git(&self, repository: &Path, arguments: &[&str]) -> Output {
        self.command(repository, "git", arguments)
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "tests play the user, who runs programs"
    )]
    pub(crate) fn command(&self, folder: &Path, program: &str, arguments: &[&str]) -> Output {
        Command::new(program)
            .args(arguments)
            .current_dir(folder)
            .env_clear()
            .env("PATH", SEARCH_PATH)
            .env("HOME", self.path("home"))
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_AUTHOR_NAME", "User")
            .env("GIT_AUTHOR_EMAIL", "user@localhost")
            .env("GIT_COMMITTER_NAME", "User")
            .env("GIT_COMMITTER_EMAIL", "user@localhost")
            .output()
            .unwrap()
    }

    pub(crate) fn init(&self, name: &str, options: &[&str]) -> PathBuf {
        let path = self.path(name);
        fs::create_dir(&path).unwrap();
        let arguments = [&["init", "-q", "-b", "main"], options].concat();
        self.git(&path, &arguments);
        path
    }

    /// Creates a small repository with one commit of these files.
    pub(crate) fn repository(&self, name: &str, files: &[(&str, &str)]) -> PathBuf {
        let path = self.init(name, &[]);
        self.commit(&path, files);
        path
    }

    pub(crate) fn commit(&self, repository: &Path, files: &[(&str, &str)]) {
        for (name, content) in files {
            write(&repository.join(name), content.as_bytes());
        }
        self.git(repository, &["add", "-A", "-f"]);
        self.git(
            repository,
            &["commit", "-q", "--allow-empty", "-m", "a commit"],
        );
    }

    pub(crate) fn new_sandbox(
        &self,
        resource: &Path,
        resource_type: ResourceType,
        base: BaseSource,
    ) -> NewSandbox {
        NewSandbox {
            id: self.next_id().parse::<SandboxId>().unwrap(),
            plan: self.next_id().parse::<PlanId>().unwrap(),
            resource: AbsolutePath::from_bytes(resource.as_os_str().as_bytes()).unwrap(),
            resource_type,
            base,
            trusted_includes: Vec::new(),
        }
    }

    pub(crate) fn try_create(
        &self,
        repository: &Path,
        base: BaseSource,
    ) -> SandboxResult<CreatedSandbox> {
        let new = self.new_sandbox(repository, ResourceType::GitCheckout, base);
        self.sandboxes.create(&new)
    }

    pub(crate) fn create(&self, repository: &Path) -> (CreatedSandbox, Box<dyn Sandbox>) {
        self.create_from(repository, ResourceType::GitCheckout, BaseSource::Head)
    }

    pub(crate) fn create_from(
        &self,
        resource: &Path,
        resource_type: ResourceType,
        base: BaseSource,
    ) -> (CreatedSandbox, Box<dyn Sandbox>) {
        let new = self.new_sandbox(resource, resource_type, base);
        let created = self.sandboxes.create(&new).unwrap();
        let sandbox = self.sandboxes.open(new.id).unwrap();
        (created, sandbox)
    }

    /// Returns everything of a repository that must not change: the user's refs, configuration,
    /// index.
    pub(crate) fn state_of(&self, repository: &Path) -> (String, Vec<u8>, Vec<u8>) {
        let refs = self.git(
            repository,
            &["for-each-ref", "--format=%(refname) %(objectname)"],
        );
        let refs = refs
            .lines()
            .filter(|line| !line.starts_with("refs/cleveragents/"));
        let git_dir = PathBuf::from(self.git(repository, &["rev-parse", "--absolute-git-dir"]));
        let common = self.git(
            repository,
            &["rev-parse", "--path-format=absolute", "--git-common-dir"],
        );
        let config = fs::read(Path::new(&common).join("config")).unwrap();
        let index = fs::read(git_dir.join("index")).unwrap_or_default();
        (refs.collect::<Vec<_>>().join("\n"), config, index)
    }
}

pub(crate) fn git_settings(home: PathBuf) -> GitSettings {
    GitSettings {
        program: "git".into(),
        search_path: SEARCH_PATH.into(),
        home,
        timeout: Duration::from_secs(300),
    }
}

/// Captures everything against the base.
pub(crate) fn capture(sandbox: &mut dyn Sandbox) -> Capture {
    let base = sandbox.base().clone();
    sandbox
        .capture(&base, &TouchedPaths::Unknown, &StopSignal::new())
        .unwrap()
}

#[expect(clippy::disallowed_methods, reason = "a test's file needs no fsync")]
pub(crate) fn write(path: &Path, content: &[u8]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

pub(crate) fn append(path: &Path, content: &[u8]) {
    let mut file = fs::OpenOptions::new().append(true).open(path).unwrap();
    file.write_all(content).unwrap();
}

pub(crate) fn script(path: &Path, text: &str) {
    write(path, text.as_bytes());
    set_mode(path, 0o755);
}

pub(crate) fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

pub(crate) fn link(path: &Path, target: &str) {
    symlink(target, path).unwrap();
}

pub(crate) fn os(bytes: &[u8]) -> &OsStr {
    OsStr::from_bytes(bytes)
}

pub(crate) fn path(text: &str) -> ResourcePath {
    ResourcePath::from_bytes(text).unwrap()
}

pub(crate) fn paths(texts: &[&str]) -> Vec<ResourcePath> {
    texts.iter().map(|text| path(text)).collect()
}

/// Lists everything in a folder, except `.git` at its top.
pub(crate) fn listing(root: &Path) -> TreeListing {
    let mut found = TreeListing::new();
    list_into(root, root, &mut found);
    found.retain(|path, _| path != b".git" && !path.starts_with(b".git/"));
    found
}

fn list_into(root: &Path, folder: &Path, found: &mut TreeListing) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name: OsString = path.strip_prefix(root).unwrap().into();
        let metadata = path.symlink_metadata().unwrap();
        let what = if metadata.is_symlink() {
            (
                'l',
                fs::read_link(&path).unwrap().into_os_string().into_vec(),
            )
        } else if metadata.is_dir() {
            list_into(root, &path, found);
            ('d', Vec::new())
        } else if metadata.is_file() {
            let kind = if metadata.mode() & 0o100 != 0 {
                'x'
            } else {
                'f'
            };
            (kind, fs::read(&path).unwrap())
        } else {
            ('s', Vec::new())
        };
        found.insert(name.into_vec(), what);
    }
}
