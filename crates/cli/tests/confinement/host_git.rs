//! Programs that a command plants in its tree, or beside it if it could, are never run by the
//! host's git.

use cleveragents_ports::sandbox::{CommitMetadata, TouchedPaths};
use cleveragents_ports::stop::StopSignal;

use crate::world::{ConfinementWorld, LEVELS};

/// Ways for a command to plant a program that git then runs. Each starts with an executable `evil`
/// in the tree, which creates `ran` in a folder outside, and with `conf`, a configuration that
/// names it in every setting that can run a program.
const PLANTED_CONFIGURATIONS: [(&str, &str); 9] = [
    (
        "a repository in place of the link",
        "rm .git; cp -r fake .git",
    ),
    (
        "the link leads to another repository",
        "echo 'gitdir: fake' > .git",
    ),
    (
        "a symbolic link in place of the link",
        "rm .git; ln -s fake .git",
    ),
    ("a nested repository with hooks", "cp -r fake dir/.git"),
    (
        "a hooks folder by configuration",
        "rm .git; cp -r fake .git; git config core.hooksPath $PWD/fake/hooks",
    ),
    (
        "a monitor by configuration",
        "rm .git; cp -r fake .git; git config core.fsmonitor $PWD/evil",
    ),
    (
        "a directory by environment",
        "export GIT_DIR=$PWD/fake; git add a; git commit -m x",
    ),
    (
        "attributes and filters",
        "echo '* filter=evil diff=evil merge=evil' > .gitattributes; cp -r fake dir/.git",
    ),
    (
        "modules",
        "printf '[submodule \"x\"]\\n\\tpath = x\\n\\turl = ext::%s\\n' $PWD/evil > .gitmodules; mkdir x",
    ),
];

const PREPARE: &str = r#"
mkdir -p fake/objects fake/refs fake/hooks
printf '#!/bin/sh\ntouch "%s/ran"\ncat\n' "$OUT" > evil
chmod +x evil
echo 'ref: refs/heads/main' > fake/HEAD
cat > fake/config <<END
[core]
	repositoryformatversion = 0
	fsmonitor = $PWD/evil
	hooksPath = $PWD/fake/hooks
	pager = $PWD/evil
	sshCommand = $PWD/evil
	alternateRefsCommand = $PWD/evil
[filter "evil"]
	clean = $PWD/evil
	smudge = $PWD/evil
	process = $PWD/evil
[diff]
	external = $PWD/evil
[diff "evil"]
	command = $PWD/evil
	textconv = $PWD/evil
END
for hook in pre-commit post-checkout post-index-change reference-transaction; do
	cp evil fake/hooks/$hook
done
echo changed >> a
echo new > new
"#;

#[test]
fn the_host_runs_no_planted_program() {
    for level in LEVELS {
        for (what, plant) in PLANTED_CONFIGURATIONS {
            let mut world = ConfinementWorld::new(level);
            let out = world.path("outside");
            let ran = out.join("ran");
            let before = world.files_outside_the_tree();
            let script = format!("OUT='{}'; {PREPARE}\n{plant}; true", out.display());
            world.run_script(&script);
            assert_eq!(world.files_outside_the_tree(), before, "{level}: {what}");
            let sandbox = &mut world.sandbox;
            let base = sandbox.base().clone();
            let captured = sandbox
                .capture(&base, &TouchedPaths::Unknown, &StopSignal::new())
                .unwrap();
            let changed = captured.changes.iter().map(|it| it.path.to_string());
            assert!(
                changed.into_iter().any(|path| path == "a"),
                "{level}: {what}"
            );
            sandbox
                .diff(&base, &captured.tree, &[], &StopSignal::new())
                .unwrap();
            sandbox.restore(&base, &StopSignal::new()).unwrap();
            sandbox.restore(&captured.tree, &StopSignal::new()).unwrap();
            let words = CommitMetadata {
                name: "A".to_owned(),
                email: "a@localhost".to_owned(),
                seconds: 0,
                message: "m".to_owned(),
            };
            sandbox
                .publish(&captured.tree, &words, &StopSignal::new())
                .unwrap();
            assert!(!ran.exists(), "{level}: {what}: something was run");
        }
    }
}
