//! Paths as resources: what each is taken for, and what is refused with which words.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{PermissionsExt, symlink};

use serde_json::Value;

use crate::bad_input::refused;
use crate::bad_storage::is_root;
use crate::data::json;
use crate::environment::{Run, TestEnvironment};

pub(crate) fn folder(environment: &TestEnvironment, relative: &str) {
    std::fs::create_dir_all(environment.path(relative)).unwrap();
}

/// A git directory as far as files tell.
fn git_directory(environment: &TestEnvironment, relative: &str) {
    environment.write(&format!("{relative}/HEAD"), "ref: refs/heads/main\n");
    folder(environment, &format!("{relative}/objects"));
    folder(environment, &format!("{relative}/refs"));
}

pub(crate) fn repository(environment: &TestEnvironment, relative: &str) {
    git_directory(environment, &format!("{relative}/.git"));
}

fn resources(environment: &TestEnvironment) -> Value {
    json(environment, &["resource", "list"])["resources"].clone()
}

/// A path that is refused by `project create`, its exit code, and what is said of it.
struct Refusal {
    path: &'static str,
    set_up: fn(&TestEnvironment),
    code: i32,
    words: &'static [&'static str],
}

const REFUSALS: &[Refusal] = &[
    Refusal {
        path: "none",
        set_up: |_| {},
        code: 3,
        words: &["there is no directory", "none", "check the spelling"],
    },
    Refusal {
        path: "file",
        set_up: |environment| environment.write("work/file", "x"),
        code: 2,
        words: &["is not a directory"],
    },
    Refusal {
        path: "file/in",
        set_up: |environment| environment.write("work/file", "x"),
        code: 2,
        words: &["cannot be used", "Not a directory"],
    },
    Refusal {
        path: "loop",
        set_up: |environment| symlink("loop", environment.path("work/loop")).unwrap(),
        code: 2,
        words: &["cannot be used"],
    },
    Refusal {
        path: "dangling",
        set_up: |environment| symlink("nowhere", environment.path("work/dangling")).unwrap(),
        code: 3,
        words: &["there is no directory"],
    },
    Refusal {
        path: "../.cleveragents",
        set_up: |environment| drop(environment.run(&["init"])),
        code: 2,
        words: &["is the data directory of agents"],
    },
    Refusal {
        path: "../.cleveragents/run",
        set_up: |environment| drop(environment.run(&["init"])),
        code: 2,
        words: &["is inside the data directory of agents"],
    },
    Refusal {
        path: "..",
        set_up: |_| {},
        code: 2,
        words: &["contains the data directory of agents"],
    },
    Refusal {
        path: "data",
        set_up: |environment| {
            environment.run(&["init"]).succeeded();
            symlink("../.cleveragents", environment.path("work/data")).unwrap();
        },
        code: 2,
        words: &["is the data directory of agents"],
    },
    Refusal {
        path: "shop/src/deep",
        set_up: |environment| {
            repository(environment, "work/shop");
            folder(environment, "work/shop/src/deep");
        },
        code: 2,
        words: &[
            "is inside the repository ",
            "use the repository: --path ",
            "agents resource add fs-directory NAME --path ",
        ],
    },
    Refusal {
        path: "bare.git",
        set_up: |environment| git_directory(environment, "work/bare.git"),
        code: 2,
        words: &["is a bare repository", "no working tree", "git clone "],
    },
    Refusal {
        path: "bare.git/refs",
        set_up: |environment| git_directory(environment, "work/bare.git"),
        code: 2,
        words: &["belongs to git's own data"],
    },
    Refusal {
        path: "shop/.git",
        set_up: |environment| repository(environment, "work/shop"),
        code: 2,
        words: &["belongs to git's own data", "top of the working tree"],
    },
    Refusal {
        path: "hollow",
        set_up: |environment| folder(environment, "work/hollow/.git"),
        code: 2,
        words: &["the .git of ", "is no repository", "HEAD, objects and refs"],
    },
    Refusal {
        path: "orphan",
        set_up: |environment| environment.write("work/orphan/.git", "gitdir: ../gone\n"),
        code: 2,
        words: &["../gone, which is no git directory"],
    },
    Refusal {
        path: "garbled",
        set_up: |environment| environment.write("work/garbled/.git", b"\xff\x00\n"),
        code: 2,
        words: &["names no git directory"],
    },
];

