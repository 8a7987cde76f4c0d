//! Backup files and their restore.

use kassette_domain::id::PaymentId;
use kassette_domain::operator::{Operator, Role};
use sha2::{Digest as _, Sha256};

use super::*;
use crate::rows::seal::Sealer;
use crate::sled::maintenance::format::{Decoder, Encoder, Head, MAGIC, Piece, Row};
use crate::sled::maintenance::kinds::KINDS;
use crate::sled::maintenance::receive;
use crate::sled::open::FORMAT;
use crate::{About, NoBackup, Pieces};

async fn collected(mut pieces: Pieces) -> Vec<u8> {
    let mut file = Vec::new();
    while let Some(piece) = pieces.recv().await {
        file.extend(piece);
    }
    file
}

async fn backed_up() -> (TempDir, Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    closed(full(&options(&folder)).await).await;
    let mut file = Vec::new();
    backup(&options(&folder), &mut file, NOW, &()).unwrap();
    (folder, file)
}

/// Reads a file to its end.
fn read(file: &[u8]) -> Result<(), FileError> {
    let (mut decoder, _) = Decoder::open(file, FORMAT)?;
    loop {
        if let Piece::End(_) = decoder.next()? {
            return Ok(());
        }
    }
}

#[tokio::test]
async fn a_backup_restores_everything_there_is() {
    let folder = tempfile::tempdir().unwrap();
    let store = full(&options(&folder)).await;
    let before = everything_in(&store).await;
    let never = Some(kassette_domain::time::Time::default());
    assert_eq!(store.vitals().await.unwrap().backed_up, never);
    let online = collected(store.backup(NOW).await.unwrap().unwrap()).await;
    assert_eq!(store.vitals().await.unwrap().backed_up, Some(NOW));
    closed(store).await;
    let mut offline = Vec::new();
    let told = backup(&options(&folder), &mut offline, NOW, &()).unwrap();
    assert_eq!(told.payments, 5);
    for file in [online, offline] {
        let elsewhere = tempfile::tempdir().unwrap();
        let restored = restore(&options(&elsewhere), file.as_slice(), false, &()).unwrap();
        assert_eq!(restored.report.payments, 5);
        assert_eq!(restored.told.made_at, NOW.rfc3339());
        whole(&options(&elsewhere));
        assert_eq!(everything_under(&options(&elsewhere)).await, before);
        alone(&elsewhere);
    }
}

#[tokio::test]
async fn a_backup_of_a_store_that_is_written_is_one_moment_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = full(&options(&folder)).await;
    let shared: Arc<dyn Store> = store.clone();
    // Enough for many pieces.
    for each in 0..1500 {
        create(&shared, &format!("old-{each}"), NOW).await;
    }
    let mut pieces = store.backup(later(1)).await.unwrap().unwrap();
    let second = store.backup(NOW).await.unwrap();
    assert_eq!(second.err(), Some(NoBackup::UnderWay));
    let (mut file, mut during) = (Vec::new(), 0);
    while let Some(piece) = pieces.recv().await {
        file.extend(piece);
        if during < 60 {
            // Rows are added, changed and removed before and after the current position.
            let name = format!("new-{during}");
            create(&shared, &name, later(2)).await;
            pay_again(&shared, &format!("old-{during}")).await;
            during += 1;
        }
    }
    assert!(during > 5, "several pieces");
    let after = tempfile::tempdir().unwrap();
    let restored = restore(&options(&after), file.as_slice(), false, &()).unwrap();
    assert!(restored.report.payments > 1503, "some were made meanwhile");
    let received = receive(file.as_slice(), &mut Vec::new(), &()).unwrap();
    assert_eq!(received.payments, restored.report.payments);
    whole(&options(&after));
    let copy = SledStore::open(&options(&after)).unwrap();
    for each in 0..1500 {
        let id = PaymentId::from_bytes(id_of(&format!("old-{each}")));
        assert!(copy.aggregate(About::Payment(id)).await.unwrap().is_some());
    }
    closed(copy).await;
    // The subscription has ended.
    assert!(store.backup(NOW).await.unwrap().is_ok());
    closed(store).await;
}

