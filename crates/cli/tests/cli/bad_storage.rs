//! Faulty storage, as one table: each case has its set-up, the command, the exit code and parts of
//! the error. Afterwards every file that existed before must have the same bytes.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::data_directory::json_data;
use crate::environment::{CliRun, TestEnvironment, postgres_url};
use crate::postgres::{TestSchema, psql};

struct StorageCase {
    about: &'static str,
    set_up: fn(&mut TestEnvironment),
    /// Returns `None` if this machine cannot run the case.
    act: fn(&mut TestEnvironment) -> Option<CliRun>,
    code: i32,
    words: &'static [&'static str],
}

const CASES: &[StorageCase] = &[
    StorageCase {
        about: "a file that is no database",
        set_up: |environment| {
            environment.write(".cleveragents/cleveragents.db", "rubbish ".repeat(2000));
        },
        act: run_info,
        code: 1,
        words: &["is damaged", "not a database", "restore FILE --force"],
    },
    StorageCase {
        about: "a database with flipped bytes in the middle",
        set_up: |environment| {
            let file = environment.path(".cleveragents/cleveragents.db");
            let mut bytes = std::fs::read(file).unwrap();
            let (start, end) = (bytes.len() / 10, bytes.len() * 9 / 10);
            bytes[start..end].iter_mut().for_each(|byte| *byte ^= 0xa5);
            environment.write(".cleveragents/cleveragents.db", bytes);
        },
        act: run_info,
        code: 1,
        words: &["is damaged", "malformed", "restore FILE --force"],
    },
    StorageCase {
        about: "a database of a newer version",
        set_up: |environment| {
            environment.sql(
                "INSERT INTO schema_versions (version, name, written_by, applied_at) \
                 VALUES (99, 'future', '9.9.9', 0); PRAGMA wal_checkpoint(TRUNCATE)",
            );
        },
        act: run_info,
        code: 1,
        words: &[
            "newer version of agents",
            "schema 99",
            "upgrade to agents 9.9.9",
        ],
    },
    StorageCase {
        about: "a newer schema on PostgreSQL",
        set_up: |environment| {
            let schema = TestSchema::new(environment, "newer");
            environment.set_variable("CLEVERAGENTS_DATABASE_URL", schema.url());
            environment.run(&["init"]).succeeded();
            psql(
                environment,
                &format!(
                    "SET search_path = {}; INSERT INTO schema_versions \
                     (version, name, written_by, applied_at) VALUES (99, 'future', '9.9.9', 0)",
                    schema.url().rsplit("%3D").next().unwrap()
                ),
            );
        },
        act: |environment| {
            let run = run_info(environment);
            let schema = format!("cli_newer_{}", std::process::id());
            psql(environment, &format!("DROP SCHEMA {schema} CASCADE"));
            run
        },
        code: 1,
        words: &[
            "newer version of agents",
            "schema 99",
            "upgrade to agents 9.9.9",
        ],
    },
    StorageCase {
        about: "a data directory that cannot be written",
        set_up: |environment| {
            let mode = std::fs::Permissions::from_mode;
            std::fs::set_permissions(environment.path(""), mode(0o755)).unwrap();
            let folder = environment.path("sealed");
            std::fs::create_dir(&folder).unwrap();
            std::fs::set_permissions(&folder, mode(0o555)).unwrap();
        },
        act: |environment| {
            // Root ignores permissions, so root runs the command as another user.
            let other_user = [
                "setpriv",
                "--reuid=65534",
                "--regid=65534",
                "--clear-groups",
            ];
            let prefix = if is_root() { &other_user[..] } else { &[] };
            Some(environment.shell(prefix, "exec \"$AGENTS\" info --data-dir ../sealed"))
        },
        code: 1,
        words: &["sealed", "cannot be written", "ls -ld"],
    },
    StorageCase {
        about: "a data directory that is a file",
        set_up: |environment| {
            environment.write("file", "mine");
            environment.write("work/settings.toml", "");
        },
        act: |environment| {
            let settings = ["--config-path", "settings.toml"];
            Some(environment.run(&[&["info", "--data-dir", "../file"], &settings[..]].concat()))
        },
        code: 1,
        words: &["file", "cannot be written"],
    },
    StorageCase {
        about: "a network file system",
        set_up: no_setup,
        act: |environment| {
            run_in_mount_namespace(
                environment,
                "sed 's/ - [^ ]* / - nfs4 /' /proc/self/mountinfo > ../table && \
                 mount --bind ../table /proc/$$/mountinfo && exec \"$AGENTS\" info",
            )
        },
        code: 1,
        words: &[
            "network file system (nfs4)",
            "--data-dir DIR",
            "postgresql://",
        ],
    },
    StorageCase {
        about: "a full disk",
        set_up: |environment| std::fs::create_dir(environment.path("small")).unwrap(),
        act: run_on_full_disk,
        code: 1,
        words: &["no space left", "free some space", "small/data gc"],
    },
    StorageCase {
        about: "a file of settings that is not TOML",
        set_up: |environment| environment.write(".cleveragents/config.toml", "[plan\n"),
        act: run_info,
        code: 2,
        words: &["config.toml:1:6", "not TOML"],
    },
    StorageCase {
        about: "a backup to a name of 100 kilobytes",
        set_up: no_setup,
        act: |environment| Some(environment.run(&["backup", &"n".repeat(100_000)])),
        code: 1,
        words: &["cannot be written", "too long"],
    },
    StorageCase {
        about: "a backup into a folder that is not there",
        set_up: no_setup,
        act: |environment| Some(environment.run(&["backup", "none/x.tar"])),
        code: 1,
        words: &["none/x.tar", "cannot be written"],
    },
    StorageCase {
        about: "a backup that is not there",
        set_up: no_setup,
        act: |environment| Some(environment.run(&["restore", "none.tar"])),
        code: 3,
        words: &["there is no backup", "none.tar"],
    },
    StorageCase {
        about: "a database of an unknown kind",
        set_up: no_setup,
        act: |environment| run_info_with_url(environment, "mysql://h/d"),
        code: 2,
        words: &["core.database-url", "postgresql://", "config get"],
    },
    StorageCase {
        about: "a SQLite database elsewhere",
        set_up: no_setup,
        act: |environment| run_info_with_url(environment, "sqlite:/somewhere/else.db"),
        code: 2,
        words: &["always cleveragents.db in the data directory"],
    },
    StorageCase {
        about: "a port that is no number",
        set_up: no_setup,
        act: |environment| run_info_with_url(environment, "postgresql://h:port/d"),
        code: 2,
        words: &["core.database-url", "port"],
    },
    StorageCase {
        about: "a host that does not exist",
        set_up: no_setup,
        act: |environment| run_info_with_url(environment, "postgresql://u@host.invalid/d"),
        code: 75,
        words: &["cannot be reached", "host.invalid", "config get"],
    },
    StorageCase {
        about: "a server that is down",
        set_up: no_setup,
        act: |environment| {
            // A port that was free a moment ago, so nothing listens there.
            let probe = TcpListener::bind("127.0.0.1:0").unwrap();
            let port = probe.local_addr().unwrap().port();
            drop(probe);
            run_info_with_url(environment, &format!("postgresql://u@127.0.0.1:{port}/d"))
        },
        code: 75,
        words: &["cannot be reached", "127.0.0.1", "refused", "config get"],
    },
    StorageCase {
        about: "a database the server does not have",
        set_up: no_setup,
        act: |environment| {
            let url = postgres_url();
            let (server, _) = url.rsplit_once('/').unwrap();
            run_info_with_url(environment, &format!("{server}/none"))
        },
        code: 2,
        words: &["core.database-url", "\"none\" does not exist"],
    },
    StorageCase {
        about: "a wrong password",
        set_up: no_setup,
        act: |environment| {
            let url = postgres_url();
            let place = url.split('@').nth(1).unwrap().to_owned();
            run_info_with_url(
                environment,
                &format!("postgresql://agents:wrong-one@{place}"),
            )
        },
        code: 2,
        words: &["core.database-url", "password authentication failed"],
    },
];

