//! Compaction and change of the master key, interrupted at every stage.

use kassette_domain::audit::Audited;
use kassette_engine::{Fault, IVec, RebuildError, SEGMENT_BYTES, Stage, disk_bytes};

use super::*;
use crate::Created;
use crate::sled::maintenance;

/// Fails at a stage, like a kill: nothing after it runs.
fn until(last: Stage) -> impl Fn(Stage) -> Result<(), RebuildError> {
    move |stage| match stage == last {
        true => Err(Fault::Stopping.into()),
        false => Ok(()),
    }
}

#[tokio::test]
async fn compaction_keeps_everything_and_tells_the_sizes() {
    let folder = tempfile::tempdir().unwrap();
    let store = full(&options(&folder)).await;
    let shared: Arc<dyn Store> = store.clone();
    for each in 0..1000 {
        create(&shared, &each.to_string(), NOW).await;
    }
    let before = everything_in(&store).await;
    closed(store).await;
    let bytes_before = disk_bytes(&options(&folder).path).unwrap();
    let compacted = compact(&options(&folder), &()).unwrap();
    assert_eq!(compacted.payments, 1005);
    assert_eq!(compacted.bytes_before, bytes_before);
    let bytes_after = disk_bytes(&options(&folder).path).unwrap();
    assert_eq!(compacted.bytes_after, bytes_after);
    let report = whole(&options(&folder));
    assert_eq!(compacted.rows + 1, report.rows.values().sum::<u64>());
    alone(&folder);
    assert_eq!(everything_under(&options(&folder)).await, before);
}

#[tokio::test]
async fn a_compacted_store_and_a_restored_one_take_a_few_times_their_rows() {
    const PAYMENTS: usize = 4096;
    let folder = tempfile::tempdir().unwrap();
    let store = SledStore::open(&options(&folder)).unwrap();
    let shared: Arc<dyn Store> = store.clone();
    shop(&shared).await;
    let paid = (0..PAYMENTS).map(|number| {
        let (shared, name) = (shared.clone(), number.to_string());
        tokio::spawn(async move {
            pay(&shared, &name).await;
            let paid = report(&format!("vendor-{name}"), ProviderStatus::Completed);
            let step = news(&format!("attempt of {name}"), paid);
            done(&shared, payment_of(&name), step, later(1)).await;
        })
    });
    for paid in paid.collect::<Vec<_>>() {
        paid.await.unwrap();
    }
    drop(shared);
    closed(store).await;
    let mut file = Vec::new();
    backup(&options(&folder), &mut file, NOW, &()).unwrap();
    let compacted = compact(&options(&folder), &()).unwrap();
    let stopped = Stopped::open(&options(&folder)).unwrap();
    let bytes = |row: Result<(IVec, IVec), _>| row.map(|(key, row)| key.len() + row.len()).unwrap();
    let alive: usize = stopped.db.iter().map(bytes).sum();
    // sled leaves dead pages in segments that are more than half alive, and fills the rest of the last one
    // with zeros.
    let most = (alive * 7 / 2 + 2 * SEGMENT_BYTES) as u64;
    assert!(compacted.bytes_after < most, "{compacted:?}, {alive} alive");
    let elsewhere = tempfile::tempdir().unwrap();
    restore(&options(&elsewhere), file.as_slice(), false, &()).unwrap();
    let restored = disk_bytes(&options(&elsewhere).path).unwrap();
    assert!(restored < most, "{restored}, {alive} alive");
    alone(&elsewhere);
}

#[tokio::test]
async fn a_compaction_that_is_ended_leaves_one_whole_store_and_the_next_start_cleans_up() {
    for stage in Stage::ALL {
        let folder = tempfile::tempdir().unwrap();
        let store = full(&options(&folder)).await;
        let before = everything_in(&store).await;
        closed(store).await;
        let ended = maintenance::compact(&options(&folder), AuditNote::at(NOW), &(), &until(stage));
        assert!(ended.is_err(), "{stage:?}");
        assert_eq!(
            std::fs::read_dir(folder.path()).unwrap().count(),
            2,
            "{stage:?}"
        );
        assert_eq!(
            everything_under(&options(&folder)).await,
            before,
            "{stage:?}"
        );
        alone(&folder);
        whole(&options(&folder));
        compact(&options(&folder), &()).unwrap();
    }
}