/// Opens an attempt with an answer.
async fn pay_again(store: &Arc<dyn Store>, name: &str) {
    let attempt = format!("attempt of {name}");
    let about = payment_of(name);
    done(
        store,
        about.clone(),
        open(&attempt, "sandbox-test"),
        later(2),
    )
    .await;
    let step = started(&attempt, &format!("vendor-{name}"));
    done(store, about.clone(), step, later(2)).await;
    let paid = report(&format!("vendor-{name}"), ProviderStatus::Completed);
    done(store, about, news(&attempt, paid), later(3)).await;
}

#[tokio::test]
async fn a_backup_that_nobody_takes_makes_room_for_another() {
    let folder = tempfile::tempdir().unwrap();
    let store = full(&options(&folder)).await;
    let shared: Arc<dyn Store> = store.clone();
    for each in 0..1500 {
        create(&shared, &each.to_string(), NOW).await;
    }
    let mut pieces = store.backup(NOW).await.unwrap().unwrap();
    pieces.recv().await.unwrap();
    drop(pieces);
    loop {
        store.probe().await.unwrap();
        if let Ok(pieces) = store.backup(NOW).await.unwrap() {
            read(&collected(pieces).await).unwrap();
            break;
        }
    }
    closed(store).await;
}

#[tokio::test]
async fn any_flipped_bit_of_a_backup_is_refused() {
    let (_folder, file) = backed_up().await;
    read(&file).unwrap();
    for at in 0..file.len() {
        let mut flipped = file.clone();
        flipped[at] ^= 1 << (at % 8);
        assert!(read(&flipped).is_err(), "byte {at}");
    }
}

#[tokio::test]
async fn a_backup_that_is_cut_anywhere_is_refused() {
    let (_folder, file) = backed_up().await;
    for length in 0..file.len() {
        let refused = read(&file[..length]);
        let said = matches!(refused, Err(FileError::CutOff { .. } | FileError::NoBackup));
        assert!(said, "{length}: {refused:?}");
    }
    let more = [&file[..], b"x"].concat();
    assert!(matches!(read(&more), Err(FileError::Damaged { .. })));
}

/// The frames after the start.
fn frames(file: &[u8]) -> Vec<&[u8]> {
    let mut frames = Vec::new();
    let mut at = 12;
    while at < file.len() {
        let length = u32::from_be_bytes(file[at + 1..at + 5].try_into().unwrap());
        let end = at + 9 + length as usize;
        frames.push(&file[at..end]);
        at = end;
    }
    frames
}

#[tokio::test]
async fn pieces_that_are_left_out_or_moved_are_refused() {
    let (_folder, file) = backed_up().await;
    let frames = frames(&file);
    let built = |frames: &[&[u8]]| [&file[..12], &frames.concat()].concat();
    read(&built(&frames)).unwrap();
    for left_out in 0..frames.len() {
        let mut fewer = frames.clone();
        fewer.remove(left_out);
        assert!(read(&built(&fewer)).is_err(), "{left_out}");
    }
    let mut twice = frames.clone();
    twice.insert(1, frames[1]);
    assert!(read(&built(&twice)).is_err());
}

fn head() -> Head {
    Head {
        release: "9.9.9".into(),
        format: FORMAT,
        at: NOW,
        payments: 0,
        canary: Vec::new(),
        kinds: KINDS
            .all()
            .iter()
            .map(|kind| (kind.tag, kind.name.to_owned()))
            .collect(),
    }
}

#[test]
fn a_backup_of_a_later_release_or_of_another_layout_is_refused() {
    let (_, mut file) = Encoder::begin(&head()).unwrap();
    file[11] += 1;
    let refused = read(&file).unwrap_err();
    assert!(
        matches!(refused, FileError::Newer { found: 3, .. }),
        "{refused}"
    );
    let mut other = head();
    other.format += 1;
    let refused = read(&Encoder::begin(&other).unwrap().1)
        .unwrap_err()
        .to_string();
    assert!(refused.contains("release 9.9.9"), "{refused}");
    let mut other = head();
    other.kinds.push((250, "postcards".into()));
    let refused = read(&Encoder::begin(&other).unwrap().1).unwrap_err();
    assert!(
        matches!(refused, FileError::OtherLayout { .. }),
        "{refused}"
    );
}

#[test]
fn a_backup_that_the_server_gave_up_says_why() {
    let (encoder, mut file) = Encoder::begin(&head()).unwrap();
    file.extend(encoder.failed("the server is stopping").unwrap());
    let refused = read(&file).unwrap_err().to_string();
    assert!(refused.contains("the server is stopping"), "{refused}");
}

