//! The mutant runner on a repository with one tiny crate: every verdict, and the source stays
//! unchanged.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use xtask::files;
use xtask::mutants::{MutantRunner, MutantVerdict, definition};
use xtask::process;

const LIBRARY: &str = "\
pub fn guarded(number: u32) -> u32 {
    if number > 9 {
        return 9;
    }
    number
}

#[cfg(test)]
mod tests {
    #[test]
    fn stays_below_ten() {
        assert_eq!(super::guarded(70), 9);
    }

    #[test]
    fn keeps_small_ones() {
        assert_eq!(super::guarded(7), 7);
    }
}
";

const MANIFEST: &str = "\
[package]
name = \"tiny\"
version = \"0.1.0\"
edition = \"2024\"

[workspace]
";

const LOCK: &str = "\
version = 4

[[package]]
name = \"tiny\"
version = \"0.1.0\"
";

/// A mutant that replaces the guard's condition with `replacement`.
fn mutant(test: &str, condition: &str, replacement: &str) -> String {
    format!(
        "guard = 'the limit'
tests = ['--lib {test}']

[[edit]]
file = 'src/lib.rs'
find = '''
if
  {condition} {{
'''
replace = 'if {replacement} {{'
"
    )
}

fn repository(root: &Path) -> Result<()> {
    files::write(&root.join("Cargo.toml"), MANIFEST)?;
    files::write(&root.join("Cargo.lock"), LOCK)?;
    files::write(&root.join("src/lib.rs"), LIBRARY)?;
    files::write(&root.join(".gitignore"), "/target\n")?;
    process::capture(process::command("git").arg("init").current_dir(root))?;
    Ok(())
}

fn mutant_runner(root: &Path) -> MutantRunner {
    MutantRunner {
        source: root.to_path_buf(),
        tree: root.join("target/mutants/tree"),
        target: root.join("target/mutants/target"),
        build: root.join("target"),
        variables: Vec::new(),
        limit: Duration::from_secs(6),
    }
}

#[test]
fn every_verdict_is_distinguished() -> Result<()> {
    let place = tempfile::tempdir()?;
    let root = place.path();
    repository(root)?;
    let limit = "stays_below_ten";
    let forever = "loop { std::hint::spin_loop() }";
    for (name, text) in [
        ("1-caught", mutant(limit, "number > 9", "number > 900")),
        (
            "2-survived",
            mutant("keeps_small_ones", "number > 9", "number > 900"),
        ),
        ("3-moved", mutant(limit, "number > 8", "number > 900")),
        ("4-broken", mutant(limit, "number > 9", "nonsense")),
        ("5-hung", mutant(limit, "number > 9", forever)),
        ("6-caught-again", mutant(limit, "number > 9", "false")),
    ] {
        files::write(&root.join(format!("mutants/{name}.toml")), &text)?;
    }

    let mutants = definition::read_all(&root.join("mutants"))?;
    let verdicts = mutant_runner(root).run_all(&mutants)?;

    assert_eq!(verdicts.len(), 6);
    assert_eq!(verdicts[0], MutantVerdict::Caught, "{verdicts:#?}");
    assert!(
        matches!(verdicts[1], MutantVerdict::Survived(_)),
        "{verdicts:#?}"
    );
    assert!(
        matches!(verdicts[2], MutantVerdict::DoesNotApply(_)),
        "{verdicts:#?}"
    );
    assert!(
        matches!(verdicts[3], MutantVerdict::DoesNotBuild(_)),
        "{verdicts:#?}"
    );
    assert_eq!(verdicts[4], MutantVerdict::CaughtByTimeout, "{verdicts:#?}");
    assert_eq!(verdicts[5], MutantVerdict::Caught, "{verdicts:#?}");
    assert_eq!(files::read(&root.join("src/lib.rs"))?, LIBRARY);
    Ok(())
}

#[test]
fn an_expected_test_must_exist_and_be_green_first() -> Result<()> {
    let place = tempfile::tempdir()?;
    let root = place.path();
    repository(root)?;
    let path = root.join("mutants/a.toml");
    files::write(&path, &mutant("no_such_test", "number > 9", "false"))?;
    let mutants = definition::read_all(&root.join("mutants"))?;
    let error = mutant_runner(root).run_all(&mutants).unwrap_err();
    assert!(error.to_string().contains("no_such_test"), "{error:#}");
    Ok(())
}

#[test]
fn a_mutant_that_does_not_compile_is_named() -> Result<()> {
    let place = tempfile::tempdir()?;
    let root = place.path();
    repository(root)?;
    let test = "stays_below_ten";
    let write = |name: &str, condition: &str, replacement: &str| {
        let text = mutant(test, condition, replacement);
        files::write(&root.join(format!("mutants/{name}.toml")), &text)
    };
    // Two mutants of the same place compile one after the other.
    write("1-good", "number > 9", "number > 900")?;
    write("2-good", "number > 9", "false")?;
    let mutants = definition::read_all(&root.join("mutants"))?;
    assert_eq!(mutant_runner(root).build_all(&mutants)?, [""; 0]);

    write("3-broken", "number > 9", "nonsense")?;
    write("4-moved", "number > 8", "number > 900")?;
    let mutants = definition::read_all(&root.join("mutants"))?;
    let problems = mutant_runner(root).build_all(&mutants)?;
    assert_eq!(problems.len(), 2, "{problems:#?}");
    assert!(
        problems[0].contains("mutants/4-moved.toml: the source has changed"),
        "{problems:#?}"
    );
    assert!(
        problems[1].contains("cannot find value `nonsense`")
            && problems[1].contains("edited by mutants/3-broken.toml"),
        "{problems:#?}"
    );
    assert_eq!(
        files::read(&root.join("target/mutants/tree/src/lib.rs"))?,
        LIBRARY
    );
    Ok(())
}
