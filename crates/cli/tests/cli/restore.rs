//! Restores that are blocked.

use std::process::Child;

use rustix::process::{Pid, Signal, kill_process};

use crate::data_directory::json_data;
use crate::environment::{CliRun, TestEnvironment};

fn with_backup() -> TestEnvironment {
    let environment = TestEnvironment::new();
    environment.run(&["init"]).succeeded();
    environment.run(&["backup", "saved.tar"]).succeeded();
    environment
}

fn event_count(environment: &TestEnvironment) -> i64 {
    let info = json_data(environment, &["info"]);
    info["statistics"]["events"].as_i64().unwrap()
}

#[test]
fn a_damaged_backup_is_refused_and_changes_nothing() {
    let environment = with_backup();
    let whole = std::fs::read(environment.path("work/saved.tar")).unwrap();
    let events = event_count(&environment);
    let mut altered = whole.clone();
    let word = b"store_initialised";
    let place = whole.windows(word.len()).position(|part| part == word);
    altered[place.unwrap()] ^= 0x20;
    let cases = [
        ("cut off", whole[..whole.len() / 2].to_vec()),
        ("without its end", whole[..whole.len() - 2048].to_vec()),
        ("altered", altered),
        ("empty", Vec::new()),
        ("something else", b"not a backup ".repeat(100)),
    ];
    for (about, bytes) in cases {
        environment.write("work/wrong.tar", bytes);
        for force in [&[][..], &["--force"]] {
            let run = environment.run(&[&["restore", "wrong.tar"][..], force].concat());
            assert_eq!(run.code, Some(1), "{about}: {run:?}");
            assert!(run.stderr.contains("is not a complete backup"), "{run:?}");
            assert!(run.stderr.contains("nothing was changed"), "{run:?}");
        }
    }
    assert_eq!(event_count(&environment), events);
    assert!(!environment.path(".cleveragents/backups").exists());
}

#[test]
fn a_backup_of_an_altered_journal_is_refused_unless_accepted() {
    let environment = TestEnvironment::new();
    environment.run(&["init"]).succeeded();
    environment.sql("UPDATE events SET actor = 'somebody else'");
    environment.run(&["backup", "altered.tar"]).succeeded();
    let elsewhere = ["restore", "altered.tar", "--data-dir", "elsewhere"];
    let refused = environment.run(&[&elsewhere[..], &["-f", "json"]].concat());
    assert_eq!(refused.code, Some(1), "{refused:?}");
    let data = refused.json()["data"].clone();
    assert_eq!(data["error"]["kind"], "backup_altered", "{data}");
    assert!(data["previous_saved_to"].is_null(), "{data}");
    let accept = [&elsewhere[..], &["--accept-altered", "-f", "json"]].concat();
    let accepted = environment.run(&accept).succeeded().json();
    assert_eq!(accepted["status"], "warn", "{accepted}");
    let faults = accepted["data"]["verified"]["faults"].as_array().unwrap();
    assert_eq!(faults.len(), 1, "{accepted}");
}

