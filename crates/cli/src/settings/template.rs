//! The settings file that `agents init` writes: every setting explained, none set.

use super::registry::{Preset, SETTINGS, Setting};
use super::value::ValueKind;

/// Renders only sections and comments, so that the defaults of later versions apply.
pub fn render() -> String {
    let mut text = String::from(
        "# Settings of agents. Remove the `#` of a line to change that setting;\n\
         # `agents config list` shows all values and their sources,\n\
         # `agents config set KEY VALUE` changes this file and keeps its comments.\n",
    );
    let mut section = "";
    for setting in &SETTINGS {
        let (group, name) = setting.name.rsplit_once('.').unwrap_or(("", setting.name));
        text.push('\n');
        if group != section {
            // A real header, so that a setting added later goes into its section.
            text.push_str(&format!("[{group}]\n"));
            section = group;
        }
        text.push_str(&format!("# {}\n", explanation(setting)));
        text.push_str(&format!("# {name} = {}\n", example(setting)));
    }
    text
}

fn explanation(setting: &Setting) -> String {
    match setting.kind {
        ValueKind::Integer(..) | ValueKind::Choice(_) | ValueKind::Choices(_) => {
            format!("{}: {}.", setting.description, setting.kind.expected())
        }
        _ => format!("{}.", setting.description),
    }
}

fn example(setting: &Setting) -> String {
    match (setting.preset, setting.kind) {
        (Preset::Text(text), ValueKind::Integer(..) | ValueKind::Boolean) => text.to_owned(),
        (Preset::Text(text), ValueKind::Choices(_)) => {
            let words: Vec<String> = text.split(',').map(|word| format!("\"{word}\"")).collect();
            format!("[{}]", words.join(", "))
        }
        (Preset::Text(text), _) => format!("\"{text}\""),
        (Preset::DatabaseInDataDirectory, _) => "\"postgresql://USER@HOST/DATABASE\"".to_owned(),
        (Preset::Nothing, ValueKind::Url) => "\"http://HOST:PORT/v1\"".to_owned(),
        (Preset::Nothing, ValueKind::Paths) => "[\"~/…\"]".to_owned(),
        (Preset::Nothing, ValueKind::Names) => "[\"NAME\"]".to_owned(),
        (Preset::Nothing, _) => "\"…\"".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::{Privacy, replace};
    use crate::settings::Key;
    use crate::settings::file::{self, SettingsOwner};

    #[test]
    fn the_template_is_comments_and_each_is_valid() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.toml");
        assert!(file::create(&path, &render()).unwrap());
        assert!(file::load(&path, SettingsOwner::User).unwrap().is_empty());
        assert!(!file::create(&path, "[plan]\n").unwrap());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), render());

        let lines = render();
        let set = lines.lines().map(|line| {
            if line.contains(" = ") {
                line.trim_start_matches("# ")
            } else {
                line
            }
        });
        let set: Vec<&str> = set.collect();
        replace(&path, set.join("\n").as_bytes(), Privacy::Private).unwrap();
        assert_eq!(
            file::load(&path, SettingsOwner::User).unwrap().len(),
            SETTINGS.len()
        );
    }

    #[test]
    fn a_setting_set_later_goes_into_its_section() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.toml");
        file::create(&path, &render()).unwrap();
        let value = Key::PlanConcurrency.setting().kind.parse("8").unwrap();
        file::set(&path, SettingsOwner::User, Key::PlanConcurrency, &value).unwrap();
        let changed = std::fs::read_to_string(&path).unwrap();
        assert!(
            changed.contains("[plan]\nconcurrency = 8\n# How"),
            "{changed}"
        );
    }
}
