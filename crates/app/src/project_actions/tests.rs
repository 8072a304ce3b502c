use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::symlink;

use cleveragents_domain::Timestamp;
use cleveragents_domain::id::ActionId;
use cleveragents_sandbox::LocalProjectFiles;

use super::*;

fn definition(name: &str) -> String {
    format!(
        "name: {name}\ndescription: x\nstrategy_actor: a/b\nexecution_actor: local/coder\n\
         definition_of_done: x\n"
    )
}

fn project(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join(".agents/actions");
    fs::create_dir_all(&folder).unwrap();
    for (name, text) in files {
        let mut file = File::create(folder.join(name)).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }
    root
}

fn read(root: &tempfile::TempDir) -> ProjectActions {
    ProjectActions::read(&LocalProjectFiles, &[root.path().to_owned()])
}

fn find_file_name(root: &tempfile::TempDir, name: &str) -> Result<Option<String>, String> {
    let found = read(root).find(&name.parse().unwrap());
    let file_name = |action: ProjectAction| {
        let name = action.file.file_name().unwrap();
        name.to_str().unwrap().to_owned()
    };
    found
        .map(|found| found.map(file_name))
        .map_err(|failure| failure.to_string())
}

#[test]
fn actions_are_found_by_name_in_both_kinds_of_files() {
    let root = project(&[
        ("lint.yaml", &definition("lint")),
        ("deploy.yml", &definition("team/deploy")),
        ("notes.txt", "not: an action"),
    ]);
    let file = |name: &str| Ok(Some(name.to_owned()));
    assert_eq!(find_file_name(&root, "lint"), file("lint.yaml"));
    assert_eq!(find_file_name(&root, "team/deploy"), file("deploy.yml"));
    assert_eq!(find_file_name(&root, "local/deploy"), Ok(None));
}

#[test]
fn the_same_file_under_two_paths_is_read_once() {
    let root = project(&[("a.yaml", &definition("a")), ("b.yml", &definition("b"))]);
    let folder = root.path().join(".agents/actions");
    symlink(folder.join("a.yaml"), folder.join("link.yaml")).unwrap();
    let twice = [root.path().to_owned(), root.path().join(".")];
    let all = ProjectActions::read(&LocalProjectFiles, &twice);
    assert_eq!((all.actions.len(), all.failures.len()), (2, 0));
    let execution = &all.actions[0].draft.actors.execution_actor;
    assert_eq!(execution.to_string(), "local/coder");
}

#[test]
fn a_name_defined_twice_is_refused_naming_both_files() {
    let root = project(&[
        ("a.yaml", &definition("same")),
        ("b.yml", &definition("local/same")),
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
    let root = project(&[
        ("bad.yaml", "nmae: x\n"),
        ("good.yaml", &definition("good")),
    ]);
    assert_eq!(
        find_file_name(&root, "good"),
        Ok(Some("good.yaml".to_owned()))
    );
    let said = find_file_name(&root, "other").unwrap_err();
    assert!(said.contains("bad.yaml:1:1"), "{said}");
    assert!(said.contains("`nmae`"), "{said}");
}

#[test]
fn a_file_that_is_too_large_is_refused() {
    let root = project(&[("a.yaml", &"#".repeat(2 << 20))]);
    let said = find_file_name(&root, "a").unwrap_err();
    assert!(said.contains("a definition may have 1048576"), "{said}");
}

#[test]
fn a_registered_action_wins_and_its_file_is_named() {
    let root = project(&[("lint.yaml", &definition("lint")), ("bad.yaml", "?")]);
    let registered = |name: &str| {
        let text = definition(name);
        let draft = read_action(&DefinitionSource::new("x", &text), &|_| None).unwrap();
        let id: ActionId = "01JZZZZZZZ0000000000ABCDEF".parse().unwrap();
        draft.into_action(id, Timestamp::default())
    };
    let chosen = |name: &str, action| choose(&name.parse().unwrap(), action, read(&root));
    match chosen("lint", Some(registered("lint"))) {
        Ok(Ok(FoundAction::Registered {
            shadowed: Some(file),
            ..
        })) => assert!(file.ends_with("lint.yaml")),
        other => panic!("{other:?}"),
    }
    assert!(matches!(
        chosen("other", Some(registered("other"))),
        Ok(Ok(FoundAction::Registered { shadowed: None, .. }))
    ));
    assert!(matches!(chosen("lint", None), Ok(Ok(FoundAction::File(_)))));
    let broken = chosen("other", None);
    assert!(broken.is_err(), "the broken file might define it");
}
