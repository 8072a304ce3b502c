//! Splits git patches into files and hunks.

use cleveragents_ports::sandbox::{DiffChange, DiffStat, SandboxError, TreeDiff};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePatch<'a> {
    pub file: &'a DiffStat,
    /// The unmodified text of this part of the patch.
    pub text: &'a [u8],
    /// In order. Empty for a binary file, a pure rename and a pure mode change.
    pub hunks: Vec<PatchHunk<'a>>,
}

/// A hunk, including its header line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PatchHunk<'a> {
    pub text: &'a [u8],
}

impl<'a> PatchHunk<'a> {
    /// The line ranges, such as `-1,3 +1,4`.
    pub fn range(&self) -> String {
        let first = lines(self.text).next().unwrap_or_default();
        let first = String::from_utf8_lossy(first);
        let range = first.trim_start_matches("@@ ").split(" @@").next();
        range.unwrap_or_default().to_owned()
    }

    /// Returns the deleted lines without line endings.
    pub fn deletions(&self) -> Vec<&'a [u8]> {
        self.lines_of(b'-')
    }

    /// Returns the inserted lines without line endings.
    pub fn insertions(&self) -> Vec<&'a [u8]> {
        self.lines_of(b'+')
    }

    fn lines_of(&self, sign: u8) -> Vec<&'a [u8]> {
        let body = lines(self.text).skip(1);
        body.filter_map(|line| line.strip_prefix(&[sign]))
            .map(|line| line.strip_suffix(b"\n").unwrap_or(line))
            .collect()
    }
}

impl FilePatch<'_> {
    /// Returns a patch with only this hunk, for the file under its new name.
    pub fn single_hunk_patch(&self, hunk: &PatchHunk<'_>) -> Option<Vec<u8>> {
        let head = lines(self.text).take_while(|line| !line.starts_with(b"@@ "));
        let new = head.filter_map(|line| line.strip_prefix(b"+++ ")).last()?;
        let old = match new.strip_prefix(b"\"b/") {
            Some(quoted) => [b"\"a/", quoted].concat(),
            None => [b"a/", new.strip_prefix(b"b/")?].concat(),
        };
        Some([b"--- ", old.as_slice(), b"+++ ", new, hunk.text].concat())
    }
}

/// Returns the patch of each file of a diff, in order.
pub fn file_patches(diff: &TreeDiff) -> Result<Vec<FilePatch<'_>>, SandboxError> {
    let mut sections = sections(&diff.patch).into_iter();
    let malformed = || SandboxError::Malformed {
        what: "the patch does not have the files that were counted".to_owned(),
    };
    let mut files = Vec::with_capacity(diff.files.len());
    for file in &diff.files {
        let first = sections.next().ok_or_else(malformed)?;
        let end = match file.change {
            // A change between file and link is written as a deletion and a creation: two sections.
            DiffChange::Retyped => sections.next().ok_or_else(malformed)?.end,
            _ => first.end,
        };
        let text = &diff.patch[first.start..end];
        files.push(FilePatch {
            file,
            text,
            hunks: hunks(text),
        });
    }
    match sections.next() {
        None => Ok(files),
        Some(_) => Err(malformed()),
    }
}

/// Returns the range of each `diff --git` section. Content lines start with a sign, so they cannot
/// match.
fn sections(patch: &[u8]) -> Vec<std::ops::Range<usize>> {
    split_before_lines(patch, |line| line.starts_with(b"diff --git "))
}

fn hunks(section: &[u8]) -> Vec<PatchHunk<'_>> {
    // The second section of a retyped file starts with headers again.
    let bounds = split_before_lines(section, |line| {
        line.starts_with(b"@@ ") || line.starts_with(b"diff --git ")
    });
    let texts = bounds.into_iter().map(|range| &section[range]);
    texts
        .filter(|text| text.starts_with(b"@@ "))
        .map(|text| PatchHunk { text })
        .collect()
}

