//! Unusual and hostile repositories: how each is created, and what a plan changes in it.
//!
//! A script runs in an empty folder that becomes the resource; `$TRIP` is a program that leaves a
//! trace when anything runs it. `BASE` creates the usual content first.

/// The required outcome of a plan on the repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpectedResult {
    /// The plan is applied, and git agrees with the result.
    Applied,
    /// It is applied in full, or refused with a reason and without changes.
    AppliedOrRefused,
}

#[derive(Debug, Clone, Copy)]
pub struct HostileRepository {
    pub name: &'static str,
    pub script: &'static str,
    /// The plan's command in the tree.
    pub change: &'static str,
    pub expected: ExpectedResult,
}

/// A repository with some files and one commit.
pub const BASE: &str = r"git init -q --template= -b main . && mkdir .git/info dir o && printf '1\n2\n3\n' > a && echo b > dir/b && echo y > o/y && echo z > z && git add -A && git commit -qm first";

/// The change that most plans make.
const EDIT: &str = "echo changed >> a; echo new > new; rm z";

const fn usual(name: &'static str, script: &'static str) -> HostileRepository {
    HostileRepository {
        name,
        script,
        change: EDIT,
        expected: ExpectedResult::Applied,
    }
}

const fn odd(name: &'static str, script: &'static str, change: &'static str) -> HostileRepository {
    HostileRepository {
        name,
        script,
        change,
        expected: ExpectedResult::AppliedOrRefused,
    }
}

/// Configuration keys whose value git executes, as `git config` takes them.
pub const EXECUTING_KEYS: &[&str] = &[
    "core.fsmonitor",
    "core.sshCommand",
    "core.editor",
    "core.pager",
    "core.askPass",
    "core.gitProxy",
    "core.alternateRefsCommand",
    "sequence.editor",
    "diff.external",
    "diff.x.textconv",
    "diff.x.command",
    "merge.x.driver",
    "filter.x.clean",
    "filter.x.smudge",
    "filter.x.process",
    "filter.a=b.clean",
    "filter.a=b.smudge",
    "filter.a=b.process",
    "gpg.program",
    "gpg.openpgp.program",
    "gpg.x509.program",
    "gpg.ssh.program",
    "gpg.ssh.defaultKeyCommand",
    "credential.helper",
    "interactive.diffFilter",
    "log.showSignature",
    "pager.status",
    "pager.log",
    "pager.diff",
    "trailer.x.command",
    "trailer.x.cmd",
    "uploadpack.packObjectsHook",
    "remote.origin.uploadpack",
    "remote.origin.receivepack",
    "remote.origin.vcs",
    "submodule.library.update",
    "difftool.x.cmd",
    "mergetool.x.cmd",
    "sendemail.smtpserver",
    "ssh.variant",
    "hook.x.command",
    "web.browser",
    "help.browser",
    "man.x.cmd",
    "instaweb.httpd",
    "receive.procReceiveRefs",
    "commit.template",
    "alias.status",
    "alias.commit",
];

