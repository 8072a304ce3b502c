//! Every mutant still finds the text it replaces; checked here in a second rather than after a
//! build.

use std::path::Path;

use super::TidyFinding;
use crate::mutants::{FOLDER, definition};

/// The mutants that no longer match the source at `root`.
pub fn check(root: &Path) -> Vec<TidyFinding> {
    let folder = root.join(FOLDER);
    if !folder.is_dir() {
        return Vec::new();
    }
    let mutants = match definition::read_all(&folder) {
        Ok(mutants) => mutants,
        Err(error) => {
            return vec![TidyFinding::error(
                "mutants",
                FOLDER,
                1,
                format!("{error:#}"),
            )];
        }
    };
    let unfit = mutants.iter().filter_map(|mutant| {
        let error = mutant.changed_files(root).err()?;
        let file = format!("{FOLDER}/{}.toml", mutant.name);
        Some(TidyFinding::error(
            "mutants",
            &file,
            1,
            format!("{error:#}"),
        ))
    });
    unfit.collect()
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{assert_clean, assert_only};

    const MUTANT: &str =
        "guard = 'g'\ntests = ['-p x']\n[[edit]]\nfile = 'notes.txt'\nfind = 'b c'\nreplace = ''\n";

    #[test]
    fn a_mutant_finds_its_text() {
        assert_clean(&[("notes.txt", "a\nb\nc"), ("mutants/m.toml", MUTANT)]);
    }

    #[test]
    fn a_mutant_whose_text_is_gone_is_found() {
        let gone = "mutants/m.toml:1: error [mutants] notes.txt: `find` is not in the file";
        assert_only(&[("notes.txt", "a"), ("mutants/m.toml", MUTANT)], gone);
    }

    #[test]
    fn a_file_that_is_no_mutant_is_found() {
        let wrong = "mutants:1: error [mutants] ";
        assert_only(&[("mutants/m.toml", "guard = 'g'\n")], wrong);
    }
}
