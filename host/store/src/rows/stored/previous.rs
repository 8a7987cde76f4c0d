//! Rows as the layout before this one wrote them, read and written in this one's. Postcard names no
//! fields, so each type that has changed since stands here as it was.

use kassette_domain::provider::{Dispute, ProviderRefund, RefundState, Report, VendorSettlement};
use kassette_domain::returns::Disputed;

use super::*;

#[cfg_attr(test, derive(Serialize))]
#[derive(Deserialize)]
pub(crate) struct PreviousAttemptRow {
    id: AttemptId,
    account: AccountId,
    slot: Slot,
    digest: Digest,
    method: MethodId,
    due: Money,
    state: AttemptState,
    until: Option<Time>,
    references: Vec<String>,
    uncertain: bool,
    vendor: Option<VendorFacts>,
    busy_until: Option<Time>,
    next_query: Option<Time>,
    queries: u8,
    silences: u8,
    silent_since: Option<Time>,
    notices: u32,
    notices_answered: u32,
    watched_from: Time,
    hold_until: Option<Time>,
    retries: u8,
    last_sent: Time,
    closing: bool,
    returns: PreviousReturns,
    /// Its refunds and disputes were never kept, so that it reads as it is now.
    particulars: Particulars,
    heard: Vec<(Via, VendorStatus)>,
    opened_at: Time,
    expires_at: Time,
    ended_at: Option<Time>,
    detail: String,
    sealed: Vec<u8>,
}

#[cfg_attr(test, derive(Serialize))]
#[derive(Deserialize)]
struct PreviousAttemptSecrets {
    return_token: Secret,
    answers: Vec<(String, Secret)>,
    payer: Payer,
    returned: Option<Secret>,
    action: Option<Action>,
}

#[cfg_attr(test, derive(Serialize))]
#[derive(Deserialize)]
struct PreviousReturns {
    refunds: Vec<PreviousRefund>,
    disputes: Vec<Disputed>,
    told: Minor,
}

#[cfg_attr(test, derive(Serialize))]
#[derive(Deserialize)]
struct PreviousRefund {
    id: Option<String>,
    amount: Minor,
    state: RefundState,
    at: Time,
}

/// Rows of this layout that stand for one of the layout before.
type Rows = Vec<(Key, IVec)>;

fn one<T: Serialize>(key: &[u8], row: &T) -> Result<Rows, Fault> {
    let row = records::encode(key, row)?;
    Ok(vec![(key.to_vec(), row)])
}

/// An attempt's row. What went back is sealed now, and each refund has a row by which it is found.
pub(crate) fn attempt(sealer: &Sealer, key: &[u8], row: &[u8]) -> Result<Rows, Fault> {
    let old: PreviousAttemptRow = records::decode(key, row)?;
    let secrets: PreviousAttemptSecrets = sealer
        .open(key, &old.sealed)
        .map_err(|unopened| closed(key, unopened))?;
    let PreviousReturns {
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
struct PreviousEventRow {
    id: EventId,
    kind: EventType,
    created_at: Time,
    status: Status,
    settlement: Settlement,
}

/// An event's row.
pub(crate) fn event(_: &Sealer, key: &[u8], row: &[u8]) -> Result<Rows, Fault> {
    let old: PreviousEventRow = records::decode(key, row)?;
    let new = EventRow {
        id: old.id,
        kind: old.kind,
        created_at: old.created_at,
        status: old.status,
        settlement: old.settlement,
        refund: None,
    };
    one(key, &new)
}

#[cfg_attr(test, derive(Serialize))]
#[derive(Deserialize)]
struct PreviousReport {
    reference: String,
    status: VendorStatus,
    settlement: VendorSettlement,
    received: Minor,
    currency: String,
    returned: Minor,
    detail: String,
    particulars: PreviousParticulars,
}

#[cfg_attr(test, derive(Serialize))]
#[derive(Deserialize)]
struct PreviousParticulars {
    provider_status: Option<String>,
    reason: Option<String>,
    references: Vec<String>,
    fee: Option<(Minor, String)>,
    authorised_at: Option<Time>,
    captured_at: Option<Time>,
    capture_before: Option<Time>,
    instrument: Option<String>,
    refunds: Vec<PreviousProviderRefund>,
    disputes: Vec<Dispute>,
}

#[cfg_attr(test, derive(Serialize))]
#[derive(Deserialize)]
struct PreviousProviderRefund {
    id: String,
    amount: Minor,
    state: RefundState,
}

/// A pending callback's row.
pub(crate) fn pending_callback(_: &Sealer, key: &[u8], row: &[u8]) -> Result<Rows, Fault> {
    let (old, until): (Option<PreviousReport>, Time) = records::decode(key, row)?;
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

fn of_before(old: PreviousParticulars) -> Particulars {
    let refund = |old: PreviousProviderRefund| ProviderRefund {
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

/// Rows of this layout as the one before wrote them, for tests.
#[cfg(test)]
pub(crate) mod written {
    use kassette_domain::refund::Refund;

    use super::*;

    pub(crate) fn attempt(sealer: &Sealer, key: &[u8], row: &[u8]) -> IVec {
        let attempt = open_attempt(sealer, key, row).unwrap();
        let secrets = PreviousAttemptSecrets {
            return_token: attempt.return_token,
            answers: attempt.answers,
            payer: attempt.payer,
            returned: attempt.returned,
            action: attempt.action,
        };
        let returns = postcard::to_stdvec(&attempt.returns).unwrap();
        let (refunds, disputes, told, _): (Vec<Refund>, _, _, u32) =
            postcard::from_bytes(&returns).unwrap();
        let refund = |refund: Refund| PreviousRefund {
            id: refund.reference,
            amount: refund.amount,
            state: refund.state,
            at: refund.at,
        };
        let old = PreviousAttemptRow {
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
            returns: PreviousReturns {
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
        let old = PreviousEventRow {
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
        let refund = |refund: ProviderRefund| PreviousProviderRefund {
            id: refund.id,
            amount: refund.amount,
            state: refund.state,
        };
        let old = report.map(|report| PreviousReport {
            reference: report.reference,
            status: report.status,
            settlement: report.settlement,
            received: report.received,
            currency: report.currency,
            returned: report.returned,
            detail: report.detail,
            particulars: PreviousParticulars {
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
