//! Modules whose behavior depends on the input: a method that accepts every account, and a provider whose
//! responses depend on the payment's order id. It accepts callbacks with a certain header.

use std::sync::Arc;

use kassette_domain::id::{AccountId, AttemptId, Digest, Slot};
use kassette_domain::key::Environment;
use kassette_domain::method::MethodId;
use kassette_domain::money::Minor;
use kassette_domain::provider::{
    AttemptFacts, CallbackFailure, CallbackReply, CallbackRequest, Condition, Given, Instructions,
    Notice, Open, PaidFacts, Particulars, PayerAction, ProviderDescription, ProviderSettlement,
    ProviderStatus, QueryFailure, Question, QuestionKind, RefundFailure, RefundOrder, RefundQuery,
    RefundTerms, Report, Service, StartFailure, Started, Subject,
};
use kassette_domain::routing::{
    Availability, Context, Ground, MethodDescription, RankAnswer, RoutingRefusal, Verdict,
};
use kassette_gateway::modules::{Access, Calling, Method, Modules, Provider, ProviderQuery};
use kassette_runtime::CallError;

/// Header that proves a callback, and its value.
const PROOF: (&str, &str) = ("x-proof", "genuine");

pub(crate) struct Scripted;

impl Modules for Scripted {
    fn method(&self, method: MethodId, _: Environment) -> Option<Arc<dyn Method>> {
        let description = MethodDescription {
            id: method,
            label: method.as_str().to_owned(),
            version: "1".into(),
            currencies: vec![],
            translations: vec![],
            icon: vec![],
            settings: vec![],
        };
        let description = Arc::new(description);
        Some(Arc::new(Ranks(Slot::of_method(method), description)))
    }

    fn methods(&self) -> Vec<MethodId> {
        MethodId::SPECIFIED.into()
    }

    fn provider(&self, module: &str, _: Environment) -> Option<Arc<dyn Provider>> {
        let service = |method| Service {
            method,
            currencies: vec![],
            minimums: vec![],
        };
        let description = ProviderDescription {
            id: module.to_owned(),
            label: "Sandbox".into(),
            version: "1".into(),
            services: METHODS.map(service).into(),
            settings: vec![],
            secrets: vec![],
            tokens: vec![],
        };
        let slot = Slot::of_provider(module)?;
        (module == "sandbox").then(|| Arc::new(Speaks(slot, description)) as Arc<dyn Provider>)
    }

    fn provider_version(&self, slot: &Slot, _: &Digest) -> Option<Arc<dyn Provider>> {
        self.provider(slot.name(), Environment::Live)
    }

    fn previous_provider(&self, _: &str, _: Environment) -> Option<Arc<dyn Provider>> {
        None
    }

    fn is_disabled(&self, _: &Slot) -> bool {
        false
    }

    fn forget_tokens(&self, _: &AccountId) {}
}

/// Payment methods that the provider supports.
pub(crate) const METHODS: [MethodId; 3] = [MethodId::Ideal, MethodId::Paypal, MethodId::Klarna];

struct Ranks(Slot, Arc<MethodDescription>);

impl Method for Ranks {
    fn slot(&self) -> &Slot {
        &self.0
    }

    fn digest(&self) -> Digest {
        Digest::hash(b"method")
    }

    fn description(&self) -> &Arc<MethodDescription> {
        &self.1
    }

    fn check_settings(&self, _: &[(String, String)]) -> Result<Result<(), String>, CallError> {
        Ok(Ok(()))
    }
    fn at_once(&self, context: &Context) -> Option<Result<Arc<RankAnswer>, CallError>> {
        let verdict = |candidate: &kassette_domain::routing::AccountCandidate| {
            let ill = [Availability::Down, Availability::Stale].contains(&candidate.health.status);
            let outcome = match candidate.takes(context.amount) && !ill {
                true => Ok("it can".to_owned()),
                false => Err(RoutingRefusal {
                    ground: Ground::Amount,
                    detail: "it cannot".into(),
                }),
            };
            Verdict {
                id: candidate.id.clone(),
                outcome,
            }
        };
        Some(Ok(Arc::new(Ok(context
            .candidates
            .iter()
            .map(verdict)
            .collect()))))
    }

    fn rank<'a>(
        self: Arc<Self>,
        context: &'a Context,
    ) -> Calling<'a, Result<Arc<RankAnswer>, CallError>> {
        Box::pin(async move { self.at_once(context).unwrap_or(Err(CallError::Trap)) })
    }
}

struct Speaks(Slot, ProviderDescription);

impl Provider for Speaks {
    fn slot(&self) -> &Slot {
        &self.0
    }

    fn digest(&self) -> Digest {
        Digest::hash(b"provider")
    }

    fn description(&self) -> &ProviderDescription {
        &self.1
    }

