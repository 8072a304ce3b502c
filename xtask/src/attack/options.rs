//! The arguments of `cargo xtask attack`.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

pub const USAGE: &str = "\
usage: cargo xtask attack [FAMILY…] [--full] [--user | --root] [--level namespaces | landlock]
                          [--seed N] [--only NAME] [--program PATH] [--keep]
families: escapes, kills, races, repositories, definitions (default: all)";

/// One family of attacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    Escapes,
    Kills,
    Races,
    Repositories,
    Definitions,
}

impl Family {
    pub const ALL: [Family; 5] = [
        Family::Escapes,
        Family::Kills,
        Family::Races,
        Family::Repositories,
        Family::Definitions,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Family::Escapes => "escapes",
            Family::Kills => "kills",
            Family::Races => "races",
            Family::Repositories => "repositories",
            Family::Definitions => "definitions",
        }
    }
}

/// The account that runs the program under attack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    Root,
    User,
}

impl Who {
    pub fn name(self) -> &'static str {
        match self {
            Who::Root => "root",
            Who::User => "user",
        }
    }
}

/// The level of confinement that the program is told to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    Namespaces,
    Landlock,
}

impl Level {
    pub fn name(self) -> &'static str {
        match self {
            Level::Namespaces => "namespaces",
            Level::Landlock => "landlock",
        }
    }
}

/// How much of the suite runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// The part for CI: at most five minutes on two cores.
    Short,
    Full,
}

/// The parsed arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    pub families: Vec<Family>,
    pub depth: Depth,
    pub who: Option<Who>,
    pub level: Option<Level>,
    /// Chooses the sample of the short form and the moments of random kills.
    pub seed: u64,
    /// Runs only the attempts whose name contains this text.
    pub only: Option<String>,
    /// The program under attack; `target/debug/agents` if not given.
    pub program: Option<PathBuf>,
    /// Keeps the folders of attacks that succeeded.
    pub keep: bool,
}

impl Options {
    /// Fails if an argument is unknown or lacks its value.
    pub fn parse(arguments: &[String]) -> Result<Options> {
        let mut options = Options {
            families: Vec::new(),
            depth: Depth::Short,
            who: None,
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
                "--full" => options.depth = Depth::Full,
                "--user" => options.who = Some(Who::User),
                "--root" => options.who = Some(Who::Root),
                "--keep" => options.keep = true,
                "--level" => options.level = Some(parse_level(value()?)?),
                "--seed" => options.seed = value()?.parse().context("--seed takes a number")?,
                "--only" => options.only = Some(value()?.clone()),
                "--program" => options.program = Some(PathBuf::from(value()?)),
                name => options.families.push(parse_family(name)?),
            }
        }
        if options.families.is_empty() {
            options.families = Family::ALL.to_vec();
        }
        Ok(options)
    }

    pub fn wants(&self, name: &str) -> bool {
        self.only
            .as_ref()
            .is_none_or(|only| name.contains(only.as_str()))
    }

    pub fn is_full(&self) -> bool {
        self.depth == Depth::Full
    }
}

fn parse_family(name: &str) -> Result<Family> {
    let family = Family::ALL.into_iter().find(|family| family.name() == name);
    family.with_context(|| format!("unknown argument `{name}`\n{USAGE}"))
}

fn parse_level(name: &str) -> Result<Level> {
    match name {
        "namespaces" => Ok(Level::Namespaces),
        "landlock" => Ok(Level::Landlock),
        other => bail!("unknown level `{other}`\n{USAGE}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Options::parse(&words)
    }

    #[test]
    fn everything_in_short_form_is_the_default() {
        let options = parse("").unwrap();
        assert_eq!(options.families, Family::ALL);
        assert_eq!(options.depth, Depth::Short);
        assert_eq!((options.who, options.level, options.seed), (None, None, 1));
        assert!(options.wants("anything"));
    }

    #[test]
    fn families_and_settings_narrow_the_run() {
        let line = "kills races --full --user --level landlock --seed 7 --only patch --program /x";
        let options = parse(line).unwrap();
        assert_eq!(options.families, [Family::Kills, Family::Races]);
        assert!(options.is_full());
        assert_eq!(options.who, Some(Who::User));
        assert_eq!(options.level, Some(Level::Landlock));
        assert_eq!(options.seed, 7);
        assert_eq!(options.program, Some(PathBuf::from("/x")));
        assert!(options.wants("patch/git"));
        assert!(!options.wants("branch/git"));
    }

    #[test]
    fn unknown_arguments_and_missing_values_are_refused() {
        for line in ["escape", "--level", "--level none", "--seed x", "--seed"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
