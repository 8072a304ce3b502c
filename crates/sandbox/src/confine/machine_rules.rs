//! Decides what a command may read and write on this machine.
//!
//! This is an allow list: system folders, the sandbox, toolchains, and paths from the settings.
//! Homes, other users, mounted disks and our own data are not on it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::{fs, io};

use cleveragents_ports::processes::{ConfinedCommand, TreeAccess};

use super::alternates::read_alternates;
use super::install_roots::{
    WideFolders, find_secrets, readable_for_program_folders, readable_for_toolchain,
};
use super::level::RequestedConfinement;
use super::policy::{AccessRules, PathAccess};
use super::{credentials, system_paths};

/// Settings for commands on this machine, provided at startup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessSettings {
    /// Our own executable, which becomes the supervisor.
    pub program: PathBuf,
    /// The bubblewrap program, if installed.
    pub bubblewrap: Option<PathBuf>,
    pub confinement: RequestedConfinement,
    /// Hidden, except for the sandbox that a command runs in.
    pub data_directory: PathBuf,
    /// The user's home, of which commands see only toolchains.
    pub home: Option<PathBuf>,
    /// Files with keys at any path, such as the settings file.
    pub secret_files: Vec<PathBuf>,
    /// Toolchain folders, readable except for their credentials.
    pub toolchains: Vec<PathBuf>,
    /// Additional paths that commands may read.
    pub readable: Vec<PathBuf>,
    /// Additional paths that commands may write.
    pub writable: Vec<PathBuf>,
    /// The complete environment of a command, except for `HOME` and `TMPDIR`.
    pub variables: Vec<(OsString, OsString)>,
}

/// Returns the rules for one command on this machine.
pub(super) fn command_rules(settings: &ProcessSettings, command: &ConfinedCommand) -> AccessRules {
    let mut rules = machine_rules(settings);
    let store = command.tree.with_file_name("git");
    for objects in read_alternates(&store.join("objects")) {
        rules.add(&objects, PathAccess::Readable);
    }
    rules.add(&store, PathAccess::Readable);
    let access = match command.access {
        TreeAccess::ReadOnly => PathAccess::Readable,
        TreeAccess::Writable => PathAccess::Writable,
    };
    rules.add(&command.tree, access);
    rules.add(&command.scratch, PathAccess::Writable);
    rules
}

/// Returns the paths that every command can see, without the system folders.
pub fn visible_paths(settings: &ProcessSettings) -> Vec<PathBuf> {
    let rules = machine_rules(settings);
    let is_system = |path: &Path| {
        let mut folders = system_paths::READABLE.iter();
        let mut files = system_paths::READABLE_FILES.iter();
        folders.any(|it| path.starts_with(it)) || files.any(|it| path.starts_with(it))
    };
    let open = rules
        .iter()
        .filter(|(path, access)| *access >= PathAccess::Readable && !is_system(path));
    let mut found: Vec<PathBuf> = Vec::new();
    for (path, _) in open {
        if !found.iter().any(|around| path.starts_with(around)) {
            found.push(path.to_owned());
        }
    }
    found
}

/// Returns the rules that are the same for every command.
fn machine_rules(settings: &ProcessSettings) -> AccessRules {
    let mut rules = AccessRules::default();
    for path in system_paths::SHARED {
        rules.add(Path::new(path), PathAccess::Private);
    }
    let system = system_paths::READABLE.iter();
    for path in system.chain(&system_paths::READABLE_FILES) {
        rules.add(Path::new(path), PathAccess::Readable);
    }
    let homes = list_homes(settings.home.as_deref());
    let programs = program_folders(settings);
    for path in readable_toolchains(settings, &programs, &homes) {
        rules.add(&path, PathAccess::Readable);
    }
    for path in &settings.readable {
        rules.add(path, PathAccess::Readable);
    }
    hide_credentials(&mut rules, &homes);
    let secrets = find_secrets(&programs, &settings.toolchains);
    secrets.iter().for_each(|path| rules.hide(path));
    // Whatever the settings say, other sandboxes and the database stay hidden.
    let data = &settings.data_directory;
    for path in settings.writable.iter().filter(|it| !it.starts_with(data)) {
        rules.add(path, PathAccess::Writable);
    }
    settings
        .secret_files
        .iter()
        .for_each(|path| rules.hide(path));
    rules.add(data, PathAccess::Hidden);
    rules
}

