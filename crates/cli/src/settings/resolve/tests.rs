use std::ffi::OsString;
use std::path::Path;
use std::time::Instant;

use cleveragents_domain::Timestamp;
use cleveragents_engine::secrets::mask;

use super::*;
use crate::environment::Terminal;
use crate::failure::FailureKind;
use crate::files::{Privacy, create_directory, replace};

fn environment(home: &Path, variables: &[(&str, &str)]) -> Environment {
    let mut all: BTreeMap<String, OsString> = variables
        .iter()
        .map(|(name, value)| ((*name).to_owned(), OsString::from(value)))
        .collect();
    all.insert("HOME".to_owned(), home.into());
    Environment {
        arguments: Vec::new(),
        executable: None,
        variables: all,
        working_directory: Some(home.join("project/deep")),
        stdin: Terminal::None,
        stdout: Terminal::None,
        stderr: Terminal::None,
        width: 100,
        started: Timestamp::default(),
        started_instant: Instant::now(),
    }
}

fn load(
    environment: &Environment,
    arguments: &GlobalArguments,
) -> Result<Settings, CommandFailure> {
    Settings::load(
        Locations::find(arguments, environment)?,
        arguments,
        environment,
    )
}

fn home_with(global: &str, project: &str) -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    for (folder, text) in [(".cleveragents", global), ("project/.agents", project)] {
        let folder = home.path().join(folder);
        create_directory(&folder, Privacy::Private).unwrap();
        let file = folder.join("config.toml");
        replace(&file, text.as_bytes(), Privacy::Private).unwrap();
    }
    create_directory(&home.path().join("project/deep"), Privacy::Private).unwrap();
    home
}

#[test]
fn each_source_wins_over_the_weaker_ones() {
    let home = home_with(
        "core.automation-profile = \"auto\"\n",
        "core.automation-profile = \"review\"\n",
    );
    let variable = ("CLEVERAGENTS_AUTOMATION_PROFILE", "ci");
    let environment = environment(home.path(), &[variable]);
    let arguments = GlobalArguments {
        set: vec!["core.automation-profile=manual".to_owned()],
        ..GlobalArguments::default()
    };
    let settings = load(&environment, &arguments).unwrap();
    let resolved = settings.get(Key::AutomationProfile);
    let chain: Vec<(SettingSource, String)> = resolved
        .candidates
        .iter()
        .map(|one| (one.source, one.value.to_string()))
        .collect();
    let expected = ["manual", "ci", "review", "auto", "supervised"].map(str::to_owned);
    assert_eq!(
        chain,
        SettingSource::ALL
            .into_iter()
            .zip(expected)
            .collect::<Vec<_>>()
    );
    assert_eq!(settings.automation_profile(), "manual");
}

#[test]
fn vendor_variables_count_below_ours() {
    let home = home_with("", "");
    let vendor = ("OPENAI_API_KEY", "vendor-secret");
    let ours = ("CLEVERAGENTS_PROVIDER_OPENAI_API_KEY", "our-secret\n");
    let arguments = GlobalArguments::default();
    let settings = load(&environment(home.path(), &[vendor]), &arguments).unwrap();
    let text = settings.text(Key::OpenAiApiKey);
    assert_eq!(text.as_deref(), Some("vendor-secret"));
    let settings = load(&environment(home.path(), &[vendor, ours]), &arguments).unwrap();
    assert_eq!(
        settings.text(Key::OpenAiApiKey).as_deref(),
        Some("our-secret")
    );
    assert_eq!(settings.get(Key::AnthropicApiKey).winner(), None);
}

#[test]
fn a_project_must_not_redirect_the_user() {
    let home = home_with("", "[core]\ndatabase-url = \"postgres://evil/x\"\n");
    let failure = load(&environment(home.path(), &[]), &GlobalArguments::default()).unwrap_err();
    assert_eq!(failure.kind, FailureKind::SettingScope);
    assert!(failure.message.contains("core.database-url"), "{failure}");
}

