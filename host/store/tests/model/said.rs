//! Builds provider reports from random numbers.

use kassette_domain::id::RefundId;
use kassette_domain::money::{Minor, Money};
use kassette_domain::provider::{
    Dispute, DisputeKind, DisputeState, Particulars, ProviderRefund, ProviderSettlement,
    ProviderStatus, RefundState, Report,
};
use kassette_domain::time::Time;

use crate::op::Said;

pub(crate) const REFUND_STATES: [RefundState; 3] = [
    RefundState::Pending,
    RefundState::Succeeded,
    RefundState::Failed,
];

/// Provider reference of an ordered refund.
pub(crate) fn refund_reference(order: RefundId) -> String {
    format!("vendor's {order}")
}

/// A report about a payment with the amount `due` and these ordered refunds.
pub(crate) fn report(said: Said, due: Money, reference: String, orders: &[RefundId]) -> Report {
    let (due, code) = (due.amount.0, due.currency.code());
    Report {
        reference,
        status: [
            ProviderStatus::Pending,
            ProviderStatus::Processing,
            ProviderStatus::VerificationPending,
            ProviderStatus::Review,
            ProviderStatus::Completed,
            ProviderStatus::Declined,
            ProviderStatus::Failed,
            ProviderStatus::Cancelled,
            ProviderStatus::Expired,
            ProviderStatus::Overpaid,
        ][usize::from(said.status)],
        settlement: [
            ProviderSettlement::Pending,
            ProviderSettlement::Confirmed,
            ProviderSettlement::Failed,
        ][usize::from(said.settlement)],
        received: Minor([0, due, due + 500, due - 1][usize::from(said.received)]),
        returned: Minor(u64::from(said.returned) * 1000),
        currency: [code, "XAU", ""][usize::from(said.currency)].to_owned(),
        detail: String::new(),
        particulars: particulars(said, due, orders),
    }
}

fn particulars(said: Said, due: u64, orders: &[RefundId]) -> Particulars {
    let tells = |bit: u8| said.tells & (1 << bit) != 0;
    let word = || format!("word {}", said.tells >> 5);
    let time = |bit| tells(bit).then(|| Time::from_secs(1_800_000_000 + u64::from(said.tells)));
    let refund = |(number, state): (u8, u8)| ProviderRefund {
        id: format!("refund {number}"),
        order: None,
        amount: Minor([1000, 2000, 2990, due][usize::from(number)]),
        state: REFUND_STATES[usize::from(state)],
        paid_out: None,
        at: None,
    };
    let ordered = |(nth, state, tells): (u8, u8, bool)| {
        let id = *orders.get(usize::from(nth))?;
        Some(ProviderRefund {
            id: refund_reference(id),
            order: tells.then_some(id),
            amount: Minor(1000),
            state: REFUND_STATES[usize::from(state)],
            paid_out: None,
            at: None,
        })
    };
    let dispute = |(number, state): (u8, u8)| Dispute {
        id: format!("dispute {number}"),
        amount: Minor([due, 1000, 2990, due][usize::from(number)]),
        state: [DisputeState::Open, DisputeState::Won, DisputeState::Lost][usize::from(state)],
        reason: None,
        respond_by: None,
        kind: if tells(5) {
            DisputeKind::Inquiry
        } else {
            DisputeKind::Dispute
        },
        withdrawn: Minor(if tells(6) { 1000 } else { 0 }),
        ends_by_refund: tells(7),
        listed_as_refund: false,
        at: None,
    };
    Particulars {
        provider_status: tells(0).then(word),
        reason: tells(1).then(word),
        references: tells(2).then(word).into_iter().collect(),
        fee: tells(3).then(|| (Minor(100), "EUR".into())),
        authorised_at: time(4),
        captured_at: time(3),
        capture_before: time(2),
        instrument: tells(0).then(word),
        refunds: once_each(said.refunds)
            .map(refund)
            .chain(said.order.and_then(ordered))
            .collect(),
        disputes: once_each(said.disputes).map(dispute).collect(),
        ..Particulars::default()
    }
}

/// Drops a second entry with the same number, because a report contains each refund and dispute only once.
fn once_each(drawn: [Option<(u8, u8)>; 2]) -> impl Iterator<Item = (u8, u8)> {
    let [first, second] = drawn;
    let other = second.filter(|(number, _)| first.is_none_or(|(one, _)| one != *number));
    first.into_iter().chain(other)
}
