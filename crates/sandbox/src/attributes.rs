//! Git attributes that decide whether git stores other bytes than the tree contains.

use std::collections::BTreeMap;

use cleveragents_ports::sandbox::SandboxResult;

use crate::git_call::GitCall;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Attribute {
    Filter,
    Text,
    Crlf,
    Eol,
    Ident,
    Encoding,
}

impl Attribute {
    pub(crate) const ALL: [Self; 6] = [
        Self::Filter,
        Self::Text,
        Self::Crlf,
        Self::Eol,
        Self::Ident,
        Self::Encoding,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Filter => "filter",
            Self::Text => "text",
            Self::Crlf => "crlf",
            Self::Eol => "eol",
            Self::Ident => "ident",
            Self::Encoding => "working-tree-encoding",
        }
    }
}

/// The attributes of one path. An unspecified attribute is absent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Attributes(BTreeMap<Attribute, String>);

/// Git's conversion of line endings when it stores a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LineEnds {
    Kept,
    /// Normalised if the file looks like text and was not stored with CRLF before.
    Guessed,
    Normalised,
}

impl Attributes {
    fn value(&self, attribute: Attribute) -> Option<&str> {
        self.0.get(&attribute).map(String::as_str)
    }

    /// Returns the name of the filter, if the path has one.
    pub(crate) fn filter(&self) -> Option<&str> {
        // Git reports `-filter` of an attributes file as `unset`.
        self.value(Attribute::Filter).filter(|it| *it != "unset")
    }

    /// Returns whether more than line endings differ between tree and store.
    pub(crate) fn rewrites_text(&self) -> bool {
        self.value(Attribute::Ident).is_some_and(|it| it == "set")
            || self
                .value(Attribute::Encoding)
                .is_some_and(|it| it != "unset")
    }

    pub(crate) fn line_ends(&self, autocrlf: AutoCrlf) -> LineEnds {
        let text = self.value(Attribute::Text).or(self.value(Attribute::Crlf));
        match (text, self.value(Attribute::Eol), autocrlf) {
            (Some("unset"), _, _) | (None, None, AutoCrlf::Off) => LineEnds::Kept,
            (Some("auto"), _, _) | (None, None, AutoCrlf::On) => LineEnds::Guessed,
            (Some(_), _, _) | (None, Some(_), _) => LineEnds::Normalised,
        }
    }
}

/// The value of `core.autocrlf`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AutoCrlf {
    Off,
    On,
}

impl AutoCrlf {
    pub(crate) fn from_settings(shaping: &[(String, String)]) -> Self {
        let setting = shaping.iter().find(|(key, _)| key == "core.autocrlf");
        match setting.map(|(_, value)| value.to_ascii_lowercase()) {
            // `input` counts as on, because it normalises what is stored.
            Some(value) if !["false", "no", "off", "0", ""].contains(&value.as_str()) => Self::On,
            _ => Self::Off,
        }
    }
}

/// Queries the attributes of many paths in one run of git. `call` creates a run on the repository.
pub(crate) fn query_attributes(
    call: impl FnOnce() -> GitCall,
    paths: &[&[u8]],
    attributes: &[Attribute],
) -> SandboxResult<BTreeMap<Vec<u8>, Attributes>> {
    if paths.is_empty() {
        return Ok(BTreeMap::new());
    }
    let names = attributes.iter().map(|attribute| attribute.name());
    let call = call().arguments(["check-attr", "-z", "--stdin"]);
    let call = call.arguments(names);
    let mut input = paths.join(&0);
    input.push(0);
    let answer = call.run_with(&input)?;
    let mut found: BTreeMap<Vec<u8>, Attributes> = BTreeMap::new();
    let fields: Vec<&[u8]> = answer.split(|byte| *byte == 0).collect();
    for record in fields.chunks_exact(3) {
        let value = String::from_utf8_lossy(record[2]);
        let attribute = attributes
            .iter()
            .find(|it| it.name().as_bytes() == record[1]);
        let here = found.entry(record[0].to_vec()).or_default();
        if let Some(attribute) = attribute
            && value != "unspecified"
        {
            here.0.insert(*attribute, value.into_owned());
        }
    }
    Ok(found)
}
