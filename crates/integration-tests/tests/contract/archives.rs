//! Damaged backups, and backups of damaged databases.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use cleveragents_domain::Timestamp;
use cleveragents_integration_tests::store_access::{append, events, write};
use cleveragents_integration_tests::test_database::no_progress;
use cleveragents_integration_tests::{Backend, TestDatabase, block_on, contract, raw_sql};
use cleveragents_ports::{BlobHash, Clock, StoreError};
use cleveragents_store::{AlteredBackupPolicy, ExistingDataPolicy};
use serde_json::Value;

use super::blobs::{KIB, bytes, content, put, stage};
use super::maintenance::{BackupSample, file, save};

contract! {
    durable:
    a_cut_off_backup_is_refused,
    a_backup_with_a_flipped_bit_is_refused,
    a_blob_with_another_content_than_its_name_is_refused,
    a_foreign_member_in_a_backup_is_refused,
    unreadable_blobs_are_named_and_left_out,
}

/// The members in archive order; the manifest is last.
fn members(path: &Path) -> Vec<(String, u64, Vec<u8>)> {
    let mut archive = tar::Archive::new(File::open(path).unwrap());
    let entries = archive.entries().unwrap();
    let read = |entry: std::io::Result<tar::Entry<'_, File>>| {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().display().to_string();
        let place = entry.raw_file_position();
        let mut content = Vec::new();
        entry.read_to_end(&mut content).unwrap();
        (name, place, content)
    };
    entries.map(read).collect()
}

/// Writes a backup whose manifest matches its members, whatever they contain.
fn forge(path: &Path, from: &Path, change: impl FnOnce(&mut BTreeMap<String, Vec<u8>>)) {
    let mut all = members(from);
    let (_, _, manifest) = all.pop().unwrap();
    let order: Vec<String> = all.iter().map(|(name, _, _)| name.clone()).collect();
    let mut contents: BTreeMap<String, Vec<u8>> =
        all.into_iter().map(|(name, _, c)| (name, c)).collect();
    change(&mut contents);
    let mut manifest: Value = serde_json::from_slice(&manifest).unwrap();
    let hash = |content: &Vec<u8>| Value::from(blake3::hash(content).to_hex().to_string());
    manifest["members"] = contents.iter().map(|(n, c)| (n.clone(), hash(c))).collect();
    let mut builder = tar::Builder::new(File::create_new(path).unwrap());
    let mut add = |name: &str, content: &[u8]| {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o600);
        // Set by hand, because the tar crate refuses paths that lead out of the archive.
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_cksum();
        builder.append(&header, content).unwrap();
    };
    for name in &order {
        add(name, &contents[name]);
    }
    for (name, content) in &contents {
        if !order.contains(name) {
            add(name, content);
        }
    }
    add("manifest.json", &serde_json::to_vec(&manifest).unwrap());
    builder.into_inner().unwrap();
}

#[track_caller]
fn assert_refused(target: &TestDatabase, path: &Path, what: &str) {
    let refused = target.restore(
        path,
        AlteredBackupPolicy::Accept,
        &ExistingDataPolicy::Refuse,
    );
    assert!(
        matches!(refused, Err(StoreError::Corrupt { .. })),
        "{what}: {refused:?}"
    );
}

/// Asserts that nothing was restored: another restore still finds the target empty.
fn assert_empty(target: &TestDatabase, whole: &Path, world: &BackupSample) {
    target
        .restore(
            whole,
            AlteredBackupPolicy::Refuse,
            &ExistingDataPolicy::Refuse,
        )
        .unwrap();
    block_on(world.assert_found(&target.open().store));
}

/// The backup of a small sample.
fn save_world(source: &TestDatabase) -> (BackupSample, std::path::PathBuf) {
    let opened = source.open();
    let world = block_on(BackupSample::with_blobs(&opened.store, &[0, 10, 200 * KIB]));
    let path = file(source, "whole.tar");
    save(&opened, &path);
    (world, path)
}

