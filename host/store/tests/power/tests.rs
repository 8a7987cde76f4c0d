//! The tests.

use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex};

use crate::disk::{Node, Op};
use crate::driver::End;
use crate::judge::{Acknowledged, Judge, runtime};
use crate::options::Options;
use crate::plan::Plan;
use crate::random::Random;
use crate::record::{Loss, Record};
use crate::{everything, pruning};

/// Number of payments and operators in a plan.
const THINGS: usize = 240;
/// Number of images that must show the effect of missing syncs.
const SHOWN: usize = 150;

/// Maximum number of images that must show the effect of durable writes. One in eight to one in four does.
const SHOWN_LATE: usize = 96;

/// A record and the judge of its images.
type Recorded = (Arc<Judge>, Arc<Record>);

/// The record of the first processes, which all tests share.
static FIRST: LazyLock<Mutex<Option<Recorded>>> = LazyLock::new(Mutex::default);

/// Processes on an empty disk: the first opening, regular and immediate ends, and a long run.
fn first(options: &Options) -> Recorded {
    let mut first = FIRST.lock().unwrap();
    let (judge, record) = first.get_or_insert_with(|| {
        let judge = Arc::new(Judge::new(Plan::new(options.seed, THINGS)));
        let root = tempfile::tempdir().unwrap();
        let processes = [
            (60, End::AtOnce),
            (300, End::InOrder),
            (900, End::AtOnce),
            (usize::MAX >> 1, End::InOrder),
        ];
        let known = Acknowledged::nothing(judge.plan());
        let record = Record::run(root.path(), &judge, known, options.seed, &processes);
        (judge, Arc::new(record))
    });
    (Arc::clone(judge), Arc::clone(record))
}

pub(crate) fn what_was_acknowledged_outlives_a_power_cut(options: &Options) {
    let (judge, record) = first(options);
    let content = record.content();
    println!(
        "power: seed {}, {} segments written over, {content:?}",
        options.seed, content.reused
    );
    assert!(content.reused > 0, "no segment is written over");
    assert!(content.snapshots >= 3, "the record has too few snapshots");
    let keep = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("power");
    let mut random = Random::new(options.seed);
    is_safe(&record);
    let mut losses = record.judge(&judge, options.images * 2 / 5, random.next(), Some(&keep));
    // Power fails again during the store's recovery, or soon afterwards.
    let mut record = record;
    for _ in 0..2 {
        let (image, known) = record.image(&judge, &mut random);
        let root = tempfile::tempdir().unwrap();
        image.write(root.path()).unwrap();
        let processes = [(120, End::AtOnce), (300, End::InOrder)];
        record = Arc::new(Record::run(
            root.path(),
            &judge,
            known,
            options.seed,
            &processes,
        ));
        let images = options.images.div_ceil(5);
        losses.extend(record.judge(&judge, images, random.next(), Some(&keep)));
    }
    println!("power: {} images with losses", losses.len());
    tell(&losses);
    assert!(
        losses.is_empty(),
        "what was acknowledged is lost: run again with `--test power -- --seed {}`",
        options.seed
    );
}

/// Checks images of a record, and sled's use of its log.
fn holds(record: &Record, judge: &Arc<Judge>, images: usize, options: &Options) {
    let keep = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("power");
    let losses = record.judge(judge, images, options.seed, Some(&keep));
    println!("power: {images} images, {} with losses", losses.len());
    tell(&losses);
    assert!(
        losses.is_empty(),
        "what was acknowledged is lost: run again with `--test power -- --seed {}`",
        options.seed
    );
    is_safe(record);
}

/// Asserts that sled assumes only synced data to be durable.
fn is_safe(record: &Record) {
    let log = record.log();
    println!(
        "power: at most {} kB of the database were not synced",
        log.most >> 10
    );
    assert!(log.broken.is_empty(), "{:#?}", log.broken);
    // sled skips a page whose separate file was lost in a cut, and so tears its group.
    let blobs = record.content().blobs;
    assert_eq!(blobs, 0, "a page has a file of its own");
}

pub(crate) fn every_operation_outlives_a_power_cut(options: &Options) {
    let missing = everything::missing();
    assert!(
        missing.is_empty(),
        "the plan lacks what a store does: {missing:?}"
    );
    let judge = Arc::new(Judge::new(Plan::everything()));
    let root = tempfile::tempdir().unwrap();
    let processes = [
        (20, End::AtOnce),
        (20, End::WrittenAnew),
        (usize::MAX >> 1, End::InOrder),
    ];
    let known = Acknowledged::nothing(judge.plan());
    let record = Record::run(root.path(), &judge, known, options.seed, &processes);
    let known = record.acknowledged(&judge);
    assert!(known.is_all(judge.plan()), "{known:?}");
    holds(&record, &judge, options.images, options);
}

