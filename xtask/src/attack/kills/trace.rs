//! System calls of a run as strace lists them, and the moments at which it can kill one.

use std::collections::BTreeMap;

/// Every call that changes a file or opens one, in groups from rare to frequent.
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

/// The calls for strace's `-e trace=`. A leading `?` lets strace skip one that this machine lacks.
pub fn filter() -> String {
    let names: Vec<String> = GROUPS.concat().iter().map(|it| format!("?{it}")).collect();
    names.join(",")
}

/// The moment of a kill: the n-th call of that name in one thread.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    pub call: String,
    pub number: usize,
}

/// What a traced run shows.
#[derive(Debug, Default)]
pub struct Trace {
    /// Thread and name of each call, in order.
    calls: Vec<(String, String)>,
}

impl Trace {
    /// Reads lines such as `123 openat(AT_FDCWD, "x", O_RDONLY) = 3`.
    pub fn parse(text: &str) -> Trace {
        let calls = text.lines().filter_map(|line| {
            let (thread, rest) = line.trim_start().split_once(char::is_whitespace)?;
            let (name, _) = rest.trim_start().split_once('(')?;
            let is_name = name
                .bytes()
                .all(|it| it.is_ascii_alphanumeric() || it == b'_');
            (is_name && !name.is_empty()).then(|| (thread.to_owned(), name.to_owned()))
        });
        Trace {
            calls: calls.collect(),
        }
    }

    pub fn len(&self) -> usize {
        self.calls.len()
    }

    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// All moments, those of rare calls first. strace counts the calls of each thread apart, so the first
    /// thread to reach a number is the one that is hit.
    pub fn moments(&self) -> Vec<Moment> {
        let mut most: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for (thread, call) in &self.calls {
            *most.entry((call, thread)).or_default() += 1;
        }
        let mut moments = Vec::new();
        for call in GROUPS.concat() {
            let counts = most.iter().filter(|((name, _), _)| *name == call);
            let highest = counts.map(|(_, count)| *count).max().unwrap_or(0);
            moments.extend((1..=highest).map(|number| Moment {
                call: call.to_owned(),
                number,
            }));
        }
        moments
    }
}

/// A sample of the moments for the short form: most of the rare calls' share, then the others.
pub fn sample(moments: &[Moment], count: usize, seed: u64) -> Vec<Moment> {
    let group = |index: usize| -> Vec<&Moment> {
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
10 openat(AT_FDCWD, \"a\", O_RDONLY) = 3
11 openat(AT_FDCWD, \"b\", O_RDONLY <unfinished ...>
10 unlink(\"a\") = 0
11 <... openat resumed>) = 4
10 openat(AT_FDCWD, \"c\", O_RDONLY) = 5
10 --- SIGCHLD {si_signo=SIGCHLD} ---
10 +++ exited with 0 +++
";

    fn moment(call: &str, number: usize) -> Moment {
        Moment {
            call: call.into(),
            number,
        }
    }

    #[test]
    fn calls_are_counted_in_each_thread() {
        let trace = Trace::parse(TEXT);
        assert_eq!(trace.len(), 4);
        let expected = [
            moment("unlink", 1),
            moment("openat", 1),
            moment("openat", 2),
        ];
        assert_eq!(trace.moments(), expected);
    }

    #[test]
    fn a_sample_has_every_group_and_moves_with_the_seed() {
        let mut moments: Vec<Moment> = (1..=20).map(|it| moment("unlink", it)).collect();
        moments.extend((1..=20).map(|it| moment("fsync", it)));
        moments.extend((1..=20).map(|it| moment("openat", it)));
        let first = sample(&moments, 6, 1);
        assert_eq!(first.len(), 6);
        for call in ["unlink", "fsync", "openat"] {
            assert!(first.iter().any(|it| it.call == call), "{first:?}");
        }
        assert_ne!(first, sample(&moments, 6, 2));
    }
}
