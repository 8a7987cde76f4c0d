//! Rows of format 4: payments whose refunds had no rows.

use kassette_domain::provider::{Dispute, RefundState, Report, VendorRefund, VendorSettlement};
use kassette_domain::returns::Disputed;

use super::v5;
use super::*;

#[cfg_attr(test, derive(Serialize))]
#[derive(Deserialize)]
pub(super) struct V4AttemptRow {
    pub(super) id: AttemptId,
    pub(super) account: AccountId,
    pub(super) slot: Slot,
    pub(super) digest: Digest,
    pub(super) method: MethodId,
    pub(super) due: Money,
    pub(super) state: AttemptState,
    pub(super) until: Option<Time>,
    pub(super) references: Vec<String>,
    pub(super) uncertain: bool,
    pub(super) vendor: Option<VendorFacts>,
    pub(super) busy_until: Option<Time>,
    pub(super) next_query: Option<Time>,
    pub(super) queries: u8,
    pub(super) silences: u8,
    pub(super) silent_since: Option<Time>,
    pub(super) notices: u32,
    pub(super) notices_answered: u32,
    pub(super) watched_from: Time,
    pub(super) hold_until: Option<Time>,
    pub(super) retries: u8,
    pub(super) last_sent: Time,
    pub(super) closing: bool,
    pub(super) returns: V4Returns,
    /// Its refunds and disputes were never kept, so that it reads as it is now.
    pub(super) particulars: Particulars,
    pub(super) heard: Vec<(Via, VendorStatus)>,
    pub(super) opened_at: Time,
    pub(super) expires_at: Time,
    pub(super) ended_at: Option<Time>,
    pub(super) detail: String,
    pub(super) sealed: Vec<u8>,
}

#[cfg_attr(test, derive(Serialize))]
#[derive(Deserialize)]
struct V4AttemptSecrets {
    return_token: Secret,
    answers: Vec<(String, Secret)>,
    payer: Payer,
    returned: Option<Secret>,
    action: Option<PayerAction>,
}

#[cfg_attr(test, derive(Serialize))]
#[derive(Deserialize)]
pub(super) struct V4Returns {
    pub(super) refunds: Vec<V4Refund>,
    pub(super) disputes: Vec<Disputed>,
    pub(super) told: Minor,
}

#[cfg_attr(test, derive(Serialize))]
#[derive(Deserialize)]
pub(super) struct V4Refund {
    pub(super) id: Option<String>,
    pub(super) amount: Minor,
    pub(super) state: RefundState,
    pub(super) at: Time,
}

/// An attempt's row.
pub(crate) fn attempt(
    _: &Memtable,
    sealer: &Sealer,
    key: &[u8],
    row: &[u8],
) -> Result<Rows, Fault> {
    attempt_now(sealer, key, records::decode(key, row)?)
}

