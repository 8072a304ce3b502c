//! Files outside the tree: the user's, the program's, and those of other sandboxes.

use super::attempt::{AttackAttempt, HostActivity, py, sh};

pub const ATTEMPTS: &[AttackAttempt] = &[
    sh("write-outside", "echo planted > $OUT/planted"),
    sh("append-outside", "echo more >> $OUT/file"),
    sh("truncate-outside", ": > $OUT/file"),
    sh("remove-outside", "rm -f $OUT/file"),
    sh("make-folder-outside", "mkdir $OUT/planted"),
    sh("rename-outside", "mv $OUT/file $OUT/moved"),
    sh("rename-into-outside", "echo x > mine && mv mine $OUT/planted"),
    sh("rename-from-outside", "mv $OUT/file taken && cat taken"),
    sh("hard-link-write", "ln $OUT/file linked && echo more >> linked"),
    sh("hard-link-read", "ln $OUT/secret linked && cat linked"),
    sh("hard-link-out", "echo x > mine && ln mine $OUT/planted"),
    sh("symbolic-link-write", "ln -s $OUT/file linked && echo more >> linked"),
    sh("symbolic-link-read", "ln -s $OUT/secret linked && cat linked"),
    sh("symbolic-link-folder", "ln -s $OUT there && echo x > there/planted"),
    sh("symbolic-link-through-proc", "ln -s /proc/self/root/$OUT there && echo x > there/planted; cat there/secret"),
    sh("dot-dot-write", "d=$TREE; up=; while [ \"$d\" != / ]; do up=../$up; d=$(dirname $d); done; cd $TREE && echo x > ./$up$OUT/planted"),
    sh("dot-dot-read", "d=$TREE; up=; while [ \"$d\" != / ]; do up=../$up; d=$(dirname $d); done; cd $TREE && cat ./$up$OUT/secret"),
    sh("socket-outside", "mkfifo $OUT/pipe"),
    sh("mode-outside", "chmod 0777 $OUT/file").beyond_landlock(),
    sh("times-outside", "before=$(stat -c %Y $OUT/file) && touch -d 2001-01-01 $OUT/file && [ $(stat -c %Y $OUT/file) != $before ] && echo THROUGH; touch -d @$before $OUT/file").beyond_landlock(),
    sh("group-outside", "chgrp $(id -g) $OUT/file && echo THROUGH").beyond_landlock(),
    py("attribute-outside", r#"os.setxattr(env("OUT") + "/file", "user.attack", b"1"); through(); os.removexattr(env("OUT") + "/file", "user.attack")"#).beyond_landlock(),
    py("lease-outside", r#"
import fcntl
descriptor = os.open(env("OUT") + "/file", os.O_RDONLY)
fcntl.fcntl(descriptor, 1024, fcntl.F_RDLCK)
through()
"#).beyond_landlock(),
    py("exchange-outside", r#"
open("mine", "w").write("mine")
if call(316, -100, b"mine", -100, (env("OUT") + "/file").encode(), 2) == 0: through()
"#),
    py("copy-range-outside", r#"
source = os.open(env("OUT") + "/secret", os.O_RDONLY)
target = os.open("copy", os.O_RDWR | os.O_CREAT)
os.copy_file_range(source, target, 100)
print(os.pread(target, 100, 0).decode())
"#),
    py("map-outside", r#"
import mmap
descriptor = os.open(env("OUT") + "/file", os.O_RDWR)
mmap.mmap(descriptor, 1, mmap.MAP_SHARED)
through()
"#),
    py("path-descriptor", r#"
descriptor = os.open(env("OUT") + "/secret", os.O_PATH)
print(open("/proc/self/fd/%d" % descriptor).read())
"#),
    py("openat2", r#"
how = struct.pack("QQQ", os.O_RDONLY, 0, 0)
got = call(437, -100, (env("OUT") + "/secret").encode(), how, 24)
if got >= 0: print(os.read(got, 100).decode())
"#),
    py("clone-mount-tree", r#"
got = call(428, -100, env("OUT").encode(), 1 | 0x8000)
if got >= 0:
    inner = os.open("secret", os.O_RDONLY, dir_fd=got)
    print(os.read(inner, 100).decode())
"#),
    sh("write-repository", "echo planted > $REPO/planted"),
    sh("write-repository-git", "echo planted > $REPO/.git/planted"),
    sh("plant-hook", "printf '#!/bin/sh\\ntouch %s/fired\\n' $OUT > $REPO/.git/hooks/pre-commit; chmod +x $REPO/.git/hooks/pre-commit"),
    sh("plant-configuration", "git config --file $REPO/.git/config core.fsmonitor 'touch fired'"),
    sh("plant-alternates", "echo $TREE > $REPO/.git/objects/info/alternates"),
    sh("move-branch", "git -C $REPO update-ref refs/heads/planted HEAD"),
    sh("commit-in-repository", "git -C $REPO -c user.name=x -c user.email=x commit -q --allow-empty -m x"),
    sh("write-object-through-tree", "cd $TREE && echo $NAME | git hash-object -w --stdin"),
    sh("branch-through-tree", "cd $TREE && git update-ref refs/heads/planted HEAD; git branch planted"),
    sh("configuration-through-tree", "cd $TREE && git config core.fsmonitor 'touch fired' && echo configured"),
    sh("hook-through-tree", "cd $TREE && d=$(git rev-parse --git-common-dir) && mkdir -p $d/hooks && printf '#!/bin/sh\\ntouch %s/fired\\n' $OUT > $d/hooks/post-commit && chmod +x $d/hooks/post-commit && echo THROUGH"),
    sh("attributes-through-tree", "cd $TREE && d=$(git rev-parse --git-common-dir) && mkdir -p $d/info && echo '* filter=x' > $d/info/attributes && echo THROUGH"),
    sh("write-data-folder", "[ $(stat -c %i $DATA) = $DATA_INODE ] && echo planted > $DATA/planted && rm $DATA/planted && echo THROUGH"),
    sh("write-settings", "[ $(stat -c %i $DATA) = $DATA_INODE ] && : >> $DATA/config.toml && echo THROUGH"),
    sh("write-database", "[ $(stat -c %i $DATA) = $DATA_INODE ] && : >> $DATA/cleveragents.db && echo THROUGH"),
    sh("read-database", "head -c 16 $DATA/cleveragents.db | grep -q SQLite && echo THROUGH"),
    sh("list-data-folder", "[ $(stat -c %i $DATA) = $DATA_INODE ] && ls $DATA | grep -q cleveragents.db && echo THROUGH"),
    sh("read-other-sandbox", "cat $OTHER/theirs"),
    sh("write-other-sandbox", "echo planted > $OTHER/planted"),
    sh("list-sandboxes", "[ $(ls $(dirname $(dirname $OTHER)) | wc -l) -gt 1 ] && echo THROUGH"),
    sh("find-run-folder", "ls -d $DATA/run $DATA/sandboxes && echo THROUGH").beyond_landlock(),
    sh("read-run-folder", "ls $DATA/run $DATA/sandboxes && echo THROUGH"),
    sh("write-temporary", "echo x > /tmp/$NAME"),
    sh("read-temporary", "cat /tmp/$NAME-secret"),
    sh("read-var-temporary", "cat /var/tmp/$NAME-secret"),
    sh("write-var-temporary", "echo x > /var/tmp/$NAME"),
    sh("write-shared-memory", "echo x > /dev/shm/$NAME").beyond_landlock(),
    sh("read-shared-memory", "cat /dev/shm/$NAME-secret").beyond_landlock(),
    sh("write-etc", "echo x > /etc/$NAME && rm /etc/$NAME && echo THROUGH"),
    sh("write-usr", "echo x > /usr/bin/$NAME && rm /usr/bin/$NAME && echo THROUGH"),
    sh("write-var-lib", "echo x > /var/lib/$NAME && rm /var/lib/$NAME && echo THROUGH"),
    sh("write-root", "echo x > /$NAME && rm /$NAME && echo THROUGH"),
    sh("write-cron", "echo x > /etc/cron.d/$NAME && rm /etc/cron.d/$NAME && echo THROUGH"),
    sh("write-shadow", "exec 7>>/etc/shadow && echo THROUGH"),
    sh("read-shadow", "grep -q root /etc/shadow && echo THROUGH"),
    sh("run-set-user-id", "cp /bin/sh shell && chmod 4755 shell && [ -u shell ] && sh -c 'cat $OUT/secret'"),
    sh("mount-tmpfs", "mkdir m && mount -t tmpfs none m && echo THROUGH && umount m"),
    sh("mount-bind", "mkdir m && mount --bind $OUT m && cat m/secret && umount m"),
    sh("mount-proc", "mkdir m && mount -t proc none m && cat m/$VICTIM/root/$OUT/secret; umount m"),
    sh("mount-sysfs", "mkdir m && mount -t sysfs none m && [ -w m/kernel/uevent_helper ] && echo THROUGH; umount m"),
    sh("mount-devtmpfs", "mkdir m && mount -t devtmpfs none m && [ -e m/kmsg ] && exec 7>m/kmsg && echo THROUGH; umount m"),
    sh("remount-writable", "mount -o remount,rw / && echo THROUGH"),
    sh("own-namespace-mount", "mkdir m; unshare -Urm sh -c 'mount --bind $OUT m && cat m/secret'"),
    sh("own-namespace-uncover", "unshare -Urm sh -c 'umount -l $H; umount -l $H/.ssh; umount -l $OUT; cat $OUT/secret $H/.ssh/id_ed25519'"),
    sh("own-namespace-proc", "unshare -Urmpf sh -c 'mount -t proc none /proc && echo 0 > /proc/sys/kernel/core_uses_pid'; cat $OUT/secret"),
    sh("own-namespace-overlay", "mkdir u w m; unshare -Urm sh -c 'mount -t overlay -o lowerdir=$OUT,upperdir=u,workdir=w none m && cat m/secret'"),
    sh("enter-mount-namespace", "nsenter --mount=/proc/1/ns/mnt cat $OUT/secret"),
    sh("enter-victim-namespace", "nsenter -t $VICTIM -m -U --preserve-credentials cat $OUT/secret"),
    sh("enter-network-namespace", "nsenter --net=/proc/$VICTIM/ns/net true && echo THROUGH"),
    py("change-root", r#"
os.mkdir("jail")
keep = os.open(".", os.O_RDONLY)
os.chroot("jail")
os.fchdir(keep)
for _ in range(60): os.chdir("..")
os.chroot(".")
print(open(env("OUT") + "/secret").read())
"#),
    sh("rename-race-out", "mkdir a b; (i=0; while [ $i -lt 200 ]; do ln -sfn $OUT a/x; rm -f a/x; mkdir -p a/x; rmdir a/x; i=$((i+1)); done) & i=0; while [ $i -lt 200 ]; do echo raced > a/x/planted; i=$((i+1)); done 2>/dev/null; wait"),
    sh("read-by-rename-race", "i=0; while [ $i -lt 150 ]; do cat $H/.netrc $H/.ssh/id_ed25519 $H/.aws/credentials 2>/dev/null && break; i=$((i+1)); sleep 0.01; done").with_host_activity(HostActivity::ReplaceCredentials),
    sh("read-env-by-rename-race", "i=0; while [ $i -lt 150 ]; do cat $REPO/.env $H/.env 2>/dev/null && break; i=$((i+1)); sleep 0.01; done").with_host_activity(HostActivity::ReplaceCredentials),
    sh("read-through-other-name", "cat /proc/self/root$H/.ssh/id_ed25519 /proc/self/cwd/../../../../.ssh/id_ed25519 $H/./../home/.ssh/id_ed25519"),
    sh("inherited-file", "cat <&9"),
    sh("inherited-file-write", "echo more >&9; cat /proc/self/fd/9 > /dev/null && [ \"$(readlink /proc/self/fd/9)\" = $OUT/opened ] && echo THROUGH"),
    py("inherited-folder", r#"print(os.read(os.open("secret", os.O_RDONLY, dir_fd=10), 100).decode())"#),
    py("inherited-socket", r#"hear(socket.socket(fileno=11))"#),
    py("inherited-any", r#"
for path in glob.glob("/proc/self/fd/*"):
    try: target = os.readlink(path)
    except OSError: continue
    if target.startswith(env("OUT")): through(target)
"#),
    py("session-keyring", r#"
key = call(250, 10, -3, b"user", b"attack-key-3", 0)
data = ctypes.create_string_buffer(100)
if key > 0 and call(250, 11, key, data, 100) > 0: print(data.value.decode())
"#),
    py("user-keyring", r#"
call(250, 8, -4, -3)
key = call(250, 10, -3, b"user", b"attack-key-4", 0)
data = ctypes.create_string_buffer(100)
if key > 0 and call(250, 11, key, data, 100) > 0: print(data.value.decode())
"#),
    py("user-session-keyring", r#"
call(250, 8, -5, -3)
for ring in (-5, -4, -2, -1):
    key = call(250, 10, ring, b"user", b"attack-key-4", 0)
    data = ctypes.create_string_buffer(100)
    if key > 0 and call(250, 11, key, data, 100) > 0: print(data.value.decode())
"#),
];
