"""The other side of the machine: a process of the user's with sockets, a secret in its memory, its
environment and an open file. Prints its variables as shell assignments, then answers until it is killed."""
import ctypes, os, socket, sys, threading

secret = os.environ["HOST_SECRET"].encode()
out = os.environ["OUT"]
buffer = ctypes.create_string_buffer(secret)
opened = open(os.path.join(out, "opened"), "rb")
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(1, 9)  # Ends with the suite, however that ends.


def serve(listener):
    while True:
        peer, _ = listener.accept()
        try:
            peer.sendall(secret)
        except OSError:
            pass
        peer.close()


def stream(family, address):
    listener = socket.socket(family, socket.SOCK_STREAM)
    if family == socket.AF_UNIX and address[:1] != "\0" and os.path.lexists(address):
        os.unlink(address)
    listener.bind(address)
    listener.listen(64)
    if family == socket.AF_UNIX and address[:1] != "\0":
        os.chmod(address, 0o777)
    threading.Thread(target=serve, args=(listener,), daemon=True).start()
    return listener


def answer_datagrams(listener):
    while True:
        _, peer = listener.recvfrom(64)
        listener.sendto(secret, peer)


variables = {"VICTIM": os.getpid(), "BUFFER": ctypes.addressof(buffer), "LENGTH": len(secret),
             "FD": opened.fileno(), "HOST_NET": os.readlink("/proc/self/ns/net"),
             "HOST_UTS": os.readlink("/proc/self/ns/uts"), "HOST_IPC": os.readlink("/proc/self/ns/ipc")}
variables["TCP"] = stream(socket.AF_INET, ("127.0.0.1", 0)).getsockname()[1]
variables["TCP_ANY"] = stream(socket.AF_INET, ("0.0.0.0", 0)).getsockname()[1]
try:
    variables["TCP6"] = stream(socket.AF_INET6, ("::1", 0)).getsockname()[1]
except OSError:
    variables["TCP6"] = 0
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
datagrams.bind(("127.0.0.1", 0))
threading.Thread(target=answer_datagrams, args=(datagrams,), daemon=True).start()
variables["UDP"] = datagrams.getsockname()[1]
names = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
try:
    probe = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    probe.connect(("192.0.2.1", 9))
    variables["ADDRESS"] = probe.getsockname()[0]
except OSError:
    variables["ADDRESS"] = "127.0.0.1"
os.makedirs(os.path.join(out, "sockets"), exist_ok=True)
os.chdir(os.path.join(out, "sockets"))
stream(socket.AF_UNIX, "relative")
variables["SOCKET_PATH"] = os.path.join(out, "socket")
stream(socket.AF_UNIX, os.path.relpath(os.path.join(out, "socket")))
variables["ABSTRACT"] = "attack-%d" % os.getpid()
stream(socket.AF_UNIX, "\0" + variables["ABSTRACT"])
try:
    stream(socket.AF_VSOCK, (socket.VMADDR_CID_ANY, 40000 + os.getpid() % 20000))
    variables["VSOCK"] = 40000 + os.getpid() % 20000
except (AttributeError, OSError):
    variables["VSOCK"] = 0
os.chdir(out)
ready, told = os.pipe()
if os.fork() == 0:
    libc.prctl(1, 9)
    CLONE_NEWNET, CLONE_NEWUSER = 0x40000000, 0x10000000
    if libc.unshare(CLONE_NEWNET) == 0 or libc.unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0:
        stream(socket.AF_UNIX, "other-network")
    os.write(told, b".")
    while True:
        threading.Event().wait()
os.read(ready, 1)
for name, value in variables.items():
    print("export %s='%s'" % (name, value))
print("ready")
sys.stdout.flush()


def later():
    """Binds a socket again and again, so that one is made after a command has started."""
    while True:
        path = os.path.join(out, "sockets", "later")
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        if os.path.lexists(path):
            os.unlink(path)
        listener.bind(path)
        os.chmod(path, 0o777)
        listener.listen(8)
        listener.settimeout(0.4)
        try:
            while True:
                peer, _ = listener.accept()
                peer.sendall(secret)
                peer.close()
        except OSError:
            listener.close()


later()
