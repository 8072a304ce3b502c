//! What a folder holds, before it is moved or removed as a whole.

use std::os::fd::{AsFd, BorrowedFd};

use cleveragents_beneath::path_of;
use cleveragents_beneath::reach::{FileStat, names_in, open_folder};
use cleveragents_beneath::refused_names::is_dot_git;
use cleveragents_beneath::resolve::{LastLink, Resolved, resolve};
use cleveragents_domain::ResourcePath;
use cleveragents_engine::ports::tools::{Call, ToolFailure};
use rustix::fs::{AtFlags, FileType, statat};

use crate::builtin::{failed, stopped};
use crate::place::Spot;
use crate::stale::may_change;

/// How deep folders may be nested: each level holds one open.
pub(crate) const MOST_DEPTH: usize = 200;

/// What is in a folder.
#[derive(Debug, Default)]
pub(crate) struct Inside {
    /// Everything that is no folder.
    pub(crate) files: u64,
    pub(crate) folders: u64,
    /// Contents the actor knows, by their paths.
    pub(crate) known: Vec<(ResourcePath, String)>,
}

/// Looks at all that is in a folder. What the actor knows must be as it knows it, and a repository
/// in it is left alone: nothing could bring it back.
pub(crate) fn look_inside(call: &Call<'_>, spot: &Spot) -> Result<Inside, ToolFailure> {
    let folder = spot.entry.folder();
    let folder = folder.and_then(|folder| open_folder(folder, &spot.entry.name));
    let folder = folder.map_err(|error| spot.failed("be looked into", error))?;
    let mut look = Look {
        call,
        inside: Inside::default(),
    };
    look.folder(folder.as_fd(), &spot.path, 0)?;
    Ok(look.inside)
}

struct Look<'a> {
    call: &'a Call<'a>,
    inside: Inside,
}

impl Look<'_> {
    fn folder(
        &mut self,
        folder: BorrowedFd<'_>,
        path: &ResourcePath,
        depth: usize,
    ) -> Result<(), ToolFailure> {
        let unreadable = |error| failed(format!("{path} cannot be looked into: {error}"));
        if depth >= MOST_DEPTH {
            return Err(failed(format!("{path} is nested too deep")));
        }
        for name in names_in(folder).map_err(unreadable)? {
            self.call.stop.check().map_err(stopped)?;
            let here = [path.as_bytes(), &name].join(&b'/');
            let here = ResourcePath::from_bytes(here).map_err(|error| failed(error.to_string()))?;
            if is_dot_git(&name) {
                return Err(failed(format!(
                    "{path} holds a repository of its own, {here}"
                )));
            }
            let stat = statat(folder, path_of(&name), AtFlags::SYMLINK_NOFOLLOW);
            let stat = FileStat::from(&stat.map_err(unreadable)?);
            if stat.kind() == FileType::Directory {
                self.inside.folders += 1;
                let inner = open_folder(folder, &name);
                let inner = inner
                    .map_err(|error| failed(format!("{here} cannot be looked into: {error}")))?;
                self.folder(inner.as_fd(), &here, depth + 1)?;
            } else {
                self.inside.files += 1;
                self.file(folder, &name, here)?;
            }
        }
        Ok(())
    }

    fn file(
        &mut self,
        folder: BorrowedFd<'_>,
        name: &[u8],
        path: ResourcePath,
    ) -> Result<(), ToolFailure> {
        if !self.call.stamps.knows(&path) {
            return Ok(());
        }
        let entry = match resolve(folder, name, LastLink::Keep) {
            Ok(Resolved::Entry(entry)) => entry,
            _ => return Err(failed(format!("{path} has just become something else"))),
        };
        let spot = Spot { entry, path };
        if spot.kind()? == FileType::RegularFile
            && let Some(digest) = may_change(self.call, &spot)?
        {
            self.inside.known.push((spot.path, digest.hash));
        }
        Ok(())
    }
}