#[tokio::test]
async fn a_refused_backup_leaves_nothing_behind() {
    let (_folder, file) = backed_up().await;
    let elsewhere = tempfile::tempdir().unwrap();
    let mut flipped = file.clone();
    let late = file.len() - 100;
    flipped[late] ^= 1;
    for bad in [&flipped[..], &file[..late]] {
        let refused = restore(&options(&elsewhere), bad, false, &());
        assert!(
            matches!(refused, Err(MaintenanceError::File(_))),
            "{refused:?}"
        );
    }
    let refused = restore(&under(&elsewhere, 8), file.as_slice(), false, &());
    assert!(
        matches!(
            refused,
            Err(MaintenanceError::File(FileError::WrongMasterKey { .. }))
        ),
        "{refused:?}"
    );
    assert_eq!(std::fs::read_dir(elsewhere.path()).unwrap().count(), 0);
    restore(&options(&elsewhere), file.as_slice(), false, &()).unwrap();
}

#[tokio::test]
async fn a_store_is_never_restored_over() {
    let (folder, file) = backed_up().await;
    let refused = restore(&options(&folder), file.as_slice(), false, &());
    assert!(
        matches!(refused, Err(MaintenanceError::NotEmpty(_))),
        "{refused:?}"
    );
    whole(&options(&folder));
}

#[tokio::test]
async fn a_backup_is_verified_in_a_folder_that_goes_away_again() {
    let (_folder, file) = backed_up().await;
    let scratch = tempfile::tempdir().unwrap();
    let verified = verify_backup(&options(&scratch), file.as_slice(), &()).unwrap();
    assert!(verified.report.is_whole());
    verify_backup(&options(&scratch), &file[..file.len() - 1], &()).unwrap_err();
    assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
}

/// A forged backup: another head or other rows, with correct sums and counts, and a code under the forger's
/// key.
fn forged(file: &[u8], head: impl FnOnce(&mut Head), rows: impl Fn(&mut Vec<Row>)) -> Vec<u8> {
    let (mut decoder, mut found) = Decoder::open(file, FORMAT).unwrap();
    head(&mut found);
    let (mut encoder, mut forged) = Encoder::begin(&found).unwrap();
    loop {
        match decoder.next().unwrap() {
            Piece::Rows(mut found) => {
                rows(&mut found);
                forged.extend(encoder.rows(&found).unwrap());
            }
            Piece::Group(_) => panic!("a stopped store has no groups"),
            Piece::End(_) => {
                let stranger = Sealer::new(&MasterKey::from_bytes([66; 32]));
                forged.extend(encoder.end(&stranger).unwrap().1);
                read(&forged).unwrap();
                return forged;
            }
        }
    }
}

/// Makes all operators of a backup admins.
fn promoted(rows: &mut Vec<Row>) {
    for (key, row) in rows {
        if key.starts_with(b"opr/") {
            let mut operator: Operator = records::decode(&sealer(), key, row).unwrap();
            assert_ne!(operator.role, Role::Admin);
            operator.role = Role::Admin;
            *row = records::encode(&sealer(), key, &operator).unwrap().to_vec();
        }
    }
}

/// A file with the code of another one.
fn with_code_of(file: &[u8], other: &[u8]) -> Vec<u8> {
    let [own, code] = [file, other].map(|file| *frames(file).last().unwrap());
    [&file[..file.len() - own.len()], code].concat()
}

/// The same file in version 1: without a code, with a correct digest.
fn without_code(file: &[u8]) -> Vec<u8> {
    let frames = frames(file);
    let (before, last) = frames.split_at(frames.len() - 2);
    let mut old = [MAGIC.as_slice(), &1_u32.to_be_bytes(), &before.concat()].concat();
    let end = last[0];
    let totals = &end[5 + 32..end.len() - 4];
    let mut end = [&end[..5], &Sha256::digest(&old), totals].concat();
    end.extend(crc32fast::hash(&end).to_be_bytes());
    old.extend(end);
    read(&old).unwrap();
    old
}

