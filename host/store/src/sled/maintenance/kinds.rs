//! Every kind of row in one table: backups, `verify` and `rekey` go by it. A row that fits no entry
//! is damage, so a new kind of row needs one entry in the table of the folder that it stands in.

use std::sync::LazyLock;

use kassette_engine::{GROUP, IVec, PROBE, Span};
use serde::de::DeserializeOwned;

use crate::Fault;
use crate::rows::routing::Log;
use crate::rows::source::Source as _;
use crate::rows::stored::AllReached;
use crate::rows::{records, schema};
use crate::sled::judge::Judge;
use crate::sled::judge::kinds::{Kind, Kinds, empty, plain, whole as sealed};
use crate::sled::memory::View;
use crate::sled::memory::payment_index::Entry;
use crate::sled::open::{self, this_format};
use crate::sled::{
    audit, connect, merchants, nonces, payments, resellers, routing_log, trials, webhooks,
};

/// All kinds.
pub(crate) static KINDS: LazyLock<Kinds> = LazyLock::new(|| {
    Kinds::of(&[
        OWN,
        audit::checks::KINDS,
        connect::checks::KINDS,
        merchants::checks::KINDS,
        nonces::checks::KINDS,
        payments::checks::KINDS,
        resellers::checks::KINDS,
        routing_log::checks::KINDS,
        trials::checks::KINDS,
        webhooks::checks::KINDS,
    ])
});

/// Rows of the store as a whole.
const OWN: &[Kind] = &[
    Kind::new(16, "retention-laggard", schema::LAGGARDS, laggard),
    Kind::new(19, "canary", schema::CANARY, canary).sealing(sealed::<String>),
    Kind::new(20, "format", schema::FORMAT, format)
        .migrated_by(&[(open::FORMAT - 1, |_, _, key, _| {
            Ok(vec![(key.to_vec(), this_format())])
        })]),
    Kind::new(21, "last-group", GROUP, plain::<u64>),
    Kind::new(22, "mark-key", schema::MARK, mark).sealing(sealed::<[u8; 32]>),
    Kind::new(25, "probe", PROBE, plain::<u64>),
    Kind::new(26, "retention", schema::RETENTION, plain::<AllReached>),
];

/// The row of the format is in a form of its own.
pub(crate) fn format(_: &mut Judge<'_>, key: &[u8], row: &IVec) -> Result<(), Fault> {
    if **row == open::FORMAT.to_be_bytes() {
        return Ok(());
    }
    Err(records::damaged(key, "it is another format's"))
}

/// The proof of the master key.
pub(crate) fn canary(judge: &mut Judge<'_>, key: &[u8], row: &IVec) -> Result<(), Fault> {
    match open::prove(&judge.secrets.sealer, row) {
        Ok(true) => Ok(()),
        _ => Err(records::damaged(key, "it does not prove the master key")),
    }
}

/// The key of the e-mail mark.
pub(crate) fn mark(judge: &mut Judge<'_>, key: &[u8], row: &IVec) -> Result<(), Fault> {
    open::mark(&judge.secrets.sealer, row)
        .map(drop)
        .map_err(|_| records::damaged(key, "it does not open"))
}