/// Hides credentials in a home that a setting made readable.
fn hide_credentials(rules: &mut AccessRules, homes: &[PathBuf]) {
    // A few folders contain all credentials, so the access of each folder is computed once.
    let mut open: BTreeMap<PathBuf, bool> = BTreeMap::new();
    for home in homes {
        let names = names_in(home);
        for path in credentials::in_home(home) {
            let Some(folder) = path.parent() else {
                continue;
            };
            if !may_exist(folder, home, &names) {
                continue;
            }
            if !open.contains_key(folder) {
                let real = folder.canonicalize();
                let is_open = real.is_ok_and(|real| rules.access_to(&real) >= PathAccess::Readable);
                open.insert(folder.to_owned(), is_open);
            }
            if open.get(folder) == Some(&true) {
                rules.hide(&path);
            }
        }
    }
}

/// Returns the names in a home. A home that cannot be listed may still contain accessible files.
fn names_in(home: &Path) -> Result<BTreeSet<OsString>, io::ErrorKind> {
    let entries = fs::read_dir(home).map_err(|error| error.kind())?;
    Ok(entries.flatten().map(|entry| entry.file_name()).collect())
}

/// Returns whether a folder of a home can exist, judged by the names in the home. Saves lookups: most
/// homes belong to services and have none of the folders that contain credentials.
fn may_exist(
    folder: &Path,
    home: &Path,
    names: &Result<BTreeSet<OsString>, io::ErrorKind>,
) -> bool {
    let below = folder.strip_prefix(home).ok();
    match (names, below.and_then(|it| it.components().next())) {
        (Err(io::ErrorKind::NotFound), _) => false,
        (Err(_), _) | (Ok(_), None) => true,
        (Ok(names), Some(first)) => names.contains(first.as_os_str()),
    }
}

fn readable_toolchains(
    settings: &ProcessSettings,
    programs: &[PathBuf],
    homes: &[PathBuf],
) -> Vec<PathBuf> {
    let too_wide = WideFolders {
        homes: homes.to_vec(),
        data_directory: canonical_or_same(&settings.data_directory),
    };
    let programs = readable_for_program_folders(programs, &too_wide);
    let named = settings.toolchains.iter();
    let named = named.flat_map(|folder| readable_for_toolchain(folder, &too_wide));
    programs.into_iter().chain(named).collect()
}

/// Returns the folders on `PATH`, without those of the system.
fn program_folders(settings: &ProcessSettings) -> Vec<PathBuf> {
    let search_path = settings.variables.iter().find(|(name, _)| name == "PATH");
    let search_path = search_path.map(|(_, folders)| folders.as_os_str());
    let is_system = |folder: &Path| {
        let mut system = system_paths::READABLE.iter();
        system.any(|it| folder.starts_with(it))
    };
    std::env::split_paths(search_path.unwrap_or_default())
        .filter(|folder| folder.is_absolute() && !is_system(folder))
        .collect()
}

/// Returns the user's home, from the environment and from the system, and the homes of other users.
fn list_homes(home: Option<&Path>) -> Vec<PathBuf> {
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let listed = users.lines().filter_map(|line| line.split(':').nth(5));
    // Users of a directory service are not in `/etc/passwd`, but their homes are in `/home`.
    let entries = fs::read_dir("/home").into_iter().flatten().flatten();
    let present: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    // Services have a system folder as their home, or none.
    let listed = listed
        .map(PathBuf::from)
        .filter(|home| home.parent().is_some_and(is_home_parent) || home == Path::new("/root"));
    let listed = listed.chain(present);
    let mut homes: Vec<PathBuf> = listed.chain(home.map(Path::to_owned)).collect();
    homes.extend(homes.clone().iter().map(|home| canonical_or_same(home)));
    homes.sort_unstable();
    homes.dedup();
    homes
}

fn is_home_parent(folder: &Path) -> bool {
    let system = system_paths::READABLE.iter();
    folder != Path::new("/") && !system.into_iter().any(|it| folder.starts_with(it))
}

fn canonical_or_same(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}
