//! Git configuration planted in the tree, for the host's git that later reads the tree. The
//! tripwire touches a file outside, which the sandbox itself cannot do.

use super::attempt::{AttackAttempt, sh};

pub const ATTEMPTS: &[AttackAttempt] = &[
    sh(
        "git-own-folder",
        r#"cd $TREE; rm -rf .git; git init -q .; git config core.fsmonitor "touch $OUT/fired; false"; echo x > new; [ -z "$CONTROL" ] || git status"#,
    )
    .alone(),
    sh(
        "git-pointer",
        r#"cd $TREE; rm -rf .git; git init -q evil; git -C evil config core.fsmonitor "touch $OUT/fired; false"; echo "gitdir: evil/.git" > .git; echo x > new; [ -z "$CONTROL" ] || git status"#,
    )
    .alone(),
    sh(
        "git-link",
        r#"cd $TREE; rm -rf .git; git init -q evil; git -C evil config core.fsmonitor "touch $OUT/fired; false"; ln -s evil/.git .git; echo x > new; [ -z "$CONTROL" ] || git status"#,
    )
    .alone(),
    sh(
        "git-filter",
        r#"cd $TREE; rm -rf .git; git init -q .; git config filter.x.clean "touch $OUT/fired; cat"; echo '* filter=x' > .gitattributes; echo x > new; [ -z "$CONTROL" ] || git add -A"#,
    )
    .alone(),
    sh(
        "git-text-conversion",
        r#"cd $TREE; rm -rf .git; git init -q .; git config diff.x.textconv "touch $OUT/fired; cat"; echo '* diff=x' > .gitattributes; echo x >> a; git add -A; echo y >> a; [ -z "$CONTROL" ] || git diff"#,
    )
    .alone(),
    sh(
        "git-external-diff",
        r#"cd $TREE; rm -rf .git; git init -q .; git config diff.external "touch $OUT/fired; true"; git add -A; echo y >> a; [ -z "$CONTROL" ] || git diff"#,
    )
    .alone(),
    sh(
        "git-nested-repository",
        r#"cd $TREE; git init -q nested; git -C nested config core.fsmonitor "touch $OUT/fired; false"; echo x > nested/file; [ -z "$CONTROL" ] || git -C nested status"#,
    )
    .alone(),
    sh(
        "git-other-work-tree",
        r#"cd $TREE; rm -rf .git; git init -q .; git config core.worktree $OUT; echo x > new; [ -z "$CONTROL" ] || { cp a $OUT/planted; }"#,
    )
    .alone(),
    sh(
        "git-common-folder",
        r#"cd $TREE; git init -q evil; git -C evil config core.fsmonitor "touch $OUT/fired; false"; rm -rf .git; mkdir .git; echo ../evil/.git > .git/commondir; cp evil/.git/HEAD .git/; echo x > new; [ -z "$CONTROL" ] || git status"#,
    )
    .alone(),
    sh(
        "git-hooks",
        r#"cd $TREE; mkdir hooks; printf '#!/bin/sh\ntouch %s/fired\n' $OUT > hooks/pre-commit; cp hooks/pre-commit hooks/post-index-change; chmod +x hooks/*; rm -rf .git; git init -q .; git config core.hooksPath hooks; echo x > new; [ -z "$CONTROL" ] || git add -A"#,
    )
    .alone(),
    sh(
        "git-alternates",
        r#"cd $TREE; rm -rf .git; git init -q .; mkdir -p .git/objects/info; echo $OUT > .git/objects/info/alternates; cat $OUT/secret; echo x > new"#,
    )
    .alone(),
    sh(
        "git-include",
        r#"cd $TREE; rm -rf .git; git init -q .; printf '[core]\n fsmonitor = touch %s/fired\n' $OUT > more; git config include.path ../more; echo x > new; [ -z "$CONTROL" ] || git status"#,
    )
    .alone(),
    sh(
        "git-config-of-sandbox",
        r#"cd $TREE; d=$(git rev-parse --absolute-git-dir); printf '[core]\n fsmonitor = touch %s/fired\n' $OUT >> $d/config; echo x > new; [ -z "$CONTROL" ] || git status"#,
    )
    .alone(),
];
