//! `agents man`

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;

use crate::failure::{CommandFailure, ExitCode};
use crate::files::{self, Privacy};
use crate::output::{CommandAnswer, MessageLevel, OutputView};

/// Print the manual page, or write the manual pages of all commands
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents man | man -l -
  agents man --out ~/.local/share/man/man1")]
pub struct ManArgs {
    /// Write one page per command into this directory
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    out: Option<PathBuf>,
}

#[derive(Debug, Serialize)]
struct ManPage {
    #[serde(rename = "page")]
    file: String,
    roff: String,
}

/// The answer after the pages of all commands were written.
#[derive(Debug, Serialize)]
struct WrittenPages {
    pages: Vec<String>,
}

impl ManArgs {
    pub fn run(&self) -> Result<CommandAnswer, CommandFailure> {
        let mut command = crate::command();
        command.build();
        match &self.out {
            Some(directory) => write_all(&command, directory),
            None => {
                let page = page(&command)?;
                CommandAnswer::new(&page, OutputView::new().verbatim(page.roff.as_str()))
            }
        }
    }
}

fn write_all(command: &clap::Command, directory: &Path) -> Result<CommandAnswer, CommandFailure> {
    let mut pages = Vec::new();
    collect(command, &mut pages)?;
    let failed = |error: &std::io::Error| {
        let what = format!("cannot write the pages to {}", directory.display());
        CommandFailure::new(ExitCode::Error, what)
            .caused_by(error)
            .hint("agents man --out DIR")
    };
    files::create_directory(directory, Privacy::Shared).map_err(|error| failed(&error))?;
    let mut paths = Vec::new();
    for page in &pages {
        let path = directory.join(&page.file);
        files::replace(&path, page.roff.as_bytes(), Privacy::Shared)
            .map_err(|error| failed(&error))?;
        paths.push(path.display().to_string());
    }
    let rows = paths.iter().map(|path| vec![path.as_str().into()]);
    let view = OutputView::new().table("Manual pages", &["page"], rows);
    let written = format!("{} pages written", paths.len());
    let answer = CommandAnswer::new(&WrittenPages { pages: paths }, view)?;
    Ok(answer.with_message(MessageLevel::Info, written))
}

fn collect(command: &clap::Command, pages: &mut Vec<ManPage>) -> Result<(), CommandFailure> {
    pages.push(page(command)?);
    for next in command.get_subcommands() {
        if !next.is_hide_set() && next.get_name() != "help" {
            collect(next, pages)?;
        }
    }
    Ok(())
}

fn page(command: &clap::Command) -> Result<ManPage, CommandFailure> {
    let man = clap_mangen::Man::new(command.clone());
    let mut roff = Vec::new();
    man.render(&mut roff).map_err(|error| {
        CommandFailure::new(ExitCode::Error, "cannot make the manual page").caused_by(&error)
    })?;
    Ok(ManPage {
        file: man.get_filename(),
        roff: String::from_utf8_lossy(&roff).into_owned(),
    })
}
