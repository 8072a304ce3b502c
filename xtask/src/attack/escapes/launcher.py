"""Starts the program under attack as a careless parent would: with an open file, an open folder, a
connected socket, and keys in its session keyring and its user keyring."""
import ctypes, os, socket, sys

libc = ctypes.CDLL(None, use_errno=True)
secret = os.environ.pop("HOST_SECRET").encode()
KEYCTL, ADD_KEY = 250, 248
JOIN_SESSION, LINK, UNLINK, SET_TIMEOUT = 1, 8, 9, 15
SESSION, USER = -3, -4
libc.syscall(KEYCTL, JOIN_SESSION, None)
for ring in (SESSION, USER):
    key = libc.syscall(ADD_KEY, b"user", b"attack-key-%d" % -ring, secret, ctypes.c_long(len(secret)), ring)
    if key > 0:
        libc.syscall(KEYCTL, LINK, USER, SESSION)
        libc.syscall(KEYCTL, SET_TIMEOUT, key, 900)
        libc.syscall(KEYCTL, UNLINK, USER, SESSION)
out = os.environ["OUT"]
for number, path, flags in ((9, "opened", os.O_RDWR), (10, ".", os.O_RDONLY)):
    descriptor = os.open(os.path.join(out, path), flags)
    os.dup2(descriptor, number, inheritable=True)
peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
peer.settimeout(2)
try:
    peer.connect(os.path.join(out, "socket"))
    peer.settimeout(None)
    os.dup2(peer.fileno(), 11, inheritable=True)
except OSError:
    pass
del os.environ["OUT"]
# Another secret, because the program masks values of such variables wherever it prints them.
key = os.environ.pop("HOST_KEY")
for name in ("DEPLOY_TOKEN", "GITHUB_TOKEN", "PLAIN_SETTING"):
    os.environ[name] = key
os.execvp(sys.argv[1], sys.argv[1:])
