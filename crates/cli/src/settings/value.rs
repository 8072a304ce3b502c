//! Kinds and values of settings, and their parsing from text and TOML.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use cleveragents_api::TimeSpan;
use serde::{Serialize, Serializer};

use crate::failure::excerpt;

/// The size limit for a value, in bytes.
pub const VALUE_MAXIMUM: usize = 64 * 1024;

/// The kind of a setting's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueKind {
    Text,
    /// An integer from the first to the second, inclusive.
    Integer(i64, i64),
    Boolean,
    Choice(&'static [&'static str]),
    Path,
    /// `30s`, `10m`, `2h`, `7d`.
    Duration,
    /// Texts separated by commas; in TOML an array of strings.
    List,
    /// A subset of these words, separated by commas.
    Choices(&'static [&'static str]),
    /// A list of names without spaces.
    Names,
    /// A list of paths, each absolute or starting with `~/`.
    Paths,
    /// A text that is masked in all output.
    Secret,
    Url,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettingValue {
    Text(String),
    Integer(i64),
    Boolean(bool),
    Path(PathBuf),
    Duration(Duration),
    List(Vec<String>),
}

/// Error of a text that is not a valid value. The message never repeats a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    #[error("expected {expected}, found `{}`", excerpt(found))]
    Wrong { expected: String, found: String },
    #[error("expected {expected}, found {found}")]
    WrongType {
        expected: String,
        found: &'static str,
    },
    #[error("expected {expected}, found {fault}")]
    NotUrl {
        expected: String,
        fault: &'static str,
    },
    #[error("a value may be {VALUE_MAXIMUM} bytes long, this one has {0}")]
    TooLong(usize),
    #[error("a value may not contain control characters such as NUL, escape or newline")]
    ControlCharacter,
    #[error("a value may not be empty; `agents config unset` removes a setting")]
    Empty,
}

