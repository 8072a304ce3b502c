//! Masks the remains of a secret where a text was truncated.
//!
//! Tools limit their answers before the engine masks secrets in them. A secret across the cut is no
//! longer complete, so it is not found, and most of it may be left on either side.

use std::borrow::Cow;
use std::ops::Range;

use serde_json::Value;

use super::Secrets;

/// The truncation mark in answers of tools: `[… 9 bytes left out …]`, or at the end of a line.
const CUT: char = '…';

/// Characters that may separate a truncation mark from the text beside it.
const AROUND: [char; 4] = ['\n', ' ', '[', ']'];

/// Minimum length of a part of a secret that is masked beside a truncation mark. A shorter one
/// reveals little.
const SHORTEST_AT_SIGN: usize = 4;

/// The same at the ends of a text without a mark, which may not have been cut there.
const SHORTEST_AT_END: usize = 8;

impl Secrets {
    /// Like [`mask_json`](Self::mask_json), for the answer of a tool: also masks the start or the
    /// end of a secret beside truncation marks and at both ends of a text.
    pub fn mask_answer(&self, value: &mut Value) {
        self.mask_json(value);
        self.mask_parts_in(value);
    }

    fn mask_parts_in(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Cow::Owned(clean) = self.mask_parts(text) {
                    *text = clean;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|it| self.mask_parts_in(it)),
            Value::Object(map) => map.values_mut().for_each(|it| self.mask_parts_in(it)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Returns the text with parts of secrets beside its cuts masked.
    pub fn mask_parts<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let Some(known) = &self.known else {
            return Cow::Borrowed(text);
        };
        let mut parts: Vec<(Range<usize>, &str)> = Vec::new();
        let mut add = |part: Option<(Range<usize>, usize)>| {
            if let Some((range, pattern)) = part {
                let mask = known.masks.get(pattern);
                parts.push((range, mask.map_or(super::NAMELESS, String::as_str)));
            }
        };
        add(self.part_before(text, text.len(), SHORTEST_AT_END));
        add(self.part_after(text, 0, SHORTEST_AT_END));
        for (at, sign) in text.match_indices(CUT) {
            let before = text[..at].trim_end_matches(AROUND).len();
            add(self.part_before(text, before, SHORTEST_AT_SIGN));
            let behind = &text[at + sign.len()..];
            let after = text.len() - behind.trim_start_matches(AROUND).len();
            add(self.part_after(text, after, SHORTEST_AT_SIGN));
        }
        replace_parts(text, parts)
    }

    /// Returns the longest start of a secret that ends at `end`.
    fn part_before(
        &self,
        text: &str,
        end: usize,
        shortest: usize,
    ) -> Option<(Range<usize>, usize)> {
        let known = self.known.as_ref()?;
        let parts = known
            .forms
            .iter()
            .enumerate()
            .filter_map(|(pattern, form)| {
                let lengths = form.char_indices().map(|it| it.0).skip(shortest);
                let is_part = |length: &usize| text[..end].ends_with(&form[..*length]);
                let length = lengths.filter(is_part).last()?;
                Some((end - length..end, pattern))
            });
        parts.max_by_key(|(range, _)| range.len())
    }

    /// Returns the longest end of a secret that starts at `start`.
    fn part_after(
        &self,
        text: &str,
        start: usize,
        shortest: usize,
    ) -> Option<(Range<usize>, usize)> {
        let known = self.known.as_ref()?;
        let parts = known
            .forms
            .iter()
            .enumerate()
            .filter_map(|(pattern, form)| {
                let starts = form.char_indices().map(|it| it.0).skip(1);
                let is_part = |from: &usize| {
                    let part = &form[*from..];
                    part.chars().count() >= shortest && text[start..].starts_with(part)
                };
                let from = starts.into_iter().find(is_part)?;
                Some((start..start + form.len() - from, pattern))
            });
        parts.max_by_key(|(range, _)| range.len())
    }
}

/// Replaces these parts, which may overlap, by masks.
fn replace_parts<'a>(text: &'a str, mut parts: Vec<(Range<usize>, &str)>) -> Cow<'a, str> {
    if parts.is_empty() {
        return Cow::Borrowed(text);
    }
    parts.sort_by_key(|(range, _)| range.start);
    let mut clean = String::with_capacity(text.len());
    let mut end = 0;
    for (range, mask) in parts {
        if range.start >= end {
            clean.push_str(&text[end..range.start]);
            clean.push_str(mask);
        }
        end = end.max(range.end);
    }
    clean.push_str(&text[end..]);
    Cow::Owned(clean)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SECRET: &str = "abcdEFGH1234ijkl";

    fn secrets() -> Secrets {
        Secrets::new(vec![("K".to_owned(), SECRET.to_owned())]).unwrap()
    }

    #[test]
    fn parts_of_a_secret_beside_a_cut_are_hidden() {
        for (text, clean) in [
            (
                "x abcdEFGH123\n[… 9 bytes left out …]\n4ijkl y",
                "x «secret:K»\n[… 9 bytes left out …]\n«secret:K» y",
            ),
            ("x abcd…", "x «secret:K»…"),
            ("x abc…", "x abc…"),
            ("… ijkl y", "… «secret:K» y"),
            ("x abcdEFGH", "x «secret:K»"),
            ("x abcdEFG", "x abcdEFG"),
            ("1234ijkl", "«secret:K»"),
            ("x abcdEFGH y 1234ijkl z", "x abcdEFGH y 1234ijkl z"),
            ("", ""),
            ("…", "…"),
        ] {
            assert_eq!(secrets().mask_parts(text), clean, "{text}");
        }
        assert!(matches!(
            Secrets::default().mask_parts("…"),
            Cow::Borrowed("…")
        ));
    }

    #[test]
    fn any_cut_leaves_little_of_a_secret() {
        for length in 1..SECRET.len() {
            let text = format!(
                "{}\n[… 1 bytes left out …]\n{}",
                &SECRET[..length],
                &SECRET[length..]
            );
            let mut answer = json!({"stdout": text, "lines": [{"text": format!("y {text}")}]});
            secrets().mask_answer(&mut answer);
            let answer = answer.to_string();
            for part in [&SECRET[..length], &SECRET[length..]] {
                let is_left = part.len() >= SHORTEST_AT_SIGN && answer.contains(part);
                assert!(!is_left, "{length}: {answer}");
            }
        }
    }
}
