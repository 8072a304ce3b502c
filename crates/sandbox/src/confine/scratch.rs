//! Prepares the home of a command and its folder for temporary files.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use cleveragents_ports::processes::ConfinedCommand;

use crate::account::SandboxAccount;
use crate::files::create_private_folder;
use crate::ownership;

/// Git trusts only repositories of its own user, but the store belongs to the host. Trusting all is
/// safe because this git runs inside the sandbox. The stat settings are needed because the store's
/// index does not know the new owner of the files, and git would read all of them again.
const GIT_SETTINGS: &[u8] =
    b"[safe]\n\tdirectory = *\n[core]\n\tcheckStat = minimal\n\ttrustctime = false\n";

/// Gives tree and scratch folder to the command's user and creates what a home needs. Returns the
/// folder for temporary files.
pub(super) fn prepare(
    command: &ConfinedCommand,
    account: Option<SandboxAccount>,
) -> io::Result<PathBuf> {
    let temporary = command.scratch.join("tmp");
    create_private_folder(&temporary).map_err(io::Error::other)?;
    ownership::ensure_owner(&command.tree, account)?;
    ownership::ensure_owner(&command.scratch, account)?;
    ownership::chown_one(&temporary, account)?;
    if account.is_some() {
        let settings = command.scratch.join(".gitconfig");
        if write_new(&settings, GIT_SETTINGS)? {
            ownership::chown_one(&settings, account)?;
        }
    }
    Ok(temporary)
}

/// Returns whether the file was created. An existing file stays.
fn write_new(path: &Path, content: &[u8]) -> io::Result<bool> {
    let mut options = OpenOptions::new();
    match options.write(true).create_new(true).mode(0o644).open(path) {
        Ok(mut file) => file.write_all(content).map(|()| true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}