impl ValueKind {
    /// Returns the name of the kind in listings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Integer(..) => "integer",
            Self::Boolean => "boolean",
            Self::Choice(_) => "choice",
            Self::Path => "path",
            Self::Duration => "duration",
            Self::List => "list",
            Self::Choices(_) => "choices",
            Self::Names => "names",
            Self::Paths => "paths",
            Self::Secret => "secret",
            Self::Url => "url",
        }
    }

    /// Describes a valid value, for error messages.
    pub fn expected(self) -> String {
        match self {
            Self::Text => "a text".to_owned(),
            Self::Integer(least, most) => format!("a whole number from {least} to {most}"),
            Self::Boolean => "`true` or `false`".to_owned(),
            Self::Choice(names) => format!("one of {}", names.join(", ")),
            Self::Path => "a path".to_owned(),
            Self::Duration => "a duration such as 30s, 10m, 2h or 7d".to_owned(),
            Self::List => "a list of texts".to_owned(),
            Self::Choices(names) => format!("a list of {}", names.join(", ")),
            Self::Names => "a list of names of letters, digits, `.`, `_` and `-`".to_owned(),
            Self::Paths => "a list of paths that begin with `/` or `~/`".to_owned(),
            Self::Secret => "a secret text".to_owned(),
            Self::Url => "a URL such as https://example.org".to_owned(),
        }
    }

    /// Parses a value from the command line or the environment.
    pub fn parse(self, text: &str) -> Result<SettingValue, ValueError> {
        check_text(text)?;
        let wrong = || ValueError::Wrong {
            expected: self.expected(),
            found: text.to_owned(),
        };
        match self {
            Self::Text | Self::Secret => Ok(SettingValue::Text(text.to_owned())),
            Self::Path => Ok(SettingValue::Path(PathBuf::from(text))),
            Self::Integer(least, most) => match text.parse::<i64>() {
                Ok(number) if (least..=most).contains(&number) => Ok(SettingValue::Integer(number)),
                _ => Err(wrong()),
            },
            Self::Boolean => match text {
                "true" => Ok(SettingValue::Boolean(true)),
                "false" => Ok(SettingValue::Boolean(false)),
                _ => Err(wrong()),
            },
            Self::Choice(names) if names.contains(&text) => Ok(SettingValue::Text(text.to_owned())),
            Self::Choice(_) => Err(wrong()),
            Self::Duration => match text.parse::<TimeSpan>() {
                Ok(TimeSpan(span)) => Ok(SettingValue::Duration(span)),
                Err(_) => Err(wrong()),
            },
            Self::List => {
                let items = text.split(',').map(|item| item.trim().to_owned());
                Ok(SettingValue::List(items.collect()))
            }
            Self::Paths | Self::Choices(_) | Self::Names => {
                let items = text.split(',').map(|item| item.trim().to_owned());
                self.check_items(items.collect())
            }
            Self::Url => match url_fault(text) {
                None => Ok(SettingValue::Text(text.to_owned())),
                Some(fault) => Err(ValueError::NotUrl {
                    expected: self.expected(),
                    fault,
                }),
            },
        }
    }

    /// Parses a value from a file.
    pub fn parse_toml(self, item: &toml_edit::Item) -> Result<SettingValue, ValueError> {
        let wrong = || ValueError::WrongType {
            expected: self.expected(),
            found: item.type_name(),
        };
        match self {
            Self::Integer(..) => {
                let number = item.as_integer().ok_or_else(wrong)?;
                self.parse(&number.to_string())
            }
            Self::Boolean => {
                let value = item.as_bool().ok_or_else(wrong)?;
                Ok(SettingValue::Boolean(value))
            }
            Self::List | Self::Paths | Self::Choices(_) | Self::Names => {
                let items = item.as_array().ok_or_else(wrong)?.iter();
                let texts: Option<Vec<&str>> = items.map(toml_edit::Value::as_str).collect();
                let texts = texts.ok_or_else(wrong)?;
                texts.iter().try_for_each(|text| check_text(text))?;
                let texts = texts.into_iter().map(str::to_owned).collect();
                match self {
                    Self::Paths | Self::Choices(_) | Self::Names => self.check_items(texts),
                    _ => Ok(SettingValue::List(texts)),
                }
            }
            _ => self.parse(item.as_str().ok_or_else(wrong)?),
        }
    }

    fn check_items(self, items: Vec<String>) -> Result<SettingValue, ValueError> {
        let in_name = |sign: char| sign.is_ascii_alphanumeric() || "._-".contains(sign);
        let is_item = |item: &&String| match self {
            Self::Names => !item.is_empty() && item.chars().all(in_name),
            Self::Choices(names) => names.contains(&item.as_str()),
            _ => item.starts_with('/') || item.starts_with("~/"),
        };
        match items.iter().find(|item| !is_item(item)) {
            None => Ok(SettingValue::List(items)),
            Some(other) => Err(ValueError::Wrong {
                expected: self.expected(),
                found: other.clone(),
            }),
        }
    }
}

impl SettingValue {
    pub fn to_toml(&self) -> toml_edit::Value {
        match self {
            Self::Integer(number) => (*number).into(),
            Self::Boolean(value) => (*value).into(),
            Self::List(items) => items.iter().map(String::as_str).collect(),
            Self::Text(_) | Self::Path(_) | Self::Duration(_) => self.to_string().into(),
        }
    }
}

/// As in the settings file: numbers, booleans and lists are not texts.
impl Serialize for SettingValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Integer(number) => serializer.serialize_i64(*number),
            Self::Boolean(value) => serializer.serialize_bool(*value),
            Self::List(items) => items.serialize(serializer),
            Self::Text(_) | Self::Path(_) | Self::Duration(_) => serializer.collect_str(self),
        }
    }
}

impl fmt::Display for SettingValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Integer(number) => number.fmt(f),
            Self::Boolean(value) => value.fmt(f),
            Self::Path(path) => path.display().fmt(f),
            Self::Duration(span) => write!(f, "{}s", span.as_secs()),
            Self::List(items) => f.write_str(&items.join(",")),
        }
    }
}

fn check_text(text: &str) -> Result<(), ValueError> {
    if text.is_empty() {
        Err(ValueError::Empty)
    } else if text.len() > VALUE_MAXIMUM {
        Err(ValueError::TooLong(text.len()))
    } else if text.chars().any(char::is_control) {
        Err(ValueError::ControlCharacter)
    } else {
        Ok(())
    }
}

