//! Reads nodes into wire types. Each type defines how it is read, and every problem is recorded.
//!
//! Wire types are declared with `record!`, which generates the struct, its JSON Schema, its YAML
//! and its reader from one list of keys, so that the schema for editors matches what is read.

use serde_json::{Number, Value};

use super::error::{Problem, Problems, SourcePosition};
use super::nearest::nearest;
use super::yaml::{ResolvedScalar, YamlEntry, YamlKind, YamlNode, YamlScalar};

/// Maximum number of entries of a list.
pub(super) const LIST_MAXIMUM: usize = 1_000;

/// Maximum number of wrong keys of one mapping that are reported.
const WRONG_KEYS_MAXIMUM: usize = 50;

/// A wire type that can be read from a node.
pub(super) trait FromYaml: Sized {
    /// Reads the value; `None` with at least one problem recorded if that fails.
    fn read(node: &YamlNode, path: &str, problems: &mut Problems) -> Option<Self>;

    /// The value of a missing key; `None` if the key is required.
    fn absent() -> Option<Self> {
        None
    }

    /// Whether this is the value of a missing key, so that it need not be written.
    fn is_absent(&self) -> bool {
        false
    }
}

/// A known but unsupported key, and what to use instead.
pub(super) type RefusedKey = (&'static str, &'static str);

/// The allowed and the refused keys of a mapping.
#[derive(Debug, Clone, Copy)]
pub(super) struct RecordKeys {
    pub(super) known: &'static [&'static str],
    pub(super) refused: &'static [RefusedKey],
}

/// A mapping that is being read into a struct.
pub(super) struct RecordFields<'a> {
    entries: &'a [YamlEntry],
    path: &'a str,
    position: SourcePosition,
}

impl<'a> RecordFields<'a> {
    /// Opens a mapping and records every wrong key.
    pub(super) fn open(
        node: &'a YamlNode,
        path: &'a str,
        keys: RecordKeys,
        problems: &mut Problems,
    ) -> Option<Self> {
        let YamlKind::Mapping(entries) = &node.kind else {
            problems.add(type_problem("a mapping with keys and values", node, path));
            return None;
        };
        let is_wrong = |entry: &&YamlEntry| !keys.known.contains(&entry.key.as_str());
        for entry in entries.iter().filter(is_wrong).take(WRONG_KEYS_MAXIMUM) {
            problems.add(key_problem(entry, path, keys));
        }
        Some(Self {
            entries,
            path,
            position: node.position,
        })
    }

    /// Reads the value of `key`; `None` with a problem recorded if that fails.
    pub(super) fn read<T: FromYaml>(
        &self,
        key: &'static str,
        problems: &mut Problems,
    ) -> Option<T> {
        let path = join_path(self.path, key);
        match self.entries.iter().find(|entry| entry.key == key) {
            Some(entry) if entry.value.is_null() && T::absent().is_some() => T::absent(),
            Some(entry) => T::read(&entry.value, &path, problems),
            None => T::absent().or_else(|| {
                let what = match self.path {
                    "" => format!("the key `{key}` is missing"),
                    above => format!("the key `{key}` of `{above}` is missing"),
                };
                problems.add(Problem::new(self.position, &path, what));
                None
            }),
        }
    }
}

pub(super) fn join_path(above: &str, key: &str) -> String {
    match above {
        "" => key.to_owned(),
        above => format!("{above}.{key}"),
    }
}

/// Maximum length of a wrong key quoted in a message.
const SHOWN_MAXIMUM: usize = 60;

fn key_problem(entry: &YamlEntry, above: &str, keys: RecordKeys) -> Problem {
    let key = entry.key.as_str();
    let shown: String = key.chars().take(SHOWN_MAXIMUM).collect();
    let path = join_path(above, &shown);
    if let Some((_, reason)) = keys.refused.iter().find(|(refused, _)| *refused == key) {
        let what = format!("the key `{shown}` is not supported");
        return Problem::new(entry.position, &path, what).hint(*reason);
    }
    let place = match above {
        "" => String::new(),
        above => format!(" in `{above}`"),
    };
    let hint = match nearest(key, keys.known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("known are {}", keys.known.join(", ")),
    };
    let what = format!("there is no key `{shown}`{place}");
    Problem::new(entry.position, &path, what).hint(hint)
}

