//! What a payment tells beside where the money is: its captures, refunds and chargebacks one by one,
//! ids, times, the card or bank.
use kassette_plugin::json::Json;
use kassette_plugin::provider::{Dispute, DisputeState, Money, Particulars, Refund, RefundState};
use kassette_plugin::time;

use crate::wire::{self, money};

/// What is asked for along with a payment.
pub(crate) const EMBED: &str = "embed=captures,refunds,chargebacks";

/// Refunds and disputes that a report may tell, each, and ids.
const MOST: usize = 64;
const REFERENCES: usize = 8;

/// Whether a capture has taken what it was to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Captured {
    Pending,
    Succeeded,
    Failed,
}

/// What belongs to a payment. Nothing of it is there where it was not asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Belongings {
    pub(crate) captures: Vec<Captured>,
    pub(crate) refunds: Vec<Refund>,
    pub(crate) chargebacks: Vec<Dispute>,
    /// The same payment's particulars but for refunds and disputes.
    pub(crate) rest: Particulars,
}

impl Belongings {
    /// Whether Mollie is taking the money right now.
    pub(crate) fn is_being_captured(&self) -> bool {
        self.captures.contains(&Captured::Pending)
    }

    /// Whether it was to be taken and could not be.
    pub(crate) fn could_not_be_captured(&self) -> bool {
        let failed = |capture: &Captured| *capture == Captured::Failed;
        !self.captures.is_empty() && self.captures.iter().all(failed)
    }

    /// What the payer has back of `told`, the vendor's own sum of refunds: that one counts a refund from
    /// the moment it was asked for, and where every one is there, those that went out count alone.
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

    /// What the bank has taken back of `told`, the vendor's own sum.
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

    /// All of it, as a report tells it.
    pub(crate) fn particulars(self) -> Particulars {
        let (mut refunds, mut disputes) = (self.refunds, self.chargebacks);
        refunds.truncate(MOST);
        disputes.truncate(MOST);
        Particulars {
            refunds,
            disputes,
            ..self.rest
        }
    }
}

/// Reads what belongs to a payment; none where it is not as documented. `taken_in` is the currency of
/// what was taken.
pub(crate) fn read(payment: &Json, taken_in: &str) -> Option<Belongings> {
    let embedded = |name| {
        payment
            .path(&["_embedded", name])
            .map_or(&[][..], Json::items)
    };
    let captures: Vec<(Captured, &Json)> = embedded("captures")
        .iter()
        .map(|value| Some((captured(value)?, value)))
        .collect::<Option<_>>()?;
    let refunds = embedded("refunds")
        .iter()
        .map(|value| refund(value, taken_in));
    let chargebacks = embedded("chargebacks")
        .iter()
        .map(|value| chargeback(value, taken_in));
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
    let code = payment.path(&["statusReason", "code"]).and_then(Json::text);
    let reason = detail(payment, "failureReason").or(code);
    Some(Belongings {
        refunds: refunds.collect::<Option<_>>()?,
        chargebacks: chargebacks.collect::<Option<_>>()?,
        rest: Particulars {
            provider_status: text(payment, "status").map(str::to_owned),
            reason: reason.filter(|reason| is_word(reason)).map(str::to_owned),
            references,
            fee: payment.path(&["details", "paypalFee"]).and_then(money),
            authorised_at: at(payment, "authorizedAt"),
            captured_at: at(payment, "paidAt").or_else(|| at(taken?.1, "createdAt")),
            capture_before: at(payment, "captureBefore"),
            instrument: instrument(payment),
            ..Particulars::default()
        },
        captures: captures.into_iter().map(|(captured, _)| captured).collect(),
    })
}

fn captured(value: &Json) -> Option<Captured> {
    Some(match value.get("status")?.text()? {
        "pending" => Captured::Pending,
        "succeeded" => Captured::Succeeded,
        "failed" => Captured::Failed,
        _ => return None,
    })
}

/// The order that a refund of ours names; none of one that was made in Mollie's dashboard.
pub(crate) fn order(refund: &Json) -> Option<String> {
    text(refund, "metadata")
        .filter(|order| wire::is_ours(order))
        .map(str::to_owned)
}

/// Reads a refund; none where it is not as documented, or in another currency.
pub(crate) fn refund(value: &Json, taken_in: &str) -> Option<Refund> {
    Some(Refund {
        id: id(value, "id")?,
        order_id: order(value),
        amount: sum(value, taken_in)?,
        state: match value.get("status")?.text()? {
            "queued" | "pending" | "processing" => RefundState::Pending,
            "refunded" => RefundState::Succeeded,
            "failed" | "canceled" => RefundState::Failed,
            _ => return None,
        },
    })
}

