//! From drawn numbers to a vendor's reports.

use kassette_domain::money::{Minor, Money};
use kassette_domain::provider::{
    Dispute, DisputeState, Particulars, ProviderRefund, RefundState, Report, VendorSettlement,
    VendorStatus,
};
use kassette_domain::time::Time;

use crate::op::Said;

/// What a vendor says of a payment about which it was asked for `due`.
pub(crate) fn report(said: Said, due: Money, reference: String) -> Report {
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
        particulars: particulars(said, due),
    }
}

fn particulars(said: Said, due: u64) -> Particulars {
    let tells = |bit: u8| said.tells & (1 << bit) != 0;
    let word = || format!("word {}", said.tells >> 5);
    let time = |bit| tells(bit).then(|| Time::from_secs(1_800_000_000 + u64::from(said.tells)));
    let refund = |(number, state): (u8, u8)| ProviderRefund {
        id: format!("refund {number}"),
        order: None,
        amount: Minor([1000, 2000, 2990, due][usize::from(number)]),
        state: [
            RefundState::Pending,
            RefundState::Succeeded,
            RefundState::Failed,
        ][usize::from(state)],
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
        refunds: once_each(said.refunds).map(refund).collect(),
        disputes: once_each(said.disputes).map(dispute).collect(),
    }
}

/// A report names each refund and each dispute once.
fn once_each(drawn: [Option<(u8, u8)>; 2]) -> impl Iterator<Item = (u8, u8)> {
    let [first, second] = drawn;
    let other = second.filter(|(number, _)| first.is_none_or(|(one, _)| one != *number));
    first.into_iter().chain(other)
}
