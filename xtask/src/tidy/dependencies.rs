//! Dependency rules: allowed edges between crates, where adapters may be named, and where SQL may
//! be used.

use std::collections::BTreeMap;

use toml::{Table, Value};

use super::TidyFinding;
use super::source::RustSource;
use super::tree::{SourceTree, TextFile};

/// Crates and their allowed dependencies inside the workspace, without the common prefix.
const ALLOWED: [(&str, &[&str]); 12] = [
    ("domain", &[]),
    ("safe-fs", &[]),
    ("engine", &["domain"]),
    ("store", &["engine", "domain"]),
    ("context", &["engine", "domain"]),
    ("models", &["engine", "domain"]),
    ("tools", &["engine", "domain", "safe-fs"]),
    ("sandbox", &["engine", "domain", "safe-fs"]),
    ("server", &["engine", "domain"]),
    (
        "cli",
        &[
            "domain", "engine", "store", "context", "models", "tools", "sandbox", "server",
        ],
    ),
    (
        "integration-tests",
        &["engine", "store", "models", "tools", "sandbox", "domain"],
    ),
    ("xtask", &["cli"]),
];

/// Crates that implement ports; the command line names them in its wiring only.
const ADAPTERS: [&str; 5] = [
    "cleveragents_store",
    "cleveragents_context",
    "cleveragents_models",
    "cleveragents_tools",
    "cleveragents_sandbox",
];

/// Packages that access a database.
const SQL_CLIENTS: [&str; 2] = ["rusqlite", "postgres"];

/// Folders whose sources may use them: the store, and the bare loops of benchmarks.
const SQL_FOLDERS: [&str; 2] = ["crates/store/src/", "xtask/src/bench/"];

/// Forbidden edges, adapters outside the wiring, SQL outside the store.
pub fn check(tree: &SourceTree) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    let mut manifests = BTreeMap::new();
    for document in &tree.manifests {
        match document.text.parse::<Table>() {
            Ok(manifest) => drop(manifests.insert(document.path.as_str(), manifest)),
            Err(error) => {
                let message = format!("not a manifest: {}", error.message());
                findings.push(TidyFinding::error("edges", &document.path, 1, message));
            }
        }
    }
    for document in &tree.manifests {
        if let Some(manifest) = manifests.get(document.path.as_str()) {
            findings.extend(check_edges(document, manifest, manifests.get("Cargo.toml")));
        }
    }
    for source in &tree.sources {
        findings.extend(check_adapters(source));
        findings.extend(check_sql(source, &manifests));
    }
    findings
}

fn check_edges(
    document: &TextFile,
    manifest: &Table,
    workspace: Option<&Table>,
) -> Vec<TidyFinding> {
    let Some(package) = manifest.get("package").and_then(|it| it.get("name")) else {
        return Vec::new();
    };
    let package = short_name(package.as_str().unwrap_or_default());
    let Some((_, allowed)) = ALLOWED.iter().find(|(name, _)| *name == package) else {
        let message = format!("crate `{package}` is not in the dependency table: add it there");
        return vec![TidyFinding::error("edges", &document.path, 1, message)];
    };
    dependency_names(manifest, workspace)
        .into_iter()
        .filter_map(|(key, dependency)| {
            let inner = dependency
                .strip_prefix("cleveragents-")
                .or((dependency == "xtask").then_some("xtask"))?;
            (!allowed.contains(&inner)).then(|| {
                let allowed = match allowed.is_empty() {
                    true => "no crate of the workspace".to_owned(),
                    false => allowed.join(", "),
                };
                let message = format!(
                    "`{package}` may not depend on `{inner}`, only on {allowed}: pass what it needs \
                     through a port"
                );
                TidyFinding::error("edges", &document.path, line_of(document, &key), message)
            })
        })
        .collect()
}

fn short_name(package: &str) -> &str {
    package.strip_prefix("cleveragents-").unwrap_or(package)
}

fn line_of(document: &TextFile, key: &str) -> usize {
    let position = document.text.lines().position(|line| line.starts_with(key));
    position.map_or(1, |at| at + 1)
}

/// Keys and package names of all dependencies, including those of targets, with renames resolved.
fn dependency_names(manifest: &Table, workspace: Option<&Table>) -> Vec<(String, String)> {
    let targets = manifest.get("target").and_then(Value::as_table);
    let tables = targets
        .into_iter()
        .flat_map(Table::values)
        .filter_map(Value::as_table);
    let shared = workspace.and_then(|root| root.get("workspace")?.get("dependencies"));
    std::iter::once(manifest)
        .chain(tables)
        .flat_map(|table| {
            ["dependencies", "dev-dependencies", "build-dependencies"]
                .into_iter()
                .filter_map(|kind| table.get(kind)?.as_table())
        })
        .flatten()
        .map(|(key, value)| {
            let renamed = value
                .get("package")
                .or_else(|| shared?.get(key)?.get("package"));
            let name = renamed.and_then(Value::as_str).unwrap_or(key);
            (key.clone(), name.to_owned())
        })
        .collect()
}

