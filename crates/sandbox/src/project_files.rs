//! Reads action files from the folders of projects.
//!
//! A repository is not trusted: links that lead out of the folder are not followed, and the number
//! and size of files are limited.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use cleveragents_domain::{AbsolutePath, ResourcePath};
use cleveragents_ports::project_files::{
    ProjectFile, ProjectFileError, ProjectFileResult, ProjectFiles,
};
use cleveragents_ports::sandbox::WORKTREE_INCLUDE;
use rustix::fs::OFlags;

const FOLDER: &str = ".agents/actions";
/// The maximum number of files in one folder.
const FILES_MAXIMUM: usize = 256;

/// Files of projects on this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct LocalProjectFiles;

impl ProjectFiles for LocalProjectFiles {
    fn enclosing_project(&self, from: &Path) -> Option<PathBuf> {
        from.ancestors()
            .find(|folder| folder.join(FOLDER).is_dir())
            .map(Path::to_owned)
    }

    fn action_files(
        &self,
        root: &Path,
        maximum: usize,
    ) -> Result<Vec<ProjectFileResult>, ProjectFileError> {
        let Some(folder) = ActionFolder::open(root)? else {
            return Ok(Vec::new());
        };
        let names = folder.file_names()?;
        let read = |name: &PathBuf| folder.read(name, maximum);
        Ok(names.iter().map(read).collect())
    }

    fn include_file(
        &self,
        root: &Path,
        maximum: usize,
    ) -> Result<Option<Vec<u8>>, ProjectFileError> {
        let path = root.join(WORKTREE_INCLUDE);
        match open_regular(&path, OFlags::NONBLOCK) {
            Ok(file) => {
                let content = read_up_to(file, maximum);
                content.map(Some).map_err(|error| unreadable(&path, error))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(unreadable(&path, error)),
        }
    }
}

/// The folder of a project that defines actions.
struct ActionFolder {
    /// As the user would write it.
    display_path: PathBuf,
    /// Canonical.
    path: PathBuf,
    /// The canonical path of the project.
    root: PathBuf,
}

impl ActionFolder {
    /// Returns `None` if the project has none.
    fn open(root: &Path) -> Result<Option<Self>, ProjectFileError> {
        let display_path = root.join(FOLDER);
        let failed = |error: io::Error| unreadable(&display_path, error);
        let path = match display_path.canonicalize() {
            Ok(path) => path,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let root = root.canonicalize().map_err(failed)?;
        if !path.starts_with(&root) {
            let reason = "it is a link that leads out of the project";
            return Err(unreadable(&display_path, reason));
        }
        Ok(Some(Self {
            display_path,
            path,
            root,
        }))
    }

    /// Returns the names of the YAML files, sorted.
    fn file_names(&self) -> Result<Vec<PathBuf>, ProjectFileError> {
        let failed = |error: io::Error| unreadable(&self.display_path, error);
        let is_yaml = |extension: &std::ffi::OsStr| extension == "yaml" || extension == "yml";
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(failed)? {
            let name = PathBuf::from(entry.map_err(failed)?.file_name());
            if !name.extension().is_some_and(is_yaml) {
                continue;
            }
            names.push(name);
            if names.len() > FILES_MAXIMUM {
                let reason = format!("it has more than {FILES_MAXIMUM} files");
                return Err(unreadable(&self.display_path, reason));
            }
        }
        names.sort();
        Ok(names)
    }

    fn read(&self, name: &Path, maximum: usize) -> ProjectFileResult {
        let display_path = self.display_path.join(name);
        let failed = |error: io::Error| unreadable(&display_path, error);
        let path = self.path.join(name).canonicalize().map_err(failed)?;
        if !path.starts_with(&self.path) {
            let reason = "it is a link that leads out of the folder";
            return Err(unreadable(&display_path, reason));
        }
        // The file may have been replaced by a link after its path was resolved.
        let file = open_regular(&path, OFlags::NOFOLLOW | OFlags::NONBLOCK).map_err(failed)?;
        let content = read_up_to(file, maximum).map_err(failed)?;
        let below = path.strip_prefix(&self.root).unwrap_or(&path);
        let project = AbsolutePath::from_bytes(self.root.as_os_str().as_bytes())
            .map_err(|error| unreadable(&display_path, error))?;
        let path = ResourcePath::from_bytes(below.as_os_str().as_bytes())
            .map_err(|error| unreadable(&display_path, error))?;
        Ok(ProjectFile {
            display_path,
            project,
            path,
            content,
        })
    }
}

fn read_up_to(file: File, maximum: usize) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    let limit = u64::try_from(maximum).unwrap_or(u64::MAX);
    file.take(limit).read_to_end(&mut content)?;
    Ok(content)
}

/// Opens a regular file. The flags must contain `NONBLOCK`, because opening a FIFO would wait for a
/// writer.
fn open_regular(path: &Path, flags: OFlags) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(i32::try_from(flags.bits()).unwrap_or(0))
        .open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::other("it is not a regular file"))
    }
}

