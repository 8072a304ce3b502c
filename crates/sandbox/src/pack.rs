//! Transfers new objects into a user's repository.
//!
//! They are packed and checked in a private folder and then moved into the user's. Git itself would
//! write a temporary file there, which the user's `gc --prune=now` could remove during the write.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use cleveragents_ports::sandbox::{SandboxError, SandboxResult};

use crate::files::{create_private_folder, io_error, is_not_found, remove, replace};
use crate::gitmodules;
use crate::repository::UserRepository;
use crate::store::PrivateStore;

/// Content of the `.keep` file that protects a new pack until a ref does.
const KEEP_TEXT: &[u8] = b"agents publish\n";

/// A finished pack in a private folder.
#[derive(Debug)]
pub(crate) struct Pack {
    folder: PathBuf,
    /// Git's name for it, without extension.
    name: String,
}

/// Packs the wanted revisions into a new folder. Checks them like a push from a stranger, because an
/// agent wrote their content.
pub(crate) fn write(
    store: &PrivateStore,
    folder: &Path,
    revisions: &str,
    owner: &str,
) -> SandboxResult<Pack> {
    remove(folder)?;
    create_private_folder(folder)?;
    let path = folder.join("new.pack");
    let mut file = File::create(&path).map_err(io_error(&path))?;
    let call = ["pack-objects", "--revs", "--stdout", "--quiet"];
    store.call(call).start()?.stream(
        |pipe| io::Write::write_all(pipe, revisions.as_bytes()),
        |pipe| io::copy(pipe, &mut file),
    )?;
    let call = store.call(["index-pack", "--fsck-objects", "--rev-index"]);
    check_indexed(call.argument(&path).run())?;
    let name = unique_name(&file, store, owner).map_err(io_error(&path))?;
    Ok(Pack {
        folder: folder.to_owned(),
        name,
    })
}

/// Reports what git finds wrong with an object in git's words, without the command.
fn check_indexed(indexed: SandboxResult<Vec<u8>>) -> SandboxResult<()> {
    match indexed {
        Ok(_) => Ok(()),
        Err(SandboxError::Git {
            command,
            status,
            stderr,
        }) => Err(match gitmodules::parse_reason(&stderr) {
            Some(reason) => SandboxError::Malformed {
                what: format!("git refuses what would be committed: {reason}"),
            },
            None => SandboxError::Git {
                command,
                status,
                stderr,
            },
        }),
        Err(error) => Err(error),
    }
}

/// Returns a name that no pack ever had. A name derived from content could equal that of a pack which
/// a running garbage collection of the user has already found redundant, and be deleted with it.
fn unique_name(pack: &File, store: &PrivateStore, owner: &str) -> io::Result<String> {
    let found = pack.metadata()?;
    let (inode, seconds, part) = (found.ino(), found.ctime(), found.ctime_nsec());
    let text = format!("{owner} {inode} {seconds} {part}");
    let hash = blake3::hash(text.as_bytes()).to_hex();
    let length = store.format.id_length();
    Ok(format!("pack-{}", &hash.as_str()[..length]))
}

impl Pack {
    /// Returns the path of the `.keep` file that protects it in this repository.
    pub(crate) fn keep_file_in(&self, repository: &UserRepository) -> PathBuf {
        let folder = repository.objects_dir().join("pack");
        folder.join(format!("{}.keep", self.name))
    }

    /// Copies the pack into the user's repository with a `.keep` file that protects it from garbage
    /// collection. Returns the path of that file. The index comes last, because it makes the pack
    /// visible. The pack gets the time `installed_at`, by which [`withdraw`] detects whether it was
    /// used since.
    pub(crate) fn install_in(
        &self,
        repository: &UserRepository,
        owner: &str,
        installed_at: SystemTime,
    ) -> SandboxResult<PathBuf> {
        let target = repository.objects_dir().join("pack");
        std::fs::create_dir_all(&target).map_err(io_error(&target))?;
        let keep = self.keep_file_in(repository);
        replace(&self.folder.join("new.keep"), KEEP_TEXT)?;
        for ending in ["keep", "pack", "rev", "idx"] {
            let from = self.folder.join(format!("new.{ending}"));
            // With its own extension git would treat it as part of a pack and clean it up.
            let beside = target.join(format!(".agents-{owner}-{ending}"));
            let to = target.join(format!("{}.{ending}", self.name));
            // Left by a killed call and read-only.
            remove(&beside)?;
            let give = || -> io::Result<()> {
                std::fs::copy(&from, &beside)?;
                let file = File::open(&beside)?;
                file.set_modified(installed_at)?;
                file.sync_all()?;
                std::fs::set_permissions(&beside, Permissions::from_mode(0o444))?;
                std::fs::rename(&beside, &to)
            };
            match give() {
                Err(error) if ending == "rev" && error.kind() == io::ErrorKind::NotFound => {}
                outcome => outcome.map_err(io_error(&to))?,
            }
        }
        // The files must be durable before a ref names their objects.
        File::open(&target)
            .and_then(|folder| folder.sync_all())
            .map_err(io_error(&target))?;
        Ok(keep)
    }
}

/// Removes a pack that nothing refers to, with everything that its installation may have left:
/// parts of an incomplete one, and temporary files. Git renews the time of a pack when it stores an
/// object that is already in it; such a pack is in use and stays.
pub(crate) fn withdraw(keep: &Path, owner: &str, installed_at: SystemTime) -> SandboxResult<()> {
    let Some(folder) = keep.parent() else {
        return Ok(());
    };
    let part = |ending: &str| keep.with_extension(ending);
    let (pack, beside) = (part("pack"), folder.join(format!(".agents-{owner}-pack")));
    if part("idx").exists() && !pack.exists() && beside.exists() {
        // An earlier withdrawal was killed before it checked the pack's time.
        std::fs::rename(&beside, &pack).map_err(io_error(&pack))?;
    }
    for ending in ["keep", "pack", "rev", "idx"] {
        remove(&folder.join(format!(".agents-{owner}-{ending}")))?;
    }
    // After the rename git can no longer renew its time and stores a copy of the object instead.
    match std::fs::rename(&pack, &beside) {
        Err(error) if is_not_found(&error) => {}
        renamed => renamed.map_err(io_error(&pack))?,
    }
    let time = std::fs::metadata(&beside).and_then(|found| found.modified());
    let is_relied_on = part("idx").exists() && time.is_ok_and(|time| time != installed_at);
    if is_relied_on {
        std::fs::rename(&beside, &pack).map_err(io_error(&pack))?;
        return remove(keep);
    }
    for ending in ["idx", "rev", "keep"] {
        remove(&part(ending))?;
    }
    remove(&beside)
}
