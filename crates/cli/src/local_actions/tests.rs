use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::fs::symlink;
use std::time::Instant;

use cleveragents_domain::Timestamp;

use super::*;
use crate::environment::Terminal;
use crate::files::{Privacy, create_directory, replace};

fn environment(here: &Path) -> Environment {
    let variables =
        [("ACTOR", "local/coder")].map(|(name, value)| (name.to_owned(), OsString::from(value)));
    Environment {
        arguments: Vec::new(),
        executable: None,
        variables: BTreeMap::from(variables),
        working_directory: Some(here.to_owned()),
        stdin: Terminal::None,
        stdout: Terminal::None,
        stderr: Terminal::None,
        width: 100,
        started: Timestamp::default(),
        started_instant: Instant::now(),
    }
}

fn action(name: &str) -> String {
    format!(
        "name: {name}\ndescription: x\nstrategy_actor: a/b\nexecution_actor: local/coder\n\
         definition_of_done: x\n"
    )
}

fn project(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join(FOLDER);
    create_directory(&folder, Privacy::Private).unwrap();
    for (name, text) in files {
        replace(&folder.join(name), text.as_bytes(), Privacy::Private).unwrap();
    }
    root
}

fn find_file_name(root: &tempfile::TempDir, name: &str) -> Result<Option<String>, String> {
    let folders = [root.path().to_owned()];
    find(&name.parse().unwrap(), &folders)
        .map(|found| {
            found.map(|local| local.file.file_name().unwrap().to_str().unwrap().to_owned())
        })
        .map_err(|failure| failure.to_string())
}

#[test]
fn actions_are_found_by_name_in_both_kinds_of_files() {
    let root = project(&[
        ("lint.yaml", &action("lint")),
        ("deploy.yml", &action("team/deploy")),
        ("notes.txt", "not: an action"),
    ]);
    assert_eq!(
        find_file_name(&root, "lint"),
        Ok(Some("lint.yaml".to_owned()))
    );
    assert_eq!(
        find_file_name(&root, "team/deploy"),
        Ok(Some("deploy.yml".to_owned()))
    );
    assert_eq!(find_file_name(&root, "local/deploy"), Ok(None));
    // The same folder under two paths is read once.
    let twice = [root.path().to_owned(), root.path().join(".")];
    let survey = scan(&twice);
    assert_eq!((survey.actions.len(), survey.failures.len()), (2, 0));
    let execution = &survey.actions[0].draft.actors.execution_actor;
    assert_eq!(execution.to_string(), "local/coder");
}

#[test]
fn the_nearest_folder_above_is_used() {
    let root = project(&[("a.yaml", &action("a"))]);
    let deep = root.path().join("src/deep");
    create_directory(&deep, Privacy::Private).unwrap();
    assert_eq!(enclosing_folder(&deep).as_deref(), Some(root.path()));
    assert_eq!(default_folders(&environment(&deep)), [root.path()]);
    let mut nowhere = environment(&deep);
    nowhere.working_directory = None;
    assert!(default_folders(&nowhere).is_empty());
}

#[test]
fn a_name_defined_twice_is_refused_naming_both_files() {
    let root = project(&[
        ("a.yaml", &action("same")),
        ("b.yml", &action("local/same")),
    ]);
    let said = find_file_name(&root, "same").unwrap_err();
    assert!(
        said.contains("local/same is defined more than once"),
        "{said}"
    );
    assert!(said.contains("a.yaml and "), "{said}");
    assert!(said.contains("b.yml"), "{said}");
    assert_eq!(find_file_name(&root, "other"), Ok(None));
}

#[test]
fn a_broken_file_is_reported_unless_another_matches() {
    let root = project(&[("bad.yaml", "nmae: x\n"), ("good.yaml", &action("good"))]);
    assert_eq!(
        find_file_name(&root, "good"),
        Ok(Some("good.yaml".to_owned()))
    );
    let said = find_file_name(&root, "other").unwrap_err();
    assert!(said.contains("bad.yaml:1:1"), "{said}");
    assert!(said.contains("`nmae`"), "{said}");
}

#[test]
fn links_out_of_the_folder_and_other_kinds_of_files_are_not_read() {
    let outside = tempfile::tempdir().unwrap();
    let secret = outside.path().join("secret.yaml");
    replace(&secret, action("secret").as_bytes(), Privacy::Private).unwrap();
    let root = project(&[("b.yaml", &action("b"))]);
    let folder = root.path().join(FOLDER);
    symlink(&secret, folder.join("link.yaml")).unwrap();
    symlink(folder.join("b.yaml"), folder.join("a.yaml")).unwrap();
    create_directory(&folder.join("folder.yaml"), Privacy::Private).unwrap();
    let survey = scan(&[root.path().to_owned()]);
    assert_eq!(survey.actions.len(), 1);
    let said: Vec<String> = survey.failures.iter().map(ToString::to_string).collect();
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].contains("not a regular file"), "{said:?}");
    assert!(said[1].contains("leads out of the folder"), "{said:?}");

    let other = tempfile::tempdir().unwrap();
    create_directory(&other.path().join(".agents"), Privacy::Private).unwrap();
    symlink(&folder, other.path().join(FOLDER)).unwrap();
    let said = find_file_name(&other, "b").unwrap_err();
    assert!(said.contains("leads out of the project"), "{said}");
}

#[test]
fn too_many_files_and_too_large_ones_are_refused() {
    let large = "#".repeat(2 << 20);
    let root = project(&[("a.yaml", &large)]);
    let said = find_file_name(&root, "a").unwrap_err();
    assert!(said.contains("a definition may have 1048576"), "{said}");
    for number in 0..FILES_MAXIMUM {
        let path = root.path().join(FOLDER).join(format!("{number}.yml"));
        replace(&path, b"", Privacy::Private).unwrap();
    }
    let said = find_file_name(&root, "a").unwrap_err();
    assert!(said.contains("more than 256 files"), "{said}");
}

#[test]
fn a_registered_action_wins_and_its_file_is_named() {
    let root = project(&[("lint.yaml", &action("lint")), ("bad.yaml", "?")]);
    let folders = [root.path().to_owned()];
    let chosen = |text: &str, registered: Option<u8>| {
        choose(&text.parse().unwrap(), &folders, || Ok(registered))
    };
    match chosen("lint", Some(7)) {
        Ok(Some(ActionSource::Registered {
            action: 7,
            shadowed: Some(file),
        })) => assert!(file.ends_with("lint.yaml")),
        other => panic!("{other:?}"),
    }
    assert!(matches!(
        chosen("other", Some(7)),
        Ok(Some(ActionSource::Registered { shadowed: None, .. }))
    ));
    assert!(matches!(
        chosen("lint", None),
        Ok(Some(ActionSource::File(_)))
    ));
    assert!(
        chosen("other", None).is_err(),
        "the broken file might be it"
    );
    let refused = choose::<u8>(&"lint".parse().unwrap(), &folders, || {
        Err(CommandFailure::usage("no database"))
    });
    assert_eq!(refused.unwrap_err().message, "no database");
}
