//! A payment's details: captures, refunds and chargebacks one by one, ids, times, the card or bank.
use kassette_plugin::json::Json;
use kassette_plugin::provider::read::{self, Unreadable};
use kassette_plugin::provider::{
    Dispute, DisputeKind, DisputeState, Money, Particulars, Refund, RefundState,
};

use crate::wire::{self, money};

/// Query that embeds the details in a payment.
pub(crate) const EMBED: &str = "embed=captures,refunds,chargebacks";

/// Maximum number of ids in a report.
const REFERENCES: usize = 8;

/// State of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Captured {
    Pending,
    Succeeded,
    Failed,
}

/// A payment's parts and details. Empty if the payment was read without embedding them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Belongings {
    pub(crate) captures: Vec<Captured>,
    pub(crate) refunds: Vec<Refund>,
    pub(crate) chargebacks: Vec<Dispute>,
    /// Details of the payment, without refunds and disputes.
    pub(crate) rest: Particulars,
}

impl Belongings {
    /// Whether a capture is in progress.
    pub(crate) fn is_being_captured(&self) -> bool {
        self.captures.contains(&Captured::Pending)
    }

    /// Whether there were captures and all failed.
    pub(crate) fn could_not_be_captured(&self) -> bool {
        let failed = |capture: &Captured| *capture == Captured::Failed;
        !self.captures.is_empty() && self.captures.iter().all(failed)
    }

    /// Refunded amount. `told` is Mollie's sum, which includes a refund from its request on. If the listed refunds
    /// add up to it, only the succeeded ones count; otherwise the result is `told`.
    pub(crate) fn refunded(&self, told: u64) -> u64 {
        let sum = |counts: fn(RefundState) -> bool| {
            let counted = self.refunds.iter().filter(|each| counts(each.state));
            counted.fold(0_u64, |sum, each| sum.saturating_add(each.amount))
        };
        if sum(|state| state != RefundState::Failed) < told {
            return told;
        }
        sum(|state| state == RefundState::Succeeded)
    }

    /// Amount of lost chargebacks. Mollie's sum `told` if no chargebacks are listed.
    pub(crate) fn charged_back(&self, told: u64) -> u64 {
        let lost = self
            .chargebacks
            .iter()
            .filter(|each| each.state == DisputeState::Lost);
        let lost = lost.fold(0_u64, |sum, each| sum.saturating_add(each.amount));
        if self.chargebacks.is_empty() {
            told
        } else {
            lost
        }
    }

    /// All details for a report.
    pub(crate) fn particulars(self) -> Particulars {
        Particulars {
            refunds: self.refunds,
            disputes: self.chargebacks,
            ..self.rest
        }
    }
}

/// Reads a payment's parts and details. `taken_in` is the currency of the captured amount.
pub(crate) fn read(payment: &Json, taken_in: &str) -> Belongings {
    let mut unreadable = Unreadable::default();
    let embedded = |name| read::items(payment, &["_embedded", name]);
    let captures = embedded("captures").iter();
    // A capture without a known status is ignored.
    let captures = captures.filter_map(|value| Some((captured(value)?, value)));
    let captures: Vec<(Captured, &Json)> = captures.collect();
    let mut refunds = Vec::new();
    for value in embedded("refunds") {
        match refund(value, taken_in, &mut unreadable) {
            Some(refund) => refunds.push(refund),
            None => note(&mut unreadable, "refund", value),
        }
    }
    let mut chargebacks = Vec::new();
    for value in embedded("chargebacks") {
        match chargeback(value, taken_in) {
            Some(chargeback) => chargebacks.push(chargeback),
            None => note(&mut unreadable, "chargeback", value),
        }
    }
    let status = text(payment, "status");
    if let Some(status) = status.filter(|status| !KNOWN.contains(status)) {
        unreadable.unknown_status("payment", text(payment, "id").unwrap_or_default(), status);
    }
    let ids = captures.iter().filter_map(|(_, value)| id(value, "id"));
    let settlement = id(payment, "settlementId");
    let paypal = detail(payment, "paypalReference")
        .filter(|id| is_word(id))
        .map(str::to_owned);
    let mut references: Vec<String> = settlement.into_iter().chain(paypal).chain(ids).collect();
    references.truncate(REFERENCES);
    let taken = captures
        .iter()
        .find(|(captured, _)| *captured == Captured::Succeeded);
    let taken_at = taken.and_then(|(_, value)| at(value, "createdAt"));
    let code = payment.path(&["statusReason", "code"]).and_then(Json::text);
    let reason = detail(payment, "failureReason").or(code);
    Belongings {
        refunds,
        chargebacks,
        rest: Particulars {
            provider_status: status.filter(|word| is_word(word)).map(str::to_owned),
            reason: reason.filter(|reason| is_word(reason)).map(str::to_owned),
            references,
            fee: payment.path(&["details", "paypalFee"]).and_then(money),
            authorised_at: at(payment, "authorizedAt"),
            captured_at: at(payment, "paidAt").or(taken_at),
            capture_before: at(payment, "captureBefore"),
            instrument: instrument(payment),
            unreadable: unreadable.into_sentences(),
            ..Particulars::default()
        },
        captures: captures.into_iter().map(|(captured, _)| captured).collect(),
    }
}

