//! The private repository of a sandbox: objects, trees and the index that captures use.
//!
//! Only the host accesses its folder. If its configuration was changed anyway, it is repaired before
//! git reads it.

use std::collections::BTreeSet;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use cleveragents_domain::secret_mask::MaskScanner;
use cleveragents_ports::sandbox::{ObjectFormat, SandboxError, SandboxResult, TreeId};
use cleveragents_ports::stop::StopSignal;

use crate::entries::{Content, FOLDER, TreeEntries, TreeEntry};
use crate::files::{io_error, remove};
use crate::git::Git;
use crate::git_call::GitCall;
use crate::git_session::GitSession;
use crate::new_objects::NewObjects;
use crate::object_id::{ObjectId, ObjectKind, hash_object};
use crate::private_dir::PrivateGitDir;
use crate::repository::nul_records;
use crate::stop_reader::StoppableReader;

/// Up to this number, objects are read one by one through the git session.
const MAX_SESSION_READS: usize = 64;

/// The private repository, with the settings that shape its files.
#[derive(Debug, Clone)]
pub(crate) struct PrivateStore {
    pub(crate) git: Git,
    pub(crate) dir: PrivateGitDir,
    pub(crate) format: ObjectFormat,
    pub(crate) shaping: Vec<(String, String)>,
    /// The tree from which attributes are read; never one that an agent wrote.
    pub(crate) attributes: String,
    pub(crate) reader: ObjectReader,
    /// Ends runs of git and loops over files early.
    pub(crate) stop: StopSignal,
}

/// A git session that reads objects. Started on first use and kept as long as the store.
#[derive(Debug, Clone, Default)]
pub(crate) struct ObjectReader(Arc<Mutex<Option<GitSession>>>);

impl PrivateStore {
    /// Returns the same repository for work that ends early when `stop` is signalled. It has its
    /// own reader, because a shared one could be busy and would have to be waited for.
    pub(crate) fn with_stop(&self, stop: &StopSignal) -> Self {
        Self {
            reader: ObjectReader::default(),
            stop: stop.clone(),
            ..self.clone()
        }
    }

    pub(crate) fn init(&self) -> SandboxResult<()> {
        self.dir.init(self.format)
    }

    /// Makes sure that git finds only our own configuration here.
    pub(crate) fn seal(&self) -> SandboxResult<()> {
        self.dir.seal(self.format)
    }

    /// Creates a run of git on this repository. Attributes come from the base.
    pub(crate) fn call<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> GitCall {
        let call = self.git.private_call(&self.dir, arguments);
        let call = call.settings(&self.shaping);
        let call = call.setting("core.attributesFile", self.user_attributes());
        let call = call.with_stop(&self.stop);
        if self.attributes.is_empty() {
            call
        } else {
            call.attributes_of(&self.attributes)
        }
    }

    /// The copy of the user's own attributes file.
    pub(crate) fn user_attributes(&self) -> PathBuf {
        self.dir.join("info/user-attributes")
    }

    /// The ignore rules that the user had when the sandbox was created.
    pub(crate) fn exclude(&self) -> PathBuf {
        self.dir.join("info/exclude")
    }

    /// Collects objects to be written. The caller must hold the sandbox lock.
    pub(crate) fn new_objects(&self) -> NewObjects {
        NewObjects::new(&self.dir, self.format, self.stop.clone())
    }

    pub(crate) fn check_stop(&self) -> SandboxResult<()> {
        self.stop.check().map_err(SandboxError::Stopped)
    }

    /// Copies everything of the tree that is not in the commit into this store. Needed because git
    /// writes no object that the user's repository has, but there it may be unreferenced and be
    /// collected.
    pub(crate) fn copy_borrowed(&self, tree: &str, commit: Option<&str>) -> SandboxResult<()> {
        let mut wanted = format!("{tree}\n");
        if let Some(commit) = commit {
            wanted.push_str(&format!("^{commit}\n"));
        }
        let call = self.call(["pack-objects", "--revs", "--quiet"]);
        let call = call.argument(self.dir.join("objects/pack/pack"));
        call.run_with(wanted.as_bytes())?;
        Ok(())
    }

    /// Returns the id of the empty tree, which git knows without storing it.
    pub(crate) fn empty_tree(&self) -> SandboxResult<String> {
        Ok(hash_object(self.format, ObjectKind::Tree, b"")?.to_string())
    }