fn a_cut_off_backup_is_refused(backend: Backend) {
    let (source, target) = (
        TestDatabase::new(Backend::Memory),
        TestDatabase::new(backend),
    );
    let (world, whole) = save_world(&source);
    let all = fs::read(&whole).unwrap();
    let (_, last, content) = members(&whole).pop().unwrap();
    // A tar file ends in meaningless zeros; everything before them must be present.
    let end = last as usize + content.len();
    let cut = file(&source, "cut.tar");
    for length in [
        0,
        1,
        511,
        512,
        513,
        end / 3,
        end / 2,
        last as usize,
        end - 1,
    ] {
        raw_sql::write_file(&cut, &all[..length]);
        assert_refused(&target, &cut, &format!("{length} bytes"));
    }
    assert_empty(&target, &whole, &world);
}

fn a_backup_with_a_flipped_bit_is_refused(backend: Backend) {
    let (source, target) = (
        TestDatabase::new(Backend::Memory),
        TestDatabase::new(backend),
    );
    let (world, whole) = save_world(&source);
    let mut all = fs::read(&whole).unwrap();
    let damaged = file(&source, "damaged.tar");
    let mut found = members(&whole);
    found.pop();
    for (name, place, content) in found {
        // The middle of each member, and the first letter of its name in the header before it.
        let middle = (!content.is_empty()).then_some(place as usize + content.len() / 2);
        for at in middle.into_iter().chain([place as usize - 512]) {
            all[at] ^= 1;
            raw_sql::write_file(&damaged, &all);
            assert_refused(&target, &damaged, &format!("{name} at {at}"));
            all[at] ^= 1;
        }
    }
    assert_empty(&target, &whole, &world);
}

fn a_blob_with_another_content_than_its_name_is_refused(backend: Backend) {
    let (source, target) = (
        TestDatabase::new(Backend::Memory),
        TestDatabase::new(backend),
    );
    let (world, whole) = save_world(&source);
    for (number, hash) in world.blobs.iter().enumerate() {
        let forged = file(&source, &format!("forged-{number}.tar"));
        let name = format!("blobs/{hash}");
        forge(&forged, &whole, |contents| {
            contents.get_mut(&name).unwrap().push(b'!');
        });
        assert_refused(&target, &forged, &name);
    }
    let same = file(&source, "same.tar");
    forge(&same, &whole, |_| {});
    assert_empty(&target, &same, &world);
}

fn a_foreign_member_in_a_backup_is_refused(backend: Backend) {
    let (source, target) = (
        TestDatabase::new(Backend::Memory),
        TestDatabase::new(backend),
    );
    let (world, whole) = save_world(&source);
    let strange = ["blobs/../../escaped", "tables/secrets/0.ndjson", "rubbish"];
    for (number, name) in strange.iter().enumerate() {
        let forged = file(&source, &format!("strange-{number}.tar"));
        let name = (*name).to_owned();
        forge(&forged, &whole, |contents| {
            contents.insert(name.clone(), b"[]".to_vec());
        });
        let refused = target.restore(
            &forged,
            AlteredBackupPolicy::Accept,
            &ExistingDataPolicy::Refuse,
        );
        assert!(refused.is_err(), "{name}: {refused:?}");
    }
    assert_empty(&target, &whole, &world);
}

/// Damages a large blob in place; with `gone`, removes its content.
fn damage(test_db: &TestDatabase, hash: &BlobHash, gone: bool) {
    if test_db.backend == Backend::Postgres {
        let change = if gone {
            "DELETE FROM blob_chunks"
        } else {
            "UPDATE blob_chunks SET content = '\\x00'"
        };
        return raw_sql::run_sql(test_db, &format!("{change} WHERE hash = '{hash}'"));
    }
    let path = blob_file(test_db, hash);
    if gone {
        fs::remove_file(path).unwrap();
    } else {
        raw_sql::write_file(&path, "rubbish");
    }
}

