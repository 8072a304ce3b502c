//! Measures the disk space of folders without following links.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The unit of `st_blocks`.
const BLOCK: u64 = 512;

/// Disk space used by files. Holes count as nothing, and a file with several hard links counts once.
#[derive(Debug, Default)]
pub(super) struct DiskUsage {
    pub(super) bytes: u64,
    counted: BTreeSet<(u64, u64)>,
}

impl DiskUsage {
    /// Adds a folder with its content and stops early above `enough`. Files that cannot be read or
    /// are being removed are left out.
    pub(super) fn add(&mut self, folder: &Path, enough: u64) {
        let mut folders: Vec<PathBuf> = vec![folder.to_owned()];
        while let Some(folder) = folders.pop() {
            let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
            for entry in entries {
                let Ok(found) = entry.metadata() else {
                    continue;
                };
                let is_new = found.nlink() < 2 || self.counted.insert((found.dev(), found.ino()));
                if found.is_dir() {
                    folders.push(entry.path());
                } else if is_new {
                    self.bytes = self.bytes.saturating_add(found.blocks() * BLOCK);
                }
                if self.bytes > enough {
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;

    use super::*;

    #[test]
    fn holes_take_no_space_and_names_of_one_file_count_once() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        File::create(root.join("sparse"))
            .unwrap()
            .set_len(1 << 40)
            .unwrap();
        fs::create_dir(root.join("deep")).unwrap();
        let mut file = File::create(root.join("deep/file")).unwrap();
        file.write_all(&vec![1; 1 << 20]).unwrap();
        file.sync_all().unwrap();
        fs::hard_link(root.join("deep/file"), root.join("second")).unwrap();
        std::os::unix::fs::symlink("/", root.join("link")).unwrap();
        let mut usage = DiskUsage::default();
        usage.add(root, u64::MAX);
        assert!((1 << 20..2 << 20).contains(&usage.bytes), "{}", usage.bytes);
    }
}
