//! Commands that exhaust the machine. The call must end in time with a clear answer and leave no
//! process running, and the machine must serve the next command.

use std::time::Duration;

/// The maximum duration of a call; the tool's own time limit is far below.
pub const LIMIT: Duration = Duration::from_secs(45);

/// The tool's time limit for each command, in seconds.
pub const TOOL_SECONDS: u32 = 6;

/// Name and script. A remaining process is found by the mark in its command line: the shell has it
/// there, and a process that waits is given `$MARK`.
pub const ATTEMPTS: &[(&str, &str)] = &[
    ("sparse-file", "truncate -s 1T huge; ls -l huge"),
    (
        "never-ends",
        "trap '' TERM INT HUP; while :; do sleep $MARK; done",
    ),
    ("named-pipe", "mkfifo pipe; echo made"),
    (
        "deep-folders",
        "i=0; while [ $i -lt 400 ]; do mkdir d 2>/dev/null && cd d || break; i=$((i+1)); done",
    ),
];

/// Like [`ATTEMPTS`], only in the full form.
pub const SLOW: &[(&str, &str)] = &[
    (
        "many-sparse-files",
        "for i in 1 2 3 4 5 6 7 8; do truncate -s 100G huge$i; done",
    ),
    ("huge-output", "head -c 2000000000 /dev/zero | tr '\\0' 'x'"),
    (
        "huge-errors",
        "head -c 500000000 /dev/zero | tr '\\0' 'x' >&2",
    ),
    ("output-of-bytes", "head -c 20000000 /dev/urandom"),
    (
        "many-processes",
        "i=0; while [ $i -lt 1500 ]; do sleep $MARK & i=$((i+1)); done; wait",
    ),
    // These do not keep the call from ending, so only their marks show that they are still running.
    (
        "many-silent-processes",
        "i=0; while [ $i -lt 300 ]; do sleep $MARK <&- >&- 2>&- & i=$((i+1)); done",
    ),
    (
        "many-files",
        "mkdir many; cd many; seq 1 20000 | xargs touch",
    ),
    (
        "many-links",
        "i=0; while [ $i -lt 2000 ]; do ln -s . l$i; i=$((i+1)); done",
    ),
    (
        "memory",
        "/usr/bin/python3 -c \"b=[]\nfor i in range(30): b.append(bytearray(b'x')*(50<<20))\" $MARK",
    ),
];
