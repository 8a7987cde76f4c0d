//! The payments of an invoice: transactions, their value, and their confirmation by the chain.
use kassette_plugin::json::Json;
use kassette_plugin::provider::read::{self, Unreadable};

/// Maximum number of ids in a report.
const MOST: usize = 8;

/// Decimal places of amounts and rates, and the divisor that converts their product to minor units.
const PLACES: usize = 8;
const TO_MINOR: u128 = 100_000_000_000_000;

/// Payments of an invoice. Empty if they were not queried.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Coins {
    /// Whether at least one payment is unconfirmed.
    pub(crate) unconfirmed: bool,
    /// Ids of the transactions and outputs, or of the Lightning payments.
    pub(crate) payments: Vec<String>,
    /// Payment methods of the server that were used: "BTC-CHAIN".
    pub(crate) ways: Vec<String>,
    /// Time at which the first payment was seen, in milliseconds since 1970.
    pub(crate) first_seen: Option<u64>,
    /// Value in minor units of the invoice's currency. `None` if a rate or an amount is missing.
    pub(crate) worth: Option<u64>,
    /// Values that could not be parsed.
    pub(crate) unreadable: Unreadable,
}

/// Parses the payment methods of an invoice. `None` if the answer is not a list.
pub(crate) fn coins(body: &[u8]) -> Option<Coins> {
    let Json::List(methods) = Json::parse(body)? else {
        return None;
    };
    let mut coins = Coins::default();
    let mut worth = Some(0_u128);
    for method in &methods {
        // Servers before 2.0 use the second name.
        let way = read::field(method, "paymentMethodId");
        let way = way.or_else(|| read::field(method, "paymentMethod"));
        let rate = method.get("rate").and_then(decimal);
        for payment in read::items(method, &["payments"]) {
            let id = read::field(payment, "id").unwrap_or_default();
            match read::field(payment, "status").unwrap_or_default() {
                // The transaction was replaced or dropped, and brought no money.
                "Invalid" => continue,
                "Processing" => coins.unconfirmed = true,
                "Settled" => {}
                other => {
                    coins.unreadable.unknown_status("payment", id, other);
                    coins.unconfirmed = true;
                }
            }
            let value = payment.get("value").and_then(decimal).zip(rate);
            let value = value.and_then(|(value, rate)| value.checked_mul(rate));
            worth = worth
                .zip(value)
                .map(|(sum, value)| sum.saturating_add(value));
            if is_plain(id) && coins.payments.len() < MOST {
                coins.payments.push(id.to_owned());
            }
            let way = way.filter(|way| is_plain(way));
            if let Some(way) = way
                && !coins.ways.iter().any(|known| known == way)
            {
                coins.ways.push(way.to_owned());
            }
            let seen = payment.get("receivedDate").and_then(read::time);
            coins.first_seen = coins.first_seen.into_iter().chain(seen).min();
        }
    }
    let rounded = worth.map(|worth| worth.saturating_add(TO_MINOR / 2) / TO_MINOR);
    coins.worth = rounded.and_then(|worth| worth.try_into().ok());
    Some(coins)
}

fn decimal(value: &Json) -> Option<u128> {
    read::decimal(value, PLACES)
}

/// Whether this has the form of an id and can be displayed to operators.
fn is_plain(id: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b':');
    (1..=200).contains(&id.len()) && id.bytes().all(plain)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// A payment as the server would return it.
    pub(crate) fn payment(id: &str, status: &str, received: u64) -> Value {
        json!({
            "id": id, "status": status, "receivedDate": received, "value": "0.0005", "fee": "0",
            "destination": "bc1q",
        })
    }

    /// The payment methods of an invoice, with these payments on the chain.
    pub(crate) fn chain(payments: &[Value]) -> Value {
        json!([
            { "paymentMethodId": "BTC-CHAIN", "currency": "BTC", "rate": "99800", "payments": payments },
            { "paymentMethodId": "BTC-LN", "currency": "BTC", "payments": [] },
        ])
    }

    fn read(value: &Value) -> Option<Coins> {
        coins(value.to_string().as_bytes())
    }

    #[test]
    fn each_transaction_is_told_and_whether_all_are_confirmed() {
        let all = [
            payment("aa11-0", "Settled", 1_800_000_009),
            payment("bb22-1", "Processing", 1_800_000_002),
            payment("cc33-0", "Invalid", 1_800_000_001),
        ];
        let expected = Coins {
            unconfirmed: true,
            payments: vec!["aa11-0".into(), "bb22-1".into()],
            ways: vec!["BTC-CHAIN".into()],
            first_seen: Some(1_800_000_002_000),
            worth: Some(9980),
            unreadable: Unreadable::default(),
        };
        assert_eq!(read(&chain(&all)), Some(expected));
        let settled = read(&chain(&all[..1])).unwrap();
        assert!(!settled.unconfirmed);
        let nothing = read(&chain(&[])).unwrap();
        assert_eq!((nothing.worth, nothing.payments.len()), (Some(0), 0));
    }

    #[test]
    fn coins_of_old_servers_and_odd_ones_are_read() {
        let old = json!([{
            "paymentMethod": "BTC-OnChain", "rate": 99800,
            "payments": [payment("aa11-0", "Settled", 1_800_000_009)],
        }]);
        let old = read(&old).unwrap();
        assert_eq!(
            (old.ways, old.worth),
            (vec!["BTC-OnChain".into()], Some(4990))
        );
        let odd = read(&chain(&[
            payment("aa11-0", "Frozen", 1),
            json!({ "id": "bb22-0" }),
        ]))
        .unwrap();
        assert!(odd.unconfirmed);
        assert_eq!((odd.worth, odd.payments.len()), (None, 2));
        assert_eq!(odd.unreadable.into_sentences().len(), 2);
        assert_eq!(read(&json!({})), None);
    }
}
