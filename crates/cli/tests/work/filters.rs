//! Plans on a repository with files of Git LFS, with and without leave to change them.

use crate::models::{finish, strategy, text_of, turn};
use crate::world::{ALONE, Run, World};

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
fn without_leave_a_change_of_a_large_file_is_refused_by_name() {
    let world = shop();
    for change in [
        POINTER,
        "- {tool: builtin/file-write, input: {path: y.bin, content: pixels}}\n",
        "- {tool: builtin/shell, input: {command: 'echo 2 > x.bin; echo 2 >> a'}}\n",
    ] {
        world.worker(change);
        world.job("");
        let plan = world.plan(ALONE);
        let run = world.execute(&plan).exits(1).stands("execute/errored");
        run.says(".bin").says("`sandbox.allow-filters`");
        // What was refused is not in the sandbox either.
        let files = world.sandbox_files(&plan);
        assert_eq!(files["x.bin"], format!("0 {}", pointer(7)), "{change}");
        assert!(!files.contains_key("y.bin"), "{change}");
        world.apply(&plan).exits(4);
    }
    let plan = world.executed("- {tool: builtin/file-delete, input: {path: x.bin}}\n");
    is_blocked_by_filter(world.apply(&plan));
    assert_eq!(world.read("shop/x.bin"), "content\n");
    assert_eq!(world.dirt("shop"), "");
}

/// Recording such files is impossible, and leaving them out in silence would lose them.
#[test]
fn files_too_many_folders_deep_are_refused_by_name() {
    let world = World::new();
    let path = vec!["d"; 250].join("/");
    let command = format!("mkdir -p {path}; echo 1 > {path}/x");
    world.worker(&format!(
        "- {{tool: builtin/shell, input: {{command: '{command}'}}}}\n"
    ));
    world.job("");
    let plan = world.plan(ALONE);
    let run = world.execute(&plan).exits(1).stands("execute/errored");
    run.says("Refused: d/d").says("nested 200 deep");
    assert!(
        !world
            .sandbox_files(&plan)
            .keys()
            .any(|it| it.starts_with("d/"))
    );
    world.apply(&plan).exits(4);
}

#[test]
fn a_model_that_finishes_after_a_refusal_leaves_a_plan_that_lists_it() {
    let world = shop();
    let turns = [
        strategy(&["One"]),
        turn(&[("shell", "{command: 'echo 2 > x.bin; echo new > new'}")]),
        finish("Done"),
    ];
    world.thinker("coder", &turns.concat(), "");
    world.thought_job("local/coder", "local/coder", "");
    let plan = world.plan(ALONE);
    let run = world.execute(&plan).exits(7).stands("execute/constrained");
    run.says("x.bin").says("sandbox.allow-filters");
    // The model was told as well, before it finished.
    let asked = world.asked(&plan);
    let told = text_of(asked.last().unwrap());
    assert!(told.contains("Refused: x.bin"), "{told}");
    world.apply(&plan).exits(4);
    // The user has seen it and goes on without it.
    world.execute(&plan).succeeded().stands("execute/complete");
    world.apply(&plan).succeeded().stands("apply/applied");
    assert_eq!(world.read("shop/x.bin"), "content\n");
    assert_eq!(world.read("shop/new"), "new\n");
}

/// A shop with a submodule that is checked out.
fn shop_with_submodule() -> World {
    let world = World::new();
    world.repository("inner");
    let (shop, inner) = (world.path("shop"), world.path("inner"));
    let allow = "protocol.file.allow=always";
    let add = [
        "-c",
        allow,
        "submodule",
        "--quiet",
        "add",
        inner.to_str().unwrap(),
        "sub",
    ];
    world.git(&shop, &add);
    world.commit("shop", "a submodule");
    world
}

#[test]
fn a_change_inside_a_submodule_is_refused_by_name() {
    let world = shop_with_submodule();
    world.worker("- {tool: builtin/shell, input: {command: 'echo 2 > sub/a; echo 2 >> a'}}\n");
    world.job("");
    let plan = world.plan(ALONE);
    let run = world.execute(&plan).exits(1).stands("execute/errored");
    run.says("sub").says("inside submodules");
    assert!(!world.sandbox_files(&plan).contains_key("sub/a"));
    world.apply(&plan).exits(4);
}

#[test]
fn a_plan_removes_a_submodule_and_leaves_the_users_files_of_it() {
    for change in [
        "- {tool: builtin/dir-delete, input: {path: sub}}\n\
         - {tool: builtin/file-delete, input: {path: .gitmodules}}\n",
        "- {tool: builtin/shell, input: {command: 'rm -rf sub .gitmodules'}}\n",
    ] {
        let world = shop_with_submodule();
        let shop = world.path("shop");
        world.write("shop/sub/mine", "mine\n");
        let entries = ["ls-tree", "--name-only", "HEAD", "sub", ".gitmodules"];
        let before = world.git(&shop, &entries);
        assert_eq!(before, ".gitmodules\nsub\n");
        let plan = world.executed(change);
        world.apply(&plan).succeeded().stands("apply/applied");
        assert_eq!(world.git(&shop, &entries), "", "{change}");
        assert_eq!(world.read("shop/sub/mine"), "mine\n");
        assert_eq!(world.dirt("shop"), "?? sub/\n");
        world.ask(&["plan", "unapply", &plan]).succeeded();
        assert_eq!(world.git(&shop, &entries), before, "{change}");
        assert_eq!(world.read("shop/sub/mine"), "mine\n");
    }
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
    // What is no pointer is refused all the same.
    world.worker("- {tool: builtin/file-write, input: {path: y.bin, content: pixels}}\n");
    world.job("");
    let plan = world.plan(ALONE);
    let run = world.execute(&plan).exits(1).stands("execute/errored");
    run.says("y.bin");
}
