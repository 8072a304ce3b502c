//! A separate tree for each test, a file outside it, and an actor with stamps.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use cleveragents_domain::id::SandboxId;
use cleveragents_domain::{NamespacedName, ResourcePath};
use cleveragents_ports::StopSignal;
use cleveragents_ports::processes::Processes;
use cleveragents_ports::sandbox::{
    Capture, CommitMetadata, DiffPart, LogEntry, NetChange, PublishedCommit, Sandbox, SandboxError,
    SandboxResult, TouchedPaths, TreeDiff, TreeId,
};
use cleveragents_ports::tools::{
    FileStamps, Tool, ToolFailure, ToolInvocation, ToolOutput, Toolbox,
};
use cleveragents_tools::{BuiltinTools, ShellSettings, ToolSettings};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The content of the file outside, which no tool may show or change.
pub(crate) const SECRET: &str = "the secret outside\n";

pub(crate) struct ToolFixture {
    folder: TempDir,
    pub(crate) sandbox: FakeSandbox,
    pub(crate) tools: BuiltinTools,
    pub(crate) stamps: FileStamps,
    pub(crate) stop: StopSignal,
}

/// The simplest sandbox: a folder whose history and differences the test sets.
#[derive(Debug)]
pub(crate) struct FakeSandbox {
    tree: PathBuf,
    pub(crate) scratch: PathBuf,
    base: TreeId,
    pub(crate) diff: TreeDiff,
    pub(crate) commits: Vec<LogEntry>,
    pub(crate) requests: Mutex<Vec<String>>,
}

pub(crate) fn tree_id(digit: char) -> TreeId {
    digit.to_string().repeat(40).parse().unwrap()
}

impl Sandbox for FakeSandbox {
    fn id(&self) -> SandboxId {
        "01JZZZZZZZ0000000000ABCDEF".parse().unwrap()
    }

    fn tree(&self) -> &Path {
        &self.tree
    }

    fn read(&self, _: &ResourcePath, _: usize) -> SandboxResult<Option<Vec<u8>>> {
        Err(SandboxError::NoRepository)
    }

    fn entries(&self, _: &ResourcePath) -> SandboxResult<Vec<ResourcePath>> {
        Err(SandboxError::NoRepository)
    }

    fn scratch(&self) -> SandboxResult<PathBuf> {
        Ok(self.scratch.clone())
    }

    fn base(&self) -> &TreeId {
        &self.base
    }

    fn capture(&mut self, _: &TreeId, _: &TouchedPaths, _: &StopSignal) -> SandboxResult<Capture> {
        Err(SandboxError::NoRepository)
    }

    fn files_in_tree(&self, _: &TreeId, _: &[ResourcePath]) -> SandboxResult<Vec<ResourcePath>> {
        Err(SandboxError::NoRepository)
    }

    fn restore(&mut self, _: &TreeId, _: &StopSignal) -> SandboxResult<()> {
        Err(SandboxError::NoRepository)
    }

    fn diff(
        &self,
        from: &TreeId,
        to: &TreeId,
        paths: &[ResourcePath],
        _: &StopSignal,
    ) -> SandboxResult<TreeDiff> {
        assert_eq!((from, to), (&self.base, &tree_id('b')));
        self.requests
            .lock()
            .unwrap()
            .push(format!("diff {paths:?}"));
        Ok(self.diff.clone())
    }

    fn net_changes(&self, _: &TreeId, _: &TreeId, _: &StopSignal) -> SandboxResult<Vec<NetChange>> {
        Err(SandboxError::NoRepository)
    }

    fn filtered_paths(&self, paths: &[ResourcePath]) -> SandboxResult<Vec<ResourcePath>> {
        let has_filter = |path: &&ResourcePath| path.as_bytes().ends_with(b".bin");
        Ok(paths.iter().filter(has_filter).cloned().collect())
    }

    fn tree_without(&self, _: &TreeId, _: &TreeId, _: &DiffPart) -> SandboxResult<TreeId> {
        Err(SandboxError::NoRepository)
    }

    fn log(&self, path: Option<&ResourcePath>, limit: u32) -> SandboxResult<Vec<LogEntry>> {
        let asked = format!("log {path:?} {limit}");
        self.requests.lock().unwrap().push(asked);
        Ok(self.commits.clone())
    }

