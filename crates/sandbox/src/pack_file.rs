//! Git's pack file and its index, for objects that are stored whole (no deltas).

use std::collections::BTreeMap;
use std::io::{self, Write};

use cleveragents_ports::sandbox::{ObjectFormat, SandboxResult};
use flate2::write::ZlibEncoder;
use flate2::{Compression, Crc};

use crate::object_id::{ObjectHasher, ObjectId, ObjectKind};

/// One object in its pack encoding.
#[derive(Debug)]
pub(crate) struct PackedObject(Vec<u8>);

/// A pack and its index in memory.
#[derive(Debug)]
pub(crate) struct PackFile {
    /// The hash that ends the pack and names it.
    pub(crate) id: ObjectId,
    pub(crate) pack: Vec<u8>,
    pub(crate) index: Vec<u8>,
}

impl PackedObject {
    pub(crate) fn new(kind: ObjectKind, content: &[u8]) -> io::Result<Self> {
        let number = match kind {
            ObjectKind::Commit => 1,
            ObjectKind::Tree => 2,
            ObjectKind::Blob => 3,
        };
        // Type and the lowest bits of the size, then the rest of the size, seven bits at a time.
        let mut bytes = vec![(number << 4) | low_bits(content.len(), 4)];
        let mut rest = content.len() >> 4;
        while rest > 0 {
            if let Some(last) = bytes.last_mut() {
                *last |= 0x80;
            }
            bytes.push(low_bits(rest, 7));
            rest >>= 7;
        }
        let mut encoder = ZlibEncoder::new(bytes, Compression::fast());
        encoder.write_all(content)?;
        Ok(Self(encoder.finish()?))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

fn low_bits(number: usize, bits: u32) -> u8 {
    u8::try_from(number & ((1 << bits) - 1)).unwrap_or_default()
}

impl PackFile {
    /// The objects together must have less than 2 GiB.
    pub(crate) fn new(
        format: ObjectFormat,
        objects: &BTreeMap<ObjectId, PackedObject>,
    ) -> SandboxResult<Self> {
        let mut pack = b"PACK\0\0\0\x02".to_vec();
        put_number(&mut pack, objects.len());
        let mut index = b"\xfftOc\0\0\0\x02".to_vec();
        for first in 0..=u8::MAX {
            let up_to = objects.keys().filter(|it| it.as_bytes()[0] <= first);
            put_number(&mut index, up_to.count());
        }
        for object in objects.keys() {
            index.extend_from_slice(object.as_bytes());
        }
        let mut offsets = Vec::new();
        for PackedObject(bytes) in objects.values() {
            let mut sum = Crc::new();
            sum.update(bytes);
            index.extend_from_slice(&sum.sum().to_be_bytes());
            put_number(&mut offsets, pack.len());
            pack.extend_from_slice(bytes);
        }
        index.extend_from_slice(&offsets);
        let id = hash(format, &pack)?;
        pack.extend_from_slice(id.as_bytes());
        index.extend_from_slice(id.as_bytes());
        let end = hash(format, &index)?;
        index.extend_from_slice(end.as_bytes());
        Ok(Self { id, pack, index })
    }
}

fn put_number(bytes: &mut Vec<u8>, number: usize) {
    let number = u32::try_from(number).unwrap_or(u32::MAX);
    bytes.extend_from_slice(&number.to_be_bytes());
}

fn hash(format: ObjectFormat, bytes: &[u8]) -> SandboxResult<ObjectId> {
    let mut hasher = ObjectHasher::new(format);
    hasher.update(bytes);
    hasher.finish()
}
