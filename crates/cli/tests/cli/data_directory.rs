//! Commands that store data, on SQLite.

use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::environment::{CliRun, TestEnvironment};
use crate::plan_commands::shop_environment;
use crate::plan_fixture::create_plan;

pub(crate) fn json_data(environment: &TestEnvironment, arguments: &[&str]) -> Value {
    let arguments = [arguments, &["--format", "json"]].concat();
    environment.run(&arguments).succeeded().json()["data"].clone()
}

/// Returns the data of a command with any exit code.
fn json_data_of_any_exit(environment: &TestEnvironment, arguments: &[&str]) -> Value {
    let arguments = [arguments, &["--format", "json"]].concat();
    environment.run(&arguments).json()["data"].clone()
}

/// Counts the events of a kind in the journal, by searching a backup for its text.
fn count_events(environment: &TestEnvironment, kind: &str) -> usize {
    let file = environment.path(&format!("count-{kind}.tar"));
    let _ = std::fs::remove_file(&file);
    environment
        .run(&["backup", file.to_str().unwrap()])
        .succeeded();
    let bytes = std::fs::read(&file).unwrap();
    let text = String::from_utf8_lossy(&bytes);
    let kind = format!("\"{kind}\"");
    let rows = text.lines().filter(|line| line.contains("\"system\","));
    rows.filter(|row| row.contains(&kind)).count()
}

#[test]
fn init_may_be_repeated_and_overwrites_nothing() {
    let environment = TestEnvironment::new();
    let first = json_data(&environment, &["init"]);
    let all = ["data_directory", "config_file", "database"];
    assert_eq!(first["created"], serde_json::json!(all));
    environment
        .run(&["config", "set", "plan.concurrency", "8"])
        .succeeded();
    let settings = environment.read(&environment.config_file());
    assert!(settings.contains("[plan]\nconcurrency = 8\n"), "{settings}");
    let again = json_data(&environment, &["init"]);
    assert_eq!(again["created"], serde_json::json!([]));
    assert_eq!(environment.read(&environment.config_file()), settings);
    assert_eq!(count_events(&environment, "store_initialised"), 1);
}

#[test]
fn init_names_what_a_used_directory_has() {
    let environment = shop_environment();
    create_plan(&environment, "shop");
    let run = environment.run(&["init", "-f", "json"]).succeeded().json();
    // The other commands have created the database, and no settings file.
    assert_eq!(run["data"]["created"], serde_json::json!(["config_file"]));
    let said = "already in use: 1 plan, 1 action; existing data was not changed";
    assert_eq!(run["messages"][0]["text"], said, "{run}");
    let again = environment.run(&["init", "-f", "json"]).succeeded().json();
    assert_eq!(again["data"]["created"], serde_json::json!([]));
    assert_eq!(again["messages"][0]["text"], said, "{again}");
}

#[test]
fn a_settings_file_that_was_named_must_exist() {
    let environment = TestEnvironment::new();
    let named = ["--config-path", "mine.toml"];
    let run = environment.run(&[&["info", "-f", "json"], &named[..]].concat());
    assert_eq!(run.code, Some(2), "{run:?}");
    let json = run.json();
    assert_eq!(json["data"]["error"]["kind"], "settings_file", "{json}");
    assert!(json.to_string().contains("there is no such file"), "{json}");
    let hint = &json["data"]["error"]["hints"][0];
    assert_eq!(hint, "agents --config-path mine.toml init", "{json}");
    // Both commands create it.
    for create in [&["init"][..], &["config", "set", "plan.concurrency", "8"]] {
        let environment = TestEnvironment::new();
        environment.run(&[create, &named].concat()).succeeded();
        environment
            .run(&[&["info"], &named[..]].concat())
            .succeeded();
    }
}

#[test]
fn ten_concurrent_inits_initialise_once() {
    let environment = TestEnvironment::new();
    let children: Vec<_> = (0..10)
        .map(|_| environment.start(&["init", "-f", "json"]))
        .collect();
    let mut created = 0;
    for child in children {
        let run = CliRun::from_output(child.wait_with_output().unwrap()).succeeded();
        let items = run.json()["data"]["created"].clone();
        created += usize::from(items.as_array().unwrap().contains(&"database".into()));
    }
    assert_eq!(created, 1);
    assert_eq!(count_events(&environment, "store_initialised"), 1);
}

