//! Input and output of a command that has a user of its own.
//!
//! A program may reopen its streams through `/dev/stdin` and similar paths. The kernel then checks
//! the owner of the pipe, so the pipes must belong to that user.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{ChildStdin, Stdio};

use rustix::fs::fchown;

use crate::account::SandboxAccount;

/// Gives stdout and stderr of this process, which the command inherits, to the command's user.
pub(super) fn chown_output(account: Option<SandboxAccount>) -> io::Result<()> {
    chown_stream(&io::stdout(), account)?;
    chown_stream(&io::stderr(), account)
}

/// Creates a pipe for the command's input. Returns its end and ours.
pub(super) fn input_pipe(account: Option<SandboxAccount>) -> io::Result<(Stdio, ChildStdin)> {
    let (reader, writer) = io::pipe()?;
    chown_stream(&reader, account)?;
    Ok((reader.into(), ChildStdin::from(OwnedFd::from(writer))))
}

fn chown_stream(stream: &impl AsFd, account: Option<SandboxAccount>) -> io::Result<()> {
    if let Some(account) = account {
        fchown(stream, Some(account.uid()), Some(account.gid()))?;
    }
    Ok(())
}
