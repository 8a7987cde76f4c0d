//! To a file and back.

use kassette_domain::id::PaymentId;

use super::super::format::{Decoder, Encoder, Head, Piece};
use super::super::kinds::KINDS;
use super::*;
use crate::sled::open::FORMAT;
use crate::{About, Pieces};

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

/// Reads a file to its end without making anything of it.
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
    let online = collected(store.backup(NOW).await.unwrap().unwrap()).await;
    closed(store).await;
    let mut offline = Vec::new();
    backup(&options(&folder), &mut offline, NOW, &()).unwrap();
    for file in [online, offline] {
        let elsewhere = tempfile::tempdir().unwrap();
        let restored = restore(&options(&elsewhere), file.as_slice(), false, &()).unwrap();
        assert_eq!(restored.report.payments, 4);
        assert_eq!(restored.made_at, NOW.rfc3339());
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
    assert!(store.backup(NOW).await.unwrap().is_none(), "one at a time");
    let (mut file, mut during) = (Vec::new(), 0);
    while let Some(piece) = pieces.recv().await {
        file.extend(piece);
        if during < 60 {
            // Rows appear, change and vanish on both sides of what was read.
            let name = format!("new-{during}");
            create(&shared, &name, later(2)).await;
            pay_again(&shared, &format!("old-{during}")).await;
            during += 1;
        }
    }
    assert!(during > 5, "several pieces");
    let after = tempfile::tempdir().unwrap();
    let restored = restore(&options(&after), file.as_slice(), false, &()).unwrap();
    assert!(restored.report.payments >= 1503);
    whole(&options(&after));
    let copy = SledStore::open(&options(&after)).unwrap();
    for each in 0..1500 {
        let id = PaymentId::from_bytes(id_of(&format!("old-{each}")));
        assert!(copy.ledger(About::Payment(id)).await.unwrap().is_some());
    }
    closed(copy).await;
    // The tap was taken out.
    assert!(store.backup(NOW).await.unwrap().is_some());
    closed(store).await;
}

/// An attempt that is opened and answered.
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
    let paid = report(&format!("vendor-{name}"), VendorStatus::Completed);
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
        if let Some(pieces) = store.backup(NOW).await.unwrap() {
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

#[tokio::test]
async fn pieces_that_are_left_out_or_moved_are_refused() {
    let (_folder, file) = backed_up().await;
    let mut frames = Vec::new();
    let mut at = 12;
    while at < file.len() {
        let length = u32::from_be_bytes(file[at + 1..at + 5].try_into().unwrap());
        let end = at + 9 + length as usize;
        frames.push(&file[at..end]);
        at = end;
    }
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
        matches!(refused, FileError::Newer { found: 2, .. }),
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
            Err(MaintenanceError::File(FileError::WrongMasterKey))
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
