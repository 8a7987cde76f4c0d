//! Table of all kinds of rows, which backups, `verify` and `rekey` use. A row that matches no entry is
//! damage, so a new kind of row needs an entry in the table of its folder.

use std::sync::LazyLock;

use kassette_engine::{GROUP, IVec, PROBE, Span};
use serde::de::DeserializeOwned;

use crate::Fault;
use crate::newest::GONE;
use crate::rows::routing::RoutingLogTotals;
use crate::rows::source::RowSource as _;
use crate::rows::stored::AllReached;
use crate::rows::{records, schema};
use crate::sled::memory::View;
use crate::sled::memory::payment_index::Entry;
use crate::sled::open;
use crate::sled::verifier::Verifier;
use crate::sled::verifier::kinds::{Kind, Kinds, empty, plain, whole as sealed};
use crate::sled::{
    audit, connect, merchants, movements, nonces, payments, resellers, routing_log, trials,
    webhooks,
};

/// All kinds.
pub(crate) static KINDS: LazyLock<Kinds> = LazyLock::new(|| {
    Kinds::from_tables(&[
        OWN,
        audit::checks::KINDS,
        connect::checks::KINDS,
        merchants::checks::KINDS,
        movements::checks::KINDS,
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
    Kind::new(20, "format", schema::FORMAT, format).bare(),
    Kind::new(21, "last-group", GROUP, engines).bare(),
    Kind::new(22, "mark-key", schema::MARK, mark).sealing(sealed::<[u8; 32]>),
    Kind::new(25, "probe", PROBE, engines).bare(),
    Kind::new(26, "retention", schema::RETENTION, plain::<AllReached>),
];

/// Checks a number of the engine.
fn engines(_: &mut Verifier<'_>, key: &[u8], row: &IVec) -> Result<(), Fault> {
    match kassette_engine::number_in(key, row) {
        Some(_) => Ok(()),
        None => Err(records::damaged(key, "it is not as the engine wrote it")),
    }
}

/// Checks the format row, which has a special encoding.
pub(crate) fn format(_: &mut Verifier<'_>, key: &[u8], row: &IVec) -> Result<(), Fault> {
    if **row == open::FORMAT.to_be_bytes() {
        return Ok(());
    }
    Err(records::damaged(key, "it is another format's"))
}

/// Checks the proof of the master key.
pub(crate) fn canary(verifier: &mut Verifier<'_>, key: &[u8], row: &IVec) -> Result<(), Fault> {
    match open::prove(&verifier.secrets.sealer, row) {
        Ok(true) => Ok(()),
        _ => Err(records::damaged(key, "it does not prove the master key")),
    }
}

/// Checks the key of the e-mail mark.
pub(crate) fn mark(verifier: &mut Verifier<'_>, key: &[u8], row: &IVec) -> Result<(), Fault> {
    open::mark(&verifier.secrets.sealer, row)
        .map(drop)
        .map_err(|_| records::damaged(key, "it does not open"))
}

/// Checks the totals of the store after all rows have been read.
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
    let operators = verifier.newest.operators().map(schema::operator_index);
    let switches = verifier.newest.switched_off().map(schema::switch);
    let granted = verifier.newest.delegations();
    let granted = granted.map(|(reseller, of)| schema::resellers::delegation(reseller, of));
    for key in operators.chain(switches).chain(granted).collect::<Vec<_>>() {
        verifier.needs(&key, &key, GONE)?;
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

/// Reads a value of which a store has at most one. The inner `None` means that it is missing, the outer one
/// that it is damaged, which the check of its own row has reported.
fn readable<T: DeserializeOwned>(
    verifier: &Verifier<'_>,
    key: &[u8],
) -> Result<Option<Option<T>>, Fault> {
    records::readable(verifier.view().load(key))
}

/// Checks the row of a payment that retention examines again.
pub(crate) fn laggard(verifier: &mut Verifier<'_>, key: &[u8], row: &IVec) -> Result<(), Fault> {
    empty(verifier, key, row)?;
    let (_, payment) =
        schema::laggard_about(key).ok_or_else(|| records::damaged(key, "it is about nothing"))?;
    let missing = "the payment that it is about is missing";
    verifier.needs(key, &schema::payment(payment), missing)
}

/// Number of payments according to the last row of the payment index.
pub(crate) fn counted_payments(view: &View<'_>) -> Result<u64, Fault> {
    let last = view
        .scan_back(&Span::prefix(schema::PAYMENT_INDEX), 1)?
        .pop();
    let Some((key, row)) = last else {
        return Ok(0);
    };
    let entries: Vec<Entry> = records::decode(view.sealer(), &key, &row)?;
    let first = schema::payment_index_first(&key).unwrap_or_default();
    Ok(u64::from(first) + entries.len() as u64)
}

/// Number of payments up to the end of a row of the payment index, without authentication: for the statistics
/// of a copy when only its maker has the key.
pub(crate) fn claimed_payments_until(key: &[u8], row: &[u8]) -> u64 {
    let entries = records::decode_unauthenticated::<Vec<Entry>>(row);
    let first = schema::payment_index_first(key).unwrap_or_default();
    entries.map_or(0, |entries| u64::from(first) + entries.len() as u64)
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
