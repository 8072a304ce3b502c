//! The programs that the tests need, and their installation on Debian.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::{environment, output, process};

/// The oldest PostgreSQL that the product supports.
const OLDEST_MAJOR: u32 = 15;

/// Debian's folder of server programs, one subfolder per major version.
const DEBIAN_SERVERS: &str = "/usr/lib/postgresql";

/// Plain programs and the Debian packages they come in.
const NEEDS: [(&str, &str); 6] = [
    ("git", "git"),
    ("strace", "strace"),
    ("openssl", "openssl"),
    ("setpriv", "util-linux"),
    ("python3", "python3"),
    ("bwrap", "bubblewrap"),
];

const POSTGRES_PACKAGE: &str = "postgresql";

/// Debian packages Python's support for virtual environments separately.
const VENV_PACKAGE: &str = "python3-venv";

/// Run as root. The drop-in keeps Debian from creating and starting a cluster; it exists only
/// during the installation.
const INSTALL: &str = r#"set -e
export DEBIAN_FRONTEND=noninteractive
drop_in=/etc/postgresql-common/createcluster.d/cleveragents-tests.conf
mkdir -p "${drop_in%/*}"
trap 'rm -f "$drop_in"' EXIT
echo 'create_main_cluster = false' >"$drop_in"
apt-get update -q
apt-get install -y -q --no-install-recommends "$@""#;

/// Locations of programs that are not on the search path.
#[derive(Debug)]
pub struct Programs {
    /// The folder of `initdb`, `postgres`, `pg_ctl` and `createdb`.
    pub postgres: PathBuf,
}

/// Finds what the tests need and installs what is missing. Fails if something cannot be installed.
pub fn ensure() -> Result<Programs> {
    let missing = missing_packages();
    if !missing.is_empty() {
        install(&missing)?;
        let still = missing_packages();
        if !still.is_empty() {
            bail!(
                "{}",
                advice(
                    &still,
                    "apt-get installed them, yet they are not to be found"
                )
            );
        }
    }
    let postgres = find_postgres().with_context(|| advice(&[POSTGRES_PACKAGE], "none found"))?;
    Ok(Programs { postgres })
}

fn missing_packages() -> Vec<&'static str> {
    let has_program = |name: &str| environment::find_program(name).is_some();
    let others = [
        (find_postgres().is_some(), POSTGRES_PACKAGE),
        (can_make_environments(), VENV_PACKAGE),
    ];
    missing(has_program, &others)
}

fn can_make_environments() -> bool {
    let mut python = process::command("python3");
    process::capture(python.args(["-c", "import ensurepip, venv"])).is_ok()
}

fn missing(
    has_program: impl Fn(&str) -> bool,
    others: &[(bool, &'static str)],
) -> Vec<&'static str> {
    let mut packages: Vec<&str> = NEEDS
        .iter()
        .filter(|(program, _)| !has_program(program))
        .map(|(_, package)| *package)
        .collect();
    let absent = others.iter().filter(|(is_there, _)| !is_there);
    packages.extend(absent.map(|(_, package)| *package));
    packages
}

fn install(packages: &[&str]) -> Result<()> {
    if environment::find_program("apt-get").is_none() {
        bail!(
            "{}",
            advice(packages, "this machine has no apt-get to install them with")
        );
    }
    output::heading(&format!("installing {}", packages.join(" ")));
    let mut command = if environment::is_root() {
        process::command("sh")
    } else if environment::find_program("sudo").is_some() {
        let mut sudo = process::command("sudo");
        sudo.args(["-n", "sh"]);
        sudo
    } else {
        bail!(
            "{}",
            advice(packages, "this user is not root and there is no sudo")
        );
    };
    let status = command.args(["-c", INSTALL, "sh"]).args(packages).status();
    match status.context("cannot start the installation")? {
        status if status.success() => Ok(()),
        status => bail!(
            "{}",
            advice(packages, &format!("apt-get failed ({status})"))
        ),
    }
}

fn advice(packages: &[&str], why: &str) -> String {
    let packages = packages.join(" ");
    format!(
        "the tests need the Debian packages: {packages} (PostgreSQL {OLDEST_MAJOR} or newer); {why}. \
         Install them as root (`apt-get install --no-install-recommends {packages}`) and run this again; \
         nothing is skipped without them"
    )
}

/// The newest server that Debian installed, else one on the search path.
fn find_postgres() -> Option<PathBuf> {
    newest_server(Path::new(DEBIAN_SERVERS)).or_else(|| {
        let folder = environment::find_program("initdb")?;
        let folder = folder.canonicalize().ok()?.parent()?.to_path_buf();
        (is_server(&folder) && major_version(&folder)? >= OLDEST_MAJOR).then_some(folder)
    })
}

fn newest_server(root: &Path) -> Option<PathBuf> {
    std::fs::read_dir(root)
        .ok()?
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let major: u32 = entry.file_name().to_str()?.parse().ok()?;
            let folder = entry.path().join("bin");
            (major >= OLDEST_MAJOR && is_server(&folder)).then_some((major, folder))
        })
        .max()
        .map(|(_, folder)| folder)
}

fn is_server(folder: &Path) -> bool {
    ["initdb", "postgres", "pg_ctl", "createdb"]
        .iter()
        .all(|program| environment::is_executable(&folder.join(program)))
}

fn major_version(folder: &Path) -> Option<u32> {
    let text = process::capture(process::command(folder.join("postgres")).arg("--version")).ok()?;
    let version = text.split_whitespace().nth(2)?;
    version.split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files;

    #[test]
    fn only_what_is_missing_is_installed() {
        assert_eq!(missing(|_| true, &[(true, "postgresql")]), [""; 0]);
        let others = [(false, "postgresql"), (true, "python3-venv")];
        assert_eq!(
            missing(|name| name != "strace", &others),
            ["strace", "postgresql"]
        );
    }

    #[test]
    fn advice_names_the_packages_and_the_way_out() {
        let text = advice(&["git", "postgresql"], "no sudo");
        assert!(text.contains("apt-get install --no-install-recommends git postgresql"));
    }

    #[test]
    fn the_newest_supported_server_is_taken() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(newest_server(root.path()), None);
        for (major, programs) in [
            ("13", &["initdb", "postgres", "pg_ctl", "createdb"][..]),
            ("15", &["initdb", "postgres", "pg_ctl", "createdb"]),
            ("17", &["createdb"]),
        ] {
            for program in programs {
                let path = root.path().join(major).join("bin").join(program);
                files::write_script(&path, "#!/bin/sh\n").unwrap();
            }
        }
        let found = newest_server(root.path());
        assert_eq!(found, Some(root.path().join("15/bin")));
    }
}