/// Returns what is wrong if a text is not a scheme, a colon and something after it. The rest is
/// checked when the URL is opened.
fn url_fault(text: &str) -> Option<&'static str> {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    match text.split_once(':') {
        Some((scheme, _))
            if !scheme.starts_with(|c: char| c.is_ascii_alphabetic())
                || !scheme.chars().all(legal) =>
        {
            Some("no scheme")
        }
        None => Some("no scheme"),
        Some((_, "")) => Some("nothing behind the scheme"),
        Some(_) if text.contains(char::is_whitespace) => {
            Some("a space in it, which is written %20")
        }
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn legal_values_read_back_as_written() {
        for (kind, text) in [
            (ValueKind::Text, "any text"),
            (ValueKind::Integer(1, 64), "64"),
            (ValueKind::Boolean, "true"),
            (ValueKind::Choice(&["a", "b"]), "b"),
            (ValueKind::Path, "/x/y"),
            (ValueKind::List, "a,b"),
            (ValueKind::Paths, "/a b,~/c"),
            (ValueKind::Names, "lfs,git-crypt"),
            (ValueKind::Secret, "s3cret"),
            (ValueKind::Url, "postgres://u:p@h/db"),
            (ValueKind::Url, "sqlite:/data/x.db"),
            (ValueKind::Duration, "90s"),
        ] {
            let value = kind.parse(text).unwrap();
            assert_eq!(value.to_string(), text);
            let item = toml_edit::Item::Value(value.to_toml());
            assert_eq!(kind.parse_toml(&item), Ok(value));
        }
        let hours = ValueKind::Duration.parse("2h").unwrap();
        assert_eq!(hours, SettingValue::Duration(Duration::from_secs(7200)));
    }

    #[test]
    fn illegal_values_are_refused() {
        for (kind, text) in [
            (ValueKind::Integer(1, 64), "0"),
            (ValueKind::Integer(1, 64), "65"),
            (ValueKind::Integer(1, 64), "4.0"),
            (ValueKind::Integer(1, 64), "99999999999999999999"),
            (ValueKind::Boolean, "yes"),
            (ValueKind::Choice(&["a"]), "A"),
            (ValueKind::Names, "lfs,"),
            (ValueKind::Names, "a b"),
            (ValueKind::Names, "[lfs]"),
            (ValueKind::Names, "a=b"),
            (ValueKind::Paths, "/a,b"),
            (ValueKind::Paths, "../a"),
            (ValueKind::Paths, "/a,,/b"),
            (ValueKind::Duration, "10"),
            (ValueKind::Duration, "99999999999999999d"),
            (ValueKind::Duration, "ü"),
            (ValueKind::Url, "example.org"),
            (ValueKind::Url, "http://a b"),
            (ValueKind::Text, ""),
            (ValueKind::Text, "a\0b"),
            (ValueKind::Secret, "a\nb"),
        ] {
            assert!(kind.parse(text).is_err(), "{kind:?} {text:?}");
        }
        for url in ["hunter2", "http:", "p w://hunter2", "http://u:hunter2 x@h"] {
            let error = ValueKind::Url.parse(url).unwrap_err().to_string();
            assert!(!error.contains("hunter2"), "{error}");
        }
        let long = "x".repeat(1 << 20);
        assert_eq!(
            ValueKind::Text.parse(&long),
            Err(ValueError::TooLong(1 << 20))
        );
    }

    #[test]
    fn files_must_use_the_right_type() {
        let item = |text: &str| {
            let value: toml_edit::Value = text.parse().unwrap();
            toml_edit::Item::Value(value)
        };
        for (kind, text) in [
            (ValueKind::Integer(1, 64), "\"4\""),
            (ValueKind::Boolean, "1"),
            (ValueKind::Text, "4"),
            (ValueKind::List, "[1]"),
            (ValueKind::List, "\"a\""),
            (ValueKind::Paths, "\"/a\""),
            (ValueKind::Paths, "[\"a\"]"),
            (ValueKind::Names, "\"lfs\""),
            (ValueKind::Names, "[\"a b\"]"),
            (ValueKind::Secret, "{ a = 1 }"),
        ] {
            assert!(kind.parse_toml(&item(text)).is_err(), "{kind:?} {text}");
        }
    }
}
