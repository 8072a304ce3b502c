//! Replaces values in snapshots that differ between machines and runs.

use std::collections::BTreeSet;

use cleveragents_domain::id::SHORT_LENGTH;

/// Patterns and their replacements.
const FILTERS: &[(&str, &str)] = &[
    (r"[0-9A-HJKMNP-TV-Z]{26}@[0-9a-f]*", "NODE"),
    // Ids generated in this run; those of tests have an earlier timestamp.
    (
        r"\b01[KMNP-TV-Z][0-9A-HJKMNP-TV-Z]{23}\b",
        "01NEWNEWNEWNEWNEWNEWNEWNEW",
    ),
    (
        r"\b[0-9a-f]{64}\b",
        "0123456789abcdefHASHHASHHASHHASHHASHHASHHASHHASHHASHHASHfedcba98",
    ),
    (r"\b[0-9a-f]{40}\b", "COMMIT"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", "TIME"),
    (r"\d{8}T\d{6}\.\d{3}Z", "TIME"),
    // Local times: of another year, of another day and of today.
    (
        r"\b(\d{4}-\d\d-\d\d \d\d:\d\d|[A-Z][a-z]{2} \d{1,2} \d\d:\d\d|\d\d:\d\d:\d\d)\b",
        "TIME",
    ),
    // Durations.
    (r"\b\d+\.\d s\b", "0.0 s"),
    (r"\b\d{1,2}s\b", "0s"),
    (r"[1-9]\d*(\.\d)? ([KMGTP]i)?B\b", "SIZE"),
    (
        r#"((total_|free_|database_|wal_|backups_)?bytes"?): [1-9]\d*"#,
        "$1: SIZE",
    ),
    (r"git version [^\s\x22]+", "git version X"),
    (r"(?s)│ file system .*?│ disk", "│ (file system)\n│ disk"),
    (r"(?m)^file system\t.*$", "(file system)"),
    (r#""[^"]*, local""#, "\"(file system)\""),
    (r"(?m)detail: .*, local$", "detail: (file system)"),
    (
        r"(?s)│ confinement .*?│ model keys",
        "│ (confinement)\n│ model keys",
    ),
    (r"(?m)^confinement\t.*$", "(confinement)"),
    (r"(?m)^visible paths\t.*$", "(visible paths)"),
    (
        r#"\{\s*"detail": "[^"]*",\s*"name": "visible_paths",\s*"status": "\w+"\s*\}"#,
        "(visible paths)",
    ),
    (
        r#"\{\s*"detail": "[^"]*",\s*("hint": "[^"]*",\s*)?"name": "confinement",\s*"status": "\w+"\s*\}"#,
        "(confinement)",
    ),
    (
        r"- detail: [^\n]*\n(    hint: [^\n]*\n)?    name: confinement\n    status: \w+",
        "- (confinement)",
    ),
    (r"\n[^\n]*[Nn]ext: confinement: [^\n]*", ""),
    (
        r#",\s*\{\s*"level": "hint",\s*"text": "confinement: [^"]*"\s*\}"#,
        "",
    ),
    (r"\n *- level: hint\n *text: .?confinement: [^\n]*", ""),
    (r"\d+ warnings?", "N warnings"),
    (r#"(?m)^(\s+"?(warnings|ok)"?): \d+"#, "$1: N"),
];

pub(crate) fn add_filters(settings: &mut insta::Settings) {
    for (pattern, replacement) in FILTERS {
        settings.add_filter(pattern, *replacement);
    }
    let version = env!("CARGO_PKG_VERSION").replace('.', r"\.");
    settings.add_filter(&format!(r"\b{version}\b"), "VERSION");
}

/// Removes the widths of boxes, which depend on their content.
pub(crate) fn without_box_widths(text: &str) -> String {
    let mut lines = Vec::new();
    for line in text.lines() {
        if line.starts_with(['│', '╭', '├', '╰']) {
            let words: Vec<&str> = line.split_whitespace().collect();
            lines.push(words.join(" ").replace('─', ""));
        } else {
            lines.push(line.to_owned());
        }
    }
    lines.join("\n")
}

/// Replaces the short forms of these ids where they are whole words: inside of a longer word the same
/// digits mean something else.
pub(crate) fn without_short_ids(text: &str, ids: &BTreeSet<String>) -> String {
    let short = |id: &String| id[id.len() - SHORT_LENGTH..].to_ascii_lowercase();
    let short: BTreeSet<String> = ids.iter().map(short).collect();
    let is_word = |c: char| c.is_ascii_alphanumeric();
    let parts = text.split_inclusive(|c| !is_word(c));
    let parts = parts.map(|part| {
        let word = part.trim_end_matches(|c| !is_word(c));
        let replaced = if short.contains(word) {
            "newnewne"
        } else {
            word
        };
        format!("{replaced}{}", &part[word.len()..])
    });
    parts.collect()
}
