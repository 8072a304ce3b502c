//! No program that a repository's configuration names is run on the host.
//!
//! Every documented configuration key of git that can name a program names a tripwire here: a
//! script that leaves a file. The tests do everything that can be done with a repository, and the
//! file must not exist.

use std::fs;
use std::path::{Path, PathBuf};

use cleveragents_domain::{BaseSource, ResourceType};
use cleveragents_ports::sandbox::Sandboxes;
use cleveragents_ports::stop::StopSignal;
use cleveragents_ports::targets::{
    ApplyIntent, ApplyRequest, ApplyTargets, Destination, RequestedChange, TargetError,
};

use crate::apply_helpers::{
    apply_id, commit_metadata, prepare_and_commit, request_for_edit, targets, with_destination,
    with_new_id, write_program,
};
use crate::environment::{SandboxTestWorld, append, path, script, write};
use crate::hostile_configuration::{HOOKS, attributes, configuration};

/// The script and the file it leaves.
struct Tripwire {
    program: PathBuf,
    mark: PathBuf,
}

impl Tripwire {
    fn new(world: &SandboxTestWorld) -> Self {
        let mark = world.path("mark");
        let text = format!(
            "#!/bin/sh\necho \"$0 $*\" >> '{}'\ncat\necho '[GNUPG:] SIG_CREATED ' >&2\n",
            mark.display()
        );
        Self {
            program: write_program(world, "evil", &text),
            mark,
        }
    }

    fn assert_unused(&self, what: &str) {
        let said = fs::read_to_string(&self.mark).unwrap_or_default();
        assert_eq!(said, "", "{what}: a program was run");
    }

