//! Checks of a provider module whose vendor cannot be reached, and of callbacks from strangers.

use kassette_domain::id::RefundId;
use kassette_domain::method::MethodId;
use kassette_domain::money::{Currency, Minor, Money};
use kassette_domain::provider::{
    AttemptFacts, CallbackRequest, Condition, PaidFacts, ProviderDescription, QueryFailure,
    QueryPurpose, RefundFailure, RefundOrder, RefundQuery, RefundTerms, Report, StartFailure,
    Started, Verb,
};
use kassette_domain::setting::SettingForm;
use kassette_runtime::{AccountAccess, CallError, ProviderModule};

use super::Check;
use crate::account::{account, attempt};
use crate::harness::NOW;

/// A host that does not exist. Nothing is sent there.
const HOST: &str = "vendor.invalid";

/// Runs all checks of a provider module.
pub(super) fn checks(module: &ProviderModule) -> Vec<Check> {
    let access = match account(module.description(), HOST, &[]) {
        Ok(access) => without_hosts(with_settings(access, module.description())),
        Err(error) => return vec![Check::new("start", Err(error.to_string()))],
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return vec![Check::new("start", Err(format!("no threads: {error}")))],
    };
    let attempt = ordinary(module.description());
    runtime.block_on(async {
        vec![
            Check::new("start", start(module, &access, &attempt).await),
            Check::new("callback", callback(module, &access).await),
            Check::new("query", query(module, &access, &attempt).await),
            Check::new("health", health(module, &access).await),
            Check::new("refunds", refunds(module, &access, &attempt).await),
        ]
    })
}

/// Removes all hosts, so that requests are rejected before a name lookup.
fn without_hosts(access: AccountAccess) -> AccountAccess {
    AccountAccess {
        hosts: Vec::new(),
        ..access
    }
}

/// Gives every required setting a valid value.
fn with_settings(mut access: AccountAccess, description: &ProviderDescription) -> AccountAccess {
    for need in description.settings.iter().filter(|need| need.required) {
        let value = match &need.form {
            SettingForm::Address => format!("https://{HOST}"),
            SettingForm::Choice(words) => words.first().cloned().unwrap_or_default(),
            SettingForm::Flag => "false".into(),
            SettingForm::Number { least, .. } => least.to_string(),
            SettingForm::Amount => "1.00".into(),
            SettingForm::Countries => "NL".into(),
            SettingForm::Accounts => access.account.id.to_string(),
            SettingForm::Text => "test".into(),
        };
        access.account.settings.push((need.name.clone(), value));
    }
    access
}

/// An attempt that the module should support according to its description.
fn ordinary(description: &ProviderDescription) -> AttemptFacts {
    let service = description.services.first();
    let method = service.map_or(MethodId::CreditCard, |service| service.method);
    let currency = service.and_then(|service| service.currencies.first());
    let due = Money {
        amount: Minor(49_00),
        currency: currency.copied().unwrap_or(Currency::EUR),
    };
    attempt(method, due)
}

fn broke(error: &CallError) -> String {
    format!("{error}, where the vendor cannot be reached; answer with an error of the contract")
}

async fn start(
    module: &ProviderModule,
    access: &AccountAccess,
    attempt: &AttemptFacts,
) -> Result<String, String> {
    match module.start(access, attempt).await.result {
        Ok(Started::Ask(_)) => Ok("asks the payer first".into()),
        Ok(Started::Open(_)) | Err(StartFailure::PageRefused { .. }) => {
            Err("says that the payment is open, though no request was sent".into())
        }
        Err(StartFailure::Uncertain(_)) => Err(
            "is uncertain though nothing was sent: say `unavailable` for `not-sent`, so that the next provider is tried"
                .into(),
        ),
        Err(
            StartFailure::Unavailable(_) | StartFailure::NotActivated(_) | StartFailure::Declined(_),
        ) => {
            Ok("makes no payment where nothing can be sent".into())
        }
    }
}

/// Callbacks that anyone could send.
fn strangers() -> Vec<CallbackRequest> {
    let bodies: [&[u8]; 5] = [b"", b"{}", b"id=1", b"\xff\xfe\0\0", &[b'x'; 64 << 10]];
    let mut all = Vec::new();
    for body in bodies {
        for verb in [Verb::Post, Verb::Get] {
            all.push(CallbackRequest {
                verb,
                path: String::new(),
                query: "id=1".into(),
                headers: vec![("content-type".into(), "application/json".into())],
                body: body.to_vec(),
            });
        }
    }
    all
}