#[test]
fn a_failure_names_what_was_saved_before_it() {
    let environment = TestEnvironment::new();
    environment.run(&["init"]).succeeded();
    environment.sql("UPDATE events SET actor = 'somebody else'");
    environment.run(&["backup", "altered.tar"]).succeeded();
    let events = event_count(&environment);
    let refused = environment.run(&["restore", "altered.tar", "--force", "-f", "json"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    let data = refused.json()["data"].clone();
    let saved = data["previous_saved_to"].as_str().unwrap();
    assert!(std::path::Path::new(saved).is_file(), "{saved}");
    assert!(
        data["error"]["causes"].to_string().contains(saved),
        "{data}"
    );
    assert_eq!(event_count(&environment), events);
}

#[test]
fn force_backs_up_the_existing_data() {
    let environment = with_backup();
    environment.run(&["backup", "second.tar"]).succeeded();
    let refused = environment.run(&["restore", "saved.tar"]);
    assert_eq!(refused.code, Some(4), "{refused:?}");
    assert!(refused.stderr.contains("it holds 3 events"), "{refused:?}");
    assert!(refused.stderr.contains("--force"), "{refused:?}");
    let restored = json_data(&environment, &["restore", "saved.tar", "--force"]);
    assert_eq!(event_count(&environment), 2);
    let saved = restored["previous_saved_to"].as_str().unwrap();
    json_data(&environment, &["restore", saved, "--force"]);
    assert_eq!(event_count(&environment), 4);
}

#[test]
fn a_damaged_database_is_set_aside_when_replaced() {
    for about in ["rubbish", "flipped bytes"] {
        let environment = with_backup();
        let file = environment.path(".cleveragents/cleveragents.db");
        let mut bytes = std::fs::read(&file).unwrap();
        match about {
            "rubbish" => bytes = b"rubbish ".repeat(1000),
            _ => {
                let (start, end) = (bytes.len() / 10, bytes.len() * 9 / 10);
                bytes[start..end].iter_mut().for_each(|byte| *byte ^= 0xa5);
            }
        }
        environment.write(".cleveragents/cleveragents.db", &bytes);
        let refused = environment.run(&["restore", "saved.tar"]);
        assert_eq!(refused.code, Some(1), "{about}: {refused:?}");
        assert_eq!(std::fs::read(&file).unwrap(), bytes);
        let restored = json_data(&environment, &["restore", "saved.tar", "--force"]);
        let aside = restored["previous_set_aside"].as_str();
        assert_eq!(event_count(&environment), 2);
        assert_eq!(std::fs::read(aside.unwrap()).unwrap(), bytes, "{about}");
    }
}

#[test]
fn the_process_that_blocks_a_restore_is_named() {
    let environment = with_backup();
    let holder = stop_process_with_open_database(&environment);
    let run = environment.run(&["restore", "saved.tar", "--force", "--yes"]);
    let pid = holder.id();
    send_signal(&holder, Signal::KILL);
    CliRun::from_output(holder.wait_with_output().unwrap());
    assert_eq!(run.code, Some(75), "{run:?}");
    let name = format!("`agents backup` (pid {pid})");
    assert!(run.stderr.contains(&name), "{run:?}");
    // A killed process no longer blocks.
    json_data(&environment, &["restore", "saved.tar", "--force"]);
}

/// Returns one of our processes, stopped while it has the database open.
fn stop_process_with_open_database(environment: &TestEnvironment) -> Child {
    for attempt in 0..1000 {
        let file = format!("try-{attempt}.tar");
        let mut child = environment.start(&["backup", &file]);
        while child.try_wait().unwrap().is_none() && !has_database_open(&child) {
            std::thread::yield_now();
        }
        if child.try_wait().unwrap().is_some() {
            continue;
        }
        send_signal(&child, Signal::STOP);
        if wait_until_stopped(&mut child) && has_database_open(&child) {
            return child;
        }
        send_signal(&child, Signal::KILL);
        child.wait().unwrap();
    }
    panic!("no process was caught with the database open");
}

/// Waits until the process is stopped; returns false if it exited first.
fn wait_until_stopped(child: &mut Child) -> bool {
    loop {
        if child.try_wait().unwrap().is_some() {
            return false;
        }
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
        if stat.contains(") T ") {
            return true;
        }
        std::thread::yield_now();
    }
}

/// Returns whether the process has `writer.lock` open, which it opens after it holds `schema.lock`.
fn has_database_open(child: &Child) -> bool {
    let Ok(files) = std::fs::read_dir(format!("/proc/{}/fd", child.id())) else {
        return false;
    };
    files.flatten().any(|file| {
        std::fs::read_link(file.path()).is_ok_and(|target| target.ends_with("writer.lock"))
    })
}

fn send_signal(child: &Child, signal: Signal) {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    kill_process(pid.unwrap(), signal).unwrap();
}
