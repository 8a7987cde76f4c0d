//! What was paid to an invoice, coin by coin: which transactions, and whether the chain has confirmed
//! them.
use kassette_plugin::json::Json;

/// Ids that a report may tell.
const MOST: usize = 8;

/// What is known of an invoice's coins; nothing where they were not asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Coins {
    /// Some have not been confirmed.
    pub(crate) unconfirmed: bool,
    /// The transactions and outputs, or Lightning payments.
    pub(crate) payments: Vec<String>,
    /// By which ways they came: "BTC-CHAIN".
    pub(crate) ways: Vec<String>,
    /// When the first were seen, in milliseconds.
    pub(crate) first_seen: Option<u64>,
}

/// Reads the payment methods of an invoice; none where anything in them is not as documented.
pub(crate) fn coins(body: &[u8]) -> Option<Coins> {
    let Json::List(methods) = Json::parse(body)? else {
        return None;
    };
    let mut coins = Coins::default();
    for method in &methods {
        let way = method.get("paymentMethodId")?.text()?;
        for payment in method.get("payments").map_or(&[][..], Json::items) {
            match payment.get("status")?.text()? {
                // Another transaction has taken its place, or none: it brought nothing.
                "Invalid" => continue,
                "Processing" => coins.unconfirmed = true,
                "Settled" => {}
                _ => return None,
            }
            let id = payment.get("id")?.text()?;
            if is_plain(id) && coins.payments.len() < MOST {
                coins.payments.push(id.to_owned());
            }
            if is_plain(way) && !coins.ways.iter().any(|known| known == way) {
                coins.ways.push(way.to_owned());
            }
            let seen = payment.get("receivedDate").and_then(Json::whole);
            let seen = seen.and_then(|seconds| seconds.checked_mul(1_000));
            coins.first_seen = coins.first_seen.into_iter().chain(seen).min();
        }
    }
    Some(coins)
}

/// Whether this has the form of an id: it goes to the operator.
fn is_plain(id: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b':');
    (1..=200).contains(&id.len()) && id.bytes().all(plain)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// A payment as the server would tell it.
    pub(crate) fn payment(id: &str, status: &str, received: u64) -> Value {
        json!({
            "id": id, "status": status, "receivedDate": received, "value": "0.0005", "fee": "0",
            "destination": "bc1q",
        })
    }

    /// The way that everything was paid by.
    pub(crate) fn chain(payments: &[Value]) -> Value {
        json!([
            { "paymentMethodId": "BTC-CHAIN", "currency": "BTC", "payments": payments },
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
        };
        assert_eq!(read(&chain(&all)), Some(expected));
        let settled = read(&chain(&all[..1])).unwrap();
        assert!(!settled.unconfirmed);
        assert_eq!(read(&chain(&[])), Some(Coins::default()));
    }

    #[test]
    fn coins_of_another_form_are_no_answer() {
        for odd in [
            json!({}),
            json!([{ "payments": [] }]),
            chain(&[payment("aa11-0", "Settled_maybe", 1)]),
            chain(&[json!({ "id": "aa11-0" })]),
        ] {
            assert_eq!(read(&odd), None, "{odd}");
        }
    }
}
