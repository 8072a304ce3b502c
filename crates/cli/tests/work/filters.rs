//! Plans on a repository with files of Git LFS, with and without leave to change them.

use crate::world::{Run, World};

/// Gives git a pointer for whatever is no pointer.
const CLEAN: &str = r#"#!/bin/sh
content=$(cat; echo .)
case "$content" in
version*) printf %s "${content%.}" ;;
*) printf 'version https://git-lfs.github.com/spec/v1\noid sha256:HASH\nsize 7\n' ;;
esac
"#;
const SMUDGE: &str = "#!/bin/sh\ncat > /dev/null\necho content\n";

fn pointer(size: u8) -> String {
    let hash = "a".repeat(64);
    format!("version https://git-lfs.github.com/spec/v1\noid sha256:{hash}\nsize {size}\n")
}

/// A shop with a file of Git LFS, as people see it.
fn shop() -> World {
    let world = World::new();
    let shop = world.path("shop");
    world.write("clean", &CLEAN.replace("HASH", &"a".repeat(64)));
    world.write("smudge", SMUDGE);
    for name in ["clean", "smudge"] {
        world.set_mode(name, 0o755);
        let program = world.path(name);
        let key = format!("filter.lfs.{name}");
        world.git(&shop, &["config", &key, program.to_str().unwrap()]);
    }
    world.write("shop/.gitattributes", "*.bin filter=lfs -text\n");
    world.write("shop/x.bin", "content\n");
    world.commit("shop", "a large file");
    let stored = ["cat-file", "blob", "HEAD:x.bin"];
    assert_eq!(world.git(&shop, &stored), pointer(7));
    world
}

/// The files in the checkout become what git stores.
fn unsmudge(world: &World) {
    let shop = world.path("shop");
    world.git(&shop, &["config", "filter.lfs.smudge", "cat"]);
    std::fs::remove_file(world.path("shop/x.bin")).unwrap();
    world.git(&shop, &["checkout", "-q", "x.bin"]);
    assert_eq!(world.read("shop/x.bin"), pointer(7));
}

#[track_caller]
fn is_blocked_by_filter(run: Run) {
    let data = run.exits(4).stands("apply/constrained").data();
    let conflict = &data["conflicts"][0];
    assert_eq!(conflict["path"], "x.bin", "{data}");
    let reason = conflict["reason"].as_str().unwrap();
    assert!(reason.contains("`filter=lfs`"), "{reason}");
    assert_eq!(data["conflicts"].as_array().unwrap().len(), 1, "{data}");
}

const ELSEWHERE: &str = "\
- {tool: builtin/file-read, input: {path: x.bin}}
- {tool: builtin/file-edit, input: {path: a, old: '2', new: two}}
";

const POINTER: &str = "\
- {tool: builtin/file-edit, input: {path: x.bin, old: 'size 7', new: 'size 8'}}
- {tool: builtin/file-edit, input: {path: a, old: '2', new: two}}
";

#[test]
fn a_plan_that_leaves_large_files_alone_needs_no_leave() {
    let world = shop();
    let plan = world.executed(ELSEWHERE);
    assert_eq!(
        world.sandbox_files(&plan)["x.bin"],
        format!("0 {}", pointer(7))
    );
    world.apply(&plan).succeeded().stands("apply/applied");
    assert_eq!(world.read("shop/x.bin"), "content\n");
    assert_eq!(world.dirt("shop"), "");
    assert!(world.read("shop/a").contains("two"));
}

#[test]
fn without_leave_large_files_stay_as_they_are() {
    let world = shop();
    let plan = world.executed(POINTER);
    let ended = world.told(&plan, "tool_completed");
    assert_eq!(ended[0]["payload"]["omitted"][0], "x.bin", "{ended:?}");
    let changed = world.data(&["plan", "artifacts", &plan]).to_string();
    assert!(!changed.contains("x.bin"), "{changed}");
    world.apply(&plan).succeeded().stands("apply/applied");
    assert_eq!(world.read("shop/x.bin"), "content\n");
    let plan = world.executed("- {tool: builtin/file-delete, input: {path: x.bin}}\n");
    is_blocked_by_filter(world.apply(&plan));
    assert_eq!(world.read("shop/x.bin"), "content\n");
    assert_eq!(world.dirt("shop"), "");
}

#[test]
fn with_leave_pointers_are_changed_where_no_content_is_overwritten() {
    let world = shop();
    let key = "sandbox.allow-filters";
    for (value, code) in [("a b", 2), ("lfs,", 2), ("lfs", 0)] {
        world.run(&["config", "set", key, value]).exits(code);
    }
    let plan = world.executed(POINTER);
    let diff = world.data(&["plan", "diff", &plan, "--patch"]).to_string();
    assert!(
        diff.contains("-size 7") && diff.contains("+size 8"),
        "{diff}"
    );
    is_blocked_by_filter(world.apply(&plan));
    assert_eq!(world.read("shop/x.bin"), "content\n");
    assert_eq!(world.dirt("shop"), "");
    unsmudge(&world);
    world.apply(&plan).succeeded().stands("apply/applied");
    assert_eq!(world.read("shop/x.bin"), pointer(8));
    assert_eq!(world.dirt("shop"), "");
    // What is no pointer is left out, and what else the plan did comes home.
    let plan = world.executed(
        "- {tool: builtin/file-write, input: {path: y.bin, content: pixels}}\n\
         - {tool: builtin/file-write, input: {path: new, content: new}}\n",
    );
    world.apply(&plan).succeeded().stands("apply/applied");
    assert!(world.path("shop/new").exists() && !world.path("shop/y.bin").exists());
}
