//! What orders, payments and disputes tell beside where the money is: ids, fees, times, the card.
use kassette_plugin::json::Json;
use kassette_plugin::provider::{self, DisputeState, Money, Particulars};
use kassette_plugin::time;

use crate::wire::{Dispute, Order, Payment, Stands, Tried, Verdict};

/// Disputes that a report may tell.
const MOST: usize = 64;

/// What a payment tells beside its state and amount. Nothing of it decides about money, so what is not
/// there or cannot be read is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    /// The sum of its fees, where they are in one currency.
    pub(crate) fee: Option<Money>,
    /// When the payer sent it off, in milliseconds.
    pub(crate) created: Option<u64>,
    /// When it last moved.
    pub(crate) updated: Option<u64>,
    /// Until when what was authorised can be captured.
    pub(crate) deadline: Option<u64>,
    /// What the payer paid with: "visa 0368".
    pub(crate) instrument: Option<String>,
    /// The acquirer's reference, which the payer's bank shows.
    pub(crate) arn: Option<String>,
}

/// Reads what a payment tells beside.
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
        let amount = fee.get("amount")?.whole()?;
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
    time::parse_rfc3339(text(value, name)?)
}

fn text<'a>(value: &'a Json, name: &str) -> Option<&'a str> {
    value.get(name)?.text()
}

fn is_plain(word: &str) -> bool {
    (1..=64).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// What an order and its disputes tell beside where the money is.
pub(crate) fn of(order: &Order, disputes: &[Dispute]) -> Particulars {
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
    // A payment that was given back or disputed has moved since it was taken.
    let untouched = order.refunded == 0 && disputes.is_empty();
    let arns = disputes.iter().filter_map(|dispute| dispute.arn.as_ref());
    let mut references: Vec<String> = Vec::new();
    for id in paying
        .map(|payment: &Payment| &payment.id)
        .into_iter()
        .chain(&facts.arn)
        .chain(arns)
    {
        if !references.contains(id) && references.len() < 8 {
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
            .take(MOST)
            .map(told)
            .collect(),
    }
}

fn told(dispute: &Dispute) -> provider::Dispute {
    provider::Dispute {
        id: dispute.id.clone(),
        amount: dispute.amount.amount,
        state: match dispute.verdict {
            Verdict::Open => DisputeState::Open,
            Verdict::Won => DisputeState::Won,
            Verdict::Lost => DisputeState::Lost,
        },
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
        let told = of(&paid(card()), &[]);
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
        assert_eq!(of(&read(&order).unwrap(), &[]).fee, None);
    }

    #[test]
    fn an_account_has_no_card() {
        let instrument = |method: Value| of(&paid(method), &[]).instrument;
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
        let told = of(&read(&order).unwrap(), &[]);
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
        let told = of(&paid(card()), &[objection]);
        assert_eq!(
            told.disputes,
            [provider::Dispute {
                id: DISPUTE.into(),
                amount: 4990,
                state: DisputeState::Open,
                reason: Some("4853".into()),
                respond_by: Some(1_801_296_000_000),
            }]
        );
        assert_eq!(
            told.references.len(),
            2,
            "the same acquirer's reference once"
        );
        // The payment has moved since it was taken.
        assert_eq!(told.captured_at, None);
    }

    #[test]
    fn why_the_last_try_was_declined_is_told() {
        let mut order = tried("cancelled", "declined", 4990);
        order["payments"][0]["decline_reason"] = json!("insufficient_funds");
        let told = of(&read(&order).unwrap(), &[]);
        assert_eq!(told.reason.as_deref(), Some("insufficient_funds"));
        assert!(told.references.is_empty());
    }
}
