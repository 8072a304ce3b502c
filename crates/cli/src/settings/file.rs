//! `config.toml`: reading that reports the line of every error, and editing that keeps comments and
//! order and loses no concurrent edit (law 10: lock, read, write beside, fsync, rename).

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use toml_edit::{Document, Item, Table, TableLike};

use super::registry::{Key, SETTINGS, SettingScope};
use super::value::SettingValue;
use crate::failure::{CommandFailure, ExitCode, FailureKind, excerpt};
use crate::files::{self, FileLock, Privacy};

/// The size limit for a settings file, in bytes.
const FILE_MAXIMUM: u64 = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingsOwner {
    /// The user: private permissions, may be a symbolic link, may hold any setting.
    User,
    /// A repository: untrusted content.
    Project,
}

/// Reads the settings of a file; a missing file has none.
pub fn load(
    path: &Path,
    owner: SettingsOwner,
) -> Result<BTreeMap<Key, SettingValue>, CommandFailure> {
    let Some(text) = read(path)? else {
        return Ok(BTreeMap::new());
    };
    let document = parse(path, &text)?;
    let mut reader = SettingsReader {
        path,
        text: &text,
        owner,
        values: BTreeMap::new(),
    };
    reader.read_table(document.as_table(), "")?;
    Ok(reader.values)
}

/// Creates the user's file. Never changes an existing one. Returns whether it was created.
pub fn create(path: &Path, text: &str) -> Result<bool, CommandFailure> {
    if read(path)?.is_some() {
        return Ok(false);
    }
    // Of several processes, the first to take the lock finds the file empty and writes it.
    edit(path, SettingsOwner::User, |document| match document.raw() {
        "" => Ok((true, text.to_owned())),
        other => Ok((false, other.to_owned())),
    })
}

/// Sets a value; creates the file and its directory if missing.
pub fn set(
    path: &Path,
    owner: SettingsOwner,
    key: Key,
    value: &SettingValue,
) -> Result<(), CommandFailure> {
    edit(path, owner, |document| {
        let mut document = document.into_mut();
        match insert(document.as_table_mut(), key.name(), value) {
            Some(()) => Ok(((), document.to_string())),
            None => {
                let what = format!("cannot set `{}` in {}", key.name(), path.display());
                Err(CommandFailure::usage(what)
                    .because("a part of its name is already used there for something else")
                    .hint(format!("edit {}", path.display())))
            }
        }
    })
}

/// Removes a setting by name, including unknown names. Returns whether it was set.
pub fn unset(path: &Path, owner: SettingsOwner, name: &str) -> Result<bool, CommandFailure> {
    if read(path)?.is_none() {
        return Ok(false);
    }
    edit(path, owner, |document| {
        if let Some(text) = remove_lines(&document, name) {
            return Ok((true, text));
        }
        let mut document = document.into_mut();
        let removed = remove(document.as_table_mut(), name);
        Ok((removed, document.to_string()))
    })
}

fn read(path: &Path) -> Result<Option<String>, CommandFailure> {
    let metadata = match path.metadata() {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable_failure(path).caused_by(&error)),
    };
    if !metadata.is_file() {
        return Err(not_regular_failure(path));
    }
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(FILE_MAXIMUM + 1).read_to_end(&mut bytes))
        .map_err(|error| unreadable_failure(path).caused_by(&error))?;
    if bytes.len() as u64 > FILE_MAXIMUM {
        return Err(
            unreadable_failure(path).because(format!("it is larger than {FILE_MAXIMUM} bytes"))
        );
    }
    String::from_utf8(bytes)
        .map(Some)
        .map_err(|error| unreadable_failure(path).because(format!("it is not text: {error}")))
}

fn not_regular_failure(path: &Path) -> CommandFailure {
    unreadable_failure(path).because("it is not a regular file")
}

fn unreadable_failure(path: &Path) -> CommandFailure {
    CommandFailure::usage(format!("cannot read the settings in {}", path.display()))
        .kind(FailureKind::SettingsFile)
        .hint("agents --config-path FILE …")
}

fn parse<'a>(path: &Path, text: &'a str) -> Result<Document<&'a str>, CommandFailure> {
    Document::parse(text).map_err(|error| {
        let offset = error.span().map_or(0, |span| span.start);
        let (line, column) = line_and_column(text, offset);
        let place = format!("{}:{line}:{column}", path.display());
        CommandFailure::usage(format!("{place}: this is not TOML"))
            .kind(FailureKind::SettingsSyntax)
            .because(error.message().trim().replace('\n', "; "))
            .hint(format!("edit line {line} of {}", path.display()))
    })
}

/// Walks a parsed file and checks every name and value.
struct SettingsReader<'a> {
    path: &'a Path,
    text: &'a str,
    owner: SettingsOwner,
    values: BTreeMap<Key, SettingValue>,
}

