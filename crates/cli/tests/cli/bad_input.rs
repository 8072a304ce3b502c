//! Invalid input: each is refused with an exit code, a message, a cause and a hint.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;

use crate::environment::{CliRun, TestEnvironment};

/// Asserts that a failure has a message, a cause and a hint, and is not a panic.
#[track_caller]
pub(crate) fn assert_refused(run: &CliRun, code: i32, parts: &[&str]) {
    assert_eq!(run.code, Some(code), "{run:?}");
    assert_eq!(run.stdout, "");
    assert!(run.stderr.starts_with("error: "), "{run:?}");
    assert!(!run.stderr.contains("a bug in agents"), "{run:?}");
    assert!(run.stderr.len() < 2000, "an error must be readable");
    for part in ["\n  why: ", "\n  next: "].iter().chain(parts) {
        assert!(run.stderr.contains(part), "no {part:?} in {}", run.stderr);
    }
}

#[test]
fn wrong_names_and_values_are_refused() {
    let long = "k".repeat(120 * 1024);
    for (arguments, parts) in [
        (&["config", "get", "core.fromat"][..], &["core.format"][..]),
        (&["config", "set", "core.fromat", "json"], &["core.format"]),
        (&["config", "unset", "core.fromat"], &["core.format"]),
        (&["config", "get", ""], &["config list"]),
        (&["config", "get", &long], &["122880 bytes"]),
        (&["config", "set", "plan.concurrency", "four"], &["1 to 64"]),
        (&["config", "set", "plan.concurrency", "-1"], &["1 to 64"]),
        (&["config", "set", "plan.concurrency", "65"], &["1 to 64"]),
        (&["config", "set", "plan.concurrency", ""], &["empty"]),
        (&["config", "set", "core.format", "xml"], &["one of rich"]),
        (
            &["config", "set", "provider.openai.base-url", "nowhere"],
            &["URL"],
        ),
        (
            &["config", "set", "provider.openai.base-url", &long],
            &["65536 bytes"],
        ),
        (
            &["config", "set", "provider.openai.api-key", "a\x1bb"],
            &["control characters"],
        ),
        (&["config", "list", "--set", "x"], &["KEY=VALUE"]),
        (
            &["version", "--set", "plan.concurency=1"],
            &["plan.concurrency", "config list"],
        ),
    ] {
        let environment = TestEnvironment::new();
        let run = environment.run(arguments);
        if arguments.contains(&"--set") {
            assert_eq!(run.code, Some(2), "{run:?}");
            assert!(
                parts.iter().all(|part| run.stderr.contains(part)),
                "{run:?}"
            );
        } else {
            assert_refused(&run, 2, parts);
        }
        assert!(!environment.path(".cleveragents/config.toml").exists());
    }
}

#[test]
fn wrong_files_are_refused_with_their_line_and_not_changed() {
    let long = "x".repeat(1 << 20);
    let long_key = format!("a = 1\n{} = 1\n", "k".repeat((1 << 20) - 100));
    let long_value = format!("provider.openai.base-url = \"http:{}\"\n", &long[100..]);
    let too_large = format!("# {long}\n");
    for (text, parts) in [
        ("[plan\n", &["config.toml:1:6", "not TOML"][..]),
        ("\n[plan]\nconcurrency = = 1\n", &["config.toml:3:15"]),
        ("a = 1\na = 2\n", &["config.toml:2:"]),
        (
            "[plan]\nconcurency = 1\n",
            &["config.toml:2:", "plan.concurrency"],
        ),
        (
            "[plan]\nconcurrency = \"4\"\n",
            &["config.toml:2:", "1 to 64"],
        ),
        ("[plan]\nconcurrency = 0\n", &["config.toml:2:", "1 to 64"]),
        ("core.format = \"a\\u0000b\"\n", &["config.toml:1:", "NUL"]),
        (long_key.as_str(), &["config.toml:1:"]),
        (&long_value, &["config.toml:1:", "65536 bytes"]),
        (&too_large, &["larger than"]),
    ] {
        let environment = TestEnvironment::new();
        environment.write(".cleveragents/config.toml", text);
        let run = environment.run(&["config", "list"]);
        assert_eq!(run.code, Some(2), "{run:?}");
        for part in parts {
            assert!(run.stderr.contains(part), "no {part:?} in {}", run.stderr);
        }
        assert!(run.stderr.len() < 2000, "an error must be readable");
        assert_eq!(environment.read(&environment.config_file()), text);
    }
}

#[test]
fn a_malformed_file_is_not_changed_by_set() {
    let environment = TestEnvironment::new();
    environment.write(".cleveragents/config.toml", "[plan\n");
    let run = environment.run(&["config", "set", "plan.concurrency", "2"]);
    assert_refused(&run, 2, &["config.toml:1:6"]);
    assert_eq!(environment.read(&environment.config_file()), "[plan\n");
}