    fn publish(
        &self,
        _: &TreeId,
        _: &CommitMetadata,
        _: &StopSignal,
    ) -> SandboxResult<PublishedCommit> {
        Err(SandboxError::NoRepository)
    }
}

impl ToolFixture {
    pub(crate) fn new() -> Self {
        Self::with(None, ShellSettings::default())
    }

    pub(crate) fn with(processes: Option<Arc<dyn Processes>>, shell: ShellSettings) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap();
        for name in ["tree", "scratch", "outside"] {
            fs::create_dir(path.join(name)).unwrap();
        }
        write_file(&path.join("outside/secret"), SECRET.as_bytes());
        let sandbox = FakeSandbox {
            tree: path.join("tree"),
            scratch: path.join("scratch"),
            base: tree_id('a'),
            diff: TreeDiff {
                patch: Vec::new(),
                files: Vec::new(),
            },
            commits: Vec::new(),
            requests: Mutex::default(),
        };
        let settings = ToolSettings { shell, processes };
        Self {
            folder,
            sandbox,
            tools: BuiltinTools::new(settings).unwrap(),
            stamps: FileStamps::new(),
            stop: StopSignal::new(),
        }
    }

    /// A path in the tree.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.sandbox.tree.join(name)
    }

    pub(crate) fn outside(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join("outside")
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        write_file(&self.path(name), content.as_ref());
    }

    pub(crate) fn content(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    pub(crate) fn link(&self, name: &str, target: impl AsRef<Path>) {
        symlink(target, self.path(name)).unwrap();
    }

    pub(crate) fn tool(&self, name: &str) -> &dyn Tool {
        let name: NamespacedName = format!("builtin/{name}").parse().unwrap();
        self.tools.tool(&name).unwrap()
    }

    /// Runs a tool as the runner does: checks the input before and the output after.
    pub(crate) fn run(&self, name: &str, input: &Value) -> Result<ToolOutput, ToolFailure> {
        let tool = self.tool(name);
        tool.check_input(input)?;
        let tree = tree_id('b');
        let output = tool.run(&ToolInvocation {
            input,
            sandbox: &self.sandbox,
            tree: &tree,
            stamps: &self.stamps,
            stop: &self.stop,
            on_process_start: &|_| Ok(()),
        })?;
        tool.check_output(&output).unwrap();
        self.assert_no_machine_path(&output.data.to_string());
        Ok(output)
    }

    /// Runs a tool that must succeed.
    pub(crate) fn data(&self, name: &str, input: &Value) -> Value {
        match self.run(name, input) {
            Ok(output) => output.data,
            Err(failure) => panic!("{name} {input}: {failure:?}"),
        }
    }

    /// Runs a tool that must fail, and returns the failure.
    pub(crate) fn failure(&self, name: &str, input: &Value) -> ToolFailure {
        match self.run(name, input) {
            Ok(output) => panic!("{name} {input}: {output:?}"),
            Err(failure) => {
                self.assert_no_machine_path(&failure.to_string());
                failure
            }
        }
    }

    pub(crate) fn read(&self, path: &str) -> Value {
        self.data("file-read", &json!({"path": path}))
    }

    fn assert_no_machine_path(&self, text: &str) {
        let machine = self.folder.path().to_str().unwrap();
        assert!(!text.contains(machine), "{text}");
    }

    /// Asserts that nothing outside the tree was changed or created, and nothing was left behind.
    pub(crate) fn assert_outside_untouched(&self) {
        let secret = fs::read_to_string(self.outside().join("secret")).unwrap();
        assert_eq!(secret, SECRET);
        assert_eq!(names(&self.outside()), ["secret"]);
        assert_eq!(names(&self.sandbox.scratch), [""; 0]);
    }
}

pub(crate) fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[expect(clippy::disallowed_methods, reason = "a test's file needs no fsync")]
pub(crate) fn write_file(path: &Path, content: &[u8]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

pub(crate) fn touched(paths: &[&str]) -> TouchedPaths {
    let paths = paths.iter().map(|path| path.parse().unwrap());
    TouchedPaths::Paths(paths.collect())
}
