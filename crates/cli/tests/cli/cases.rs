//! The table of commands whose output is pinned, in four formats each.

use crate::environment::{TestEnvironment, host_path};
use crate::machine;

pub(crate) const FORMATS: [&str; 4] = ["rich", "plain", "json", "yaml"];

/// One run of a command.
pub(crate) struct Case {
    /// The words of the command: every command of the tree has at least one case.
    pub(crate) command: &'static str,
    /// What this case is about; empty for the ordinary one.
    pub(crate) about: &'static str,
    pub(crate) arguments: &'static [&'static str],
    pub(crate) prepare: fn(&mut TestEnvironment),
    /// How many lines to pin of an answer that grows with every new command.
    pub(crate) head: Option<usize>,
}

pub(crate) const CASES: &[Case] = &[
    Case {
        command: "init",
        about: "",
        arguments: &["init"],
        prepare: with_nothing,
        head: None,
    },
    Case {
        command: "init",
        about: "again",
        arguments: &["init"],
        prepare: with_store,
        head: None,
    },
    Case {
        command: "info",
        about: "",
        arguments: &["info"],
        prepare: with_store,
        head: None,
    },
    Case {
        command: "diagnostics",
        about: "",
        arguments: &["diagnostics"],
        prepare: with_git,
        head: None,
    },
    Case {
        command: "diagnostics",
        about: "broken",
        arguments: &["diagnostics"],
        prepare: with_rubbish,
        head: None,
    },
    Case {
        command: "backup",
        about: "",
        arguments: &["backup", "mine.tar"],
        prepare: with_store,
        head: None,
    },
    Case {
        command: "backup",
        about: "exists",
        arguments: &["backup", "saved.tar"],
        prepare: with_backup,
        head: None,
    },
    Case {
        command: "restore",
        about: "",
        arguments: &["restore", "saved.tar", "--data-dir", "../.other"],
        prepare: with_backup,
        head: None,
    },
    Case {
        command: "restore",
        about: "not-empty",
        arguments: &["restore", "saved.tar"],
        prepare: with_backup,
        head: None,
    },
    Case {
        command: "restore",
        about: "forced",
        arguments: &["restore", "saved.tar", "--force"],
        prepare: with_backup,
        head: None,
    },
    Case {
        command: "restore",
        about: "damaged",
        arguments: &["restore", "../.cleveragents/config.toml"],
        prepare: with_store,
        head: None,
    },
    Case {
        command: "gc",
        about: "",
        arguments: &["gc"],
        prepare: with_traces,
        head: None,
    },
    Case {
        command: "gc",
        about: "dry-run",
        arguments: &["gc", "--dry-run"],
        prepare: with_traces,
        head: None,
    },
    Case {
        command: "config get",
        about: "",
        arguments: &["config", "get", "plan.concurrency"],
        prepare: with_settings,
        head: None,
    },
    Case {
        command: "config get",
        about: "chain",
        arguments: &["config", "get", "core.automation-profile", "--verbose"],
        prepare: with_settings,
        head: None,
    },
    Case {
        command: "config get",
        about: "ignored",
        arguments: &["config", "get", "core.automation-profile", "--verbose"],
        prepare: with_free_project,
        head: None,
    },
    Case {
        command: "config get",
        about: "unknown",
        arguments: &["config", "get", "plan.concurency"],
        prepare: with_nothing,
        head: None,
    },
    Case {
        command: "config get",
        about: "malformed",
        arguments: &["config", "get", "plan.concurrency"],
        prepare: with_malformed_settings,
        head: None,
    },
    Case {
        command: "config set",
        about: "",
        arguments: &["config", "set", "plan.concurrency", "8"],
        prepare: with_settings,
        head: None,
    },
    Case {
        command: "config set",
        about: "secret",
        arguments: &["config", "set", "provider.openai.api-key", "my-own-secret"],
        prepare: with_nothing,
        head: None,
    },
    Case {
        command: "config set",
        about: "range",
        arguments: &["config", "set", "plan.concurrency", "65"],
        prepare: with_nothing,
        head: None,
    },
    Case {
        command: "config list",
        about: "",
        arguments: &["config", "list"],
        prepare: with_settings,
        head: None,
    },
    Case {
        command: "config unset",
        about: "",
        arguments: &["config", "unset", "plan.concurrency"],
        prepare: with_settings,
        head: None,
    },
    Case {
        command: "config unset",
        about: "nothing",
        arguments: &["config", "unset", "plan.concurrency"],
        prepare: with_nothing,
        head: None,
    },
    Case {
        command: "version",
        about: "",
        arguments: &["version"],
        prepare: with_nothing,
        head: None,
    },
    Case {
        command: "completions",
        about: "",
        arguments: &["completions", "bash"],
        prepare: with_nothing,
        head: Some(8),
    },
    Case {
        command: "man",
        about: "",
        arguments: &["man"],
        prepare: with_nothing,
        head: Some(8),
    },
    Case {
        command: "man",
        about: "pages",
        arguments: &["man", "--out", "pages"],
        prepare: with_nothing,
        head: Some(9),
    },
];

