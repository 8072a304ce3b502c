//! What on a machine a command may see and change.
//!
//! A list of what is open: the system's folders, the sandbox, toolchains, and what the settings
//! name. Homes, other users, mounted disks and our own data are on no list.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::{fs, io};

use cleveragents_engine::ports::processes::{ConfinedCommand, TreeAccess};

use super::alternates::read_alternates;
use super::install_roots::{
    WideFolders, find_secrets, readable_for_program_folders, readable_for_toolchain,
};
use super::level::RequestedConfinement;
use super::policy::{AccessRules, PathAccess};
use super::{credentials, system_paths};

/// What the machine is like for commands; wiring gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessSettings {
    /// Our own executable, which becomes the supervisor.
    pub program: PathBuf,
    /// The bubblewrap program, if there is one.
    pub bubblewrap: Option<PathBuf>,
    pub confinement: RequestedConfinement,
    /// Unreadable but for the sandbox that a command runs in.
    pub data_directory: PathBuf,
    /// The user's home, of which commands see toolchains only.
    pub home: Option<PathBuf>,
    /// Files with keys that may lie anywhere, such as the settings.
    pub secret_files: Vec<PathBuf>,
    /// Folders of toolchains, readable without the credentials in them.
    pub toolchains: Vec<PathBuf>,
    /// What a command may read beside all that.
    pub readable: Vec<PathBuf>,
    /// What a command may write beside its sandbox.
    pub writable: Vec<PathBuf>,
    /// The whole environment of a command but for `HOME` and `TMPDIR`.
    pub variables: Vec<(OsString, OsString)>,
}

/// The rules for one command on this machine.
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

/// What commands of every sandbox see of this machine, the system's folders apart.
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

/// The rules that are the same for every command.
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
    // Whatever somebody configured, other sandboxes and the database stay closed.
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
    // Few folders hold all of them, so each is looked up once.
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

/// The names in a home. A home that cannot be listed may still be entered by who knows a name.
fn names_in(home: &Path) -> Result<BTreeSet<OsString>, io::ErrorKind> {
    let entries = fs::read_dir(home).map_err(|error| error.kind())?;
    Ok(entries.flatten().map(|entry| entry.file_name()).collect())
}

/// Whether a folder of a home can be there, by the names in the home: most homes are those of
/// services and have none of the folders that credentials are in, which saves looking for each.
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

/// Folders on `PATH`, those of the system apart.
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

/// The user's home as the environment and as the system has it, and those of everybody else.
fn list_homes(home: Option<&Path>) -> Vec<PathBuf> {
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let listed = users.lines().filter_map(|line| line.split(':').nth(5));
    // Users of a directory service are not on the list, but their homes are where homes are.
    let entries = fs::read_dir("/home").into_iter().flatten().flatten();
    let present: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    // Services have a folder of the system as their home, or none.
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
