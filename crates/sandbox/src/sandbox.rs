//! The handle of one sandbox.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use cleveragents_domain::ResourcePath;
use cleveragents_domain::id::SandboxId;
use cleveragents_ports::sandbox::{
    Capture, CommitMetadata, DiffPart, LogEntry, NetChange, PublishedCommit, Sandbox, SandboxError,
    SandboxResult, TouchedPaths, TreeDiff, TreeId,
};
use cleveragents_ports::stop::StopSignal;
use cleveragents_safe_fs::ignore_rules::{IgnoreRules, NameCase};
use rustix::fs::fstat;

use crate::attributes::{self, Attribute, Attributes};
use crate::captured_tree::CapturedTree;
use crate::files::{create_private_folder, io_error, lock, read_if_exists};
use crate::filters::StorableContent;
use crate::git::Git;
use crate::layout::{ContentConversion, Layout, Marker, SandboxProperties};
use crate::limits::CaptureLimits;
use crate::private_dir::PrivateGitDir;
use crate::safe_fs::FileStat;
use crate::store::{ObjectReader, PrivateStore};
use crate::{capture, diff, log, net_changes, publish, restore, tree_reader};

/// From this number on, packs of captures get a common index.
const MANY_PACKS: usize = 64;

#[derive(Debug)]
pub(crate) struct LocalSandbox {
    pub(crate) layout: Layout,
    pub(crate) marker: Marker,
    pub(crate) properties: SandboxProperties,
    pub(crate) store: PrivateStore,
    /// Folder of the locks on users' repositories.
    pub(crate) locks: PathBuf,
    tree: PathBuf,
    /// The tree that this handle captured last, if any.
    pub(crate) captured: Option<CapturedTree>,
    /// Cached attributes of paths. They never change, because they come from the base.
    pub(crate) attributes: BTreeMap<Vec<u8>, Attributes>,
    pub(crate) limits: CaptureLimits,
    /// Number of captures by this handle.
    captures: usize,
}

impl LocalSandbox {
    pub(crate) fn new(
        git: &Git,
        layout: Layout,
        marker: Marker,
        locks: &Path,
    ) -> SandboxResult<Self> {
        let made = marker.made.clone();
        let made = made.ok_or(SandboxError::NotFound { id: marker.id })?;
        let store = PrivateStore {
            git: git.clone(),
            dir: PrivateGitDir::new(layout.git()),
            format: made.object_format,
            shaping: made.shaping.clone(),
            attributes: made.attributes.clone(),
            reader: ObjectReader::default(),
            stop: StopSignal::new(),
        };
        Ok(Self {
            tree: layout.tree(),
            layout,
            marker,
            properties: made,
            store,
            locks: locks.to_owned(),
            captured: None,
            attributes: BTreeMap::new(),
            limits: CaptureLimits::NONE,
            captures: 0,
        })
    }

    /// Sets the tree from which attributes are read.
    pub(crate) fn set_attributes(&mut self, tree: String) {
        self.store.attributes.clone_from(&tree);
        self.properties.attributes = tree;
    }

    /// Sets the settings that shape files.
    pub(crate) fn set_shaping(&mut self, shaping: Vec<(String, String)>) {
        self.store.shaping.clone_from(&shaping);
        self.properties.shaping = shaping;
    }

    /// Returns the ignore rules that apply below those of the tree's own files.
    pub(crate) fn ignore_rules(&self) -> SandboxResult<IgnoreRules<'static>> {
        let content = read_if_exists(&self.store.exclude())?.unwrap_or_default();
        Ok(IgnoreRules::global(
            &content,
            NameCase::from_settings(&self.properties.shaping),
        ))
    }

    /// Returns the file system's current time. Every later change has this time or a later one.
    pub(crate) fn filesystem_time(&self) -> SandboxResult<i64> {
        let path = self.layout.clock();
        let mut file = File::create(&path).map_err(io_error(&path))?;
        file.write_all(b"\n").map_err(io_error(&path))?;
        let stat = fstat(&file).map_err(|error| crate::safe_fs::errno_error(&path, error))?;
        Ok(FileStat::from(&stat).changed)
    }

    /// Waits for the sandbox lock, finishes a killed restore, and makes sure that git reads only our
    /// configuration.
    pub(crate) fn lock(&self) -> SandboxResult<File> {
        let held = lock(&self.layout.lock())?;
        self.store.seal()?;
        restore::finish_interrupted(self)?;
        Ok(held)
    }

    /// Runs `work`, which ends early when `stop` is signalled.
    fn with_stop<T>(
        &mut self,
        stop: &StopSignal,
        work: impl FnOnce(&mut Self) -> SandboxResult<T>,
    ) -> SandboxResult<T> {
        self.store.stop = stop.clone();
        let answer = stop.check().map_err(SandboxError::Stopped);
        let answer = answer.and_then(|()| work(self));
        self.store.stop = StopSignal::new();
        answer
    }

    /// Returns a handle for work that ends early when `stop` is signalled and that captures nothing.
    fn clone_with_stop(&self, stop: &StopSignal) -> Self {
        Self {
            layout: self.layout.clone(),
            marker: self.marker.clone(),
            properties: self.properties.clone(),
            store: self.store.with_stop(stop),
            locks: self.locks.clone(),
            tree: self.tree.clone(),
            captured: None,
            attributes: BTreeMap::new(),
            limits: self.limits,
            captures: 0,
        }
    }

    /// Takes the cached entries if they are of exactly this tree.
    pub(crate) fn take_captured(&mut self, tree: &TreeId) -> SandboxResult<Option<CapturedTree>> {
        let is_of_it = |known: &CapturedTree| known.tree == *tree;
        match self.captured.take().filter(is_of_it) {
            Some(known) => Ok(Some(known)),
            None => Ok(CapturedTree::load(&self.layout.entries())?.filter(is_of_it)),
        }
    }

    /// Loads the attributes that decide what git stores for paths. Queries each path once.
    pub(crate) fn load_attributes(&mut self, paths: &[&[u8]]) -> SandboxResult<()> {
        if self.properties.conversion == ContentConversion::Never {
            return Ok(());
        }
        let is_new = |path: &&&[u8]| !self.attributes.contains_key(**path);
        let paths: Vec<&[u8]> = paths.iter().filter(is_new).copied().collect();
        let found = attributes::query_attributes(|| self.store.call([]), &paths, &Attribute::ALL)?;
        self.attributes.extend(found);
        Ok(())
    }
}