#[tokio::test]
async fn a_store_that_is_not_whole_is_not_compacted() {
    let folder = tempfile::tempdir().unwrap();
    closed(full(&options(&folder)).await).await;
    let stopped = Stopped::open(&options(&folder)).unwrap();
    let (key, _) = stopped.db.scan_prefix(b"rtn/").next().unwrap().unwrap();
    stopped.db.remove(key).unwrap();
    drop(stopped);
    for refused in [
        compact(&options(&folder), &()).err(),
        rekey(&options(&folder), &MasterKey::from_bytes([8; 32]), &()).err(),
    ] {
        let refused = refused.unwrap();
        assert!(
            matches!(refused, MaintenanceError::NotWhole { .. }),
            "{refused}"
        );
    }
    alone(&folder);
}

#[tokio::test]
async fn a_rekeyed_store_opens_under_the_new_key_alone() {
    let folder = tempfile::tempdir().unwrap();
    let store = full(&options(&folder)).await;
    let before = everything_in(&store).await;
    closed(store).await;
    let rekeyed = rekey(&options(&folder), &MasterKey::from_bytes([8; 32]), &()).unwrap();
    assert_eq!(
        (rekeyed.resealed["payment"], rekeyed.resealed["endpoint"]),
        (5, 3)
    );
    let refused = SledStore::open(&options(&folder));
    assert!(matches!(refused, Err(OpenError::WrongMasterKey { .. })));
    let refused = rekey(&under(&folder, 8), &MasterKey::from_bytes([8; 32]), &());
    assert!(
        matches!(refused, Err(MaintenanceError::SameKey)),
        "{refused:?}"
    );
    whole(&under(&folder, 8));
    let store = SledStore::open(&under(&folder, 8)).unwrap();
    assert_eq!(everything_in(&store).await, before);
    // The mark of the e-mail address is unchanged, so the same request is a replay.
    let replayed = store
        .create(new_payment("a"), None, later(5))
        .await
        .unwrap();
    assert!(matches!(replayed, Created::Replay(_)), "{replayed:?}");
    closed(store).await;
}

#[tokio::test]
async fn a_change_of_key_that_is_ended_leaves_a_store_under_one_of_the_two() {
    for stage in Stage::ALL {
        let folder = tempfile::tempdir().unwrap();
        let store = full(&options(&folder)).await;
        let before = everything_in(&store).await;
        closed(store).await;
        let new = MasterKey::from_bytes([8; 32]);
        let ended = maintenance::rekey(
            &options(&folder),
            &new,
            AuditNote::at(NOW),
            &(),
            &until(stage),
        );
        assert!(ended.is_err(), "{stage:?}");
        let exchanged = matches!(stage, Stage::Exchanged | Stage::Settled);
        let (opens, refused) = if exchanged { (8, 7) } else { (7, 8) };
        let wrong = SledStore::open(&under(&folder, refused));
        assert!(
            matches!(wrong, Err(OpenError::WrongMasterKey { .. })),
            "{stage:?}"
        );
        drop(wrong);
        assert_eq!(
            everything_under(&under(&folder, opens)).await,
            before,
            "{stage:?}"
        );
        alone(&folder);
        if !exchanged {
            rekey(&options(&folder), &new, &()).unwrap();
            whole(&under(&folder, 8));
        }
    }
}

