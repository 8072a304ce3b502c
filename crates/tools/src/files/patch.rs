//! Shows an edit as a small diff.
//!
//! The offsets are known, so nothing has to be compared: each becomes a hunk of its old and new
//! lines, and close ones share a hunk.

use crate::excerpt::truncate_str;

/// Lines shown around a change.
const CONTEXT: usize = 3;

/// Maximum size of a diff in bytes.
const MAX_BYTES: usize = 8 << 10;

/// Text of one length, replaced at several offsets.
#[derive(Debug)]
pub(super) struct EditDiff<'a> {
    pub(super) content: &'a [u8],
    /// Sorted and not overlapping.
    pub(super) offsets: &'a [usize],
    pub(super) length: usize,
    pub(super) new: &'a [u8],
}

/// Matches that share a hunk, and the whole lines that contain them.
#[derive(Debug)]
struct HunkGroup {
    offsets: std::ops::Range<usize>,
    start: usize,
    end: usize,
}

impl EditDiff<'_> {
    pub(super) fn render(&self) -> String {
        let groups = self.groups();
        let mut diff = String::new();
        // Old lines before the group, and the difference in line numbers between new and old
        // content there.
        let (mut counted, mut line, mut shift) = (0, 0, 0);
        for (index, group) in groups.iter().enumerate() {
            line += count_lines(&self.content[counted..group.start]);
            counted = group.start;
            let hunk = self.hunk(group, line, shift);
            if diff.len() + hunk.text.len() > MAX_BYTES {
                if diff.is_empty() {
                    diff.push_str(truncate_str(&hunk.text, MAX_BYTES));
                    diff.push('\n');
                }
                let left = groups.len() - index;
                diff.push_str(&format!("[… {left} changes left out or cut short …]\n"));
                break;
            }
            diff.push_str(&hunk.text);
            shift += hunk.line_delta;
        }
        diff
    }

    fn groups(&self) -> Vec<HunkGroup> {
        let mut groups: Vec<HunkGroup> = Vec::new();
        for (index, place) in self.offsets.iter().enumerate() {
            let start = line_start(self.content, *place);
            let end = line_end(self.content, place + self.length);
            match groups.last_mut() {
                Some(last) if self.are_near(last.end, start) => {
                    last.end = last.end.max(end);
                    last.offsets.end = index + 1;
                }
                _ => groups.push(HunkGroup {
                    offsets: index..index + 1,
                    start,
                    end,
                }),
            }
        }
        groups
    }

    /// Returns whether the context lines of both would touch.
    fn are_near(&self, end: usize, start: usize) -> bool {
        end >= start || count_lines(&self.content[end..start]) <= 2 * CONTEXT
    }

    fn hunk(&self, group: &HunkGroup, line: usize, shift: isize) -> EditHunk {
        let old: Vec<&[u8]> = lines(&self.content[group.start..group.end]);
        let new_bytes = self.new_lines(group);
        let new: Vec<&[u8]> = lines(&new_bytes);
        let pairs = old.iter().zip(&new);
        let same = pairs.take_while(|(old, new)| old == new).count();
        let (old_rest, new_rest) = (&old[same..], &new[same..]);
        let pairs = old_rest.iter().rev().zip(new_rest.iter().rev());
        let same_end = pairs.take_while(|(old, new)| old == new).count();
        let removed = &old_rest[..old_rest.len() - same_end];
        let added = &new_rest[..new_rest.len() - same_end];
        let changed_at: usize =
            old[..same].iter().map(|line| line.len()).sum::<usize>() + group.start;
        let changed_end = changed_at + removed.iter().map(|line| line.len()).sum::<usize>();
        let before = last_lines(&self.content[..changed_at], CONTEXT);
        let rest = self.content[changed_end..].split_inclusive(|byte| *byte == b'\n');
        let after: Vec<&[u8]> = rest.take(CONTEXT).collect();
        let first = line + same - before.len();
        let around = before.len() + after.len();
        let mut text = format!(
            "@@ -{} +{} @@\n",
            range(first, removed.len() + around),
            range(first.saturating_add_signed(shift), added.len() + around)
        );
        let parts = [
            (' ', &before[..]),
            ('-', removed),
            ('+', added),
            (' ', &after),
        ];
        for (mark, lines) in parts {
            for line in lines {
                push_line(&mut text, mark, line);
            }
        }
        let grown = new.len().cast_signed() - old.len().cast_signed();
        EditHunk {
            text,
            line_delta: grown,
        }
    }

    fn new_lines(&self, group: &HunkGroup) -> Vec<u8> {
        let mut new = Vec::new();
        let mut from = group.start;
        for place in &self.offsets[group.offsets.clone()] {
            new.extend_from_slice(&self.content[from..*place]);
            new.extend_from_slice(self.new);
            from = place + self.length;
        }
        new.extend_from_slice(&self.content[from..group.end]);
        new
    }
}