#[test]
fn commands_work_without_init_and_remove_their_locks() {
    for arguments in [
        &["info"][..],
        &["gc"],
        &["backup"],
        &["gc", "--dry-run"],
        &["init"],
    ] {
        let environment = TestEnvironment::new();
        environment.run(arguments).succeeded();
        let left = std::fs::read_dir(environment.path(".cleveragents/run")).unwrap();
        assert_eq!(left.count(), 0, "{arguments:?}");
        assert!(environment.path(".cleveragents/cleveragents.db").is_file());
    }
}

#[test]
fn a_backup_restored_elsewhere_has_the_same_contents() {
    let environment = TestEnvironment::new();
    environment.run(&["init"]).succeeded();
    environment.run(&["backup"]).succeeded();
    let written = json_data(&environment, &["backup", "mine.tar"]);
    assert_eq!(written["contents"]["events"], 2);
    let here = json_data(&environment, &["info"])["statistics"].clone();
    let elsewhere = ["--data-dir", "elsewhere"];
    let restored = json_data(
        &environment,
        &[&["restore", "mine.tar"][..], &elsewhere].concat(),
    );
    assert_eq!(restored["verified"]["streams"], 1);
    assert_eq!(restored["contents"], written["contents"]);
    let there =
        json_data(&environment, &[&["info"][..], &elsewhere].concat())["statistics"].clone();
    for what in ["events", "streams", "plans", "actions", "blobs"] {
        // Equal, because one journal has the event of the backup and the other that of the restore.
        assert_eq!(here[what], there[what], "{what}");
    }
    let health = environment.run(&[&["diagnostics", "-f", "json"][..], &elsewhere].concat());
    let health = health.json()["data"].clone();
    let journal = check(&health, "journal");
    assert_eq!(journal["status"], "ok", "{journal}");
}

#[test]
fn files_of_dead_processes_are_collected_and_recorded() {
    let environment = TestEnvironment::new();
    environment.run(&["init"]).succeeded();
    let trace = ".cleveragents/run/01JZZZZZZZ0000000000ABCDEF.lock";
    environment.write(trace, "{}");
    let would = json_data(&environment, &["gc", "--dry-run"]);
    assert_eq!(would["collected"]["dead_processes"], 1);
    assert!(environment.path(trace).exists());
    assert_eq!(
        json_data(&environment, &["gc"])["collected"],
        would["collected"]
    );
    assert!(!environment.path(trace).exists());
    assert_eq!(
        json_data(&environment, &["gc"])["collected"]["dead_processes"],
        0
    );
    assert_eq!(count_events(&environment, "garbage_collected"), 1);
}

/// Returns one check of `diagnostics`.
pub(crate) fn check(data: &Value, name: &str) -> Value {
    let checks = data["checks"].as_array().unwrap();
    let found = checks.iter().find(|check| check["name"] == name);
    found
        .unwrap_or_else(|| panic!("no {name} in {data}"))
        .clone()
}

#[test]
fn diagnostics_continues_after_a_failed_check() {
    let mut environment = TestEnvironment::new();
    environment.set_variable("PATH", crate::environment::host_path());
    let healthy = environment.run(&["diagnostics", "-f", "json"]).succeeded();
    let data = healthy.json()["data"].clone();
    assert_eq!(healthy.json()["status"], "warn");
    assert_eq!(data["has_errors"], false);
    assert_eq!(data["has_warnings"], true);
    assert_eq!(check(&data, "model_keys")["status"], "warning");
    assert_eq!(check(&data, "postgresql")["status"], "ok");

    environment.write(".cleveragents/config.toml", "[broken\n");
    let run = environment.run(&["diagnostics", "-f", "json"]);
    assert_eq!(run.code, Some(1));
    let data = run.json()["data"].clone();
    assert_eq!(check(&data, "settings")["status"], "error");
    assert_eq!(check(&data, "git")["status"], "ok");

    environment.write(".cleveragents/config.toml", "");
    environment.write(".cleveragents/cleveragents.db", "rubbish ".repeat(1000));
    let run = environment.run(&["diagnostics", "-f", "json"]);
    assert_eq!(run.code, Some(1));
    let data = run.json()["data"].clone();
    assert_eq!(check(&data, "database")["status"], "error");
    assert_eq!(check(&data, "git")["status"], "ok");
    assert_eq!(data["has_errors"], true);
}

