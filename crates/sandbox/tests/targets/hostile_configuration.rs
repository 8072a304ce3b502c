//! A configuration that names one program under every documented git key that can name one.

use std::path::Path;

/// Keys whose value is a program or its options: section with subsection, and names.
const KEYS: &[(&str, &[&str])] = &[
    ("browser \"evil\"", &["cmd", "path"]),
    (
        "core",
        &[
            "alternateRefsCommand",
            "askPass",
            "editor",
            "fsmonitor",
            "gitProxy",
            "pager",
            "sshCommand",
        ],
    ),
    ("credential", &["helper"]),
    ("credential \"https://example.org\"", &["helper"]),
    ("diff", &["external", "tool", "guitool"]),
    ("diff \"evil\"", &["command", "textconv"]),
    ("difftool \"evil\"", &["cmd", "path"]),
    ("gc", &["recentObjectsHook"]),
    ("gpg", &["program"]),
    ("gpg \"openpgp\"", &["program"]),
    ("gpg \"ssh\"", &["program", "defaultKeyCommand"]),
    ("gpg \"x509\"", &["program"]),
    ("guitool \"evil\"", &["cmd"]),
    ("imap", &["tunnel"]),
    ("instaweb", &["browser", "httpd"]),
    ("interactive", &["diffFilter"]),
    ("man \"evil\"", &["cmd", "path"]),
    ("merge", &["tool"]),
    ("merge \"evil\"", &["driver"]),
    ("mergetool \"evil\"", &["cmd", "path"]),
    ("pager", &["status", "diff", "log", "config", "branch"]),
    ("remote \"origin\"", &["uploadpack", "receivepack"]),
    (
        "sendemail",
        &["sendmailCmd", "smtpServer", "toCmd", "ccCmd"],
    ),
    ("sequence", &["editor"]),
    ("submodule \"sub\"", &["update"]),
    ("tar \"evil\"", &["command"]),
    ("trailer \"evil\"", &["command", "cmd"]),
    ("uploadpack", &["packObjectsHook"]),
    ("web", &["browser"]),
];

/// Names of filters: a plain one, one with a character that git options cannot contain, one that is
/// not UTF-8.
pub(crate) const FILTERS: [&[u8]; 3] = [b"evil", b"a=b", b"\xff\xfe"];

pub(crate) const HOOKS: [&str; 9] = [
    "applypatch-msg",
    "fsmonitor-watchman",
    "post-checkout",
    "post-commit",
    "post-index-change",
    "post-merge",
    "pre-auto-gc",
    "pre-commit",
    "reference-transaction",
];

/// The configuration that names `program` wherever possible, and `hooks` as the folder of hooks.
pub(crate) fn configuration(program: &Path, hooks: &Path) -> Vec<u8> {
    let (program, hooks) = (program.display().to_string(), hooks.display());
    let program = program.as_str();
    let mut text = Vec::new();
    for (section, names) in KEYS {
        text.extend(format!("[{section}]\n").bytes());
        for name in *names {
            let value = match *name {
                "update" => format!("!{program}"),
                _ => program.to_owned(),
            };
            text.extend(format!("\t{name} = {value}\n").bytes());
        }
    }
    for filter in FILTERS {
        text.extend(b"[filter \"");
        text.extend(filter);
        text.extend(b"\"]\n");
        for name in ["clean", "smudge", "process"] {
            text.extend(format!("\t{name} = {program}\n").bytes());
        }
        text.extend(b"\trequired = true\n");
    }
    let rest = format!(
        "[alias]\n\tstatus = !{program}\n\tdiff-tree = !{program}\n\tcommit-tree = !{program}\n\
         [core]\n\thooksPath = {hooks}\n\tsparseCheckout = false\n\
         [init]\n\ttemplateDir = {program}\n\
         [gc]\n\tauto = 1\n[maintenance]\n\tauto = true\n\
         [protocol]\n\tallow = always\n[protocol \"ext\"]\n\tallow = always\n\
         [remote \"origin\"]\n\turl = ext::{program}\n\tvcs = evil\n\tpromisor = true\n\
         \tpartialclonefilter = blob:none\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n\
         [diff]\n\ttool = evil\n[log]\n\tshowSignature = true\n[submodule]\n\trecurse = true\n\
         [fetch]\n\trecurseSubmodules = true\n[status]\n\tsubmoduleSummary = true\n"
    );
    text.extend(rest.bytes());
    text
}

/// Attributes that give `a` a diff and a merge driver, and `*.0`, `*.1`, `*.2` one of the filters.
pub(crate) fn attributes() -> Vec<u8> {
    let mut attributes = b"a diff=evil merge=evil\n".to_vec();
    for (number, filter) in FILTERS.iter().enumerate() {
        attributes.extend(format!("*.{number} diff=evil merge=evil filter=").bytes());
        attributes.extend(*filter);
        attributes.push(b'\n');
    }
    attributes
}
