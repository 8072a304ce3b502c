//! Whatever an agent does to its tree, it is captured, restored and told as a patch exactly.

use std::fs;
use std::path::Path;

use cleveragents_domain::{Base, ResourcePath, ResourceType};
use cleveragents_engine::ports::sandbox::{Sandbox, Sandboxes, Touched, TreeId};
use proptest::prelude::*;
use proptest::test_runner::{Config, FileFailurePersistence};

use crate::environment::{Listing, World, link, listing, os, set_mode, write};

/// One thing an agent does. What cannot be done where it is tried is not done.
#[derive(Debug, Clone)]
enum Edit {
    Write(usize, Vec<u8>),
    Remove(usize),
    Rename(usize, usize),
    Mode(usize, u32),
    Link(usize, Vec<u8>),
    Folder(usize),
    Repository(usize),
    Fifo(usize),
}

/// Few names, so that they meet: files, folders and links of one name, odd bytes among them.
const NAMES: [&[u8]; 14] = [
    b"a",
    b"b",
    b"a.b",
    b"dir",
    b"dir/a",
    b"dir/b",
    b"dir/sub",
    b"dir/sub/a",
    b"dir/sub/deep/a",
    b"dir.x/a",
    b"\xff\xfe",
    b"new\nline/\"quoted\" \\",
    b"-dash",
    " spaces \u{e9}\t".as_bytes(),
];

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let name = 0..NAMES.len();
    let content = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..8),
        "[ab\r\n]{0,12}".prop_map(String::into_bytes),
    ];
    let target = prop_oneof![
        Just(b"a".to_vec()),
        Just(b"/etc".to_vec()),
        Just(b"\xff".to_vec())
    ];
    let edit = prop_oneof![
        6 => (name.clone(), content).prop_map(|(at, content)| Edit::Write(at, content)),
        3 => name.clone().prop_map(Edit::Remove),
        3 => (name.clone(), name.clone()).prop_map(|(from, to)| Edit::Rename(from, to)),
        2 => (name.clone(), prop_oneof![Just(0o755), Just(0o644)]).prop_map(|(at, mode)| Edit::Mode(at, mode)),
        2 => (name.clone(), target).prop_map(|(at, target)| Edit::Link(at, target)),
        2 => name.clone().prop_map(Edit::Folder),
        1 => name.clone().prop_map(Edit::Repository),
        1 => name.prop_map(Edit::Fifo),
    ];
    prop::collection::vec(edit, 1..12)
}

/// Does it, by the shell's rules, and says which paths it touched.
fn apply(world: &World, tree: &Path, edit: &Edit) -> Vec<ResourcePath> {
    let at = |name: usize| tree.join(os(NAMES[name]));
    let touched = |name: usize| ResourcePath::from_bytes(NAMES[name]).unwrap();
    let is_real_folder = |path: &Path| path.symlink_metadata().is_ok_and(|it| it.is_dir());
    // Never through a link: what is behind it is not the tree's.
    let reachable = |name: usize| {
        at(name)
            .ancestors()
            .skip(1)
            .take_while(|it| *it != tree)
            .all(|it| is_real_folder(it) || it.symlink_metadata().is_err())
    };
    match edit {
        Edit::Write(name, content) if reachable(*name) && !is_real_folder(&at(*name)) => {
            let _ = fs::remove_file(at(*name));
            write(&at(*name), content);
            vec![touched(*name)]
        }
        Edit::Remove(name) if reachable(*name) => {
            let _ = fs::remove_file(at(*name)).or_else(|_| fs::remove_dir_all(at(*name)));
            vec![touched(*name)]
        }
        Edit::Rename(from, to) if reachable(*from) && reachable(*to) => {
            let _ = fs::rename(at(*from), at(*to));
            vec![touched(*from), touched(*to)]
        }
        Edit::Mode(name, mode)
            if reachable(*name) && at(*name).symlink_metadata().is_ok_and(|it| it.is_file()) =>
        {
            set_mode(&at(*name), *mode);
            vec![touched(*name)]
        }
        Edit::Link(name, target) if reachable(*name) => {
            let parent = at(*name);
            fs::create_dir_all(parent.parent().unwrap()).unwrap();
            let _ = std::os::unix::fs::symlink(os(target), at(*name));
            vec![touched(*name)]
        }
        Edit::Folder(name) if reachable(*name) => {
            let _ = fs::create_dir_all(at(*name));
            vec![touched(*name)]
        }
        Edit::Repository(name) if reachable(*name) && is_real_folder(&at(*name)) => {
            write(&at(*name).join(".git/config"), b"[core]\n");
            vec![touched(*name)]
        }
        Edit::Fifo(name) if reachable(*name) && at(*name).parent().unwrap().is_dir() => {
            world.command(tree, "mkfifo", &[at(*name).to_str().unwrap_or("fifo")]);
            vec![touched(*name), ResourcePath::from_bytes("fifo").unwrap()]
        }
        _ => Vec::new(),
    }
}