impl SettingsReader<'_> {
    fn read_table(&mut self, table: &dyn TableLike, prefix: &str) -> Result<(), CommandFailure> {
        for (name, item) in table.iter() {
            let span = table.key(name).and_then(toml_edit::Key::span);
            let span = span.or_else(|| item.span());
            let line = line_and_column(self.text, span.map_or(0, |span| span.start)).0;
            let shown = if name.contains('.') {
                format!("{prefix}\"{name}\"")
            } else {
                format!("{prefix}{name}")
            };
            match item.as_table_like() {
                Some(section) if is_section(&shown) => {
                    self.read_table(section, &format!("{shown}."))?;
                }
                _ => self.read_setting(&shown, item, line)?,
            }
        }
        Ok(())
    }

    fn read_setting(&mut self, name: &str, item: &Item, line: usize) -> Result<(), CommandFailure> {
        let place = format!("{}:{line}", self.path.display());
        let flag = match self.owner {
            SettingsOwner::User => "",
            SettingsOwner::Project => " --project",
        };
        let key = Key::from_name(name).map_err(|error| {
            let failure = CommandFailure::usage(format!("{place}: {error}"))
                .kind(FailureKind::UnknownSetting);
            if name.len() < 100 {
                failure.hint(format!("agents config unset{flag} '{name}'"))
            } else {
                failure.hint(format!("edit line {line} of {}", self.path.display()))
            }
        })?;
        if self.owner == SettingsOwner::Project && key.setting().scope == SettingScope::User {
            return Err(user_only_failure(key, &place)
                .hint(format!("agents config unset --project {name}"))
                .hint(format!("agents config set {name} VALUE")));
        }
        let value = key.setting().kind.parse_toml(item).map_err(|error| {
            CommandFailure::usage(format!("{place}: invalid value for `{name}`"))
                .kind(FailureKind::SettingValue)
                .caused_by(&error)
                .hint(format!("agents config set{flag} {name} VALUE"))
        })?;
        self.values.insert(key, value);
        Ok(())
    }
}

/// Returns the failure for a project that sets something only the user may set.
pub fn user_only_failure(key: Key, place: &str) -> CommandFailure {
    CommandFailure::usage(format!("{place}: a project may not set `{}`", key.name()))
        .kind(FailureKind::SettingScope)
        .because("only your own settings may set it, not a repository")
}

/// Returns whether a setting's name starts with `name` and a dot.
fn is_section(name: &str) -> bool {
    SETTINGS.iter().any(|setting| {
        setting
            .name
            .strip_prefix(name)
            .is_some_and(|rest| rest.starts_with('.'))
    })
}

fn line_and_column(text: &str, offset: usize) -> (usize, usize) {
    let before = &text.as_bytes()[..offset.min(text.len())];
    let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
    let start = before.iter().rposition(|byte| *byte == b'\n');
    let column = String::from_utf8_lossy(&before[start.map_or(0, |start| start + 1)..]);
    (line, column.chars().count() + 1)
}

/// Reads, changes and replaces a file under its lock.
fn edit<T>(
    path: &Path,
    owner: SettingsOwner,
    change: impl FnOnce(Document<&str>) -> Result<(T, String), CommandFailure>,
) -> Result<T, CommandFailure> {
    let failed = |error: &io::Error| {
        let exit = match error.kind() {
            io::ErrorKind::WouldBlock => ExitCode::Temporary,
            _ => ExitCode::Error,
        };
        CommandFailure::new(exit, format!("cannot write {}", path.display()))
            .kind(FailureKind::SettingsFile)
            .caused_by(error)
            .hint("agents --config-path FILE config set KEY VALUE")
    };
    let privacy = match owner {
        SettingsOwner::User => Privacy::Private,
        SettingsOwner::Project => Privacy::Shared,
    };
    let target = write_target(path, owner)?;
    if target.metadata().is_ok_and(|metadata| !metadata.is_file()) {
        return Err(not_regular_failure(path));
    }
    let directory = target.parent().unwrap_or(Path::new("."));
    files::create_directory(directory, privacy).map_err(|error| failed(&error))?;
    let _lock = lock(&target, directory, owner).map_err(|error| failed(&error))?;
    // Read under the lock, so that no concurrent edit is lost (law 10).
    let text = read(&target)?.unwrap_or_default();
    let (result, changed) = change(parse(path, &text)?)?;
    if changed != text {
        files::replace(&target, changed.as_bytes(), privacy).map_err(|error| failed(&error))?;
    }
    Ok(result)
}

