//! Precedence of sources: flag, environment, project, user's file, default. A project is not
//! trusted: its value counts only if it is no more permissive than the one it would replace.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cleveragents_domain::checkpoint::CheckpointTrigger;
use cleveragents_domain::process::{Confinement, Network};
use cleveragents_engine::secrets::Redactor;
use cleveragents_ports::limits::Limit;
use serde::Serialize;

use super::file::{self, SettingsOwner};
use super::locations::Locations;
use super::registry::{Key, Preset, SETTINGS, Setting, SettingScope};
use super::secrets;
use super::value::{SettingValue, ValueKind};
use crate::arguments::{Format, GlobalArguments};
use crate::environment::Environment;
use crate::failure::{CommandFailure, FailureKind, excerpt};

/// The source of a value, highest precedence first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SettingSource {
    Flag,
    Environment,
    Project,
    Global,
    Default,
}

impl SettingSource {
    pub const ALL: [Self; 5] = [
        Self::Flag,
        Self::Environment,
        Self::Project,
        Self::Global,
        Self::Default,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Flag => "flag",
            Self::Environment => "environment",
            Self::Project => "project",
            Self::Global => "global",
            Self::Default => "default",
        }
    }
}

/// A value from one source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingCandidate {
    pub source: SettingSource,
    /// The flag, variable or file.
    pub origin: Option<String>,
    pub value: SettingValue,
    /// Set if the value is ignored, because a project asked for more than the user allows.
    pub ignored: Option<String>,
}

/// A setting with the values of all sources, highest precedence first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedSetting {
    pub key: Key,
    pub candidates: Vec<SettingCandidate>,
}

impl ResolvedSetting {
    /// Returns the effective value; `None` if the setting is unset and has no default.
    pub fn winner(&self) -> Option<&SettingCandidate> {
        self.candidates.iter().find(|one| one.ignored.is_none())
    }

    pub fn from_source(&self, source: SettingSource) -> Option<&SettingCandidate> {
        self.candidates.iter().find(|one| one.source == source)
    }

    /// Returns the value with secrets masked.
    pub fn redacted_value(&self, candidate: &SettingCandidate) -> SettingValue {
        secrets::redacted_value(self.key.setting(), &candidate.value)
    }

    /// Ignores a project's value that is more permissive than the one it would replace; returns a
    /// warning.
    fn ignore_looser_value(&mut self) -> Option<String> {
        let place = self
            .candidates
            .iter()
            .position(|one| one.source == SettingSource::Project)?;
        let mine = self.candidates[place + 1..].first()?.value.clone();
        let project = &mut self.candidates[place];
        let reason = ignored_reason(self.key, &project.value, &mine)?;
        project.ignored = Some(reason.clone());
        let origin = project.origin.as_deref().unwrap_or("the project");
        Some(format!("{origin}: {reason}"))
    }
}

/// Returns why a project's value is ignored, if it is more permissive than the user's own.
pub fn ignored_reason(key: Key, project: &SettingValue, mine: &SettingValue) -> Option<String> {
    let setting = key.setting();
    let (SettingScope::Project, ValueKind::Choice(names)) = (setting.scope, setting.kind) else {
        return None;
    };
    let place = |value: &SettingValue| names.iter().position(|name| *name == value.to_string());
    (place(project) > place(mine)).then(|| {
        format!(
            "`{project}` for {} is ignored: a project may not be less strict than your `{mine}`",
            setting.name
        )
    })
}