/// Splits the text before each line for which `begins` returns true.
fn split_before_lines(text: &[u8], begins: impl Fn(&[u8]) -> bool) -> Vec<std::ops::Range<usize>> {
    let mut starts = Vec::new();
    let mut at = 0;
    for line in lines(text) {
        if begins(line) {
            starts.push(at);
        }
        at += line.len();
    }
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    starts
        .iter()
        .copied()
        .zip(ends)
        .map(|(start, end)| start..end)
        .collect()
}

/// Returns lines with their line endings.
fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split_inclusive(|byte| *byte == b'\n')
}

#[cfg(test)]
mod tests {
    use super::*;
    use cleveragents_ports::sandbox::DiffLines;

    const PATCH: &[u8] = b"diff --git a/one b/one\nindex 1..2 100644\n--- a/one\n+++ b/one\n\
        @@ -1,2 +1,2 @@ fn main() {\n a\n-b\n+diff --git a/x b/x\n@@ -9 +9,2 @@\n+\xff\n c\n\
        diff --git a/two b/two\nnew file mode 100644\nindex 0..1\nGIT binary patch\nliteral 1\nIc\n\n\
        diff --git a/old b/new\nsimilarity index 100%\nrename from old\nrename to new\n";

    fn stat(path: &str, change: DiffChange) -> DiffStat {
        DiffStat {
            path: path.parse().unwrap(),
            renamed_from: None,
            change,
            lines: DiffLines::Binary,
        }
    }

    #[test]
    fn a_patch_is_cut_into_files_and_hunks() {
        let diff = TreeDiff {
            patch: PATCH.to_vec(),
            files: vec![
                stat("one", DiffChange::Modified),
                stat("two", DiffChange::Added),
                stat("new", DiffChange::Renamed),
            ],
        };
        let files = file_patches(&diff).unwrap();
        let numbers: Vec<usize> = files.iter().map(|it| it.hunks.len()).collect();
        assert_eq!(numbers, [2, 0, 0]);
        let whole: Vec<u8> = files.iter().flat_map(|it| it.text.to_vec()).collect();
        assert_eq!(whole, PATCH);
        let first = &files[0].hunks[0];
        assert_eq!(first.range(), "-1,2 +1,2");
        assert_eq!(first.deletions(), [b"b"]);
        assert_eq!(first.insertions(), [b"diff --git a/x b/x"]);
        let second = &files[0].hunks[1];
        assert_eq!(second.insertions(), [b"\xff"]);
        assert_eq!(
            files[0].single_hunk_patch(second).unwrap(),
            b"--- a/one\n+++ b/one\n@@ -9 +9,2 @@\n+\xff\n c\n"
        );
        assert!(
            files[1].single_hunk_patch(second).is_none(),
            "a binary file has no lines"
        );
    }

    #[test]
    fn a_hunk_keeps_a_quoted_file_name() {
        let diff = TreeDiff {
            patch: b"diff --git \"a/o\\tx\" \"b/n\\tx\"\n--- \"a/o\\tx\"\n+++ \"b/n\\tx\"\n@@ -1 +1 @@\n-a\n+b\n"
                .to_vec(),
            files: vec![stat("n%09x", DiffChange::Renamed)],
        };
        let files = file_patches(&diff).unwrap();
        let only = files[0].single_hunk_patch(&files[0].hunks[0]).unwrap();
        assert!(only.starts_with(b"--- \"a/n\\tx\"\n+++ \"b/n\\tx\"\n@@ "));
    }

    #[test]
    fn a_retyped_file_is_one_file_of_two_parts() {
        let patch = b"diff --git a/l b/l\ndeleted file mode 100644\n--- a/l\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n\
            diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+b\n";
        let mut diff = TreeDiff {
            patch: patch.to_vec(),
            files: vec![stat("l", DiffChange::Retyped)],
        };
        assert_eq!(file_patches(&diff).unwrap()[0].hunks.len(), 2);
        diff.files[0].change = DiffChange::Modified;
        assert!(
            file_patches(&diff).is_err(),
            "a part that belongs to no file"
        );
        diff.files.clear();
        diff.patch.clear();
        assert_eq!(file_patches(&diff).unwrap(), []);
    }
}
