//! The unprivileged account that PostgreSQL runs as, because it refuses root.

use std::ffi::OsStr;
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::{environment, process};

/// The account that owns and runs the cluster.
#[derive(Debug)]
pub struct ClusterAccount {
    pub name: String,
    /// User and group to change to; `None` if we already are that user.
    ids: Option<(u32, u32)>,
}

/// The current account, unless it is root: then `postgres` or `nobody`.
pub fn unprivileged() -> Result<ClusterAccount> {
    if !environment::is_root() {
        return Ok(ClusterAccount {
            name: "this user".into(),
            ids: None,
        });
    }
    for name in ["postgres", "nobody"] {
        if let (Ok(user), Ok(group)) = (id("-u", name), id("-g", name)) {
            return Ok(ClusterAccount {
                name: name.into(),
                ids: Some((user, group)),
            });
        }
    }
    bail!(
        "PostgreSQL does not run as root and there is neither an account `postgres` nor `nobody`; \
         add one (`useradd --system postgres`) or run this as an ordinary user"
    )
}

impl ClusterAccount {
    /// A program that will run as this account.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        match self.prefix().split_first() {
            None => process::command(program),
            Some((setpriv, options)) => {
                let mut command = process::command(setpriv);
                command.args(options).arg(program);
                command
            }
        }
    }

    /// The command line prefix that runs a command as this account.
    pub fn prefix(&self) -> Vec<String> {
        match self.ids {
            None => Vec::new(),
            Some((user, group)) => vec![
                "setpriv".into(),
                format!("--reuid={user}"),
                format!("--regid={group}"),
                "--clear-groups".into(),
                "--".into(),
            ],
        }
    }

    /// Makes this account the owner of `path`.
    pub fn give_ownership(&self, path: &Path) -> Result<()> {
        let Some((user, group)) = self.ids else {
            return Ok(());
        };
        chown(path, Some(user), Some(group))
            .with_context(|| format!("cannot give {} to {}", path.display(), self.name))
    }

    /// Returns whether this account can access files in `folder`.
    pub fn can_enter(&self, folder: &Path) -> bool {
        self.command("test")
            .arg("-x")
            .arg(folder)
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    }
}

fn id(which: &str, name: &str) -> Result<u32> {
    let text = process::capture(process::command("id").args([which, name]))?;
    text.trim()
        .parse()
        .with_context(|| format!("`id {which} {name}` answered `{text}`"))
}