#[derive(Debug, Clone)]
pub struct Settings {
    pub locations: Locations,
    /// In the order of [`SETTINGS`].
    pub all: Vec<ResolvedSetting>,
    /// Possible mistakes that are not errors.
    pub warnings: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DatabaseSetting {
    /// The SQLite file in the data directory; its path may be any bytes.
    InDataDirectory(PathBuf),
    Url(String),
}

impl Settings {
    /// Reads every source and checks every value.
    pub fn load(
        locations: Locations,
        arguments: &GlobalArguments,
        environment: &Environment,
    ) -> Result<Self, CommandFailure> {
        let flags = parse_flags(arguments)?;
        let project = match &locations.project_file {
            Some(path) => file::load(path, SettingsOwner::Project)?,
            None => BTreeMap::new(),
        };
        let global = file::load(&locations.config_file, SettingsOwner::User)?;
        let project_origin = locations.project_file.as_deref().map(display_path);
        let global_origin = Some(display_path(&locations.config_file));
        let mut all = Vec::with_capacity(SETTINGS.len());
        for setting in &SETTINGS {
            let candidate = |source, origin: &Option<String>, value: Option<&SettingValue>| {
                value.map(|value| SettingCandidate {
                    source,
                    origin: origin.clone(),
                    value: value.clone(),
                    ignored: None,
                })
            };
            let flag = flags.get(&setting.key);
            let candidates = [
                flag.map(|(origin, value)| SettingCandidate {
                    source: SettingSource::Flag,
                    origin: Some((*origin).to_owned()),
                    value: value.clone(),
                    ignored: None,
                }),
                from_environment(setting, environment)?,
                candidate(
                    SettingSource::Project,
                    &project_origin,
                    project.get(&setting.key),
                ),
                candidate(
                    SettingSource::Global,
                    &global_origin,
                    global.get(&setting.key),
                ),
                default_candidate(setting, &locations),
            ];
            all.push(ResolvedSetting {
                key: setting.key,
                candidates: candidates.into_iter().flatten().collect(),
            });
        }
        let mut warnings = unknown_variables(environment);
        warnings.extend(
            all.iter_mut()
                .filter_map(ResolvedSetting::ignore_looser_value),
        );
        Ok(Self {
            locations,
            all,
            warnings,
        })
    }

    pub fn get(&self, key: Key) -> &ResolvedSetting {
        &self.all[key as usize]
    }

    /// Returns the chosen format; `None` if it is left to the terminal.
    pub fn chosen_format(&self) -> Option<Format> {
        let winner = self.get(Key::Format).winner()?;
        match winner.source {
            SettingSource::Default => None,
            _ => Format::from_name(&winner.value.to_string()),
        }
    }

    pub fn log_level(&self) -> String {
        self.text(Key::LogLevel).unwrap_or_default()
    }

    pub fn automation_profile(&self) -> String {
        self.text(Key::AutomationProfile).unwrap_or_default()
    }

    /// Returns the user's profile, ignoring the settings of the repository.
    pub fn user_automation_profile(&self) -> String {
        let candidates = &self.get(Key::AutomationProfile).candidates;
        let of_user = candidates
            .iter()
            .find(|it| it.source != SettingSource::Project);
        of_user.map(|it| it.value.to_string()).unwrap_or_default()
    }

    /// Returns the profile that the repository's settings ask for. `None` if it is ignored or the
    /// user overrides it with a flag or variable. It can only tighten the user's profile, element
    /// by element.
    pub fn repository_automation_profile(&self) -> Option<String> {
        let winner = self.get(Key::AutomationProfile).winner()?;
        (winner.source == SettingSource::Project).then(|| winner.value.to_string())
    }

    pub fn database(&self) -> DatabaseSetting {
        match self.get(Key::DatabaseUrl).winner() {
            Some(winner) if winner.source != SettingSource::Default => {
                DatabaseSetting::Url(winner.value.to_string())
            }
            _ => DatabaseSetting::InDataDirectory(database_file(&self.locations)),
        }
    }

    /// Returns how many plans may run in parallel.
    pub fn plan_concurrency(&self) -> usize {
        usize::try_from(self.integer(Key::PlanConcurrency)).unwrap_or(1)
    }

    /// Returns the tokens of an answer that are reserved before each model call of a plan.
    pub fn reserved_answer_tokens(&self) -> u64 {
        self.integer(Key::ModelReservedAnswerTokens)
    }

    /// Returns whether commands of plans may use the network.
    pub fn sandbox_network(&self) -> Network {
        let text = self.text(Key::SandboxNetwork);
        text.and_then(|text| text.parse().ok()).unwrap_or_default()
    }

    /// Returns the required level of confinement; `None` for the best available.
    pub fn sandbox_confinement(&self) -> Option<Confinement> {
        self.text(Key::SandboxConfinement)?.parse().ok()
    }

