//! Every mutant still finds the text it replaces, and names tests that exist; checked here in a
//! second rather than after a build.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::TidyFinding;
use super::source::RustSource;
use super::tree::SourceTree;
use crate::mutants::definition::{self, Mutant};
use crate::mutants::{FOLDER, trial};

/// Modules that macros make of a test: one per store, one per level of confinement.
const GENERATED: [&str; 5] = ["memory", "sqlite", "postgres", "namespaces", "landlock"];

/// The mutants that no longer match the source at `root`, which `tree` was read from.
pub fn check(root: &Path, tree: &SourceTree) -> Vec<TidyFinding> {
    let folder = root.join(FOLDER);
    if !folder.is_dir() {
        return Vec::new();
    }
    let finding = |file: &str, message| TidyFinding::error("mutants", file, 1, message);
    let mutants = match definition::read_all(&folder) {
        Ok(mutants) => mutants,
        Err(error) => return vec![finding(FOLDER, format!("{error:#}"))],
    };
    let (mut findings, mut names) = (Vec::new(), PackageNames::new(tree));
    for mutant in &mutants {
        let file = format!("{FOLDER}/{}.toml", mutant.name);
        if let Err(error) = mutant.changed_files(root) {
            findings.push(finding(&file, format!("{error:#}")));
        }
        for missing in missing_tests(mutant, &mut names) {
            findings.push(finding(&file, format!("there is no test `{missing}`")));
        }
    }
    findings
}

/// Returns the expected tests whose function or module is not in the package.
fn missing_tests(mutant: &Mutant, names: &mut PackageNames<'_>) -> Vec<String> {
    let mut missing = Vec::new();
    for arguments in mutant.tests() {
        let (target, filters) = trial::split_arguments(&arguments);
        let package = target.iter().skip_while(|it| *it != "-p").nth(1);
        let Some(names) = package.and_then(|it| names.of(it)) else {
            continue;
        };
        let filters = filters.into_iter().filter(|it| !it.starts_with('-'));
        missing.extend(filters.filter(|it| !is_found(it, names)));
    }
    missing
}

/// The names of all functions and modules, by package, collected when needed.
struct PackageNames<'a> {
    tree: &'a SourceTree,
    found: BTreeMap<String, BTreeSet<&'a str>>,
}

impl<'a> PackageNames<'a> {
    fn new(tree: &'a SourceTree) -> Self {
        Self {
            tree,
            found: BTreeMap::new(),
        }
    }

    /// Returns the names in a package; `None` if it is not in the workspace.
    fn of(&mut self, package: &str) -> Option<&BTreeSet<&'a str>> {
        if !self.found.contains_key(package) {
            let name = format!("name = \"{package}\"");
            let is_wanted = |text: &str| text.lines().any(|line| line == name);
            let mut manifests = self.tree.manifests.iter();
            let manifest = manifests.find(|it| is_wanted(&it.text))?;
            let folder = manifest.path.strip_suffix("Cargo.toml")?;
            let sources = self.tree.sources.iter();
            let sources = sources.filter(|it| it.path.starts_with(folder));
            let names = sources.flat_map(names_of).collect();
            self.found.insert(package.to_owned(), names);
        }
        self.found.get(package)
    }
}

fn names_of(source: &RustSource) -> impl Iterator<Item = &str> {
    let path = source.path.trim_end_matches(".rs").split('/');
    let defined = source.lines.iter().filter_map(|line| {
        let words = || {
            line.code
                .split(|it: char| !it.is_alphanumeric() && it != '_')
        };
        let is_keyword = |word: &&str| *word == "fn" || *word == "mod";
        words().skip_while(|it| !is_keyword(it)).nth(1)
    });
    path.chain(defined)
}

/// Returns whether every part of a filter is a name. The last may be the start of one.
fn is_found(filter: &str, names: &BTreeSet<&str>) -> bool {
    let parts = filter.split("::").filter(|it| !GENERATED.contains(it));
    let parts: Vec<&str> = parts.collect();
    let Some((last, modules)) = parts.split_last() else {
        return true;
    };
    let is_start = |start: &str| {
        let next = names.range(start..).next();
        next.is_some_and(|it| it.starts_with(start))
    };
    is_start(last) && modules.iter().all(|it| names.contains(it))
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{assert_clean, assert_only, findings};

    fn mutant(tests: &str) -> String {
        format!(
            "guard = 'g'\ntests = ['{tests}']\n\
             [[edit]]\nfile = 'notes.txt'\nfind = 'b c'\nreplace = ''\n"
        )
    }

    #[test]
    fn a_mutant_finds_its_text() {
        let text = mutant("-p x");
        assert_clean(&[("notes.txt", "a\nb\nc"), ("mutants/m.toml", &text)]);
    }

    #[test]
    fn a_mutant_whose_text_is_gone_is_found() {
        let gone = "mutants/m.toml:1: error [mutants] notes.txt: `find` is not in the file";
        let text = mutant("-p x");
        assert_only(&[("notes.txt", "a"), ("mutants/m.toml", &text)], gone);
    }

    /// A package with one test, and a mutant that expects `filter` to fail.
    fn findings_of(filter: &str) -> Vec<String> {
        let source = "//! Doc.\nmod races {\n    fn one_wins() {}\n}\n";
        let crates =
            "| crate | contents | may depend on |\n|---|---|---|\n| `x` | races | nothing |\n";
        findings(&[
            ("ARCHITECTURE.md", crates),
            ("crates/x/Cargo.toml", "[package]\nname = \"x\"\n"),
            ("crates/x/src/lib.rs", source),
            ("notes.txt", "b c"),
            ("mutants/m.toml", &mutant(&format!("-p x --lib {filter}"))),
        ])
    }

    #[test]
    fn a_mutant_names_tests_of_the_package() {
        for known in [
            "races::",
            "races::one_wins",
            "races::sqlite::one",
            "one_wins",
        ] {
            assert_eq!(findings_of(known), [""; 0], "{known}");
        }
        for unknown in ["race::one_wins", "races::two_win"] {
            let expected =
                format!("mutants/m.toml:1: error [mutants] there is no test `{unknown}`");
            assert_eq!(findings_of(unknown), [expected]);
        }
    }

    #[test]
    fn a_file_that_is_no_mutant_is_found() {
        let wrong = "mutants:1: error [mutants] ";
        assert_only(&[("mutants/m.toml", "guard = 'g'\n")], wrong);
    }
}
