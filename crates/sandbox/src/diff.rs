//! The difference between two captured trees, as a patch and as line counts.

use std::collections::HashMap;

use cleveragents_domain::ResourcePath;
use cleveragents_ports::sandbox::{
    DiffChange, DiffLines, DiffStat, SandboxError, SandboxResult, TreeDiff, TreeId,
};

use crate::files::{path_from_bytes, resource_path};
use crate::git_call::GitCall;
use crate::store::PrivateStore;

pub(crate) fn diff(
    store: &PrivateStore,
    from: &TreeId,
    to: &TreeId,
    paths: &[ResourcePath],
) -> SandboxResult<TreeDiff> {
    let renamed = DiffQuery {
        store,
        from,
        to,
        paths,
        renames: "--find-renames",
    };
    let (files, patch) = renamed.stats_and_patch()?;
    // `git apply` refuses a rename of a path to below itself, or the reverse.
    let nested = files.iter().any(|file| {
        let old = file.renamed_from.as_ref();
        old.is_some_and(|old| is_beneath(&file.path, old) || is_beneath(old, &file.path))
    });
    if !nested {
        return Ok(TreeDiff { patch, files });
    }
    let plain = DiffQuery {
        renames: "--no-renames",
        ..renamed
    };
    let (files, patch) = plain.stats_and_patch()?;
    Ok(TreeDiff { patch, files })
}

/// Returns the line counts of every path. A moved file counts as one deleted and one new file.
pub(crate) fn stats_without_renames(
    store: &PrivateStore,
    from: &TreeId,
    to: &TreeId,
) -> SandboxResult<Vec<DiffStat>> {
    let form = DiffQuery {
        store,
        from,
        to,
        paths: &[],
        renames: "--no-renames",
    };
    form.stats()
}

fn is_beneath(path: &ResourcePath, above: &ResourcePath) -> bool {
    let rest = path.as_bytes().strip_prefix(above.as_bytes());
    rest.is_some_and(|rest| rest.first() == Some(&b'/'))
}

/// The trees to compare, and whether to detect renames.
#[derive(Clone, Copy)]
struct DiffQuery<'a> {
    store: &'a PrivateStore,
    from: &'a TreeId,
    to: &'a TreeId,
    paths: &'a [ResourcePath],
    renames: &'static str,
}

impl DiffQuery<'_> {
    /// Returns line counts and patch from one run of git.
    fn stats_and_patch(&self) -> SandboxResult<(Vec<DiffStat>, Vec<u8>)> {
        let form = [
            "--raw",
            "--numstat",
            "-z",
            "--patch",
            "--binary",
            "--full-index",
            "--src-prefix=a/",
            "--dst-prefix=b/",
        ];
        let answer = self.call(&form)?.run()?;
        let (files, patch) = parse_stats(&answer)?;
        Ok((files, patch.to_vec()))
    }

    fn stats(&self) -> SandboxResult<Vec<DiffStat>> {
        let answer = self.call(&["--raw", "--numstat", "-z"])?.run()?;
        Ok(parse_stats(&answer)?.0)
    }

    fn call(&self, form: &[&str]) -> SandboxResult<GitCall> {
        // Use the attributes of the empty tree: attributes could declare text to be binary.
        let nothing = self.store.empty_tree()?;
        let call = self
            .store
            .call(["diff-tree", "-r", self.renames, "--no-ext-diff"]);
        let paths = self.paths.iter();
        Ok(call
            .option("--literal-pathspecs")
            .attributes_of(&nothing)
            .arguments(["--no-textconv", "--no-color", "--submodule=short"])
            .arguments(form)
            .arguments([self.from.files(), self.to.files(), "--"])
            .arguments(paths.map(|path| path_from_bytes(path.as_bytes()))))
    }
}