fn blob_file(test_db: &TestDatabase, hash: &BlobHash) -> std::path::PathBuf {
    let text = hash.as_str();
    test_db.folder().join("blobs").join(&text[..2]).join(text)
}

fn unreadable_blobs_are_named_and_left_out(backend: Backend) {
    let source = TestDatabase::new(backend);
    let opened = source.open();
    let stream = cleveragents_integration_tests::samples::stream();
    let contents = [1, 2, 3].map(|seed| bytes(200 * KIB, seed));
    let mut hashes = Vec::new();
    block_on(async {
        append(&opened.store, stream, 1).await;
        for content in &contents {
            hashes.push(put(&opened.store, content, "test").await);
        }
    });
    damage(&source, &hashes[0], true);
    damage(&source, &hashes[1], false);
    let path = file(&source, "backup.tar");
    let backup = save(&opened, &path);
    let mut lost = hashes[..2]
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>();
    lost.sort();
    assert_eq!(
        backup.unreadable_blobs.iter().cloned().collect::<Vec<_>>(),
        lost
    );
    for target in [Backend::Sqlite, Backend::Postgres] {
        let test_db = TestDatabase::new(target);
        test_db
            .restore(
                &path,
                AlteredBackupPolicy::Refuse,
                &ExistingDataPolicy::Refuse,
            )
            .unwrap();
        let opened = test_db.open();
        block_on(async {
            assert_eq!(events(&opened.store, stream).await.len(), 1);
            for hash in &hashes[..2] {
                assert!(content(&opened.store, hash).await.is_none());
            }
            assert!(content(&opened.store, &hashes[2]).await.as_ref() == Some(&contents[2]));
            let held = write(&opened.store, |tx| tx.release_blobs("test")).await;
            assert_eq!(held, 1, "what leads nowhere is left out too");
        });
    }
}

mod on_files {
    use super::*;

    #[test]
    fn restaging_a_damaged_blob_repairs_its_file() {
        let test_db = TestDatabase::new(Backend::Sqlite);
        let opened = test_db.open();
        let all = bytes(200 * KIB, 4);
        block_on(async {
            let hash = put(&opened.store, &all, "test").await;
            let mut cut = all.clone();
            cut[100 * KIB] ^= 1;
            for damaged in [Some(cut.as_slice()), Some(b"".as_slice()), None] {
                match damaged {
                    Some(bytes) => raw_sql::write_file(&blob_file(&test_db, &hash), bytes),
                    None => fs::remove_file(blob_file(&test_db, &hash)).unwrap(),
                }
                let asked = hash.clone();
                let read = opened.store.read(move |tx| tx.blob(&asked)).await;
                assert!(matches!(read, Err(StoreError::Corrupt { .. })));
                stage(&opened.store, &all).await;
                assert!(content(&opened.store, &hash).await.as_ref() == Some(&all));
            }
        });
    }

    #[derive(Debug)]
    struct FixedClock(Timestamp);

    impl Clock for FixedClock {
        fn now(&self) -> Timestamp {
            self.0
        }
    }

    /// An attacker who predicts the temporary name of a backup gains nothing by placing a link
    /// there.
    #[test]
    fn a_link_planted_under_the_partial_name_is_not_followed() {
        let test_db = TestDatabase::new(Backend::Sqlite);
        let clock = FixedClock(cleveragents_integration_tests::samples::at(0));
        let planted = format!(
            "backup.tar.{}-{}.partial",
            std::process::id(),
            clock.0.as_micros()
        );
        let opened = test_db.open_with_clock(Arc::new(clock));
        let (victim, path) = (file(&test_db, "victim"), file(&test_db, "backup.tar"));
        raw_sql::write_file(&victim, "precious");
        std::os::unix::fs::symlink(&victim, file(&test_db, &planted)).unwrap();
        let refused = block_on(opened.database.backup(&path, no_progress()));
        assert!(refused.is_err(), "{refused:?}");
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        assert!(!path.exists());
        assert!(
            file(&test_db, &planted).is_symlink(),
            "what is not ours stays"
        );
    }
}
