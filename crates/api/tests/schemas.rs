//! The committed JSON Schemas are those of the types.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use cleveragents_api::{all_requests, failure_schema};
use serde_json::Value;

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the file name and content of each schema.
fn schemas() -> Vec<(String, Value)> {
    let requests = all_requests();
    let requests = requests
        .iter()
        .map(|it| (format!("{}.json", it.name), it.schema()));
    let mut schemas: Vec<(String, Value)> = requests.collect();
    schemas.push(("failure.json".to_owned(), failure_schema()));
    schemas
}

#[test]
fn requests_are_sorted_by_name_and_named_once() {
    let names: Vec<&str> = all_requests().iter().map(|it| it.name).collect();
    let sorted: BTreeSet<&str> = names.iter().copied().collect();
    assert_eq!(names, sorted.into_iter().collect::<Vec<_>>());
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a generated file may be lost")]
fn the_docs_have_the_schemas_of_the_failure_and_of_every_request() {
    let (docs, folder) = (
        workspace().join("docs/schemas/api"),
        workspace().join("target/schemas/api"),
    );
    fs::create_dir_all(&folder).unwrap();
    let mut stale = Vec::new();
    for (file, schema) in schemas() {
        let kept = fs::read_to_string(docs.join(&file)).unwrap_or_default();
        if serde_json::from_str::<Value>(&kept).ok().as_ref() != Some(&schema) {
            let text = serde_json::to_string_pretty(&schema).unwrap() + "\n";
            fs::write(folder.join(&file), text).unwrap();
            stale.push(file);
        }
    }
    assert!(
        stale.is_empty(),
        "{stale:?} in docs/schemas/api are not what the types say: \
         run `cp target/schemas/api/*.json docs/schemas/api/` and look at the difference"
    );
}

#[test]
fn the_docs_have_no_other_schema() {
    let names: BTreeSet<String> = schemas().into_iter().map(|it| it.0).collect();
    for entry in fs::read_dir(workspace().join("docs/schemas/api")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(
            names.contains(&name),
            "docs/schemas/api/{name}: neither a request nor the failure"
        );
    }
}