/// Resolves symbolic links in the user's path; those of a project are refused.
fn write_target(path: &Path, owner: SettingsOwner) -> Result<PathBuf, CommandFailure> {
    let is_link = path
        .symlink_metadata()
        .is_ok_and(|metadata| metadata.is_symlink());
    match (is_link, owner) {
        (false, _) => Ok(path.to_owned()),
        (true, SettingsOwner::User) => path
            .canonicalize()
            .map_err(|error| unreadable_failure(path).caused_by(&error)),
        (true, SettingsOwner::Project) => Err(CommandFailure::usage(format!(
            "{} is a link; project settings are only written to regular files",
            excerpt(&path.display().to_string())
        ))),
    }
}

/// Locks a file beside the user's settings. In a repository it locks the directory itself, because
/// a lock file would show up as a change.
fn lock(target: &Path, directory: &Path, owner: SettingsOwner) -> io::Result<FileLock> {
    match owner {
        SettingsOwner::Project => FileLock::of_directory(directory),
        SettingsOwner::User => {
            let mut name = target.file_name().unwrap_or_default().to_owned();
            name.push(".lock");
            FileLock::of_file(&target.with_file_name(name))
        }
    }
}

/// Returns `None` if a component of the name is not a table.
fn insert(table: &mut dyn TableLike, name: &str, value: &SettingValue) -> Option<()> {
    if let Some((section, rest)) = name.split_once('.') {
        let mut missing = Table::new();
        missing.set_implicit(true);
        let item = table.entry(section).or_insert(Item::Table(missing));
        return insert(item.as_table_like_mut()?, rest, value);
    }
    let mut value = value.to_toml();
    match table.get_mut(name) {
        Some(Item::Value(old)) => {
            *value.decor_mut() = old.decor().clone();
            *old = value;
        }
        Some(Item::None) | None => {
            table.insert(name, Item::Value(value));
        }
        Some(_) => return None,
    }
    Some(())
}

/// Returns the text without the lines of a setting that has its own lines. Removing it from the
/// parsed document would also remove the comments above it.
fn remove_lines(document: &Document<&str>, name: &str) -> Option<String> {
    let text = document.raw();
    let mut table: &dyn TableLike = document.as_table();
    let mut rest = name;
    while let Some((section, further)) = rest.split_once('.') {
        table = table.get(section)?.as_table_like()?;
        rest = further;
    }
    let (key, item) = table.get_key_value(rest)?;
    let (key, value) = (key.span()?, item.as_value()?.span()?);
    let start = text[..key.start]
        .rfind('\n')
        .map_or(0, |newline| newline + 1);
    let end = text[value.end..]
        .find('\n')
        .map_or(text.len(), |newline| value.end + newline + 1);
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ' ' | '\t');
    let after = text[value.end..end].trim();
    let alone =
        text[start..key.start].chars().all(is_name) && (after.is_empty() || after.starts_with('#'));
    alone.then(|| [&text[..start], &text[end..]].concat())
}

