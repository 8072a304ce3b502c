//! The committed JSON Schemas are those of the types.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use cleveragents_api::all_requests;
use serde_json::Value;

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn requests_are_sorted_by_name_and_named_once() {
    let names: Vec<&str> = all_requests().iter().map(|it| it.name).collect();
    let sorted: BTreeSet<&str> = names.iter().copied().collect();
    assert_eq!(names, sorted.into_iter().collect::<Vec<_>>());
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a generated file may be lost")]
fn the_docs_have_the_schema_of_every_request() {
    let (docs, folder) = (
        workspace().join("docs/schemas/api"),
        workspace().join("target/schemas/api"),
    );
    fs::create_dir_all(&folder).unwrap();
    let mut stale = Vec::new();
    for request in all_requests() {
        let file = format!("{}.json", request.name);
        let kept = fs::read_to_string(docs.join(&file)).unwrap_or_default();
        let schema = request.schema();
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
fn the_docs_have_no_schema_of_another_request() {
    let names: BTreeSet<String> = all_requests()
        .iter()
        .map(|it| format!("{}.json", it.name))
        .collect();
    for entry in fs::read_dir(workspace().join("docs/schemas/api")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(names.contains(&name), "docs/schemas/api/{name}: no request");
    }
}
