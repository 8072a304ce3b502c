//! The text of a cluster's settings and of the control script that tests call.

use std::path::Path;

use super::account::ClusterAccount;

/// The settings that differ from PostgreSQL's defaults. `fsync` stays on, because the tests are
/// about durability.
pub fn settings(port: u16, home: &Path) -> String {
    let home = home.display();
    format!(
        "listen_addresses = '127.0.0.1'
port = {port}
unix_socket_directories = '{home}'
max_connections = 400
fsync = on
full_page_writes = on
ssl = on
ssl_cert_file = '{home}/server.crt'
ssl_key_file = '{home}/server.key'
logging_collector = off
"
    )
}

/// The script with the commands `start`, `stop`, `restart`, `kill` and, for the guard, `discard`.
pub fn text(programs: &Path, account: &ClusterAccount, home: &Path) -> String {
    let prefix = account.prefix().join(" ");
    let head = format!(
        "#!/bin/sh
# Acts on one throw-away PostgreSQL cluster; every verb returns when its work is done.
set -eu
cd / # the account may not be able to enter the caller's folder
data='{home}/data'
log='{home}/log'
pg_ctl() {{ {prefix} '{programs}/pg_ctl' --pgdata=\"$data\" --silent \"$@\" </dev/null; }}
",
        home = home.display(),
        programs = programs.display(),
    );
    head + VERBS
}

/// `kill` simulates a power cut for the processes: all end at once, without cleanup. A zombie
/// server still answers signals, so `start` checks its state and removes the lock files of a dead
/// one itself.
const VERBS: &str = r#"
state() { sed -n 's/^State:[[:space:]]*\(.\).*/\1/p' "/proc/$1/status" 2>/dev/null || true; }
alive() { case "$(state "$1")" in '' | Z | X) return 1 ;; esac; }
server() { head -n 1 "$data/postmaster.pid" 2>/dev/null || true; }
children() {
    for status in /proc/[0-9]*/status; do
        parent=$(sed -n 's/^PPid:[[:space:]]*//p' "$status" 2>/dev/null || true)
        [ "$parent" != "$1" ] || { child=${status%/status}; echo "${child#/proc/}"; }
    done
}

start() {
    pid=$(server)
    if [ -n "$pid" ] && ! alive "$pid"; then
        rm -f "$data/postmaster.pid" "$data"/../.s.PGSQL.*
    fi
    pg_ctl start --wait --timeout=60 --log="$log" || { tail -n 20 "$log" >&2; return 1; }
}
stop() {
    pid=$(server)
    if [ -z "$pid" ] || ! alive "$pid"; then return 0; fi
    pg_ctl stop --wait --timeout=60 --mode="$1"
}
kill_all() {
    pid=$(server)
    if [ -z "$pid" ] || ! alive "$pid"; then return 0; fi
    kill -STOP "$pid"
    all="$pid $(children "$pid")"
    kill -KILL $all 2>/dev/null || true
    for one in $all; do
        while alive "$one"; do sleep 0.01; done
    done
}

case "${1:-}" in
start) start ;;
stop) stop fast ;;
restart) stop fast && start ;;
kill) kill_all ;;
discard) stop immediate ;;
*) echo "usage: $0 start|stop|restart|kill" >&2; exit 2 ;;
esac
"#;
