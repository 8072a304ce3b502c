//! Finds the folders that programs on `PATH` need: their installations, without credentials.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::credentials::{has_token, is_secret_in_toolchain};

/// Names of program folders inside an installation.
const PROGRAM_FOLDERS: [&str; 3] = ["bin", "sbin", "shims"];

/// Folders that an installation has beside its programs. Anything else there, such as a project,
/// is not granted: a folder on `PATH` says nothing about its neighbours.
const PARTS: [&str; 37] = [
    "bin",
    "sbin",
    "shims",
    "lib",
    "lib32",
    "lib64",
    "libexec",
    "share",
    "include",
    "etc",
    "pkg",
    "pkgs",
    "versions",
    "installs",
    "plugins",
    "packages",
    "envs",
    "condabin",
    "toolchains",
    "registry",
    "install",
    "tools",
    "cache",
    "platform",
    "conf",
    "boot",
    "jmods",
    "jre",
    "legal",
    "release",
    "opt",
    "sysroot",
    "config.toml",
    "pyvenv.cfg",
    "settings.toml",
    "VERSION",
    "version",
];

/// Go's own installation, recognised by its `VERSION`, also needs its sources.
const GO_PARTS: [&str; 2] = ["src", "go.env"];

/// Folders with one installation per version, up to this depth.
const VERSIONS: [&str; 2] = ["versions", "installs"];
const VERSIONS_DEPTH: usize = 2;

/// Below a home. Shared by everything installed for one user, so it is granted in parts: programs and
/// libraries, and what `pipx` and `uv` install.
const LOCAL: &str = ".local";
const LOCAL_PARTS: [&str; 6] = ["bin", "lib", "lib64", "pipx", "share/pipx", "share/uv"];

/// A path with two components is directly below `/` and holds more than one installation.
const SHALLOW: usize = 2;

/// Folders that are never granted as a whole: homes, their parents, and our own data.
#[derive(Debug, Clone, Default)]
pub(super) struct WideFolders {
    pub(super) homes: Vec<PathBuf>,
    pub(super) data_directory: PathBuf,
}

impl WideFolders {
    fn covers(&self, path: &Path) -> bool {
        let mut closed = self.homes.iter().chain([&self.data_directory]);
        closed.any(|it| it.starts_with(path)) || path.starts_with(&self.data_directory)
    }

    fn is_home(&self, path: &Path) -> bool {
        self.homes.iter().any(|home| home == path)
    }
}

/// Returns the paths to make readable for these folders on `PATH`.
pub(super) fn readable_for_program_folders(
    folders: &[PathBuf],
    wide_folders: &WideFolders,
) -> Vec<PathBuf> {
    let mut known = BTreeSet::new();
    let found = folders
        .iter()
        .flat_map(|folder| readable_for_program_folder(folder, wide_folders, &mut known));
    found.collect()
}

/// Returns the paths to make readable for one folder on `PATH`. Several folders may belong to one
/// installation, which is examined once; `known` holds those already examined.
fn readable_for_program_folder(
    folder: &Path,
    wide_folders: &WideFolders,
    known: &mut BTreeSet<PathBuf>,
) -> Vec<PathBuf> {
    let Ok(real) = folder.canonicalize() else {
        return Vec::new();
    };
    if let Some(local) = real.parent().filter(|it| is_local(it, wide_folders)) {
        let parts = LOCAL_PARTS.iter().map(|part| local.join(part));
        return parts
            .filter(|part| part.exists())
            .chain([folder.to_owned()])
            .collect();
    }
    let is_programs = PROGRAM_FOLDERS
        .iter()
        .any(|name| real.file_name().is_some_and(|found| found == *name));
    let is_deep = |root: &&Path| root.components().count() > SHALLOW;
    let root = real.parent().filter(|_| is_programs).filter(is_deep);
    match root.filter(|root| !wide_folders.covers(root) && !is_project(root, wide_folders)) {
        Some(root) => {
            let mut found = if known.insert(root.to_owned()) {
                readable_for_installation(root, wide_folders)
            } else {
                Vec::new()
            };
            found.push(folder.to_owned());
            found
        }
        None if wide_folders.covers(&real) => Vec::new(),
        None => vec![folder.to_owned()],
    }
}

