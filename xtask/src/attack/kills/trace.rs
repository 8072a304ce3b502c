//! The system calls of a run as strace lists them, and the moments at which it can kill one.

use std::collections::{BTreeMap, BTreeSet};

/// Every call that changes or opens a file, in groups from rare to frequent.
pub const GROUPS: [&[&str]; 3] = [
    &[
        "unlink",
        "unlinkat",
        "rename",
        "renameat",
        "renameat2",
        "mkdir",
        "mkdirat",
        "rmdir",
        "symlink",
        "symlinkat",
        "link",
        "linkat",
        "ftruncate",
        "truncate",
        "fchmod",
        "fchmodat",
    ],
    &["fsync", "fdatasync", "write", "writev", "sendto"],
    &["openat", "pwrite64"],
];

/// The calls for strace's `-e trace=`. A leading `?` lets strace skip calls that this machine
/// lacks.
pub fn filter() -> String {
    let names: Vec<String> = GROUPS.concat().iter().map(|it| format!("?{it}")).collect();
    names.join(",")
}

/// The moment of a kill: the n-th call of that name in one thread.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct KillPoint {
    pub call: String,
    pub number: usize,
}

/// One system call of a traced run.
#[derive(Debug)]
struct SystemCall {
    thread: String,
    name: String,
    effect: CallEffect,
}

/// Whether a kill before the call leaves a different state than a kill before the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CallEffect {
    Changes,
    Nothing,
}

/// The system calls of a traced run.
#[derive(Debug, Default)]
pub struct Trace {
    /// In trace order.
    calls: Vec<SystemCall>,
}

impl Trace {
    /// Parses lines such as `123 openat(AT_FDCWD, "x", O_RDONLY) = 3`.
    pub fn parse(text: &str) -> Trace {
        let calls = text.lines().filter_map(|line| {
            let (thread, rest) = line.trim_start().split_once(char::is_whitespace)?;
            let (name, rest) = rest.trim_start().split_once('(')?;
            let is_name = name
                .bytes()
                .all(|it| it.is_ascii_alphanumeric() || it == b'_');
            (is_name && !name.is_empty()).then(|| SystemCall {
                thread: thread.to_owned(),
                name: name.to_owned(),
                effect: effect(name, rest),
            })
        });
        let mut calls: Vec<SystemCall> = calls.collect();
        skip_inner_writes(&mut calls);
        Trace { calls }
    }

    pub fn len(&self) -> usize {
        self.calls.len()
    }

    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// The moments before every call that changes something, rare calls first. strace counts the
    /// calls of each thread separately, so the first thread to reach a number is hit.
    pub fn kill_points(&self) -> Vec<KillPoint> {
        let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        let mut changing: BTreeSet<(&str, usize)> = BTreeSet::new();
        for call in &self.calls {
            let count = counts.entry((&call.name, &call.thread)).or_default();
            *count += 1;
            if call.effect == CallEffect::Changes {
                changing.insert((&call.name, *count));
            }
        }
        let names = GROUPS.concat();
        let moments = names.iter().flat_map(|name| {
            let of_name = changing.iter().filter(move |(it, _)| it == name);
            of_name.map(|(name, number)| KillPoint {
                call: (*name).to_owned(),
                number: *number,
            })
        });
        moments.collect()
    }
}

/// A failed call, a file opened for reading, and a thread woken by another change nothing on disk.
fn effect(name: &str, rest: &str) -> CallEffect {
    let failed = rest.contains(") = -1 ");
    let only_opens = name == "openat" && !rest.contains("O_CREAT") && !rest.contains("O_TRUNC");
    let wakes = name == "write" && rest.contains(r#""\1\0\0\0\0\0\0\0", 8"#);
    if failed || only_opens || wakes {
        return CallEffect::Nothing;
    }
    CallEffect::Changes
}

/// Of consecutive page writes of a thread, only the first and the last count: a database ignores a
/// transaction whose end is missing.
fn skip_inner_writes(calls: &mut [SystemCall]) {
    let mut by_thread: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (index, call) in calls.iter().enumerate() {
        by_thread
            .entry(call.thread.clone())
            .or_default()
            .push(index);
    }
    for indices in by_thread.values() {
        for three in indices.windows(3) {
            if three.iter().all(|index| calls[*index].name == "pwrite64") {
                calls[three[1]].effect = CallEffect::Nothing;
            }
        }
    }
}

/// A sample of the moments for the short form: most of them from the rare calls, then the others.
pub fn sample(moments: &[KillPoint], count: usize, seed: u64) -> Vec<KillPoint> {
    let group = |index: usize| -> Vec<&KillPoint> {
        let in_group = moments
            .iter()
            .filter(|it| GROUPS[index].contains(&it.call.as_str()));
        in_group.collect()
    };
    let shares = [
        count.div_ceil(2),
        count / 3,
        count - count.div_ceil(2) - count / 3,
    ];
    let mut chosen = Vec::new();
    for (index, share) in shares.into_iter().enumerate() {
        let group = group(index);
        let share = share.min(group.len());
        for step in 0..share {
            let offset = usize::try_from(seed % 7919).unwrap_or(0);
            let at = (step * group.len() / share + offset) % group.len();
            chosen.push(group[at].clone());
        }
    }
    chosen.sort();
    chosen.dedup();
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
10 openat(AT_FDCWD, \"a\", O_RDWR|O_CREAT, 0600) = 3
11 openat(AT_FDCWD, \"b\", O_RDONLY <unfinished ...>
10 unlink(\"a\") = 0
10 unlink(\"a\") = -1 ENOENT (No such file or directory)
11 <... openat resumed>) = 4
10 openat(AT_FDCWD, \"c\", O_RDONLY) = 5
10 openat(AT_FDCWD, \"c\", O_WRONLY|O_TRUNC) = 5
11 pwrite64(4, \"1\", 1, 0) = 1
10 write(5, \"\\1\\0\\0\\0\\0\\0\\0\\0\", 8) = 8
11 pwrite64(4, \"2\", 1, 1) = 1
11 pwrite64(4, \"3\", 1, 2) = 1
10 --- SIGCHLD {si_signo=SIGCHLD} ---
10 +++ exited with 0 +++
";

    fn kill_point(call: &str, number: usize) -> KillPoint {
        KillPoint {
            call: call.into(),
            number,
        }
    }

    #[test]
    fn calls_are_counted_in_each_thread_and_kept_if_they_change_something() {
        let trace = Trace::parse(TEXT);
        assert_eq!(trace.len(), 10);
        let expected = [
            kill_point("unlink", 1),
            kill_point("openat", 1),
            kill_point("openat", 3),
            kill_point("pwrite64", 1),
            kill_point("pwrite64", 3),
        ];
        assert_eq!(trace.kill_points(), expected);
    }

    #[test]
    fn a_sample_has_every_group_and_moves_with_the_seed() {
        let mut moments: Vec<KillPoint> = (1..=20).map(|it| kill_point("unlink", it)).collect();
        moments.extend((1..=20).map(|it| kill_point("fsync", it)));
        moments.extend((1..=20).map(|it| kill_point("openat", it)));
        let first = sample(&moments, 6, 1);
        assert_eq!(first.len(), 6);
        for call in ["unlink", "fsync", "openat"] {
            assert!(first.iter().any(|it| it.call == call), "{first:?}");
        }
        assert_ne!(first, sample(&moments, 6, 2));
    }
}
