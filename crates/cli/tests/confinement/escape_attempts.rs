//! The list of escape attempts: the script of each, and its expected outcome at each level.
//!
//! A script prints `ESCAPED` if it succeeded, unless only the outside can tell. Its variables:
//! `OUT` a folder of the user, `USER_HOME` and `REPO` the user's home and repository, `DATA` our
//! data directory, `GIT` the store beside the tree, `OTHER` another sandbox's tree, `OWNER` the
//! owner's process, `NAME` a unique name, and the sockets of the test: `TCP` and `UDP` (ports),
//! `UNIX`, `SHOWN` and `ELSEWHERE` (paths) and `ABSTRACT` (a name).

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AttemptOutcome {
    Denied,
    /// This level cannot deny it, as the guide documents.
    Open,
}

use AttemptOutcome::{Denied, Open};

pub(crate) struct EscapeAttempt {
    pub(crate) name: &'static str,
    pub(crate) script: &'static str,
    pub(crate) namespaces: AttemptOutcome,
    pub(crate) landlock: AttemptOutcome,
    /// The outcome if root started the command, which then runs as a separate user.
    pub(crate) landlock_as_root: AttemptOutcome,
    pub(crate) unconfined: UnconfinedOutcome,
}

/// The outcome without confinement, which proves that the attempt would work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnconfinedOutcome {
    Works,
    /// It fails as root, because every sandbox then has a separate user.
    WorksUnlessRoot,
    /// It fails even then: commands have a clean environment and no privileges at any level.
    Denied,
    /// Not tried: it would harm this machine, or the outcome depends on the machine.
    NotTried,
}

impl EscapeAttempt {
    const fn with_unconfined(mut self, unconfined: UnconfinedOutcome) -> Self {
        self.unconfined = unconfined;
        self
    }
}

/// Denied by both levels.
const fn denied(name: &'static str, script: &'static str) -> EscapeAttempt {
    EscapeAttempt {
        name,
        script,
        namespaces: Denied,
        landlock: Denied,
        landlock_as_root: Denied,
        unconfined: UnconfinedOutcome::Works,
    }
}

/// Denied by namespaces only.
const fn open_to_landlock(name: &'static str, script: &'static str) -> EscapeAttempt {
    EscapeAttempt {
        landlock: Open,
        landlock_as_root: Open,
        ..denied(name, script)
    }
}

/// Denied by Landlock only if the command runs as a different user than its owner.
const fn open_to_the_same_user(name: &'static str, script: &'static str) -> EscapeAttempt {
    EscapeAttempt {
        landlock: Open,
        ..denied(name, script)
    }
}