    /// Returns the paths that commands may write besides their sandbox.
    pub fn sandbox_writable_paths(&self, home: Option<&Path>) -> Vec<PathBuf> {
        self.paths(Key::SandboxWritablePaths, home)
    }

    /// Returns the paths that commands may read besides the system, toolchains and their sandbox.
    pub fn sandbox_readable_paths(&self, home: Option<&Path>) -> Vec<PathBuf> {
        self.paths(Key::SandboxReadablePaths, home)
    }

    fn paths(&self, key: Key, home: Option<&Path>) -> Vec<PathBuf> {
        let items = self.list(key);
        let path = |item: &String| match item.strip_prefix("~/") {
            Some(rest) => home.map(|home| home.join(rest)),
            None => Some(PathBuf::from(item)),
        };
        items.iter().filter_map(path).collect()
    }

    /// Returns the git filters (such as `lfs`) whose files plans may change, in the form in which
    /// git stores them.
    pub fn sandbox_allow_filters(&self) -> Vec<String> {
        self.list(Key::SandboxAllowFilters).to_vec()
    }

    /// Returns a limit for commands or captures, in bytes or as a count.
    pub fn sandbox_limit(&self, limit: Limit) -> u64 {
        let mebibytes = |key| self.integer(key).saturating_mul(1 << 20);
        match limit {
            Limit::Memory => mebibytes(Key::SandboxMemory),
            Limit::Processes => self.integer(Key::SandboxProcesses),
            Limit::FileSize => mebibytes(Key::SandboxFileSize),
            Limit::Disk => mebibytes(Key::SandboxDisk),
            Limit::CapturedFiles => self.integer(Key::SandboxCapturedFiles),
            Limit::CapturedSize => mebibytes(Key::SandboxCapturedSize),
        }
    }

    /// Returns when checkpoints of sandboxes are taken automatically.
    pub fn checkpoint_triggers(&self) -> Vec<CheckpointTrigger> {
        let words = self.list(Key::SandboxCheckpoints).iter();
        words.filter_map(|word| word.parse().ok()).collect()
    }

    fn list(&self, key: Key) -> &[String] {
        match self.get(key).winner().map(|winner| &winner.value) {
            Some(SettingValue::List(items)) => items,
            _ => &[],
        }
    }

    /// Returns how long results of operations are kept.
    pub fn operations_retention(&self) -> Duration {
        Duration::from_secs(
            self.integer(Key::OperationsDays)
                .saturating_mul(24 * 60 * 60),
        )
    }

    /// Returns how long an unused blob is kept.
    pub fn blob_grace(&self) -> Duration {
        Duration::from_secs(self.integer(Key::BlobGraceHours).saturating_mul(60 * 60))
    }

    /// Returns the text of a setting with secrets in clear. Must not be used for output.
    pub fn text(&self, key: Key) -> Option<String> {
        self.get(key)
            .winner()
            .map(|winner| winner.value.to_string())
    }

    fn integer(&self, key: Key) -> u64 {
        match self.get(key).winner().map(|winner| &winner.value) {
            Some(SettingValue::Integer(number)) => u64::try_from(*number).unwrap_or(0),
            _ => 0,
        }
    }