    fn check_settings(
        &self,
        _: Environment,
        _: &[(String, String)],
    ) -> Result<Result<(), String>, CallError> {
        Ok(Ok(()))
    }
    fn start<'a>(
        &'a self,
        _: &'a Access,
        attempt: &'a AttemptFacts,
    ) -> Calling<'a, Result<Started, StartFailure>> {
        let ordered = |word| attempt.order.contains(word);
        let url = format!("https://pay.vendor.example/{}", attempt.id);
        let mut action = PayerAction::Redirect(url.clone());
        if ordered("show") {
            action = PayerAction::Show(Instructions {
                text: "Pay <b>here</b>".into(),
                details: vec![("IBAN".into(), "NL00".into())],
                qr: Some("upi://pay".into()),
                link: None,
            });
        } else if ordered("form") {
            action = PayerAction::Post {
                url,
                fields: vec![("a\"b".into(), "<c>".into())],
            };
        }
        let open = Started::Open(Open {
            reference: format!("ref-{}", attempt.id),
            action,
            until: None,
        });
        let question = |name: &str, kind| Question {
            name: name.into(),
            label: "What?".into(),
            kind,
            required: true,
            choices: vec![("a".into(), "A".into())],
        };
        let said = if ordered("refuse") {
            Err(StartFailure::Declined("no".into()))
        } else if ordered("down") {
            Err(StartFailure::Unavailable("503".into()))
        } else if ordered("ask") && attempt.answers.is_empty() {
            Ok(Started::Ask(vec![
                question("email", QuestionKind::Email),
                question("bank", QuestionKind::Choice),
            ]))
        } else {
            Ok(open)
        };
        Box::pin(async move { said })
    }

    /// The body consists of an attempt's id, its status, the amount received in cents and the currency, separated
    /// by spaces. All except the id are optional.
    fn callback<'a>(
        &'a self,
        _: &'a Access,
        incoming: &'a CallbackRequest,
    ) -> Calling<'a, Result<Result<CallbackReply, CallbackFailure>, CallError>> {
        let proved = |(name, value): &(String, String)| (name.as_str(), value.as_str()) == PROOF;
        let said = match incoming.headers.iter().any(proved) {
            false => Err(CallbackFailure::Forged("no proof".into())),
            true => {
                read(&incoming.body).ok_or_else(|| CallbackFailure::Malformed("no words".into()))
            }
        };
        Box::pin(async move { Ok(said) })
    }

    fn query<'a>(
        &'a self,
        _: &'a Access,
        question: &'a ProviderQuery,
    ) -> Calling<'a, Result<Result<Report, QueryFailure>, CallError>> {
        let attempt = &question.attempt;
        let said = match attempt.order.contains("absent") {
            true => Err(QueryFailure::Absent),
            false => Ok(report(attempt.id, ProviderStatus::Pending, Minor(0), "EUR")),
        };
        Box::pin(async move { Ok(said) })
    }

    fn refund_terms<'a>(
        &'a self,
        _: &'a Access,
    ) -> Calling<'a, Result<Vec<RefundTerms>, CallError>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn refund<'a>(
        &'a self,
        _: &'a Access,
        _: &'a PaidFacts,
        _: &'a RefundOrder,
    ) -> Calling<'a, Result<Given, RefundFailure>> {
        Box::pin(async { Err(RefundFailure::Unavailable("it gives nothing back".into())) })
    }

    fn query_refund<'a>(
        &'a self,
        _: &'a Access,
        _: &'a PaidFacts,
        _: &'a RefundOrder,
        _: RefundQuery,
    ) -> Calling<'a, Result<Result<Given, QueryFailure>, CallError>> {
        Box::pin(async {
            Ok(Err(QueryFailure::Unavailable(
                "it gives nothing back".into(),
            )))
        })
    }

    fn health<'a>(&'a self, _: &'a Access) -> Calling<'a, Result<Condition, CallError>> {
        Box::pin(async { Ok(Condition::Operational) })
    }
}

fn read(body: &[u8]) -> Option<CallbackReply> {
    let mut words = std::str::from_utf8(body).ok()?.split(' ');
    let attempt = AttemptId::parse(words.next()?).ok()?;
    let status = match words.next() {
        None => None,
        Some("pending") => Some(ProviderStatus::Pending),
        Some("processing") => Some(ProviderStatus::Processing),
        Some("verification") => Some(ProviderStatus::VerificationPending),
        Some("review") => Some(ProviderStatus::Review),
        Some("completed") => Some(ProviderStatus::Completed),
        Some("declined") => Some(ProviderStatus::Declined),
        Some("failed") => Some(ProviderStatus::Failed),
        Some("cancelled") => Some(ProviderStatus::Cancelled),
        Some(_) => return None,
    };
    let received = Minor(words.next().unwrap_or("0").parse().ok()?);
    let currency = words.next().unwrap_or("EUR");
    Some(CallbackReply {
        proved: true,
        notices: vec![Notice {
            about: Subject::Attempt(attempt),
            reference: None,
            report: status.map(|status| report(attempt, status, received, currency)),
        }],
        status: 200,
        media_type: "text/plain".into(),
        body: "[accepted]".into(),
    })
}

fn report(attempt: AttemptId, status: ProviderStatus, received: Minor, currency: &str) -> Report {
    Report {
        reference: format!("ref-{attempt}"),
        status,
        settlement: match status {
            ProviderStatus::Completed => ProviderSettlement::Confirmed,
            _ => ProviderSettlement::Pending,
        },
        received,
        currency: currency.chars().take(3).collect(),
        returned: Minor(0),
        detail: String::new(),
        particulars: Particulars::default(),
    }
}