/// Writing and removing files outside.
pub(crate) const WRITES: &[EscapeAttempt] = &[
    denied("beside the tree", "echo x > ../escaped && echo ESCAPED"),
    denied(
        "up to the root and down again",
        "echo x > ../../../../../../../../../../../..$OUT/escaped && echo ESCAPED",
    ),
    denied("an absolute path", "echo x > $OUT/escaped && echo ESCAPED"),
    denied("an existing file", "echo x >> $OUT/file && echo ESCAPED"),
    denied("emptying a file", "truncate -s 0 $OUT/file && echo ESCAPED"),
    denied("removing a file", "rm $OUT/file && echo ESCAPED"),
    denied("removing a folder", "rm -r $OUT && echo ESCAPED"),
    denied("moving a file in", "mv $OUT/file mine && echo ESCAPED"),
    denied(
        "moving a file out",
        "echo x > mine; mv mine $OUT/mine && echo ESCAPED",
    ),
    denied("making a folder", "mkdir $OUT/new && echo ESCAPED"),
    denied("making a link", "ln -s / $OUT/link && echo ESCAPED"),
    denied(
        "through a link to a folder",
        "ln -s $OUT out && echo x > out/escaped && echo ESCAPED",
    ),
    denied(
        "through a link to a file",
        "ln -s $OUT/file out && echo x >> out && echo ESCAPED",
    ),
    denied(
        "a folder swapped for a link while it is written",
        "mkdir -p d; (for i in $(seq 200); do mv -T d e; ln -sfn $OUT d; rm d; mv -T e d; done) & \
         for i in $(seq 2000); do echo x > d/escaped; done 2>/dev/null; wait; \
         test -e $OUT/escaped && echo ESCAPED",
    )
    .with_unconfined(UnconfinedOutcome::NotTried),
    denied(
        "through its own root in /proc",
        "echo x > /proc/self/root$OUT/escaped && echo ESCAPED",
    ),
    denied(
        "through the owner's root in /proc",
        "echo x > /proc/$OWNER/root$OUT/escaped && echo ESCAPED",
    )
    .with_unconfined(UnconfinedOutcome::NotTried),
    denied(
        "through the root of process 1",
        "echo x > /proc/1/root$OUT/escaped && echo ESCAPED",
    )
    .with_unconfined(UnconfinedOutcome::NotTried),
    denied(
        "through the owner's working directory",
        "cat /proc/$OWNER/cwd/* && echo ESCAPED; echo x > /proc/$OWNER/cwd/escaped && echo ESCAPED",
    )
    .with_unconfined(UnconfinedOutcome::NotTried),
    denied(
        "through a hard link",
        "ln $OUT/file mine && echo x >> mine && echo ESCAPED",
    ),
    open_to_the_same_user(
        "modes of the user's files",
        "chmod 777 $OUT/file && echo ESCAPED",
    ),
    open_to_the_same_user(
        "times of the user's files",
        "touch -d 2001-01-01 $OUT/file; \
         test $(date -r $OUT/file +%Y) = 2001 && echo ESCAPED",
    ),
    denied("/etc", "echo x > /etc/$NAME && echo ESCAPED")
        .with_unconfined(UnconfinedOutcome::NotTried),
    denied("/usr", "echo x > /usr/$NAME && echo ESCAPED")
        .with_unconfined(UnconfinedOutcome::NotTried),
    denied("/var", "echo x > /var/lib/$NAME && echo ESCAPED")
        .with_unconfined(UnconfinedOutcome::NotTried),
    denied(
        "tasks for later",
        "for f in /var/spool/cron /var/spool/cron/crontabs /etc/cron.d /var/spool/at \
         /var/spool/cron/atjobs /etc/systemd/system; do \
         echo x > $f/$NAME && echo ESCAPED; done; \
         echo '* * * * * true' | crontab - && echo ESCAPED",
    )
    .with_unconfined(UnconfinedOutcome::NotTried),
    denied("the home", "echo x > $USER_HOME/.bashrc && echo ESCAPED"),
    denied(
        "caches of toolchains",
        "echo x > $CARGO_HOME/registry/cached && echo ESCAPED",
    ),
    // Checked from outside, because at one level the command has its own `/tmp`.
    denied("the machine's /tmp", "echo x > /tmp/$NAME"),
    denied("the machine's /var/tmp", "echo x > /var/tmp/$NAME"),
    open_to_landlock("the machine's shared memory", "echo x > /dev/shm/$NAME"),
    denied("the user's repository", "echo x > $REPO/a && echo ESCAPED"),
    denied(
        "hooks of the user's repository",
        "echo x > $REPO/.git/hooks/pre-commit && echo ESCAPED",
    ),
    denied(
        "objects of the user's repository",
        "echo x > $REPO/.git/objects/$NAME && echo ESCAPED",
    ),
    denied(
        "a hard link to an object",
        "o=$(find $REPO/.git/objects -type f | head -n 1); \
         ln $o mine && chmod u+w mine && echo x > mine && echo ESCAPED",
    ),
];

/// Our own data and the sandbox's store.
pub(crate) const STORES: &[EscapeAttempt] = &[
    denied(
        "the store's objects",
        "echo x > $GIT/objects/escaped && echo ESCAPED",
    ),
    denied(
        "the store's configuration",
        "git config --file $GIT/config core.fsmonitor ./evil && echo ESCAPED",
    ),
    denied(
        "the store's hooks",
        "mkdir -p $GIT/hooks && echo x > $GIT/hooks/pre-commit && echo ESCAPED",
    ),
    denied(
        "the store's lenders",
        "echo /x >> $GIT/objects/info/alternates && echo ESCAPED",
    ),
    denied("the store's index", "echo x > $GIT/index && echo ESCAPED"),
    denied("the store itself", "mv $GIT ../elsewhere && echo ESCAPED")
        .with_unconfined(UnconfinedOutcome::NotTried),
    denied("the tree itself", "mv ../tree ../elsewhere && echo ESCAPED")
        .with_unconfined(UnconfinedOutcome::NotTried),
    denied(
        "the marker of the sandbox",
        "cat ../marker.json && echo ESCAPED",
    ),
    denied(
        "the lock of the sandbox",
        "flock -n ../lock true && echo ESCAPED",
    ),
    denied(
        "reading the database",
        "cat $DATA/cleveragents.db && echo ESCAPED",
    ),
    denied(
        "writing the database",
        "echo x >> $DATA/cleveragents.db && echo ESCAPED",
    ),
    denied("the settings", "echo x > $DATA/config.toml && echo ESCAPED"),
    denied(
        "listing our data",
        "ls $DATA/* | grep cleveragents.db && echo ESCAPED",
    ),
    denied(
        "reading another sandbox",
        "cat $OTHER/theirs && echo ESCAPED",
    )
    .with_unconfined(UnconfinedOutcome::WorksUnlessRoot),
    denied(
        "writing another sandbox",
        "echo x > $OTHER/theirs && echo ESCAPED",
    )
    .with_unconfined(UnconfinedOutcome::WorksUnlessRoot),
];