fn type_problem(wanted: &str, node: &YamlNode, path: &str) -> Problem {
    let found = node.describe();
    let what = match path {
        "" => format!("the document must be {wanted}, not {found}"),
        path => format!("`{path}` must be {wanted}, not {found}"),
    };
    Problem::new(node.position, path, what)
}

fn scalar(node: &YamlNode) -> Option<&YamlScalar> {
    match &node.kind {
        YamlKind::Scalar(scalar) => Some(scalar),
        _ => None,
    }
}

impl FromYaml for String {
    fn read(node: &YamlNode, path: &str, problems: &mut Problems) -> Option<Self> {
        let text = scalar(node).and_then(YamlScalar::as_text);
        if text.is_none() {
            let problem = type_problem("a text", node, path);
            problems.add(match scalar(node).map(YamlScalar::resolve) {
                Some(ResolvedScalar::Null) | None => problem,
                Some(_) => problem.hint("put it in quotes"),
            });
        }
        text.map(str::to_owned)
    }
}

/// Reads a scalar with `take`, or records the problem that it is not `wanted`.
fn read_typed<T>(
    node: &YamlNode,
    path: &str,
    problems: &mut Problems,
    wanted: &str,
    take: impl FnOnce(ResolvedScalar) -> Option<T>,
) -> Option<T> {
    let value = scalar(node).and_then(|scalar| take(scalar.resolve_typed()));
    if value.is_none() {
        let problem = type_problem(wanted, node, path);
        let looks_right = scalar(node).is_some_and(|scalar| looks_typed(&scalar.text));
        problems.add(if looks_right && is_text(node) {
            problem.hint("take the quotes away")
        } else {
            problem
        });
    }
    value
}

fn is_text(node: &YamlNode) -> bool {
    scalar(node).is_some_and(|scalar| scalar.resolve() == ResolvedScalar::Text)
}

fn looks_typed(text: &str) -> bool {
    text.parse::<f64>().is_ok() || text.parse::<bool>().is_ok()
}

impl FromYaml for bool {
    fn read(node: &YamlNode, path: &str, problems: &mut Problems) -> Option<Self> {
        read_typed(node, path, problems, "true or false", |value| match value {
            ResolvedScalar::Boolean(value) => Some(value),
            _ => None,
        })
    }
}

/// The largest integer that JSON carries exactly.
const INTEGER_MAXIMUM: u64 = (1 << 53) - 1;

impl FromYaml for u64 {
    fn read(node: &YamlNode, path: &str, problems: &mut Problems) -> Option<Self> {
        let wanted = format!("a whole number from 0 to {INTEGER_MAXIMUM}");
        read_typed(node, path, problems, &wanted, |value| match value {
            ResolvedScalar::Integer(value) => Self::try_from(value)
                .ok()
                .filter(|value| *value <= INTEGER_MAXIMUM),
            _ => None,
        })
    }
}

impl FromYaml for u32 {
    fn read(node: &YamlNode, path: &str, problems: &mut Problems) -> Option<Self> {
        let wanted = format!("a whole number from 0 to {}", Self::MAX);
        read_typed(node, path, problems, &wanted, |value| match value {
            ResolvedScalar::Integer(value) => value.try_into().ok(),
            _ => None,
        })
    }
}

impl FromYaml for f64 {
    fn read(node: &YamlNode, path: &str, problems: &mut Problems) -> Option<Self> {
        read_typed(node, path, problems, "a number", |value| match value {
            ResolvedScalar::Float(value) if value.is_finite() => Some(value),
            ResolvedScalar::Integer(value) => Some(value as f64),
            _ => None,
        })
    }
}

