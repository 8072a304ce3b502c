//! Programs that a user installed below the home work in a sandbox; the credentials beside them
//! cannot be read.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use cleveragents_domain::process::Confinement;
use cleveragents_ports::processes::CommandExit;
use cleveragents_ports::stop::StopSignal;

use crate::other_user::{OtherUser, is_another_user};
use crate::world::{ConfinementWorld, EnvironmentVariables, LEVELS, text, visible_folder, write};

/// Programs below the home; each prints its own name.
const PROGRAMS: [&str; 10] = [
    ".cargo/bin/one",
    ".rustup/toolchains/stable/bin/two",
    ".nvm/versions/node/v1/bin/three",
    ".pyenv/shims/four",
    ".local/bin/five",
    "bin/six",
    "go/bin/seven",
    "jdk/bin/eight",
    "projects/bin/nine",
    "repository/backend/bin/ten",
];

/// Credentials below the home, beside files that programs need.
const SECRETS: [&str; 12] = [
    ".nvm/versions/node/v0/etc/npmrc",
    "go/src/project/.env",
    "projects/shop/notes",
    "repository/backend/notes",
    ".cargo/credentials.toml",
    ".nvm/versions/node/v1/etc/npmrc",
    ".pyenv/.env",
    ".local/share/keyrings/login",
    ".ssh/id",
    ".zsh_history",
    "go/.netrc",
    "jdk/settings.xml",
];

