//! Splits a text into the pieces that o200k encodes separately.
//!
//! The published pattern is a list of alternatives; the first one that matches takes as much as it
//! can:
//!
//! ```text
//! [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?
//! [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?
//! \p{N}{1,3}
//!  ?[^\s\p{L}\p{N}]+[\r\n/]*
//! \s*[\r\n]+
//! \s+(?!\S)
//! \s+
//! ```
//!
//! It is written as code, because the `regex` crate has no lookahead and its automaton for these
//! classes would need more time and memory than the vocabulary.

use regex_syntax::hir::{Class, HirKind};

/// The classes that the pattern distinguishes. No character is in two of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CharClass {
    /// Punctuation, symbols, control characters and code points without a meaning.
    Other,
    /// `Lu` and `Lt`.
    Upper,
    /// `Ll`.
    Lower,
    /// `Lm` and `Lo`: letters that occur in both parts of a word.
    Uncased,
    /// `M`: occurs in both parts of a word, and is not a letter.
    Mark,
    Number,
    /// White space other than a line break.
    Space,
    LineBreak,
}

impl CharClass {
    fn is_uncased(self) -> bool {
        matches!(self, Self::Uncased | Self::Mark)
    }

    fn starts_word(self) -> bool {
        self == Self::Upper || self.is_uncased()
    }

    fn continues_word(self) -> bool {
        self == Self::Lower || self.is_uncased()
    }

    /// Whether a character may precede a word in the same piece.
    fn is_prefix(self) -> bool {
        matches!(self, Self::Other | Self::Mark | Self::Space)
    }

    fn is_symbol(self) -> bool {
        matches!(self, Self::Other | Self::Mark)
    }

    fn is_white_space(self) -> bool {
        matches!(self, Self::Space | Self::LineBreak)
    }
}

/// The class of every character.
#[derive(Debug)]
pub(super) struct CharClasses {
    /// One entry for each code point. Most of them are never written, so the operating system does
    /// not provide memory for them.
    by_code_point: Vec<u8>,
}

const CLASSES: [CharClass; 8] = [
    CharClass::Other,
    CharClass::Upper,
    CharClass::Lower,
    CharClass::Uncased,
    CharClass::Mark,
    CharClass::Number,
    CharClass::Space,
    CharClass::LineBreak,
];

impl CharClasses {
    pub(super) fn load() -> Self {
        let mut by_code_point = vec![CharClass::Other as u8; char::MAX as usize + 1];
        // Later patterns overwrite earlier ones, because a line break is white space, too.
        for (pattern, class) in [
            (r"[\p{Lu}\p{Lt}]", CharClass::Upper),
            (r"\p{Ll}", CharClass::Lower),
            (r"[\p{Lm}\p{Lo}]", CharClass::Uncased),
            (r"\p{M}", CharClass::Mark),
            (r"\p{N}", CharClass::Number),
            (r"\s", CharClass::Space),
            (r"[\r\n]", CharClass::LineBreak),
        ] {
            let parsed = regex_syntax::parse(pattern).map(regex_syntax::hir::Hir::into_kind);
            let Ok(HirKind::Class(Class::Unicode(ranges))) = parsed else {
                continue;
            };
            for range in ranges.iter() {
                by_code_point[range.start() as usize..=range.end() as usize].fill(class as u8);
            }
        }
        Self { by_code_point }
    }

    fn class(&self, character: char) -> CharClass {
        CLASSES[usize::from(self.by_code_point[character as usize])]
    }

    /// The pieces of a text, in order. Together they are the whole text.
    pub(super) fn pieces<'a>(&'a self, text: &'a str) -> impl Iterator<Item = &'a str> {
        let mut rest = text;
        std::iter::from_fn(move || {
            let first = rest.chars().next()?;
            // At least one character, so that the iteration ends.
            let length = self.piece_length(rest).max(first.len_utf8());
            let (piece, after) = rest.split_at(length);
            rest = after;
            Some(piece)
        })
    }

    fn piece_length(&self, text: &str) -> usize {
        let scan = Scan {
            classes: self,
            text,
        };
        scan.word()
            .or_else(|| scan.number())
            .or_else(|| scan.symbols())
            .unwrap_or_else(|| scan.white_space())
    }
}

/// Matches the alternatives of the pattern at the beginning of a text. Each returns the length of
/// its match.
struct Scan<'a> {
    classes: &'a CharClasses,
    text: &'a str,
}

