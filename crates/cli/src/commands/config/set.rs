//! `agents config set`

use std::io::Read;

use clap::Args;

use super::{SettingAnswer, parse_key, target_file};
use crate::commands::CommandContext;
use crate::failure::{CommandFailure, ExitCode, FailureKind};
use crate::output::{CommandAnswer, MessageLevel, OutputView};
use crate::settings::file::{self, SettingsOwner, user_only_failure};
use crate::settings::registry::SettingScope;
use crate::settings::value::VALUE_MAXIMUM;
use crate::settings::{Key, SettingSource, SettingValue, resolve, secrets};

/// Change a setting in your config.toml, or in the project's
///
/// Comments and order of the file are kept. Safe to run from several processes at once.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents config set plan.concurrency 8
  agents config set core.automation-profile cautious --project
  agents config set provider.openai.api-key - < key.txt")]
pub struct ConfigSetArgs {
    /// The name of the setting, as in `agents config list`
    #[arg(value_name = "KEY")]
    key: String,

    /// The new value; `-` reads it from standard input, which keeps secrets out of the shell
    /// history
    #[arg(value_name = "VALUE", allow_negative_numbers = true)]
    value: String,

    /// Change the project's .agents/config.toml instead of your own file
    #[arg(long)]
    project: bool,
}

impl ConfigSetArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let key = parse_key(&self.key)?;
        let (path, owner) = target_file(&context.locations()?, self.project)?;
        if owner == SettingsOwner::Project && key.setting().scope == SettingScope::User {
            return Err(user_only_failure(key, &path.display().to_string())
                .hint(format!("agents config set {} VALUE", key.name())));
        }
        let value = match self.value.as_str() {
            "-" => parse(key, &read_value(std::io::stdin())?)?,
            text => parse(key, text)?,
        };
        file::set(&path, owner, key, &value)?;
        let answer = answer(key, &value, &path.display().to_string(), owner)?;
        Ok(match self.ignored_warning(key, &value, context) {
            Some(reason) => answer.with_message(MessageLevel::Warn, reason),
            None => answer,
        })
    }

    /// Returns a warning if the new value of the project will be ignored for this user.
    fn ignored_warning(
        &self,
        key: Key,
        value: &SettingValue,
        context: &CommandContext<'_>,
    ) -> Option<String> {
        let resolved = context.settings().ok().filter(|_| self.project)?.get(key);
        let mine = resolved
            .from_source(SettingSource::Global)
            .or(resolved.from_source(SettingSource::Default))?;
        resolve::ignored_reason(key, value, &mine.value)
    }
}

fn parse(key: Key, text: &str) -> Result<SettingValue, CommandFailure> {
    key.setting().kind.parse(text).map_err(|error| {
        CommandFailure::usage(format!("invalid value for `{}`", key.name()))
            .kind(FailureKind::SettingValue)
            .caused_by(&error)
            .hint(format!("agents config get {} --verbose", key.name()))
    })
}

/// Reads the value from standard input, without its line break.
fn read_value(input: impl Read) -> Result<String, CommandFailure> {
    let mut text = String::new();
    // One byte more than the longest value with `\r\n`, so that a longer value is noticed.
    let limit = VALUE_MAXIMUM as u64 + 3;
    input
        .take(limit)
        .read_to_string(&mut text)
        .map_err(|error| {
            CommandFailure::new(ExitCode::Usage, "cannot read the value from standard input")
                .caused_by(&error)
        })?;
    let line = text.strip_suffix('\n').unwrap_or(&text);
    Ok(line.strip_suffix('\r').unwrap_or(line).to_owned())
}

fn answer(
    key: Key,
    value: &SettingValue,
    path: &str,
    owner: SettingsOwner,
) -> Result<CommandAnswer, CommandFailure> {
    let shown = secrets::redacted_value(key.setting(), value);
    let source = match owner {
        SettingsOwner::User => SettingSource::Global,
        SettingsOwner::Project => SettingSource::Project,
    };
    let rows = [
        ("key", key.name().to_owned()),
        ("value", shown.to_string()),
        ("file", path.to_owned()),
    ];
    let data = SettingAnswer {
        key: key.name(),
        value: Some(shown),
        source: Some(source),
        origin: Some(path.to_owned()),
    };
    let answer = CommandAnswer::new(&data, OutputView::new().panel("Setting changed", rows))?;
    Ok(answer.with_message(MessageLevel::Info, format!("{} set", key.name())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_from_standard_input_lose_only_their_line_end() {
        assert_eq!(read_value(&b"a b \r\n"[..]).unwrap(), "a b ");
        assert_eq!(read_value(&b""[..]).unwrap(), "");
        let long = vec![b'x'; 1 << 20];
        let text = read_value(&long[..]).unwrap();
        assert!(parse(Key::OpenAiApiKey, &text).is_err());
        assert!(read_value(&b"\xff"[..]).is_err());
        let nul = read_value(&b"a\0b\n"[..]).unwrap();
        assert!(parse(Key::OpenAiApiKey, &nul).is_err());
    }
}