/// Installs toolchains of every kind.
fn install(root: &Path, variables: &mut EnvironmentVariables) {
    let home = root.join("home");
    for program in PROGRAMS {
        let path = home.join(program);
        let name = path.file_name().unwrap().to_str().unwrap();
        write(&path, &format!("#!/bin/sh\necho {name}\n"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    for secret in SECRETS {
        write(&home.join(secret), "SECRET\n");
    }
    write(&home.join(".rustup/settings.toml"), "settings\n");
    let folders = PROGRAMS.map(|program| home.join(program).parent().unwrap().to_owned());
    let folders = std::env::join_paths(folders.iter().skip(2)).unwrap();
    let mut search_path = folders;
    for more in [
        ":",
        home.join(".cargo/bin").to_str().unwrap(),
        ":/usr/local/bin:/usr/bin:/bin",
    ] {
        search_path.push(more);
    }
    variables.insert("PATH".to_owned(), search_path);
    write(&home.join("repository/.git/HEAD"), "ref: refs/heads/main\n");
    variables.insert("JAVA_HOME".to_owned(), home.join("jdk").into());
    variables.insert("GOPATH".to_owned(), home.join("go").into());
    variables.insert("NVM_DIR".to_owned(), home.join(".nvm").into());
}

fn assert_toolchains_work(place: &Path, change: fn(&Path, &mut EnvironmentVariables)) {
    for level in LEVELS {
        let world = ConfinementWorld::with_variables(place, level, &[], |root, variables| {
            install(root, variables);
            change(root, variables);
        });
        let home = world.path("home");
        let home = home.display();
        let reachable = ["one", "three", "four", "five", "six", "seven", "eight"];
        for name in reachable.into_iter().chain(["nine", "ten"]) {
            assert_eq!(world.run_script(name), format!("{name}\n"), "{level}");
        }
        for secret in SECRETS {
            let script = format!("! grep SECRET {home}/{secret} && ! cat {home}/{secret}");
            world.run_script(&script);
        }
        world.run_script(&format!(
            "! ls {home}/.ssh && ! echo x > {home}/.cargo/bin/one"
        ));
        assert_eq!(
            world.run_script("echo x > ~/mine; cat ~/mine"),
            "x\n",
            "{level}"
        );
    }
}

fn no_change(_: &Path, _: &mut EnvironmentVariables) {}

#[test]
fn toolchains_below_the_home_work_without_their_credentials() {
    assert_toolchains_work(&visible_folder(), no_change);
}

#[test]
fn toolchains_work_with_a_home_below_tmp() {
    assert_toolchains_work(Path::new("/tmp"), no_change);
}

/// The home is inside a folder that no other user may enter, as for root.
#[test]
fn toolchains_work_with_a_private_home() {
    let closed = tempfile::tempdir_in(visible_folder()).unwrap();
    fs::set_permissions(closed.path(), fs::Permissions::from_mode(0o700)).unwrap();
    assert_toolchains_work(closed.path(), no_change);
}

#[test]
fn toolchains_work_for_an_unprivileged_user() {
    if is_another_user() {
        return assert_toolchains_work(Path::new("/tmp"), no_change);
    }
    if let Some(user) = OtherUser::new() {
        user.run("toolchains::toolchains_work_for_an_unprivileged_user");
    }
}

/// Without `HOME`, or with one that differs from the system's, nothing more is readable.
#[test]
fn home_folders_are_closed_for_any_home_variable() {
    let unset = |root: &Path, variables: &mut EnvironmentVariables| {
        let data = root.join("data");
        variables.insert("CLEVERAGENTS_DATA_DIR".to_owned(), data.into());
        variables.remove("HOME");
    };
    let other = |root: &Path, variables: &mut EnvironmentVariables| {
        variables.insert("HOME".to_owned(), root.join("empty").into());
    };
    for level in LEVELS {
        for change in [&unset as &dyn Fn(&Path, &mut EnvironmentVariables), &other] {
            let world = ConfinementWorld::with_variables(
                &visible_folder(),
                level,
                &[],
                |root, variables| {
                    install(root, variables);
                    variables.insert("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".into());
                    change(root, variables);
                },
            );
            for secret in SECRETS {
                world.run_script(&format!("! cat {}/{secret}", world.path("home").display()));
            }
            let script = "! ls /root/.??* && ! ls /home/*/.??* && echo closed";
            assert_eq!(world.run_script(script), "closed\n", "{level}");
        }
    }
}

/// A login replaces its credentials file while a command runs.
#[test]
fn replaced_credentials_stay_closed() {
    for level in LEVELS {
        let world =
            ConfinementWorld::with_variables(&visible_folder(), level, &[], |root, variables| {
                install(root, variables);
            });
        let home = world.path("home");
        let cargo = home.join(".cargo");
        let script = format!(
            "mkfifo go; echo ready > ready; cat go > /dev/null; \
             cat {0}/credentials.toml {0}/credentials {1}/go/.netrc",
            cargo.display(),
            home.display(),
        );
        let waiting = world.processes.prepare(&world.command(&script)).unwrap();
        let tree = world.tree().to_owned();
        let finished = std::thread::scope(|scope| {
            let running = scope.spawn(|| waiting.run(&StopSignal::new()).unwrap());
            while !tree.join("ready").exists() {
                assert!(!running.is_finished(), "{level}: it ended too early");
                std::thread::yield_now();
            }
            for name in [".cargo/credentials.toml", ".cargo/credentials", "go/.netrc"] {
                let (path, new) = (home.join(name), home.join("new"));
                write(&new, "SECRET new\n");
                fs::rename(&new, &path).unwrap();
            }
            write(&tree.join("go"), "go\n");
            running.join().unwrap()
        });
        assert_eq!(text(&finished.stdout), "", "{level}");
        assert!(matches!(finished.exit, CommandExit::Exited(code) if code != 0));
    }
}

/// The settings file may hold keys, even in a folder that commands can read.
#[test]
fn the_settings_file_is_always_closed() {
    for level in LEVELS {
        let shown = "sandbox.readable-paths=ROOT/shown";
        let change = |root: &Path, variables: &mut EnvironmentVariables| {
            let file = root.join("shown/settings.toml");
            write(&file, "[core]\nformat = \"plain\"\n");
            variables.insert("CLEVERAGENTS_CONFIG_PATH".to_owned(), file.into());
        };
        let world = ConfinementWorld::with_variables(&visible_folder(), level, &[shown], change);
        assert!(
            world
                .settings
                .locations
                .config_file
                .ends_with("shown/settings.toml")
        );
        let folder = world.path("shown");
        let folder = folder.display();
        assert_eq!(
            world.run_script(&format!("cat {folder}/file")),
            "shown\n",
            "{level}"
        );
        world.run_script(&format!(
            "! cat {folder}/settings.toml && ! echo x > {folder}/file"
        ));
    }
}

/// Diagnostics show what commands can read before a user relies on it.
#[test]
fn diagnostics_list_what_is_visible() {
    let world =
        ConfinementWorld::with_variables(&visible_folder(), Confinement::None, &[], install);
    let shown = world.path("shown");
    let setting = format!("sandbox.readable-paths={}", shown.display());
    let arguments = ["--set", &setting, "--format", "json", "diagnostics"];
    let output = world.run_agents(&arguments);
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let checks = answer["data"]["checks"].as_array().unwrap();
    let found = checks.iter().find(|it| it["name"] == "visible_paths");
    let detail = found.unwrap()["detail"].as_str().unwrap();
    let pyenv = world.path("home/.rustup");
    for path in [&shown, &pyenv] {
        assert!(detail.contains(path.to_str().unwrap()), "{detail}");
    }
    assert!(!detail.contains("credentials"), "{detail}");
}

/// A repository from an untrusted source may list object stores to borrow from.
#[test]
fn a_repository_opens_no_folder_by_its_alternates() {
    for level in LEVELS {
        let change = |root: &Path, _: &mut EnvironmentVariables| {
            write(&root.join("home/.ssh/id"), "SECRET\n");
            let line = format!("{}\n", root.join("home").display());
            write(&root.join("user/.git/objects/info/alternates"), &line);
        };
        let world = ConfinementWorld::with_variables(&visible_folder(), level, &[], change);
        let home = world.path("home");
        world.run_script(&format!(
            "! cat {0}/.ssh/id && ! ls {0}/.ssh",
            home.display()
        ));
        world.run_script("git log -1");
    }
}
