//! The unparsed bytes of a definition.

use std::path::Path;

use super::super::error::{Problem, Problems, SourcePosition};
use super::node::YamlNode;
use super::parse::parse;
use super::substitute::{DefinitionVariables, SubstitutionPolicy};

/// Maximum size of a definition, in bytes.
pub const SOURCE_MAXIMUM: usize = 1 << 20;

/// The bytes of a definition and its name in messages, such as its path.
#[derive(Debug, Clone, Copy)]
pub struct DefinitionSource<'a> {
    pub name: &'a str,
    pub bytes: &'a [u8],
    /// The absolute folder to which paths in it are relative. Without one, paths are left
    /// unchanged.
    pub folder: Option<&'a Path>,
    policy: SubstitutionPolicy,
}

impl<'a> DefinitionSource<'a> {
    pub fn new(name: &'a str, bytes: &'a (impl AsRef<[u8]> + ?Sized)) -> Self {
        let bytes = bytes.as_ref();
        Self {
            name,
            bytes,
            folder: None,
            policy: SubstitutionPolicy::Stored,
        }
    }

    /// Returns the source with this folder.
    #[must_use]
    pub fn in_folder(self, folder: &'a Path) -> Self {
        Self {
            folder: Some(folder),
            ..self
        }
    }

    /// Returns the source, marked as read on each use instead of stored: secrets may be
    /// substituted.
    #[must_use]
    pub(crate) fn without_storing(self) -> Self {
        Self {
            policy: SubstitutionPolicy::Used,
            ..self
        }
    }

    /// Returns the source, marked as coming from a repository: no variable is substituted.
    #[must_use]
    pub fn from_repository(self) -> Self {
        Self {
            policy: SubstitutionPolicy::Repository,
            ..self
        }
    }

    /// Whether it comes from a repository.
    pub(crate) fn is_from_repository(&self) -> bool {
        self.policy == SubstitutionPolicy::Repository
    }

    /// Parses the document, with every `${VAR}` substituted.
    pub(crate) fn parse(&self, variables: DefinitionVariables<'_>) -> Result<YamlNode, Problems> {
        parse(self.text()?, variables, self.policy)
    }

    fn text(&self) -> Result<&'a str, Problem> {
        let length = self.bytes.len();
        if length > SOURCE_MAXIMUM {
            let what =
                format!("the file has {length} bytes; a definition may have {SOURCE_MAXIMUM}");
            return Err(Problem::new(SourcePosition::START, "", what));
        }
        let text = std::str::from_utf8(self.bytes).map_err(|error| {
            let valid = &self.bytes[..error.valid_up_to()];
            let position = end_position(&String::from_utf8_lossy(valid));
            Problem::new(position, "", "the file is not UTF-8 text")
        })?;
        match text.char_indices().find(|(_, c)| is_forbidden(*c)) {
            Some((offset, character)) => {
                let position = end_position(&text[..offset]);
                Err(Problem::new(position, "", forbidden_message(character)))
            }
            None => Ok(text),
        }
    }
}

/// Control characters are not allowed, because names and texts are printed to terminals.
pub(super) fn is_forbidden(character: char) -> bool {
    character.is_control() && !matches!(character, '\t' | '\n' | '\r')
}

pub(super) fn forbidden_message(character: char) -> String {
    let code = u32::from(character);
    format!("the control character U+{code:04X} is not allowed")
}

/// Returns the position just after `text`.
pub(super) fn end_position(text: &str) -> SourcePosition {
    let last = text.rsplit('\n').next().unwrap_or_default();
    SourcePosition {
        line: text.matches('\n').count() + 1,
        column: last.chars().filter(|c| *c != '\u{feff}').count() + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::error::DefinitionError;
    use super::*;

    fn refusal(bytes: &[u8]) -> (SourcePosition, String) {
        let problems = DefinitionSource::new("x.yaml", bytes)
            .parse(&|_| None)
            .unwrap_err();
        let errors = problems.into_result::<()>("x.yaml", None).unwrap_err();
        let DefinitionError { line, column, .. } = errors.as_slice()[0];
        (
            SourcePosition { line, column },
            errors.as_slice()[0].message.clone(),
        )
    }

    #[test]
    fn a_large_file_is_refused_before_it_is_read() {
        let (position, what) = refusal(&vec![b' '; SOURCE_MAXIMUM + 1]);
        assert_eq!(position, SourcePosition::START);
        assert_eq!(
            what,
            "the file has 1048577 bytes; a definition may have 1048576"
        );
    }

    #[test]
    fn non_utf8_bytes_are_refused_with_a_position() {
        let (position, what) = refusal(b"a: 1\nb: \xff\n");
        assert_eq!(position, SourcePosition { line: 2, column: 4 });
        assert_eq!(what, "the file is not UTF-8 text");
    }

    #[test]
    fn control_characters_are_refused_with_a_position() {
        for (bytes, said) in [
            (b"\xef\xbb\xbfa: 1\nb\0: 2".as_slice(), "U+0000"),
            (b"a: 1\nb\x1b: 2", "U+001B"),
            ("a: 1\nb\u{9b}: 2".as_bytes(), "U+009B"),
        ] {
            let (position, what) = refusal(bytes);
            assert_eq!(position, SourcePosition { line: 2, column: 2 });
            assert!(what.contains(said), "{what}");
        }
    }

    #[test]
    fn a_byte_order_mark_and_windows_line_ends_are_read() {
        let text = "\u{feff}a: 1\r\nb: 2\r\n";
        assert!(
            DefinitionSource::new("x.yaml", text)
                .parse(&|_| None)
                .is_ok()
        );
    }
}