struct EditHunk {
    text: String,
    /// Number of lines of the new content minus those of the old.
    line_delta: isize,
}

fn lines(bytes: &[u8]) -> Vec<&[u8]> {
    bytes.split_inclusive(|byte| *byte == b'\n').collect()
}

fn count_lines(bytes: &[u8]) -> usize {
    memchr::memchr_iter(b'\n', bytes).count()
}

fn line_start(content: &[u8], at: usize) -> usize {
    memchr::memrchr(b'\n', &content[..at]).map_or(0, |newline| newline + 1)
}

fn line_end(content: &[u8], at: usize) -> usize {
    memchr::memchr(b'\n', &content[at..]).map_or(content.len(), |newline| at + newline + 1)
}

fn last_lines(content: &[u8], most: usize) -> Vec<&[u8]> {
    let mut start = content.len();
    for _ in 0..most {
        if start > 0 {
            start = line_start(content, start - 1);
        }
    }
    lines(&content[start..])
}

/// A line range in diff notation: an empty range names the line before it.
fn range(before: usize, count: usize) -> String {
    match count {
        0 => format!("{before},0"),
        1 => format!("{}", before + 1),
        _ => format!("{},{count}", before + 1),
    }
}

fn push_line(text: &mut String, mark: char, line: &[u8]) {
    text.push(mark);
    text.push_str(&String::from_utf8_lossy(line));
    if !line.ends_with(b"\n") {
        text.push_str("\n\\ No newline at end of file\n");
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn render_diff(content: &str, old: &str, new: &str) -> String {
        let places: Vec<usize> = content.match_indices(old).map(|(at, _)| at).collect();
        EditDiff {
            content: content.as_bytes(),
            offsets: &places,
            length: old.len(),
            new: new.as_bytes(),
        }
        .render()
    }

    #[test]
    fn only_lines_that_differ_are_marked() {
        let diff = render_diff("1\n2\n3\n4\n5\n6\n7\n", "4\n5\n", "4\nfive\n");
        assert_eq!(diff, "@@ -2,6 +2,6 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n");
        assert_eq!(
            render_diff("a", "a", ""),
            "@@ -1 +0,0 @@\n-a\n\\ No newline at end of file\n"
        );
        assert_eq!(
            render_diff("a\r\nb\r\n", "b", "c"),
            "@@ -1,2 +1,2 @@\n a\r\n-b\r\n+c\r\n"
        );
    }

    #[test]
    fn a_long_diff_is_truncated_with_a_note() {
        let far = "x\n".repeat(9);
        let content = format!("old\n{far}").repeat(2000);
        let diff = render_diff(&content, "old", "new");
        assert!(diff.len() <= MAX_BYTES + 100, "{}", diff.len());
        assert!(diff.contains("changes left out"), "{diff}");
        let diff = render_diff("old", "old", &"long ".repeat(10_000));
        assert!(diff.len() <= MAX_BYTES + 100, "{}", diff.len());
    }

    /// Applies a diff as `patch` would.
    fn apply(content: &str, diff: &str) -> String {
        let old: Vec<&str> = content.split_inclusive('\n').collect();
        let (mut at, mut result) = (0, String::new());
        let mut lines = diff.split_inclusive('\n').peekable();
        while let Some(line) = lines.next() {
            if let Some(header) = line.strip_prefix("@@ -") {
                let (start, count) = header
                    .split(' ')
                    .next()
                    .unwrap()
                    .split_once(',')
                    .unwrap_or((header.split(' ').next().unwrap(), "1"));
                let start: usize = start.parse().unwrap();
                let start = if count == "0" { start } else { start - 1 };
                result.extend(old[at..start].iter().copied());
                at = start;
                continue;
            }
            let (mark, text) = line.split_at(1);
            let no_newline = lines.next_if(|next| next.starts_with('\\')).is_some();
            let text = if no_newline {
                text.trim_end_matches('\n')
            } else {
                text
            };
            match mark {
                "+" => result.push_str(text),
                _ => {
                    assert_eq!(old[at], text);
                    at += 1;
                    if mark == " " {
                        result.push_str(text);
                    }
                }
            }
        }
        result.extend(old[at..].iter().copied());
        result
    }

    proptest! {
        #[test]
        fn applying_the_diff_gives_the_new_content(
            content in "([abc]{0,2}\\n){0,40}[ab]{0,2}", old in "[ab\\n]{1,3}", new in "[abx\\n]{0,4}",
        ) {
            prop_assume!(content.contains(&old) && old != new);
            let expected = content.replace(&old, &new);
            let diff = render_diff(&content, &old, &new);
            prop_assert_eq!(apply(&content, &diff), expected, "{}", diff);
        }
    }
}
