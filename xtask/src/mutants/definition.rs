//! The mutant files: `mutants/NAME.toml` names a guard, the edits that remove it, and the tests
//! that must fail.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::edit;
use crate::files;

/// A guard to remove, and the tests that must notice.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mutant {
    /// The name of its file.
    #[serde(skip)]
    pub name: String,
    pub guard: String,
    /// The failure without the guard.
    #[serde(default)]
    pub why: String,
    /// Arguments of `cargo test`; every one must fail.
    tests: Vec<String>,
    #[serde(rename = "edit")]
    pub edits: Vec<MutantEdit>,
}

/// One replacement in one file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MutantEdit {
    /// Relative to the workspace.
    pub file: PathBuf,
    pub find: String,
    pub replace: String,
}

impl Mutant {
    /// A mutant for tests of the runner, which runs no tests itself.
    #[cfg(test)]
    pub(super) fn sample(name: &str, edits: Vec<MutantEdit>) -> Self {
        Self {
            name: name.to_owned(),
            guard: String::new(),
            why: String::new(),
            tests: Vec::new(),
            edits,
        }
    }

    /// The arguments of each `cargo test` that must fail.
    pub fn tests(&self) -> Vec<Vec<String>> {
        let words = |line: &String| line.split_whitespace().map(str::to_owned).collect();
        self.tests.iter().map(words).collect()
    }

    /// The files that the mutant changes in the tree at `root`, with their new texts.
    pub fn changed_files(&self, root: &Path) -> Result<Vec<(PathBuf, String)>> {
        self.edit_files(|path| files::read(&root.join(path)))
    }

    /// The files that the mutant changes, with their new texts. `read` returns the text of a file.
    pub fn edit_files(
        &self,
        read: impl Fn(&Path) -> Result<String>,
    ) -> Result<Vec<(PathBuf, String)>> {
        let mut changed: Vec<(PathBuf, String)> = Vec::new();
        for edit in &self.edits {
            let known = changed.iter().position(|it| it.0 == edit.file);
            let index = match known {
                Some(index) => index,
                None => {
                    changed.push((edit.file.clone(), read(&edit.file)?));
                    changed.len() - 1
                }
            };
            let text = &mut changed[index].1;
            *text = match edit::replace(text, &edit.find, &edit.replace) {
                Ok(replaced) => replaced,
                Err(mismatch) => bail!("{}: {mismatch}:\n{}", edit.file.display(), edit.find),
            };
        }
        Ok(changed)
    }
}

/// All mutants of the folder, by name.
pub fn read_all(folder: &Path) -> Result<Vec<Mutant>> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|it| it == "toml"))
        .collect();
    paths.sort();
    if paths.is_empty() {
        bail!("there is no mutant in {}", folder.display());
    }
    paths
        .iter()
        .map(|path| {
            let text = files::read(path)?;
            parse(path, &text).with_context(|| format!("{} is not a mutant", path.display()))
        })
        .collect()
}

/// The named mutants, or all if no name is given.
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
    let mut mutant: Mutant = toml::from_str(text)?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    mutant.name = name.into_owned();
    if mutant.tests.is_empty() || mutant.tests.iter().any(|it| it.trim().is_empty()) {
        bail!("`tests` lists no arguments of `cargo test`");
    }
    Ok(mutant)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EDIT: &str = "[[edit]]\nfile = 'x'\nfind = 'a'\nreplace = 'b'\n";

    fn parsed(header: &str) -> Result<Mutant> {
        parse(
            Path::new("mutants/version-check.toml"),
            &format!("{header}{EDIT}"),
        )
    }

    #[test]
    fn a_file_is_read() {
        let header = "guard = 'version check'\nwhy = 'a stale write must not win'\n\
                      tests = ['-p integration-tests --test contract plans::sqlite', '-p store']\n";
        let mutant = parsed(header).unwrap();
        assert_eq!(mutant.name, "version-check");
        assert_eq!(mutant.guard, "version check");
        assert_eq!(mutant.tests()[0][3], "contract");
        assert_eq!(mutant.tests()[1], ["-p", "store"]);
        assert_eq!(mutant.edits[0].find, "a");
    }

    #[test]
    fn a_file_needs_guard_and_tests() {
        for header in [
            "guard = 'g'\n",
            "tests = ['-p x']\n",
            "guard = 'g'\ntests = []\n",
            "guard = 'g'\ntests = ['']\n",
            "guard = 'g'\ntests = ['-p x']\ngaurd = 'typo'\n",
        ] {
            assert!(parsed(header).is_err(), "{header}");
        }
    }

    #[test]
    fn an_unknown_name_lists_the_known() {
        let mutant = parsed("guard = 'g'\ntests = ['-p x']\n").unwrap();
        let error = select(vec![mutant], &[&"other".to_owned()]).unwrap_err();
        assert!(error.to_string().contains("version-check"), "{error}");
    }
}
