//! Every kind of row in one table: backups, `verify` and `rekey` go by it. A row that fits no entry
//! is damage, so a new kind of row needs one entry in the table of the folder that it stands in.

use std::sync::LazyLock;

use kassette_engine::{GROUP, IVec, PROBE, Span};
use serde::de::DeserializeOwned;

use crate::Fault;
use crate::rows::routing::RoutingLogTotals;
use crate::rows::source::RowSource as _;
use crate::rows::stored::AllReached;
use crate::rows::{records, schema};
use crate::sled::memory::View;
use crate::sled::memory::payment_index::Entry;
use crate::sled::open::{self, this_format};
use crate::sled::verifier::Verifier;
use crate::sled::verifier::kinds::{Kind, Kinds, empty, plain, whole as sealed};
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
pub(crate) fn format(_: &mut Verifier<'_>, key: &[u8], row: &IVec) -> Result<(), Fault> {
    if **row == open::FORMAT.to_be_bytes() {
        return Ok(());
    }
    Err(records::damaged(key, "it is another format's"))
}

/// The proof of the master key.
pub(crate) fn canary(verifier: &mut Verifier<'_>, key: &[u8], row: &IVec) -> Result<(), Fault> {
    match open::prove(&verifier.secrets.sealer, row) {
        Ok(true) => Ok(()),
        _ => Err(records::damaged(key, "it does not prove the master key")),
    }
}

/// The key of the e-mail mark.
pub(crate) fn mark(verifier: &mut Verifier<'_>, key: &[u8], row: &IVec) -> Result<(), Fault> {
    open::mark(&verifier.secrets.sealer, row)
        .map(drop)
        .map_err(|_| records::damaged(key, "it does not open"))
}

/// What holds of the whole, once every row was seen.
pub(crate) fn whole(verifier: &mut Verifier<'_>) -> Result<(), Fault> {
    if let Some(noted) = readable(verifier, schema::AUDIT_END)? {
        verifier.audit.end(noted);
    }
    let breaks = verifier.audit.breaks().to_vec();
    for found in breaks {
        verifier.find(schema::AUDIT, found.to_string());
    }
    if verifier.has_unread() {
        return Ok(());
    }
    let (merchants, pending) = (verifier.rows_of(schema::MERCHANTS), verifier.pending);
    let resellers = verifier.rows_of(schema::resellers::RESELLERS);
    for (key, there, what) in [
        (schema::MERCHANT_COUNT, merchants, "merchants"),
        (schema::resellers::COUNT, resellers, "resellers"),
        (schema::webhooks::PENDING, pending, "pending deliveries"),
    ] {
        let count = readable::<u64>(verifier, key)?.map(Option::unwrap_or_default);
        if let Some(count) = count.filter(|count| *count != there) {
            verifier.find(key, format!("it counts {count} {what}, {there} are there"));
        }
    }
    if let Some(log) = readable::<RoutingLogTotals>(verifier, schema::ROUTING_LOG)? {
        let (log, there) = (log.unwrap_or_default(), verifier.routing);
        if log.bytes != there.bytes || log.next < there.next {
            let what = format!(
                "it counts {} bytes and {} batches ever, {} and {} are there",
                log.bytes, log.next, there.bytes, there.next
            );
            verifier.find(schema::ROUTING_LOG, what);
        }
    }
    for key in [schema::FORMAT, schema::CANARY, schema::MARK] {
        if verifier.view().get(key)?.is_none() {
            verifier.find(key, "it is missing");
        }
    }
    Ok(())
}

/// A value that stands once in a store, none where it is not there; none at all where it does not
/// read back, which was told by its own row.
fn readable<T: DeserializeOwned>(
    verifier: &Verifier<'_>,
    key: &[u8],
) -> Result<Option<Option<T>>, Fault> {
    records::readable(verifier.view().load(key))
}

/// A payment that retention looks at again.
pub(crate) fn laggard(verifier: &mut Verifier<'_>, key: &[u8], row: &IVec) -> Result<(), Fault> {
    empty(verifier, key, row)?;
    let (_, payment) =
        schema::laggard_about(key).ok_or_else(|| records::damaged(key, "it is about nothing"))?;
    let missing = "the payment that it is about is missing";
    verifier.needs(key, &schema::payment(payment), missing)
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
