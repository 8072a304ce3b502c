//! The commit history of a base.

use cleveragents_domain::ResourcePath;
use cleveragents_ports::sandbox::{LogEntry, SandboxError, SandboxResult};

use crate::files::path_from_bytes;
use crate::repository::trimmed_text;
use crate::store::PrivateStore;

/// Id, author, time and subject of a commit, each terminated by a NUL, which none of them can
/// contain.
const LOG_FORMAT: &str = "--format=tformat:%h%x00%an%x00%at%x00%s";

pub(crate) fn log(
    store: &PrivateStore,
    commit: &str,
    path: Option<&ResourcePath>,
    limit: u32,
) -> SandboxResult<Vec<LogEntry>> {
    let call = store
        .call(["log", "-z", "--abbrev=12", "--no-show-signature"])
        .option("--literal-pathspecs")
        .arguments(["--no-mailmap", LOG_FORMAT])
        .argument(format!("--max-count={limit}"))
        .arguments([commit, "--"])
        .arguments(path.map(|path| path_from_bytes(path.as_bytes())));
    parse(&call.run()?)
}

fn parse(answer: &[u8]) -> SandboxResult<Vec<LogEntry>> {
    let malformed = || SandboxError::Malformed {
        what: "git log returned unexpected output".to_owned(),
    };
    let fields: Vec<&[u8]> = answer.split(|byte| *byte == 0).collect();
    // The last field is terminated too, so splitting yields an empty one after it.
    let (commits, rest) = fields.as_chunks::<4>();
    if !matches!(rest, [] | [b""]) {
        return Err(malformed());
    }
    let entry = |[id, author, seconds, subject]: &[&[u8]; 4]| {
        Ok(LogEntry {
            id: trimmed_text(id),
            author: trimmed_text(author),
            seconds: trimmed_text(seconds).parse().map_err(|_| malformed())?,
            subject: trimmed_text(subject),
        })
    };
    commits.iter().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_are_parsed_and_garbage_is_refused() {
        let answer = b"abc\0Ann\x0012\0first: one\0def\0B\xff\x0013\0\0";
        let commits = parse(answer).unwrap();
        assert_eq!(commits.len(), 2);
        assert_eq!(commits[0].subject, "first: one");
        assert_eq!(commits[1].author, "B\u{fffd}");
        assert_eq!(commits[1].seconds, 13);
        assert_eq!(parse(b"").unwrap(), []);
        for wrong in [&b"abc\0Ann\0"[..], b"abc\0Ann\0soon\0x\0"] {
            assert!(parse(wrong).is_err());
        }
    }
}
