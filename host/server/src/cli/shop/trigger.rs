//! `kassette trigger`: creates a test payment that causes an event.

use std::time::{Duration, Instant};

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use kassette_domain::event::EventType;
use serde_json::{Value, json};

use super::sandbox::PayerPage;
use super::{CallError, Shop, ShopArgs};
use crate::cli::output::print;

/// Interval between two reads of a payment's events.
const POLL: Duration = Duration::from_secs(1);
/// Maximum time until an event occurs: the sandbox guarantees its approval within 30 s.
const PATIENCE: Duration = Duration::from_secs(60);
/// Beginning of the ids of the sandbox's accounts.
const SANDBOX: &str = "sandbox";
/// Method that is used if several are at the sandbox.
const CARD: &str = "credit_card";

/// A way to an event.
#[derive(Clone, Copy, Debug)]
struct Scenario {
    event: EventType,
    /// Test amount. `None` for a payment that is cancelled before an attempt.
    amount: Option<&'static str>,
    /// Buttons of the sandbox's page, each with the event that must occur before.
    presses: &'static [(EventType, &'static str)],
}

const fn scenario(
    event: EventType,
    amount: &'static str,
    presses: &'static [(EventType, &'static str)],
) -> Scenario {
    Scenario {
        event,
        amount: Some(amount),
        presses,
    }
}

/// Events that depend on a payment, except `payment.expired`, which takes at least five minutes, and
/// `payment.capture_reversed`, which the sandbox cannot cause.
const SCENARIOS: [Scenario; 12] = {
    use EventType as Type;
    [
        scenario(Type::PaymentPending, "7001.04", &[]),
        scenario(Type::PaymentProcessing, "7003.01", &[]),
        scenario(Type::PaymentVerificationPending, "7003.02", &[]),
        scenario(Type::PaymentReview, "7001.03", &[]),
        scenario(Type::PaymentCompleted, "7001.01", &[]),
        scenario(Type::PaymentFailed, "7002.08", &[]),
        scenario(Type::PaymentAttemptFailed, "7002.02", &[]),
        Scenario {
            event: Type::PaymentCancelled,
            amount: None,
            presses: &[],
        },
        scenario(
            Type::PaymentRefunded,
            "7001.01",
            &[(Type::PaymentCompleted, "refund")],
        ),
        scenario(
            Type::PaymentRefundFailed,
            "7001.01",
            &[
                (Type::PaymentCompleted, "refund"),
                (Type::PaymentRefunded, "refund_fails"),
            ],
        ),
        scenario(
            Type::PaymentDisputed,
            "7001.01",
            &[(Type::PaymentCompleted, "dispute")],
        ),
        scenario(
            Type::PaymentDisputeClosed,
            "7001.01",
            &[
                (Type::PaymentCompleted, "dispute"),
                (Type::PaymentDisputed, "dispute_won"),
            ],
        ),
    ]
};

/// Arguments of `trigger`.
#[derive(Args, Debug)]
pub(in crate::cli) struct TriggerArgs {
    #[command(flatten)]
    shop: ShopArgs,
    /// Type of the event.
    #[arg(value_parser = events())]
    event: Scenario,
    /// Payment method; default: a method that is offered at the sandbox.
    #[arg(long)]
    method: Option<String>,
    /// Currency of the payment.
    #[arg(long, default_value = "EUR")]
    currency: String,
}

fn events() -> impl TypedValueParser<Value = Scenario> {
    let names = SCENARIOS.map(|scenario| scenario.event.as_str());
    PossibleValuesParser::new(names).try_map(|name| {
        let mut known = SCENARIOS.into_iter();
        known
            .find(|scenario| scenario.event.as_str() == name)
            .ok_or("unknown event")
    })
}

/// Creates the payment, and prints the event.
///
/// # Errors
/// The gateway refuses a call, or the event does not occur.
pub(in crate::cli) async fn trigger(args: TriggerArgs) -> Result<(), String> {
    let shop = Shop::new(&args.shop, &[])?;
    let payment = match args.event.amount {
        Some(amount) => pay(&shop, &args, amount).await?,
        None => {
            let payment = create(&shop, &args, "49.90", None).await?;
            let path = format!("/api/v1/payments/{payment}/cancel");
            shop.post_empty(&path).await.map_err(CallError::text)?;
            payment
        }
    };
    let event = wait_for(&shop, &payment, args.event.event).await?;
    print(&format!("{event:#}\n"))
}

