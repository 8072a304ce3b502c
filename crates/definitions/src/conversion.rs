//! Shared parts of the conversions from wire types to the domain: positions of problems, and
//! parsing.

use std::fmt::Display;
use std::str::FromStr;

use super::error::{Problem, Problems};
use super::interpolation::FillError;
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

    pub(super) fn problem_with_hint(&mut self, path: &str, what: &str, hint: &str) {
        let position = self.node.locate(path);
        let problem = Problem::new(position, path, what);
        self.problems.add(problem.hint(hint));
    }

    /// Records a problem of a template at the template's position.
    pub(super) fn fill_problem(&mut self, error: &FillError) {
        self.problem(error.text(), error.to_string());
    }

    pub(super) fn check_at_least_one(&mut self, path: &str, number: Option<u64>) {
        if number == Some(0) {
            self.problem(path, format!("`{path}` must be at least 1"));
        }
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
        self.convert_all(path, texts, |conversion, path, text| {
            conversion.parse(path, text)
        })
    }

    /// Converts a list; `convert` gets the path of each entry. Every entry is converted before this
    /// returns `None`, so that every problem is recorded.
    pub(super) fn convert_all<E, T>(
        &mut self,
        path: &str,
        entries: impl IntoIterator<Item = E>,
        convert: fn(&mut Self, &str, E) -> Option<T>,
    ) -> Option<Vec<T>> {
        let convert = |(index, entry)| convert(self, &format!("{path}[{index}]"), entry);
        let values: Vec<Option<T>> = entries.into_iter().enumerate().map(convert).collect();
        values.into_iter().collect()
    }
}
