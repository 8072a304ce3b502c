//! Which source wins: flag, environment, project, user's file, preset. A project is not trusted:
//! its value counts only if it is no freer than what would hold in its place.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cleveragents_domain::checkpoint::CheckpointTrigger;
use cleveragents_domain::process::{Confinement, Network};
use cleveragents_engine::ports::limits::Limit;

use super::file::{self, SettingsOwner};
use super::locations::Locations;
use super::registry::{Key, Preset, SETTINGS, Setting, SettingScope};
use super::secrets;
use super::value::{SettingValue, ValueKind};
use crate::arguments::{Format, GlobalArguments};
use crate::environment::Environment;
use crate::failure::{CommandFailure, excerpt};
use crate::redact::Redactor;

/// Where a value comes from, the strongest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
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

/// A value some source gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingCandidate {
    pub source: SettingSource,
    /// The flag, variable or file.
    pub origin: Option<String>,
    pub value: SettingValue,
    /// Why it does not count: a project asked for more than its user allows.
    pub ignored: Option<String>,
}

/// A setting and every source that gives it a value, the strongest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedSetting {
    pub key: Key,
    pub candidates: Vec<SettingCandidate>,
}

impl ResolvedSetting {
    /// The value that holds; none for a setting nobody set that has no default.
    pub fn winner(&self) -> Option<&SettingCandidate> {
        self.candidates.iter().find(|one| one.ignored.is_none())
    }

    pub fn from_source(&self, source: SettingSource) -> Option<&SettingCandidate> {
        self.candidates.iter().find(|one| one.source == source)
    }

    /// What people and programs may see of a value.
    pub fn redacted_value(&self, candidate: &SettingCandidate) -> SettingValue {
        secrets::redacted_value(self.key.setting(), &candidate.value)
    }

    /// Ignores a project's value that is freer than what would hold in its place, and says so.
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

/// Why a project's value does not count beside the user's own, if it is freer.
pub fn ignored_reason(key: Key, project: &SettingValue, mine: &SettingValue) -> Option<String> {
    let setting = key.setting();
    let (SettingScope::Project, ValueKind::Choice(names)) = (setting.scope, setting.kind) else {
        return None;
    };
    let place = |value: &SettingValue| names.iter().position(|name| *name == value.to_string());
    (place(project) > place(mine)).then(|| {
        format!(
            "`{project}` for {} is ignored: a project may not be freer than your `{mine}`",
            setting.name
        )
    })
}

/// All settings of this run.
#[derive(Debug, Clone)]
pub struct Settings {
    pub locations: Locations,
    /// In the order of [`SETTINGS`].
    pub all: Vec<ResolvedSetting>,
    /// What looks like a mistake but is not one for certain.
    pub warnings: Vec<String>,
}

/// Where the database is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DatabaseSetting {
    /// The SQLite file in the data directory, whatever bytes its path has.
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

    /// The format someone chose; the default is left to the terminal.
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

    /// The profile that the user chose, whatever a repository's settings ask for.
    pub fn user_automation_profile(&self) -> String {
        let candidates = &self.get(Key::AutomationProfile).candidates;
        let of_user = candidates
            .iter()
            .find(|it| it.source != SettingSource::Project);
        of_user.map(|it| it.value.to_string()).unwrap_or_default()
    }

    /// The profile that the repository's settings ask for, unless it is ignored or the user said
    /// otherwise by a flag or a variable. It can only tighten, element by element.
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

    /// How many plans run at once.
    pub fn plan_concurrency(&self) -> usize {
        usize::try_from(self.integer(Key::PlanConcurrency)).unwrap_or(1)
    }

    /// Whether commands of plans may use the network.
    pub fn sandbox_network(&self) -> Network {
        let text = self.text(Key::SandboxNetwork);
        text.and_then(|text| text.parse().ok()).unwrap_or_default()
    }

    /// The level of confinement that commands must have; none for the best that works.
    pub fn sandbox_confinement(&self) -> Option<Confinement> {
        self.text(Key::SandboxConfinement)?.parse().ok()
    }

    /// What commands may write beside their sandbox.
    pub fn sandbox_writable_paths(&self, home: Option<&Path>) -> Vec<PathBuf> {
        self.paths(Key::SandboxWritablePaths, home)
    }

    /// What commands may read beside the system, toolchains and their sandbox.
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

    /// The filters of git whose files plans may change, as git stores them.
    pub fn sandbox_allow_filters(&self) -> Vec<String> {
        self.list(Key::SandboxAllowFilters).to_vec()
    }

    /// How much of something a command may use or a capture may record: bytes, or a number.
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

    /// When states of sandboxes are kept by themselves.
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

    /// How long results of operations are kept.
    pub fn operations_retention(&self) -> Duration {
        Duration::from_secs(
            self.integer(Key::OperationsDays)
                .saturating_mul(24 * 60 * 60),
        )
    }

    /// How long an unused blob is kept.
    pub fn blob_grace(&self) -> Duration {
        Duration::from_secs(self.integer(Key::BlobGraceHours).saturating_mul(60 * 60))
    }

    /// The text of a setting, secrets in clear: for those who use it, never for output.
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

    /// Tells the redactor every secret of every source, also those that did not win.
    pub fn register_secrets(&self, redactor: &mut Redactor) {
        for resolved in &self.all {
            for candidate in &resolved.candidates {
                secrets::learn(redactor, resolved.key, &candidate.value.to_string());
            }
        }
    }
}

/// The format of the flags or the environment, for when files are not read or not readable.
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

/// What was set on the command line; the last of equals wins, and `--format` over `--set`.
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
                .kind("unknown_setting")
                .hint("agents config list")
        })?;
        let value = key.setting().kind.parse(text).map_err(|error| {
            CommandFailure::usage(format!("--set: `{name}` has a wrong value"))
                .kind("setting_value")
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
            CommandFailure::usage(format!("the environment variable {name} has a wrong value"))
                .kind("setting_value")
        };
        let text = value.to_str().ok_or_else(|| {
            failed()
                .because("it is not UTF-8")
                .hint(format!("unset {name}"))
        })?;
        // A key copied into a variable often brings its newline along.
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
        // The table's own test keeps every preset legal.
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

/// Variables that begin like ours and mean nothing. A newer version may know them, so they are
/// no error.
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
                    format!("the variable {name} means nothing; did you mean {nearest}?")
                }
                None => format!("the variable {name} means nothing to this version"),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests;