/// What went back is sealed now, and each refund has a row by which it is found.
pub(super) fn attempt_now(sealer: &Sealer, key: &[u8], old: V4AttemptRow) -> Result<Rows, Fault> {
    let secrets: V4AttemptSecrets = sealer
        .open(key, &old.sealed)
        .map_err(|unopened| closed(key, unopened))?;
    let V4Returns {
        refunds,
        disputes,
        told,
    } = old.returns;
    let refunds = refunds
        .into_iter()
        .map(|refund| (refund.id, refund.amount, refund.state, refund.at));
    let returns = Returns::of_before(refunds, disputes, told, old.id);
    let payment = schema::payment_of_attempt(key)
        .ok_or_else(|| records::damaged(key, "it names no payment"))?;
    let attempt_key = AttemptKey {
        payment,
        ordinal: key.last().copied().unwrap_or_default(),
    };
    let mut rows = Rows::new();
    for refund in &returns.refunds {
        rows.extend(one(&schema::refund_index(refund.id), &attempt_key)?);
    }
    let secrets = AttemptSecrets {
        return_token: Cow::Owned(secrets.return_token),
        answers: secrets.answers.into(),
        payer: Cow::Owned(secrets.payer),
        returned: secrets.returned.map(Cow::Owned),
        action: secrets.action.map(Cow::Owned),
        returns: Cow::Owned(returns),
    };
    let new = AttemptRow {
        id: old.id,
        account: Cow::Owned(old.account),
        slot: Cow::Owned(old.slot),
        digest: old.digest,
        method: old.method,
        due: old.due,
        state: old.state,
        until: old.until,
        references: old.references.into(),
        uncertain: old.uncertain,
        vendor: old.vendor.map(Cow::Owned),
        busy_until: old.busy_until,
        next_query: old.next_query,
        queries: old.queries,
        silences: old.silences,
        silent_since: old.silent_since,
        notices: old.notices,
        notices_answered: old.notices_answered,
        watched_from: old.watched_from,
        hold_until: old.hold_until,
        retries: old.retries,
        last_sent: old.last_sent,
        closing: old.closing,
        particulars: Cow::Owned(old.particulars),
        heard: old.heard.into(),
        opened_at: old.opened_at,
        expires_at: old.expires_at,
        ended_at: old.ended_at,
        detail: old.detail.into(),
        sealed: sealer.seal(key, &secrets)?.into(),
    };
    rows.extend(one(key, &new)?);
    Ok(rows)
}

#[cfg_attr(test, derive(Serialize))]
#[derive(Deserialize)]
struct V4EventRow {
    id: EventId,
    kind: EventType,
    created_at: Time,
    status: Status,
    settlement: Settlement,
}

/// An event's row.
pub(crate) fn event(
    memtable: &Memtable,
    _: &Sealer,
    key: &[u8],
    row: &[u8],
) -> Result<Rows, Fault> {
    let old: V4EventRow = records::decode(key, row)?;
    let new = EventRow {
        id: old.id,
        kind: old.kind,
        created_at: old.created_at,
        status: old.status,
        settlement: old.settlement,
        beside: Beside::Nothing,
    };
    v5::event_now(memtable, key, new)
}

#[cfg_attr(test, derive(Serialize))]
#[derive(Deserialize)]
pub(super) struct V4Report {
    pub(super) reference: String,
    pub(super) status: VendorStatus,
    pub(super) settlement: VendorSettlement,
    pub(super) received: Minor,
    pub(super) currency: String,
    pub(super) returned: Minor,
    pub(super) detail: String,
    pub(super) particulars: V4Particulars,
}

#[cfg_attr(test, derive(Serialize))]
#[derive(Default, Deserialize)]
pub(super) struct V4Particulars {
    provider_status: Option<String>,
    reason: Option<String>,
    references: Vec<String>,
    fee: Option<(Minor, String)>,
    authorised_at: Option<Time>,
    captured_at: Option<Time>,
    capture_before: Option<Time>,
    instrument: Option<String>,
    refunds: Vec<V4ProviderRefund>,
    disputes: Vec<Dispute>,
}

#[cfg_attr(test, derive(Serialize))]
#[derive(Deserialize)]
pub(super) struct V4ProviderRefund {
    id: String,
    amount: Minor,
    state: RefundState,
}

/// A pending callback's row.
pub(crate) fn pending_callback(
    _: &Memtable,
    _: &Sealer,
    key: &[u8],
    row: &[u8],
) -> Result<Rows, Fault> {
    let (old, until) = records::decode(key, row)?;
    pending_callback_now(key, old, until)
}

pub(super) fn pending_callback_now(
    key: &[u8],
    old: Option<V4Report>,
    until: Time,
) -> Result<Rows, Fault> {
    let report = old.map(|old| Report {
        reference: old.reference,
        status: old.status,
        settlement: old.settlement,
        received: old.received,
        currency: old.currency,
        returned: old.returned,
        detail: old.detail,
        particulars: of_before(old.particulars),
    });
    one(key, &PendingCallback { report, until })
}