/// All statuses that Mollie documents.
const KNOWN: [&str; 8] = [
    "open",
    "pending",
    "authorized",
    "paid",
    "canceled",
    "cancelled",
    "expired",
    "failed",
];

/// Notes an entry that is omitted.
fn note(unreadable: &mut Unreadable, what: &str, value: &Json) {
    let id = text(value, "id").unwrap_or("without an id");
    unreadable.note(&format!("{what} {id} cannot be read"));
}

fn captured(value: &Json) -> Option<Captured> {
    Some(match read::field(value, "status")? {
        "pending" => Captured::Pending,
        "succeeded" => Captured::Succeeded,
        "failed" => Captured::Failed,
        _ => return None,
    })
}

/// The refund order's id in a refund. `None` for a refund made in Mollie's dashboard.
pub(crate) fn order(refund: &Json) -> Option<String> {
    text(refund, "metadata")
        .filter(|order| wire::is_ours(order))
        .map(str::to_owned)
}

/// Reads a refund. `None` without an id, a status, or an amount in the captured currency.
pub(crate) fn refund(value: &Json, taken_in: &str, unreadable: &mut Unreadable) -> Option<Refund> {
    let id = id(value, "id")?;
    let status = read::field(value, "status")?;
    let state = match status {
        "queued" | "pending" | "processing" => RefundState::Pending,
        "refunded" => RefundState::Succeeded,
        "failed" | "canceled" => RefundState::Failed,
        _ => {
            unreadable.unknown_status("refund", &id, status);
            RefundState::Pending
        }
    };
    Some(Refund {
        id,
        order_id: order(value),
        amount: sum(value, "amount", taken_in)?,
        paid_out: None,
        at: at(value, "createdAt"),
        state,
    })
}

/// Reads a chargeback. It withdraws the money, defended or not; a reversed one has returned it.
fn chargeback(value: &Json, taken_in: &str) -> Option<Dispute> {
    let reversed = text(value, "reversedAt").is_some();
    let reason = value.path(&["reason", "code"]).and_then(Json::text);
    let amount = sum(value, "amount", taken_in);
    let amount = amount.or_else(|| sum(value, "settlementAmount", taken_in))?;
    Some(Dispute {
        id: id(value, "id")?,
        kind: DisputeKind::Dispute,
        amount,
        withdrawn: if reversed { 0 } else { amount },
        ends_by_refund: false,
        listed_as_refund: false,
        at: at(value, "createdAt"),
        state: if reversed {
            DisputeState::Won
        } else {
            DisputeState::Lost
        },
        reason: reason.filter(|reason| is_word(reason)).map(str::to_owned),
        respond_by: None,
    })
}