fn with_nothing(_: &mut TestEnvironment) {}

fn with_settings(environment: &mut TestEnvironment) {
    environment.write(
        ".cleveragents/config.toml",
        "# mine\n[plan]\nconcurrency = 6 # enough\n\n[core]\nautomation-profile = \"cautious\"\n",
    );
    environment.write(
        "work/.agents/config.toml",
        "core.automation-profile = \"review\"\n",
    );
    environment.set_variable("CLEVERAGENTS_DATABASE_URL", "postgres://me:pass@db/agents");
    environment.set_variable("ANTHROPIC_API_KEY", "not-for-your-eyes");
}

/// A repository that would like nobody to be asked.
fn with_free_project(environment: &mut TestEnvironment) {
    environment.write(
        "work/.agents/config.toml",
        "core.automation-profile = \"full-auto\"\n",
    );
}

fn with_malformed_settings(environment: &mut TestEnvironment) {
    environment.write(".cleveragents/config.toml", "[plan]\nconcurrency = = 6\n");
}

fn with_store(environment: &mut TestEnvironment) {
    environment.run(&["init"]).succeeded();
}

fn with_backup(environment: &mut TestEnvironment) {
    with_store(environment);
    environment.run(&["backup", "saved.tar"]).succeeded();
}

/// The machine's real git, and nothing else of the machine.
fn with_git(environment: &mut TestEnvironment) {
    with_store(environment);
    let git = std::env::split_paths(&host_path())
        .map(|folder| folder.join("git"))
        .find(|program| program.is_file());
    let folder = environment.path("bin");
    std::fs::create_dir(&folder).unwrap();
    std::os::unix::fs::symlink(git.unwrap(), folder.join("git")).unwrap();
    environment.set_variable("PATH", folder);
    environment.set_variable("ANTHROPIC_API_KEY", "not-for-your-eyes");
}

fn with_rubbish(environment: &mut TestEnvironment) {
    with_store(environment);
    let rubbish = "this is no database\n".repeat(1000);
    environment.write(".cleveragents/cleveragents.db", rubbish);
}

/// A process that died here left its file, whose lock nobody holds.
fn with_traces(environment: &mut TestEnvironment) {
    with_store(environment);
    environment.write(".cleveragents/run/01JZZZZZZZ0000000000ABCDEF.lock", "{}");
}

impl Case {
    pub(crate) fn snapshot_name(&self, format: &str) -> String {
        let name = self.command.replace(' ', "-");
        match self.about {
            "" => format!("{name}.{format}"),
            about => format!("{name}.{about}.{format}"),
        }
    }

    fn run(&self, format: &str) -> String {
        let mut environment = TestEnvironment::new();
        (self.prepare)(&mut environment);
        let arguments = [self.arguments, &["--format", format]].concat();
        let run = environment.run(&arguments);
        let stream = |text: &str| {
            let text = match self.command {
                "version" => without_build(text),
                "info" | "diagnostics" | "backup" | "restore" => machine::squeezed(text),
                _ => text.to_owned(),
            };
            self.cut(&environment.stable(&text))
        };
        format!(
            "$ agents {}\nexit: {}\n--- stdout\n{}\n--- stderr\n{}",
            arguments.join(" "),
            run.code.unwrap(),
            stream(&run.stdout),
            stream(&run.stderr),
        )
    }

    fn cut(&self, text: &str) -> String {
        const WIDEST: usize = 240;
        let Some(head) = self.head else {
            return text.to_owned();
        };
        let cut = |line: &str| match line.char_indices().nth(WIDEST) {
            Some((end, _)) => format!("{}…", &line[..end]),
            None => line.to_owned(),
        };
        let mut lines: Vec<String> = text.lines().take(head).map(cut).collect();
        if text.lines().count() > head {
            lines.push("…".to_owned());
        }
        lines.join("\n")
    }
}

/// What differs from build to build made equal; the width of a box depends on it.
fn without_build(text: &str) -> String {
    let mut shown = String::new();
    for line in text.lines() {
        let name = line.trim_start_matches(|c: char| !c.is_ascii_alphabetic());
        let built = ["version", "commit", "rustc", "target", "sqlite"]
            .iter()
            .find(|one| name.starts_with(**one) && !line.contains("command"));
        match built {
            Some(name) => shown.push_str(&format!("({name})")),
            None => shown.push_str(&line.replace('─', "")),
        }
        shown.push('\n');
    }
    shown
}

#[test]
fn every_case_answers_as_pinned() {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("snapshots");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    machine::add_filters(&mut settings);
    settings.bind(|| {
        for case in CASES {
            for format in FORMATS {
                insta::assert_snapshot!(case.snapshot_name(format), case.run(format));
            }
        }
    });
}
