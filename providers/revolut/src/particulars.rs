//! Details of orders, payments and disputes: ids, fees, times, the card.
use kassette_plugin::json::Json;
use kassette_plugin::provider::{self, DisputeKind, DisputeState, Money, Particulars, read};

use crate::wire::{Dispute, Order, Payment, Stands, Tried, Verdict};

/// Details of a payment. They do not affect its status, so missing or malformed values are omitted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Sum of the fees. `None` if they have different currencies.
    pub(crate) fee: Option<Money>,
    /// Time at which the payer submitted it, in milliseconds since 1970.
    pub(crate) created: Option<u64>,
    /// Time of the last change, in milliseconds since 1970.
    pub(crate) updated: Option<u64>,
    /// Time until which an authorization can be captured, in milliseconds since 1970.
    pub(crate) deadline: Option<u64>,
    /// The payer's means of payment: "visa 0368".
    pub(crate) instrument: Option<String>,
    /// The acquirer's reference number, which the payer's bank displays.
    pub(crate) arn: Option<String>,
}

/// Reads the details of a payment.
pub(crate) fn facts(payment: &Json) -> Facts {
    let method = payment.get("payment_method").unwrap_or(&Json::Null);
    Facts {
        fee: fee(payment),
        created: at(payment, "created_at"),
        updated: at(payment, "updated_at"),
        deadline: at(method, "capture_deadline"),
        instrument: instrument(method),
        arn: text(method, "arn")
            .filter(|arn| is_plain(arn))
            .map(str::to_owned),
    }
}

fn fee(payment: &Json) -> Option<Money> {
    let fees = payment.get("fees").map_or(&[][..], Json::items);
    let mut sum: Option<Money> = None;
    for fee in fees {
        let amount = fee.get("amount").and_then(read::minor)?;
        let currency = text(fee, "currency")?;
        sum = Some(match sum {
            None => Money {
                amount,
                currency: currency.to_owned(),
            },
            Some(sum) if sum.currency == currency => Money {
                amount: sum.amount.checked_add(amount)?,
                ..sum
            },
            Some(_) => return None,
        });
    }
    sum
}

fn instrument(method: &Json) -> Option<String> {
    let last_four =
        |name| text(method, name).filter(|digits| digits.len() == 4 && is_plain(digits));
    match (text(method, "card_brand"), text(method, "type")?) {
        (Some(brand), _) => Some(match last_four("card_last_four") {
            Some(digits) => format!("{brand} {digits}"),
            None => brand.to_owned(),
        }),
        (None, "revolut_pay_account") => Some("Revolut Pay".into()),
        (None, "sepa_direct_debit") => Some(match last_four("debtor_iban_last_four") {
            Some(digits) => format!("SEPA {digits}"),
            None => "SEPA".into(),
        }),
        (None, _) => None,
    }
}

fn at(value: &Json, name: &str) -> Option<u64> {
    read::time(value.get(name)?)
}

fn text<'a>(value: &'a Json, name: &str) -> Option<&'a str> {
    read::field(value, name)
}

