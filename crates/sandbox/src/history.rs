//! The commits of a user's repository and the origin of its lines.
//!
//! `git blame` reads files, so it runs in a [`RepositoryView`]: no filter, text conversion or list of
//! ignored commits of the repository's configuration takes part.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use cleveragents_domain::line_range::LineRange;
use cleveragents_domain::{AbsolutePath, ResourcePath};
use cleveragents_ports::commit_history::{
    BlamedLine, CommitHistory, FileBlame, HistoryCommit, LineOrigin,
};
use cleveragents_ports::sandbox::{Checkout, SandboxError, SandboxResult};

use crate::files::{io_error, path_from_bytes, resource_path};
use crate::git::{Git, GitSettings};
use crate::repository::{UserRepository, trimmed_text};
use crate::view::RepositoryView;

/// Reads the history of any repository on this machine.
#[derive(Debug)]
pub struct LocalHistory {
    git: Git,
}

impl LocalHistory {
    /// Short-lived files are in `views/` of the data directory. Fails if git is too old.
    pub fn open(data_directory: &Path, git: GitSettings) -> SandboxResult<Self> {
        let git = Git::new(git, data_directory.join("views"));
        git.check_version()?;
        Ok(Self { git })
    }
}

impl CommitHistory for LocalHistory {
    fn commit(&self, folder: &Path, revision: &str) -> SandboxResult<Option<HistoryCommit>> {
        // A newline would end the question to git.
        if revision.is_empty() || revision.contains('\n') {
            return Ok(None);
        }
        let repository = UserRepository::find(&self.git, folder)?;
        Ok(repository.history_commits(&[revision])?.pop().flatten())
    }

    fn blame(&self, file: &Path, lines: Option<LineRange>) -> SandboxResult<Option<FileBlame>> {
        let folder = file.parent().unwrap_or(Path::new("/"));
        let folder = folder.canonicalize().map_err(io_error(folder))?;
        let repository = UserRepository::find(&self.git, &folder)?;
        let Checkout::At(root) = repository.checkout.clone() else {
            return Err(SandboxError::Bare { path: folder });
        };
        let absolute = folder.join(file.file_name().unwrap_or_default());
        let path = path_below(&root, &absolute)?;
        let Some(head) = repository.commits(&["HEAD"])?.pop().flatten() else {
            return Ok(None);
        };
        let is_file = absolute.symlink_metadata().is_ok_and(|it| it.is_file());
        let view = RepositoryView::new(&repository)?;
        if !is_file || !is_in_commit(&view, &head.id, &path)? {
            return Ok(None);
        }
        view.set_head(&head.id)?;
        view.copy_shallow(&repository.common_dir)?;
        let range = lines.map(|it| format!("-L{},{}", it.first, it.last));
        let call = view
            .call(["blame", "--line-porcelain", "--no-progress"])
            .setting("core.quotePath", "false")
            .arguments(range)
            .argument("--")
            .argument(path_from_bytes(path.as_bytes()));
        let lines = match call.run() {
            // The range begins after the last line.
            Err(SandboxError::Git { stderr, .. }) if is_beyond_end(&stderr) => Vec::new(),
            answer => parse(&answer?)?,
        };
        let ids: BTreeSet<&str> = lines
            .iter()
            .filter_map(|it| Some(it.origin.as_ref()?.commit.as_str()))
            .collect();
        let ids: Vec<&str> = ids.into_iter().collect();
        let commits = repository.history_commits(&ids)?;
        Ok(Some(FileBlame {
            root: absolute_path(&root)?,
            path,
            lines,
            commits: commits.into_iter().flatten().collect(),
        }))
    }
}

/// Whether git says that a range begins after the last line. Compares the whole message, because the
/// name of the file may contain any words.
fn is_beyond_end(stderr: &str) -> bool {
    let message = stderr.trim_end().strip_prefix("fatal: file ");
    let Some((_, count)) = message.and_then(|it| it.rsplit_once(" has only ")) else {
        return false;
    };
    let count = count
        .strip_suffix(" lines")
        .or_else(|| count.strip_suffix(" line"));
    count.is_some_and(|it| !it.is_empty() && it.bytes().all(|byte| byte.is_ascii_digit()))
}

fn absolute_path(path: &Path) -> SandboxResult<AbsolutePath> {
    AbsolutePath::from_bytes(path.as_os_str().as_bytes()).map_err(|error| SandboxError::Malformed {
        what: format!("{}: {error}", path.display()),
    })
}

fn path_below(root: &Path, file: &Path) -> SandboxResult<ResourcePath> {
    // Git reports the root with all links resolved.
    let inside = file.strip_prefix(root).map(PathBuf::from);
    let inside = inside.map_err(|_| SandboxError::Malformed {
        what: format!("{} is not below {}", file.display(), root.display()),
    })?;
    resource_path(inside.as_os_str().as_bytes())
}

fn is_in_commit(view: &RepositoryView, commit: &str, path: &ResourcePath) -> SandboxResult<bool> {
    let call = view.call(["ls-tree", "--full-tree", "-z", commit, "--"]);
    let found = call.argument(path_from_bytes(path.as_bytes())).run()?;
    Ok(!found.is_empty())
}