/// Returns the readable parts of an installation that is known only from a folder on `PATH`.
fn readable_for_installation(root: &Path, wide_folders: &WideFolders) -> Vec<PathBuf> {
    let is_go = root.join("VERSION").is_file() && root.join("pkg").is_dir();
    let go = GO_PARTS.iter().filter(|_| is_go);
    let names: Vec<&str> = PARTS.iter().chain(go).copied().collect();
    let found = readable_for_toolchain(root, wide_folders).into_iter();
    let found = found.flat_map(|path| {
        if path == root {
            names.iter().map(|name| root.join(name)).collect()
        } else {
            vec![path]
        }
    });
    let is_part = |path: &PathBuf| {
        let below = path.strip_prefix(root).unwrap_or(path);
        let first = below.components().next();
        first.is_some_and(|it| names.iter().any(|name| it.as_os_str() == *name))
    };
    found.filter(|path| path.exists()).filter(is_part).collect()
}

/// Returns the readable parts of a toolchain folder: all of it, or everything except credentials.
pub(super) fn readable_for_toolchain(folder: &Path, wide_folders: &WideFolders) -> Vec<PathBuf> {
    let Ok(real) = folder.canonicalize() else {
        return Vec::new();
    };
    if wide_folders.covers(&real) {
        return Vec::new();
    }
    if !keeps_credentials(&real) {
        return vec![folder.to_owned()];
    }
    let mut found = vec![];
    for entry in fs::read_dir(&real).into_iter().flatten().flatten() {
        let (name, path) = (entry.file_name(), entry.path());
        let name = name.as_bytes();
        let is_folder = path.is_dir();
        // Hidden files are the toolchain's own notes and are not granted.
        if is_folder && keeps_credentials(&path) {
            found.extend(readable_for_toolchain(&path, wide_folders));
        } else if !is_secret_in_toolchain(name)
            && (is_folder || !name.starts_with(b".") && !has_token(&path))
        {
            found.push(path);
        }
    }
    found
}

/// Returns the existing credentials of the installations of these program folders and of these
/// toolchains, including all versions they keep, even if they are inside another installation.
pub(super) fn find_secrets(programs: &[PathBuf], toolchains: &[PathBuf]) -> Vec<PathBuf> {
    let programs = programs.iter().filter_map(|folder| {
        let real = folder.canonicalize().ok()?;
        Some(real.parent()?.to_owned())
    });
    let toolchains = toolchains.iter().filter_map(|it| it.canonicalize().ok());
    let roots: BTreeSet<PathBuf> = programs.chain(toolchains).collect();
    roots
        .iter()
        .flat_map(|it| find_toolchain_secrets(it))
        .collect()
}

/// Returns the credentials of an installation and of all versions that a version manager keeps.
fn find_toolchain_secrets(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    add_secrets(root, 0, &mut found);
    for name in VERSIONS {
        add_secrets(&root.join(name), VERSIONS_DEPTH, &mut found);
    }
    found
}

/// Adds the credentials in this folder, in its `etc` and `conf`, and in folders up to `depth` levels
/// below it.
fn add_secrets(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let (name, path) = (entry.file_name(), entry.path());
        let is_looked_into = || depth > 0 || name == "etc" || name == "conf";
        if is_secret_in_toolchain(name.as_bytes()) || has_token(&path) {
            found.push(path);
        } else if is_looked_into() && is_folder(&entry) {
            add_secrets(&path, depth.saturating_sub(1), found);
        }
    }
}

/// Returns whether an entry is a folder or a link to one.
fn is_folder(entry: &fs::DirEntry) -> bool {
    entry.file_type().is_ok_and(|it| {
        if it.is_symlink() {
            entry.path().is_dir()
        } else {
            it.is_dir()
        }
    })
}