fn unreadable(path: &Path, reason: impl ToString) -> ProjectFileError {
    ProjectFileError {
        path: path.to_owned(),
        reason: reason.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    const MAXIMUM: usize = 16;

    #[expect(
        clippy::disallowed_methods,
        reason = "files of a test need no durability"
    )]
    fn project(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join(FOLDER);
        fs::create_dir_all(&folder).unwrap();
        for (name, text) in files {
            fs::write(folder.join(name), text).unwrap();
        }
        root
    }

    fn read(root: &Path) -> Vec<Result<String, String>> {
        let files = LocalProjectFiles.action_files(root, MAXIMUM).unwrap();
        let shown = |it: ProjectFileResult| match it {
            Ok(file) => Ok(format!("{} {:?}", file.path, file.content.len())),
            Err(error) => Err(error.reason),
        };
        files.into_iter().map(shown).collect()
    }

    #[test]
    fn yaml_files_are_read_in_order_and_only_up_to_the_limit() {
        let large = "#".repeat(100);
        let root = project(&[("b.yml", "b"), ("a.yaml", &large), ("notes.txt", "x")]);
        let file = |name: &str| Ok(format!("{FOLDER}/{name}"));
        assert_eq!(read(root.path()), [file("a.yaml 16"), file("b.yml 1")]);
        let empty = tempfile::tempdir().unwrap();
        assert!(read(empty.path()).is_empty());
    }

    #[test]
    fn the_nearest_folder_above_is_used() {
        let root = project(&[]);
        let deep = root.path().join("src/deep");
        fs::create_dir_all(&deep).unwrap();
        let found = LocalProjectFiles.enclosing_project(&deep);
        assert_eq!(found.as_deref(), Some(root.path()));
    }

    #[test]
    fn links_out_of_the_folder_and_other_kinds_of_files_are_not_read() {
        let outside = project(&[("secret.yaml", "x")]);
        let root = project(&[("b.yaml", "b")]);
        let folder = root.path().join(FOLDER);
        let secret = outside.path().join(FOLDER).join("secret.yaml");
        symlink(secret, folder.join("link.yaml")).unwrap();
        symlink(folder.join("b.yaml"), folder.join("a.yaml")).unwrap();
        fs::create_dir(folder.join("folder.yaml")).unwrap();
        let same = Ok(format!("{FOLDER}/b.yaml 1"));
        let refused = |reason: &str| Err(reason.to_owned());
        assert_eq!(
            read(root.path()),
            [
                same.clone(),
                same,
                refused("it is not a regular file"),
                refused("it is a link that leads out of the folder"),
            ]
        );

        let other = tempfile::tempdir().unwrap();
        fs::create_dir(other.path().join(".agents")).unwrap();
        symlink(&folder, other.path().join(FOLDER)).unwrap();
        let error = LocalProjectFiles.action_files(other.path(), MAXIMUM);
        let reason = error.unwrap_err().reason;
        assert_eq!(reason, "it is a link that leads out of the project");
    }

    #[test]
    fn too_many_files_are_refused() {
        let root = project(&[]);
        for number in 0..=FILES_MAXIMUM {
            let path = root.path().join(FOLDER).join(format!("{number}.yml"));
            File::create(path).unwrap();
        }
        let error = LocalProjectFiles.action_files(root.path(), MAXIMUM);
        assert_eq!(error.unwrap_err().reason, "it has more than 256 files");
    }
}
