//! Explains why a method is offered or not.
//!
//! Uses the same functions as listings and starts. It reports what they only leave out.

use kassette_domain::id::AccountId;
use kassette_domain::key::Environment;
use kassette_domain::merchant::Merchant;
use kassette_domain::method::MethodId;
use kassette_domain::money::{Currency, Minor};
use kassette_domain::routing::{Ground, RankAnswer};
use kassette_store::Fault;

use crate::Gateway;
use crate::routing::{NotRoutable, RankRequest};
use crate::settings::Account;

/// Whether a method is offered, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MethodExplanation {
    pub method: MethodId,
    /// Whether a listing shows it now.
    pub is_offered: bool,
    /// A sentence for operators.
    pub reason: String,
    /// Accounts of the environment, ordered by id. Empty if the payment is refused regardless of its method.
    pub accounts: Vec<AccountExplanation>,
}

/// Whether an account could process a payment, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountExplanation {
    pub id: AccountId,
    pub is_eligible: bool,
    /// Explanation for operators: the module's own text if it was called.
    pub reason: String,
}

impl NotRoutable {
    /// Explanation for operators.
    fn explanation(self) -> String {
        match self {
            Self::Policy(disallowed) => disallowed.to_string(),
            Self::NoAccount => "no account takes it for this merchant and currency".into(),
            Self::NoModule => "its module is missing".into(),
            Self::ModuleOff => "an operator has switched its module off".into(),
            Self::ModuleFailed => "its module failed".into(),
            Self::Refused(Ground::Currency) => "it cannot be paid in this currency".into(),
            Self::Refused(ground) => format!("its module refuses it: {ground:?}"),
        }
    }
}

impl Gateway {
    /// Reports for each method whether a merchant's payment could use it now, and for each account of the
    /// environment whether it could process the payment. Limits are not applied without an amount.
    ///
    /// # Errors
    /// The store's.
    pub async fn explain(
        &self,
        merchant: &Merchant,
        environment: Environment,
        amount: Option<Minor>,
        currency: Currency,
    ) -> Result<Vec<MethodExplanation>, Fault> {
        let mut methods = self.modules().methods();
        for method in MethodId::SPECIFIED {
            if !methods.contains(&method) {
                methods.push(method);
            }
        }
        let usd = match self.refused(merchant, environment, amount, currency) {
            Ok(usd) => usd,
            Err(reason) => {
                let refused = methods.into_iter().map(|method| MethodExplanation {
                    method,
                    is_offered: false,
                    reason: reason.clone(),
                    accounts: Vec::new(),
                });
                return Ok(refused.collect());
            }
        };
        let question = RankRequest {
            merchant,
            environment,
            amount,
            currency,
            usd,
            email_known: false,
        };
        let mut explanations = Vec::with_capacity(methods.len());
        for method in methods {
            explanations.push(self.explain_method(method, &question).await?);
        }
        Ok(explanations)
    }

    /// Logs at debug level why a method was refused.
    pub(crate) async fn tell_why_not(&self, method: MethodId, question: &RankRequest<'_>) {
        if tracing::enabled!(tracing::Level::DEBUG)
            && let Ok(explanation) = self.explain_method(method, question).await
        {
            let accounts = explanation.accounts.iter();
            let accounts = accounts.map(|account| format!("{}: {}", account.id, account.reason));
            tracing::debug!(
                merchant.id = %question.merchant.id, environment = %question.environment, method.id = %method,
                routing.reason = explanation.reason, routing.accounts = accounts.collect::<Vec<_>>().join("; "),
                "a method was refused"
            );
        }
    }

    /// Returns the amount in US cents, or the reason why no method accepts the payment.
    fn refused(
        &self,
        merchant: &Merchant,
        environment: Environment,
        amount: Option<Minor>,
        currency: Currency,
    ) -> Result<Option<Minor>, String> {
        if !merchant.may_use(environment) {
            return Err("the merchant is not approved for live payments".into());
        }
        let usd = self.usd_now(merchant, amount, currency);
        usd.map_err(|refused| refused.explanation())
    }

    async fn explain_method(
        &self,
        method: MethodId,
        question: &RankRequest<'_>,
    ) -> Result<MethodExplanation, Fault> {
        let (configured, switches) = (self.configured(), self.switches().await?);
        let eligible = self.eligible_accounts(&configured, &switches, question, None);
        let answer = match self.ranking_query(
            &eligible,
            self.modules().method(method, question.environment),
            method,
            question,
            None,
        ) {
            Err(barred) => Err(barred.explanation()),
            Ok(query) => {
                let answer = query.answer().await;
                answer.map_err(|error| format!("its module failed: {error}"))
            }
        };
        let explain = |account: &Account| {
            let candidate = self
                .eligible_account(&configured, &switches, account, question, eligible.at)
                .and_then(|eligible| eligible.candidate(method, question));
            let verdict = match (candidate, &answer) {
                (Err(left_out), _) => Err(left_out.to_string()),
                (Ok(_), Err(_)) => Err("it was not judged".into()),
                (Ok(candidate), Ok(answer)) => verdict(answer, &candidate.id),
            };
            AccountExplanation {
                id: account.id.clone(),
                is_eligible: verdict.is_ok(),
                reason: verdict.unwrap_or_else(|reason| reason),
            }
        };
        let accounts = configured.settings.accounts.values();
        let accounts = accounts.filter(|account| account.environment == question.environment);
        let accounts: Vec<_> = accounts.map(explain).collect();
        let is_offered = accounts.iter().any(|account| account.is_eligible);
        let reason = match answer {
            Err(reason) => reason,
            Ok(answer) => match &*answer {
                Err(refusal) => format!("its module refuses it: {}", refusal.detail),
                Ok(_) if is_offered => "an account takes it".into(),
                Ok(_) => "its module refuses every account".into(),
            },
        };
        Ok(MethodExplanation {
            method,
            is_offered,
            reason,
            accounts,
        })
    }
}

/// A module's verdict about an account: why it is eligible, or why not.
fn verdict(answer: &RankAnswer, account: &AccountId) -> Result<String, String> {
    let Ok(verdicts) = answer else {
        return Err("it was not judged: the module refuses the method".into());
    };
    let verdict = verdicts.iter().find(|verdict| verdict.id == *account);
    match verdict.map(|verdict| &verdict.outcome) {
        Some(Ok(reason)) => Ok(reason.clone()),
        Some(Err(refusal)) => Err(refusal.detail.clone()),
        None => Err("it was not judged: too many accounts come before it".into()),
    }
}
