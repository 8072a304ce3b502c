//! `cargo xtask pictures`: renders the pictures of the documentation from the real program.
//!
//! Runs real commands in a temporary home with a real git repository on a pseudo-terminal; their
//! output becomes an SVG without fonts or scripts. Ids and times are replaced by fixed ones of the
//! same width, so that the same program gives the same pictures. Start reading at [`run`]:
//! `picture_fixture` sets up the contents, `terminal` runs a command, `screen` parses its output,
//! `normalizer` removes what differs between runs, `svg` draws.

pub mod normalizer;
mod picture_fixture;
pub mod screen;
pub mod svg;
mod terminal;

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::{environment, files, output, process};
use picture_fixture::PictureFixture;
use svg::Picture;

/// The folder of the pictures, relative to the workspace.
const FOLDER: &str = "docs/pictures";

/// Renders the pictures and writes them, or compares them with the existing ones.
pub fn run(arguments: &[String]) -> Result<()> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let folder = environment::workspace_root().join(FOLDER);
    match words[..] {
        [] => write(&folder, &render_pictures(&build()?)?),
        ["--no-build"] => write(&folder, &render_pictures(&Programs::built())?),
        ["--check"] => compare(&folder, &render_pictures(&build()?)?),
        ["--check", "--no-build"] => compare(&folder, &render_pictures(&Programs::built())?),
        _ => bail!("usage: cargo xtask pictures [--check] [--no-build]"),
    }
}

/// The programs whose output is rendered.
struct Programs {
    agents: PathBuf,
    story: PathBuf,
}

impl Programs {
    /// Returns the programs that `cargo build` or `cargo test` left in the target folder.
    fn built() -> Self {
        let folder = environment::target_dir().join("debug");
        Self {
            agents: folder.join("agents"),
            story: folder.join("examples/story"),
        }
    }
}

/// Every picture of the documents, by the name of its file.
fn render_pictures(programs: &Programs) -> Result<Vec<(&'static str, String)>> {
    let fixture = PictureFixture::create(&programs.agents, &programs.story)?;
    let pictures = fixture.pictures()?;
    let drawn = |(name, picture): (&'static str, Picture)| (name, picture.draw());
    Ok(pictures.into_iter().map(drawn).collect())
}

/// Builds the program and the `story` example.
fn build() -> Result<Programs> {
    let root = environment::workspace_root();
    for target in [
        ["-p", "cleveragents-cli", "--bin", "agents"],
        ["-p", "cleveragents-integration-tests", "--example", "story"],
    ] {
        let mut cargo = process::cargo(&root);
        process::run(cargo.args(["build", "--locked", "--quiet"]).args(target))?;
    }
    Ok(Programs::built())
}

fn write(folder: &Path, pictures: &[(&str, String)]) -> Result<()> {
    for (name, text) in pictures {
        let path = folder.join(name);
        files::write(&path, text)?;
        output::line(&format!("{FOLDER}/{name}"));
    }
    Ok(())
}

/// Fails if a picture is missing, outdated, or no longer rendered.
fn compare(folder: &Path, pictures: &[(&str, String)]) -> Result<()> {
    let differing = differences(folder, pictures)?;
    if differing.is_empty() {
        output::line(&format!(
            "{} pictures are as they should be",
            pictures.len()
        ));
        return Ok(());
    }
    let names = differing.join(", ");
    bail!(
        "{FOLDER} does not show what the program prints ({names}): \
         run `cargo xtask pictures`, look at them and commit them"
    );
}

fn differences(folder: &Path, pictures: &[(&str, String)]) -> Result<Vec<String>> {
    let mut differing = Vec::new();
    for (name, text) in pictures {
        let there = files::read(&folder.join(name));
        if !there.is_ok_and(|there| there == *text) {
            differing.push((*name).to_owned());
        }
    }
    for entry in std::fs::read_dir(folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if !pictures.iter().any(|(known, _)| *known == name) {
            differing.push(name);
        }
    }
    Ok(differing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_missing_and_forgotten_pictures_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let taken = [("a.svg", "new".to_owned()), ("b.svg", "same".to_owned())];
        for (name, text) in [("a.svg", "old"), ("b.svg", "same"), ("c.svg", "whose?")] {
            files::write(&folder.path().join(name), text).unwrap();
        }
        let found = differences(folder.path(), &taken).unwrap();
        assert_eq!(found, ["a.svg", "c.svg"]);
        assert!(compare(folder.path(), &taken).is_err());
        write(folder.path(), &taken).unwrap();
        assert_eq!(differences(folder.path(), &taken).unwrap(), ["c.svg"]);
    }
}