/// Any scalar, with the type it is written in.
impl FromYaml for Value {
    fn read(node: &YamlNode, path: &str, problems: &mut Problems) -> Option<Self> {
        let value = scalar(node).and_then(|scalar| scalar_to_json(scalar, scalar.resolve()));
        if value.is_none() {
            problems.add(type_problem("a text, a number or a boolean", node, path));
        }
        value
    }
}

/// A mapping of any shape, as JSON.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
#[serde(transparent)]
#[schemars(transparent, inline)]
pub(super) struct JsonTree(pub(super) serde_json::Map<String, Value>);

impl FromYaml for JsonTree {
    fn read(node: &YamlNode, path: &str, problems: &mut Problems) -> Option<Self> {
        let YamlKind::Mapping(entries) = &node.kind else {
            problems.add(type_problem("a mapping with keys and values", node, path));
            return None;
        };
        read_mapping(entries, path, problems).map(Self)
    }
}

/// Reads any node. Its depth and size were limited by the parser.
fn read_tree(node: &YamlNode, path: &str, problems: &mut Problems) -> Option<Value> {
    match &node.kind {
        YamlKind::Mapping(entries) => read_mapping(entries, path, problems).map(Value::Object),
        YamlKind::Sequence(items) => {
            let read = |(index, item)| read_tree(item, &format!("{path}[{index}]"), problems);
            let values: Vec<Option<Value>> = items.iter().enumerate().map(read).collect();
            let values: Option<Vec<Value>> = values.into_iter().collect();
            values.map(Value::Array)
        }
        YamlKind::Scalar(_) if node.is_null() => Some(Value::Null),
        YamlKind::Scalar(_) => Value::read(node, path, problems),
    }
}

fn read_mapping(
    entries: &[YamlEntry],
    path: &str,
    problems: &mut Problems,
) -> Option<serde_json::Map<String, Value>> {
    let read = |entry: &YamlEntry| {
        let value = read_tree(&entry.value, &join_path(path, &entry.key), problems);
        value.map(|value| (entry.key.clone(), value))
    };
    // Read all of them before any is missed, so that every problem is recorded.
    let values: Vec<Option<(String, Value)>> = entries.iter().map(read).collect();
    values.into_iter().collect()
}

/// Converts a resolved scalar to JSON; `None` if JSON or the domain cannot hold it.
pub(super) fn scalar_to_json(scalar: &YamlScalar, resolved: ResolvedScalar) -> Option<Value> {
    match resolved {
        ResolvedScalar::Boolean(value) => Some(Value::Bool(value)),
        ResolvedScalar::Integer(value) => i64::try_from(value).ok().map(Value::from),
        ResolvedScalar::Float(value) => Number::from_f64(value).map(Value::Number),
        ResolvedScalar::Text | ResolvedScalar::Null => scalar.as_text().map(Value::from),
    }
}

impl<T: FromYaml> FromYaml for Option<T> {
    fn read(node: &YamlNode, path: &str, problems: &mut Problems) -> Option<Self> {
        T::read(node, path, problems).map(Some)
    }

    fn absent() -> Option<Self> {
        Some(None)
    }

    fn is_absent(&self) -> bool {
        self.is_none()
    }
}

impl<T: FromYaml> FromYaml for Vec<T> {
    fn read(node: &YamlNode, path: &str, problems: &mut Problems) -> Option<Self> {
        read_list(node, path, LIST_MAXIMUM, problems)
    }
}

/// A list with a bound of its own.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
#[serde(transparent)]
#[schemars(transparent, inline)]
pub(super) struct LongList<T, const MAXIMUM: usize>(pub(super) Vec<T>);

impl<T: FromYaml, const MAXIMUM: usize> FromYaml for LongList<T, MAXIMUM> {
    fn read(node: &YamlNode, path: &str, problems: &mut Problems) -> Option<Self> {
        read_list(node, path, MAXIMUM, problems).map(Self)
    }
}