/// Credentials.
pub(crate) const SECRETS: &[EscapeAttempt] = &[
    denied(
        "keys of ssh",
        "grep SECRET $USER_HOME/.ssh/id && echo ESCAPED",
    ),
    denied(
        "names of keys",
        "ls $USER_HOME/.ssh | grep id && echo ESCAPED",
    ),
    denied(
        "credentials of a cloud",
        "grep SECRET $USER_HOME/.aws/credentials && echo ESCAPED",
    ),
    denied(
        "keys of gnupg",
        "grep SECRET $USER_HOME/.gnupg/private && echo ESCAPED",
    ),
    denied(
        "passwords of hosts",
        "grep SECRET $USER_HOME/.netrc && echo ESCAPED",
    ),
    denied(
        "a token of a forge",
        "grep SECRET $USER_HOME/.config/gh/hosts.yml && echo ESCAPED",
    ),
    denied(
        "a token of a registry",
        "grep SECRET $CARGO_HOME/credentials.toml && echo ESCAPED",
    ),
    denied(
        "secrets in the home",
        "grep SECRET $USER_HOME/.env && echo ESCAPED",
    ),
    denied(
        "more secrets in the home",
        "grep SECRET $USER_HOME/.env.local && echo ESCAPED",
    ),
    denied(
        "secrets of the project",
        "grep SECRET $REPO/.env && echo ESCAPED",
    ),
    denied(
        "secrets in a folder of the project",
        "grep SECRET $REPO/dir/.env && echo ESCAPED",
    ),
    denied(
        "secrets of a linked worktree",
        "grep SECRET $REPO/../linked/.env && echo ESCAPED",
    ),
    denied(
        "secrets of a plain folder",
        "grep SECRET $OUT/.env $USER_HOME/neighbour/.env && echo ESCAPED",
    ),
    denied(
        "what was typed",
        "grep SECRET $USER_HOME/.zsh_history && echo ESCAPED",
    ),
    denied(
        "credentials of build tools",
        "grep SECRET $USER_HOME/.m2/settings.xml $USER_HOME/.gem/credentials && echo ESCAPED",
    ),
    denied(
        "sessions of other agents",
        "grep SECRET $USER_HOME/.claude/session.json && echo ESCAPED",
    ),
    denied(
        "passwords of a browser",
        "grep -r SECRET $USER_HOME/.mozilla && echo ESCAPED",
    ),
    denied(
        "files of the project beside the tree",
        "cat $REPO/a && echo ESCAPED",
    ),
    denied("other files of the user", "cat $OUT/file && echo ESCAPED"),
    denied("homes", "ls /home/* /root && echo ESCAPED")
        .with_unconfined(UnconfinedOutcome::NotTried),
    denied(
        "the keyring of the session",
        "python3 -c 'import ctypes, platform, sys
call = {\"x86_64\": 250, \"aarch64\": 219}[platform.machine()]
libc = ctypes.CDLL(None, use_errno=True)
sys.exit(libc.syscall(call, 0, -3, 0) < 0)' && echo ESCAPED",
    )
    .with_unconfined(UnconfinedOutcome::NotTried),
    denied(
        "keys through a link",
        "ln -s $USER_HOME/.ssh/id key && grep SECRET key && echo ESCAPED",
    ),
    denied(
        "keys through /proc",
        "grep SECRET /proc/self/root$USER_HOME/.ssh/id && echo ESCAPED",
    ),
    denied(
        "secrets in the environment",
        "env | grep SECRET && echo ESCAPED",
    )
    .with_unconfined(UnconfinedOutcome::Denied),
    denied(
        "what directs git or loads code",
        "env | grep -E '^(GIT_|LD_|SSH_)' && echo ESCAPED",
    )
    .with_unconfined(UnconfinedOutcome::Denied),
    denied(
        "the owner's environment",
        "grep -a HOME /proc/$OWNER/environ && echo ESCAPED",
    )
    .with_unconfined(UnconfinedOutcome::NotTried),
    denied(
        "the supervisor's environment",
        "grep -a HOME /proc/${AGENTS_CONFINED_BY%-*}/environ && echo ESCAPED",
    )
    .with_unconfined(UnconfinedOutcome::NotTried),
    open_to_landlock(
        "the command lines of others",
        "grep -a confinement /proc/$OWNER/cmdline && echo ESCAPED",
    ),
];

/// Processes, privileges and devices.
pub(crate) const PRIVILEGES: &[EscapeAttempt] = &[
    denied("a signal to the owner", "kill -0 $OWNER && echo ESCAPED"),
    denied(
        "a signal to the supervisor",
        "kill -KILL ${AGENTS_CONFINED_BY%-*} && echo ESCAPED",
    )
    .with_unconfined(UnconfinedOutcome::NotTried),
    denied(
        "tracing the owner",
        "python3 -c 'import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
pid = int(os.environ[\"P\"])
sys.exit(libc.ptrace(0x4206, pid, 0, 0))' && echo ESCAPED",
    )
    .with_unconfined(UnconfinedOutcome::NotTried),
    denied(
        "memory of the owner",
        "head -c 1 /proc/$OWNER/mem && echo ESCAPED",
    )
    .with_unconfined(UnconfinedOutcome::NotTried),
    denied(
        "files of the owner",
        "readlink /proc/$OWNER/fd/0 && echo ESCAPED; readlink /proc/$OWNER/exe && echo ESCAPED",
    )
    .with_unconfined(UnconfinedOutcome::NotTried),
    denied(
        "files that were left open",
        "for n in 3 4 5 6 7 8 9 11 12 13; do test -e /proc/self/fd/$n && echo ESCAPED; done",
    )
    .with_unconfined(UnconfinedOutcome::Denied),
    denied("mounting", "mkdir m; mount --bind $OUT m && echo ESCAPED")
        .with_unconfined(UnconfinedOutcome::Denied),
    denied(
        "writing again",
        "mount -o remount,rw,bind / && echo x > $OUT/escaped && echo ESCAPED",
    )
    .with_unconfined(UnconfinedOutcome::NotTried),
    denied(
        "mounting in a namespace of its own",
        "mkdir m; unshare -Urm sh -c 'mount --bind $OUT m && echo x > m/escaped && echo ESCAPED'",
    )
    .with_unconfined(UnconfinedOutcome::NotTried),
    denied(
        "unmounting what hides",
        "umount $DATA $USER_HOME/.ssh; grep SECRET $USER_HOME/.ssh/id && echo ESCAPED",
    )
    .with_unconfined(UnconfinedOutcome::NotTried),
    denied(
        "another root",
        "mkdir r; chroot r / true && echo ESCAPED; \
         python3 -c 'import os; os.chroot(\".\")' && echo ESCAPED",
    )
    .with_unconfined(UnconfinedOutcome::NotTried),
    denied(
        "privileges",
        "grep -E '^Cap(Inh|Prm|Eff|Amb):' /proc/self/status | grep -v 0000000000000000 && \
         echo ESCAPED; grep -q '^NoNewPrivs:.1' /proc/self/status || echo ESCAPED",
    )
    .with_unconfined(UnconfinedOutcome::Denied),
    denied(
        "a program of another user",
        "sudo -n true && echo ESCAPED; setpriv --reuid 1 true && echo ESCAPED",
    )
    .with_unconfined(UnconfinedOutcome::Denied),
    denied("making a disk", "mknod disk b 8 0 && echo ESCAPED")
        .with_unconfined(UnconfinedOutcome::Denied),
    denied("making a memory device", "mknod mem c 1 1 && echo ESCAPED")
        .with_unconfined(UnconfinedOutcome::Denied),
    denied(
        "disks and memory",
        "for d in /dev/vda /dev/sda /dev/nvme0n1 /dev/dm-0 /dev/mem /dev/kmsg /dev/port; do \
         head -c 1 $d && echo ESCAPED; done",
    )
    .with_unconfined(UnconfinedOutcome::NotTried),
    denied(
        "settings of the kernel",
        "echo 1 > /proc/sys/kernel/sysrq && echo ESCAPED",
    )
    .with_unconfined(UnconfinedOutcome::NotTried),
    denied(
        "a program that the kernel runs for crashes",
        ": >> /proc/sys/kernel/core_pattern && echo ESCAPED",
    )
    .with_unconfined(UnconfinedOutcome::NotTried),
    denied(
        "switches of the kernel",
        "for f in /proc/sysrq-trigger /proc/sys/vm/drop_caches /sys/kernel/uevent_helper \
         /sys/power/state /sys/fs/cgroup/release_agent; do : >> $f && echo ESCAPED; done",
    )
    .with_unconfined(UnconfinedOutcome::NotTried),
    denied(
        "the user of root's files",
        "test \"$(stat -c %u /)\" = \"$(id -u)\" && test -n \"$AS_ROOT\" && echo ESCAPED; \
         test \"$(id -u)\" = 0 && test -n \"$AS_ROOT\" && echo ESCAPED",
    )
    .with_unconfined(UnconfinedOutcome::NotTried),
    denied(
        "a user namespace",
        "unshare -U true && echo ESCAPED; \
         python3 -c 'import ctypes, sys
sys.exit(ctypes.CDLL(None).unshare(0x10000000))' && echo ESCAPED",
    )
    .with_unconfined(UnconfinedOutcome::NotTried),
    denied("the terminal", "echo x > /dev/tty && echo ESCAPED")
        .with_unconfined(UnconfinedOutcome::NotTried),
];

/// Connections to other processes.
pub(crate) const CONNECTIONS: &[EscapeAttempt] = &[
    denied(
        "a connection",
        "python3 -c 'import socket
socket.create_connection((\"127.0.0.1\", TCP))' && echo ESCAPED",
    ),
    denied(
        "a server",
        "python3 -c 'import socket
s = socket.socket()
s.bind((\"0.0.0.0\", 0)); s.listen()' && test \"$(readlink /proc/self/ns/net)\" = NETNS && echo ESCAPED",
    ),
    denied(
        "a datagram",
        "python3 -c 'import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(5)
s.sendto(b\"x\", (\"127.0.0.1\", UDP))
s.recv(1)' && echo ESCAPED",
    ),
    denied(
        "a socket with a path",
        "python3 -c 'import socket
socket.socket(socket.AF_UNIX).connect(\"UNIX\")' && echo ESCAPED",
    ),
    denied(
        "a socket with a name",
        "python3 -c 'import socket
socket.socket(socket.AF_UNIX).connect(\"\\0ABSTRACT\")' && echo ESCAPED",
    ),
    denied(
        "a socket bound by a relative path",
        "python3 -c 'import socket
socket.socket(socket.AF_UNIX).connect(\"RELATIVE\")' && echo ESCAPED",
    ),
    denied(
        "a socket in a folder that may be read",
        "python3 -c 'import socket
socket.socket(socket.AF_UNIX).connect(\"SHOWN\")' && echo ESCAPED",
    ),
    denied(
        "a socket of another network namespace",
        "python3 -c 'import socket
socket.socket(socket.AF_UNIX).connect(\"ELSEWHERE\")' && echo ESCAPED",
    ),
    denied(
        "a socket through the root of another process",
        "python3 -c 'import socket
socket.socket(socket.AF_UNIX).connect(\"/proc/OWNER_PID/rootRELATIVE\")' && echo ESCAPED",
    )
    .with_unconfined(UnconfinedOutcome::NotTried),
    denied(
        "the hypervisor and other unusual families",
        "python3 -c 'import socket, sys
for family in (socket.AF_VSOCK, socket.AF_ALG, 31, 39, 44):
    try:
        socket.socket(family, socket.SOCK_STREAM)
        sys.exit(0)
    except PermissionError:
        continue
    except OSError as error:
        print(family, error)
        sys.exit(0 if error.errno not in (97, 94, 93) or family == socket.AF_VSOCK else 1)
sys.exit(1)' && echo ESCAPED",
    )
    .with_unconfined(UnconfinedOutcome::NotTried),
];
