//! No program that a repository's configuration names is run on the host.
//!
//! Every documented key of git's configuration that can name a program names a tripwire here: a
//! script that leaves a file. All that may be done with a repository is done, and the file must not
//! be there.

use std::fs;
use std::path::{Path, PathBuf};

use cleveragents_domain::{Base, ResourceType};
use cleveragents_engine::ports::sandbox::Sandboxes;
use cleveragents_engine::ports::stop::Stop;
use cleveragents_engine::ports::targets::{
    ApplyIntent, ApplyRequest, Destination, RequestedChange, TargetError, Targets,
};

use crate::environment::{World, append, path, script, write};
use crate::home::{apply_id, bring_home, program, renamed, targets, to, words, work};
use crate::hostile_configuration::{HOOKS, attributes, configuration};

/// The script and the file it leaves.
struct Tripwire {
    program: PathBuf,
    mark: PathBuf,
}

impl Tripwire {
    fn new(world: &World) -> Self {
        let mark = world.path("mark");
        let text = format!(
            "#!/bin/sh\necho \"$0 $*\" >> '{}'\ncat\necho '[GNUPG:] SIG_CREATED ' >&2\n",
            mark.display()
        );
        Self {
            program: program(world, "evil", &text),
            mark,
        }
    }

    fn assert_unused(&self, what: &str) {
        let said = fs::read_to_string(&self.mark).unwrap_or_default();
        assert_eq!(said, "", "{what}: a program was run");
    }

    /// Adds it to the configuration of a git directory, directly and by an include, with hooks.
    fn arm(&self, world: &World, git_dir: &Path) {
        let included = world.path("included");
        let text = configuration(&self.program, &git_dir.join("hooks"));
        write(&included, &text);
        append(&git_dir.join("config"), &text);
        let include = format!(
            "[include]\n\tpath = {0}\n[includeIf \"gitdir:/\"]\n\tpath = {0}\n",
            included.display()
        );
        append(&git_dir.join("config"), include.as_bytes());
        let text = fs::read_to_string(&self.program).unwrap();
        for hook in HOOKS {
            script(&git_dir.join("hooks").join(hook), &text);
        }
    }
}

/// A repository with files that have each of the filters, committed before it is armed.
fn repository(world: &World, name: &str, options: &[&str]) -> PathBuf {
    let repository = world.init(name, options);
    write(&repository.join(".gitattributes"), &attributes());
    let files = [
        ("a", "1\n"),
        ("b", "1\n"),
        ("f.0", "0\n"),
        ("f.1", "1\n"),
        ("f.2", "2\n"),
    ];
    world.commit(&repository, &files);
    repository
}

/// Makes git look at the contents again, which it does through filters.
fn touch(repository: &Path) {
    for name in ["a", "b", "f.0", "f.1", "f.2"] {
        let content = fs::read(repository.join(name)).unwrap();
        fs::remove_file(repository.join(name)).unwrap();
        write(&repository.join(name), &content);
    }
}

/// All that is done with a sandbox, up to its result.
fn all_of_a_sandbox(world: &World, repository: &Path, base: Base) -> ApplyRequest {
    world.sandboxes.inspect(repository).unwrap();
    touch(repository);
    let kind = (ResourceType::GitCheckout, base);
    let request = work(world, repository, kind, |tree| {
        append(&tree.join("a"), b"2\n");
        fs::remove_file(tree.join("b")).unwrap();
        write(&tree.join("new"), b"1\n");
    });
    let RequestedChange::Result {
        sandbox, from, to, ..
    } = &request.change
    else {
        panic!();
    };
    let mut sandbox = world.sandboxes.open(*sandbox).unwrap();
    sandbox.diff(from, to, &[], &Stop::new()).unwrap();
    sandbox.net_changes(from, to, &Stop::new()).unwrap();
    sandbox.log(Some(&path("a")), 10).unwrap();
    sandbox.log(None, 10).unwrap();
    sandbox.restore(from, &Stop::new()).unwrap();
    sandbox.restore(to, &Stop::new()).unwrap();
    sandbox.publish(to, &words("result"), &Stop::new()).unwrap();
    world
        .sandboxes
        .published(&request.resource, request.plan)
        .unwrap();
    world
        .sandboxes
        .withdraw(&request.resource, request.plan)
        .unwrap();
    request
}

fn back(world: &World, intent: &ApplyIntent) -> ApplyRequest {
    ApplyRequest::reverse(apply_id(world), intent, words("back"))
}

/// Everything, to every destination and back.
fn everything(world: &World, repository: &Path, tripwire: &Tripwire) {
    let targets = targets(world);
    let snapshot = all_of_a_sandbox(world, repository, Base::Worktree);
    tripwire.assert_unused("a sandbox of the working tree");
    let request = all_of_a_sandbox(world, repository, Base::Head);
    tripwire.assert_unused("a sandbox of the commit");
    targets.author(&request.resource).unwrap();
    let branch = Destination::Branch("other".into());
    let patch = Destination::Patch(crate::home::absolute(&world.path("plan.patch")));
    let _ = fs::remove_file(world.path("plan.patch"));
    for destination in [Destination::Worktree, branch, patch, Destination::Current] {
        touch(repository);
        let request = to(renamed(world, &request), destination.clone());
        let (intent, _) = bring_home(&targets, &request);
        tripwire.assert_unused(&format!("apply to {destination:?}"));
        if matches!(destination, Destination::Patch(_)) {
            continue;
        }
        touch_if_there(repository);
        bring_home(&targets, &back(world, &intent));
        tripwire.assert_unused(&format!("unapply from {destination:?}"));
        targets.forget(intent.id).unwrap();
    }
    for request in [snapshot, request] {
        let RequestedChange::Result { sandbox, .. } = &request.change else {
            panic!();
        };
        world.sandboxes.discard(*sandbox).unwrap();
    }
    tripwire.assert_unused("clearing up");
}

