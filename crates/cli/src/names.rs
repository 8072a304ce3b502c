//! Parses names that the user types. Not done by clap, whose errors repeat the input at any length.

use std::str::FromStr;

use cleveragents_api::NextStep;
use cleveragents_api::automation_profile::AutomationProfileList;
use cleveragents_domain::text_enum::UnknownValue;
use cleveragents_domain::{NamespacedName, ProfileName, ResourceType};

use crate::failure::{CommandFailure, FailureKind, excerpt};

pub fn parse_name(what: &str, text: &str) -> Result<NamespacedName, CommandFailure> {
    parse(what, text)
}

pub fn parse_profile(text: &str) -> Result<ProfileName, CommandFailure> {
    let name = parse("automation profile", text);
    let list = NextStep::send(&AutomationProfileList::default());
    name.map_err(|failure| failure.hint(list))
}

pub fn parse_resource_type(text: &str) -> Result<ResourceType, CommandFailure> {
    text.parse().map_err(|error: UnknownValue| {
        let what = format!("invalid resource type `{}`", excerpt(text));
        CommandFailure::usage(what)
            .kind(FailureKind::UnknownType)
            .because(error.to_string())
            .hint("agents resource add --help")
    })
}

fn parse<T>(what: &str, text: &str) -> Result<T, CommandFailure>
where
    T: FromStr,
    T::Err: std::error::Error,
{
    text.parse().map_err(|error: T::Err| {
        let what = if what.starts_with(['a', 'e', 'i', 'o', 'u']) {
            format!("`{}` cannot be the name of an {what}", excerpt(text))
        } else {
            format!("`{}` cannot be the name of a {what}", excerpt(text))
        };
        let failure = CommandFailure::usage(what)
            .kind(FailureKind::Name)
            .caused_by(&error);
        failure.hint("write it as NAME or NAMESPACE/NAME, such as local/shop")
    })
}
