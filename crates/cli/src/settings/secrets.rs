//! Which values of settings are secret, and when the redactor learns them: those of command line
//! and environment before anything is read or rejected, those of files when they are loaded.

use cleveragents_engine::secrets::{Redactor, mask};

use super::registry::{Key, SETTINGS, Setting};
use super::value::{SettingValue, ValueKind};
use crate::environment::Environment;

/// Registers what is secret in the value of a setting, even if the value is invalid.
pub fn learn(redactor: &mut Redactor, key: Key, text: &str) {
    match key.setting().kind {
        ValueKind::Secret => redactor.learn(key.name(), text),
        ValueKind::Url => redactor.learn_url(key.name(), text),
        _ => {}
    }
}

/// Registers the secrets that this process was started with, wherever they were typed: `config set
/// KEY VALUE`, `--set KEY=VALUE` and variables.
pub fn learn_from_process(redactor: &mut Redactor, environment: &Environment) {
    for setting in &SETTINGS {
        let ours = setting.variable();
        for name in [Some(ours.as_str()), setting.vendor_variable] {
            let value = name.and_then(|name| environment.variable(name));
            if let Some(text) = value.and_then(|value| value.to_str()) {
                learn(redactor, setting.key, text.trim());
            }
        }
    }
    let named = |name: &str| SETTINGS.iter().find(|setting| setting.name == name);
    let (mut word, mut set) = (String::new(), None::<&Setting>);
    for argument in &environment.arguments {
        let argument = argument.to_string_lossy();
        let typed = argument.strip_prefix("--set=").unwrap_or(&argument);
        if let Some((name, text)) = typed.split_once('=')
            && let Some(setting) = named(name)
        {
            learn(redactor, setting.key, text);
        }
        if argument.starts_with('-') {
            continue;
        }
        if let Some(setting) = set.take() {
            learn(redactor, setting.key, &argument);
        }
        if word == "set" {
            set = named(&argument);
        }
        word = argument.into_owned();
    }
}

/// Returns the value with secrets masked.
pub fn redacted_value(setting: &Setting, value: &SettingValue) -> SettingValue {
    match (setting.kind, value) {
        (ValueKind::Secret, _) => SettingValue::Text(mask(setting.name)),
        (ValueKind::Url, SettingValue::Text(url)) => {
            let mut redactor = Redactor::default();
            redactor.learn_url(setting.name, url);
            SettingValue::Text(redactor.redact(url))
        }
        _ => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_learnt_from_wherever_they_were_typed() {
        let url = |password: &str| format!("postgresql://me:{password}@db/x");
        let typed = [
            format!("config set core.database-url {}", url("o/ne")),
            format!("config set core.database-url --project {}", url("o/ne")),
            format!("info --set core.database-url={}", url("o/ne")),
            format!("--set=core.database-url={} info", url("o/ne")),
        ];
        for arguments in typed {
            let mut environment = Environment::from_process();
            environment.variables.clear();
            environment.arguments = arguments.split(' ').map(Into::into).collect();
            let mut redactor = Redactor::default();
            learn_from_process(&mut redactor, &environment);
            let masked = url("«secret:core.database-url»");
            assert_eq!(redactor.redact(&url("o/ne")), masked, "{arguments}");
        }
        let mut environment = Environment::from_process();
        environment.arguments.clear();
        environment.variables = [
            ("CLEVERAGENTS_DATABASE_URL", url("t#wo").as_str()),
            ("CLEVERAGENTS_PROVIDER_OPENAI_API_KEY", "three-three"),
        ]
        .map(|(name, value)| (name.to_owned(), value.into()))
        .into();
        let mut redactor = Redactor::default();
        learn_from_process(&mut redactor, &environment);
        assert_eq!(
            redactor.redact(&format!("{} three-three", url("t#wo"))),
            format!(
                "{} «secret:provider.openai.api-key»",
                url("«secret:core.database-url»")
            )
        );
    }

    #[test]
    fn a_value_is_shown_without_its_password() {
        let setting = Key::DatabaseUrl.setting();
        let value = SettingValue::Text("postgresql://u:a/b@h/d?password=c".to_owned());
        assert_eq!(
            redacted_value(setting, &value).to_string(),
            "postgresql://u:«secret:core.database-url»@h/d?password=«secret:core.database-url»"
        );
    }
}