#[test]
fn bad_storage_is_refused_without_data_loss() {
    for case in CASES {
        let mut environment = TestEnvironment::new();
        environment.run(&["init"]).succeeded();
        (case.set_up)(&mut environment);
        let before = read_files(&environment.path(""));
        let started = Instant::now();
        let about = case.about;
        let Some(run) = (case.act)(&mut environment) else {
            // Written directly to stderr, because the output of a passing test is hidden.
            let text = format!("NOT SHOWN: {about}: this machine lets nobody mount anything\n");
            std::io::stderr().write_all(text.as_bytes()).unwrap();
            continue;
        };
        let took = started.elapsed();
        assert_eq!(run.code, Some(case.code), "{about}: {run:?}");
        assert!(run.stderr.starts_with("error: "), "{about}: {run:?}");
        assert!(run.stderr.contains("\n  next: "), "{about}: {run:?}");
        assert!(!run.stderr.contains("a bug in agents"), "{about}: {run:?}");
        for word in case.words {
            assert!(run.stderr.contains(word), "{about}: no {word:?} in {run:?}");
        }
        assert!(
            run.stderr.len() < 4000,
            "{about}: {} bytes",
            run.stderr.len()
        );
        assert!(took < Duration::from_secs(20), "{about} took {took:?}");
        let after = read_files(&environment.path(""));
        for (path, bytes) in before {
            let same = after.get(&path) == Some(&bytes);
            assert!(same, "{about}: {} was changed", path.display());
        }
    }
}

