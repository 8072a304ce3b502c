//! `gc` works on a full disk.

use std::path::Path;

use serde_json::Value;

use crate::world::{AGENTS, TestWorld};

/// Moves the home onto its own small file system, fills it, and runs garbage collection.
const SCRIPT: &str = r#"
set -u
cp -a home copy && mount -t tmpfs -o size=64m tmpfs home && cp -a copy/. home/ || exit 77
cd home
"$1" plan list > ../list 2>&1 || exit 1
"$1" plan execute "$2" > ../execute 2>&1
"$1" plan cancel "$2" > ../cancel 2>&1 || exit 2
cat /dev/zero > fill 2> /dev/null
"$1" sandbox gc --format json > ../sandboxes 2> ../sandboxes.err; echo $? > ../sandboxes.exit
"$1" gc --format json > ../collected 2> ../collected.err; echo $? > ../collected.exit
"#;

#[test]
fn garbage_collection_works_on_a_full_disk() {
    let world = TestWorld::new();
    world.define_worker(
        "- {tool: builtin/shell, input: {command: 'head -c 3000000 /dev/urandom > big'}}\n",
    );
    world.define_worker_job("");
    let plan = world.create_plan(crate::world::TRUSTED);
    world.execute(&plan).succeeded();
    let is_root = rustix::process::getuid().is_root();
    let namespace = if is_root { "-m" } else { "-rm" };
    let words = [
        namespace,
        "--propagation",
        "private",
        "sh",
        "-c",
        SCRIPT,
        "sh",
        AGENTS,
        &plan,
    ];
    let mut script = world.other_program(Path::new("unshare"), &words);
    let ended = script.current_dir(world.path("")).output();
    let code = ended.as_ref().ok().and_then(|it| it.status.code());
    if code != Some(0) && !world.path("sandboxes.exit").exists() {
        // Without its own file system there is no disk that may be filled.
        let message = format!("not tried on a full disk: {ended:?}\n");
        return std::io::Write::write_all(&mut std::io::stderr(), message.as_bytes()).unwrap();
    }
    for name in ["sandboxes", "collected"] {
        let (exit, said) = (
            world.read(&format!("{name}.exit")),
            world.read(&format!("{name}.err")),
        );
        assert_eq!(exit.trim(), "0", "{name}: {said}");
    }
    let swept: Value = serde_json::from_str(&world.read("sandboxes")).unwrap();
    assert_eq!(swept["data"]["summary"]["removed"], 1, "{swept}");
}
