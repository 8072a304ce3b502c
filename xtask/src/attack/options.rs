//! The arguments of `cargo xtask attack`.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

pub const USAGE: &str = "\
usage: cargo xtask attack [FAMILY…] [--full] [--user | --root] [--level namespaces | landlock]
                          [--seed N] [--only NAME] [--program PATH] [--keep]
families: escapes, kills, races, repositories, definitions (default: all)";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttackFamily {
    Escapes,
    Kills,
    Races,
    Repositories,
    Definitions,
}

impl AttackFamily {
    pub const ALL: [AttackFamily; 5] = [
        AttackFamily::Escapes,
        AttackFamily::Kills,
        AttackFamily::Races,
        AttackFamily::Repositories,
        AttackFamily::Definitions,
    ];

    pub fn name(self) -> &'static str {
        match self {
            AttackFamily::Escapes => "escapes",
            AttackFamily::Kills => "kills",
            AttackFamily::Races => "races",
            AttackFamily::Repositories => "repositories",
            AttackFamily::Definitions => "definitions",
        }
    }
}

/// The account that runs the program under attack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttackAccount {
    Root,
    User,
}

impl AttackAccount {
    pub fn name(self) -> &'static str {
        match self {
            AttackAccount::Root => "root",
            AttackAccount::User => "user",
        }
    }
}

/// The confinement level that the program is configured to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfinementLevel {
    Namespaces,
    Landlock,
}

impl ConfinementLevel {
    pub fn name(self) -> &'static str {
        match self {
            ConfinementLevel::Namespaces => "namespaces",
            ConfinementLevel::Landlock => "landlock",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttackDepth {
    /// The part for CI: at most five minutes on two cores.
    Short,
    Full,
}

/// The parsed arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttackOptions {
    pub families: Vec<AttackFamily>,
    pub depth: AttackDepth,
    pub account: Option<AttackAccount>,
    pub level: Option<ConfinementLevel>,
    /// Selects the sample of the short form and the moments of random kills.
    pub seed: u64,
    /// Runs only the attempts whose name contains this text.
    pub only: Option<String>,
    /// The program under attack; `target/debug/agents` if not given.
    pub program: Option<PathBuf>,
    /// Keeps the folders of attacks that succeeded.
    pub keep: bool,
}

impl AttackOptions {
    /// Fails if an argument is unknown or lacks its value.
    pub fn parse(arguments: &[String]) -> Result<AttackOptions> {
        let mut options = AttackOptions {
            families: Vec::new(),
            depth: AttackDepth::Short,
            account: None,
            level: None,
            seed: 1,
            only: None,
            program: None,
            keep: false,
        };
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let mut value = || {
                rest.next()
                    .with_context(|| format!("{argument} needs a value\n{USAGE}"))
            };
            match argument.as_str() {
                "--full" => options.depth = AttackDepth::Full,
                "--user" => options.account = Some(AttackAccount::User),
                "--root" => options.account = Some(AttackAccount::Root),
                "--keep" => options.keep = true,
                "--level" => options.level = Some(parse_level(value()?)?),
                "--seed" => options.seed = value()?.parse().context("--seed takes a number")?,
                "--only" => options.only = Some(value()?.clone()),
                "--program" => options.program = Some(PathBuf::from(value()?)),
                name => options.families.push(parse_family(name)?),
            }
        }
        if options.families.is_empty() {
            options.families = AttackFamily::ALL.to_vec();
        }
        Ok(options)
    }

    pub fn selects(&self, name: &str) -> bool {
        self.only
            .as_ref()
            .is_none_or(|only| name.contains(only.as_str()))
    }

    pub fn is_full(&self) -> bool {
        self.depth == AttackDepth::Full
    }
}

fn parse_family(name: &str) -> Result<AttackFamily> {
    let family = AttackFamily::ALL
        .into_iter()
        .find(|family| family.name() == name);
    family.with_context(|| format!("unknown argument `{name}`\n{USAGE}"))
}

fn parse_level(name: &str) -> Result<ConfinementLevel> {
    match name {
        "namespaces" => Ok(ConfinementLevel::Namespaces),
        "landlock" => Ok(ConfinementLevel::Landlock),
        other => bail!("unknown level `{other}`\n{USAGE}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<AttackOptions> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        AttackOptions::parse(&words)
    }

    #[test]
    fn everything_in_short_form_is_the_default() {
        let options = parse("").unwrap();
        assert_eq!(options.families, AttackFamily::ALL);
        assert_eq!(options.depth, AttackDepth::Short);
        assert_eq!(
            (options.account, options.level, options.seed),
            (None, None, 1)
        );
        assert!(options.selects("anything"));
    }

    #[test]
    fn families_and_settings_narrow_the_run() {
        let line = "kills races --full --user --level landlock --seed 7 --only patch --program /x";
        let options = parse(line).unwrap();
        assert_eq!(options.families, [AttackFamily::Kills, AttackFamily::Races]);
        assert!(options.is_full());
        assert_eq!(options.account, Some(AttackAccount::User));
        assert_eq!(options.level, Some(ConfinementLevel::Landlock));
        assert_eq!(options.seed, 7);
        assert_eq!(options.program, Some(PathBuf::from("/x")));
        assert!(options.selects("patch/git"));
        assert!(!options.selects("branch/git"));
    }

    #[test]
    fn unknown_arguments_and_missing_values_are_refused() {
        for line in ["escape", "--level", "--level none", "--seed x", "--seed"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