/// What a capture promises to keep: no nested repositories, no special files.
fn promised(tree: &Path) -> Listing {
    let mut found = listing(tree);
    let nested = |path: &[u8]| path.split(|byte| *byte == b'/').any(|part| part == b".git");
    found.retain(|path, (kind, _)| *kind != 's' && !nested(path));
    found
}

fn capture_from(sandbox: &mut dyn Sandbox, previous: &TreeId, touched: &Touched) -> TreeId {
    sandbox.capture(previous, touched).unwrap().tree
}

fn check(resource_type: ResourceType, base: Vec<Edit>, first: &[Edit], second: &[Edit]) {
    let world = World::new();
    let repository = world.init("user", &[]);
    for edit in &base {
        apply(&world, &repository, edit);
    }
    let with_commit = resource_type == ResourceType::GitCheckout;
    if with_commit {
        for nested in promised_away(&repository) {
            let _ = fs::remove_dir_all(&nested).or_else(|_| fs::remove_file(&nested));
        }
        world.commit(&repository, &[]);
    }
    let (created, mut sandbox) = world.create_from(&repository, resource_type, Base::Head);
    let new = world.new_sandbox(&repository, resource_type, Base::Head);
    world.sandboxes.create(&new).unwrap();
    let mut other = world.sandboxes.open(new.id).unwrap();
    let tree = &created.tree;

    // Step by step with known paths, and all at once without: the same tree.
    let mut known = created.base.clone();
    for edit in first {
        let touched = apply(&world, tree, edit);
        apply(&world, other.tree(), edit);
        known = capture_from(&mut *sandbox, &known, &Touched::Paths(touched));
    }
    let base = other.base().clone();
    assert_eq!(capture_from(&mut *other, &base, &Touched::Unknown), known);
    assert_eq!(
        capture_from(&mut *sandbox, &created.base, &Touched::Unknown),
        known
    );
    let expected = promised(tree);

    // A checkpoint, more edits, and back.
    for edit in second {
        apply(&world, tree, edit);
    }
    let later = capture_from(&mut *sandbox, &known, &Touched::Unknown);
    let after = promised(tree);
    sandbox.restore(&known).unwrap();
    assert_eq!(promised(tree), expected);
    sandbox.restore(&later).unwrap();
    assert_eq!(promised(tree), after);
    assert_eq!(
        capture_from(&mut *sandbox, &known, &Touched::Unknown),
        later
    );

    if with_commit {
        let diff = sandbox.diff(&created.base, &later, &[]).unwrap();
        let patch = world.path("patch");
        write(&patch, &diff.patch);
        if !diff.patch.is_empty() {
            world.git(&repository, &["apply", "--cached", patch.to_str().unwrap()]);
        }
        assert_eq!(world.git(&repository, &["write-tree"]), later.files());
    }
}

/// Repositories and special files in a folder.
fn promised_away(tree: &Path) -> Vec<std::path::PathBuf> {
    let all = listing(tree);
    let away = all
        .iter()
        .filter(|(path, (kind, _))| *kind == 's' || path.ends_with(b"/.git"));
    away.map(|(path, _)| tree.join(os(path))).collect()
}

fn config() -> Config {
    Config {
        cases: 16,
        failure_persistence: Some(Box::new(FileFailurePersistence::Off)),
        ..Config::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_edits_of_a_checkout(base in edits(), first in edits(), second in edits()) {
        check(ResourceType::GitCheckout, base, &first, &second);
    }

    #[test]
    fn any_edits_of_a_folder(base in edits(), first in edits(), second in edits()) {
        check(ResourceType::FsDirectory, base, &first, &second);
    }
}

/// The helper itself must be able to make what the properties are about.
#[test]
fn edits_make_what_they_say() {
    let world = World::new();
    let tree = world.path("tree");
    fs::create_dir(&tree).unwrap();
    for edit in [
        Edit::Write(0, b"1".to_vec()),
        Edit::Folder(3),
        Edit::Repository(3),
        Edit::Fifo(1),
        Edit::Link(2, b"a".to_vec()),
        Edit::Mode(0, 0o755),
        Edit::Rename(0, 4),
    ] {
        assert!(!apply(&world, &tree, &edit).is_empty(), "{edit:?}");
    }
    let found = listing(&tree);
    let kinds: String = found.values().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, "lsddfx");
    assert_eq!(promised(&tree).len(), 3);
    link(&tree.join("x"), "y");
}