pub(crate) fn what_is_left_while_deliveries_are_pruned_outlives_a_power_cut(options: &Options) {
    let judge = Arc::new(Judge::new(Plan::pruning(options.deliveries)));
    let root = tempfile::tempdir().unwrap();
    runtime().block_on(pruning::fill(root.path(), options.deliveries));
    let known = Acknowledged::nothing(judge.plan());
    let processes = [(usize::MAX >> 1, End::InOrder)];
    let record = Record::run(root.path(), &judge, known, options.seed, &processes);
    assert!(record.acknowledged(&judge).is_all(judge.plan()));
    let without = record.without_durable_write();
    let (mut losses, mut shown) = (Vec::new(), 0);
    while losses.is_empty() && shown < SHOWN_LATE {
        losses = without.judge_late(&judge, SHOWN_LATE / 8, options.seed + shown as u64);
        shown += SHOWN_LATE / 8;
    }
    println!(
        "power: without durable writes at most {} kB were not synced, {} of {shown} images have losses",
        without.log().most >> 10,
        losses.len()
    );
    tell(&losses);
    assert!(!losses.is_empty(), "none is found");
    holds(&record, &judge, options.images.div_ceil(40), options);
}

/// When a segment has no live data, sled overwrites it with zeros as soon as the snapshot has its name. On the
/// disk, either may be present without the other (`tail`).
pub(crate) fn a_snapshot_has_its_name_before_the_database_is_synced(options: &Options) {
    let (_, record) = first(options);
    assert!(record.content().snapshots >= 3);
    assert_eq!(record.syncs_before_a_snapshots_name(), 0);
}

/// A start reads the log, names a snapshot and empties log segments. The next start must find everything, no
/// matter which of these changes the disk contains.
pub(crate) fn no_cut_at_a_start_costs_anything(options: &Options) {
    let keep = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("power");
    let (judge, record) = first(options);
    let (mut images, mut losses) = record.judge_starts(&judge, options.seed, Some(&keep));
    // Starts in quick succession, so that one empties the segment before the log's last. Which segments are empty
    // depends on sled's threads.
    for seed in (options.seed..).take(4) {
        let judge = Arc::new(Judge::new(Plan::new(seed, THINGS)));
        let root = tempfile::tempdir().unwrap();
        let known = Acknowledged::nothing(judge.plan());
        let record = Record::run(root.path(), &judge, known, seed, &[(150, End::AtOnce); 12]);
        let (more, lost) = record.judge_starts(&judge, seed, Some(&keep));
        images += more;
        losses.extend(lost);
        if more > 0 {
            break;
        }
    }
    println!(
        "power: {images} images of starts, {} with losses",
        losses.len()
    );
    tell(&losses);
    assert!(images > 0, "no start has emptied anything");
    assert!(
        losses.is_empty(),
        "what was acknowledged is lost: run again with `--test power -- --seed {}`",
        options.seed
    );
}

pub(crate) fn a_store_without_data_syncs_is_found_to_lose(options: &Options) {
    let (judge, record) = first(options);
    let without = record.without(|op| {
        matches!(
            op,
            Op::Sync {
                data_only: true,
                ..
            }
        )
    });
    let losses = without.judge(&judge, SHOWN, options.seed, None);
    println!(
        "power: without fdatasync {} of {SHOWN} images have losses",
        losses.len()
    );
    assert!(losses.len() > SHOWN / 4, "too few are found: {losses:?}");
}

pub(crate) fn a_store_without_folder_syncs_is_found_to_lose(options: &Options) {
    let (judge, record) = first(options);
    let is_folder = |op: &Op| {
        matches!(
            op,
            Op::Sync {
                node: Node::Folder(_),
                ..
            }
        )
    };
    let losses = record
        .without(is_folder)
        .judge(&judge, SHOWN, options.seed, None);
    println!(
        "power: without syncs of folders {} of {SHOWN} images have losses",
        losses.len()
    );
    assert!(losses.len() > SHOWN / 4, "too few are found: {losses:?}");
}

/// Prints one example of each kind of loss.
fn tell(losses: &[Loss]) {
    let mut told = Vec::new();
    for loss in losses {
        let kind = loss.why.split(':').next().unwrap_or_default();
        if !told.contains(&kind) {
            told.push(kind);
            let alike = losses.iter().filter(|other| other.why.starts_with(kind));
            println!(
                "power: {} times: {} ({})",
                alike.count(),
                loss.why,
                loss.place
            );
        }
    }
}