    /// Adds it to the configuration of a git directory, directly and by an include, with hooks.
    fn arm(&self, world: &SandboxTestWorld, git_dir: &Path) {
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

/// Creates a repository with files that have each of the filters, committed before it is armed.
fn repository(world: &SandboxTestWorld, name: &str, options: &[&str]) -> PathBuf {
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

/// Makes git read the contents again, which it does through filters.
fn touch(repository: &Path) {
    for name in ["a", "b", "f.0", "f.1", "f.2"] {
        let content = fs::read(repository.join(name)).unwrap();
        fs::remove_file(repository.join(name)).unwrap();
        write(&repository.join(name), &content);
    }
}

/// Does everything with a sandbox, up to its result.
fn use_sandbox_fully(
    world: &SandboxTestWorld,
    repository: &Path,
    base: BaseSource,
) -> ApplyRequest {
    world.sandboxes.inspect(repository).unwrap();
    touch(repository);
    let kind = (ResourceType::GitCheckout, base);
    let request = request_for_edit(world, repository, kind, |tree| {
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
    sandbox.diff(from, to, &[], &StopSignal::new()).unwrap();
    sandbox.net_changes(from, to, &StopSignal::new()).unwrap();
    sandbox.log(Some(&path("a")), 10).unwrap();
    sandbox.log(None, 10).unwrap();
    sandbox.restore(from, &StopSignal::new()).unwrap();
    sandbox.restore(to, &StopSignal::new()).unwrap();
    sandbox
        .publish(to, &commit_metadata("result"), &StopSignal::new())
        .unwrap();
    world
        .sandboxes
        .find_published(&request.resource, request.plan)
        .unwrap();
    world
        .sandboxes
        .withdraw(&request.resource, request.plan)
        .unwrap();
    request
}

fn reversal_request(world: &SandboxTestWorld, intent: &ApplyIntent) -> ApplyRequest {
    ApplyRequest::reverse(apply_id(world), intent, commit_metadata("back"))
}

/// Applies to every destination and reverses.
fn apply_everywhere(world: &SandboxTestWorld, repository: &Path, tripwire: &Tripwire) {
    let targets = targets(world);
    let snapshot = use_sandbox_fully(world, repository, BaseSource::Worktree);
    tripwire.assert_unused("a sandbox of the working tree");
    let request = use_sandbox_fully(world, repository, BaseSource::Head);
    tripwire.assert_unused("a sandbox of the commit");
    targets.author(&request.resource).unwrap();
    let branch = Destination::Branch("other".into());
    let patch = Destination::Patch(crate::apply_helpers::absolute(&world.path("plan.patch")));
    let _ = fs::remove_file(world.path("plan.patch"));
    for destination in [Destination::Worktree, branch, patch, Destination::Current] {
        touch(repository);
        let request = with_destination(with_new_id(world, &request), destination.clone());
        let (intent, _) = prepare_and_commit(&targets, &request);
        tripwire.assert_unused(&format!("apply to {destination:?}"));
        if matches!(destination, Destination::Patch(_)) {
            continue;
        }
        touch_if_present(repository);
        prepare_and_commit(&targets, &reversal_request(world, &intent));
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

fn touch_if_present(repository: &Path) {
    for name in ["f.0", "f.1", "f.2"] {
        let content = fs::read(repository.join(name)).unwrap();
        fs::remove_file(repository.join(name)).unwrap();
        write(&repository.join(name), &content);
    }
}

/// Asserts that the tripwire works: the user's own git runs it.
fn assert_armed(world: &SandboxTestWorld, repository: &Path, tripwire: &Tripwire) {
    touch(repository);
    world.try_git(repository, &["add", "f.1"]);
    assert!(tripwire.mark.exists(), "the tripwire is none");
    fs::remove_file(&tripwire.mark).unwrap();
}

#[test]
fn no_program_named_by_a_repository_runs() {
    let world = SandboxTestWorld::new();
    let tripwire = Tripwire::new(&world);
    let repository = repository(&world, "user", &[]);
    tripwire.arm(&world, &repository.join(".git"));
    apply_everywhere(&world, &repository, &tripwire);
    assert_armed(&world, &repository, &tripwire);
}

#[test]
fn no_program_named_by_a_linked_worktree_runs() {
    let world = SandboxTestWorld::new();
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
    apply_everywhere(&world, &linked, &tripwire);
    assert_armed(&world, &linked, &tripwire);
    let elsewhere = world.path("elsewhere.git");
    let option = format!("--separate-git-dir={}", elsewhere.display());
    let by_file = repository(&world, "by_file", &[&option]);
    assert!(by_file.join(".git").is_file());
    // A git directory is used for a folder only if it names that folder.
    let folder = by_file.to_str().unwrap();
    world.git(&by_file, &["config", "core.worktree", folder]);
    tripwire.arm(&world, &elsewhere);
    apply_everywhere(&world, &by_file, &tripwire);
    assert_armed(&world, &by_file, &tripwire);
}

#[test]
fn no_program_named_by_a_submodule_runs() {
    let world = SandboxTestWorld::new();
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
    apply_everywhere(&world, &outer, &tripwire);
    apply_everywhere(&world, &outer.join("sub"), &tripwire);
    assert_armed(&world, &outer.join("sub"), &tripwire);
}

#[test]
fn only_the_users_own_configuration_says_how_to_sign() {
    let world = SandboxTestWorld::new();
    let tripwire = Tripwire::new(&world);
    let repository = repository(&world, "user", &[]);
    let before = fs::read(repository.join(".git/config")).unwrap();
    let kind = (ResourceType::GitCheckout, BaseSource::Head);
    let request = request_for_edit(&world, &repository, kind, |tree| {
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
        let error = targets.prepare(&with_new_id(&world, &request)).unwrap_err();
        assert!(matches!(error, TargetError::Signing { .. }), "{error}");
        let named = key.to_ascii_lowercase();
        assert!(
            error.to_string().to_ascii_lowercase().contains(&named),
            "{error}"
        );
        tripwire.assert_unused(key);
    }
    // A signing program that the user configured is run.
    write(&repository.join(".git/config"), &before);
    let mark = tripwire.mark.display();
    let text =
        format!("#!/bin/sh\ncat > '{mark}'\necho '[GNUPG:] SIG_CREATED ' >&2\necho signature\n");
    let signer = write_program(&world, "sign", &text);
    let signer = signer.to_str().unwrap();
    world.git(&repository, &["config", "--global", "gpg.program", signer]);
    world.git(&repository, &["config", "commit.gpgSign", "true"]);
    prepare_and_commit(&targets, &with_new_id(&world, &request));
    assert!(tripwire.mark.exists());
}