async fn callback(module: &ProviderModule, access: &AccountAccess) -> Result<String, String> {
    let strangers = strangers();
    for incoming in &strangers {
        let what = format!(
            "a callback of {} bytes without signature",
            incoming.body.len()
        );
        let answer = module.callback(access, incoming).await;
        match answer.map_err(|error| format!("{error}, on {what}"))? {
            Ok(known) if known.notices.iter().any(|notice| notice.report.is_some()) => {
                return Err(format!("believed {what}"));
            }
            Ok(_) | Err(_) => {}
        }
    }
    let count = strangers.len();
    Ok(format!("{count} callbacks of strangers, none believed"))
}

async fn query(
    module: &ProviderModule,
    access: &AccountAccess,
    attempt: &AttemptFacts,
) -> Result<String, String> {
    for purpose in [
        QueryPurpose::Sync,
        QueryPurpose::Capture,
        QueryPurpose::Cancel,
    ] {
        for reference in [None, Some("reference-1")] {
            let answer = module
                .query(access, attempt, reference, purpose, None)
                .await;
            if let Ok(Report { status, .. }) = answer.map_err(|error| broke(&error))? {
                return Err(format!(
                    "reports {status:?} though no request was sent: a report is read from the vendor"
                ));
            }
        }
    }
    Ok("reports nothing that the vendor has not said".into())
}

async fn refunds(
    module: &ProviderModule,
    access: &AccountAccess,
    attempt: &AttemptFacts,
) -> Result<String, String> {
    let terms = module.refund_terms(access).await;
    let terms = terms.map_err(|error| format!("{error}, asked for its terms"))?;
    let services = &module.description().services;
    let foreign = |term: &&RefundTerms| !services.iter().any(|of| of.method == term.method);
    if let Some(term) = terms.iter().find(foreign) {
        return Err(format!(
            "gives back payments by {}, which is not among its methods",
            term.method
        ));
    }
    let (paid, order) = refund(attempt);
    let claims = match module.refund(access, &paid, &order).await {
        Ok(_) => Some("says that money was given back"),
        Err(RefundFailure::Uncertain(_)) => Some("is uncertain whether money was given back"),
        Err(RefundFailure::Unavailable(_) | RefundFailure::Refused(_)) => None,
    };
    if let Some(claims) = claims {
        return Err(format!(
            "{claims} though nothing was sent: say `unavailable` for `not-sent`"
        ));
    }
    for purpose in [RefundQuery::Sync, RefundQuery::Cancel] {
        for reference in [None, Some("reference-1".into())] {
            let order = RefundOrder {
                reference,
                ..order.clone()
            };
            let answer = module.query_refund(access, &paid, &order, purpose).await;
            if let Ok(_) | Err(QueryFailure::Absent) = answer.map_err(|error| broke(&error))? {
                let does = match purpose {
                    RefundQuery::Sync => "knows what became of a refund",
                    RefundQuery::Cancel => "cancels a refund",
                };
                return Err(format!(
                    "{does} though no request was sent: say `unavailable`"
                ));
            }
        }
    }
    Ok(match terms.len() {
        0 => "gives no money back".into(),
        count => format!("gives back payments by {count} methods"),
    })
}

/// A full refund of an ordinary payment.
fn refund(attempt: &AttemptFacts) -> (PaidFacts, RefundOrder) {
    let paid = PaidFacts {
        attempt: attempt.id,
        method: attempt.method,
        reference: "reference-1".into(),
        references: Vec::new(),
        received: attempt.due.amount,
        currency: attempt.due.currency.code().into(),
        captured_at: Some(NOW),
        merchant_order: attempt.order.clone(),
        merchant: attempt.merchant.clone(),
    };
    let order = RefundOrder {
        id: RefundId::from_bytes([9; 16]),
        amount: attempt.due.amount,
        reason: None,
        asked_at: NOW,
        reference: None,
    };
    (paid, order)
}

async fn health(module: &ProviderModule, access: &AccountAccess) -> Result<String, String> {
    match module.health(access).await.map_err(|error| broke(&error))? {
        Condition::Operational => {
            Err("says that the vendor works, though no request was sent".into())
        }
        Condition::Degraded(_) | Condition::Down(_) => {
            Ok("says so where the vendor cannot be reached".into())
        }
    }
}