fn sum(value: &Json, name: &str, taken_in: &str) -> Option<u64> {
    let Money { amount, currency } = money(value.get(name)?)?;
    (currency == taken_in).then_some(amount)
}

/// "Mastercard 4444", or the bank and the last four characters of the account. Never a full number.
fn instrument(payment: &Json) -> Option<String> {
    let end = |name: &str| {
        let number = detail(payment, name)?;
        let end = number.get(number.len().checked_sub(4)?..)?;
        is_word(end).then_some(end)
    };
    let (name, number) = match (detail(payment, "cardLabel"), detail(payment, "consumerBic")) {
        (Some(label), _) => (label, end("cardNumber")),
        (None, bank) => (bank.filter(|bank| is_word(bank))?, end("consumerAccount")),
    };
    Some(match number {
        Some(number) => format!("{name} {number}"),
        None => name.to_owned(),
    })
}

fn detail<'a>(payment: &'a Json, name: &str) -> Option<&'a str> {
    payment.path(&["details", name]).and_then(Json::text)
}

fn at(value: &Json, name: &str) -> Option<u64> {
    read::time(value.get(name)?)
}

fn id(value: &Json, name: &str) -> Option<String> {
    text(value, name)
        .filter(|id| is_word(id))
        .map(str::to_owned)
}

fn text<'a>(value: &'a Json, name: &str) -> Option<&'a str> {
    read::field(value, name)
}