impl Scan<'_> {
    fn class_at(&self, at: usize) -> Option<CharClass> {
        let character = self.text[at..].chars().next()?;
        Some(self.classes.class(character))
    }

    /// The end of the longest run of a kind of characters that begins at a position.
    fn run_end(&self, from: usize, is_member: impl Fn(CharClass) -> bool) -> usize {
        let is_other = |character: char| !is_member(self.classes.class(character));
        let length = self.text[from..].find(is_other);
        length.map_or(self.text.len(), |length| from + length)
    }

    /// The first two alternatives, each with its prefix first.
    fn word(&self) -> Option<usize> {
        let first = self.text.chars().next()?;
        let after_prefix = self.classes.class(first).is_prefix();
        let after_prefix = after_prefix.then_some(first.len_utf8());
        let with_prefix = |alternative: fn(&Self, usize) -> Option<usize>| {
            let prefixed = after_prefix.and_then(|at| alternative(self, at));
            prefixed.or_else(|| alternative(self, 0))
        };
        let end = with_prefix(Self::lower_word).or_else(|| with_prefix(Self::upper_word))?;
        Some(end + contraction_length(&self.text[end..]))
    }

    /// Characters that start a word, then at least one that continues it. Without a lower-case
    /// letter, the last uncased character is the one that continues it.
    fn lower_word(&self, from: usize) -> Option<usize> {
        let mut start_end = from;
        let mut uncased_end = None;
        for character in self.text[from..].chars() {
            let class = self.classes.class(character);
            if !class.starts_word() {
                break;
            }
            start_end += character.len_utf8();
            if class.is_uncased() {
                uncased_end = Some(start_end);
            }
        }
        match self.class_at(start_end) {
            Some(CharClass::Lower) => Some(self.run_end(start_end, CharClass::continues_word)),
            _ => uncased_end,
        }
    }

    /// Only characters that start a word: with any other [`Self::lower_word`] has a match.
    fn upper_word(&self, from: usize) -> Option<usize> {
        let end = self.run_end(from, CharClass::starts_word);
        (end > from).then_some(end)
    }

    fn number(&self) -> Option<usize> {
        let is_number = |it: &char| self.classes.class(*it) == CharClass::Number;
        let digits = self.text.chars().take(3).take_while(is_number);
        let length: usize = digits.map(char::len_utf8).sum();
        (length > 0).then_some(length)
    }

    fn symbols(&self) -> Option<usize> {
        let from = usize::from(self.text.starts_with(' '));
        let end = self.run_end(from, CharClass::is_symbol);
        if end == from {
            return None;
        }
        let is_other = |it: char| !matches!(it, '\r' | '\n' | '/');
        let length = self.text[end..].find(is_other);
        Some(length.map_or(self.text.len(), |length| end + length))
    }

    /// White space up to its last line break; without one, all of it at the end of the text, and
    /// elsewhere all but the last character, which belongs to what follows.
    fn white_space(&self) -> usize {
        let end = self.run_end(0, CharClass::is_white_space);
        let run = &self.text[..end];
        if let Some(at) = run.rfind(['\r', '\n']) {
            return at + 1;
        }
        let last = run.chars().next_back().map_or(0, char::len_utf8);
        if end == self.text.len() || end == last {
            end
        } else {
            end - last
        }
    }
}

/// The length of an English contraction such as `'ll`, or 0.
fn contraction_length(text: &str) -> usize {
    let mut characters = text.chars();
    if characters.next() != Some('\'') {
        return 0;
    }
    let mut lower = || characters.next().map(|it| it.to_ascii_lowercase());
    match (lower(), lower()) {
        (Some('s' | 't' | 'm' | 'd'), _) => 2,
        // The long s is an s to a pattern that ignores case.
        (Some('ſ'), _) => 1 + 'ſ'.len_utf8(),
        (Some('r' | 'v'), Some('e')) | (Some('l'), Some('l')) => 3,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use proptest::prelude::*;
    use regex::Regex;

    use super::*;

    static CLASSES: LazyLock<CharClasses> = LazyLock::new(CharClasses::load);

    /// The published pattern. Its lookahead is imitated by [`published_pieces`].
    static PATTERN: LazyLock<Regex> = LazyLock::new(|| {
        let word_start = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]";
        let word_rest = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]";
        let (prefix, suffix) = (r"[^\r\n\p{L}\p{N}]?", "(?i:'s|'t|'re|'ve|'m|'ll|'d)?");
        let alternatives = [
            &format!("{prefix}{word_start}*{word_rest}+{suffix}"),
            &format!("{prefix}{word_start}+{word_rest}*{suffix}"),
            r"\p{N}{1,3}",
            r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
            r"\s*[\r\n]+",
            r"\s+",
        ];
        Regex::new(&format!("^(?:{})", alternatives.join("|"))).unwrap()
    });

    fn published_pieces(text: &str) -> Vec<&str> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some(found) = PATTERN.find(rest) {
            let mut end = found.end();
            let last = found.as_str().chars().next_back().unwrap();
            let is_space = last.is_whitespace() && !matches!(last, '\r' | '\n');
            if is_space && end < rest.len() && end > last.len_utf8() {
                end -= last.len_utf8();
            }
            pieces.push(&rest[..end]);
            rest = &rest[end..];
        }
        assert_eq!(rest, "");
        pieces
    }

    fn pieces(text: &str) -> Vec<&str> {
        CLASSES.pieces(text).collect()
    }

    #[test]
    fn texts_are_split() {
        for (text, expected) in [
            ("", vec![]),
            ("Hello, World's end", vec!["Hello", ",", " World's", " end"]),
            ("HTTPServer2024", vec!["HTTPServer", "202", "4"]),
            ("a  b\n\n c  ", vec!["a", " ", " b", "\n\n", " c", "  "]),
            ("日本A", vec!["日本", "A"]),
            ("\u{301}A", vec!["\u{301}", "A"]),
            ("x'LL'ſ 'tis", vec!["x'LL", "'ſ", " '", "tis"]),
            (" //\n/a", vec![" //\n/", "a"]),
        ] {
            assert_eq!(pieces(text), expected);
            assert_eq!(published_pieces(text), expected);
        }
    }

    proptest! {
        #[test]
        fn pieces_are_those_of_the_published_pattern(
            text in proptest::collection::vec(
                prop_oneof![
                    3 => proptest::sample::select(
                        "aAsStTrReEvVmMlLdDzZ'ſ 01²Ⅷ\u{301}日ʰªǅßé\t\r\n/!_\u{a0}\u{2028}🙂क्".chars()
                            .collect::<Vec<char>>()
                    ),
                    1 => any::<char>(),
                ],
                0..40,
            )
        ) {
            let text: String = text.into_iter().collect();
            prop_assert_eq!(pieces(&text), published_pieces(&text));
        }
    }
}
