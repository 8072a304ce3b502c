//! Names as people type them. They are read here rather than by the argument parser, whose
//! answers repeat what was typed, however long it is.

use std::str::FromStr;

use cleveragents_domain::words::UnknownWord;
use cleveragents_domain::{NamespacedName, ProfileName, ResourceType};

use crate::failure::{Failure, excerpt};
use crate::name_pattern::NamePattern;

/// The name of a `what`.
pub fn name(what: &str, text: &str) -> Result<NamespacedName, Failure> {
    read(what, text)
}

pub fn profile(text: &str) -> Result<ProfileName, Failure> {
    let name = read("automation profile", text);
    name.map_err(|failure| failure.hint("agents automation-profile list"))
}

pub fn resource_type(text: &str) -> Result<ResourceType, Failure> {
    text.parse().map_err(|error: UnknownWord| {
        let what = format!("`{}` is no type of resource", excerpt(text));
        Failure::usage(what)
            .kind("unknown_type")
            .because(error.to_string())
            .hint("agents resource add --help")
    })
}

/// A regular expression to look for in names.
pub fn pattern(text: &str) -> Result<NamePattern, Failure> {
    text.parse().map_err(|error: String| {
        let what = format!("`{}` cannot be looked for", excerpt(text));
        Failure::usage(what)
            .kind("pattern")
            .because(error)
            .hint("escape what is meant as it stands: `\\.` for a dot")
    })
}

fn read<T>(what: &str, text: &str) -> Result<T, Failure>
where
    T: FromStr,
    T::Err: std::error::Error,
{
    text.parse().map_err(|error: T::Err| {
        let what = match what.starts_with(['a', 'e', 'i', 'o', 'u']) {
            true => format!("`{}` cannot be the name of an {what}", excerpt(text)),
            false => format!("`{}` cannot be the name of a {what}", excerpt(text)),
        };
        let failure = Failure::usage(what).kind("name").caused_by(&error);
        failure.hint("write it as NAME or NAMESPACE/NAME, such as local/shop")
    })
}