/// Whether this has the form of an id or a code and can be displayed to operators.
pub(crate) fn is_word(word: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    (1..=64).contains(&word.len()) && word.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::tests::told;
    use serde_json::{Value, json};

    fn belongings(change: &[(&str, Value)]) -> Belongings {
        let mut told = told("paid");
        for (name, value) in change {
            told[*name] = value.clone();
        }
        read(&Json::parse(told.to_string().as_bytes()).unwrap(), "EUR")
    }

    fn euros(value: &str) -> Value {
        json!({ "value": value, "currency": "EUR" })
    }

    fn refund(id: &str, value: &str, status: &str) -> Value {
        json!({ "resource": "refund", "id": id, "amount": euros(value), "status": status })
    }

    #[test]
    fn a_card_payment_tells_times_card_and_the_ids_of_statements() {
        let told = belongings(&[
            ("authorizedAt", json!("2027-01-15T08:00:00+00:00")),
            ("paidAt", json!("2027-01-15T08:00:09+00:00")),
            ("captureBefore", json!("2027-01-22T08:00:00+00:00")),
            ("settlementId", json!("stl_1")),
            (
                "details",
                json!({ "cardLabel": "Mastercard", "cardNumber": "************4444" }),
            ),
            (
                "_embedded",
                json!({ "captures": [{ "id": "cpt_1", "status": "succeeded" }] }),
            ),
        ]);
        assert_eq!(told.captures, [Captured::Succeeded]);
        let expected = Particulars {
            provider_status: Some("paid".into()),
            references: vec!["stl_1".into(), "cpt_1".into()],
            authorised_at: Some(1_800_000_000_000),
            captured_at: Some(1_800_000_009_000),
            capture_before: Some(1_800_604_800_000),
            instrument: Some("Mastercard 4444".into()),
            ..Particulars::default()
        };
        assert_eq!(told.particulars(), expected);
    }

    #[test]
    fn a_bank_is_told_with_the_end_of_the_account_alone() {
        let details = json!({ "consumerBic": "ABNANL2A", "consumerAccount": "NL91ABNA0417164300" });
        let told = belongings(&[("details", details)]);
        assert_eq!(told.rest.instrument.as_deref(), Some("ABNANL2A 4300"));
        let paypal = json!({
            "consumerAccount": "ann@shop.example", "paypalReference": "9AL35361CF606152E",
            "paypalFee": euros("1.99"),
        });
        let told = belongings(&[("details", paypal)]);
        assert_eq!(
            (told.rest.instrument, told.rest.fee.unwrap().amount),
            (None, 199)
        );
        assert_eq!(told.rest.references, ["9AL35361CF606152E"]);
    }

    #[test]
    fn a_refund_counts_once_the_payer_has_it() {
        let told = belongings(&[(
            "_embedded",
            json!({ "refunds": [
                refund("re_3", "5.00", "pending"), refund("re_2", "10.00", "failed"),
                refund("re_1", "9.90", "refunded"),
            ] }),
        )]);
        let states: Vec<RefundState> = told.refunds.iter().map(|each| each.state).collect();
        use RefundState::{Failed, Pending, Succeeded};
        assert_eq!(states, [Pending, Failed, Succeeded]);
        assert!(told.refunds.iter().all(|each| each.order_id.is_none()));
        assert_eq!(told.refunded(1490), 990);
        // Some refunds are not listed.
        assert_eq!(told.refunded(2490), 2490);
        assert_eq!(Belongings::default().refunded(990), 990);
    }

    #[test]
    fn a_chargeback_is_lost_until_it_is_reversed() {
        let told = belongings(&[(
            "_embedded",
            json!({ "chargebacks": [
                { "id": "chb_1", "amount": euros("49.90"), "reason": { "code": "AC01" }, "reversedAt": null },
                { "id": "chb_0", "amount": euros("10.00"), "reason": null, "reversedAt": "2027-01-15T08:00:00+00:00" },
            ] }),
        )]);
        assert_eq!(
            (told.charged_back(4990), told.charged_back(0)),
            (4990, 4990)
        );
        assert_eq!(Belongings::default().charged_back(4990), 4990);
        let disputes = told.particulars().disputes;
        assert_eq!(
            (disputes[0].state, disputes[1].state),
            (DisputeState::Lost, DisputeState::Won)
        );
        assert_eq!(disputes[0].reason.as_deref(), Some("AC01"));
    }

    #[test]
    fn a_capture_is_under_way_or_has_failed() {
        let captures = |statuses: &[&str]| {
            let captures: Vec<Value> = statuses
                .iter()
                .map(|status| json!({ "id": "cpt_1", "status": status }))
                .collect();
            belongings(&[("_embedded", json!({ "captures": captures }))])
        };
        assert!(captures(&["failed", "pending"]).is_being_captured());
        assert!(captures(&["failed"]).could_not_be_captured());
        for others in [&["failed", "succeeded"][..], &[]] {
            assert!(!captures(others).could_not_be_captured());
        }
    }

    #[test]
    fn one_odd_part_hides_no_other() {
        let dollars = json!({ "value": "9.90", "currency": "USD" });
        let told = belongings(&[(
            "_embedded",
            json!({
                "captures": [{ "id": "cpt_1" }, { "id": "cpt_2", "status": "succeeded_maybe" }],
                "refunds": [
                    null, refund("re_1", "9.9", "refunded"), refund("re_2", "1.00", "frozen"),
                    { "id": "re_3", "status": "refunded", "amount": dollars },
                ],
                "chargebacks": [
                    { "id": "chb_1" },
                    { "id": "chb_2", "amount": euros("-13.00"), "settlementAmount": euros("-13.00") },
                    { "id": "chb_3", "amount": dollars, "settlementAmount": euros("-8.00") },
                ],
            }),
        )]);
        assert!(told.captures.is_empty());
        let refunds: Vec<_> = told
            .refunds
            .iter()
            .map(|each| (each.amount, each.state))
            .collect();
        assert_eq!(
            refunds,
            [(990, RefundState::Succeeded), (100, RefundState::Pending)]
        );
        let lost: Vec<_> = told
            .chargebacks
            .iter()
            .map(|each| (each.amount, each.withdrawn))
            .collect();
        assert_eq!(lost, [(1300, 1300), (800, 800)]);
        assert_eq!(
            told.rest.unreadable,
            [
                "refund without an id cannot be read",
                "refund re_2 has the unknown status frozen",
                "refund re_3 cannot be read",
                "chargeback chb_1 cannot be read",
            ]
        );
    }
}
