//! The closed list of git commands that run in a user's own git directory.
//!
//! A repository's configuration can name programs for filters, diffs, merges, signatures, monitors
//! and transports. The commands here start none of them: they read configuration, refs and objects,
//! and write refs. Everything that touches files or an index runs in a
//! [`RepositoryView`](crate::view::RepositoryView), whose configuration is ours.

use std::fs::File;
use std::process::Child;

use cleveragents_ports::sandbox::{CommitMetadata, SandboxResult};

use crate::git_call::GitCall;
use crate::git_run::GitOutput;
use crate::publish::with_identity;

/// A git command that starts no program, whatever the configuration says.
#[derive(Debug, Clone, Copy)]
pub(crate) enum UserGitCommand<'a> {
    /// Lists the effective configuration with the scope of each value.
    ListConfiguration,
    /// Names the branch at `HEAD`.
    CurrentBranch,
    /// Resolves a name to its object.
    Resolve(&'a str),
    /// Reads names from stdin and prints their objects.
    ReadObjects,
    CheckRefName(&'a str),
    /// Prints one ref whose name starts with this prefix.
    FirstRef(&'a str),
    IsAncestor {
        ancestor: &'a str,
        descendant: &'a str,
    },
    ListWorktrees,
    /// Creates a ref that must not exist.
    CreateRef {
        name: &'a str,
        commit: &'a str,
    },
    SetRef {
        name: &'a str,
        commit: &'a str,
    },
    DeleteRef(&'a str),
    /// Moves refs in a transaction given on stdin, and writes their reflogs.
    UpdateRefs {
        author: &'a CommitMetadata,
    },
}

/// One run of such a command. No arguments can be added.
#[derive(Debug)]
pub(crate) struct UserGitCall(GitCall);

impl UserGitCommand<'_> {
    fn arguments(&self) -> Vec<&str> {
        match *self {
            Self::ListConfiguration => {
                vec!["config", "--list", "--includes", "--show-scope", "-z"]
            }
            Self::CurrentBranch => vec!["symbolic-ref", "--quiet", "HEAD"],
            Self::Resolve(name) => vec!["rev-parse", "--verify", "--quiet", name],
            Self::ReadObjects => vec!["cat-file", "--batch"],
            Self::CheckRefName(name) => vec!["check-ref-format", name],
            Self::FirstRef(inside) => {
                vec!["for-each-ref", "--count=1", "--format=%(refname)", inside]
            }
            Self::IsAncestor {
                ancestor,
                descendant,
            } => vec!["merge-base", "--is-ancestor", ancestor, descendant],
            Self::ListWorktrees => vec!["worktree", "list", "--porcelain", "-z"],
            // An empty old value means that the ref must not exist.
            Self::CreateRef { name, commit } => vec!["update-ref", name, commit, ""],
            Self::SetRef { name, commit } => vec!["update-ref", name, commit],
            Self::DeleteRef(name) => vec!["update-ref", "-d", name],
            Self::UpdateRefs { .. } => {
                let message = "agents: apply";
                vec!["update-ref", "--create-reflog", "-m", message, "--stdin"]
            }
        }
    }

    /// Creates the call from one with its arguments, which `start_call` creates.
    pub(crate) fn call(self, start_call: impl FnOnce(&[&str]) -> GitCall) -> UserGitCall {
        let call = start_call(&self.arguments());
        UserGitCall(match self {
            Self::ListConfiguration => call.with_user_configuration(),
            Self::UpdateRefs { author: by } => with_identity(call, by),
            _ => call,
        })
    }
}

impl UserGitCall {
    pub(crate) fn run(self) -> SandboxResult<Vec<u8>> {
        self.0.run()
    }

    pub(crate) fn run_with(self, input: &[u8]) -> SandboxResult<Vec<u8>> {
        self.0.run_with(input)
    }

    pub(crate) fn line(self) -> SandboxResult<String> {
        self.0.line()
    }

    pub(crate) fn output(self) -> SandboxResult<GitOutput> {
        self.0.output()
    }

    /// Returns the output as one line of text, or `None` if git says no by exit code 1. Any other
    /// failure is an error: treated as a no, it would make a branch look deleted or `HEAD`
    /// detached.
    pub(crate) fn optional_line(self) -> SandboxResult<Option<String>> {
        self.0.output()?.optional_line()
    }

    /// Starts an interactive run that holds `lock` open as long as it lives.
    pub(crate) fn start_with_lock(self, lock: &File) -> SandboxResult<Child> {
        self.0.start_with_lock(lock)
    }
}