pub const REPOSITORIES: &[HostileRepository] = &[
    usual("plain", ":"),
    usual("sparse-index", "git sparse-checkout set --cone --sparse-index dir").with_change("mkdir -p o; echo changed > o/y; echo changed >> a"),
    usual(
        "sparse-index-last-folder",
        "git rm -q z; git commit -qm less; git sparse-checkout set --cone --sparse-index dir",
    )
    .with_change("mkdir -p o; echo changed > o/y; echo changed >> a"),
    usual(
        "sparse-index-new-file",
        "git sparse-checkout set --cone --sparse-index dir",
    )
    .with_change("mkdir -p o p/q; echo new > o/new; echo new > p/q/new"),
    usual("sparse-checkout", "git sparse-checkout set --no-cone /a /dir"),
    usual("sparse-checkout-outside", "git sparse-checkout set --cone dir").with_change("mkdir -p o; echo changed > o/y; echo new > o/new"),
    usual("split-index", "git update-index --split-index; git config core.splitIndex true; echo more > more; git add more; git commit -qm more"),
    usual("untracked-cache", "git update-index --untracked-cache; git config core.untrackedCache true"),
    usual("index-version-2", "git update-index --index-version 2"),
    usual("index-version-3", "git update-index --index-version 3; echo n > later; git add -N later"),
    usual("index-version-4", "git update-index --index-version 4"),
    usual("fsmonitor-bit", "git update-index --fsmonitor-valid dir/b || true"),
    usual("intent-to-add", "echo later > later; git add -N later"),
    usual("skip-worktree", "git update-index --skip-worktree dir/b"),
    usual("assume-unchanged", "git update-index --assume-unchanged dir/b"),
    usual("skip-hash", "git config index.skipHash true; touch a; git update-index --refresh"),
    usual("sha256", "rm -rf .git && git init -q --template= --object-format=sha256 -b main . && git add -A && git commit -qm first"),
    usual("reference-table", "rm -rf .git && git init -q --template= --ref-format=reftable -b main . && git add -A && git commit -qm first"),
    usual("packed-references", "git tag one; git pack-refs --all"),
    usual("bitmap-and-graph", "git commit -q --allow-empty -m two; git repack -adbq; git commit-graph write; git multi-pack-index write"),
    usual("detached-head", "git checkout -q --detach"),
    usual("orphan-tags", "git tag -a -m t t; git branch other"),
    usual("shallow", "git commit -q --allow-empty -m two; d=$PWD; cd ..; rm -rf shallow-copy; git clone -q --depth 1 file://$d shallow-copy; rm -rf $d; mv shallow-copy $d"),
    usual("partial-clone", "git config uploadpack.allowFilter true; d=$PWD; cd ..; rm -rf copy source; cp -a $d source; git clone -q --filter=blob:none file://$PWD/source copy; rm -rf $d; mv copy $d"),
    usual("alternates", "d=$PWD; cd ..; rm -rf copy lender; mv $d lender; git clone -q --shared lender copy; mv copy $d"),
    usual("linked-worktree", "d=$PWD; cd ..; rm -rf main-tree; mv $d main-tree; git -C main-tree worktree add -q -b linked $d"),
    usual("symbolic-link-git", "d=$PWD; cd ..; rm -rf real-git; mv $d/.git real-git; ln -s ../real-git $d/.git; git --git-dir=real-git config core.worktree $d"),
    usual("pointer-git", "d=$PWD; cd ..; rm -rf real-git; mv $d/.git real-git; echo 'gitdir: ../real-git' > $d/.git; git --git-dir=real-git config core.worktree $d"),
    odd("symbolic-link-git-unknown", "d=$PWD; cd ..; rm -rf real-git; mv $d/.git real-git; ln -s ../real-git $d/.git", "echo changed >> a"),
    odd("pointer-git-unknown", "d=$PWD; cd ..; rm -rf real-git; mv $d/.git real-git; echo 'gitdir: ../real-git' > $d/.git", "echo changed >> a"),
    odd("alternates-of-a-home", "echo $HOME > .git/objects/info/alternates", "echo changed >> a; cat $HOME/.ssh/* >> a || true"),
    usual("crlf", "git config core.autocrlf true; printf '1\\r\\n2\\r\\n' > crlf; git add crlf; git commit -qm crlf; rm -rf a z dir o crlf; git checkout -q -- .").with_change("printf changed > dir/b; printf new > new; rm z"),
    usual("attributes-eol", "printf '*.txt text eol=crlf\\n' > .gitattributes; printf 'x\\n' > t.txt; git add -A; git commit -qm t"),
    usual("working-encoding", "printf 'u working-tree-encoding=UTF-16\\n' > .gitattributes; printf 'x\\n' | iconv -t UTF-16 > u; git add -A; git commit -qm u"),
    usual("ident", "printf 'a ident\\n' > .gitattributes; git add -A; git commit -qm i"),
    usual("file-mode-off", "git config core.fileMode false; chmod +x a"),
    usual("ignore-case", "git config core.ignoreCase true"),
    usual("protect-hfs", "git config core.protectHFS true; git config core.protectNTFS true"),
    usual("dirty-and-staged", "echo mine >> dir/b; echo staged > staged; git add staged; echo loose > loose"),
    usual("nested-repository", "git init -q inner; echo i > inner/i; printf 'inner/\\n' > .git/info/exclude 2>/dev/null || { mkdir -p .git/info; echo inner/ > .git/info/exclude; }"),
    usual("relative-hooks", "git config core.hooksPath hooks; mkdir hooks; for h in pre-commit post-commit pre-merge-commit prepare-commit-msg commit-msg post-checkout post-index-change reference-transaction pre-auto-gc post-rewrite; do cp $TRIP hooks/$h; done; git add -A; git -c core.hooksPath=/dev/null commit -qm h"),
    usual("git-hooks", "mkdir -p .git/hooks; for h in pre-commit post-commit prepare-commit-msg commit-msg post-checkout post-index-change reference-transaction pre-auto-gc fsmonitor-watchman; do cp $TRIP .git/hooks/$h; done"),
    usual("include-configuration", "printf '[core]\\n\\tfsmonitor = %s\\n' $TRIP > more; git config include.path ../more; git -c core.fsmonitor=false add -A; git -c core.fsmonitor=false commit -qm m"),
    usual("worktree-configuration", "git config extensions.worktreeConfig true; git config --worktree core.fsmonitor $TRIP"),
    odd("filter-lfs", "printf '*.bin filter=lfs diff=lfs merge=lfs -text\\n' > .gitattributes; git config filter.lfs.clean $TRIP; git config filter.lfs.smudge $TRIP; git config filter.lfs.process $TRIP; git config filter.lfs.required true; printf 'version https://git-lfs.github.com/spec/v1\\noid sha256:%064d\\nsize 1\\n' 1 > x.bin; git -c filter.lfs.clean=cat -c filter.lfs.process= -c filter.lfs.required=false add -A; git -c filter.lfs.process= -c filter.lfs.clean=cat -c filter.lfs.required=false commit -qm l", "echo other > x.bin; echo changed >> a"),
    odd("filter-equals-sign", "printf '* filter=a=b\\n' > .gitattributes; git add .gitattributes; git commit -qm f; git config 'filter.a=b.clean' $TRIP; git config 'filter.a=b.smudge' $TRIP; git config 'filter.a=b.process' $TRIP", EDIT),
    odd("filter-not-text", "printf '* filter=\\377x\\n' > .gitattributes; git add .gitattributes; git commit -qm f; printf '[filter \"\\377x\"]\\n\\tclean = %s\\n\\tsmudge = %s\\n' $TRIP $TRIP >> .git/config", EDIT),
    odd("filter-changed-file", "printf '*.f filter=x\\n' > .gitattributes; echo f > one.f; git add -A; git commit -qm f; git config filter.x.clean $TRIP; git config filter.x.smudge $TRIP", "echo changed >> one.f; echo changed >> a"),
    odd("submodule", "git init -q --template= -b main library; echo l > library/l; git -C library add -A; git -C library commit -qm l; git -c protocol.file.allow=always submodule --quiet add ./library library || git add library; git commit -qam s", "echo changed >> a; echo changed > library/l"),
    odd("submodule-removed", "git init -q --template= -b main library; echo l > library/l; git -C library add -A; git -C library commit -qm l; git -c advice.addEmbeddedRepo=false add library; git commit -qam s", "echo changed >> a; rm -rf library"),
    odd("submodule-bad-address", "printf '[submodule \"x\"]\\n\\tpath = x\\n\\turl = -u./payload\\n' > .gitmodules; git add -A; git commit -qm s", EDIT),
    odd("submodule-name-leads-out", "printf '[submodule \"../../x\"]\\n\\tpath = x\\n\\turl = ./x\\n\\tupdate = !touch fired\\n' > .gitmodules; git add -A; git commit -qm s", EDIT),
    odd("modules-by-plan", ":", "printf '[submodule \"../x\"]\\n\\tpath = x\\n\\turl = -u./payload\\n\\tupdate = !%s\\n' x > .gitmodules; echo changed >> a"),
    odd("look-alike-zero-width", ":", "mkdir \"$(printf '.g\\342\\200\\214it')\" && echo x > \"$(printf '.g\\342\\200\\214it/config')\"; echo changed >> a"),
    odd("look-alike-upper-case", ":", "mkdir .GIT; echo x > .GIT/config; echo changed >> a"),
    odd("look-alike-short-name", ":", "mkdir git~1; echo x > git~1/config; echo changed >> a"),
    odd("look-alike-trailing", ":", "mkdir '.git ' '.git.'; echo x > '.git /config'; echo x > '.git./config'; echo changed >> a"),
    odd("name-newline", ":", "printf x > \"$(printf 'new\\nline')\"; echo changed >> a"),
    odd("name-not-text", ":", "printf x > \"$(printf 'n\\377')\"; echo changed >> a"),
    odd("name-leading-dash", ":", "printf x > ./--output=x; printf x > ./-rf; echo changed >> a"),
    odd("name-quotes", ":", "printf x > \"$(printf 'q\\\"\\047 $(x) `x` ;&|')\"; echo changed >> a"),
    odd("name-backslash", ":", "printf x > 'a\\b'; printf x > 'con'; printf x > 'a:b'; echo changed >> a"),
    odd("name-long", ":", "printf x > $(printf 'n%.0s' $(seq 1 250)); echo changed >> a"),
    odd("link-out", ":", "ln -s /etc/passwd link; ln -s ../.. up; echo changed >> a"),
    odd("file-becomes-link", ":", "rm a; ln -s /etc/passwd a"),
    odd("folder-becomes-file", ":", "rm -r dir; echo f > dir; echo changed >> a"),
    odd("file-becomes-folder", ":", "rm z; mkdir z; echo f > z/f"),
    odd("case-pair", ":", "echo x > Case; echo y > case"),
    odd("executable", ":", "chmod +x a; echo changed >> dir/b"),
    odd("nested-git-by-plan", ":", "git init -q inner; echo i > inner/i; echo changed >> a"),
    odd("large-file", "head -c 30000000 /dev/urandom > large; git add large; git commit -qm l", "echo more >> large; echo changed >> a"),
    odd("many-files", "mkdir many; i=0; while [ $i -lt 1500 ]; do echo $i > many/$i; i=$((i+1)); done; git add -A; git commit -qm m", "rm -r many; echo changed >> a"),
    odd("conflict-in-index", "git checkout -qb other; echo x > a; git commit -qam x; git checkout -q main; echo y > a; git commit -qam y; git merge -q other || true", "echo changed >> dir/b"),
    odd("merge-driver", "printf 'a merge=x\\n' > .gitattributes; git add -A; git commit -qm m; git config merge.x.driver \"$TRIP %O %A %B\"", EDIT),
    odd("signing", "git config commit.gpgSign true; git config gpg.program $TRIP; git config user.signingKey x", EDIT),
    odd("signing-ssh", "git config commit.gpgSign true; git config gpg.format ssh; git config gpg.ssh.program $TRIP; git config gpg.ssh.defaultKeyCommand $TRIP", EDIT),
    odd("signing-ssh-key-command", "git config commit.gpgSign true; git config gpg.format ssh; git config gpg.ssh.defaultKeyCommand $TRIP", EDIT),
    odd("bare-setting", "git config core.bare true", EDIT),
    odd("foreign-work-tree", "mkdir ../elsewhere; git config core.worktree ../../elsewhere", EDIT),
    odd("empty-repository", "rm -rf .git && git init -q --template= -b main .", EDIT),
    odd("broken-index", "printf garbage > .git/index", EDIT),
    odd("locked-index", ": > .git/index.lock", EDIT),
];

impl HostileRepository {
    const fn with_change(mut self, change: &'static str) -> HostileRepository {
        self.change = change;
        self
    }
}