/// Creates and pays a payment with a test amount. Returns its id.
async fn pay(shop: &Shop, args: &TriggerArgs, amount: &str) -> Result<String, String> {
    let method = match &args.method {
        Some(method) => method.clone(),
        None => method_at_sandbox(shop, args, amount).await?,
    };
    let payment = create(shop, args, amount, Some(&method)).await?;
    let body = json!({ "payment_id": payment, "payment_method": method });
    let started = shop.post("/api/v1/payments/start", &body).await;
    let started = started.map_err(CallError::text)?;
    let page = PayerPage::new(started["redirect_url"].as_str().unwrap_or_default())?;
    eprintln!("The payer's page is {}", page.address());
    let payer = Shop::new(&args.shop, &[page.address()])?;
    page.open(&payer).await?;
    for (before, outcome) in args.event.presses {
        wait_for(shop, &payment, *before).await?;
        page.press(&payer, outcome).await?;
    }
    Ok(payment)
}

/// Creates a payment and returns its id.
async fn create(
    shop: &Shop,
    args: &TriggerArgs,
    amount: &str,
    method: Option<&str>,
) -> Result<String, String> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|error| error.to_string())?;
    let id = format!("trigger-{}", hex::encode(random));
    let mut body = json!({
        "order_id": id, "idempotency_key": id, "amount": amount, "currency": args.currency,
    });
    if let Some(method) = method {
        body["checkout_mode"] = json!("direct");
        body["payment_method"] = json!(method);
    }
    let payment = shop.post("/api/v1/payments", &body).await;
    let payment = payment.map_err(CallError::text)?;
    let payment = payment["payment_id"].as_str().unwrap_or_default();
    eprintln!(
        "Created the payment {payment} of {amount} {}",
        args.currency
    );
    Ok(payment.to_owned())
}

/// A method whose first provider is the sandbox.
async fn method_at_sandbox(
    shop: &Shop,
    args: &TriggerArgs,
    amount: &str,
) -> Result<String, String> {
    let query = [("amount", amount), ("currency", args.currency.as_str())];
    let offered = shop.get("/api/v1/methods", &query).await;
    let offered = offered.map_err(CallError::text)?;
    let methods = offered["methods"].as_array().map_or(&[][..], Vec::as_slice);
    let is_at_sandbox = |method: &&Value| {
        let provider = method["providers"][0]["id"].as_str();
        provider.is_some_and(|id| id.starts_with(SANDBOX))
    };
    let mut found: Vec<&str> = methods
        .iter()
        .filter(is_at_sandbox)
        .filter_map(|method| method["id"].as_str())
        .collect();
    found.sort_by_key(|method| *method != CARD);
    let first = found.first().map(|method| (*method).to_owned());
    first.ok_or_else(|| {
        format!(
            "no method is offered at the sandbox for {amount} {}",
            args.currency
        )
    })
}

/// Waits until a payment has an event, and returns it.
async fn wait_for(shop: &Shop, payment: &str, kind: EventType) -> Result<Value, String> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let query = [("payment_id", payment), ("type", kind.as_str())];
        let pause = match shop.get("/api/v1/events", &query).await {
            Ok(mut page) => {
                let event = page["events"].get_mut(0).map(Value::take);
                if let Some(event) = event {
                    return Ok(event);
                }
                POLL
            }
            Err(CallError::Later(pause, _)) => pause,
            Err(CallError::Refused(why)) => return Err(why),
        };
        if Instant::now() + pause > deadline {
            let seconds = PATIENCE.as_secs();
            return Err(format!(
                "the payment {payment} has no {} after {seconds} s",
                kind.as_str()
            ));
        }
        tokio::time::sleep(pause).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_event_has_one_way_that_waits_for_events_before_it() {
        for (at, scenario) in SCENARIOS.iter().enumerate() {
            let mut before = SCENARIOS[..at].iter();
            assert!(before.all(|other| other.event != scenario.event));
            for (event, _) in scenario.presses {
                assert_ne!(*event, scenario.event);
            }
        }
    }
}