fn of_before(old: V4Particulars) -> Particulars {
    let refund = |old: V4ProviderRefund| VendorRefund {
        id: old.id,
        order: None,
        amount: old.amount,
        state: old.state,
    };
    Particulars {
        provider_status: old.provider_status,
        reason: old.reason,
        references: old.references,
        fee: old.fee,
        authorised_at: old.authorised_at,
        captured_at: old.captured_at,
        capture_before: old.capture_before,
        instrument: old.instrument,
        refunds: old.refunds.into_iter().map(refund).collect(),
        disputes: old.disputes,
    }
}

/// Rows of this format as format 4 wrote them, for tests.
#[cfg(test)]
pub(crate) mod written {
    use kassette_domain::refund::Refund;

    use super::*;

    pub(crate) fn attempt(sealer: &Sealer, key: &[u8], row: &[u8]) -> IVec {
        let attempt = open_attempt(sealer, key, row).unwrap();
        let secrets = V4AttemptSecrets {
            return_token: attempt.return_token,
            answers: attempt.answers,
            payer: attempt.payer,
            returned: attempt.returned,
            action: attempt.action,
        };
        let returns = postcard::to_stdvec(&attempt.returns).unwrap();
        let (refunds, disputes, told, _): (Vec<Refund>, _, _, u32) =
            postcard::from_bytes(&returns).unwrap();
        let refund = |refund: Refund| V4Refund {
            id: refund.reference,
            amount: refund.amount,
            state: refund.state,
            at: refund.at,
        };
        let old = V4AttemptRow {
            id: attempt.id,
            account: attempt.account,
            slot: attempt.slot,
            digest: attempt.digest,
            method: attempt.method,
            due: attempt.due,
            state: attempt.state,
            until: attempt.until,
            references: attempt.references,
            uncertain: attempt.uncertain,
            vendor: attempt.vendor,
            busy_until: attempt.busy_until,
            next_query: attempt.next_query,
            queries: attempt.queries,
            silences: attempt.silences,
            silent_since: attempt.silent_since,
            notices: attempt.notices,
            notices_answered: attempt.notices_answered,
            watched_from: attempt.watched_from,
            hold_until: attempt.hold_until,
            retries: attempt.retries,
            last_sent: attempt.last_sent,
            closing: attempt.closing,
            returns: V4Returns {
                refunds: refunds.into_iter().map(refund).collect(),
                disputes,
                told,
            },
            particulars: attempt.particulars,
            heard: attempt.heard,
            opened_at: attempt.opened_at,
            expires_at: attempt.expires_at,
            ended_at: attempt.ended_at,
            detail: attempt.detail,
            sealed: sealer.seal(key, &secrets).unwrap(),
        };
        records::encode(key, &old).unwrap()
    }

    pub(crate) fn event(key: &[u8], row: &[u8]) -> IVec {
        let event: EventRow = records::decode(key, row).unwrap();
        let old = V4EventRow {
            id: event.id,
            kind: event.kind,
            created_at: event.created_at,
            status: event.status,
            settlement: event.settlement,
        };
        records::encode(key, &old).unwrap()
    }

    pub(crate) fn pending_callback(key: &[u8], row: &[u8]) -> IVec {
        let PendingCallback { report, until } = records::decode(key, row).unwrap();
        let refund = |refund: VendorRefund| V4ProviderRefund {
            id: refund.id,
            amount: refund.amount,
            state: refund.state,
        };
        let old = report.map(|report| V4Report {
            reference: report.reference,
            status: report.status,
            settlement: report.settlement,
            received: report.received,
            currency: report.currency,
            returned: report.returned,
            detail: report.detail,
            particulars: V4Particulars {
                provider_status: report.particulars.provider_status,
                reason: report.particulars.reason,
                references: report.particulars.references,
                fee: report.particulars.fee,
                authorised_at: report.particulars.authorised_at,
                captured_at: report.particulars.captured_at,
                capture_before: report.particulars.capture_before,
                instrument: report.particulars.instrument,
                refunds: report.particulars.refunds.into_iter().map(refund).collect(),
                disputes: report.particulars.disputes,
            },
        });
        records::encode(key, &(old, until)).unwrap()
    }
}