fn read_list<T: FromYaml>(
    node: &YamlNode,
    path: &str,
    maximum: usize,
    problems: &mut Problems,
) -> Option<Vec<T>> {
    let YamlKind::Sequence(items) = &node.kind else {
        problems.add(type_problem("a list", node, path));
        return None;
    };
    if items.len() > maximum {
        let count = items.len();
        let what = format!("`{path}` has {count} entries; a list may have {maximum}");
        problems.add(Problem::new(node.position, path, what));
        return None;
    }
    let read = |(index, item)| T::read(item, &format!("{path}[{index}]"), problems);
    // Read all of them before any is missed, so that every problem is recorded.
    let values: Vec<Option<T>> = items.iter().enumerate().map(read).collect();
    values.into_iter().collect()
}

/// `record! { /// Docs. Name refusing [("key", "what instead"), …] { /// Docs. field: Type = "key", … } }`
macro_rules! record {
    (
        $(#[$meta:meta])* $name:ident refusing $refused:tt {
            $($(#[$field_meta:meta])* $field:ident: $type:ty = $key:literal,)+
        }
    ) => {
        #[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
        #[schemars(deny_unknown_fields)]
        $(#[$meta])*
        pub(crate) struct $name {
            $(
                $(#[$field_meta])*
                #[serde(rename = $key, skip_serializing_if = "crate::record::FromYaml::is_absent")]
                pub(crate) $field: $type,
            )+
        }

        impl $crate::record::FromYaml for $name {
            fn read(
                node: &$crate::yaml::YamlNode,
                path: &str,
                problems: &mut $crate::error::Problems,
            ) -> Option<Self> {
                let keys = $crate::record::RecordKeys {
                    known: &[$($key),+],
                    refused: &$refused,
                };
                let fields = $crate::record::RecordFields::open(node, path, keys, problems)?;
                $(let $field = fields.read($key, problems);)+
                Some(Self { $($field: $field?,)+ })
            }
        }
    };
}

pub(super) use record;

#[cfg(test)]
mod tests {
    use super::super::yaml::DefinitionSource;
    use super::*;

    record! {
        /// A sample.
        Sample refusing [("old", "use `text`")] {
            text: String = "text",
            flag: Option<bool> = "flag",
            count: Option<u64> = "count",
            small: Option<u32> = "small",
            ratio: Option<f64> = "ratio",
            any: Option<Value> = "any",
            list: Option<Vec<String>> = "list",
        }
    }

    fn variables(name: &str) -> Option<String> {
        match name {
            "N" => Some("7".to_owned()),
            "T" => Some("true".to_owned()),
            "EMPTY" => Some(String::new()),
            "HIDDEN" => Some("sk-secret".to_owned()),
            _ => None,
        }
    }

    fn read(text: &str) -> Result<Sample, String> {
        let node = DefinitionSource::new("x", text).parse(&variables).unwrap();
        let mut problems = Problems::default();
        let sample = Sample::read(&node, "", &mut problems);
        problems
            .into_result("x", sample)
            .map_err(|errors| errors.to_string())
    }

    #[test]
    fn every_problem_is_recorded() {
        let said = read("flag: 1\ncuont: 1\nold: 1\nzzz: 2\ncount: -1\nlist: [a, 1, [b]]\n");
        assert_eq!(
            said.unwrap_err(),
            "x:1:1: the key `text` is missing\n\
             x:1:7: `flag` must be true or false, not the number \"1\"\n\
             x:2:1: there is no key `cuont` (did you mean `count`?)\n\
             x:3:1: the key `old` is not supported (use `text`)\n\
             x:4:1: there is no key `zzz` (known are text, flag, count, small, ratio, any, list)\n\
             x:5:8: `count` must be a whole number from 0 to 9007199254740991, not the number \"-1\"\n\
             x:6:11: `list[1]` must be a text, not the number \"1\" (put it in quotes)\n\
             x:6:14: `list[2]` must be a text, not a list"
        );
    }

    #[test]
    fn variables_are_typed_after_they_are_filled_in() {
        let sample = read(
            "text: ${N}\nflag: ${T}\ncount: ${N}0\nsmall: ${EMPTY}\nratio: ${X:0.5}\nany: ${N}\n",
        )
        .unwrap();
        assert_eq!(sample.text, "7");
        assert_eq!((sample.flag, sample.count), (Some(true), Some(70)));
        assert_eq!((sample.small, sample.ratio), (None, Some(0.5)));
        assert_eq!(sample.any, Some(Value::from(7)));
        let sample = read("{text: '${N}', flag: '${T}', count: '${N}', any: '${N}'}").unwrap();
        assert_eq!((sample.flag, sample.count), (Some(true), Some(7)));
        assert_eq!(sample.any, Some(Value::from("7")));
        let said = read("text: x\nflag: \"true\"\ncount: ${HIDDEN}\n").unwrap_err();
        assert!(
            said.contains("not the text \"true\" (take the quotes away)"),
            "{said}"
        );
        assert!(said.contains("not the text of a variable"), "{said}");
        assert!(!said.contains("sk-secret"), "{said}");
    }

    #[test]
    fn numbers_have_bounds() {
        assert_eq!(
            read("text: x\ncount: 9007199254740991").unwrap().count,
            Some(INTEGER_MAXIMUM)
        );
        for text in [
            "count: 9007199254740992",
            "small: 4294967296",
            "count: 1.5",
            "ratio: .nan",
            "ratio: .inf",
            "any: 9223372036854775808",
            "any: -.inf",
            "any: [1]",
        ] {
            let said = read(&format!("text: x\n{text}")).unwrap_err();
            assert!(said.contains("must be"), "{text}: {said}");
        }
        assert_eq!(read("text: x\nratio: 3").unwrap().ratio, Some(3.0));
    }

    record! {
        /// Another sample.
        TreeSample refusing [] {
            tree: JsonTree = "tree",
        }
    }

    fn parse_tree(text: &str) -> Result<Value, String> {
        let source = DefinitionSource::new("x", text);
        let node = source.parse(&|_| None).unwrap();
        let mut problems = Problems::default();
        let planted = TreeSample::read(&node, "", &mut problems);
        let planted = problems.into_result("x", planted);
        planted
            .map(|planted| Value::Object(planted.tree.0))
            .map_err(|errors| errors.to_string())
    }

    #[test]
    fn a_tree_keeps_any_json() {
        let text = "tree: {a: 1, b: [~, true, 1.5, '2', x], c: {d: {}}, 5: y}";
        assert_eq!(
            parse_tree(text).unwrap(),
            serde_json::json!(
                {"a": 1, "b": [null, true, 1.5, "2", "x"], "c": {"d": {}}, "5": "y"}
            )
        );
        assert_eq!(
            parse_tree("tree: {a: [.nan], b: .inf}").unwrap_err(),
            "x:1:12: `tree.a[0]` must be a text, a number or a boolean, not the number \".nan\"\n\
             x:1:22: `tree.b` must be a text, a number or a boolean, not the number \".inf\""
        );
        assert_eq!(
            parse_tree("tree: [1]").unwrap_err(),
            "x:1:7: `tree` must be a mapping with keys and values, not a list"
        );
    }

    #[test]
    fn a_document_must_be_a_mapping() {
        assert_eq!(
            read("- a\n").unwrap_err(),
            "x:1:1: the document must be a mapping with keys and values, not a list"
        );
        let said = read("text\n").unwrap_err();
        assert!(said.contains("not the text \"text\""), "{said}");
    }

    #[test]
    fn null_is_the_same_as_absent() {
        assert_eq!(read("text: x\nlist:\nflag: ~\n"), read("text: x\n"));
        let said = read("text:\n").unwrap_err();
        assert_eq!(said, "x:1:5: `text` must be a text, not nothing");
    }

    #[test]
    fn a_list_has_a_bound() {
        let list = "- x\n".repeat(LIST_MAXIMUM);
        assert!(read(&format!("text: x\nlist:\n{list}")).is_ok());
        let said = read(&format!("text: x\nlist:\n{list}- x\n")).unwrap_err();
        assert!(
            said.contains("`list` has 1001 entries; a list may have 1000"),
            "{said}"
        );
    }
}
