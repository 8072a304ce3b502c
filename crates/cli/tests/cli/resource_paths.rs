//! Paths as resources: how each is classified, and the errors of refused ones.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{PermissionsExt, symlink};

use serde_json::Value;

use crate::bad_input::assert_refused;
use crate::bad_storage::is_root;
use crate::data_directory::json_data;
use crate::environment::{CliRun, TestEnvironment};

pub(crate) fn create_folder(environment: &TestEnvironment, relative: &str) {
    std::fs::create_dir_all(environment.path(relative)).unwrap();
}

/// Creates the files by which a git directory is recognised.
fn create_git_directory(environment: &TestEnvironment, relative: &str) {
    environment.write(&format!("{relative}/HEAD"), "ref: refs/heads/main\n");
    create_folder(environment, &format!("{relative}/objects"));
    create_folder(environment, &format!("{relative}/refs"));
}

pub(crate) fn create_repository(environment: &TestEnvironment, relative: &str) {
    create_git_directory(environment, &format!("{relative}/.git"));
}

fn list_resources(environment: &TestEnvironment) -> Value {
    json_data(environment, &["resource", "list"])["resources"].clone()
}

/// A path that `project create` refuses, with its exit code and message.
struct PathRefusal {
    path: &'static str,
    set_up: fn(&TestEnvironment),
    code: i32,
    words: &'static [&'static str],
}

const REFUSALS: &[PathRefusal] = &[
    PathRefusal {
        path: "none",
        set_up: |_| {},
        code: 3,
        words: &["there is no directory", "none", "check the spelling"],
    },
    PathRefusal {
        path: "file",
        set_up: |environment| environment.write("work/file", "x"),
        code: 2,
        words: &["is not a directory"],
    },
    PathRefusal {
        path: "file/in",
        set_up: |environment| environment.write("work/file", "x"),
        code: 2,
        words: &["cannot be used", "Not a directory"],
    },
    PathRefusal {
        path: "loop",
        set_up: |environment| symlink("loop", environment.path("work/loop")).unwrap(),
        code: 2,
        words: &["cannot be used"],
    },
    PathRefusal {
        path: "dangling",
        set_up: |environment| symlink("nowhere", environment.path("work/dangling")).unwrap(),
        code: 3,
        words: &["there is no directory"],
    },
    PathRefusal {
        path: "../.cleveragents",
        set_up: |environment| drop(environment.run(&["init"])),
        code: 2,
        words: &["is the data directory of agents"],
    },
    PathRefusal {
        path: "../.cleveragents/run",
        set_up: |environment| drop(environment.run(&["init"])),
        code: 2,
        words: &["is inside the data directory of agents"],
    },
    PathRefusal {
        path: "..",
        set_up: |_| {},
        code: 2,
        words: &["contains the data directory of agents"],
    },
    PathRefusal {
        path: "data",
        set_up: |environment| {
            environment.run(&["init"]).succeeded();
            symlink("../.cleveragents", environment.path("work/data")).unwrap();
        },
        code: 2,
        words: &["is the data directory of agents"],
    },
    PathRefusal {
        path: "shop/src/deep",
        set_up: |environment| {
            create_repository(environment, "work/shop");
            create_folder(environment, "work/shop/src/deep");
        },
        code: 2,
        words: &[
            "is inside the repository ",
            "use the repository: --path ",
            "agents resource add fs-directory NAME --path ",
        ],
    },
    PathRefusal {
        path: "bare.git",
        set_up: |environment| create_git_directory(environment, "work/bare.git"),
        code: 2,
        words: &["is a bare repository", "no working tree", "git clone "],
    },
    PathRefusal {
        path: "bare.git/refs",
        set_up: |environment| create_git_directory(environment, "work/bare.git"),
        code: 2,
        words: &["belongs to git's own data"],
    },
    PathRefusal {
        path: "shop/.git",
        set_up: |environment| create_repository(environment, "work/shop"),
        code: 2,
        words: &["belongs to git's own data", "top of the working tree"],
    },
    PathRefusal {
        path: "hollow",
        set_up: |environment| create_folder(environment, "work/hollow/.git"),
        code: 2,
        words: &[
            "the .git of ",
            "is not a git repository",
            "HEAD, objects and refs",
        ],
    },
    PathRefusal {
        path: "orphan",
        set_up: |environment| environment.write("work/orphan/.git", "gitdir: ../gone\n"),
        code: 2,
        words: &["../gone, which is not a git directory"],
    },
    PathRefusal {
        path: "garbled",
        set_up: |environment| environment.write("work/garbled/.git", b"\xff\x00\n"),
        code: 2,
        words: &["names no git directory"],
    },
];