/// Returns whether a folder contains credentials, or belongs to a toolchain that puts them there.
fn keeps_credentials(folder: &Path) -> bool {
    let is_cargo = || folder.join("registry").is_dir() || folder.ends_with(".cargo");
    let entries = || fs::read_dir(folder).into_iter().flatten().flatten();
    let has_secret = || entries().any(|entry| is_secret_in_toolchain(entry.file_name().as_bytes()));
    is_cargo() || has_secret() || folder.join("etc/npmrc").exists()
}

fn is_local(folder: &Path, wide_folders: &WideFolders) -> bool {
    folder.ends_with(LOCAL)
        && folder
            .parent()
            .is_some_and(|home| wide_folders.is_home(home))
}

/// Returns whether a folder is in a project. Programs of a project are not an installation. Version
/// managers are repositories too, but have hidden names.
fn is_project(folder: &Path, wide_folders: &WideFolders) -> bool {
    let is_hidden = |folder: &Path| {
        let name = folder.file_name().unwrap_or_default();
        name.as_bytes().starts_with(b".")
    };
    // A home may be a repository of its dotfiles.
    let is_inside = |folder: &&Path| !is_hidden(folder) && !wide_folders.is_home(folder);
    let mut around = folder.ancestors().take_while(is_inside);
    around.any(|it| it.join(".git").exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make(root: &Path, files: &[&str]) {
        for name in files {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::File::create(path).unwrap();
        }
    }

    /// Below a home.
    const FILES: [&str; 28] = [
        ".pyenv/shims/python",
        ".pyenv/versions/3/lib/x",
        ".cargo/bin/cargo",
        ".cargo/registry/a",
        ".cargo/.package-cache",
        ".cargo/credentials.toml.bak",
        ".cargo/config.toml",
        "node/bin/node",
        "node/etc/npmrc",
        "node/lib/x",
        "bin/mine",
        "project/bin/run",
        "project/.git/HEAD",
        "project/.env",
        "project/deep/bin/run",
        "project/deep/lib/x",
        "work/bin/run",
        "work/private/notes",
        ".git/HEAD",
        "jdk/bin/java",
        "jdk/lib/x",
        "jdk/release",
        ".nvm/versions/node/v2/etc/npmrc",
        ".local/bin/tool",
        ".local/lib/python/x",
        ".local/share/keyrings/login",
        "other/.cargo/bin/cargo",
        "other/.cargo/registry/a",
    ];

    #[test]
    fn installations_are_readable_without_credentials() {
        let world = tempfile::tempdir().unwrap();
        let home = world.path().canonicalize().unwrap().join("home");
        make(&home, &FILES);
        let token = "[registries.ours]\ntoken = \"SECRET\"\n";
        crate::files::replace(&home.join("other/.cargo/config.toml"), token.as_bytes()).unwrap();
        let wide_folders = WideFolders {
            homes: vec![home.clone()],
            data_directory: home.join(".cleveragents"),
        };
        for (folder, expected) in [
            (".pyenv/shims", &[".pyenv/shims", ".pyenv/versions"][..]),
            (
                ".cargo/bin",
                &[".cargo/bin", ".cargo/config.toml", ".cargo/registry"],
            ),
            (
                "other/.cargo/bin",
                &["other/.cargo/bin", "other/.cargo/registry"],
            ),
            ("node/bin", &["node/bin", "node/lib"]),
            ("bin", &["bin"]),
            ("project/bin", &["project/bin"]),
            ("project/deep/bin", &["project/deep/bin"]),
            ("work/bin", &["work/bin"]),
            ("jdk/bin", &["jdk/bin", "jdk/lib", "jdk/release"]),
            (".local/bin", &[".local/bin", ".local/lib"]),
            ("absent", &[]),
            ("", &[]),
            ("..", &[]),
        ] {
            let mut found = readable_for_program_folders(&[home.join(folder)], &wide_folders);
            found.sort();
            found.dedup();
            let expected: Vec<PathBuf> = expected.iter().map(|name| home.join(name)).collect();
            assert_eq!(found, expected, "{folder}");
        }
        assert!(readable_for_toolchain(&home, &wide_folders).is_empty());
        let other_version = home.join(".nvm/versions/node/v2/etc/npmrc");
        assert_eq!(find_toolchain_secrets(&home.join(".nvm")), [other_version]);
    }
}
