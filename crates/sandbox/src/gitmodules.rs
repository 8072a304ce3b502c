//! Checks whether git accepts a `.gitmodules`.
//!
//! The URL, path or name of a submodule can make a later `git clone` run a command, so git refuses
//! some of them when it checks objects. A file that git would refuse at the end is detected at
//! capture: git checks a tree that contains only this file.

use cleveragents_ports::sandbox::SandboxResult;

use crate::private_dir::PrivateGitDir;
use crate::store::PrivateStore;

/// Returns git's reason to refuse these bytes as `.gitmodules`, if it has one.
pub(crate) fn find_refusal(store: &PrivateStore, bytes: &[u8]) -> SandboxResult<Option<String>> {
    let folder = store.git.scratch.create_folder()?;
    let dir = PrivateGitDir::new(folder.to_owned());
    dir.init(store.format)?;
    let call = |arguments: &[&str]| store.git.private_call(&dir, arguments.iter().copied());
    let blob = call(&["hash-object", "-w", "--stdin"]).run_with(bytes)?;
    let blob = String::from_utf8_lossy(&blob).trim_end().to_owned();
    let tree = format!("100644 blob {blob}\t.gitmodules\n");
    call(&["mktree"]).run_with(tree.as_bytes())?;
    let checked = call(&["fsck", "--strict", "--no-dangling"]).output()?;
    if checked.status.success() {
        return Ok(None);
    }
    Ok(Some(
        parse_reason(&checked.stderr).unwrap_or(checked.stderr),
    ))
}

/// Extracts git's message about an object: `error in blob ID: gitmodulesUrl: MESSAGE`, or from
/// `index-pack` `error: object ID: gitmodulesUrl: MESSAGE`.
pub(crate) fn parse_reason(stderr: &str) -> Option<String> {
    let words = stderr.lines().find_map(|line| {
        let rest = line.strip_prefix("error")?;
        let rest = rest.strip_prefix(':').unwrap_or(rest);
        let (_, rest) = rest.split_once(": ")?;
        Some(rest.trim())
    });
    words.map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use cleveragents_ports::sandbox::ObjectFormat;

    use super::*;
    use crate::trees::tests::store;

    #[test]
    fn invalid_gitmodules_are_refused_with_a_reason() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(folder.path(), ObjectFormat::Sha1);
        let modules = |name: &str, more: &str| {
            let text = format!("[submodule \"{name}\"]\n\tpath = x\n{more}\n");
            find_refusal(&store, text.as_bytes()).unwrap()
        };
        assert_eq!(modules("x", "\turl = https://example.org/x.git"), None);
        assert_eq!(modules("x", "\turl = ../x.git"), None);
        assert_eq!(find_refusal(&store, b"no configuration [").unwrap(), None);
        for (name, more, reason) in [
            ("x", "\turl = --upload-pack=evil", "gitmodulesUrl"),
            ("x", "\turl = https://a%0ab.example.org", "gitmodulesUrl"),
            ("x", "\tupdate = !evil", "gitmodulesUpdate"),
            ("../x", "\turl = ../x.git", "gitmodulesName"),
            ("x", "\tpath = -evil", "gitmodulesPath"),
        ] {
            let refused = modules(name, more).unwrap();
            assert!(refused.starts_with(reason), "{refused}");
        }
    }
}