/// Parses the output of `git blame --line-porcelain`.
fn parse(answer: &[u8]) -> SandboxResult<Vec<BlamedLine>> {
    let malformed = || SandboxError::Malformed {
        what: "git blame returned unexpected output".to_owned(),
    };
    let mut lines = Vec::new();
    let mut rows = answer.split_inclusive(|byte| *byte == b'\n');
    while let Some(head) = rows.next() {
        let head = trimmed_text(head);
        let mut fields = head.split(' ');
        let (commit, number) = (fields.next(), fields.next());
        let shown = fields.next().and_then(|it| it.parse().ok());
        let number = number.and_then(|it| it.parse().ok());
        let (Some(commit), Some(number), Some(shown)) = (commit, number, shown) else {
            return Err(malformed());
        };
        let mut origin = LineOrigin {
            commit: commit.to_owned(),
            path: ResourcePath::from_bytes(b"-".as_slice()).map_err(|_| malformed())?,
            number,
            author: String::new(),
            seconds: 0,
            subject: String::new(),
        };
        let text = loop {
            let row = rows.next().ok_or_else(malformed)?;
            if let Some(text) = row.strip_prefix(b"\t") {
                break text.strip_suffix(b"\n").unwrap_or(text);
            }
            read_header(&mut origin, row).ok_or_else(malformed)?;
        };
        let is_committed = commit.bytes().any(|it| it != b'0');
        lines.push(BlamedLine {
            number: shown,
            text: text.to_vec(),
            origin: is_committed.then_some(origin),
        });
    }
    Ok(lines)
}

/// Reads one header of a line. Returns `None` if it cannot be parsed.
fn read_header(origin: &mut LineOrigin, row: &[u8]) -> Option<()> {
    let row = row.strip_suffix(b"\n").unwrap_or(row);
    let end = row.iter().position(|byte| *byte == b' ');
    let (name, value) = row.split_at(end.unwrap_or(row.len()));
    let value = value.get(1..).unwrap_or_default();
    match name {
        b"author" => origin.author = trimmed_text(value),
        b"author-time" => origin.seconds = trimmed_text(value).parse().ok()?,
        b"summary" => origin.subject = trimmed_text(value),
        b"filename" => origin.path = ResourcePath::from_bytes(unquote(value)).ok()?,
        _ => {}
    }
    Some(())
}

/// Undoes the quoting of a name with control characters, quotes or backslashes.
fn unquote(name: &[u8]) -> Vec<u8> {
    let inner = name
        .strip_prefix(b"\"")
        .and_then(|it| it.strip_suffix(b"\""));
    let Some(inner) = inner else {
        return name.to_vec();
    };
    let mut plain = Vec::with_capacity(inner.len());
    let mut rest = inner;
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'\\' {
            plain.push(*first);
            continue;
        }
        let octal = after.get(..3).and_then(|it| std::str::from_utf8(it).ok());
        let octal = octal.and_then(|it| u8::from_str_radix(it, 8).ok());
        let (byte, length) = match (octal, after.first()) {
            (Some(byte), _) => (byte, 3),
            (None, Some(b'a')) => (7, 1),
            (None, Some(b'b')) => (8, 1),
            (None, Some(b't')) => (b'\t', 1),
            (None, Some(b'n')) => (b'\n', 1),
            (None, Some(b'v')) => (11, 1),
            (None, Some(b'f')) => (12, 1),
            (None, Some(b'r')) => (b'\r', 1),
            (None, Some(other)) => (*other, 1),
            (None, None) => (b'\\', 0),
        };
        plain.push(byte);
        rest = &after[length..];
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_parsed_and_garbage_is_refused() {
        let commit = "a1".repeat(20);
        let zeros = "0".repeat(40);
        let answer = format!(
            "{commit} 3 1 1\nauthor Ann\nauthor-time 12\nsummary first: one\nboundary\n\
             filename \"a\\tb\\\\\"\n\t\tindented\n{zeros} 2 2 1\nauthor Not Committed Yet\n\
             filename x\n\tnew"
        );
        let lines = parse(answer.as_bytes()).unwrap();
        assert_eq!(lines.len(), 2);
        let origin = lines[0].origin.as_ref().unwrap();
        assert_eq!((origin.number, lines[0].number), (3, 1));
        assert_eq!(origin.path.as_bytes(), b"a\tb\\");
        assert_eq!((origin.author.as_str(), origin.seconds), ("Ann", 12));
        assert_eq!(lines[0].text, b"\tindented");
        assert_eq!((lines[1].origin.as_ref(), lines[1].number), (None, 2));
        assert_eq!(parse(b"").unwrap(), []);
        for wrong in [&b"abc\n"[..], b"abc 1 1\nauthor x\n"] {
            assert!(parse(wrong).is_err());
        }
    }

    #[test]
    fn only_the_whole_message_means_that_a_range_is_beyond_the_end() {
        for message in [
            "fatal: file a has only 0 lines\n",
            "fatal: file a has only 1 line",
            "fatal: file one has only has only 12 lines",
        ] {
            assert!(is_beyond_end(message), "{message}");
        }
        for message in [
            "fatal: no such path 'one has only 2 lines' in HEAD",
            "fatal: file one has only 2 lines cannot be read",
            "fatal: cannot read one has only",
            "",
        ] {
            assert!(!is_beyond_end(message), "{message}");
        }
    }

    #[test]
    fn quoted_names_are_restored() {
        assert_eq!(unquote(b"plain"), b"plain");
        assert_eq!(unquote(b"\"\\303\\244\\\"\""), b"\xc3\xa4\"");
    }
}