fn touch_if_there(repository: &Path) {
    for name in ["f.0", "f.1", "f.2"] {
        let content = fs::read(repository.join(name)).unwrap();
        fs::remove_file(repository.join(name)).unwrap();
        write(&repository.join(name), &content);
    }
}

/// The tripwire works: the user's own git runs it.
fn assert_armed(world: &World, repository: &Path, tripwire: &Tripwire) {
    touch(repository);
    world.try_git(repository, &["add", "f.1"]);
    assert!(tripwire.mark.exists(), "the tripwire is none");
    fs::remove_file(&tripwire.mark).unwrap();
}

#[test]
fn nothing_that_a_repository_names_is_run() {
    let world = World::new();
    let tripwire = Tripwire::new(&world);
    let repository = repository(&world, "user", &[]);
    tripwire.arm(&world, &repository.join(".git"));
    everything(&world, &repository, &tripwire);
    assert_armed(&world, &repository, &tripwire);
}

#[test]
fn nothing_that_a_linked_worktree_or_a_git_file_names_is_run() {
    let world = World::new();
    let tripwire = Tripwire::new(&world);
    let main = repository(&world, "user", &[]);
    let linked = world.path("linked");
    let path = linked.to_str().unwrap();
    world.git(&main, &["worktree", "add", "-q", "-b", "side", path]);
    world.git(&main, &["config", "extensions.worktreeConfig", "true"]);
    let git_dir = main.join(".git/worktrees/linked");
    let text = configuration(&tripwire.program, &main.join(".git/hooks"));
    write(&git_dir.join("config.worktree"), &text);
    tripwire.arm(&world, &main.join(".git"));
    everything(&world, &linked, &tripwire);
    assert_armed(&world, &linked, &tripwire);
    let elsewhere = world.path("elsewhere.git");
    let option = format!("--separate-git-dir={}", elsewhere.display());
    let by_file = repository(&world, "by_file", &[&option]);
    assert!(by_file.join(".git").is_file());
    // Only a git directory that knows its folder is used for it.
    let folder = by_file.to_str().unwrap();
    world.git(&by_file, &["config", "core.worktree", folder]);
    tripwire.arm(&world, &elsewhere);
    everything(&world, &by_file, &tripwire);
    assert_armed(&world, &by_file, &tripwire);
}

#[test]
fn nothing_that_a_submodule_names_is_run() {
    let world = World::new();
    let tripwire = Tripwire::new(&world);
    let inner = repository(&world, "inner", &[]);
    let outer = repository(&world, "user", &[]);
    let url = inner.to_str().unwrap();
    let allowed = "protocol.file.allow=always";
    world.git(
        &outer,
        &["-c", allowed, "submodule", "--quiet", "add", url, "sub"],
    );
    world.commit(&outer, &[]);
    tripwire.arm(&world, &outer.join(".git/modules/sub"));
    tripwire.arm(&world, &outer.join(".git"));
    touch(&outer.join("sub"));
    everything(&world, &outer, &tripwire);
    everything(&world, &outer.join("sub"), &tripwire);
    assert_armed(&world, &outer.join("sub"), &tripwire);
}

#[test]
fn only_the_users_own_configuration_says_how_to_sign() {
    let world = World::new();
    let tripwire = Tripwire::new(&world);
    let repository = repository(&world, "user", &[]);
    let before = fs::read(repository.join(".git/config")).unwrap();
    let kind = (ResourceType::GitCheckout, Base::Head);
    let request = work(&world, &repository, kind, |tree| {
        append(&tree.join("a"), b"2\n")
    });
    let targets = targets(&world);
    for (section, key) in [
        ("gpg", "program"),
        ("gpg \"ssh\"", "defaultKeyCommand"),
        ("gpg \"openpgp\"", "program"),
        ("user", "signingKey"),
    ] {
        let program = tripwire.program.display();
        let text = format!("[commit]\n\tgpgSign = true\n[{section}]\n\t{key} = {program}\n");
        write(
            &repository.join(".git/config"),
            &[&before, text.as_bytes()].concat(),
        );
        let error = targets.prepare(&renamed(&world, &request)).unwrap_err();
        assert!(matches!(error, TargetError::Signing { .. }), "{error}");
        let named = key.to_ascii_lowercase();
        assert!(
            error.to_string().to_ascii_lowercase().contains(&named),
            "{error}"
        );
        tripwire.assert_unused(key);
    }
    // A program that the user names signs.
    write(&repository.join(".git/config"), &before);
    let mark = tripwire.mark.display();
    let text =
        format!("#!/bin/sh\ncat > '{mark}'\necho '[GNUPG:] SIG_CREATED ' >&2\necho signature\n");
    let signer = program(&world, "sign", &text);
    let signer = signer.to_str().unwrap();
    world.git(&repository, &["config", "--global", "gpg.program", signer]);
    world.git(&repository, &["config", "commit.gpgSign", "true"]);
    bring_home(&targets, &renamed(&world, &request));
    assert!(tripwire.mark.exists());
}