#[test]
fn a_project_may_tighten_and_never_loosen() {
    for (global, project, expected) in [
        ("", "manual", "manual"),
        ("", "supervised", "supervised"),
        ("", "cautious", "supervised"),
        ("", "full-auto", "supervised"),
        ("full-auto", "ci", "ci"),
        ("full-auto", "full-auto", "full-auto"),
        ("review", "manual", "manual"),
        ("review", "supervised", "review"),
        ("ci", "full-auto", "ci"),
    ] {
        let line = |value: &str| match value {
            "" => String::new(),
            value => format!("core.automation-profile = \"{value}\"\n"),
        };
        let home = home_with(&line(global), &line(project));
        let settings = load(&environment(home.path(), &[]), &GlobalArguments::default()).unwrap();
        assert_eq!(
            settings.automation_profile(),
            expected,
            "{global} {project}"
        );
        let mine = if global.is_empty() {
            "supervised"
        } else {
            global
        };
        assert_eq!(settings.user_automation_profile(), mine);
        let asked = settings.repository_automation_profile();
        assert_eq!(asked.is_some(), expected == project, "{global} {project}");
        let resolved = settings.get(Key::AutomationProfile);
        let candidate = resolved.from_source(SettingSource::Project).unwrap();
        assert_eq!(candidate.value.to_string(), project);
        let ignored = candidate.ignored.as_deref().unwrap_or_default();
        assert_eq!(
            ignored.is_empty(),
            expected == project,
            "{global} {project}"
        );
        if expected != project {
            let warning = &settings.warnings[0];
            for word in [project, expected, "project/.agents/config.toml"] {
                assert!(warning.contains(word), "{warning}");
            }
        } else {
            assert!(settings.warnings.is_empty(), "{:?}", settings.warnings);
        }
    }
}

#[test]
fn the_environment_may_loosen_a_project_setting() {
    let home = home_with("", "core.automation-profile = \"manual\"\n");
    let variable = ("CLEVERAGENTS_AUTOMATION_PROFILE", "full-auto");
    let environment = environment(home.path(), &[variable]);
    let settings = load(&environment, &GlobalArguments::default()).unwrap();
    assert_eq!(settings.automation_profile(), "full-auto");
    assert_eq!(settings.repository_automation_profile(), None);
    assert!(settings.warnings.is_empty(), "{:?}", settings.warnings);
}

#[test]
fn passwords_in_the_file_are_learnt() {
    let url = "postgresql://me:pa/ss@db/x?password=sec#ret";
    let home = home_with(&format!("core.database-url = \"{url}\"\n"), "");
    let settings = load(&environment(home.path(), &[]), &GlobalArguments::default()).unwrap();
    let mut redactor = Redactor::default();
    settings.register_secrets(&mut redactor);
    let mask = mask(Key::DatabaseUrl.name());
    assert_eq!(
        redactor.redact(url),
        format!("postgresql://me:{mask}@db/x?password={mask}")
    );
    assert_eq!(settings.text(Key::DatabaseUrl).as_deref(), Some(url));
}

#[test]
fn secrets_of_every_source_are_learnt() {
    let home = home_with("provider.openai.api-key = \"file-secret\"\n", "");
    let vendor = ("OPENAI_API_KEY", "vendor-secret");
    let settings = load(
        &environment(home.path(), &[vendor]),
        &GlobalArguments::default(),
    )
    .unwrap();
    let mut redactor = Redactor::default();
    settings.register_secrets(&mut redactor);
    let mask = mask(Key::OpenAiApiKey.name());
    assert_eq!(
        redactor.redact("file-secret vendor-secret"),
        format!("{mask} {mask}")
    );
}

#[test]
fn wrong_flags_and_variables_are_refused_by_name() {
    let home = home_with("", "");
    let plain = environment(home.path(), &[]);
    for (pair, why) in [
        ("plan.concurrency", "no `=`"),
        ("plan.concurency=1", "plan.concurrency"),
        ("plan.concurrency=0", "from 1 to 64"),
    ] {
        let arguments = GlobalArguments {
            set: vec![pair.to_owned()],
            ..GlobalArguments::default()
        };
        let failure = load(&plain, &arguments).unwrap_err();
        assert!(failure.to_string().contains(why), "{failure}");
    }
    let wrong = ("CLEVERAGENTS_PLAN_CONCURRENCY", "many");
    let failure = load(
        &environment(home.path(), &[wrong]),
        &GlobalArguments::default(),
    )
    .unwrap_err();
    assert!(failure.message.contains(wrong.0), "{failure}");
}

#[test]
fn typed_getters_follow_the_settings() {
    let home = home_with(
        "[retention]\noperations-days = 2\nblob-grace-hours = 3\n[plan]\nconcurrency = 5\n",
        "",
    );
    let unknown = ("CLEVERAGENTS_PLAN_CONCURENCY", "1");
    let environment = environment(home.path(), &[unknown]);
    let settings = load(&environment, &GlobalArguments::default()).unwrap();
    assert_eq!(settings.plan_concurrency(), 5);
    assert_eq!(settings.operations_retention().as_secs(), 2 * 86_400);
    assert_eq!(settings.blob_grace().as_secs(), 3 * 3_600);
    assert_eq!(settings.chosen_format(), None);
    let file = home.path().join(".cleveragents/cleveragents.db");
    assert_eq!(settings.database(), DatabaseSetting::InDataDirectory(file));
    assert!(settings.warnings[0].contains("did you mean CLEVERAGENTS_PLAN_CONCURRENCY"));
}
