//! The patch files: a header of `# key: value` lines, then a diff as `git diff` makes it.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::files;

/// A guard to be taken away, and the tests that must notice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mutant {
    pub name: String,
    pub path: PathBuf,
    pub guard: String,
    /// Arguments of `cargo test`, one list for each `# expect:` line; every one must go red.
    pub expect: Vec<Vec<String>>,
    pub hang: Hang,
}

/// What tests that do not end say about a mutant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hang {
    Counts,
    IsAFault,
}

/// All patches of the folder, by name.
pub fn read_all(folder: &Path) -> Result<Vec<Mutant>> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|it| it == "patch"))
        .collect();
    paths.sort();
    if paths.is_empty() {
        bail!(
            "there is no patch in {}: take a guard away, keep `git diff` there as NAME.patch with the \
             header lines `# guard:` and `# expect:`, and restore the source",
            folder.display()
        );
    }
    paths
        .iter()
        .map(|path| {
            let text = files::read(path)?;
            parse(path, &text).with_context(|| format!("{} is not a mutant", path.display()))
        })
        .collect()
}

/// The named ones, or all when no name is given.
pub fn select(mutants: Vec<Mutant>, names: &[&String]) -> Result<Vec<Mutant>> {
    if names.is_empty() {
        return Ok(mutants);
    }
    for name in names {
        if !mutants.iter().any(|mutant| mutant.name == **name) {
            let known: Vec<&str> = mutants.iter().map(|mutant| mutant.name.as_str()).collect();
            bail!(
                "there is no mutant `{name}`; there are {}",
                known.join(", ")
            );
        }
    }
    Ok(mutants
        .into_iter()
        .filter(|mutant| names.iter().any(|name| **name == mutant.name))
        .collect())
}

fn parse(path: &Path, text: &str) -> Result<Mutant> {
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let mut guard = None;
    let mut expect = Vec::new();
    let mut hang = Hang::IsAFault;
    for line in text.lines().take_while(|line| !line.starts_with("diff ")) {
        let Some(comment) = line.strip_prefix('#') else {
            if line.trim().is_empty() {
                continue;
            }
            bail!("`{line}` stands before the diff; the header is `# key: value` lines");
        };
        let (key, value) = comment
            .split_once(':')
            .with_context(|| format!("`{line}` is no `# key: value`"))?;
        let value = value.trim();
        match (key.trim(), value) {
            ("guard", _) => guard = Some(value.to_owned()),
            ("expect", _) => expect.push(value.split_whitespace().map(str::to_owned).collect()),
            ("hang", "counts") => hang = Hang::Counts,
            ("why", _) => {}
            _ => bail!("`{line}` is unknown; use guard, expect, why, or `hang: counts`"),
        }
    }
    if expect.is_empty() || expect.iter().any(Vec::is_empty) {
        bail!("the header lacks `# expect: <arguments of cargo test that must go red>`");
    }
    Ok(Mutant {
        name: name.into_owned(),
        path: path.to_path_buf(),
        guard: guard.context("the header lacks `# guard: <what is taken away>`")?,
        expect,
        hang,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Mutant> {
        parse(Path::new("mutants/version-check.patch"), text)
    }

    #[test]
    fn a_header_is_read() {
        let text = "# guard: version check\n# why: a stale write must not win\n\
                    # expect: -p proof --test contract plans::sqlite\n# expect: -p store\n\
                    # hang: counts\n\ndiff --git a/x b/x\n# not: header\n";
        let mutant = parsed(text).unwrap();
        assert_eq!(mutant.name, "version-check");
        assert_eq!(mutant.guard, "version check");
        assert_eq!(mutant.expect.len(), 2);
        assert_eq!(mutant.expect[0][3], "contract");
        assert_eq!(mutant.hang, Hang::Counts);
    }

    #[test]
    fn a_header_must_say_guard_and_tests() {
        for text in [
            "# guard: g\ndiff --git a/x b/x\n",
            "# expect: -p x\ndiff --git a/x b/x\n",
            "# guard: g\n# expect:\n",
            "# guard: g\n# expect: -p x\n# gaurd: typo\n",
            "loose words\n",
        ] {
            assert!(parsed(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_unknown_name_lists_the_known() {
        let mutant = parsed("# guard: g\n# expect: -p x\n").unwrap();
        let error = select(vec![mutant], &[&"other".to_owned()]).unwrap_err();
        assert!(error.to_string().contains("version-check"), "{error}");
    }
}
