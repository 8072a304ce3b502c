//! What differs from machine to machine and from run to run, made equal in snapshots.

/// Patterns of what differs, and what stands for it.
const DIFFERS: &[(&str, &str)] = &[
    (r"[0-9A-HJKMNP-TV-Z]{26}@[0-9a-f]*", "NODE"),
    (r"\b[0-7][0-9A-HJKMNP-TV-Z]{25}\b", "ULID"),
    // The ends of ids, behind the words for them; those in tables are made equal before.
    (
        r"\bplan ((?:cancel|status) )?[0-9a-hjkmnp-tv-z]{8}\b",
        "plan ${1}SHORT-ID",
    ),
    (
        r"(plans cancelled:? +)[0-9a-hjkmnp-tv-z]{8}\b",
        "${1}SHORT-ID",
    ),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", "TIME"),
    (r"\d{8}T\d{6}\.\d{3}Z", "TIME"),
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
    for (pattern, replacement) in DIFFERS {
        settings.add_filter(pattern, *replacement);
    }
    let version = env!("CARGO_PKG_VERSION").replace('.', r"\.");
    settings.add_filter(&format!(r"\b{version}\b"), "VERSION");
}

/// Boxes without the widths their contents gave them.
pub(crate) fn squeezed(text: &str) -> String {
    let mut lines = Vec::new();
    for line in text.lines() {
        match line.starts_with(['│', '╭', '├', '╰']) {
            true => {
                let words: Vec<&str> = line.split_whitespace().collect();
                lines.push(words.join(" ").replace('─', ""));
            }
            false => lines.push(line.to_owned()),
        }
    }
    lines.join("\n")
}

/// Tables whose first column is `id`, without the ids.
pub(crate) fn without_short_ids(text: &str) -> String {
    let is_id = |word: &str| {
        let legal = |c: char| c.is_ascii_digit() || (c.is_ascii_lowercase() && !"ilou".contains(c));
        word.len() == 8 && word.chars().all(legal)
    };
    let mut among_ids = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        let row = line.trim_start_matches(['│', '|', ' ']);
        let first = row.split([' ', '\t']).next().unwrap_or_default();
        match first {
            "id" => among_ids = true,
            _ if line.starts_with(['├', '+']) => {}
            first if among_ids && is_id(first) => {
                lines.push(line.replacen(first, "SHORT-ID", 1));
                continue;
            }
            _ => among_ids = false,
        }
        lines.push(line.to_owned());
    }
    lines.join("\n")
}