/// Uses standard input, because Unix arguments cannot contain NUL.
#[test]
fn nul_and_too_much_on_standard_input_are_refused() {
    let environment = TestEnvironment::new();
    let arguments = ["config", "set", "provider.openai.api-key", "-"];
    let run = environment.run_with_input(&arguments, b"a\0b\n");
    assert_refused(&run, 2, &["control characters"]);
    let run = environment.run_with_input(&arguments, &vec![b'x'; 1 << 20]);
    assert_refused(&run, 2, &["65536 bytes"]);
    let run = environment.run_with_input(&arguments, b"\xff\xfe");
    assert_eq!(run.code, Some(2), "{run:?}");
}

#[test]
fn arguments_that_are_not_text_are_refused() {
    let environment = TestEnvironment::new();
    let wrong = OsString::from_vec(b"plan.\xff".to_vec());
    let run = environment.run(&[OsStr::new("config"), OsStr::new("get"), &wrong]);
    assert_eq!(run.code, Some(2), "{run:?}");
    assert!(run.stderr.contains("UTF-8"), "{run:?}");
    let run = environment.run(&[&wrong]);
    assert_eq!(run.code, Some(2), "{run:?}");
}

#[test]
fn paths_that_are_not_text_work() {
    let mut environment = TestEnvironment::new();
    let mut folder = environment.path("data-").into_os_string();
    folder.push(OsString::from_vec(b"\xff".to_vec()));
    environment.set_variable("CLEVERAGENTS_DATA_DIR", &folder);
    environment
        .run(&["config", "set", "plan.concurrency", "3"])
        .succeeded();
    let run = environment.run(&["config", "get", "plan.concurrency", "-f", "json"]);
    assert_eq!(run.succeeded().json()["data"]["value"], 3);
    environment.set_variable("CLEVERAGENTS_FORMAT", OsString::from_vec(vec![0xff]));
    let run = environment.run(&["config", "list"]);
    assert_refused(
        &run,
        2,
        &["CLEVERAGENTS_FORMAT", "unset CLEVERAGENTS_FORMAT"],
    );
}

#[test]
fn inaccessible_paths_are_named() {
    let environment = TestEnvironment::new();
    environment.write("file", "");
    let file = environment.path("file");
    let file = file.to_str().unwrap();
    let set = ["config", "set", "plan.concurrency", "2"];
    let run = environment.run(&[&["--data-dir", file][..], &set].concat());
    assert_refused(&run, 1, &["cannot write", file]);
    let run = environment.run(&["--data-dir", file, "config", "list"]);
    assert_refused(&run, 2, &["cannot read", file]);

    std::fs::create_dir_all(environment.config_file()).unwrap();
    for arguments in [&["config", "list"][..], &set] {
        assert_refused(&environment.run(arguments), 2, &["not a regular file"]);
    }
}

#[test]
fn no_home_is_refused_unless_a_directory_is_given() {
    let mut environment = TestEnvironment::new();
    environment.set_variable("HOME", "");
    assert_refused(
        &environment.run(&["config", "list"]),
        2,
        &["HOME is not set", "--data-dir DIR"],
    );
    environment.remove_variable("HOME");
    assert_refused(&environment.run(&["config", "list"]), 2, &["HOME"]);
    let here = environment.path("here");
    let arguments = ["--data-dir", here.to_str().unwrap(), "config", "list"];
    environment.run(&arguments).succeeded();
}

#[test]
fn failures_are_envelopes_too() {
    let environment = TestEnvironment::new();
    for (arguments, command, kind) in [
        (
            &["config", "get", "x.y"][..],
            "config get",
            "unknown_setting",
        ),
        (&["config", "gett"], "config", "usage"),
        (&["confg"], "", "usage"),
        (&["config", "get"], "config get", "usage"),
        (&["config", "get", "--nope"], "config get", "usage"),
    ] {
        let run = environment.run(&[arguments, &["--format", "json"]].concat());
        assert_eq!(run.code, Some(2), "{run:?}");
        assert_eq!(run.stderr, "");
        let json = run.json();
        assert_eq!(json["command"], command);
        assert_eq!(json["status"], "error");
        assert_eq!(json["exit_code"], 2);
        assert_eq!(json["data"]["error"]["kind"], kind);
        let hints = json["data"]["error"]["hints"].as_array().unwrap();
        assert!(!hints.is_empty());
        let run = environment.run(&[arguments, &["--format", "yaml"]].concat());
        assert!(run.stdout.contains("status: error"), "{run:?}");
    }
    environment.write(".cleveragents/config.toml", "core.format = \"json\"\n");
    let run = environment.run(&["confg"]);
    let hints = run.json()["data"]["error"]["hints"].to_string();
    assert!(hints.contains("'config'"), "{hints}");
}
