//! `agents man`

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use crate::failure::{ExitCode, Failure};
use crate::files::{self, Privacy};
use crate::output::{Answer, Level, View};

/// Print the manual page, or write the pages of all commands
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents man | man -l -
  agents man --out ~/.local/share/man/man1")]
pub struct Man {
    /// Write one page per command into this directory
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    out: Option<PathBuf>,
}

/// A manual page.
struct Page {
    file: String,
    roff: String,
}

impl Man {
    pub fn run(&self) -> Result<Answer, Failure> {
        let mut command = crate::command();
        command.build();
        match &self.out {
            Some(directory) => write_all(&command, directory),
            None => {
                let page = page(&command)?;
                let data = json!({"page": page.file, "roff": page.roff});
                Ok(Answer::new(data, View::new().verbatim(page.roff)))
            }
        }
    }
}

fn write_all(command: &clap::Command, directory: &Path) -> Result<Answer, Failure> {
    let mut pages = Vec::new();
    collect(command, &mut pages)?;
    let failed = |error: &std::io::Error| {
        let what = format!("cannot write the pages to {}", directory.display());
        Failure::new(ExitCode::Error, what)
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
    let view = View::new().table("Manual pages", &["page"], rows);
    let written = format!("{} pages written", paths.len());
    Ok(Answer::new(json!({"pages": paths}), view).say(Level::Info, written))
}

fn collect(command: &clap::Command, pages: &mut Vec<Page>) -> Result<(), Failure> {
    pages.push(page(command)?);
    for next in command.get_subcommands() {
        if !next.is_hide_set() && next.get_name() != "help" {
            collect(next, pages)?;
        }
    }
    Ok(())
}

fn page(command: &clap::Command) -> Result<Page, Failure> {
    let man = clap_mangen::Man::new(command.clone());
    let mut roff = Vec::new();
    man.render(&mut roff).map_err(|error| {
        Failure::new(ExitCode::Error, "cannot make the manual page").caused_by(&error)
    })?;
    Ok(Page {
        file: man.get_filename(),
        roff: String::from_utf8_lossy(&roff).into_owned(),
    })
}
