//! Settings and devices of the kernel. Values are written back as they were read, so that the
//! control, which runs outside, changes nothing.

use super::attempt::{AttackAttempt, py, sh};

/// Files whose content is written back unchanged.
pub const REWRITTEN_FILES: &[&str] = &[
    "/proc/sys/kernel/core_pattern",
    "/proc/sys/kernel/core_pipe_limit",
    "/proc/sys/kernel/modprobe",
    "/proc/sys/kernel/poweroff_cmd",
    "/proc/sys/kernel/sysrq",
    "/proc/sys/kernel/panic",
    "/proc/sys/kernel/panic_on_oops",
    "/proc/sys/kernel/randomize_va_space",
    "/proc/sys/kernel/kptr_restrict",
    "/proc/sys/kernel/dmesg_restrict",
    "/proc/sys/kernel/perf_event_paranoid",
    "/proc/sys/kernel/usermodehelper/bset",
    "/proc/sys/kernel/pid_max",
    "/proc/sys/kernel/threads-max",
    "/proc/sys/kernel/printk",
    "/proc/sys/kernel/keys/maxkeys",
    "/proc/sys/vm/overcommit_memory",
    "/proc/sys/vm/swappiness",
    "/proc/sys/vm/mmap_min_addr",
    "/proc/sys/vm/panic_on_oom",
    "/proc/sys/fs/file-max",
    "/proc/sys/fs/protected_symlinks",
    "/proc/sys/fs/suid_dumpable",
    "/proc/sys/fs/inotify/max_user_watches",
    "/proc/sys/user/max_user_namespaces",
    "/sys/kernel/uevent_helper",
    "/sys/kernel/mm/ksm/run",
    "/sys/kernel/profiling",
];