    /// Registers the secrets of every source with the redactor, including values that did not win.
    pub fn register_secrets(&self, redactor: &mut Redactor) {
        for resolved in &self.all {
            for candidate in &resolved.candidates {
                secrets::learn(redactor, resolved.key, &candidate.value.to_string());
            }
        }
    }
}

/// Returns the format from flags or environment, for when settings files are not read or
/// unreadable.
pub fn format_without_files(
    arguments: &GlobalArguments,
    environment: &Environment,
) -> Result<Option<Format>, CommandFailure> {
    if let Some((_, value)) = parse_flags(arguments)?.get(&Key::Format) {
        return Ok(Format::from_name(&value.to_string()));
    }
    let variable = from_environment(Key::Format.setting(), environment)?;
    Ok(variable.and_then(|one| Format::from_name(&one.value.to_string())))
}

fn display_path(path: impl AsRef<std::path::Path>) -> String {
    path.as_ref().display().to_string()
}

type Flags = BTreeMap<Key, (&'static str, SettingValue)>;

/// Parses the settings on the command line. The last value for a key wins, and `--format` wins over
/// `--set`.
fn parse_flags(arguments: &GlobalArguments) -> Result<Flags, CommandFailure> {
    let mut flags = Flags::new();
    for pair in &arguments.set {
        let (name, text) = pair.split_once('=').ok_or_else(|| {
            CommandFailure::usage(format!("`--set {}` has no `=`", excerpt(pair)))
                .because("it is written --set KEY=VALUE")
                .hint("agents config list")
        })?;
        let key = Key::from_name(name).map_err(|error| {
            CommandFailure::usage(format!("--set: {error}"))
                .kind(FailureKind::UnknownSetting)
                .hint("agents config list")
        })?;
        let value = key.setting().kind.parse(text).map_err(|error| {
            CommandFailure::usage(format!("--set: invalid value for `{name}`"))
                .kind(FailureKind::SettingValue)
                .caused_by(&error)
                .hint(format!("agents config get {name} --verbose"))
        })?;
        flags.insert(key, ("--set", value));
    }
    if let Some(format) = arguments.format {
        let value = SettingValue::Text(format.name().to_owned());
        flags.insert(Key::Format, ("--format", value));
    }
    Ok(flags)
}

fn from_environment(
    setting: &Setting,
    environment: &Environment,
) -> Result<Option<SettingCandidate>, CommandFailure> {
    let ours = setting.variable();
    let names = [Some(ours.as_str()), setting.vendor_variable];
    for name in names.into_iter().flatten() {
        let Some(value) = environment.variable(name) else {
            continue;
        };
        let failed = || {
            CommandFailure::usage(format!("invalid value in the environment variable {name}"))
                .kind(FailureKind::SettingValue)
        };
        let text = value.to_str().ok_or_else(|| {
            failed()
                .because("it is not UTF-8")
                .hint(format!("unset {name}"))
        })?;
        // A key pasted into a variable often ends in a newline.
        let value = setting
            .kind
            .parse(text.trim())
            .map_err(|error| failed().caused_by(&error).hint(format!("unset {name}")))?;
        return Ok(Some(SettingCandidate {
            source: SettingSource::Environment,
            origin: Some(name.to_owned()),
            value,
            ignored: None,
        }));
    }
    Ok(None)
}

fn default_candidate(setting: &Setting, locations: &Locations) -> Option<SettingCandidate> {
    let value = match setting.preset {
        Preset::Nothing => return None,
        // Presets are always valid; a test of the table checks that.
        Preset::Text(text) => setting.kind.parse(text).ok()?,
        Preset::DatabaseInDataDirectory => {
            SettingValue::Text(format!("sqlite:{}", database_file(locations).display()))
        }
    };
    Some(SettingCandidate {
        source: SettingSource::Default,
        origin: None,
        value,
        ignored: None,
    })
}

fn database_file(locations: &Locations) -> PathBuf {
    locations.data_directory.join("cleveragents.db")
}

/// Warns about unknown variables with our prefix. Not an error, because a newer version may know
/// them.
fn unknown_variables(environment: &Environment) -> Vec<String> {
    const PREFIX: &str = "CLEVERAGENTS_";
    const OTHERS: [&str; 2] = ["CLEVERAGENTS_DATA_DIR", "CLEVERAGENTS_CONFIG_PATH"];
    let known: Vec<String> = SETTINGS.iter().map(Setting::variable).collect();
    let is_known = |name: &str| OTHERS.contains(&name) || known.iter().any(|one| one == name);
    let own = |name: &str| name.strip_prefix(PREFIX).unwrap_or(name).to_owned();
    let likeness = |name: &str, one: &str| strsim::jaro_winkler(&own(name), &own(one));
    environment
        .variables
        .keys()
        .filter(|name| name.starts_with(PREFIX) && !is_known(name))
        .map(|name| {
            let nearest = known
                .iter()
                .max_by(|one, other| likeness(name, one).total_cmp(&likeness(name, other)));
            match nearest.filter(|nearest| likeness(name, nearest) > 0.85) {
                Some(nearest) => {
                    format!("unknown variable {name}; did you mean {nearest}?")
                }
                None => format!("unknown variable {name}"),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests;