#[test]
fn what_cannot_be_a_resource_is_refused_and_nothing_is_created() {
    for refusal in REFUSALS {
        let environment = TestEnvironment::new();
        (refusal.set_up)(&environment);
        let run = environment.run(&["project", "create", "x", "--path", refusal.path]);
        refused(&run, refusal.code, refusal.words);
        assert_eq!(resources(&environment), Value::Array(vec![]));
        let projects = json(&environment, &["project", "list"]);
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
    folder(&environment, "work/sealed");
    std::fs::set_permissions(environment.path("work/sealed"), mode(0o000)).unwrap();
    // Permissions do not bind root, so root tries as somebody else.
    let nobody = [
        "setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
    ];
    let prefix = match is_root() {
        true => &nobody[..],
        false => &[],
    };
    let run = environment.shell(prefix, "exec \"$AGENTS\" project create x --path sealed");
    refused(&run, 2, &["sealed cannot be read", "ls -ld "]);
}

#[test]
fn every_kind_of_checkout_is_one() {
    let environment = TestEnvironment::new();
    repository(&environment, "work/shop");
    // A linked worktree and a submodule have a file; its git directory may have a HEAD alone.
    environment.write(
        "work/shop/.git/worktrees/side/HEAD",
        "ref: refs/heads/side\n",
    );
    let named = environment.path("work/shop/.git/worktrees/side");
    environment.write("work/side/.git", format!("gitdir: {}\n", named.display()));
    environment.write("work/shop/.git/modules/part/HEAD", "ref: refs/heads/main\n");
    environment.write("work/shop/part/.git", "gitdir: ../.git/modules/part\r\n");
    // A worktree may stand inside the bare repository it belongs to.
    git_directory(&environment, "work/bare.git");
    environment.write(
        "work/bare.git/worktrees/tree/HEAD",
        "ref: refs/heads/main\n",
    );
    environment.write("work/bare.git/tree/.git", "gitdir: ../worktrees/tree\n");
    symlink("shop", environment.path("work/alias")).unwrap();
    folder(&environment, "work/plain");
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
    let found = resources(&environment);
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
    // A symbolic link is the place it leads to.
    assert_eq!(
        found[4]["projects"],
        serde_json::json!(["local/six", "local/one"])
    );
}

#[test]
fn a_type_that_a_place_is_not_is_refused() {
    let environment = TestEnvironment::new();
    repository(&environment, "work/shop");
    folder(&environment, "work/shop/src");
    folder(&environment, "work/plain");
    git_directory(&environment, "work/bare.git");
    let add =
        |kind: &str, path: &str| environment.run(&["resource", "add", kind, "x", "--path", path]);
    let run = add("git-checkout", "plain");
    refused(
        &run,
        2,
        &["is not a git repository", "git init ", "fs-directory NAME"],
    );
    let run = add("git-checkout", "shop/src");
    refused(&run, 2, &["is inside the repository ", "not its top"]);
    for kind in ["git-checkout", "fs-directory"] {
        refused(&add(kind, "bare.git"), 2, &["is a bare repository"]);
        refused(&add(kind, "none"), 3, &["there is no directory"]);
    }
    let run = add("url", "plain");
    refused(&run, 2, &["`url` is no type", "git-checkout, fs-directory"]);
    add("fs-directory", "shop/src").succeeded();
    let run = environment.run(&["resource", "add", "fs-directory", "y", "--path", "shop/src"]);
    refused(&run, 4, &["is registered as local/x"]);
    let run = environment.run(&["resource", "add", "fs-directory", "x", "--path", "plain"]);
    refused(
        &run,
        4,
        &["`local/x` is taken", "agents resource show local/x"],
    );
}

#[test]
fn paths_that_are_no_text_are_kept_to_the_byte() {
    let environment = TestEnvironment::new();
    let name = OsStr::from_bytes(b"caf\xe9 \xff'x");
    std::fs::create_dir(environment.path("work").join(name)).unwrap();
    let words = ["project", "create", "odd", "--path"].map(OsString::from);
    let words = [&words[..], &[name.to_owned()]].concat();
    environment.run(&words).succeeded();
    let found = resources(&environment)[0].clone();
    assert_eq!(found["name"], "local/caf----x");
    let path = found["path"].as_str().unwrap();
    assert!(path.ends_with("/work/caf%E9 %FF'x"), "{path}");
    // The same again is the same place, not another of the same name.
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
    refused(&run, 3, &["there is no directory"]);
}

#[test]
fn sixteen_directories_of_one_name_get_sixteen_names() {
    let environment = TestEnvironment::new();
    let start = |number: usize| {
        folder(&environment, &format!("work/{number}/shop"));
        let (name, path) = (format!("p{number}"), format!("{number}/shop"));
        environment.start(&["project", "create", &name, "--path", &path])
    };
    let children: Vec<_> = (0..16).map(start).collect();
    for child in children {
        Run::of(child.wait_with_output().unwrap()).succeeded();
    }
    let found = resources(&environment);
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
