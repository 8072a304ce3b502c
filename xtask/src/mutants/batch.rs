//! Batches of mutants that are compiled together.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::definition::Mutant;
use crate::files;

/// Mutants whose edits are made in the same copy, one after the other.
#[derive(Debug, Default)]
pub struct MutantBatch<'a> {
    pub mutants: Vec<&'a Mutant>,
    /// The changed files, with their new texts.
    pub changed: BTreeMap<PathBuf, String>,
}

/// All mutants, as batches.
#[derive(Debug, Default)]
pub struct MutantBatches<'a> {
    pub batches: Vec<MutantBatch<'a>>,
    /// Mutants whose edits do not apply to the unchanged source, with the reasons.
    pub inapplicable: Vec<(&'a Mutant, String)>,
}

impl<'a> MutantBatches<'a> {
    /// Adds each mutant to the first batch whose changed files still have its places exactly once.
    pub fn plan(mutants: &'a [Mutant], root: &Path) -> Self {
        let mut planned = Self::default();
        for mutant in mutants {
            // The edit of another mutant could make a place unique.
            if let Err(error) = mutant.changed_files(root) {
                planned.inapplicable.push((mutant, format!("{error:#}")));
                continue;
            }
            let mut batches = planned.batches.iter_mut();
            if batches.any(|batch| batch.add(mutant, root).is_ok()) {
                continue;
            }
            let mut batch = MutantBatch::default();
            match batch.add(mutant, root) {
                Ok(()) => planned.batches.push(batch),
                Err(error) => planned.inapplicable.push((mutant, format!("{error:#}"))),
            }
        }
        planned
    }
}

impl<'a> MutantBatch<'a> {
    /// Makes all edits of the mutant. Fails, without a change, if one does not apply.
    fn add(&mut self, mutant: &'a Mutant, root: &Path) -> Result<()> {
        let changed = mutant.edit_files(|path| match self.changed.get(path) {
            Some(text) => Ok(text.clone()),
            None => files::read(&root.join(path)),
        })?;
        self.changed.extend(changed);
        self.mutants.push(mutant);
        Ok(())
    }

    /// Returns the names of the mutants that edit one of the files.
    pub fn editors(&self, files: &BTreeSet<PathBuf>) -> Vec<&'a str> {
        let edits_one = |it: &&&'a Mutant| it.edits.iter().any(|edit| files.contains(&edit.file));
        let editors = self.mutants.iter().filter(edits_one);
        editors.map(|it| it.name.as_str()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::definition::MutantEdit;
    use super::*;

    fn mutant(name: &str, edits: &[(&str, &str, &str)]) -> Mutant {
        let edit = |(file, find, replace): &(&str, &str, &str)| MutantEdit {
            file: file.into(),
            find: (*find).to_owned(),
            replace: (*replace).to_owned(),
        };
        Mutant::sample(name, edits.iter().map(edit).collect())
    }

    /// Returns a folder with two files.
    fn source() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        files::write(&folder.path().join("a"), "one two three").unwrap();
        files::write(&folder.path().join("b"), "same same").unwrap();
        folder
    }

    fn names<'a>(batches: &MutantBatches<'a>) -> Vec<Vec<&'a str>> {
        let names = |batch: &MutantBatch<'a>| batch.mutants.iter().map(|it| &*it.name).collect();
        batches.batches.iter().map(names).collect()
    }

    #[test]
    fn edits_are_made_on_the_text_that_the_others_changed() {
        let folder = source();
        let mutants = [
            mutant("first", &[("a", "one", "1")]),
            mutant("overlapping", &[("a", "one two", "x")]),
            mutant("last", &[("a", "three", "3")]),
        ];
        let planned = MutantBatches::plan(&mutants, folder.path());
        assert_eq!(
            names(&planned),
            [&["first", "last"][..], &["overlapping"][..]]
        );
        assert_eq!(planned.batches[0].changed[Path::new("a")], "1 two 3");
        assert_eq!(planned.batches[1].changed[Path::new("a")], "x three");
        assert!(planned.inapplicable.is_empty());
    }

    #[test]
    fn a_place_that_another_mutant_repeats_needs_another_batch() {
        let folder = source();
        let mutants = [
            mutant("repeats", &[("a", "one", "two")]),
            mutant("finds", &[("a", "three", "3"), ("a", "two", "2")]),
        ];
        let planned = MutantBatches::plan(&mutants, folder.path());
        assert_eq!(names(&planned), [["repeats"], ["finds"]]);
        // The edit that applied is not left behind.
        assert_eq!(planned.batches[0].changed[Path::new("a")], "two two three");
    }

    #[test]
    fn a_mutant_must_apply_to_the_unchanged_source() {
        let folder = source();
        let mutants = [
            mutant("makes-unique", &[("b", "same same", "same")]),
            mutant("ambiguous", &[("b", "same", "other")]),
            mutant("absent", &[("a", "four", "4")]),
            mutant("no-file", &[("c", "x", "y")]),
        ];
        let planned = MutantBatches::plan(&mutants, folder.path());
        assert_eq!(names(&planned), [["makes-unique"]]);
        let rejected = planned.inapplicable.iter().map(|it| &*it.0.name);
        assert_eq!(
            rejected.collect::<Vec<_>>(),
            ["ambiguous", "absent", "no-file"]
        );
        assert!(planned.inapplicable[0].1.contains("more than once"));
    }

    #[test]
    fn the_editors_of_a_file_are_found() {
        let folder = source();
        let mutants = [
            mutant("a", &[("a", "one", "1")]),
            mutant("b", &[("b", "same same", "x")]),
        ];
        let planned = MutantBatches::plan(&mutants, folder.path());
        let batch = &planned.batches[0];
        assert_eq!(batch.editors(&BTreeSet::from(["b".into()])), ["b"]);
        assert_eq!(
            batch.editors(&BTreeSet::from(["a".into(), "b".into()])),
            ["a", "b"]
        );
        assert!(batch.editors(&BTreeSet::from(["c".into()])).is_empty());
    }
}
