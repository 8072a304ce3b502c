//! Plans on a repository with Git LFS files, with and without permission to change them.

use crate::models::{finish, messages_text, strategy, turn};
use crate::world::{AgentsRun, TRUSTED, TestWorld};

/// A clean filter that turns every file into a pointer, unless it is one.
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

/// A repository with an LFS file, checked out with its content.
fn world_with_lfs() -> TestWorld {
    let world = TestWorld::new();
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

/// Replaces the file in the checkout with its pointer.
fn check_out_pointer(world: &TestWorld) {
    let shop = world.path("shop");
    world.git(&shop, &["config", "filter.lfs.smudge", "cat"]);
    std::fs::remove_file(world.path("shop/x.bin")).unwrap();
    world.git(&shop, &["checkout", "-q", "x.bin"]);
    assert_eq!(world.read("shop/x.bin"), pointer(7));
}

#[track_caller]
fn assert_blocked_by_filter(run: AgentsRun) {
    let data = run.exits(4).reports_state("apply/constrained").data();
    let conflict = &data["conflicts"][0];
    assert_eq!(conflict["path"], "x.bin", "{data}");
    let reason = conflict["reason"].as_str().unwrap();
    assert!(reason.contains("`filter=lfs`"), "{reason}");
    assert_eq!(data["conflicts"].as_array().unwrap().len(), 1, "{data}");
}

const EDIT_OTHER_FILE: &str = "\
- {tool: builtin/file-read, input: {path: x.bin}}
- {tool: builtin/file-edit, input: {path: a, old: '2', new: two}}
";

const EDIT_POINTER: &str = "\
- {tool: builtin/file-edit, input: {path: x.bin, old: 'size 7', new: 'size 8'}}
- {tool: builtin/file-edit, input: {path: a, old: '2', new: two}}
";

#[test]
fn a_plan_without_lfs_changes_needs_no_permission() {
    let world = world_with_lfs();
    let plan = world.create_executed_plan(EDIT_OTHER_FILE);
    assert_eq!(
        world.sandbox_files(&plan)["x.bin"],
        format!("0 {}", pointer(7))
    );
    world
        .apply(&plan)
        .succeeded()
        .reports_state("apply/applied");
    assert_eq!(world.read("shop/x.bin"), "content\n");
    assert_eq!(world.git_status("shop"), "");
    assert!(world.read("shop/a").contains("two"));
}

#[test]
fn an_lfs_change_without_permission_is_refused() {
    let world = world_with_lfs();
    for change in [
        EDIT_POINTER,
        "- {tool: builtin/file-write, input: {path: y.bin, content: pixels}}\n",
        "- {tool: builtin/shell, input: {command: 'echo 2 > x.bin; echo 2 >> a'}}\n",
    ] {
        world.define_worker(change);
        world.define_worker_job("");
        let plan = world.create_plan(TRUSTED);
        let run = world
            .execute(&plan)
            .exits(1)
            .reports_state("execute/errored");
        run.prints(".bin").prints("`sandbox.allow-filters`");
        // The refused change is not in the sandbox either.
        let files = world.sandbox_files(&plan);
        assert_eq!(files["x.bin"], format!("0 {}", pointer(7)), "{change}");
        assert!(!files.contains_key("y.bin"), "{change}");
        world.apply(&plan).exits(4);
    }
    let plan = world.create_executed_plan("- {tool: builtin/file-delete, input: {path: x.bin}}\n");
    assert_blocked_by_filter(world.apply(&plan));
    assert_eq!(world.read("shop/x.bin"), "content\n");
    assert_eq!(world.git_status("shop"), "");
}

/// Such files cannot be recorded, and silently leaving them out would lose them.
#[test]
fn too_deeply_nested_files_are_refused() {
    let world = TestWorld::new();
    let path = vec!["d"; 250].join("/");
    let command = format!("mkdir -p {path}; echo 1 > {path}/x");
    world.define_worker(&format!(
        "- {{tool: builtin/shell, input: {{command: '{command}'}}}}\n"
    ));
    world.define_worker_job("");
    let plan = world.create_plan(TRUSTED);
    let run = world
        .execute(&plan)
        .exits(1)
        .reports_state("execute/errored");
    run.prints("Refused: d/d").prints("nested 200 deep");
    assert!(
        !world
            .sandbox_files(&plan)
            .keys()
            .any(|it| it.starts_with("d/"))
    );
    world.apply(&plan).exits(4);
}

#[test]
fn a_plan_lists_a_refused_change_after_finish() {
    let world = world_with_lfs();
    let turns = [
        strategy(&["One"]),
        turn(&[("shell", "{command: 'echo 2 > x.bin; echo new > new'}")]),
        finish("Done"),
    ];
    world.define_llm_actor("coder", &turns.concat(), "");
    world.define_llm_job("local/coder", "local/coder", "");
    let plan = world.create_plan(TRUSTED);
    let run = world
        .execute(&plan)
        .exits(7)
        .reports_state("execute/constrained");
    run.prints("x.bin").prints("sandbox.allow-filters");
    // The model was informed too, before it finished.
    let model_calls = world.model_calls(&plan);
    let prompt_text = messages_text(model_calls.last().unwrap());
    assert!(prompt_text.contains("Refused: x.bin"), "{prompt_text}");
    world.apply(&plan).exits(4);
    // The user accepts this and continues without it.
    world
        .execute(&plan)
        .succeeded()
        .reports_state("execute/complete");
    world
        .apply(&plan)
        .succeeded()
        .reports_state("apply/applied");
    assert_eq!(world.read("shop/x.bin"), "content\n");
    assert_eq!(world.read("shop/new"), "new\n");
}

/// A repository with a checked-out submodule.
fn shop_with_submodule() -> TestWorld {
    let world = TestWorld::new();
    world.create_repository("inner");
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
fn a_change_inside_a_submodule_is_refused() {
    let world = shop_with_submodule();
    world.define_worker(
        "- {tool: builtin/shell, input: {command: 'echo 2 > sub/a; echo 2 >> a'}}\n",
    );
    world.define_worker_job("");
    let plan = world.create_plan(TRUSTED);
    let run = world
        .execute(&plan)
        .exits(1)
        .reports_state("execute/errored");
    run.prints("sub").prints("inside submodules");
    assert!(!world.sandbox_files(&plan).contains_key("sub/a"));
    world.apply(&plan).exits(4);
}

#[test]
fn removing_a_submodule_keeps_its_files() {
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
        let plan = world.create_executed_plan(change);
        world
            .apply(&plan)
            .succeeded()
            .reports_state("apply/applied");
        assert_eq!(world.git(&shop, &entries), "", "{change}");
        assert_eq!(world.read("shop/sub/mine"), "mine\n");
        assert_eq!(world.git_status("shop"), "?? sub/\n");
        world.run_json(&["plan", "unapply", &plan]).succeeded();
        assert_eq!(world.git(&shop, &entries), before, "{change}");
        assert_eq!(world.read("shop/sub/mine"), "mine\n");
    }
}

#[test]
fn lfs_pointers_are_changed_with_permission() {
    let world = world_with_lfs();
    let key = "sandbox.allow-filters";
    for (value, code) in [("a b", 2), ("lfs,", 2), ("lfs", 0)] {
        world.run(&["config", "set", key, value]).exits(code);
    }
    let plan = world.create_executed_plan(EDIT_POINTER);
    let diff = world
        .json_data(&["plan", "diff", &plan, "--patch"])
        .to_string();
    assert!(
        diff.contains("-size 7") && diff.contains("+size 8"),
        "{diff}"
    );
    assert_blocked_by_filter(world.apply(&plan));
    assert_eq!(world.read("shop/x.bin"), "content\n");
    assert_eq!(world.git_status("shop"), "");
    check_out_pointer(&world);
    world
        .apply(&plan)
        .succeeded()
        .reports_state("apply/applied");
    assert_eq!(world.read("shop/x.bin"), pointer(8));
    assert_eq!(world.git_status("shop"), "");
    // A file that is not a pointer is still refused.
    world.define_worker("- {tool: builtin/file-write, input: {path: y.bin, content: pixels}}\n");
    world.define_worker_job("");
    let plan = world.create_plan(TRUSTED);
    let run = world
        .execute(&plan)
        .exits(1)
        .reports_state("execute/errored");
    run.prints("y.bin");
}
