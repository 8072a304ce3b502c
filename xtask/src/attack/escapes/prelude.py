import ctypes, errno, glob, os, socket, stat, struct, sys, time

libc = ctypes.CDLL(None, use_errno=True)


def call(number, *words):
    """The result of a system call, or minus its error number."""
    words = [ctypes.c_long(it) if isinstance(it, int) else it for it in words]
    result = libc.syscall(ctypes.c_long(number), *words)
    return result if result >= 0 else -ctypes.get_errno()


def env(name):
    return os.environ.get(name, "0")


def number(name):
    return int(env(name))


def through(*words):
    print("THROUGH", *words)


def hear(peer):
    """Prints what the other side says."""
    peer.settimeout(3)
    print(peer.recv(100).decode())


def connect(family, address, kind=socket.SOCK_STREAM):
    peer = socket.socket(family, kind)
    peer.settimeout(3)
    peer.connect(address)
    hear(peer)