#[tokio::test]
async fn a_restore_that_is_ended_leaves_all_or_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = full(&options(&folder)).await;
    let before = everything_in(&store).await;
    closed(store).await;
    let mut file = Vec::new();
    backup(&options(&folder), &mut file, NOW, &()).unwrap();
    for stage in Stage::ALL {
        let elsewhere = tempfile::tempdir().unwrap();
        let target = options(&elsewhere);
        let ended = maintenance::restore(
            &target,
            BackupSource::new(file.as_slice()),
            false,
            AuditNote::at(NOW),
            &(),
            &until(stage),
        );
        assert!(ended.is_err(), "{stage:?}");
        if !matches!(stage, Stage::Exchanged | Stage::Settled) {
            assert!(matches!(
                verify(&target, &()),
                Err(MaintenanceError::NoStore(_))
            ));
            restore(&target, file.as_slice(), false, &()).unwrap();
        }
        assert_eq!(everything_under(&target).await, before, "{stage:?}");
        alone(&elsewhere);
    }
}

#[tokio::test]
async fn a_running_store_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let store = full(&options(&folder)).await;
    let refused = compact(&options(&folder), &());
    let locked = |refused: &MaintenanceError| {
        matches!(
            refused,
            MaintenanceError::Open(OpenError::Engine(kassette_engine::OpenError::Locked { .. }))
        )
    };
    assert!(refused.is_err_and(|refused| locked(&refused)));
    closed(store).await;
}

#[tokio::test]
async fn a_rekeyed_endpoint_signs_as_before() {
    let folder = tempfile::tempdir().unwrap();
    closed(full(&options(&folder)).await).await;
    rekey(&options(&folder), &MasterKey::from_bytes([8; 32]), &()).unwrap();
    let store = SledStore::open(&under(&folder, 8)).unwrap();
    let id = endpoint("listening", NOW).id;
    let (_, secrets) = store.endpoint_secrets(id).await.unwrap().unwrap();
    assert_eq!(secrets, secrets_of("a"));
    closed(store).await;
}

#[tokio::test]
async fn a_rekeyed_invitation_says_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let store = full(&options(&folder)).await;
    let before = store.invitation(opens("open"), NOW).await.unwrap();
    closed(store).await;
    rekey(&options(&folder), &MasterKey::from_bytes([8; 32]), &()).unwrap();
    let store = SledStore::open(&under(&folder, 8)).unwrap();
    let after = store.invitation(opens("open"), NOW).await.unwrap();
    assert!(after.is_some() && after == before);
    closed(store).await;
}

/// The last line of the audit log.
async fn last_line(options: &OpenOptions) -> Audited {
    let store = SledStore::open(options).unwrap();
    let page = page(store.audit_log(first(1)).await.unwrap());
    closed(store).await;
    page.items.into_iter().next().unwrap().audited
}

#[tokio::test]
async fn what_is_done_with_a_whole_store_is_a_line_in_its_audit_log() {
    let folder = tempfile::tempdir().unwrap();
    closed(full(&options(&folder)).await).await;
    let note = || AuditNote {
        actor: Some("ann".into()),
        reason: Some("the old key was seen".into()),
        at: later(200),
    };
    let said = |line: &Audited| {
        let texts = [&line.operator, &line.actor, &line.action, &line.object];
        texts.map(String::as_str).join(" ")
    };
    maintenance::compact(&options(&folder), note(), &(), &always).unwrap();
    let line = last_line(&options(&folder)).await;
    assert_eq!(said(&line), "system ann store.compact store");
    assert_eq!(line.reason.as_deref(), Some("the old key was seen"));

    let new = MasterKey::from_bytes([8; 32]);
    maintenance::rekey(&options(&folder), &new, note(), &(), &always).unwrap();
    let line = last_line(&under(&folder, 8)).await;
    assert_eq!(said(&line), "system ann store.rekey store");
    assert!(line.before != line.after && line.after.unwrap().contains("master_key"));

    let mut file = Vec::new();
    backup(&under(&folder, 8), &mut file, NOW, &()).unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    restore(&under(&elsewhere, 8), &file, false, &()).unwrap();
    let line = last_line(&under(&elsewhere, 8)).await;
    assert_eq!(said(&line), "system system store.restore store");
    assert!(line.after.unwrap().contains(&NOW.rfc3339()));
    assert_eq!(verify_audit(&under(&elsewhere, 8)).unwrap().breaks(), []);
    whole(&under(&elsewhere, 8));
}