fn remove(root: &mut dyn TableLike, name: &str) -> bool {
    let mut table = root;
    let mut rest = name;
    loop {
        let quoted = rest.strip_prefix('"').and_then(|end| end.strip_suffix('"'));
        if let Some(literal) = quoted {
            return table.remove(literal).is_some();
        }
        let Some((section, further)) = rest.split_once('.') else {
            break;
        };
        match table.get_mut(section).and_then(Item::as_table_like_mut) {
            Some(next) => (table, rest) = (next, further),
            None => return false,
        }
    }
    !is_section(name) && table.remove(rest).is_some()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn folder_with(text: &str) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.toml");
        files::replace(&path, text.as_bytes(), Privacy::Private).unwrap();
        (folder, path)
    }

    fn value(key: Key, text: &str) -> SettingValue {
        key.setting().kind.parse(text).unwrap()
    }

    #[test]
    fn an_edit_keeps_comments_and_order() {
        let (_folder, path) = folder_with(
            "# mine\n[plan] # plans\n# how many\nconcurrency = 2 # few\n\n[core]\nformat = 'json'\n# end\n",
        );
        set(
            &path,
            SettingsOwner::User,
            Key::PlanConcurrency,
            &value(Key::PlanConcurrency, "8"),
        )
        .unwrap();
        set(
            &path,
            SettingsOwner::User,
            Key::OpenAiBaseUrl,
            &value(Key::OpenAiBaseUrl, "http://localhost:1/v1"),
        )
        .unwrap();
        assert_eq!(
            std::fs::read_to_string(&path).unwrap(),
            "# mine\n[plan] # plans\n# how many\nconcurrency = 8 # few\n\n[core]\nformat = 'json'\n\
             \n[provider.openai]\nbase-url = \"http://localhost:1/v1\"\n# end\n"
        );
    }

    #[test]
    fn removing_keeps_comments_and_neighbours() {
        let (_folder, path) = folder_with(
            "# head\n\n# about\nold = [\n  1,\n] # gone\n[plan]\n# how many\nconcurrency = 2\n# end",
        );
        assert!(unset(&path, SettingsOwner::User, "old").unwrap());
        assert!(unset(&path, SettingsOwner::User, "plan.concurrency").unwrap());
        assert_eq!(
            std::fs::read_to_string(&path).unwrap(),
            "# head\n\n# about\n[plan]\n# how many\n# end"
        );
    }

    #[test]
    fn every_way_to_write_a_name_is_understood_and_edited() {
        for text in [
            "[core]\nlog-level = \"info\"\n",
            "core.log-level = \"info\"\n",
            "core = { log-level = \"info\" }\n",
        ] {
            let (_folder, path) = folder_with(text);
            let read = load(&path, SettingsOwner::User).unwrap();
            assert_eq!(read[&Key::LogLevel], value(Key::LogLevel, "info"));
            set(
                &path,
                SettingsOwner::User,
                Key::LogLevel,
                &value(Key::LogLevel, "debug"),
            )
            .unwrap();
            assert_eq!(
                std::fs::read_to_string(&path).unwrap(),
                text.replace("info", "debug")
            );
            assert!(unset(&path, SettingsOwner::User, "core.log-level").unwrap());
            assert!(load(&path, SettingsOwner::User).unwrap().is_empty());
        }
    }

    #[test]
    fn every_mistake_is_refused_with_its_place() {
        for (text, place, why) in [
            ("\n\n[core\n", ":3:6", "TOML"),
            ("[core]\nfromat = \"json\"\n", ":2:", "core.format"),
            ("[colour]\n", ":1:", "`colour` is not a setting"),
            ("\"core.format\" = \"json\"\n", ":1:", "not a setting"),
            ("[plan]\nconcurrency = \"4\"\n", ":2:", "from 1 to 64"),
            ("[plan]\nconcurrency = 65\n", ":2:", "from 1 to 64"),
            ("[[plan]]\n", ":1:", "not a setting"),
            ("[core.format]\n", ":1:", "invalid value"),
            ("core = 1\n", ":1:", "not a setting"),
        ] {
            let (_folder, path) = folder_with(text);
            let failure = load(&path, SettingsOwner::User).unwrap_err();
            assert_eq!(failure.exit, ExitCode::Usage);
            let shown = failure.to_string();
            assert!(shown.contains(place), "{text:?}: {shown}");
            assert!(shown.contains(why), "{text:?}: {shown}");
        }
    }

    #[test]
    fn a_malformed_file_is_not_touched() {
        let (folder, path) = folder_with("[core\n");
        let level = value(Key::LogLevel, "debug");
        assert!(set(&path, SettingsOwner::User, Key::LogLevel, &level).is_err());
        assert!(unset(&path, SettingsOwner::User, "core.format").is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "[core\n");
        drop(folder);
    }

    #[test]
    fn projects_set_only_what_they_may() {
        let (_folder, path) = folder_with("[core]\nautomation-profile = \"ci\"\n");
        assert_eq!(load(&path, SettingsOwner::Project).unwrap().len(), 1);
        let (_folder, path) = folder_with("[provider.openai]\nbase-url = \"http://evil\"\n");
        let shown = load(&path, SettingsOwner::Project).unwrap_err().to_string();
        assert!(
            shown.contains("may not set `provider.openai.base-url`"),
            "{shown}"
        );
    }

    #[test]
    fn links_are_followed_for_the_user_and_refused_for_projects() {
        let (folder, path) = folder_with("");
        let link = folder.path().join("link.toml");
        symlink(&path, &link).unwrap();
        let level = value(Key::LogLevel, "debug");
        set(&link, SettingsOwner::User, Key::LogLevel, &level).unwrap();
        assert!(link.symlink_metadata().unwrap().is_symlink());
        assert_eq!(
            load(&path, SettingsOwner::User).unwrap()[&Key::LogLevel],
            level
        );
        assert!(set(&link, SettingsOwner::Project, Key::LogLevel, &level).is_err());
    }

    #[test]
    fn new_files_are_private() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/config.toml");
        let level = value(Key::LogLevel, "debug");
        set(&path, SettingsOwner::User, Key::LogLevel, &level).unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(path.parent().unwrap()), 0o700);
    }

    #[test]
    fn unknown_names_can_be_removed_and_sections_cannot() {
        let (_folder, path) = folder_with("old = 1\n\"a.b\" = 2\n[core]\nformat = 'json'\n");
        assert!(unset(&path, SettingsOwner::User, "old").unwrap());
        assert!(unset(&path, SettingsOwner::User, "\"a.b\"").unwrap());
        assert!(!unset(&path, SettingsOwner::User, "core").unwrap());
        assert!(!unset(&path, SettingsOwner::User, "plan.concurrency").unwrap());
        assert_eq!(load(&path, SettingsOwner::User).unwrap().len(), 1);
    }
}
