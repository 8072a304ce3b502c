//! Compares the time of a sandbox with git's own ways: `cargo run --release -p cleveragents-sandbox
//! --example measure -- 20000`. Times of one run on one machine, as ratios.

#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a program to be read and run by hand"
)]

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use cleveragents_domain::{AbsolutePath, BaseSource, ResourcePath, ResourceType};
use cleveragents_ports::sandbox::{NewSandbox, Sandboxes, TouchedPaths};
use cleveragents_ports::stop::StopSignal;
use cleveragents_sandbox::{GitSettings, LocalSandboxes};

fn main() {
    let files: usize = std::env::args()
        .nth(1)
        .map_or(20_000, |it| it.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let user = root.join("user");
    make_repository(&user, files);
    let sandboxes = open_sandboxes(&root);
    let new = NewSandbox {
        id: "01JZZZZZZZ0000000000000001".parse().unwrap(),
        plan: "01JZZZZZZZ0000000000000002".parse().unwrap(),
        resource: AbsolutePath::from_bytes(user.to_str().unwrap()).unwrap(),
        resource_type: ResourceType::GitCheckout,
        base: BaseSource::Head,
        trusted_includes: Vec::new(),
    };
    let worktree = root.join("worktree");
    let target = worktree.to_str().unwrap();
    let add = ["worktree", "add", "-q", "--detach", target];
    let theirs = measure_time("git worktree add", || git(&user, &add));
    let ours = measure_time("create", || drop(sandboxes.create(&new).unwrap()));
    print_ratio(ours, theirs);

    let mut sandbox = sandboxes.open(new.id).unwrap();
    let mut tree = sandbox.base().clone();
    let change = |folder: &Path| std::fs::write(folder.join("dir1/file1"), "changed\n").unwrap();
    change(&worktree);
    let theirs = measure_time("git add -A && git write-tree", || {
        git(&worktree, &["add", "-A"]);
        git(&worktree, &["write-tree"]);
    });
    change(sandbox.tree());
    let touched = TouchedPaths::Paths(vec![ResourcePath::from_bytes("dir1/file1").unwrap()]);
    let ours = measure_time("capture, path known", || {
        tree = sandbox
            .capture(&tree, &touched, &StopSignal::new())
            .unwrap()
            .tree
    });
    print_ratio(ours, theirs);
    std::fs::write(sandbox.tree().join("dir1/file1"), "changed again\n").unwrap();
    let ours = measure_time("capture, nothing known", || {
        tree = sandbox
            .capture(&tree, &TouchedPaths::Unknown, &StopSignal::new())
            .unwrap()
            .tree;
    });
    print_ratio(ours, theirs);
    let base = sandbox.base().clone();
    measure_time("restore", || {
        sandbox.restore(&base, &StopSignal::new()).unwrap()
    });
    measure_time("discard", || {
        sandboxes.discard(new.id).unwrap();
    });
}

fn open_sandboxes(root: &Path) -> LocalSandboxes {
    let settings = GitSettings {
        program: "git".into(),
        search_path: "/usr/local/bin:/usr/bin:/bin".into(),
        home: root.join("home"),
        timeout: Duration::from_secs(600),
    };
    LocalSandboxes::open(&root.join("data"), settings).unwrap()
}

fn make_repository(path: &Path, files: usize) {
    for number in 0..files {
        let folder = path.join(format!("dir{}", number / 50));
        std::fs::create_dir_all(&folder).unwrap();
        let content = format!("file {number}\n").repeat(40);
        std::fs::write(folder.join(format!("file{number}")), content).unwrap();
    }
    git(path, &["init", "-q", "-b", "main"]);
    git(path, &["add", "-A"]);
    git(path, &["commit", "-q", "-m", "all"]);
}

fn git(folder: &Path, arguments: &[&str]) {
    let settings = [
        "-c",
        "user.name=U",
        "-c",
        "user.email=u@localhost",
        "-c",
        "gc.auto=0",
    ];
    let mut command = Command::new("git");
    command.args(settings).args(arguments).current_dir(folder);
    assert!(command.output().unwrap().status.success(), "{arguments:?}");
}

fn measure_time(what: &str, work: impl FnOnce()) -> Duration {
    let begun = Instant::now();
    work();
    let took = begun.elapsed();
    println!("{what:32} {:8.1} ms", took.as_secs_f64() * 1000.0);
    took
}

fn print_ratio(ours: Duration, theirs: Duration) {
    println!(
        "{:32} {:8.2} ×",
        "  ours / theirs",
        ours.as_secs_f64() / theirs.as_secs_f64()
    );
}
