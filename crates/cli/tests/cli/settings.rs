//! Settings across processes.

use std::os::unix::fs::PermissionsExt;

use crate::environment::{CliRun, TestEnvironment};

/// A valid value for each setting.
const VALUES: [(&str, &str); 32] = [
    ("core.format", "json"),
    ("core.database-url", "sqlite:/x.db"),
    ("core.log-level", "error"),
    ("core.automation-profile", "ci"),
    ("plan.concurrency", "7"),
    ("sandbox.confinement", "namespaces"),
    ("sandbox.network", "allow"),
    ("sandbox.readable-paths", "/srv/fixtures"),
    ("sandbox.writable-paths", "/tmp/cache"),
    ("sandbox.allow-filters", "lfs"),
    ("sandbox.checkpoint.auto-create-on", "on_error"),
    ("sandbox.limits.memory-mib", "100"),
    ("sandbox.limits.processes", "101"),
    ("sandbox.limits.file-mib", "102"),
    ("sandbox.limits.disk-mib", "103"),
    ("sandbox.limits.captured-files", "104"),
    ("sandbox.limits.captured-mib", "105"),
    ("retention.operations-days", "8"),
    ("retention.blob-grace-hours", "9"),
    ("provider.openai.api-key", "secret-one"),
    ("provider.openai.base-url", "http://localhost:1/v1"),
    ("provider.anthropic.api-key", "secret-two"),
    ("provider.anthropic.base-url", "http://localhost:2"),
    ("provider.openrouter.api-key", "secret-three"),
    ("provider.groq.api-key", "secret-four"),
    ("provider.together.api-key", "secret-five"),
    ("provider.ollama.base-url", "http://localhost:3/v1"),
    ("provider.lmstudio.base-url", "http://localhost:4/v1"),
    ("provider.llamacpp.base-url", "http://localhost:5/v1"),
    ("provider.vllm.base-url", "http://localhost:6/v1"),
    ("model.default", "openai/gpt-5-mini"),
    ("model.reserved-answer-tokens", "4096"),
];

#[test]
fn thirty_two_concurrent_changes_lose_nothing() {
    let environment = TestEnvironment::new();
    let old: Vec<String> = (0..32 - VALUES.len()).map(|n| format!("old-{n}")).collect();
    let mut text = String::from("# kept to the end\n");
    for name in &old {
        text += &format!("{name} = 1\n");
    }
    environment.write(".cleveragents/config.toml", text + "# and this\n[plan]\n");
    let sets = VALUES.map(|(key, value)| environment.start(&["config", "set", key, value]));
    let unsets = old
        .iter()
        .map(|name| environment.start(&["config", "unset", name.as_str()]));
    let children: Vec<_> = sets.into_iter().chain(unsets).collect();
    assert_eq!(children.len(), 32);
    for child in children {
        CliRun::from_output(child.wait_with_output().unwrap()).succeeded();
    }
    let text = environment.read(&environment.config_file());
    assert!(text.contains("# kept to the end"), "{text}");
    assert!(!text.contains("old-"), "{text}");
    let list = environment
        .run(&["config", "list", "-f", "json"])
        .succeeded();
    let list = list.json();
    for (key, value) in VALUES {
        let settings = list["data"]["settings"].as_array().unwrap();
        let setting = settings.iter().find(|one| one["key"] == key).unwrap();
        let expected = if key.ends_with("api-key") {
            format!("«secret:{key}»")
        } else {
            value.to_owned()
        };
        let found = setting["value"].to_string();
        // A list of one element is printed as a list.
        let found = found.trim_matches(['[', ']', '"']);
        assert_eq!(found, expected, "{key}");
        if key != "core.format" {
            assert_eq!(setting["source"], "global", "{key}");
        }
    }
    let folder = environment.path(".cleveragents");
    let mut left: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    left.sort();
    assert_eq!(left, ["config.toml", "config.toml.lock"]);
}

