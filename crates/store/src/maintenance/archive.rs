//! The backup file format: a tar archive whose last member, the manifest, lists every other member
//! with its hash. A truncated or altered file is therefore detected before anything is restored.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use cleveragents_domain::{ChainFault, Timestamp};
use cleveragents_ports::{Entity, Result, StoreError, UniqueKey};
use serde::{Deserialize, Serialize};

use crate::files::{map_io_error, sync_folder};

/// The format this program writes. Older formats stay readable; newer ones are refused.
pub(super) const FORMAT: i64 = 1;
const MANIFEST: &str = "manifest.json";
/// Limits the size of a member so that an archive cannot exhaust memory.
const MEMBER_MAXIMUM: u64 = 4 << 30;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BackupManifest {
    pub format: i64,
    pub written_by: String,
    pub schema: i64,
    pub created_at: Timestamp,
    /// Row counts by table, and the number of `blobs`.
    pub contents: BTreeMap<String, u64>,
    /// Blobs whose content was missing or altered when the backup was written.
    #[serde(default)]
    pub unreadable_blobs: BTreeSet<String>,
    /// BLAKE3 of every member.
    pub members: BTreeMap<String, String>,
}

/// Writes to a temporary file. The final name appears only when the backup is complete.
pub(super) struct BackupWriter {
    tar: tar::Builder<BufWriter<File>>,
    partial: PartialFile,
    path: PathBuf,
    modified: u64,
    members: BTreeMap<String, String>,
}

/// A file with a name unique to this process; deleted when dropped.
struct PartialFile(PathBuf);

impl PartialFile {
    fn partial_path(path: &Path, at: Timestamp) -> PathBuf {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(
            ".{}-{}.partial",
            std::process::id(),
            at.as_micros()
        ));
        PathBuf::from(name)
    }

    /// Gives the file its final name. Fails if that name exists.
    fn persist(self, path: &Path) -> io::Result<()> {
        match std::fs::hard_link(&self.0, path) {
            // A hard link fails if the name exists, so a file that appears at the last moment is
            // not replaced; a rename would replace it.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(error),
            // The file system has no hard links, so checking before the rename is the best
            // available.
            Err(_) if path.exists() => return Err(io::ErrorKind::AlreadyExists.into()),
            Err(_) => std::fs::rename(&self.0, path)?,
            Ok(()) => {}
        }
        let folder = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        sync_folder(folder.unwrap_or(Path::new(".")))
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        // A remaining partial file is only garbage.
        let _ = std::fs::remove_file(&self.0);
    }
}

impl BackupWriter {
    pub(super) fn create(path: &Path, at: Timestamp) -> Result<Self> {
        let partial = PartialFile::partial_path(path, at);
        // Never write through a symbolic link or into a file that another program placed there.
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&partial)
            .map_err(|e| map_io_error(&partial, &e))?;
        Ok(Self {
            tar: tar::Builder::new(BufWriter::new(file)),
            partial: PartialFile(partial),
            path: path.to_owned(),
            modified: u64::try_from(at.as_micros() / 1_000_000).unwrap_or(0),
            members: BTreeMap::new(),
        })
    }

    pub(super) fn add(&mut self, name: &str, content: &[u8]) -> Result<()> {
        let hash = blake3::hash(content).to_hex().to_string();
        self.members.insert(name.to_owned(), hash);
        self.append(name, content)
            .map_err(|e| map_io_error(&self.partial.0, &e))
    }

    /// Writes the manifest, syncs everything and gives the file its final name.
    pub(super) fn finish(mut self, mut manifest: BackupManifest) -> Result<BackupManifest> {
        manifest.members = std::mem::take(&mut self.members);
        let text = serde_json::to_vec_pretty(&manifest).map_err(StoreError::internal)?;
        self.append(MANIFEST, &text)
            .map_err(|e| map_io_error(&self.partial.0, &e))?;
        let Self {
            tar, partial, path, ..
        } = self;
        close(tar).map_err(|e| map_io_error(&partial.0, &e))?;
        partial.persist(&path).map_err(|e| match e.kind() {
            io::ErrorKind::AlreadyExists => file_exists_error(&path),
            _ => map_io_error(&path, &e),
        })?;
        Ok(manifest)
    }

    fn append(&mut self, name: &str, content: &[u8]) -> io::Result<()> {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o600);
        header.set_mtime(self.modified);
        self.tar.append_data(&mut header, name, content)
    }
}