/// What holds of the whole, once every row was seen.
pub(crate) fn whole(judge: &mut Judge<'_>) -> Result<(), Fault> {
    if let Some(noted) = readable(judge, schema::AUDIT_END)? {
        judge.audit.end(noted);
    }
    let breaks = judge.audit.breaks().to_vec();
    for found in breaks {
        judge.find(schema::AUDIT, found.to_string());
    }
    if judge.has_unread() {
        return Ok(());
    }
    if let Some(count) = readable::<u64>(judge, schema::MERCHANT_COUNT)? {
        let (count, there) = (count.unwrap_or_default(), judge.rows_of(schema::MERCHANTS));
        if count != there {
            let what = format!("it counts {count} merchants, {there} are there");
            judge.find(schema::MERCHANT_COUNT, what);
        }
    }
    if let Some(count) = readable::<u64>(judge, schema::resellers::COUNT)? {
        let there = judge.rows_of(schema::resellers::RESELLERS);
        let count = count.unwrap_or_default();
        if count != there {
            let what = format!("it counts {count} resellers, {there} are there");
            judge.find(schema::resellers::COUNT, what);
        }
    }
    if let Some(count) = readable::<u64>(judge, schema::webhooks::PENDING)? {
        let (count, there) = (count.unwrap_or_default(), judge.pending);
        if count != there {
            let what = format!("it counts {count} pending deliveries, {there} are there");
            judge.find(schema::webhooks::PENDING, what);
        }
    }
    if let Some(log) = readable::<Log>(judge, schema::ROUTING_LOG)? {
        let (log, there) = (log.unwrap_or_default(), judge.routing);
        if log.bytes != there.bytes || log.next < there.next {
            let what = format!(
                "it counts {} bytes and {} batches ever, {} and {} are there",
                log.bytes, log.next, there.bytes, there.next
            );
            judge.find(schema::ROUTING_LOG, what);
        }
    }
    for key in [schema::FORMAT, schema::CANARY, schema::MARK] {
        if judge.view().get(key)?.is_none() {
            judge.find(key, "it is missing");
        }
    }
    Ok(())
}

/// A value that stands once in a store, none where it is not there; none at all where it does not
/// read back, which was told by its own row.
fn readable<T: DeserializeOwned>(
    judge: &Judge<'_>,
    key: &[u8],
) -> Result<Option<Option<T>>, Fault> {
    records::readable(judge.view().load(key))
}

/// A payment that retention looks at again.
pub(crate) fn laggard(judge: &mut Judge<'_>, key: &[u8], row: &IVec) -> Result<(), Fault> {
    empty(judge, key, row)?;
    let (_, payment) =
        schema::laggard_about(key).ok_or_else(|| records::damaged(key, "it is about nothing"))?;
    if judge.view().get(&schema::payment(payment))?.is_none() {
        judge.find(key, "the payment that it is about is missing");
    }
    Ok(())
}

/// How many payments there are, as the payment index's last row says.
pub(crate) fn counted_payments(view: &View<'_>) -> Result<u64, Fault> {
    let last = view
        .scan_back(&Span::prefix(schema::PAYMENT_INDEX), 1)?
        .pop();
    let Some((key, row)) = last else {
        return Ok(0);
    };
    payments_until(&key, &row)
}

/// How many payments there are up to the end of a row of the payment index.
pub(crate) fn payments_until(key: &[u8], row: &[u8]) -> Result<u64, Fault> {
    let entries: Vec<Entry> = records::decode(key, row)?;
    let first = schema::payment_index_first(key).unwrap_or_default();
    Ok(u64::from(first) + entries.len() as u64)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn kinds_stand_in_order_and_none_begins_like_another() {
        for pair in KINDS.all().windows(2) {
            let [first, second] = pair else {
                unreachable!()
            };
            assert!(first.prefix < second.prefix, "{}", second.name);
            assert!(!second.prefix.starts_with(first.prefix), "{}", second.name);
        }
    }

    #[test]
    fn every_kind_has_a_number_and_a_name_of_its_own() {
        let tags: BTreeSet<u8> = KINDS.all().iter().map(|kind| kind.tag).collect();
        let names: BTreeSet<&str> = KINDS.all().iter().map(|kind| kind.name).collect();
        assert_eq!(
            (tags.len(), names.len()),
            (KINDS.all().len(), KINDS.all().len())
        );
    }

    #[test]
    fn a_key_is_found_by_its_prefix_alone() {
        for kind in KINDS.all() {
            let key = KINDS.join(kind.tag, b"rest").unwrap();
            let (found, rest) = KINDS.find(&key).unwrap();
            assert_eq!((found.tag, rest), (kind.tag, &b"rest"[..]));
        }
        for unknown in [&b""[..], b"aaa/", b"pay", b"paz/1", b"zzz/1"] {
            assert!(KINDS.find(unknown).is_none());
        }
    }
}
