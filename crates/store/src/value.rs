//! SQL values, the same for both engines: text, 64-bit integers, reals and bytes.
//!
//! PostgreSQL's text cannot contain NUL. Both engines therefore store it escaped, so that a text
//! reads back unchanged from either.

use std::borrow::Cow;

use cleveragents_domain::Timestamp;
use cleveragents_ports::{Result, StoreError};

/// Represents NUL (followed by `0`) and itself (followed by `1`). It is a noncharacter, which does
/// not occur in interchanged text, so ordinary text is stored unchanged.
const ESCAPE: char = '\u{fdd0}';

/// A parameter of a statement.
#[derive(Debug, Clone)]
pub(crate) enum Param<'a> {
    Null,
    Integer(i64),
    Real(f64),
    Text(Cow<'a, str>),
    Bytes(&'a [u8]),
}

impl<'a> From<&'a str> for Param<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(escape(text))
    }
}

impl<'a> From<&'a String> for Param<'a> {
    fn from(text: &'a String) -> Self {
        Self::from(text.as_str())
    }
}

impl From<String> for Param<'_> {
    fn from(text: String) -> Self {
        Self::Text(Cow::Owned(escape(&text).into_owned()))
    }
}

impl From<i64> for Param<'_> {
    fn from(integer: i64) -> Self {
        Self::Integer(integer)
    }
}

impl From<Timestamp> for Param<'_> {
    fn from(time: Timestamp) -> Self {
        Self::Integer(time.as_micros())
    }
}

impl<'a> From<&'a [u8]> for Param<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::Bytes(bytes)
    }
}

impl<'a, T: Into<Param<'a>>> From<Option<T>> for Param<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// Builds a statement's parameters, converting each.
macro_rules! params {
    ($($value:expr),* $(,)?) => { &[$($crate::value::Param::from($value)),*] };
}
pub(crate) use params;

/// A column of a result row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum SqlValue {
    Null,
    Integer(i64),
    Real(f64),
    Text(String),
    Bytes(Vec<u8>),
}

/// A result row; columns are read by position and type.
#[derive(Debug, Clone)]
pub(crate) struct SqlRow(pub(crate) Vec<SqlValue>);

impl SqlRow {
    pub(crate) fn integer(&self, column: usize) -> Result<i64> {
        match self.0.get(column) {
            Some(SqlValue::Integer(integer)) => Ok(*integer),
            other => Err(unexpected_value(column, "an integer", other)),
        }
    }

    pub(crate) fn real(&self, column: usize) -> Result<f64> {
        match self.0.get(column) {
            Some(SqlValue::Real(real)) => Ok(*real),
            other => Err(unexpected_value(column, "a real", other)),
        }
    }

    pub(crate) fn optional_integer(&self, column: usize) -> Result<Option<i64>> {
        match self.0.get(column) {
            Some(SqlValue::Null) => Ok(None),
            _ => self.integer(column).map(Some),
        }
    }

    pub(crate) fn time(&self, column: usize) -> Result<Timestamp> {
        self.integer(column).map(Timestamp::from_micros)
    }

    pub(crate) fn text(&self, column: usize) -> Result<String> {
        self.optional_text(column)?
            .ok_or_else(|| unexpected_value(column, "a text", Some(&SqlValue::Null)))
    }

    pub(crate) fn optional_text(&self, column: usize) -> Result<Option<String>> {
        match self.0.get(column) {
            Some(SqlValue::Text(text)) => Ok(Some(unescape(text).into_owned())),
            Some(SqlValue::Null) => Ok(None),
            other => Err(unexpected_value(column, "a text", other)),
        }
    }

    /// Parses a text column as `T`.
    pub(crate) fn parsed<T: std::str::FromStr>(&self, column: usize) -> Result<T>
    where
        T::Err: std::fmt::Display,
    {
        self.text(column)?.parse().map_err(|e| {
            StoreError::internal(format!("column {column} of a row is malformed: {e}"))
        })
    }

    /// Like [`Self::parsed`], for a nullable column.
    pub(crate) fn optional_parsed<T: std::str::FromStr>(&self, column: usize) -> Result<Option<T>>
    where
        T::Err: std::fmt::Display,
    {
        match self.0.get(column) {
            Some(SqlValue::Null) => Ok(None),
            _ => self.parsed(column).map(Some),
        }
    }

    pub(crate) fn bytes(&self, column: usize) -> Result<Vec<u8>> {
        match self.0.get(column) {
            Some(SqlValue::Bytes(bytes)) => Ok(bytes.clone()),
            other => Err(unexpected_value(column, "bytes", other)),
        }
    }
}

fn unexpected_value(column: usize, wanted: &str, found: Option<&SqlValue>) -> StoreError {
    StoreError::internal(format!(
        "column {column} of a row should be {wanted}, found {found:?}"
    ))
}

pub(crate) fn escape(text: &str) -> Cow<'_, str> {
    if !text.contains(['\0', ESCAPE]) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\0' => escaped.extend([ESCAPE, '0']),
            ESCAPE => escaped.extend([ESCAPE, '1']),
            other => escaped.push(other),
        }
    }
    Cow::Owned(escaped)
}

pub(crate) fn unescape(text: &str) -> Cow<'_, str> {
    if !text.contains(ESCAPE) {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        match (c, c == ESCAPE) {
            (_, true) if characters.next() == Some('0') => plain.push('\0'),
            (_, true) => plain.push(ESCAPE),
            (other, false) => plain.push(other),
        }
    }
    Cow::Owned(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nul_and_the_escape_character_round_trip() {
        for text in [
            "",
            "plain",
            "a\0b",
            "\0",
            "\u{fdd0}",
            "\u{fdd0}0\0\u{fdd0}1",
            "é漢\0🦀",
        ] {
            let stored = escape(text);
            assert!(!stored.contains('\0'), "{text:?}");
            assert_eq!(unescape(&stored), text);
        }
    }

    #[test]
    fn ordinary_text_is_stored_unescaped() {
        assert!(matches!(escape("plain é"), Cow::Borrowed(_)));
    }

    #[test]
    fn a_type_mismatch_names_the_column() {
        let row = SqlRow(vec![SqlValue::Integer(1)]);
        let error = row.text(0).unwrap_err().to_string();
        assert!(error.contains("column 0"), "{error}");
        assert!(row.integer(7).is_err());
    }
}