fn close(tar: tar::Builder<BufWriter<File>>) -> io::Result<()> {
    let mut file = tar.into_inner()?;
    file.flush()?;
    file.get_ref().sync_all()
}

/// A backup never overwrites an existing file.
pub(super) fn file_exists_error(path: &Path) -> StoreError {
    StoreError::Taken {
        key: UniqueKey::FileName,
        name: path.display().to_string(),
        holder: "an existing file".to_owned(),
    }
}

/// A backup file that was read once completely and found intact.
pub(super) struct BackupReader {
    path: PathBuf,
    pub(super) manifest: BackupManifest,
}

impl BackupReader {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let mut found = BTreeMap::new();
        let mut manifest: Option<BackupManifest> = None;
        visit_members(path, &mut |name, content| {
            if name == MANIFEST {
                manifest = Some(serde_json::from_slice(content).map_err(|e| {
                    damaged_file_error(path, format!("its manifest is malformed: {e}"))
                })?);
            } else {
                found.insert(name.to_owned(), blake3::hash(content).to_hex().to_string());
            }
            Ok(())
        })?;
        let manifest = manifest.ok_or_else(|| damaged_file_error(path, "it has no manifest"))?;
        // Checked before the members are compared, so that a newer backup is reported as such and
        // not as damaged.
        if manifest.format > FORMAT || manifest.schema > crate::schema::NEWEST_VERSION {
            return Err(StoreError::Newer {
                place: path.display().to_string(),
                found: manifest.schema,
                known: crate::schema::NEWEST_VERSION,
                written_by: manifest.written_by,
            });
        }
        if found != manifest.members {
            return Err(damaged_file_error(
                path,
                "its members are not those of its manifest",
            ));
        }
        Ok(Self {
            path: path.to_owned(),
            manifest,
        })
    }

    pub(super) fn damaged_error(&self, reason: impl ToString) -> StoreError {
        damaged_file_error(&self.path, reason)
    }

    pub(super) fn altered_error(&self, fault: &ChainFault) -> StoreError {
        StoreError::Altered {
            path: self.path.clone(),
            fault: fault.to_string(),
        }
    }

    /// Visits the members in the order in which they were written.
    pub(super) fn for_each_member(
        &self,
        visitor: &mut dyn FnMut(&str, &[u8]) -> Result<()>,
    ) -> Result<()> {
        visit_members(&self.path, &mut |name, content| {
            if name == MANIFEST {
                return Ok(());
            }
            // The file may have been replaced between the first reading and this one.
            let hash = blake3::hash(content).to_hex().to_string();
            if self.manifest.members.get(name) != Some(&hash) {
                return Err(damaged_file_error(
                    &self.path,
                    format!("{name} changed while it was read"),
                ));
            }
            visitor(name, content)
        })
    }
}

fn visit_members(path: &Path, visitor: &mut dyn FnMut(&str, &[u8]) -> Result<()>) -> Result<()> {
    let file = File::open(path).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => StoreError::NotFound {
            entity: Entity::Backup,
            id: path.display().to_string(),
        },
        _ => map_io_error(path, &e),
    })?;
    let mut tar = tar::Archive::new(BufReader::new(file));
    let entries = tar.entries().map_err(|e| unreadable_error(path, &e))?;
    for entry in entries {
        let mut entry = entry.map_err(|e| unreadable_error(path, &e))?;
        let name = entry
            .path()
            .map_err(|e| damaged_file_error(path, e))?
            .display()
            .to_string();
        if entry.size() > MEMBER_MAXIMUM {
            return Err(damaged_file_error(path, format!("{name} is too large")));
        }
        let mut content = Vec::new();
        // The declared size is checked first: the content is read into memory as a whole.
        entry
            .read_to_end(&mut content)
            .map_err(|e| unreadable_error(path, &e))?;
        visitor(&name, &content)?;
    }
    Ok(())
}

/// Error messages of the archive library quote archive contents, which are untrusted; messages of
/// the disk do not.
fn unreadable_error(path: &Path, error: &io::Error) -> StoreError {
    match error.raw_os_error() {
        Some(_) => damaged_file_error(path, error),
        None => damaged_file_error(path, "it is not an archive, or it was truncated or altered"),
    }
}

fn damaged_file_error(path: &Path, reason: impl ToString) -> StoreError {
    StoreError::Corrupt {
        path: path.to_owned(),
        reason: reason.to_string(),
    }
}
