//! Shared parts of the conversions from wire types to the domain: positions of problems, and
//! parsing.

use std::fmt::Display;
use std::str::FromStr;

use super::error::{Problem, Problems};
use super::yaml::YamlNode;

/// A conversion in progress: the tree gives the position of a path, problems are collected.
pub(super) struct DefinitionConversion<'a> {
    pub(super) node: &'a YamlNode,
    pub(super) problems: &'a mut Problems,
}

impl DefinitionConversion<'_> {
    pub(super) fn problem(&mut self, path: &str, what: impl Into<String>) {
        let position = self.node.locate(path);
        self.problems.add(Problem::new(position, path, what));
    }

    /// Parses a text; `None` with a problem recorded if that fails.
    pub(super) fn parse<T>(&mut self, path: &str, text: &str) -> Option<T>
    where
        T: FromStr<Err: Display>,
    {
        text.parse()
            .map_err(|error| self.problem(path, format!("`{path}`: {error}")))
            .ok()
    }

    /// Like [`Self::parse`], for an optional text.
    pub(super) fn parse_optional<T>(
        &mut self,
        path: &str,
        text: &Option<String>,
    ) -> Option<Option<T>>
    where
        T: FromStr<Err: Display>,
    {
        match text {
            None => Some(None),
            Some(text) => self.parse(path, text).map(Some),
        }
    }

    /// Like [`Self::parse`], for a list; every text is parsed.
    pub(super) fn parse_all<T>(&mut self, path: &str, texts: &[String]) -> Option<Vec<T>>
    where
        T: FromStr<Err: Display>,
    {
        let parse = |(index, text): (usize, &String)| self.parse(&format!("{path}[{index}]"), text);
        let values: Vec<Option<T>> = texts.iter().enumerate().map(parse).collect();
        values.into_iter().collect()
    }
}