impl Sandbox for LocalSandbox {
    fn id(&self) -> SandboxId {
        self.marker.id
    }

    fn tree(&self) -> &Path {
        &self.tree
    }

    fn read(&self, path: &ResourcePath, most: usize) -> SandboxResult<Option<Vec<u8>>> {
        tree_reader::read(&self.tree, path, most)
    }

    fn entries(&self, folder: &ResourcePath) -> SandboxResult<Vec<ResourcePath>> {
        tree_reader::list_folder(&self.tree, folder)
    }

    fn scratch(&self) -> SandboxResult<PathBuf> {
        let folder = self.layout.scratch();
        create_private_folder(&folder)?;
        Ok(folder)
    }

    fn base(&self) -> &TreeId {
        &self.properties.tree
    }

    fn capture(
        &mut self,
        previous: &TreeId,
        touched: &TouchedPaths,
        stop: &StopSignal,
    ) -> SandboxResult<Capture> {
        let _held = self.lock()?;
        let captured = self.with_stop(stop, |this| capture::capture(this, previous, touched))?;
        // Also at the first capture of a handle, for the packs that earlier processes left.
        if self.captures.is_multiple_of(MANY_PACKS) {
            self.store.index_packs(MANY_PACKS);
        }
        self.captures += 1;
        Ok(captured)
    }

    fn restore(&mut self, tree: &TreeId, stop: &StopSignal) -> SandboxResult<()> {
        let _held = self.lock()?;
        self.with_stop(stop, |this| restore::restore(this, tree))
    }

    fn diff(
        &self,
        from: &TreeId,
        to: &TreeId,
        paths: &[ResourcePath],
        stop: &StopSignal,
    ) -> SandboxResult<TreeDiff> {
        self.store.seal()?;
        let store = self.store.with_stop(stop);
        store.check_stop()?;
        diff::diff(&store, from, to, paths)
    }

    fn net_changes(
        &self,
        from: &TreeId,
        to: &TreeId,
        stop: &StopSignal,
    ) -> SandboxResult<Vec<NetChange>> {
        self.store.seal()?;
        let stoppable = self.clone_with_stop(stop);
        stoppable.store.check_stop()?;
        net_changes::changes(&stoppable, from, to)
    }

    fn filtered_paths(&self, paths: &[ResourcePath]) -> SandboxResult<Vec<ResourcePath>> {
        if self.properties.conversion == ContentConversion::Never {
            return Ok(Vec::new());
        }
        self.store.seal()?;
        let bytes: Vec<&[u8]> = paths.iter().map(ResourcePath::as_bytes).collect();
        let filter = [Attribute::Filter];
        let found = attributes::query_attributes(|| self.store.call([]), &bytes, &filter)?;
        let is_refused = |path: &&ResourcePath| {
            let filter = found.get(path.as_bytes()).and_then(Attributes::filter);
            let allowed = &self.store.git.allowed;
            filter.is_some_and(|name| allowed.storable_content(name) == StorableContent::Nothing)
        };
        Ok(paths.iter().filter(is_refused).cloned().collect())
    }

    fn files_in_tree(
        &self,
        tree: &TreeId,
        paths: &[ResourcePath],
    ) -> SandboxResult<Vec<ResourcePath>> {
        if paths.is_empty() {
            return Ok(Vec::new());
        }
        self.store.seal()?;
        let files = self.store.entries_of(tree)?.files;
        let is_there = |path: &&ResourcePath| files.contains_key(path.as_bytes());
        Ok(paths.iter().filter(is_there).cloned().collect())
    }

    fn tree_without(&self, base: &TreeId, tree: &TreeId, part: &DiffPart) -> SandboxResult<TreeId> {
        let _held = self.lock()?;
        net_changes::tree_without(self, base, tree, part)
    }

    fn log(&self, path: Option<&ResourcePath>, limit: u32) -> SandboxResult<Vec<LogEntry>> {
        self.store.seal()?;
        let commit = self.properties.base_commit.as_deref();
        commit.map_or(Ok(Vec::new()), |commit| {
            log::log(&self.store, commit, path, limit)
        })
    }

    fn publish(
        &self,
        tree: &TreeId,
        commit: &CommitMetadata,
        stop: &StopSignal,
    ) -> SandboxResult<PublishedCommit> {
        self.store.seal()?;
        let _held = self.lock()?;
        let stoppable = self.clone_with_stop(stop);
        stoppable.store.check_stop()?;
        publish::publish(&stoppable, tree, commit)
    }
}