#[test]
fn an_unusable_path_is_refused() {
    for refusal in REFUSALS {
        let environment = TestEnvironment::new();
        (refusal.set_up)(&environment);
        let run = environment.run(&["project", "create", "x", "--path", refusal.path]);
        assert_refused(&run, refusal.code, refusal.words);
        assert_eq!(list_resources(&environment), Value::Array(vec![]));
        let projects = json_data(&environment, &["project", "list"]);
        assert_eq!(projects["summary"]["total"], 0);
    }
}

#[test]
fn a_directory_that_cannot_be_read_is_refused() {
    let environment = TestEnvironment::new();
    let mode = std::fs::Permissions::from_mode;
    for open in ["", "work"] {
        std::fs::set_permissions(environment.path(open), mode(0o777)).unwrap();
    }
    create_folder(&environment, "work/sealed");
    std::fs::set_permissions(environment.path("work/sealed"), mode(0o000)).unwrap();
    // Root ignores permissions, so root runs the command as another user.
    let other_user = [
        "setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
    ];
    let prefix = if is_root() { &other_user[..] } else { &[] };
    let run = environment.shell(prefix, "exec \"$AGENTS\" project create x --path sealed");
    assert_refused(&run, 2, &["sealed cannot be read", "ls -ld "]);
}

#[test]
fn every_kind_of_checkout_is_recognized() {
    let environment = TestEnvironment::new();
    create_repository(&environment, "work/shop");
    // A linked worktree and a submodule have a `.git` file; its git directory may have only a
    // `HEAD`.
    environment.write(
        "work/shop/.git/worktrees/side/HEAD",
        "ref: refs/heads/side\n",
    );
    let named = environment.path("work/shop/.git/worktrees/side");
    environment.write("work/side/.git", format!("gitdir: {}\n", named.display()));
    environment.write("work/shop/.git/modules/part/HEAD", "ref: refs/heads/main\n");
    environment.write("work/shop/part/.git", "gitdir: ../.git/modules/part\r\n");
    // A worktree may be inside the bare repository that it belongs to.
    create_git_directory(&environment, "work/bare.git");
    environment.write(
        "work/bare.git/worktrees/tree/HEAD",
        "ref: refs/heads/main\n",
    );
    environment.write("work/bare.git/tree/.git", "gitdir: ../worktrees/tree\n");
    symlink("shop", environment.path("work/alias")).unwrap();
    create_folder(&environment, "work/plain");
    for (name, path) in [
        ("one", "shop"),
        ("two", "side"),
        ("three", "shop/part"),
        ("four", "bare.git/tree"),
        ("five", "plain"),
        ("six", "alias"),
    ] {
        let create = ["project", "create", name, "--path", path];
        environment.run(&create).succeeded();
    }
    let found = list_resources(&environment);
    let found: Vec<_> = found.as_array().unwrap().iter().collect();
    let types: Vec<_> = found
        .iter()
        .map(|one| (one["name"].as_str().unwrap(), one["type"].as_str().unwrap()))
        .collect();
    assert_eq!(
        types,
        [
            ("local/plain", "fs-directory"),
            ("local/tree", "git-checkout"),
            ("local/part", "git-checkout"),
            ("local/side", "git-checkout"),
            ("local/shop", "git-checkout"),
        ]
    );
    // A symbolic link is resolved to its target.
    assert_eq!(
        found[4]["projects"],
        serde_json::json!(["local/six", "local/one"])
    );
}

