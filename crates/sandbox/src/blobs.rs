//! Stores files as blobs. Files are read through open descriptors and hashed while they are read.
//!
//! A small number of files is written directly as loose objects. More are packed by one run of git.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};

use cleveragents_ports::sandbox::{SandboxError, SandboxResult};
use cleveragents_ports::stop::StopSignal;
use rustix::fs::{FileType, fstat, readlinkat};

use crate::entries::Content;
use crate::files::{path_from_bytes, resource_path};
use crate::new_objects::NewObjects;
use crate::object_id::ObjectId;
use crate::repository::trimmed_text;
use crate::safe_fs::{FileStat, open_file, stat_at, with_parent};
use crate::stop_reader::StoppableReader;
use crate::store::PrivateStore;

/// Content to store.
#[derive(Debug, Clone, Copy)]
pub(crate) enum BlobSource<'a> {
    /// The content of a file in the tree.
    File(&'a [u8]),
    /// The target of a symbolic link in the tree.
    Link(&'a [u8]),
}

/// A stored blob and the state of the file it was read from.
#[derive(Debug, Clone)]
pub(crate) struct StoredBlob {
    pub(crate) object: ObjectId,
    pub(crate) content: Content,
    pub(crate) stat: Option<FileStat>,
}

/// Up to this number, files are written as loose objects. More would fill the store with small files.
const MAX_LOOSE: usize = 100;

/// Stores each source unchanged. A source that still is its known object is not written again.
pub(crate) fn store(
    private: &PrivateStore,
    root: BorrowedFd<'_>,
    sources: &[(BlobSource<'_>, Option<ObjectId>)],
    objects: &mut NewObjects,
) -> SandboxResult<Vec<StoredBlob>> {
    if sources.len() <= MAX_LOOSE {
        let sources = sources.iter();
        let stored = sources.map(|(source, known)| store_one(root, *source, *known, objects));
        stored.collect()
    } else {
        store_many(private, root, sources)
    }
}

fn store_one(
    root: BorrowedFd<'_>,
    source: BlobSource<'_>,
    known: Option<ObjectId>,
    objects: &mut NewObjects,
) -> SandboxResult<StoredBlob> {
    let (path, hashed, stat) = match source {
        BlobSource::Link(path) => {
            let (target, stat) = read_link(root, path)?;
            let hashed = objects.put_file(target.as_slice(), target.len() as u64, known)?;
            (path, hashed, stat)
        }
        BlobSource::File(path) => {
            let (file, stat) = open(root, path)?;
            (path, objects.put_file(file, stat.size, known)?, stat)
        }
    };
    let Some(hashed) = hashed else {
        return Err(concurrent_change_error(path)?);
    };
    Ok(StoredBlob {
        object: hashed.object,
        content: hashed.content,
        stat: Some(stat),
    })
}

fn read_link(root: BorrowedFd<'_>, path: &[u8]) -> SandboxResult<(Vec<u8>, FileStat)> {
    let target = with_parent(root, path, |folder, name| {
        readlinkat(folder.as_fd(), path_from_bytes(name), Vec::new())
    });
    match (target, stat_at(root, path)) {
        (Ok(target), Ok(stat)) => Ok((target.into_bytes(), stat)),
        _ => Err(concurrent_change_error(path)?),
    }
}

fn store_many(
    private: &PrivateStore,
    root: BorrowedFd<'_>,
    sources: &[(BlobSource<'_>, Option<ObjectId>)],
) -> SandboxResult<Vec<StoredBlob>> {
    let mut read: Vec<(Content, Option<FileStat>)> = Vec::with_capacity(sources.len());
    let mut refused: Option<SandboxError> = None;
    let stop = &private.stop;
    let call = private.call(["fast-import", "--quiet", "--done", "--depth=0"]);
    let objects = call.setting("core.compression", "1").start()?.stream(
        |pipe| {
            let mut pipe = io::BufWriter::with_capacity(1 << 16, pipe);
            for (number, (source, _)) in sources.iter().enumerate() {
                if let Err(why) = stop.check() {
                    refused = Some(SandboxError::Stopped(why));
                    break;
                }
                match send(&mut pipe, root, *source, number + 1, stop)? {
                    Ok(content) => read.push(content),
                    Err(error) => {
                        refused = Some(error);
                        break;
                    }
                }
            }
            pipe.write_all(b"done\n")?;
            pipe.flush()
        },
        |pipe| {
            let lines = BufReader::new(pipe).lines();
            lines.collect::<io::Result<Vec<String>>>()
        },
    );
    // After a stop git got only half of a file and its error message is less clear, so check stop
    // first.
    private.check_stop()?;
    let objects = objects?;
    if let Some(error) = refused {
        return Err(error);
    }
    if objects.len() != read.len() {
        return Err(SandboxError::Malformed {
            what: format!("git stored {} of {} files", objects.len(), read.len()),
        });
    }
    let stored = objects.into_iter().zip(read);
    let stored = stored.map(|(object, (content, stat))| {
        let object = ObjectId::parse(&object)?;
        Ok(StoredBlob {
            object,
            content,
            stat,
        })
    });
    stored.collect()
}

/// Stores bytes as git would for a file at this path: line endings, `$Id$` and encoding follow the
/// attributes of the base.
pub(crate) fn store_converted(
    private: &PrivateStore,
    path: &[u8],
    bytes: &[u8],
) -> SandboxResult<ObjectId> {
    let call = private.call(["hash-object", "-w", "--stdin", "--path"]);
    ObjectId::parse(&trimmed_text(
        &call.argument(path_from_bytes(path)).run_with(bytes)?,
    ))
}

/// Opens a file of the tree with its stat. If it is no longer a file, the tree changed concurrently.
pub(crate) fn open(root: BorrowedFd<'_>, path: &[u8]) -> SandboxResult<(File, FileStat)> {
    let opened = open_file(root, path).and_then(|file| {
        let stat = FileStat::from(&fstat(&file)?);
        Ok((file, stat))
    });
    match opened {
        Ok((file, stat)) if stat.kind() == FileType::RegularFile => Ok((file, stat)),
        _ => Err(concurrent_change_error(path)?),
    }
}

fn concurrent_change_error(path: &[u8]) -> SandboxResult<SandboxError> {
    let path = resource_path(path)?;
    Ok(SandboxError::Changing { path })
}

type SendResult = SandboxResult<(Content, Option<FileStat>)>;

/// Sends one source. The outer error is from the pipe, the inner one from the source.
fn send(
    pipe: &mut impl Write,
    root: BorrowedFd<'_>,
    source: BlobSource<'_>,
    number: usize,
    stop: &StopSignal,
) -> io::Result<SendResult> {
    match source {
        BlobSource::Link(path) => {
            let (target, stat) = match read_link(root, path) {
                Ok(found) => found,
                Err(error) => return Ok(Err(error)),
            };
            let content = send_bytes(pipe, &target, number)?;
            Ok(Ok((content, Some(stat))))
        }
        BlobSource::File(path) => match open(root, path) {
            Ok((file, stat)) => {
                let file = StoppableReader { from: file, stop };
                let content = send_stream(pipe, file, stat.size, number)?;
                match content {
                    Some(content) => Ok(Ok((content, Some(stat)))),
                    None => Ok(concurrent_change_error(path).and_then(Err)),
                }
            }
            Err(error) => Ok(Err(error)),
        },
    }
}

fn send_bytes(pipe: &mut impl Write, bytes: &[u8], number: usize) -> io::Result<Content> {
    let content = send_stream(pipe, bytes, bytes.len() as u64, number)?;
    content.ok_or_else(|| io::Error::other("bytes in memory are all there"))
}

/// Sends exactly `size` bytes. Returns `None` if the source had fewer or more.
fn send_stream(
    pipe: &mut impl Write,
    mut from: impl Read,
    size: u64,
    number: usize,
) -> io::Result<Option<Content>> {
    write!(pipe, "blob\nmark :{number}\ndata {size}\n")?;
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; 1 << 16];
    let mut left = size;
    let mut whole = true;
    while left > 0 {
        let most = usize::try_from(left).map_or(buffer.len(), |left| left.min(buffer.len()));
        let got = match from.read(&mut buffer[..most])? {
            0 => {
                // `size` was already announced, so send padding; the caller discards it with the
                // error.
                whole = false;
                buffer.fill(0);
                most
            }
            got => got,
        };
        hasher.update(&buffer[..got]);
        pipe.write_all(&buffer[..got])?;
        left -= got as u64;
    }
    whole &= from.read(&mut buffer[..1])? == 0;
    write!(pipe, "\nget-mark :{number}\n")?;
    Ok(whole.then(|| Content {
        hash: *hasher.finalize().as_bytes(),
        size,
    }))
}
