//! A repository of a given size, with operations of this program and of git.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use cleveragents_domain::id::{PlanId, SandboxId};
use cleveragents_domain::{AbsolutePath, BaseSource, ResourcePath, ResourceType};
use cleveragents_ports::Ids as _;
use cleveragents_ports::sandbox::{NewSandbox, Sandbox, Sandboxes, TreeId};
use cleveragents_ports::system::SystemIds;
use cleveragents_sandbox::{GitSettings, LocalSandboxes};
use std::os::unix::ffi::OsStrExt;

use crate::time;

/// The number of files per folder.
const FOLDER: usize = 50;

pub(crate) struct BenchRepository {
    folder: tempfile::TempDir,
    pub(crate) checkout: PathBuf,
    pub(crate) sandboxes: LocalSandboxes,
    worktrees: std::cell::Cell<usize>,
}

impl BenchRepository {
    pub(crate) fn new(size: usize) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let checkout = folder.path().join("checkout");
        for number in 0..size {
            let path = checkout.join(file_name(number, size));
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            let line = format!("line of file {number}\n");
            write_file(&path, &line.repeat(40));
        }
        let settings = GitSettings {
            program: "git".into(),
            search_path: search_path(),
            home: folder.path().to_owned(),
            timeout: Duration::from_secs(120),
        };
        let ground = Self {
            sandboxes: LocalSandboxes::open(&folder.path().join("data"), settings)
                .expect("sandboxes"),
            folder,
            checkout,
            worktrees: std::cell::Cell::new(0),
        };
        ground.git(&["init", "-q", "-b", "main"]);
        ground.git(&["config", "user.name", "A"]);
        ground.git(&["config", "user.email", "a@localhost"]);
        ground.git(&["config", "gc.auto", "0"]);
        ground.git(&["add", "-A"]);
        ground.git(&["commit", "-qm", "all"]);
        ground
    }

    fn new_sandbox(&self) -> NewSandbox {
        NewSandbox {
            id: SandboxId::new(SystemIds.next()),
            plan: PlanId::new(SystemIds.next()),
            resource: AbsolutePath::from_bytes(self.checkout.as_os_str().as_bytes())
                .expect("a path"),
            resource_type: ResourceType::GitCheckout,
            base: BaseSource::Head,
            trusted_includes: Vec::new(),
        }
    }

    /// Measures creating a sandbox; it is removed again.
    pub(crate) fn time_create(&self) -> f64 {
        let new = self.new_sandbox();
        let took = time(|| {
            self.sandboxes.create(&new).expect("a sandbox");
        });
        self.sandboxes.discard(new.id).expect("discarded");
        took
    }

    /// Measures creating a worktree; it is removed again.
    pub(crate) fn time_worktree(&self) -> f64 {
        self.worktrees.set(self.worktrees.get() + 1);
        let path = self
            .folder
            .path()
            .join(format!("tree-{}", self.worktrees.get()));
        let path = path.to_str().expect("a text");
        let took = time(|| self.git(&["worktree", "add", "-q", "--detach", path]));
        self.git(&["worktree", "remove", "--force", path]);
        took
    }

    /// Measures many concurrent creations; none may fail.
    pub(crate) fn time_parallel_creates(&self, number: usize) -> f64 {
        let news: Vec<NewSandbox> = (0..number).map(|_| self.new_sandbox()).collect();
        let took = time(|| {
            std::thread::scope(|scope| {
                for new in &news {
                    let sandboxes = &self.sandboxes;
                    scope.spawn(move || sandboxes.create(new).expect("a sandbox"));
                }
            });
        });
        for new in news {
            self.sandboxes.discard(new.id).expect("discarded");
        }
        took
    }

    pub(crate) fn open(&self) -> (Box<dyn Sandbox>, TreeId) {
        let new = self.new_sandbox();
        let created = self.sandboxes.create(&new).expect("a sandbox");
        (self.sandboxes.open(new.id).expect("open"), created.base)
    }

    /// Changes one file below `root` and returns its path.
    pub(crate) fn edit(&self, root: &Path, number: usize) -> ResourcePath {
        let path = file_name(number * 7 % 300, 300);
        write_file(&root.join(&path), &format!("edited {number}\n").repeat(30));
        ResourcePath::from_bytes(path).expect("a path")
    }

    pub(crate) fn add_and_write_tree(&self) {
        self.git(&["add", "-A"]);
        self.git(&["write-tree"]);
    }

    pub(crate) fn diff(&self) {
        self.git(&["diff", "--cached", "--find-renames"]);
    }

    fn git(&self, arguments: &[&str]) {
        let output = command()
            .args(arguments)
            .current_dir(&self.checkout)
            .env("HOME", self.folder.path())
            .output()
            .expect("git runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "git {arguments:?}: {said}");
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "git is found where the caller's is"
)]
fn search_path() -> std::ffi::OsString {
    std::env::var_os("PATH").unwrap_or_default()
}

#[expect(
    clippy::disallowed_methods,
    reason = "the peer that is measured is a process"
)]
fn command() -> Command {
    Command::new("git")
}

#[expect(
    clippy::disallowed_methods,
    reason = "files that are measured need not outlive a power cut"
)]
fn write_file(path: &Path, text: &str) {
    std::fs::write(path, text).expect("a file is written");
}

fn file_name(number: usize, _size: usize) -> String {
    format!("src/part-{}/file-{number}.txt", number / FOLDER)
}