pub const ATTEMPTS: &[AttackAttempt] = &[
    py(
        "walk-proc-sys",
        r#"
same = {"net": "HOST_NET", "uts": "HOST_UTS", "ipc": "HOST_IPC"}
own = [it for it in same if os.readlink("/proc/self/ns/" + it) != env(same[it])]
private = {"net": ("net/",), "uts": ("kernel/hostname", "kernel/domainname"),
           "ipc": ("kernel/shm", "kernel/msg", "kernel/sem", "kernel/auto_msgmni", "fs/mqueue/")}
skipped = tuple("/proc/sys/" + part for it in own for part in private[it]) + ("/proc/sys/user/", "/proc/sys/kernel/ns_last_pid")
for folder, _, files in os.walk("/proc/sys"):
    for name in files:
        path = os.path.join(folder, name)
        if path.startswith(skipped):
            continue
        try:
            os.close(os.open(path, os.O_WRONLY))
            through(path)
            sys.exit()
        except OSError:
            pass
"#,
    ),
    py(
        "walk-sys",
        r#"
for folder, _, files in os.walk("/sys"):
    for name in files:
        path = os.path.join(folder, name)
        try:
            if not os.lstat(path).st_mode & 0o222:
                continue
            os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
            through(path)
            sys.exit()
        except OSError:
            pass
"#,
    ),
    py(
        "walk-proc",
        r#"
for path in glob.glob("/proc/*") + glob.glob("/proc/[a-z]*/*"):
    first = path.split("/")[2]
    if first.isdigit() or first in ("self", "thread-self", "sys") or path == "/proc/kmsg":
        continue
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            continue
        os.close(os.open(path, os.O_WRONLY))
        through(path)
        break
    except OSError:
        pass
"#,
    ),
    py(
        "walk-dev",
        r#"
allowed = {"null", "zero", "full", "random", "urandom", "tty", "ptmx"}
for folder, folders, files in os.walk("/dev"):
    folders[:] = [it for it in folders if it not in ("shm", "pts", "mqueue")]
    for name in files:
        path = os.path.join(folder, name)
        if name in allowed or "watchdog" in name or name.startswith(("tty", "console", "vcs")):
            continue
        try:
            if stat.S_ISLNK(os.lstat(path).st_mode):
                continue
            os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
            through(path)
            sys.exit()
        except OSError:
            pass
"#,
    ),
    py(
        "walk-other-processes",
        r#"
mine = {os.getpid(), os.getppid()}
for path in glob.glob("/proc/[0-9]*/*"):
    pid = int(path.split("/")[2])
    name = path.rsplit("/", 1)[1]
    if pid in mine or name not in ("mem", "oom_score_adj", "clear_refs", "coredump_filter", "uid_map", "timerslack_ns"):
        continue
    try:
        if int(env("VICTIM")) != pid:
            continue
        os.close(os.open(path, os.O_WRONLY))
        through(path)
        break
    except OSError:
        pass
"#,
    ),
    sh(
        "sysrq-trigger",
        "echo h > /proc/sysrq-trigger && echo THROUGH",
    ),
    sh(
        "kernel-log-write",
        "echo attack > /dev/kmsg && echo THROUGH",
    ),
    py(
        "kernel-log-read",
        r#"os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK); through()"#,
    ),
    py(
        "kernel-memory",
        r#"os.open("/proc/kcore", os.O_RDONLY); through()"#,
    ),
    py(
        "physical-memory",
        r#"os.open("/dev/mem", os.O_RDONLY); through()"#,
    ),
    py(
        "port-device",
        r#"os.open("/dev/port", os.O_RDWR); through()"#,
    ),
    py(
        "disk-device",
        r#"
for path in glob.glob("/dev/[svn][dvm][a-z0-9]*") + glob.glob("/dev/dm-*"):
    try:
        print(os.read(os.open(path, os.O_RDONLY), 1) and path)
        through(path)
        break
    except OSError:
        pass
"#,
    ),
    sh("fuse-device", "exec 7<>/dev/fuse && echo THROUGH"),
    sh("kvm-device", "exec 7<>/dev/kvm && echo THROUGH"),
    sh("tun-device", "exec 7<>/dev/net/tun && echo THROUGH"),
    sh("loop-control", "exec 7<>/dev/loop-control && echo THROUGH"),
    sh(
        "binfmt-register",
        r"mount -t binfmt_misc none /proc/sys/fs/binfmt_misc; [ -e /proc/sys/fs/binfmt_misc/register ] && : >> /proc/sys/fs/binfmt_misc/register && echo THROUGH",
    ),
    sh(
        "mknod-block",
        r#"d=$(ls /sys/block | head -1); n=$(cat /sys/block/$d/dev); mknod disk b ${n%:*} ${n#*:} && head -c 1 disk > /dev/null && echo THROUGH"#,
    ),
    sh(
        "mknod-mem",
        "mknod memory c 1 1 && head -c 1 memory > /dev/null && echo THROUGH",
    ),
    sh(
        "mknod-kmsg",
        "mknod log c 1 11 && echo attack > log && echo THROUGH",
    ),
    sh(
        "cgroup-make",
        r#"for d in /sys/fs/cgroup /sys/fs/cgroup/*/; do mkdir "$d/$NAME" 2>/dev/null && echo THROUGH && rmdir "$d/$NAME" && break; done"#,
    ),
    sh(
        "cgroup-move",
        r#"for f in /sys/fs/cgroup/cgroup.procs /sys/fs/cgroup/*/cgroup.procs; do [ -e $f ] && echo $$ > $f && echo THROUGH && break; done 2>/dev/null"#,
    ),
    sh(
        "cgroup-release-agent",
        r#"mkdir c; mount -t cgroup -o memory none c || mount -t cgroup2 none c || exit; for f in c/release_agent c/cgroup.subtree_control; do [ -e $f ] && : >> $f && echo THROUGH; done; umount c"#,
    ),
    sh(
        "cgroup-limits",
        r#"for f in $(find /sys/fs/cgroup -name memory.max -o -name pids.max -o -name cgroup.freeze 2>/dev/null | head -40); do [ -s $f ] && cat $f > $f && echo THROUGH && break; done 2>/dev/null"#,
    ),
    py(
        "load-module",
        "through() if call(313, -1, b'', 0) == -errno.EBADF else None",
    ),
    py(
        "kexec",
        "through() if call(246, 0, 17, None, 1 << 30) == -errno.EINVAL else None",
    ),
    py(
        "reboot-allowed",
        "through() if call(169, 0, 0, 0, None) == -errno.EINVAL else None",
    ),
    py(
        "swapon-allowed",
        "through() if call(167, b'/nonexistent', 0) == -errno.ENOENT else None",
    ),
    py(
        "accounting-allowed",
        "through() if call(163, b'/nonexistent') == -errno.ENOENT else None",
    ),
    py(
        "set-clock",
        r#"
now = time.clock_gettime(time.CLOCK_REALTIME)
value = struct.pack("qq", int(now), int((now % 1) * 1e9))
through() if call(227, 0, value) == 0 else None
"#,
    ),
    py(
        "set-hostname",
        r#"
if os.readlink("/proc/self/ns/uts") == env("HOST_UTS"):
    name = socket.gethostname().encode()
    through() if call(170, name, len(name)) == 0 else None
"#,
    ),
    py(
        "io-ports",
        "through() if call(173, 0x80, 1, 1) == 0 else None",
    ),
    py(
        "read-kernel-log-call",
        r#"b = ctypes.create_string_buffer(64); through() if call(103, 3, b, 64) > 0 else None"#,
    ),
    py(
        "bpf-program",
        r#"
code = struct.pack("<BBhi", 0xB7, 0, 0, 0) + struct.pack("<BBhi", 0x95, 0, 0, 0)
licence = ctypes.create_string_buffer(b"GPL")
text = ctypes.create_string_buffer(code)
attributes = struct.pack("<IIQQIIQII", 1, 2, ctypes.addressof(text), ctypes.addressof(licence), 0, 0, 0, 0, 0)
through() if call(321, 5, attributes + bytes(72), 120) >= 0 else None
"#,
    ),
    py(
        "perf-whole-machine",
        r#"a = struct.pack("<IIQQQQQ", 1, 112, 0, 0, 0, 0, 0) + bytes(64); through() if call(298, a, -1, 0, -1, 0) >= 0 else None"#,
    ),
    py(
        "open-by-handle",
        r#"
data = ctypes.create_string_buffer(struct.pack("<Ii", 128, 0) + bytes(128)); mount = ctypes.c_int()
path = env("OUT").encode() + b"/secret"
if call(303, -100, path, data, ctypes.byref(mount), 0) == 0 or True:
    top = os.open("/", os.O_RDONLY)
    got = call(304, top, data, os.O_RDONLY)
    if got >= 0: print(os.read(got, 100).decode())
"#,
    ),
];