    /// Returns the paths of a captured tree, without stats and contents.
    pub(crate) fn entries_of(&self, tree: &TreeId) -> SandboxResult<TreeEntries> {
        let answer = self
            .call(["ls-tree", "-r", "-t", "-z", "--full-tree", tree.files()])
            .run()?;
        let mut entries = TreeEntries::default();
        let root = ObjectId::parse(tree.files())?;
        entries.folders.insert(Vec::new(), root);
        let mut files = Vec::new();
        for record in nul_records(&answer) {
            self.check_stop()?;
            let (path, entry) =
                parse_tree_entry(record).ok_or_else(|| SandboxError::Malformed {
                    what: "git ls-tree returned unexpected output".to_owned(),
                })?;
            match entry.mode {
                FOLDER => drop(entries.folders.insert(path, entry.object)),
                _ => files.push((path, entry)),
            }
        }
        entries.files = files.into_iter().collect();
        if let Some(list) = tree.empty_directories() {
            let list = self.call(["cat-file", "blob", list]).run()?;
            entries.empty_directories = nul_records(&list).map(<[u8]>::to_vec).collect();
        }
        Ok(entries)
    }

    pub(crate) fn blob(&self, object: ObjectId) -> SandboxResult<Vec<u8>> {
        self.call(["cat-file", "blob", &object.to_string()]).run()
    }

    /// Returns hash and size of many blobs in their stored form.
    pub(crate) fn contents(&self, objects: &[ObjectId]) -> SandboxResult<Vec<Content>> {
        if objects.is_empty() {
            return Ok(Vec::new());
        }
        if objects.len() <= MAX_SESSION_READS
            && let Some(contents) = self.read_contents_in_session(objects)
        {
            return Ok(contents);
        }
        let mut input = String::new();
        for object in objects {
            input.push_str(&format!("{object}\n"));
        }
        self.call(["cat-file", "--batch"]).start()?.stream(
            |pipe| pipe.write_all(input.as_bytes()),
            |pipe| {
                let mut pipe = BufReader::with_capacity(1 << 16, pipe);
                let contents = objects.iter().map(|_| read_content(&mut pipe, &self.stop));
                contents.collect::<io::Result<Vec<Content>>>()
            },
        )
    }

    /// Returns the masks of secrets in each of these blobs. Reads in chunks, so memory use is
    /// bounded.
    pub(crate) fn masks_in(&self, objects: &[ObjectId]) -> SandboxResult<Vec<BTreeSet<String>>> {
        if objects.is_empty() {
            return Ok(Vec::new());
        }
        let mut input = String::new();
        for object in objects {
            input.push_str(&format!("{object}\n"));
        }
        self.call(["cat-file", "--batch"]).start()?.stream(
            |pipe| pipe.write_all(input.as_bytes()),
            |pipe| {
                let mut pipe = BufReader::with_capacity(1 << 16, pipe);
                let scan = |_: &ObjectId| {
                    let mut scanner = MaskScanner::default();
                    read_object(&mut pipe, &mut scanner, &self.stop)?;
                    Ok(scanner.finish())
                };
                objects.iter().map(scan).collect::<io::Result<_>>()
            },
        )
    }

    /// Reads through the git session. Returns `None` on failure; a separate run then reports the
    /// error.
    fn read_contents_in_session(&self, objects: &[ObjectId]) -> Option<Vec<Content>> {
        let mut reader = self.reader.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Put back only if everything succeeded.
        let mut asked = match reader.take() {
            Some(asked) => asked,
            None => self.start_session().ok()?,
        };
        let mut contents = Vec::with_capacity(objects.len());
        for object in objects {
            let question = format!("{object}\n");
            let answer = asked.request(question.as_bytes(), &self.stop, |mut pipe| {
                read_content(&mut pipe, &self.stop)
            });
            contents.push(answer.ok()?);
        }
        *reader = Some(asked);
        Some(contents)
    }

    fn start_session(&self) -> SandboxResult<GitSession> {
        self.call(["cat-file", "--batch"]).start()?.into_session()
    }