/// Returns the line counts of each path, and the rest of the output.
fn parse_stats(answer: &[u8]) -> SandboxResult<(Vec<DiffStat>, &[u8])> {
    let malformed = || SandboxError::Malformed {
        what: "git diff-tree returned unexpected output".to_owned(),
    };
    let mut fields = NulFields(answer);
    let mut changes = HashMap::new();
    // First one record per path with its kind of change, then the line counts.
    while fields.0.first() == Some(&b':') {
        let record = fields.next().ok_or_else(malformed)?;
        let status = record.rsplit(|byte| *byte == b' ').next();
        let change = status.and_then(parse_change).ok_or_else(malformed)?;
        if change == DiffChange::Renamed {
            fields.next().ok_or_else(malformed)?;
        }
        changes.insert(fields.next().ok_or_else(malformed)?, change);
    }
    let mut files = Vec::new();
    while let Some(record) = fields.next().filter(|record| !record.is_empty()) {
        let mut parts = record.splitn(3, |byte| *byte == b'\t');
        let (inserted, deleted) = (parts.next(), parts.next());
        let path = parts.next().ok_or_else(malformed)?;
        // A rename has an empty path here, followed by the old and the new one.
        let (path, renamed_from) = if path.is_empty() {
            let old = fields.next().ok_or_else(malformed)?;
            let new = fields.next().ok_or_else(malformed)?;
            (new, Some(resource_path(old)?))
        } else {
            (path, None)
        };
        let lines = match (
            inserted.and_then(parse_number),
            deleted.and_then(parse_number),
        ) {
            (Some(inserted), Some(deleted)) => DiffLines::Text { inserted, deleted },
            _ => DiffLines::Binary,
        };
        files.push(DiffStat {
            path: resource_path(path)?,
            renamed_from,
            change: *changes.get(path).ok_or_else(malformed)?,
            lines,
        });
    }
    Ok((files, fields.0))
}

/// NUL-terminated fields; what is left is the rest of the output.
struct NulFields<'a>(&'a [u8]);

impl<'a> Iterator for NulFields<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let end = self.0.iter().position(|byte| *byte == 0)?;
        let (field, rest) = self.0.split_at(end);
        self.0 = &rest[1..];
        Some(field)
    }
}

fn parse_change(status: &[u8]) -> Option<DiffChange> {
    match status.first()? {
        b'A' => Some(DiffChange::Added),
        b'D' => Some(DiffChange::Deleted),
        b'M' => Some(DiffChange::Modified),
        b'R' => Some(DiffChange::Renamed),
        b'T' => Some(DiffChange::Retyped),
        _ => None,
    }
}

fn parse_number(field: &[u8]) -> Option<u64> {
    std::str::from_utf8(field).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stats_of_text_binaries_and_renames_are_parsed() {
        let answer = b":1 2 a b M\0a b\0:0 1 a b A\0image\0:1 1 a b R086\0old\0new\0\
            1\t2\ta b\0-\t-\timage\x000\t0\t\0old\0new\0\0diff of a\0b\n";
        let (files, patch) = parse_stats(answer).unwrap();
        assert_eq!(patch, b"diff of a\0b\n");
        let lines: Vec<DiffLines> = files.iter().map(|file| file.lines).collect();
        let text = |inserted, deleted| DiffLines::Text { inserted, deleted };
        assert_eq!(lines, [text(1, 2), DiffLines::Binary, text(0, 0)]);
        assert_eq!(files[2].path.as_bytes(), b"new");
        assert_eq!(files[2].renamed_from.as_ref().unwrap().as_bytes(), b"old");
        let changes: Vec<DiffChange> = files.iter().map(|file| file.change).collect();
        let expected = [DiffChange::Modified, DiffChange::Added, DiffChange::Renamed];
        assert_eq!(changes, expected);
        for wrong in [&b"1\t2\0"[..], b"1\t2\ta\0", b":1 2 a b X\0a\x001\t2\ta\0"] {
            assert!(parse_stats(wrong).is_err());
        }
    }
}
