//! The data directory: private, on a local file system, with a persistent node name.

use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use cleveragents_ports::{Ids, Result, StoreError};

use crate::files::{create_private_folder, map_io_error, open_private, sync_folder};

/// File systems that other machines may write to; flock and shared memory are not reliable there.
const NETWORK_FILE_SYSTEMS: &[&str] = &[
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "smbfs",
    "9p",
    "afs",
    "ceph",
    "fuse.ceph",
    "glusterfs",
    "fuse.glusterfs",
    "lustre",
    "gfs2",
    "ocfs2",
    "beegfs",
    "fuse.sshfs",
    "fuse.s3fs",
    "fuse.rclone",
    "fuse.gcsfuse",
    "fuse.grpcfuse",
    "virtiofs",
    "vboxsf",
    "fuse.davfs2",
    "davfs",
    "ncpfs",
    "coda",
    "orangefs",
    "gpfs",
];

/// An existing data directory.
#[derive(Debug, Clone)]
pub struct DataDirectory {
    path: PathBuf,
}

impl DataDirectory {
    /// Creates the directory if necessary (0700). Fails on a network file system.
    pub fn open(path: &Path) -> Result<Self> {
        if !path.exists() {
            create_private_folder(path).map_err(|e| map_io_error(path, &e))?;
            // A relative path of one part has an empty parent, which cannot be opened; it means the
            // current folder.
            let parent = path
                .parent()
                .filter(|parent| !parent.as_os_str().is_empty());
            sync_folder(parent.unwrap_or(Path::new("."))).map_err(|e| map_io_error(path, &e))?;
        }
        let path = path.canonicalize().map_err(|e| map_io_error(path, &e))?;
        if !path.is_dir() {
            let reason = "it is not a directory".to_owned();
            return Err(StoreError::NotWritable { path, reason });
        }
        refuse_network_file_system(&path)?;
        Ok(Self { path })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn database(&self) -> PathBuf {
        self.path.join("cleveragents.db")
    }

    /// Returns this node's name. It is created once per directory and combined with the machine's
    /// id, so that a copied directory is a different node.
    pub fn node(&self, ids: &dyn Ids) -> Result<String> {
        let path = self.path.join("node");
        let own = self
            .load_or_create_node(&path, ids)
            .map_err(|e| map_io_error(&path, &e))?;
        // The machine id is confidential: only a hash of it is exposed.
        // Without a machine id every machine hashes the same empty text; the random part still
        // distinguishes directories.
        let machine = fs::read("/etc/machine-id").unwrap_or_default();
        let machine = blake3::hash(&machine).to_hex();
        Ok(format!("{own}@{}", &machine.as_str()[..12]))
    }

    fn load_or_create_node(&self, path: &Path, ids: &dyn Ids) -> std::io::Result<String> {
        if let Ok(text) = fs::read_to_string(path)
            && !text.is_empty()
        {
            return Ok(text);
        }
        // Several processes may start at once: the first to hold the lock writes, the others read.
        let mut file = open_private(path)?;
        file.lock()?;
        let text = fs::read_to_string(path)?;
        if !text.is_empty() {
            return Ok(text);
        }
        let name = ids.next().to_string();
        file.write_all(name.as_bytes())?;
        file.sync_all()?;
        Ok(name)
    }
}

fn refuse_network_file_system(path: &Path) -> Result<()> {
    // Without a mount table (not Linux) the file system cannot be determined.
    let Ok(table) = fs::read("/proc/self/mountinfo") else {
        return Ok(());
    };
    let Some(kind) = file_system_type(&table, path) else {
        return Ok(());
    };
    if NETWORK_FILE_SYSTEMS.contains(&kind.as_str()) {
        return Err(StoreError::NetworkFileSystem {
            path: path.to_owned(),
            kind,
        });
    }
    Ok(())
}

/// Returns the type of the file system that holds `path`, given the text of `/proc/self/mountinfo`.
pub fn file_system_type(table: &[u8], path: &Path) -> Option<String> {
    let mut best: Option<(usize, String)> = None;
    for line in table.split(|byte| *byte == b'\n') {
        let Some((mount_point, kind)) = parse_mount(line) else {
            continue;
        };
        let length = mount_point.len();
        let holds = path.starts_with(Path::new(std::ffi::OsStr::from_bytes(&mount_point)));
        // If two mounts share a mount point, the later one is on top.
        if holds && best.as_ref().is_none_or(|(found, _)| length >= *found) {
            best = Some((length, kind));
        }
    }
    best.map(|(_, kind)| kind)
}

/// Returns the mount point (unescaped) and the file system type of one line.
fn parse_mount(line: &[u8]) -> Option<(Vec<u8>, String)> {
    // The fields after the mount options vary in number and end with a dash; the type follows it.
    let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let mount_point = unescape_octal(fields.get(4)?);
    let dash = fields.iter().position(|field| *field == b"-")?;
    let kind = String::from_utf8_lossy(fields.get(dash + 1)?).into_owned();
    Some((mount_point, kind))
}

fn unescape_octal(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, tail)) = rest.split_first() {
        let digits = tail.get(..3).and_then(|d| std::str::from_utf8(d).ok());
        let code = digits.and_then(|d| u8::from_str_radix(d, 8).ok());
        match (first, code) {
            (b'\\', Some(code)) => {
                bytes.push(code);
                rest = &tail[3..];
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[u8] = b"\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:40 / /home rw shared:2 - nfs4 server:/home rw
31 30 0:41 / /home/me/local rw - btrfs /dev/vdb rw
32 22 0:42 / /mnt/with\\040space rw - fuse.sshfs me@there: rw
";

    fn kind(path: &str) -> String {
        file_system_type(TABLE, Path::new(path)).unwrap()
    }

    #[test]
    fn the_longest_mount_point_decides() {
        assert_eq!(kind("/var/lib"), "ext4");
        assert_eq!(kind("/home/me/.cleveragents"), "nfs4");
        assert_eq!(kind("/home/me/local/data"), "btrfs");
        assert_eq!(kind("/homework"), "ext4");
    }

    #[test]
    fn escaped_mount_points_are_understood() {
        assert_eq!(kind("/mnt/with space/data"), "fuse.sshfs");
    }

    #[test]
    fn a_malformed_mount_table_gives_no_type() {
        assert_eq!(file_system_type(b"rubbish\n\n1 2", Path::new("/")), None);
    }
}