    /// Gives packs a common index if there are at least `many`, because git searches packs one by
    /// one. Errors are ignored, because this only saves time.
    pub(crate) fn index_packs(&self, many: usize) {
        let Ok(entries) = std::fs::read_dir(self.dir.join("objects/pack")) else {
            return;
        };
        let is_pack = |entry: &std::fs::DirEntry| {
            let path = entry.path();
            path.extension().is_some_and(|ending| ending == "pack")
        };
        if entries.flatten().filter(is_pack).count() >= many {
            let call = self.call(["multi-pack-index", "write"]);
            let _ = call.setting("core.fsync", "all").run();
        }
    }

    /// The path of the cached index of exactly this tree.
    fn index_path(&self, files: &str) -> PathBuf {
        self.dir.join(format!("index-{files}"))
    }

    /// Caches a finished index under the id of its tree, and removes all others.
    pub(crate) fn keep_index(&self, index: &Path, files: &str) -> SandboxResult<()> {
        let path = self.index_path(files);
        std::fs::rename(index, &path).map_err(io_error(&path))?;
        for entry in std::fs::read_dir(&*self.dir).map_err(io_error(&self.dir))? {
            let entry = entry.map_err(io_error(&self.dir))?;
            let is_index = entry.file_name().to_string_lossy().starts_with("index-");
            if is_index && entry.path() != path {
                remove(&entry.path())?;
            }
        }
        Ok(())
    }

    /// Returns the path for the next index, after removing what a killed run left there.
    pub(crate) fn next_index(&self) -> SandboxResult<PathBuf> {
        let path = self.dir.join("index-next");
        remove(&path)?;
        remove(&self.dir.join("index-next.lock"))?;
        Ok(path)
    }

    /// Applies `update-index --index-info` lines to the tree `previous` and returns the new tree.
    pub(crate) fn change_tree(&self, previous: &str, lines: &[u8]) -> SandboxResult<String> {
        let index = self.next_index()?;
        let kept = self.index_path(previous);
        match std::fs::copy(&kept, &index) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.call(["read-tree", previous]).index(&index).run()?;
            }
            Err(error) => return Err(io_error(&kept)(error)),
        }
        let call = self.call(["update-index", "-z", "--index-info"]);
        call.index(&index).run_with(lines)?;
        let tree = self.call(["write-tree", "--missing-ok"]).index(&index);
        let tree = tree.line()?;
        self.keep_index(&index, &tree)?;
        Ok(tree)
    }
}

/// Appends a line of `update-index --index-info`.
pub(crate) fn push_tree_line(lines: &mut Vec<u8>, mode: u32, object: &str, path: &[u8]) {
    lines.extend_from_slice(format!("{mode:o} {object}\t").as_bytes());
    lines.extend_from_slice(path);
    lines.push(0);
}

fn read_content(pipe: &mut impl BufRead, stop: &StopSignal) -> io::Result<Content> {
    let mut hasher = blake3::Hasher::new();
    let size = read_object(pipe, &mut hasher, stop)?;
    Ok(Content {
        hash: *hasher.finalize().as_bytes(),
        size,
    })
}

/// Copies an object from `cat-file --batch` and returns its size.
fn read_object(pipe: &mut impl BufRead, to: &mut impl Write, stop: &StopSignal) -> io::Result<u64> {
    let broken = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let mut header = String::new();
    pipe.read_line(&mut header)?;
    let size = header.trim_end().rsplit(' ').next().map(str::parse::<u64>);
    let Some(Ok(size)) = size else {
        return Err(broken(&header));
    };
    let mut from = StoppableReader {
        from: pipe.by_ref().take(size),
        stop,
    };
    let copied = io::copy(&mut from, to)?;
    let mut end = [0];
    pipe.read_exact(&mut end)?;
    if copied != size || end != *b"\n" {
        return Err(broken("an object was cut short"));
    }
    Ok(size)
}

fn parse_tree_entry(record: &[u8]) -> Option<(Vec<u8>, TreeEntry)> {
    let tab = record.iter().position(|byte| *byte == b'\t')?;
    let head = std::str::from_utf8(&record[..tab]).ok()?;
    let mut fields = head.split(' ');
    let mode = u32::from_str_radix(fields.next()?, 8).ok()?;
    let object = ObjectId::parse(fields.nth(1)?).ok()?;
    let entry = TreeEntry {
        mode,
        object,
        stat: None,
        content: None,
    };
    Some((record[tab + 1..].to_vec(), entry))
}
