# Walks the folders it is given and tries to open everything in them for writing, without changing
# anything: no file is emptied and nothing is written. Prints how much it tried, then each path that
# could be written.
#
# Not tried: a process's own open files (`/proc/N/fd`, `/proc/N/task/M/fd`), which were given to it.
import os
import sys

tried = 0
found = []


def try_to_write(path):
    global tried
    tried += 1
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return
    found.append(path)


def try_to_create(folder):
    global tried
    tried += 1
    path = os.path.join(folder, b"walk-probe")
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC))
    except OSError:
        return
    os.unlink(path)
    found.append(folder + b"/")


def is_own_files(folder):
    return folder.startswith(b"/proc/") and os.path.basename(folder) in (b"fd", b"fdinfo")


for root in sys.argv[1:]:
    for folder, folders, files in os.walk(os.fsencode(root), followlinks=False):
        if is_own_files(folder):
            folders.clear()
            continue
        try_to_create(folder)
        for name in files:
            try_to_write(os.path.join(folder, name))
print(tried)
for path in found:
    print(os.fsdecode(path))