fn check_adapters(source: &RustSource) -> Vec<TidyFinding> {
    let path = source.path.as_str();
    let in_bootstrap =
        path == "crates/cli/src/bootstrap.rs" || path.starts_with("crates/cli/src/bootstrap/");
    if !path.starts_with("crates/cli/") || in_bootstrap {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for adapter in ADAPTERS {
        for line in source.lines_with(adapter) {
            let message =
                format!("`{adapter}` is named outside wiring: take the port as a value instead");
            findings.push(TidyFinding::error("wiring", path, line, message));
        }
    }
    findings
}

/// A crate that does not depend on a client cannot use it, so a module named `postgres` in it is
/// not a violation.
fn check_sql(source: &RustSource, manifests: &BTreeMap<&str, Table>) -> Vec<TidyFinding> {
    let path = source.path.as_str();
    if SQL_FOLDERS.iter().any(|home| path.starts_with(home)) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for client in SQL_CLIENTS {
        if client == "postgres" && !depends_on(client, path, manifests) {
            continue;
        }
        for line in uses(source, client) {
            let message =
                format!("`{client}` is used outside crates/store/src: add a verb to the store");
            findings.push(TidyFinding::error("sql-client", path, line, message));
        }
    }
    findings
}

fn depends_on(client: &str, path: &str, manifests: &BTreeMap<&str, Table>) -> bool {
    let mut parts = path.split('/');
    let folder = match (parts.next(), parts.next()) {
        (Some("crates"), Some(name)) => format!("crates/{name}"),
        (Some(first), _) => first.to_owned(),
        _ => return false,
    };
    manifests
        .get(format!("{folder}/Cargo.toml").as_str())
        .is_some_and(|manifest| {
            dependency_names(manifest, manifests.get("Cargo.toml"))
                .iter()
                .any(|(_, name)| name == client)
        })
}

/// Lines where the client's own path begins, so `crate::postgres::…` and `tokio_postgres` do not
/// count.
fn uses<'a>(source: &'a RustSource, client: &'a str) -> impl Iterator<Item = usize> + 'a {
    source.lines_with(client).filter(move |number| {
        let code = &source.lines[number - 1].code;
        code.match_indices(client).any(|(at, _)| {
            let path_follows = code[at + client.len()..].starts_with("::");
            let own = !code[..at].ends_with("::") || code[..at].ends_with(" ::");
            own && (path_follows || client == "rusqlite")
        })
    })
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{assert_clean, assert_only};

    fn manifest(name: &str, rest: &str) -> String {
        format!("[package]\nname = \"{name}\"\n{rest}")
    }

    #[test]
    fn an_edge_outside_the_table_is_found_in_every_kind_of_dependency() {
        for kind in [
            "dependencies",
            "dev-dependencies",
            "target.'cfg(unix)'.dependencies",
        ] {
            let rest = format!("[{kind}]\ncleveragents-store.workspace = true\n");
            assert_only(
                &[(
                    "crates/engine/Cargo.toml",
                    &manifest("cleveragents-engine", &rest),
                )],
                "crates/engine/Cargo.toml:4: error [edges] `engine` may not depend on `store`",
            );
        }
    }

    #[test]
    fn a_rename_hides_no_edge() {
        let rest = "[dependencies]\nhidden = { package = \"cleveragents-store\", path = \"x\" }\n";
        assert_only(
            &[(
                "crates/domain/Cargo.toml",
                &manifest("cleveragents-domain", rest),
            )],
            "crates/domain/Cargo.toml:4: error [edges]",
        );
        let root = "[workspace.dependencies]\nhidden = { package = \"cleveragents-store\" }\n";
        let rest = "[dependencies]\nhidden.workspace = true\n";
        assert_only(
            &[
                ("Cargo.toml", root),
                (
                    "crates/domain/Cargo.toml",
                    &manifest("cleveragents-domain", rest),
                ),
            ],
            "crates/domain/Cargo.toml:4: error [edges]",
        );
    }

    #[test]
    fn the_table_itself_is_fine() {
        let rest = "[dependencies]\ncleveragents-engine.workspace = true\nserde = \"1\"\n";
        assert_clean(&[(
            "crates/store/Cargo.toml",
            &manifest("cleveragents-store", rest),
        )]);
    }

    #[test]
    fn a_crate_outside_the_table_is_found() {
        assert_only(
            &[("crates/new/Cargo.toml", &manifest("cleveragents-new", ""))],
            "crates/new/Cargo.toml:1: error [edges] crate `new` is not in the dependency table",
        );
    }

    #[test]
    fn adapters_are_named_in_bootstrap_only() {
        let text = "use cleveragents_store::Store;\n";
        assert_only(
            &[("crates/cli/src/info.rs", text)],
            "crates/cli/src/info.rs:1: error [wiring]",
        );
        assert_clean(&[("crates/cli/src/bootstrap.rs", text)]);
        assert_clean(&[("crates/cli/src/bootstrap/store.rs", text)]);
    }

    #[test]
    fn sql_is_used_in_the_store_only() {
        let text = "use rusqlite::Connection;\n";
        assert_only(
            &[("crates/engine/src/a.rs", text)],
            "crates/engine/src/a.rs:1: error [sql-client]",
        );
        assert_clean(&[("crates/store/src/a.rs", text)]);
    }

    #[test]
    fn a_module_called_postgres_is_no_client() {
        let text = "use crate::postgres::Cluster;\nlet a = postgres::start();\n";
        let path = "crates/integration-tests/src/a.rs";
        assert_clean(&[(path, text)]);
        let rest = "[dependencies]\npostgres.workspace = true\n";
        assert_only(
            &[
                (path, text),
                (
                    "crates/integration-tests/Cargo.toml",
                    &manifest("cleveragents-integration-tests", rest),
                ),
            ],
            "crates/integration-tests/src/a.rs:2: error [sql-client]",
        );
    }
}
