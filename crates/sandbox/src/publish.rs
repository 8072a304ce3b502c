//! Publish: a captured tree becomes a commit in the user's repository, under our own refs.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;

use cleveragents_domain::ResourceType;
use cleveragents_engine::ports::sandbox::{
    CommitText, Published, SandboxError, SandboxResult, TreeId,
};

use crate::files::{create_private_folder, failed, path_of, remove, replace};
use crate::references;
use crate::repository::{Repository, text};
use crate::sandbox::LocalSandbox;

/// Written into the file that keeps a new pack until a ref does.
const KEEP: &[u8] = b"agents publish\n";

pub(crate) fn publish(
    sandbox: &LocalSandbox,
    tree: &TreeId,
    words: &CommitText,
) -> SandboxResult<Published> {
    if sandbox.marker.resource_type != ResourceType::GitCheckout {
        return Err(SandboxError::NoRepository);
    }
    let resource = path_of(sandbox.marker.resource.as_bytes());
    let repository = Repository::find(&sandbox.store.git, resource)?;
    let commit = make_commit(sandbox, tree, words)?;
    let pack = write_pack(sandbox, &commit)?;
    let reference = references::published(sandbox.marker.plan);
    let _turn = references::hold(&sandbox.locks, &repository)?;
    let keep = give(sandbox, &repository, &pack)?;
    references::set(&repository, &reference, &commit)?;
    // From here on the ref keeps the objects.
    remove(&keep)?;
    remove(&pack.folder)?;
    Ok(Published { reference, commit })
}

/// A finished pack in a folder of ours.
#[derive(Debug)]
struct Pack {
    folder: PathBuf,
    /// What git calls it, without endings.
    name: String,
}

fn make_commit(sandbox: &LocalSandbox, tree: &TreeId, words: &CommitText) -> SandboxResult<String> {
    let call = sandbox.store.call(["commit-tree", tree.files()]);
    let call = match &sandbox.made.base_commit {
        Some(base) => call.argument("-p").argument(base),
        None => call,
    };
    let date = format!("@{} +0000", words.seconds);
    let call = ["AUTHOR", "COMMITTER"].iter().fold(call, |call, who| {
        call.variable(&format!("GIT_{who}_NAME"), &words.name)
            .variable(&format!("GIT_{who}_EMAIL"), &words.email)
            .variable(&format!("GIT_{who}_DATE"), &date)
    });
    Ok(text(&call.run_with(words.message.as_bytes())?))
}

/// Everything of the commit that its base does not have, checked as for a stranger's push: an agent
/// wrote it.
fn write_pack(sandbox: &LocalSandbox, commit: &str) -> SandboxResult<Pack> {
    let mut wanted = format!("{commit}\n");
    if let Some(base) = &sandbox.made.base_commit {
        wanted.push_str(&format!("^{base}\n"));
    }
    let folder = sandbox.layout.publishing();
    remove(&folder)?;
    create_private_folder(&folder)?;
    let path = folder.join("new.pack");
    let mut file = File::create(&path).map_err(failed(&path))?;
    let call = ["pack-objects", "--revs", "--stdout", "--quiet"];
    sandbox.store.call(call).stream(
        |pipe| io::Write::write_all(pipe, wanted.as_bytes()),
        |pipe| io::copy(pipe, &mut file),
    )?;
    let call = sandbox
        .store
        .call(["index-pack", "--fsck-objects", "--rev-index"]);
    call.argument(&path).run()?;
    let name = name_of(&file, sandbox).map_err(failed(&path))?;
    Ok(Pack { folder, name })
}

/// A name no pack ever had. By its content a pack could be called like one that a running
/// collection of the user's has already found superfluous, and go with it.
fn name_of(pack: &File, sandbox: &LocalSandbox) -> io::Result<String> {
    let found = pack.metadata()?;
    let (inode, seconds, part) = (found.ino(), found.ctime(), found.ctime_nsec());
    let text = format!("{} {inode} {seconds} {part}", sandbox.marker.id);
    let hash = blake3::hash(text.as_bytes()).to_hex();
    let length = sandbox.made.object_format.id_length();
    Ok(format!("pack-{}", &hash.as_str()[..length]))
}

/// Puts the pack among the user's objects, with a file that keeps it from collection; that file.
///
/// Git's own way would write a temporary file there that a `gc --prune=now` of the user's removes
/// while it is being written. The index comes last, because it makes the pack visible.
fn give(sandbox: &LocalSandbox, repository: &Repository, pack: &Pack) -> SandboxResult<PathBuf> {
    let target = repository.objects_dir().join("pack");
    std::fs::create_dir_all(&target).map_err(failed(&target))?;
    let keep = target.join(format!("{}.keep", pack.name));
    let note = pack.folder.join("new.keep");
    replace(&note, KEEP)?;
    for ending in ["keep", "pack", "rev", "idx"] {
        let from = pack.folder.join(format!("new.{ending}"));
        // Under its own ending it would already be taken for part of a pack, and cleared away.
        let beside = target.join(format!(".agents-{}-{ending}", sandbox.marker.id));
        let to = target.join(format!("{}.{ending}", pack.name));
        let give = || -> io::Result<()> {
            std::fs::copy(&from, &beside)?;
            File::open(&beside)?.sync_all()?;
            std::fs::set_permissions(&beside, Permissions::from_mode(0o444))?;
            std::fs::rename(&beside, &to)
        };
        match give() {
            Err(error) if ending == "rev" && error.kind() == io::ErrorKind::NotFound => {}
            outcome => outcome.map_err(failed(&to))?,
        }
    }
    File::open(&target)
        .and_then(|folder| folder.sync_all())
        .map_err(failed(&target))?;
    Ok(keep)
}
