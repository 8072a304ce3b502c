//! Documents: decisions are numbered and complete, links are valid.

use super::TidyFinding;
use super::tree::{SourceTree, TextFile};

const DECISIONS: &str = "docs/decisions/";
const HEADINGS: [&str; 3] = ["Context", "Choice", "Consequences"];

/// `docs/decisions/NNNN-title.md`, numbered from 0001 without gaps, each with its three headings.
pub fn check_decisions(tree: &SourceTree) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    let mut expected = 1;
    for document in &tree.documents {
        let Some(name) = document.path.strip_prefix(DECISIONS) else {
            continue;
        };
        let Some(number) = decision_number(name) else {
            continue;
        };
        if number != expected {
            let message =
                format!("number {expected:04} comes next: decisions have no gaps or twins");
            findings.push(TidyFinding::error("decisions", &document.path, 1, message));
        }
        expected = number + 1;
        findings.extend(missing_headings(document));
    }
    findings
}

fn decision_number(name: &str) -> Option<u32> {
    let (number, _) = name.split_once('-')?;
    (number.len() == 4).then(|| number.parse().ok())?
}

fn missing_headings(document: &TextFile) -> impl Iterator<Item = TidyFinding> {
    HEADINGS
        .into_iter()
        .filter(|heading| {
            !document.text.lines().any(|line| {
                line.starts_with('#') && line.trim_start_matches('#').trim() == *heading
            })
        })
        .map(|heading| {
            let message = format!("a decision needs the heading `## {heading}`");
            TidyFinding::error("decisions", &document.path, 1, message)
        })
}

/// Relative links point to files that exist.
pub fn check_links(tree: &SourceTree) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    for document in &tree.documents {
        let mut in_code = false;
        for (index, line) in document.text.lines().enumerate() {
            if line.trim_start().starts_with("```") || line.trim_start().starts_with("~~~") {
                in_code = !in_code;
            }
            if in_code {
                continue;
            }
            for target in targets(&without_inline_code(line)) {
                if is_broken(tree, &document.path, &target) {
                    let message = format!("`{target}` does not exist: fix or remove the link");
                    findings.push(TidyFinding::error(
                        "links",
                        &document.path,
                        index + 1,
                        message,
                    ));
                }
            }
        }
    }
    findings
}

/// The targets of `[text](target)` and `[name]: target` on a line.
fn targets(line: &str) -> Vec<String> {
    let mut found: Vec<&str> = line
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next())
        .collect();
    if line.starts_with('[')
        && let Some((_, target)) = line.split_once("]: ")
    {
        found.push(target);
    }
    found
        .into_iter()
        .filter_map(|target| target.split_whitespace().next())
        .map(|target| target.trim_matches(['<', '>']).to_owned())
        .collect()
}

pub(super) fn without_inline_code(line: &str) -> String {
    line.split('`').step_by(2).collect()
}

fn is_broken(tree: &SourceTree, from: &str, target: &str) -> bool {
    let path = target.split(['#', '?']).next().unwrap_or_default();
    let elsewhere = path.contains(':') || path.is_empty();
    !elsewhere && !resolve(from, path).is_some_and(|resolved| tree.contains(&resolved))
}

/// The path from the root; `None` if it leaves the tree.
fn resolve(from: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = match target.strip_prefix('/') {
        Some(_) => Vec::new(),
        None => from.split('/').collect(),
    };
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{assert_clean, assert_only};

    const WHOLE: &str = "# Title\n\n## Context\n\n## Choice\n\n## Consequences\n";

    #[test]
    fn decisions_have_no_gaps() {
        let first = ("docs/decisions/0001-one.md", WHOLE);
        assert_clean(&[first, ("docs/decisions/0002-two.md", WHOLE)]);
        for other in [
            "docs/decisions/0003-three.md",
            "docs/decisions/0001-twin.md",
        ] {
            let found = format!("{other}:1: error [decisions] number 0002 comes next");
            assert_only(&[first, (other, WHOLE)], &found);
        }
    }

    #[test]
    fn a_decision_has_its_headings() {
        let text = WHOLE.replace("## Choice\n", "## Choices\n");
        assert_only(
            &[("docs/decisions/0001-one.md", &text)],
            "docs/decisions/0001-one.md:1: error [decisions] a decision needs the heading `## Choice`",
        );
    }

    #[test]
    fn a_link_to_nowhere_is_found() {
        let broken = "See\n[this](docs/gone.md#part).\n";
        assert_only(
            &[("README.md", broken)],
            "README.md:2: error [links] `docs/gone.md#part`",
        );
        assert_only(
            &[("README.md", "[a]: gone.md\n")],
            "README.md:1: error [links]",
        );
        assert_only(
            &[("README.md", "[a](../out.md)\n")],
            "README.md:1: error [links]",
        );
    }

    #[test]
    fn links_that_lead_somewhere_are_fine() {
        let text = "[a](docs/b.md) [c](https://example.org) [d](#e) `[f](g)` ![h](docs)\n\
                    ```\n[i](j)\n```\n";
        let back = "[up](../README.md \"title\")\n";
        assert_clean(&[("README.md", text), ("docs/b.md", back)]);
    }
}
