//! From drawn numbers to a vendor's reports.

use kassette_domain::id::RefundId;
use kassette_domain::money::{Minor, Money};
use kassette_domain::provider::{
    Dispute, DisputeState, Particulars, RefundState, Report, VendorRefund, VendorSettlement,
    VendorStatus,
};
use kassette_domain::time::Time;

use crate::op::Said;

/// What can become of a refund.
pub(crate) const REFUND_STATES: [RefundState; 3] = [
    RefundState::Pending,
    RefundState::Succeeded,
    RefundState::Failed,
];

/// What a vendor calls a refund that was ordered.
pub(crate) fn refund_reference(order: RefundId) -> String {
    format!("vendor's {order}")
}

/// What a vendor says of a payment about which it was asked for `due`, and of which these refunds were
/// ordered.
pub(crate) fn report(said: Said, due: Money, reference: String, orders: &[RefundId]) -> Report {
    let (due, code) = (due.amount.0, due.currency.code());
    Report {
        reference,
        status: [
            VendorStatus::Pending,
            VendorStatus::Processing,
            VendorStatus::VerificationPending,
            VendorStatus::Review,
            VendorStatus::Completed,
            VendorStatus::Declined,
            VendorStatus::Failed,
            VendorStatus::Cancelled,
            VendorStatus::Expired,
            VendorStatus::Overpaid,
        ][usize::from(said.status)],
        settlement: [
            VendorSettlement::Pending,
            VendorSettlement::Confirmed,
            VendorSettlement::Failed,
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
    let refund = |(number, state): (u8, u8)| VendorRefund {
        id: format!("refund {number}"),
        order: None,
        amount: Minor([1000, 2000, 2990, due][usize::from(number)]),
        state: REFUND_STATES[usize::from(state)],
    };
    let ordered = |(nth, state, tells): (u8, u8, bool)| {
        let id = *orders.get(usize::from(nth))?;
        Some(VendorRefund {
            id: refund_reference(id),
            order: tells.then_some(id),
            amount: Minor(1000),
            state: REFUND_STATES[usize::from(state)],
        })
    };
    let dispute = |(number, state): (u8, u8)| Dispute {
        id: format!("dispute {number}"),
        amount: Minor([due, 1000, 2990, due][usize::from(number)]),
        state: [DisputeState::Open, DisputeState::Won, DisputeState::Lost][usize::from(state)],
        reason: None,
        respond_by: None,
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
    }
}

/// A report names each refund and each dispute once.
fn once_each(drawn: [Option<(u8, u8)>; 2]) -> impl Iterator<Item = (u8, u8)> {
    let [first, second] = drawn;
    let other = second.filter(|(number, _)| first.is_none_or(|(one, _)| one != *number));
    first.into_iter().chain(other)
}