/// A chargeback has taken the money, defended or not; one that was reversed has brought it back.
fn chargeback(value: &Json, taken_in: &str) -> Option<Dispute> {
    let reversed = value.get("reversedAt").and_then(Json::text);
    let reason = value.path(&["reason", "code"]).and_then(Json::text);
    Some(Dispute {
        id: id(value, "id")?,
        amount: sum(value, taken_in)?,
        state: match reversed {
            Some(_) => DisputeState::Won,
            None => DisputeState::Lost,
        },
        reason: reason.filter(|reason| is_word(reason)).map(str::to_owned),
        respond_by: None,
    })
}

fn sum(value: &Json, taken_in: &str) -> Option<u64> {
    let Money { amount, currency } = money(value.get("amount")?)?;
    (currency == taken_in).then_some(amount)
}

/// "Mastercard 4444", or the bank and the end of the account: never a whole number of either.
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
    time::parse_rfc3339(text(value, name)?)
}

fn id(value: &Json, name: &str) -> Option<String> {
    text(value, name)
        .filter(|id| is_word(id))
        .map(str::to_owned)
}

fn text<'a>(value: &'a Json, name: &str) -> Option<&'a str> {
    value.get(name)?.text()
}

/// Whether this has the form of an id or a code: it goes to the operator.
pub(crate) fn is_word(word: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    (1..=64).contains(&word.len()) && word.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::tests::told;
    use serde_json::{Value, json};

    fn of(change: &[(&str, Value)]) -> Option<Belongings> {
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
        let told = of(&[
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
        let told = told.unwrap();
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
        let told = of(&[("details", details)]).unwrap();
        assert_eq!(told.rest.instrument.as_deref(), Some("ABNANL2A 4300"));
        let paypal = json!({
            "consumerAccount": "ann@shop.example", "paypalReference": "9AL35361CF606152E",
            "paypalFee": euros("1.99"),
        });
        let told = of(&[("details", paypal)]).unwrap();
        assert_eq!(
            (told.rest.instrument, told.rest.fee.unwrap().amount),
            (None, 199)
        );
        assert_eq!(told.rest.references, ["9AL35361CF606152E"]);
    }

    #[test]
    fn a_refund_counts_once_the_payer_has_it() {
        let told = of(&[(
            "_embedded",
            json!({ "refunds": [
                refund("re_3", "5.00", "pending"), refund("re_2", "10.00", "failed"),
                refund("re_1", "9.90", "refunded"),
            ] }),
        )]);
        let told = told.unwrap();
        let states: Vec<RefundState> = told.refunds.iter().map(|each| each.state).collect();
        use RefundState::{Failed, Pending, Succeeded};
        assert_eq!(states, [Pending, Failed, Succeeded]);
        assert!(told.refunds.iter().all(|each| each.order_id.is_none()));
        assert_eq!(told.refunded(1490), 990);
        // Some are not among those that were told.
        assert_eq!(told.refunded(2490), 2490);
        assert_eq!(Belongings::default().refunded(990), 990);
    }

    #[test]
    fn a_chargeback_is_lost_until_it_is_reversed() {
        let told = of(&[(
            "_embedded",
            json!({ "chargebacks": [
                { "id": "chb_1", "amount": euros("49.90"), "reason": { "code": "AC01" }, "reversedAt": null },
                { "id": "chb_0", "amount": euros("10.00"), "reason": null, "reversedAt": "2027-01-15T08:00:00+00:00" },
            ] }),
        )]);
        let told = told.unwrap();
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
            of(&[("_embedded", json!({ "captures": captures }))]).unwrap()
        };
        assert!(captures(&["failed", "pending"]).is_being_captured());
        assert!(captures(&["failed"]).could_not_be_captured());
        for others in [&["failed", "succeeded"][..], &[]] {
            assert!(!captures(others).could_not_be_captured());
        }
    }

    #[test]
    fn belongings_of_another_form_are_no_answer() {
        for odd in [
            json!({ "captures": [{ "id": "cpt_1", "status": "succeeded_maybe" }] }),
            json!({ "refunds": [refund("re_1", "9.9", "refunded")] }),
            json!({ "refunds": [{ "id": "re_1", "status": "refunded", "amount": { "value": "9.90", "currency": "USD" } }] }),
            json!({ "chargebacks": [{ "id": "chb_1" }] }),
        ] {
            assert_eq!(of(&[("_embedded", odd.clone())]), None, "{odd}");
        }
    }
}