#[test]
fn diagnostics_names_files_that_others_can_read() {
    let environment = TestEnvironment::new();
    environment.run(&["init"]).succeeded();
    let health = || json_data_of_any_exit(&environment, &["diagnostics"]);
    let private = check(&health(), "private_files");
    assert_eq!(private["status"], "ok", "{private}");
    let files = [
        environment.config_file(),
        environment.path(".cleveragents/cleveragents.db"),
    ];
    for file in &files {
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o644)).unwrap();
    }
    let open = check(&health(), "private_files");
    assert_eq!(open["status"], "warning", "{open}");
    let [settings, database] = files.map(|file| file.display().to_string());
    assert_eq!(
        open["hint"],
        format!("chmod 600 '{settings}' '{database}'"),
        "{open}"
    );
}

#[test]
fn diagnostics_verifies_the_journal_of_every_plan() {
    let environment = TestEnvironment::new();
    environment.run(&["init"]).succeeded();
    let journal = || {
        check(
            &json_data_of_any_exit(&environment, &["diagnostics"]),
            "journal",
        )
    };
    assert_eq!(journal()["detail"], "1 event in 1 stream verified");
    let plan = "01JZZZZZZZ0000000000PXANAA";
    // A forged first event of a plan.
    environment.sql(&format!(
        "INSERT INTO streams SELECT '{plan}', head_seq, head_hash FROM streams; \
         INSERT INTO events (stream, stream_seq, kind, v, at, actor, payload, payload_hash, \
         prev_hash, hash) SELECT '{plan}', stream_seq, kind, v, at, actor, payload, \
         payload_hash, prev_hash, hash FROM events"
    ));
    let altered = journal();
    assert_eq!(altered["status"], "error", "{altered}");
    let detail = altered["detail"].as_str().unwrap();
    assert!(detail.starts_with("1 of 2 streams altered"), "{detail}");
}

#[test]
fn diagnostics_names_keys_by_source_and_never_shows_them() {
    let mut environment = TestEnvironment::new();
    environment.set_variable("OPENAI_API_KEY", "sk-very-secret-indeed");
    for format in ["rich", "plain", "json", "yaml"] {
        let run = environment.run(&["diagnostics", "--offline", "-f", format]);
        let all = run.stdout + &run.stderr;
        assert!(all.contains("OPENAI_API_KEY"), "{all}");
        assert!(!all.contains("very-secret"), "{all}");
    }
}

#[test]
fn stale_leases_are_shown_with_owner_and_age() {
    let environment = TestEnvironment::new();
    environment.run(&["init"]).succeeded();
    let owner = "01JZZZZZZZ0000000000ABCDEF";
    let plan = "01JZZZZZZZ0000000000PXANAA";
    environment.sql(&format!(
        "INSERT INTO locks (name, owner, node, epoch, holds, acquired_at, expires_at) \
         VALUES ('deploy', '{owner}', 'elsewhere', 1, 1, 1000000, 2000000); \
         INSERT INTO runs (plan_id, phase, owner, node, counts, epoch, claimed_at, expires_at) \
         VALUES ('{plan}', 'execute', '{owner}', 'elsewhere', 1, 1, 1000000, 2000000)"
    ));
    let run = environment.run(&["diagnostics", "-f", "json"]);
    let data = run.json()["data"].clone();
    for (name, words) in [
        (
            "locks",
            &["`deploy`", "00abcdef", "1970-01-01T00:00:01"][..],
        ),
        (
            "runs",
            &["00pxanaa", "execute", "00abcdef", "elsewhere", "1970"],
        ),
    ] {
        let check = check(&data, name);
        assert_eq!(check["status"], "warning", "{check}");
        for word in words {
            assert!(check["detail"].as_str().unwrap().contains(word), "{check}");
        }
    }
}
