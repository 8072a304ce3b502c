//! New objects on their way into a user's repository.
//!
//! They travel as a pack that is made and checked in a folder of ours and then put among the
//! user's. Git's own way would write a temporary file there that a `gc --prune=now` of the user's
//! removes while it is being written.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use cleveragents_engine::ports::sandbox::{SandboxError, SandboxResult};

use crate::files::{create_private_folder, io_error, is_not_found, remove, replace};
use crate::gitmodules;
use crate::repository::UserRepository;
use crate::store::PrivateStore;

/// Written into the file that keeps a new pack until a ref does.
const KEEP_TEXT: &[u8] = b"agents publish\n";

/// A finished pack in a folder of ours.
#[derive(Debug)]
pub(crate) struct Pack {
    folder: PathBuf,
    /// What git calls it, without endings.
    name: String,
}

/// Makes a pack of the wanted revisions in a new folder, checked as for a stranger's push: an agent
/// wrote what is in it.
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
    store.call(call).stream(
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

/// What git finds wrong with an object is said in its words and without the command.
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

/// A name no pack ever had. By its content a pack could be called like one that a running
/// collection of the user's has already found superfluous, and go with it.
fn unique_name(pack: &File, store: &PrivateStore, owner: &str) -> io::Result<String> {
    let found = pack.metadata()?;
    let (inode, seconds, part) = (found.ino(), found.ctime(), found.ctime_nsec());
    let text = format!("{owner} {inode} {seconds} {part}");
    let hash = blake3::hash(text.as_bytes()).to_hex();
    let length = store.format.id_length();
    Ok(format!("pack-{}", &hash.as_str()[..length]))
}

impl Pack {
    /// The file that keeps it in a repository it is given to.
    pub(crate) fn keep_file_in(&self, repository: &UserRepository) -> PathBuf {
        let folder = repository.objects_dir().join("pack");
        folder.join(format!("{}.keep", self.name))
    }

    /// Puts the pack among the user's objects, with a file that keeps it from collection; that
    /// file. The index comes last, because it makes the pack visible. The pack gets the time
    /// `given`, by which [`withdraw`] sees whether somebody came to rely on it.
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
            // Under its own ending it would already be taken for part of a pack, and cleared away.
            let beside = target.join(format!(".agents-{owner}-{ending}"));
            let to = target.join(format!("{}.{ending}", self.name));
            // Left by a killed call, and not to be written.
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
        File::open(&target)
            .and_then(|folder| folder.sync_all())
            .map_err(io_error(&target))?;
        Ok(keep)
    }
}

/// Removes a pack that nothing refers to, with all that giving it may have left: the parts of one
/// that was not given whole, and files that have no name of their own yet. Git renews the time of a
/// pack when it stores an object that is in it already; such a pack is somebody's by now and stays.
pub(crate) fn withdraw(keep: &Path, owner: &str, installed_at: SystemTime) -> SandboxResult<()> {
    let Some(folder) = keep.parent() else {
        return Ok(());
    };
    let part = |ending: &str| keep.with_extension(ending);
    let (pack, beside) = (part("pack"), folder.join(format!(".agents-{owner}-pack")));
    if part("idx").exists() && !pack.exists() && beside.exists() {
        // A withdrawal was killed before it had looked.
        std::fs::rename(&beside, &pack).map_err(io_error(&pack))?;
    }
    for ending in ["keep", "pack", "rev", "idx"] {
        remove(&folder.join(format!(".agents-{owner}-{ending}")))?;
    }
    // Once it has another name its time cannot be renewed any more, and git stores a copy instead.
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