#[test]
fn files_are_created_private() {
    let environment = TestEnvironment::new();
    let arguments = ["config", "set", "plan.concurrency", "2"];
    environment.run(&arguments).succeeded();
    let mode = |relative: &str| {
        let metadata = environment.path(relative).metadata().unwrap();
        metadata.permissions().mode() & 0o777
    };
    assert_eq!(mode(".cleveragents"), 0o700);
    assert_eq!(mode(".cleveragents/config.toml"), 0o600);
}

#[test]
fn reading_creates_nothing() {
    let environment = TestEnvironment::new();
    for arguments in [
        &["version"][..],
        &["man"],
        &["completions", "zsh"],
        &["config", "list"],
        &["config", "get", "core.format"],
        &["config", "unset", "core.format"],
    ] {
        environment.run(arguments).succeeded();
    }
    assert!(!environment.path(".cleveragents").exists());
}

#[test]
fn commands_without_settings_do_not_read_them() {
    let mut environment = TestEnvironment::new();
    environment.write(".cleveragents/config.toml", "[broken\n");
    environment.remove_variable("HOME");
    environment.run(&["version"]).succeeded();
    environment.run(&["completions", "fish"]).succeeded();
    environment.run(&["man"]).succeeded();
}

#[test]
fn a_project_file_is_found_from_subfolders() {
    let environment = TestEnvironment::new();
    std::fs::create_dir_all(environment.path("work/.git")).unwrap();
    std::fs::create_dir_all(environment.path("work/a/b")).unwrap();
    let key = "core.automation-profile";
    let deep = environment.path("work/a/b");
    let output = environment
        .command(&["config", "set", key, "review", "--project"])
        .current_dir(&deep)
        .output();
    CliRun::from_output(output.unwrap()).succeeded();
    let file = environment.path("work/.agents/config.toml");
    assert_eq!(
        environment.read(&file),
        "[core]\nautomation-profile = \"review\"\n"
    );
    let get = environment
        .command(&["config", "get", key, "-f", "json"])
        .current_dir(&deep)
        .output();
    let get = CliRun::from_output(get.unwrap()).succeeded().json();
    assert_eq!(get["data"]["value"], "review");
    assert_eq!(get["data"]["source"], "project");
    let left = std::fs::read_dir(environment.path("work/.agents")).unwrap();
    assert_eq!(left.count(), 1, "no lock file may show up in a repository");
    let refused = environment.run(&["config", "set", "core.format", "json", "--project"]);
    assert_eq!(refused.code, Some(2));
    assert!(
        refused
            .stderr
            .contains("a project may not set `core.format`")
    );
}

#[test]
fn a_broken_file_can_be_repaired_by_its_hint() {
    let environment = TestEnvironment::new();
    environment.write(
        ".cleveragents/config.toml",
        "[plan]\nconcurency = 3\nconcurrency = \"x\"\n",
    );
    let run = environment.run(&["config", "list"]);
    assert_eq!(run.code, Some(2));
    let hint = "agents config unset 'plan.concurency'";
    assert!(run.stderr.contains(hint), "{}", run.stderr);
    environment
        .run(&["config", "unset", "plan.concurency"])
        .succeeded();
    let run = environment.run(&["config", "list"]);
    assert!(
        run.stderr
            .contains("agents config set plan.concurrency VALUE")
    );
    environment
        .run(&["config", "set", "plan.concurrency", "3"])
        .succeeded();
    environment.run(&["config", "list"]).succeeded();
}