#[tokio::test]
async fn a_backup_that_was_written_anew_without_the_key_is_refused_whatever_its_sums_say() {
    let (_folder, file) = backed_up().await;
    let role = forged(&file, |_| {}, promoted);
    assert_ne!(role, forged(&file, |_| {}, |_| {}));
    let head = forged(&file, |head| head.at = later(9), |_| {});
    let order = forged(&file, |_| {}, |rows| rows.reverse());
    let fewer = forged(&file, |_| {}, |rows| rows.truncate(rows.len() - 1));
    for forged in [role, head, order, fewer] {
        let elsewhere = tempfile::tempdir().unwrap();
        let is_refused = |refused: Result<Restored, MaintenanceError>| {
            let wrong = matches!(refused, Err(MaintenanceError::File(FileError::WrongCode)));
            assert!(wrong, "{refused:?}");
            assert_eq!(std::fs::read_dir(elsewhere.path()).unwrap().count(), 0);
        };
        for bad in [with_code_of(&forged, &file), forged] {
            is_refused(restore(&options(&elsewhere), &bad, true, &()));
            is_refused(verify_backup(&options(&elsewhere), &bad, &()));
        }
    }
    let code = frames(&file).pop().unwrap();
    let refused = read(&file[..file.len() - code.len()]);
    assert!(
        matches!(refused, Err(FileError::CutOff { .. })),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_backup_without_a_code_is_taken_only_where_that_is_said() {
    let (_folder, file) = backed_up().await;
    let (old, forged) = (
        without_code(&file),
        without_code(&forged(&file, |_| {}, promoted)),
    );
    let elsewhere = tempfile::tempdir().unwrap();
    for file in [&old, &forged] {
        for refused in [
            restore(&options(&elsewhere), file, true, &()),
            verify_backup(&options(&elsewhere), file, &()),
        ] {
            let refused = refused.unwrap_err().to_string();
            assert!(refused.contains("--without-code"), "{refused}");
        }
        assert_eq!(std::fs::read_dir(elsewhere.path()).unwrap().count(), 0);
    }
    let source = |input| BackupSource {
        without_code: true,
        ..BackupSource::new(input)
    };
    let verified =
        crate::sled::maintenance::verify_backup(&options(&elsewhere), source(old.as_slice()), &())
            .unwrap();
    assert!(!verified.told.authenticated && verified.report.is_whole());
    let note = AuditNote::at(NOW);
    let target = options(&elsewhere);
    crate::sled::maintenance::restore(&target, source(&old), false, note, &(), &always).unwrap();
    whole(&options(&elsewhere));
    // An existing code is checked nevertheless.
    let wrong = with_code_of(&file, &self::forged(&file, |_| {}, |_| {}));
    let scratch = tempfile::tempdir().unwrap();
    let refused = crate::sled::maintenance::verify_backup(&options(&scratch), source(&wrong), &());
    assert!(matches!(
        refused,
        Err(MaintenanceError::File(FileError::WrongCode))
    ));
}

#[tokio::test]
async fn a_backup_from_before_a_change_of_the_key_opens_with_the_old_key_beside_the_new_one() {
    let folder = tempfile::tempdir().unwrap();
    let store = full(&options(&folder)).await;
    let before = everything_in(&store).await;
    let online = collected(store.backup(NOW).await.unwrap().unwrap()).await;
    closed(store).await;
    rekey(&options(&folder), &MasterKey::from_bytes([8; 32]), &()).unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let target = under(&elsewhere, 8);
    for refused in [
        restore(&target, &online, true, &()),
        verify_backup(&target, &online, &()),
    ] {
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("--old-key-file"), "{refused}");
    }
    let source = |key: u8| BackupSource {
        old_key: Some(MasterKey::from_bytes([key; 32])),
        ..BackupSource::new(online.as_slice())
    };
    let refused = crate::sled::maintenance::verify_backup(&target, source(9), &());
    assert!(matches!(
        refused,
        Err(MaintenanceError::File(FileError::WrongMasterKey { .. }))
    ));
    let verified = crate::sled::maintenance::verify_backup(&target, source(7), &()).unwrap();
    assert!(verified.told.authenticated && verified.report.is_whole());
    let note = AuditNote::at(NOW);
    crate::sled::maintenance::restore(&target, source(7), false, note, &(), &always).unwrap();
    // From now on the store uses the new key.
    whole(&target);
    assert_eq!(everything_under(&target).await, before);
    alone(&elsewhere);
    // An unnecessary old key has no effect.
    let mut file = Vec::new();
    backup(&target, &mut file, NOW, &()).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let source = BackupSource {
        input: file.as_slice(),
        ..source(7)
    };
    crate::sled::maintenance::verify_backup(&under(&scratch, 8), source, &()).unwrap();
}
