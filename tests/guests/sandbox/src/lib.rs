//! A variant of the sandbox provider that tests can distinguish from it: completed payments are reported in
//! review, callbacks have another response, and a callback at `?trap` or a start over 66.66 panics. It also
//! supports a method that the host does not know.
use kassette_plugin::provider::{
    Account, CallbackReply, Attempt, Condition, Description, CallbackRequest, SettingSpec, Provider, QueryFailure,
    CallbackFailure, Report, SecretSpec, MethodSupport, StartFailure, Started, Status, QueryPurpose,
};

#[path = "../../../../providers/sandbox/src/api.rs"]
mod api;
#[path = "../../../../providers/sandbox/src/callback.rs"]
mod callback;
#[path = "../../../../providers/sandbox/src/instructions.rs"]
mod instructions;
#[path = "../../../../providers/sandbox/src/particulars.rs"]
mod particulars;
#[path = "../../../../providers/sandbox/src/query.rs"]
mod query;
#[path = "../../../../providers/sandbox/src/report.rs"]
mod report;
#[path = "../../../../providers/sandbox/src/start.rs"]
mod start;
#[path = "../../../../providers/sandbox/src/wire.rs"]
mod wire;

/// The sandbox's methods, for which its accounts are configured, and a method unknown to the host.
const METHODS: &str =
    "credit_card crypto ideal paypal cash_app venmo revolut klarna upi_imps interac blik";

struct Other;

impl Provider for Other {
    fn describe() -> Description {
        Description {
            id: "sandbox".into(),
            label: "Sandbox, another".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            methods: METHODS
                .split(' ')
                .map(|method| MethodSupport::new(method, &[]))
                .collect(),
            settings: vec![SettingSpec::required(api::BASE_URL, "")],
            secrets: [api::CLIENT_ID, api::CLIENT_SECRET, callback::SECRET]
                .map(|name| SecretSpec::text(name, ""))
                .into(),
            tokens: vec![api::TOKEN.into()],
        }
    }

    fn start(account: Account, attempt: Attempt) -> Result<Started, StartFailure> {
        assert_ne!(attempt.due.amount, 66_66, "the amount at which it panics");
        start::start(&account, &attempt)
    }

    fn callback(account: Account, incoming: CallbackRequest) -> Result<CallbackReply, CallbackFailure> {
        if incoming.query == "trap" {
            panic!("a callback that this version does not survive");
        }
        let read = callback::read(&account, &incoming)?;
        Ok(CallbackReply {
            body: "[seen]".into(),
            ..read
        })
    }

    fn query(
        account: Account,
        attempt: Attempt,
        reference: Option<String>,
        purpose: QueryPurpose,
        _: Option<String>,
    ) -> Result<Report, QueryFailure> {
        let mut report = query::query(&account, &attempt, reference.as_deref(), purpose, None)?;
        if report.status == Status::Completed {
            report.status = Status::Review;
        }
        Ok(report)
    }

    fn health(account: Account) -> Condition {
        match api::get(&account, "/v1/account") {
            Ok(answer) if answer.status == 200 => Condition::Operational,
            _ => Condition::Down("it does not answer".into()),
        }
    }
}

kassette_plugin::provider::export!(Other);
