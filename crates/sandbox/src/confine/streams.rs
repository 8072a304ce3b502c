//! Input and output of a command that has a user of its own.
//!
//! A program may open its streams once more, by `/dev/stdin` and its like. The kernel then asks who
//! owns the pipe.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{ChildStdin, Stdio};

use rustix::fs::fchown;

use crate::account::SandboxAccount;

/// Gives the output of this process, which is the command's as well, to the command's user.
pub(super) fn chown_output(account: Option<SandboxAccount>) -> io::Result<()> {
    chown_stream(&io::stdout(), account)?;
    chown_stream(&io::stderr(), account)
}

/// A pipe for the command's input: its end, and ours.
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