fn is_plain(word: &str) -> bool {
    (1..=64).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// Details of an order and its disputes.
pub(crate) fn gathered(order: &Order, disputes: &[Dispute]) -> Particulars {
    let last = |tried| {
        let mut payments = order.payments.iter().rev();
        payments.find(|payment| payment.tried == tried)
    };
    let declined = || {
        order
            .payments
            .iter()
            .rev()
            .find_map(|each| each.decline.clone())
    };
    let taken = last(Tried::Captured);
    let paying = taken.or_else(|| last(Tried::Moving));
    let facts = paying
        .map(|payment| payment.facts.clone())
        .unwrap_or_default();
    let waits = order.stands == Stands::Authorised;
    // A refund or a dispute changes the payment's last update, so it no longer is the time of the capture.
    let untouched = order.refunded == 0 && disputes.is_empty();
    let arns = disputes.iter().filter_map(|dispute| dispute.arn.as_ref());
    let mut references: Vec<String> = Vec::new();
    for id in paying
        .map(|payment: &Payment| &payment.id)
        .into_iter()
        .chain(&facts.arn)
        .chain(arns)
    {
        if !id.is_empty() && !references.contains(id) && references.len() < 8 {
            references.push(id.clone());
        }
    }
    Particulars {
        provider_status: Some(order.state.clone()),
        reason: if paying.is_none() { declined() } else { None },
        references,
        fee: facts.fee,
        authorised_at: facts.created,
        captured_at: facts.updated.filter(|_| taken.is_some() && untouched),
        capture_before: facts.deadline.filter(|_| waits),
        instrument: facts.instrument,
        refunds: Vec::new(),
        disputes: disputes
            .iter()
            .filter(|dispute| {
                taken.is_none_or(|taken| taken.amount.currency == dispute.amount.currency)
            })
            .map(|dispute| told(dispute, taken.map(|taken| taken.amount.amount)))
            .collect(),
        unreadable: order.unreadable.clone().into_sentences(),
        ..Particulars::default()
    }
}

/// Converts a dispute; its amount is at most the captured amount. Revolut does not document when it withdraws the
/// money of an open dispute, so only a lost dispute counts as withdrawn.
fn told(dispute: &Dispute, taken: Option<u64>) -> provider::Dispute {
    let amount = dispute.amount.amount.min(taken.unwrap_or(u64::MAX));
    provider::Dispute {
        id: dispute.id.clone(),
        amount,
        state: match dispute.verdict {
            Verdict::Open => DisputeState::Open,
            Verdict::Won => DisputeState::Won,
            Verdict::Lost => DisputeState::Lost,
        },
        kind: DisputeKind::Dispute,
        withdrawn: match dispute.verdict {
            Verdict::Lost => amount,
            Verdict::Open | Verdict::Won => 0,
        },
        ends_by_refund: false,
        listed_as_refund: false,
        at: dispute.opened,
        reason: dispute.reason.clone(),
        respond_by: dispute.respond_by,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::dispute;
    use crate::wire::tests::{ID, PAYMENT, read, tried};
    use serde_json::{Value, json};

    const DISPUTE: &str = "6852e9a6-5cf0-ac65-8182-6a9c251011ce";

    fn paid(method: Value) -> Order {
        let mut order = tried("completed", "completed", 4990);
        order["payments"][0]["payment_method"] = method;
        order["payments"][0]["updated_at"] = json!("2027-01-15T08:00:09Z");
        order["payments"][0]["fees"] = json!([
            { "type": "acquiring", "amount": 50, "currency": "EUR" },
            { "type": "fx", "amount": 25, "currency": "EUR" },
        ]);
        read(&order).unwrap()
    }

    fn card() -> Value {
        json!({
            "type": "card", "card_brand": "visa", "card_bin": "529999", "card_last_four": "0368",
            "arn": "74839572049583726403928",
        })
    }

    #[test]
    fn a_paid_order_tells_fee_times_card_and_the_ids_of_statements() {
        let told = gathered(&paid(card()), &[]);
        let expected = Particulars {
            provider_status: Some("completed".into()),
            references: vec![PAYMENT.into(), "74839572049583726403928".into()],
            fee: Some(Money {
                amount: 75,
                currency: "EUR".into(),
            }),
            authorised_at: Some(1_800_000_000_000),
            captured_at: Some(1_800_000_009_000),
            instrument: Some("visa 0368".into()),
            ..Particulars::default()
        };
        assert_eq!(told, expected);
    }

    #[test]
    fn fees_of_two_currencies_make_no_sum() {
        let mut order = tried("completed", "completed", 4990);
        order["payments"][0]["fees"] = json!([
            { "type": "acquiring", "amount": 50, "currency": "EUR" },
            { "type": "fx", "amount": 25, "currency": "USD" },
        ]);
        assert_eq!(gathered(&read(&order).unwrap(), &[]).fee, None);
    }

    #[test]
    fn an_account_has_no_card() {
        let instrument = |method: Value| gathered(&paid(method), &[]).instrument;
        let revolut = json!({ "type": "revolut_pay_account" });
        assert_eq!(instrument(revolut).as_deref(), Some("Revolut Pay"));
        let debit = json!({ "type": "sepa_direct_debit", "debtor_iban_last_four": "3000" });
        assert_eq!(instrument(debit).as_deref(), Some("SEPA 3000"));
        let odd =
            json!({ "type": "card", "card_brand": "visa", "card_last_four": "5299991234560368" });
        assert_eq!(instrument(odd).as_deref(), Some("visa"));
    }

    #[test]
    fn an_authorisation_tells_until_when_it_can_be_captured() {
        let mut order = tried("authorised", "authorised", 4990);
        order["payments"][0]["payment_method"] =
            json!({ "type": "card", "capture_deadline": "2027-01-22T08:00:00Z" });
        let told = gathered(&read(&order).unwrap(), &[]);
        assert_eq!(told.capture_before, Some(1_800_604_800_000));
        assert_eq!(
            (told.captured_at, told.references),
            (None, vec![PAYMENT.into()])
        );
    }

    #[test]
    fn a_dispute_is_told_with_its_id_reason_and_deadline() {
        let objection = json!({
            "id": DISPUTE, "state": "needs_response", "amount": 4990, "currency": "EUR",
            "reason_code": "4853", "response_due_date": "2027-01-30T08:00:00Z",
            "payment": { "id": PAYMENT, "order_id": ID, "arn": "74839572049583726403928" },
        });
        let objection = dispute(objection.to_string().as_bytes()).unwrap();
        let told = gathered(&paid(card()), &[objection]);
        assert_eq!(
            told.disputes,
            [provider::Dispute {
                id: DISPUTE.into(),
                amount: 4990,
                state: DisputeState::Open,
                reason: Some("4853".into()),
                respond_by: Some(1_801_296_000_000),
                kind: DisputeKind::Dispute,
                withdrawn: 0,
                ends_by_refund: false,
                listed_as_refund: false,
                at: None,
            }]
        );
        assert_eq!(
            told.references.len(),
            2,
            "the same acquirer's reference once"
        );
        // The payment has changed since the capture.
        assert_eq!(told.captured_at, None);
    }

    #[test]
    fn why_the_last_try_was_declined_is_told() {
        let mut order = tried("cancelled", "declined", 4990);
        order["payments"][0]["decline_reason"] = json!("insufficient_funds");
        let told = gathered(&read(&order).unwrap(), &[]);
        assert_eq!(told.reason.as_deref(), Some("insufficient_funds"));
        assert!(told.references.is_empty());
    }
}