#[test]
fn a_mismatched_resource_type_is_refused() {
    let environment = TestEnvironment::new();
    create_repository(&environment, "work/shop");
    create_folder(&environment, "work/shop/src");
    create_folder(&environment, "work/plain");
    create_git_directory(&environment, "work/bare.git");
    let add =
        |kind: &str, path: &str| environment.run(&["resource", "add", kind, "x", "--path", path]);
    let run = add("git-checkout", "plain");
    assert_refused(
        &run,
        2,
        &["is not a git repository", "git init ", "fs-directory NAME"],
    );
    let run = add("git-checkout", "shop/src");
    assert_refused(&run, 2, &["is inside the repository ", "not its top"]);
    for kind in ["git-checkout", "fs-directory"] {
        assert_refused(&add(kind, "bare.git"), 2, &["is a bare repository"]);
        assert_refused(&add(kind, "none"), 3, &["there is no directory"]);
    }
    let run = add("url", "plain");
    assert_refused(
        &run,
        2,
        &["invalid resource type `url`", "git-checkout, fs-directory"],
    );
    add("fs-directory", "shop/src").succeeded();
    let run = environment.run(&["resource", "add", "fs-directory", "y", "--path", "shop/src"]);
    assert_refused(&run, 4, &["is registered as local/x"]);
    let run = environment.run(&["resource", "add", "fs-directory", "x", "--path", "plain"]);
    assert_refused(
        &run,
        4,
        &["`local/x` is taken", "agents resource show local/x"],
    );
}

#[test]
fn non_utf8_paths_are_kept_to_the_byte() {
    let environment = TestEnvironment::new();
    let name = OsStr::from_bytes(b"caf\xe9 \xff'x");
    std::fs::create_dir(environment.path("work").join(name)).unwrap();
    let words = ["project", "create", "odd", "--path"].map(OsString::from);
    let words = [&words[..], &[name.to_owned()]].concat();
    environment.run(&words).succeeded();
    let found = list_resources(&environment)[0].clone();
    assert_eq!(found["name"], "local/caf----x");
    let path = found["path"].as_str().unwrap();
    assert!(path.ends_with("/work/caf%E9 %FF'x"), "{path}");
    // The same path again is the same resource, not another one with the same name.
    let again = ["project", "create", "again", "--path"].map(OsString::from);
    let again = [&again[..], &[name.to_owned()]].concat();
    let run = environment.run(&again).succeeded();
    assert!(
        run.stderr.contains("is linked as local/caf----x"),
        "{run:?}"
    );
    let file = OsString::from_vec(b"caf\xe9 \xff'x/none".to_vec());
    let words = ["project", "create", "worse", "--path"].map(OsString::from);
    let run = environment.run(&[&words[..], &[file]].concat());
    assert_refused(&run, 3, &["there is no directory"]);
}

#[test]
fn sixteen_directories_with_one_name_get_distinct_names() {
    let environment = TestEnvironment::new();
    let start = |number: usize| {
        create_folder(&environment, &format!("work/{number}/shop"));
        let (name, path) = (format!("p{number}"), format!("{number}/shop"));
        environment.start(&["project", "create", &name, "--path", &path])
    };
    let children: Vec<_> = (0..16).map(start).collect();
    for child in children {
        CliRun::from_output(child.wait_with_output().unwrap()).succeeded();
    }
    let found = list_resources(&environment);
    let found = found.as_array().unwrap();
    let mut names: Vec<&str> = found
        .iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect();
    names.sort_by_key(|name| (name.len(), *name));
    let mut wanted = vec!["local/shop".to_owned()];
    wanted.extend((2..=16).map(|number| format!("local/shop-{number}")));
    assert_eq!(names, wanted);
}
