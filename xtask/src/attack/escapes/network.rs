//! Sockets of the machine, with the network denied.

use super::attempt::{AttackAttempt, py, sh};

pub const ATTEMPTS: &[AttackAttempt] = &[
    py(
        "tcp-loopback",
        r#"connect(socket.AF_INET, ("127.0.0.1", number("TCP")))"#,
    ),
    py(
        "tcp-loopback-other-address",
        r#"connect(socket.AF_INET, ("127.9.9.9", number("TCP_ANY")))"#,
    ),
    py(
        "tcp-own-address",
        r#"connect(socket.AF_INET, (env("ADDRESS"), number("TCP_ANY")))"#,
    ),
    py(
        "tcp-any-address",
        r#"connect(socket.AF_INET, ("0.0.0.0", number("TCP_ANY")))"#,
    ),
    py(
        "tcp-loopback-6",
        r#"connect(socket.AF_INET6, ("::1", number("TCP6")))"#,
    ),
    py(
        "tcp-mapped-6",
        r#"connect(socket.AF_INET6, ("::ffff:127.0.0.1", number("TCP")))"#,
    ),
    py(
        "tcp-fast-open",
        r#"
peer = socket.socket()
peer.settimeout(3)
peer.sendto(b"x", 0x20000000, ("127.0.0.1", number("TCP")))
hear(peer)
"#,
    ),
    py(
        "multipath-tcp",
        r#"
peer = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)
peer.connect(("127.0.0.1", number("TCP")))
hear(peer)
"#,
    ),
    py(
        "udp-loopback",
        r#"
peer = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
peer.sendto(b"x", ("127.0.0.1", number("UDP")))
hear(peer)
"#,
    ),
    py(
        "udp-connected",
        r#"
peer = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
peer.connect(("127.0.0.1", number("UDP")))
peer.send(b"x")
hear(peer)
"#,
    ),
    sh(
        "tcp-by-bash",
        "timeout 3 bash -c 'cat < /dev/tcp/127.0.0.1/'$TCP",
    ),
    py(
        "unix-absolute",
        r#"connect(socket.AF_UNIX, env("SOCKET_PATH"))"#,
    ),
    py(
        "unix-relative",
        r#"os.chdir(env("OUT")); connect(socket.AF_UNIX, "socket")"#,
    ),
    py(
        "unix-bound-relative",
        r#"connect(socket.AF_UNIX, env("OUT") + "/sockets/relative")"#,
    ),
    py(
        "unix-bound-later",
        r#"
for _ in range(40):
    try: connect(socket.AF_UNIX, env("OUT") + "/sockets/later"); break
    except OSError: time.sleep(0.05)
"#,
    ),
    py(
        "unix-other-network",
        r#"connect(socket.AF_UNIX, env("OUT") + "/other-network")"#,
    ),
    py(
        "unix-through-link",
        r#"os.symlink(env("SOCKET_PATH"), "link"); connect(socket.AF_UNIX, "link")"#,
    ),
    py(
        "unix-through-proc",
        r#"connect(socket.AF_UNIX, "/proc/%s/cwd/socket" % env("VICTIM"))"#,
    ),
    py(
        "unix-abstract",
        r#"connect(socket.AF_UNIX, "\0" + env("ABSTRACT"))"#,
    ),
    py(
        "unix-by-descriptor",
        r#"
folder = os.open(env("OUT"), os.O_PATH)
connect(socket.AF_UNIX, "/proc/self/fd/%d/socket" % folder)
"#,
    ),
    py(
        "unix-send-descriptor",
        r#"
peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
peer.connect(env("SOCKET_PATH"))
socket.send_fds(peer, [b"x"], [0])
hear(peer)
"#,
    ),
    py(
        "unix-bind-outside",
        r#"socket.socket(socket.AF_UNIX).bind(env("OUT") + "/planted")"#,
    ),
    py(
        "vsock-make",
        r#"socket.socket(40, socket.SOCK_STREAM); through()"#,
    ),
    py("vsock-loopback", r#"connect(40, (1, number("VSOCK")))"#),
    py(
        "vsock-host",
        r#"
peer = socket.socket(40, socket.SOCK_STREAM)
peer.settimeout(2)
try: peer.connect((2, 1)); through()
except OSError as error: through(error) if error.errno not in (errno.EPERM, errno.EACCES) else None
"#,
    ),
    py(
        "packet",
        "socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 768); through()",
    ),
    py(
        "raw",
        "socket.socket(socket.AF_INET, socket.SOCK_RAW, 1); through()",
    ),
    py(
        "raw-6",
        "socket.socket(socket.AF_INET6, socket.SOCK_RAW, 58); through()",
    ),
    py(
        "ping-socket",
        r#"
peer = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, 1)
peer.settimeout(2)
peer.sendto(struct.pack("!BBHHH", 8, 0, 0xF7FF, 0, 0), ("127.0.0.1", 0))
if os.readlink("/proc/self/ns/net") == env("HOST_NET"): through()
"#,
    ),
    py(
        "interfaces",
        r#"
names = [name for _, name in socket.if_nameindex() if name != "lo"]
if names: through(names)
"#,
    ),
    py(
        "netlink-routes",
        r#"
peer = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
peer.send(struct.pack("IHHIIB3x", 20, 18, 0x301, 1, 0, 0))
if os.readlink("/proc/self/ns/net") == env("HOST_NET"): through()
"#,
    ),
    py(
        "netlink-kernel-events",
        r#"
peer = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 15)
peer.bind((0, 1))
if os.readlink("/proc/self/ns/net") == env("HOST_NET"): through()
"#,
    ),
    py(
        "netlink-audit",
        r#"
peer = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 9)
peer.send(struct.pack("IHHII", 16, 1000, 5, 1, 0))
peer.settimeout(1)
answer = peer.recv(200)
if struct.unpack_from("H", answer, 4)[0] == 1000: through()
"#,
    ),
    py(
        "netlink-socket-diagnostics",
        r#"
peer = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 4)
peer.send(struct.pack("IHHII", 72, 20, 0x301, 1, 0) + struct.pack("BBBxI", 2, 6, 0, 0xFFFFFFFF) + bytes(48))
peer.settimeout(1)
if struct.pack("!H", number("TCP")) in peer.recv(65536): through()
"#,
    ),
    sh(
        "listening-ports",
        "grep -qi \":$(printf %04X $TCP) \" /proc/net/tcp && echo THROUGH",
    )
    .beyond_landlock(),
    sh(
        "unix-socket-list",
        "grep -q $ABSTRACT /proc/net/unix && echo THROUGH",
    )
    .beyond_landlock(),
    py(
        "names-by-dns",
        r#"
peer = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
peer.connect((env("ADDRESS"), 53))
if os.readlink("/proc/self/ns/net") == env("HOST_NET"): peer.send(b"x"); through()
"#,
    ),
    py(
        "io-uring-make",
        r#"
if os.readlink("/proc/self/ns/net") == env("HOST_NET"):
    through() if call(425, 4, ctypes.create_string_buffer(120)) >= 0 else None
"#,
    ),
    py(
        "sctp",
        r#"
peer = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132)
if os.readlink("/proc/self/ns/net") == env("HOST_NET"): through()
"#,
    ),
    py(
        "bluetooth",
        "socket.socket(31, socket.SOCK_RAW, 1); through()",
    ),
    py(
        "tipc",
        "socket.socket(30, socket.SOCK_SEQPACKET); through()",
    ),
    py("rds", "socket.socket(21, socket.SOCK_SEQPACKET); through()"),
    py(
        "kernel-crypto",
        r#"
peer = socket.socket(38, socket.SOCK_SEQPACKET)
if os.readlink("/proc/self/ns/net") == env("HOST_NET"): through()
"#,
    ),
    sh(
        "system-bus",
        "[ -S /run/dbus/system_bus_socket ] && /usr/bin/python3 -c \"import socket; s=socket.socket(socket.AF_UNIX); s.connect('/run/dbus/system_bus_socket'); print('THROUGH')\"",
    ),
    sh(
        "docker-socket",
        "[ -S /var/run/docker.sock ] && /usr/bin/python3 -c \"import socket; s=socket.socket(socket.AF_UNIX); s.connect('/var/run/docker.sock'); print('THROUGH')\"",
    ),
];
