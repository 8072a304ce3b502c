//! Measures the cost of a tool call in the program itself: CPU time and durable commits, from
//! outside, as the difference between plans with many and with few calls.

use std::path::Path;
use std::sync::Arc;

use cleveragents_integration_tests::Backend;
use cleveragents_ports::system::SystemClock;
use rustix::process::{Resource, getrlimit};
use serde_json::{Value, json};

use crate::program::{DATA, children_cpu_ms, command, commit, run, write_file};

const FILES: usize = 300;
const FEW: usize = 10;
const MANY: usize = 210;

/// An actor that edits files one after another with this many calls.
fn actor(calls: usize) -> String {
    let mut text =
        String::from("name: local/editor\ntype: tool\ndescription: Edits many times\nsteps:\n");
    for call in 0..calls {
        let file = call % FILES;
        text.push_str(&format!(
            "  - {{tool: builtin/file-edit, input: {{path: file-{file}.txt, old: \"line\", new: \"line {call} \", all: true}}}}\n"
        ));
    }
    text
}

const ACTION: &str = "name: local/edit\ndescription: Edit\ndefinition_of_done: Edited\n\
                      strategy_actor: builtin/direct\nexecution_actor: local/editor\n";

pub(crate) fn measure(agents: &Path) -> Value {
    // Recorded so that a machine with too few file descriptors shows here rather than in the
    // results.
    let files = getrlimit(Resource::Nofile).current;
    let few = measure_execute(agents, FEW);
    let many = measure_execute(agents, MANY);
    let calls = f64::from(u32::try_from(MANY - FEW).expect("few calls"));
    let cpu = (many.cpu_ms - few.cpu_ms) / calls;
    let wall = (many.wall_ms - few.wall_ms) / calls;
    let events = (many.events - few.events) / calls;
    let commits = (many.commits - few.commits) / calls;
    println!(
        "\na tool call on {FILES} files: {cpu:.2} ms of own processor time, {wall:.2} ms in all,"
    );
    println!("{events:.1} events in {commits:.2} durable commits");
    json!({
        "cpu_ms": cpu,
        "wall_ms": wall,
        "events": events,
        "commits": commits,
        "open_files": files,
    })
}

struct CallCost {
    cpu_ms: f64,
    wall_ms: f64,
    events: f64,
    commits: f64,
}

/// The number of transactions that SQLite has committed to the log of `database` since its
/// creation. SQLite counts them in the header of the WAL index, which exists while the database is
/// open.
fn commits(database: &Path) -> f64 {
    const COUNTER: std::ops::Range<usize> = 8..12;
    let index = database.with_extension("db-shm");
    let header = std::fs::read(index).expect("somebody has the database open");
    let counter = header[COUNTER].try_into().expect("four bytes");
    f64::from(u32::from_ne_bytes(counter))
}

/// Creates a plan with this many calls on a repository below `home`; returns its id.
fn create_plan(agents: &Path, home: &Path, calls: usize) -> String {
    let repository = home.join("repository");
    std::fs::create_dir(&repository).expect("a folder");
    for number in 0..FILES {
        write_file(
            &repository.join(format!("file-{number}.txt")),
            &"line\n".repeat(40),
        );
    }
    write_file(&home.join("actor.yaml"), &actor(calls));
    write_file(&home.join("action.yaml"), ACTION);
    commit(&repository, home);
    for arguments in [
        &["actor", "add", "--config", "actor.yaml"][..],
        &["action", "create", "--config", "action.yaml"],
        &["project", "create", "local/shop", "--path", "repository"],
    ] {
        run(command(agents).args(arguments).current_dir(home), home);
    }
    let made = run(
        command(agents)
            .args([
                "plan",
                "use",
                "local/edit",
                "local/shop",
                "--automation-profile",
                "trusted",
            ])
            .args(["--format", "json"])
            .current_dir(home),
        home,
    );
    let made: Value = serde_json::from_slice(&made).expect("an envelope");
    made["data"]["plan_id"].as_str().expect("an id").to_owned()
}

fn measure_execute(agents: &Path, calls: usize) -> CallCost {
    let folder = tempfile::tempdir().expect("a folder");
    let home = folder.path();
    let plan = create_plan(agents, home, calls);
    let data = home.join(DATA);
    // Kept open so that SQLite's counter survives when the program closes the database.
    let clock = Arc::new(SystemClock);
    let open =
        cleveragents_integration_tests::test_database::open(Backend::Sqlite, &data, None, clock);
    let open = open.expect("the database opens");
    let database = data.join("cleveragents.db");
    let mut execute = command(agents);
    execute.args(["plan", "execute", &plan]).current_dir(home);
    execute.env("CLEVERAGENTS_DATA_DIR", &data);
    let before = (children_cpu_ms(), commits(&database));
    let wall_ms = crate::time(|| {
        // A gate of the profile is not a failure here: the second `execute` continues.
        let first = execute.env("HOME", home).output().expect("it runs");
        if first.status.code() == Some(5) {
            run(&mut execute, home);
        }
    });
    let (cpu_ms, commits) = (children_cpu_ms() - before.0, commits(&database) - before.1);
    drop(open);
    let log = run(
        command(agents)
            .args(["plan", "log", &plan, "--format", "json"])
            .current_dir(home),
        home,
    );
    let log: Value = serde_json::from_slice(&log).expect("an envelope");
    let events = log["data"]["head"]["plan_seq"].as_i64().expect("a number");
    CallCost {
        cpu_ms,
        wall_ms,
        events: f64::from(i32::try_from(events).expect("few events")),
        commits,
    }
}
