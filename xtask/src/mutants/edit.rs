//! Finds a piece of source by its text alone, independent of line numbers, context and line breaks.

use std::fmt;

/// Replaces the only place in `source` that matches `find`.
///
/// Whitespace is ignored, and so is a comma before a closing bracket: `rustfmt` moves both when a
/// name grows.
pub fn replace(source: &str, find: &str, replace: &str) -> Result<String, EditMismatch> {
    let text = significant(source);
    let wanted: Vec<char> = significant(find).into_iter().map(|it| it.1).collect();
    if wanted.is_empty() {
        return Err(EditMismatch::EmptyPattern);
    }
    let is_here =
        |window: &[(usize, char)]| window.iter().map(|it| it.1).eq(wanted.iter().copied());
    let mut matches = text.windows(wanted.len()).filter(|window| is_here(window));
    let Some(found) = matches.next() else {
        return Err(EditMismatch::Absent);
    };
    if matches.next().is_some() {
        return Err(EditMismatch::Ambiguous);
    }
    let (first, last) = (found[0].0, found[found.len() - 1]);
    let end = last.0 + last.1.len_utf8();
    Ok(format!(
        "{}{}{}",
        &source[..first],
        replace.trim(),
        &source[end..]
    ))
}

/// Error of a piece of source that was not replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EditMismatch {
    EmptyPattern,
    Absent,
    Ambiguous,
}

impl fmt::Display for EditMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            EditMismatch::EmptyPattern => "`find` is empty",
            EditMismatch::Absent => "`find` is not in the file",
            EditMismatch::Ambiguous => "`find` is in the file more than once",
        })
    }
}

/// The significant characters with their positions.
fn significant(text: &str) -> Vec<(usize, char)> {
    let characters = text.char_indices().filter(|it| !it.1.is_whitespace());
    let characters: Vec<(usize, char)> = characters.collect();
    let is_trailing_comma = |index: usize| {
        let next = characters.get(index + 1);
        characters[index].1 == ',' && next.is_some_and(|it| matches!(it.1, ')' | ']' | '}' | '>'))
    };
    let kept = (0..characters.len()).filter(|index| !is_trailing_comma(*index));
    kept.map(|index| characters[index]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_breaks_and_trailing_commas_do_not_matter() {
        let source = "fn a() {\n    check(\n        first,\n        second,\n    )?;\n    b()\n}\n";
        let changed = replace(source, "check(first, second)?;", "\n").unwrap();
        assert_eq!(changed, "fn a() {\n    \n    b()\n}\n");
    }

    #[test]
    fn the_text_must_occur_once() {
        for (find, expected) in [
            ("x", EditMismatch::Absent),
            ("a", EditMismatch::Ambiguous),
            (" \n", EditMismatch::EmptyPattern),
        ] {
            assert_eq!(replace("a(b); a(c);", find, "d"), Err(expected), "{find}");
        }
        assert_eq!(replace("a(b); a(c);", "a(c)", "d").unwrap(), "a(b); d;");
    }
}