#[test]
fn a_non_utf8_data_directory_works() {
    let mut environment = TestEnvironment::new();
    let mut folder = environment.path("data-").into_os_string();
    folder.push(OsString::from_vec(b"\xff\xfe".to_vec()));
    environment.set_variable("CLEVERAGENTS_DATA_DIR", &folder);
    environment.run(&["init"]).succeeded();
    environment.run(&["backup"]).succeeded();
    assert_eq!(
        json_data(&environment, &["info"])["statistics"]["events"],
        2
    );
    assert!(Path::new(&folder).join("cleveragents.db").is_file());
}

fn no_setup(_: &mut TestEnvironment) {}

fn run_info(environment: &mut TestEnvironment) -> Option<CliRun> {
    Some(environment.run(&["info"]))
}

fn run_info_with_url(environment: &mut TestEnvironment, url: &str) -> Option<CliRun> {
    let url = format!("core.database-url={url}");
    Some(environment.run(&["info", "--set", &url]))
}

/// Fills a real small file system to the last byte. Afterwards everything reported as stored must
/// be there.
fn run_on_full_disk(environment: &mut TestEnvironment) -> Option<CliRun> {
    let run = run_in_mount_namespace(
        environment,
        "mount -t tmpfs -o size=2m none ../small && D=../small/data && \
         \"$AGENTS\" init -q --data-dir $D >/dev/null && \
         \"$AGENTS\" backup -q --data-dir $D ../kept.tar >/dev/null && \
         { cat /dev/zero > ../small/filler 2>/dev/null; \
         \"$AGENTS\" backup --data-dir $D; code=$?; rm ../small/filler; \
         \"$AGENTS\" info --data-dir $D -f json > ../after.json; exit $code; }",
    )?;
    let after = environment.read(&environment.path("after.json"));
    let after: serde_json::Value = serde_json::from_str(&after).unwrap();
    assert_eq!(after["data"]["statistics"]["events"], 2, "{after}");
    Some(run)
}

/// Runs a script in its own mount namespace. Returns `None` if this machine does not allow that.
fn run_in_mount_namespace(environment: &TestEnvironment, script: &str) -> Option<CliRun> {
    let ways: [&[&str]; 2] = [&["unshare", "-m"], &["unshare", "-rm"]];
    let way = ways.iter().find(|way| {
        let tried = environment.shell(way, "mount -t tmpfs none /mnt");
        tried.code == Some(0)
    })?;
    Some(environment.shell(way, script))
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Reads every file below a folder, except those that live only as long as a process.
fn read_files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                folders.push(path);
            } else if !name.ends_with("-wal") && !name.ends_with("-shm") && !name.ends_with(".lock")
            {
                found.insert(path.clone(), std::fs::read(&path).unwrap());
            }
        }
    }
    found
}