#[test]
fn no_command_shows_a_secret() {
    let mut environment = TestEnvironment::new();
    let secret = "Sw0rdfish-and-more";
    let key = "provider.openai.api-key";
    environment
        .run_with_input(
            &["config", "set", key, "-"],
            format!("{secret}\n").as_bytes(),
        )
        .succeeded();
    assert!(
        environment
            .read(&environment.config_file())
            .contains(secret)
    );
    environment.set_variable("DEPLOY_TOKEN", "t0ken-of-the-deploy");
    for format in ["rich", "color", "table", "plain", "json", "yaml"] {
        for arguments in [
            &["config", "list", "-vvv"][..],
            &["config", "get", key, "-v"],
            &["config", "get", secret],
            &["config", "set", "plan.concurrency", secret],
            &["config", "set", key, secret],
            &["config", "get", "t0ken-of-the-deploy"],
            &["t0ken-of-the-deploy"],
            &[
                "config",
                "list",
                "--set",
                "plan.concurrency=t0ken-of-the-deploy",
            ],
        ] {
            let run = environment.run(&[arguments, &["-f", format]].concat());
            let all = run.stdout + &run.stderr;
            assert!(!all.contains("Sw0rdfish"), "{format} {arguments:?}: {all}");
            assert!(!all.contains("t0ken"), "{format} {arguments:?}: {all}");
        }
    }
}

#[test]
fn no_command_shows_a_url_password() {
    let key = "core.database-url";
    for (url, part) in [
        ("postgresql://me:pa/ss@db.invalid/d", "pa/ss"),
        ("postgresql://me:a#b@db.invalid/d", "a#b"),
        ("postgresql://me:p@ss@db.invalid/d", "p@ss"),
        ("postgresql://me:with%2Fescape@db.invalid/d", "escape"),
        ("postgresql://db.invalid/d?password=qu'ery&user=me", "ery"),
        ("postgresql://me:with space@db.invalid/d", "with space"),
    ] {
        for format in ["rich", "color", "table", "plain", "json", "yaml"] {
            let hidden = |environment: &TestEnvironment, arguments: &[&str], input: &str| {
                let arguments = [arguments, &["-f", format]].concat();
                let run = environment.run_with_input(&arguments, input.as_bytes());
                let all = run.stdout + &run.stderr;
                assert!(!all.contains(part), "{arguments:?}: {all}");
            };
            let reads = [
                &["config", "get", key, "-v"][..],
                &["config", "list", "-vvv"],
                &["info", "-vvv"],
            ];
            let mut environment = TestEnvironment::new();
            hidden(&environment, &["config", "set", key, "-"], url);
            hidden(&environment, &["config", "set", key, url], "");
            hidden(&environment, &["config", "set", key, url, "more"], "");
            hidden(&environment, &["config", "set", key, url, "--project"], "");
            for read in reads {
                hidden(&environment, read, "");
            }
            environment.write(".cleveragents/config.toml", "");
            let set = format!("{key}={url}");
            for read in reads {
                hidden(&environment, &[read, &["--set", &set]].concat(), "");
            }
            environment.set_variable("CLEVERAGENTS_DATABASE_URL", url);
            for read in reads {
                hidden(&environment, read, "");
            }
        }
    }
}

#[test]
fn a_cloned_repository_cannot_loosen_the_profile() {
    let environment = TestEnvironment::new();
    let key = "core.automation-profile";
    let file = "work/.agents/config.toml";
    environment.write(file, "core.automation-profile = \"full-auto\"\n");
    let run = environment
        .run(&["config", "get", key, "-v", "-f", "json"])
        .succeeded();
    assert!(run.stderr.contains("`full-auto`"), "{run:?}");
    assert!(run.stderr.contains("`supervised`"), "{run:?}");
    let data = run.json()["data"].clone();
    assert_eq!(data["value"], "supervised");
    let chain = data["chain"].as_array().unwrap();
    let project = chain.iter().find(|one| one["source"] == "project").unwrap();
    assert_eq!(project["value"], "full-auto");
    assert!(project["ignored"].is_string(), "{project}");
    let set = ["config", "set", key, "ci", "--project", "-f", "json"];
    let set = environment.run(&set).succeeded().json();
    assert_eq!(set["status"], "warn", "{set}");
}
