//! Other processes of the machine, and processes that outlive their command.

use super::attempt::{AttackAttempt, py, sh};

pub const ATTEMPTS: &[AttackAttempt] = &[
    sh("victim-memory-write", "exec 7<>/proc/$VICTIM/mem && echo THROUGH"),
    py(
        "victim-memory-read",
        r#"
with open("/proc/%s/mem" % env("VICTIM"), "rb", 0) as memory:
    memory.seek(number("BUFFER"))
    print(memory.read(number("LENGTH")).decode())
"#,
    ),
    sh("victim-environment", "tr '\\0' '\\n' < /proc/$VICTIM/environ | rev"),
    sh("victim-root", "cat /proc/$VICTIM/root/$OUT/secret"),
    sh("victim-working-folder", "cat /proc/$VICTIM/cwd/secret"),
    sh("victim-working-folder-write", "echo $NAME > /proc/$VICTIM/cwd/planted"),
    sh("victim-open-file", "cat /proc/$VICTIM/fd/$FD"),
    sh("victim-maps", "grep -q '\\[heap\\]' /proc/$VICTIM/maps && echo THROUGH"),
    sh("victim-out-of-memory-score", "echo 1 > /proc/$VICTIM/oom_score_adj && echo THROUGH"),
    sh("victim-clear-references", "echo 1 > /proc/$VICTIM/clear_refs && echo THROUGH"),
    sh("first-process-root", "cat /proc/1/root/$OUT/secret"),
    sh("any-root", "for p in /proc/[0-9]*; do cat $p/root/$OUT/secret 2>/dev/null && break; done"),
    sh("any-working-folder", "for p in /proc/[0-9]*; do cat $p/cwd/secret 2>/dev/null && break; done"),
    sh("any-environment", "cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep -E 'TOKEN|HOST_|PLAIN' | head -3 | rev"),
    sh("any-open-file", "for f in /proc/[0-9]*/fd/*; do case $(readlink $f) in $OUT/opened) cat $f;; esac; done 2>/dev/null | head -1"),
    sh("own-environment", "env | rev"),
    sh("own-first-environment", "tr '\\0' '\\n' < /proc/self/environ | rev"),
    sh("parent-environment", "tr '\\0' '\\n' < /proc/$PPID/environ | rev; p=$(cut -d' ' -f4 /proc/$PPID/stat); tr '\\0' '\\n' < /proc/$p/environ | rev"),
    py("ptrace-attach", "through() if call(101, 16, number('VICTIM'), 0, 0) == 0 else None").alone(),
    py("ptrace-seize", "through() if call(101, 0x4206, number('VICTIM'), 0, 0) == 0 else None").alone(),
    py(
        "process-vm-read",
        r#"
here = ctypes.create_string_buffer(number("LENGTH"))
local = struct.pack("QQ", ctypes.addressof(here), number("LENGTH"))
remote = struct.pack("QQ", number("BUFFER"), number("LENGTH"))
if call(310, number("VICTIM"), local, 1, remote, 1, 0) > 0: print(here.value.decode())
"#,
    ),
    py(
        "process-vm-write",
        r#"
here = ctypes.create_string_buffer(b"x")
local = struct.pack("QQ", ctypes.addressof(here), 0)
remote = struct.pack("QQ", number("BUFFER"), 0)
copy = ctypes.create_string_buffer(1)
read = struct.pack("QQ", ctypes.addressof(copy), 1)
target = struct.pack("QQ", number("BUFFER"), 1)
if call(310, number("VICTIM"), read, 1, target, 1, 0) == 1 and call(311, number("VICTIM"), read, 1, target, 1, 0) == 1: through()
"#,
    ),
    py(
        "take-descriptor",
        r#"
process = call(434, number("VICTIM"), 0)
got = call(438, process, number("FD"), 0) if process >= 0 else -1
if got >= 0: print(os.pread(got, 100, 0).decode())
"#,
    ),
    py("signal", "import signal; os.kill(number('VICTIM'), signal.SIGURG); through()"),
    py("signal-by-descriptor", "import signal; p = call(434, number('VICTIM'), 0); through() if p >= 0 and call(424, p, int(signal.SIGURG), None, 0) == 0 else None"),
    py("signal-thread", "import signal; through() if call(234, number('VICTIM'), number('VICTIM'), int(signal.SIGURG)) == 0 else None"),
    py("limits", r#"
limits = ctypes.create_string_buffer(16)
if call(302, number("VICTIM"), 7, None, limits) == 0 and call(302, number("VICTIM"), 7, limits, None) == 0: through()
"#),
    py("priority", "through() if call(141, 0, number('VICTIM'), 1) == 0 else None"),
    py("affinity", "mask = ctypes.create_string_buffer(b'\\xff' * 8, 8); through() if call(203, number('VICTIM'), 8, mask) == 0 else None"),
    py("io-priority", "through() if call(251, 1, number('VICTIM'), (2 << 13) | 4) == 0 else None"),
    py("compare-kernel-objects", "through() if call(312, number('VICTIM'), os.getpid(), 1, 0, 0) >= 0 else None"),
    py("performance-counters", r#"a = struct.pack("<IIQQQQQ", 1, 112, 0, 0, 0, 0, 0) + bytes(64); through() if call(298, a, number("VICTIM"), -1, -1, 0) >= 0 else None"#),
    sh("outlive-setsid", "setsid sh -c 'sleep $MARK' > /dev/null 2>&1 < /dev/null & exit 0").alone(),
    sh("outlive-nohup", "nohup sleep $MARK > /dev/null 2>&1 < /dev/null & exit 0").alone(),
    sh("outlive-empty-environment", "M=$MARK; env -i /usr/bin/setsid -f /bin/sh -c \"/bin/sleep $M\" > /dev/null 2>&1").alone(),
    py(
        "outlive-double-fork",
        r#"
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.chdir("/")
        os.closerange(0, 1000)
        os.execve("/bin/sleep", ["sleep", env("MARK")], {})
    os._exit(0)
os.wait()
"#,
    )
    .alone(),
    py(
        "outlive-ignoring-signals",
        r#"
import signal
if os.fork() == 0:
    os.setsid()
    for it in range(1, 32):
        try: signal.signal(it, signal.SIG_IGN)
        except (OSError, ValueError): pass
    os.execve("/bin/sleep", ["sleep", env("MARK")], {})
"#,
    )
    .alone(),
    py(
        "outlive-stopped",
        r#"
import signal
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execve("/bin/sh", ["sh", "-c", "kill -STOP $$; sleep " + env("MARK")], {})
    os._exit(0)
time.sleep(0.2)
"#,
    )
    .alone(),
    py(
        "outlive-fork-chain",
        r#"
if os.fork() == 0:
    os.setsid()
    end = time.time() + 3
    while time.time() < end:
        if os.fork(): os._exit(0)
        time.sleep(0.002)
    os.execve("/bin/sleep", ["sleep", env("MARK")], {})
if env("CONTROL") == "1": time.sleep(3.5)
"#,
    )
    .alone(),
    sh("outlive-own-namespace", "unshare -Ur --pid --fork --kill-child=KILL setsid sleep $MARK > /dev/null 2>&1 & unshare -r setsid sleep $MARK > /dev/null 2>&1 & sleep 0.3").alone(),
    sh("outlive-coprocess", "(trap '' HUP TERM INT; exec 0<&- 1>&- 2>&-; sleep $MARK) & exit 0").alone(),
    py(
        "terminal-input",
        r#"
import fcntl
terminal = os.open("/dev/tty", os.O_RDWR)
fcntl.ioctl(terminal, 0x5412, b"x")
through()
"#,
    )
    .on_terminal(),
    py(
        "terminal-input-by-descriptor",
        r#"
import fcntl
for descriptor in range(3, 20):
    try:
        fcntl.ioctl(descriptor, 0x5412, b"x")
        through(descriptor)
    except OSError:
        pass
if env("CONTROL") == "1": fcntl.ioctl(os.open("/dev/tty", os.O_RDWR), 0x5412, b"x"); through()
"#,
    )
    .on_terminal(),
    py(
        "terminal-paste",
        r#"
import fcntl
terminal = os.open("/dev/tty", os.O_RDWR)
fcntl.ioctl(terminal, 0x541C, bytes([3]))
through()
"#,
    )
    .on_terminal(),
];
