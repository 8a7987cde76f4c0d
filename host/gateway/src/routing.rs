//! Candidate accounts for a method, and the ranking by the method's module.

use std::sync::Arc;

use kassette_domain::id::{AccountId, MerchantId, Slot};
use kassette_domain::key::Environment;
use kassette_domain::merchant::Merchant;
use kassette_domain::method::MethodId;
use kassette_domain::money::{Currency, Minor};
use kassette_domain::payment::{Judgement, Payment, Purpose, RoutingDecision};
use kassette_domain::policy::Disallowed;
use kassette_domain::provider::Service;
use kassette_domain::routing::{
    AccountCandidate, Context, Ground, Health, MAX_CANDIDATES, MethodDescription, RankAnswer,
    Verdict,
};
use kassette_domain::time::Time;
use kassette_runtime::CallError;
use kassette_store::Fault;

use crate::Gateway;
use crate::configure::Switches;
use crate::configured::{Configured, lacks};
use crate::modules::{Method, Provider, answer};
use crate::routing_records::{DecisionMade, ModuleAnswer};
use crate::settings::{Account, Merchants, Terms};

/// Data for the ranking by a method's module.
#[derive(Clone, Debug)]
pub struct RankRequest<'a> {
    pub merchant: &'a Merchant,
    pub environment: Environment,
    /// Amount in minor units. `None` means that limits are not applied.
    pub amount: Option<Minor>,
    pub currency: Currency,
    /// `amount` in US cents. `None` without an amount.
    pub usd: Option<Minor>,
    /// Whether the payer's email address is known.
    pub email_known: bool,
}

/// A usable method: the module's verdicts, at least one of them positive.
pub(crate) struct Ranking(ModuleAnswer);

/// A method that its own module rejects.
pub(crate) struct Rejected {
    pub(crate) barred: NotRoutable,
    pub(crate) asked: ModuleAnswer,
}

pub(crate) type RankResult = Result<Ranking, Rejected>;

/// Reason why a method cannot be used now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotRoutable {
    Policy(Disallowed),
    /// No account serves the method for this merchant, environment and currency.
    NoAccount,
    NoModule,
    /// An operator has disabled its module.
    ModuleOff,
    ModuleFailed,
    /// Its module rejected the payment or every account.
    Refused(Ground),
}

impl NotRoutable {
    /// Text for the merchant, after `payment_method: `.
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::Policy(_) => "is not enabled for this merchant and amount",
            Self::NoAccount => "no provider takes it for this currency",
            Self::NoModule | Self::ModuleOff | Self::ModuleFailed => "is not available now",
            Self::Refused(ground) => match ground {
                Ground::Currency => "cannot be paid in this currency",
                Ground::Amount => "is not available for this amount",
                Ground::Country => "is not available in the payer's country",
                Ground::Payer => "is not available for this payer",
                Ground::Policy => "is not available under the operator's settings",
                Ground::Health | Ground::Other => "is not available now",
            },
        }
    }
}

/// Reason why an account is not a candidate for a method, for operators.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LeftOut {
    #[error("it is an account of the {0} environment")]
    Environment(Environment),
    #[error("it takes payments of other merchants alone")]
    Merchant,
    #[error("an operator has switched it off")]
    SwitchedOff,
    #[error("its configuration cannot be used: see kassette config check")]
    Unusable,
    #[error("an operator has switched its module {0} off")]
    ModuleOff(Slot),
    #[error("its module {0} is missing")]
    NoModule(Slot),
    #[error("its configuration lacks what its module needs: {}", .0.join("; "))]
    Lacks(Vec<String>),
    #[error("the merchant's policy names other accounts for the method")]
    Policy,
    #[error("its configuration does not name the method")]
    Method,
    #[error("its module does not take the method in {0}")]
    Currency(Currency),
    #[error("its provider has refused the method in {0} three times: see the work list")]
    Refuses(Currency),
}

impl Ranking {
    /// The question to the module and its answer.
    pub(crate) const fn asked(&self) -> &ModuleAnswer {
        &self.0
    }

    /// The module's description of itself.
    pub(crate) fn description(&self) -> &Arc<MethodDescription> {
        self.0.module.description()
    }

    /// Eligible accounts, best first. At least one.
    pub(crate) fn eligible(&self) -> impl Iterator<Item = &AccountId> {
        self.0.answer.iter().flat_map(|answer| eligible(answer))
    }

    fn verdicts(&self) -> &[Verdict] {
        match self.0.answer.as_deref() {
            Some(Ok(verdicts)) => verdicts,
            _ => &[],
        }
    }

    /// The decision in its stored form: the chosen account, and the reason.
    pub(crate) fn decision(
        &self,
        chosen: &AccountId,
        purpose: Purpose,
        why: &str,
    ) -> RoutingDecision {
        let verdicts = self.verdicts();
        let verdict = verdicts.iter().find(|verdict| verdict.id == *chosen);
        let reason = verdict.and_then(|verdict| verdict.outcome.as_ref().ok());
        let reason = reason.map_or("", String::as_str);
        let judgement = |verdict: &Verdict| Judgement {
            account: verdict.id.clone(),
            eligible: verdict.outcome.is_ok(),
            reason: match &verdict.outcome {
                Ok(reason) => reason.clone(),
                Err(refusal) => refusal.detail.clone(),
            },
        };
        RoutingDecision {
            at: self.0.at,
            slot: self.0.module.slot().clone(),
            digest: self.0.module.digest(),
            purpose,
            chosen: Some(chosen.clone()),
            explanation: match self.0.is_on_trial {
                true => format!("{chosen} was chosen by the version on trial{why}: {reason}"),
                false => format!("{chosen} was chosen{why}: {reason}"),
            },
            verdicts: verdicts.iter().map(judgement).collect(),
        }
    }
}

/// Accounts that can serve a payment regardless of the method. Checked once per request, because a listing
/// needs them for about ten methods.
pub(crate) struct EligibleAccounts<'a> {
    configured: &'a Configured,
    accounts: Vec<EligibleAccount<'a>>,
    /// Time of the check, which is also the time of the question.
    pub(crate) at: Time,
}

/// An account that can serve the payment, with its module and its health.
pub(crate) struct EligibleAccount<'a> {
    account: &'a Account,
    module: Arc<dyn Provider>,
    health: Health,
    /// Methods and currencies that the account has recently refused.
    omitted: Vec<(MethodId, Currency)>,
}

impl EligibleAccount<'_> {
    /// The module's description of its service for the method, if it supports this currency.
    fn service(&self, method: MethodId, currency: Currency) -> Option<&Service> {
        self.module.description().services.iter().find(|service| {
            let any = service.currencies.is_empty();
            service.method == method && (any || service.currencies.contains(&currency))
        })
    }

    /// The account in the form that the method's module receives.
    pub(crate) fn candidate(
        &self,
        method: MethodId,
        question: &RankRequest<'_>,
    ) -> Result<AccountCandidate, LeftOut> {
        let id = &self.account.id;
        if !question.merchant.policy.allows_account(method, id) {
            return Err(LeftOut::Policy);
        }
        let terms = self.account.methods.get(&method);
        let terms = terms.ok_or(LeftOut::Method)?;
        let service = self.service(method, question.currency);
        let service = service.ok_or(LeftOut::Currency(question.currency))?;
        if self.omitted.contains(&(method, question.currency)) {
            return Err(LeftOut::Refuses(question.currency));
        }
        let limits = terms.limits.get(&question.currency);
        let (minimum, maximum) = limits.copied().unwrap_or_default();
        // The larger of the operator's and the provider's minimum.
        let mut documented = service.minimums.iter();
        let documented = documented.find(|(currency, _)| *currency == question.currency);
        let minimum = minimum.max(documented.map(|(_, least)| *least));
        Ok(AccountCandidate {
            id: self.account.id.clone(),
            minimum,
            maximum,
            fee: question
                .amount
                .and_then(|amount| fee(terms, amount, question.currency)),
            priority: terms.priority,
            health: self.health,
        })
    }
}

impl EligibleAccounts<'_> {
    /// Candidate accounts for this method, at most [`MAX_CANDIDATES`]. If there are more, those with the
    /// highest priority are selected.
    fn candidates(&self, method: MethodId, question: &RankRequest<'_>) -> Vec<AccountCandidate> {
        let accounts = self.accounts.iter();
        let mut candidates: Vec<AccountCandidate> = accounts
            .filter_map(|eligible| eligible.candidate(method, question).ok())
            .collect();
        if candidates.len() > MAX_CANDIDATES {
            candidates.sort_by_key(|candidate| std::cmp::Reverse(candidate.priority));
            candidates.truncate(MAX_CANDIDATES);
        }
        candidates
    }
}

impl Gateway {
    /// Calls a method's module to rank the accounts for a payment. A rejection by the module is recorded in
    /// the routing log. With `only`, all other accounts are left out.
    pub(crate) async fn rank(
        &self,
        method: MethodId,
        question: &RankRequest<'_>,
        only: Option<&AccountId>,
        country: Option<String>,
        what_for: (Purpose, Option<&Payment>),
    ) -> Result<Result<Ranking, NotRoutable>, Fault> {
        let (configured, switches) = (self.configured(), self.switches().await?);
        let eligible = self.eligible_accounts(&configured, &switches, question, only);
        let (purpose, payment) = what_for;
        let query = |module: Option<Arc<dyn Method>>| {
            let module = module.or_else(|| self.modules().method(method, question.environment));
            self.ranking_query(&eligible, module, method, question, country.clone())
        };
        let by_candidate = match payment {
            Some(payment) => self.rank_by_candidate(method, payment, query).await,
            None => None,
        };
        let judged = match by_candidate {
            Some(judged) => judged,
            None => match query(None) {
                Ok(query) => {
                    let answer = query.answer().await;
                    Ok(query.judge(answer))
                }
                Err(barred) => Err(barred),
            },
        };
        let judged = match judged {
            Ok(judged) => judged,
            Err(barred) => return Ok(Err(barred)),
        };
        Ok(judged.map_err(|Rejected { barred, asked }| {
            let merchant = question.merchant.id;
            let payment = payment.map(|payment| payment.id);
            self.record_decision(DecisionMade::new(asked, merchant, purpose).for_payment(payment));
            barred
        }))
    }

    /// Accounts that serve the payment's merchant and environment, are switched on, have all required
    /// settings and have a module that is not disabled. With `only`, all other accounts are left out.
    pub(crate) fn eligible_accounts<'a>(
        &self,
        configured: &'a Configured,
        switches: &Switches,
        question: &RankRequest<'_>,
        only: Option<&AccountId>,
    ) -> EligibleAccounts<'a> {
        let settings = &configured.settings;
        let now = self.now();
        let accounts = settings.accounts.values();
        let eligible = accounts
            .filter(|account| only.is_none_or(|only| *only == account.id))
            .filter_map(|account| {
                self.eligible_account(configured, switches, account, question, now)
                    .ok()
            });
        EligibleAccounts {
            configured,
            accounts: eligible.collect(),
            at: now,
        }
    }

    /// Checks an account for the payment, regardless of the method.
    pub(crate) fn eligible_account<'a>(
        &self,
        configured: &Configured,
        switches: &Switches,
        account: &'a Account,
        question: &RankRequest<'_>,
        now: Time,
    ) -> Result<EligibleAccount<'a>, LeftOut> {
        if account.environment != question.environment {
            return Err(LeftOut::Environment(account.environment));
        }
        if !serves(account, question.merchant.id) {
            return Err(LeftOut::Merchant);
        }
        if !switches.is_on(account) {
            return Err(LeftOut::SwitchedOff);
        }
        let slot = configured.slot(&account.id).ok_or(LeftOut::Unusable)?;
        if self.modules().is_disabled(slot) {
            return Err(LeftOut::ModuleOff(slot.clone()));
        }
        let module = self.modules().provider(slot.name(), account.environment);
        let module = module.ok_or_else(|| LeftOut::NoModule(slot.clone()))?;
        let lacks = lacks(account, module.description());
        if !lacks.is_empty() {
            return Err(LeftOut::Lacks(lacks));
        }
        let health_max_age = configured.settings.health_max_age;
        Ok(EligibleAccount {
            account,
            module,
            health: self.measured_health(&account.id, health_max_age, now),
            omitted: self.inner.measured.omitted(&account.id, now),
        })
    }

    /// Prepares the question to a method's module about a payment. An error if the host already knows that
    /// the method cannot be used.
    pub(crate) fn ranking_query(
        &self,
        eligible: &EligibleAccounts<'_>,
        module: Option<Arc<dyn Method>>,
        method: MethodId,
        question: &RankRequest<'_>,
        country: Option<String>,
    ) -> Result<PendingRanking, NotRoutable> {
        let settings = &eligible.configured.settings;
        let policy = &question.merchant.policy;
        let default = settings.live_default;
        policy
            .allows(method, question.environment, question.usd, default)
            .map_err(NotRoutable::Policy)?;
        let fixed = method.fixed_currency();
        if fixed.is_some_and(|fixed| fixed != question.currency) {
            return Err(NotRoutable::Refused(Ground::Currency));
        }
        let module = module.ok_or(NotRoutable::NoModule)?;
        if self.modules().is_disabled(module.slot()) {
            return Err(NotRoutable::ModuleOff);
        }
        let currencies = &module.description().currencies;
        if !currencies.is_empty() && !currencies.contains(&question.currency) {
            return Err(NotRoutable::Refused(Ground::Currency));
        }
        let candidates = eligible.candidates(method, question);
        if candidates.is_empty() {
            return Err(NotRoutable::NoAccount);
        }
        let context = Context {
            amount: question.amount,
            currency: question.currency,
            usd: question.usd,
            environment: question.environment,
            email_known: question.email_known,
            country,
            // Whole seconds, so that equal questions can be answered from the cache.
            now: eligible.at.whole_second(),
            settings: settings.methods.get(&method).cloned().unwrap_or_default(),
            candidates,
        };
        Ok(PendingRanking {
            module,
            context: Arc::new(context),
            at: eligible.at,
            is_on_trial: false,
        })
    }
}

/// A prepared question to a method's module.
pub(crate) struct PendingRanking {
    module: Arc<dyn Method>,
    context: Arc<Context>,
    at: Time,
    is_on_trial: bool,
}

impl PendingRanking {
    /// Returns the ranking if the module answers immediately. Otherwise returns the question, which has to
    /// wait.
    pub(crate) fn at_once(self) -> Result<RankResult, Self> {
        match self.module.at_once(&self.context) {
            Some(answer) => Ok(self.judge(answer)),
            None => Err(self),
        }
    }

    /// The same question to a version on trial.
    pub(crate) fn on_trial(self) -> Self {
        Self {
            is_on_trial: true,
            ..self
        }
    }

    /// Returns the module's answer without a judgement.
    pub(crate) async fn answer(&self) -> Result<Arc<RankAnswer>, CallError> {
        answer(&self.module, &self.context).await
    }

    /// Calls the module and returns the ranking.
    pub(crate) async fn wait(self) -> RankResult {
        let answer = Arc::clone(&self.module).rank(&self.context).await;
        self.judge(answer)
    }

    pub(crate) fn judge(self, answer: Result<Arc<RankAnswer>, CallError>) -> RankResult {
        // The runtime has already logged a failure, with slot, digest and function.
        let asked = ModuleAnswer {
            module: self.module,
            context: self.context,
            answer: answer.ok(),
            at: self.at,
            is_on_trial: self.is_on_trial,
        };
        let barred = match asked.answer.as_deref() {
            None => NotRoutable::ModuleFailed,
            Some(answer) if eligible(answer).next().is_none() => {
                NotRoutable::Refused(ground(answer))
            }
            Some(_) => return Ok(Ranking(asked)),
        };
        Err(Rejected { barred, asked })
    }
}

/// Eligible accounts of an answer, best first.
pub(crate) fn eligible(answer: &RankAnswer) -> impl Iterator<Item = &AccountId> {
    let verdicts = answer.as_deref().unwrap_or_default().iter();
    let yes = verdicts.filter(|verdict| verdict.outcome.is_ok());
    yes.map(|verdict| &verdict.id)
}

/// Reason why an answer has no eligible accounts.
pub(crate) fn ground(answer: &RankAnswer) -> Ground {
    match answer {
        Err(refusal) => refusal.ground,
        Ok(verdicts) => common_ground(verdicts),
    }
}

/// Whether an account serves a merchant's payments.
fn serves(account: &Account, merchant: MerchantId) -> bool {
    match &account.merchants {
        Merchants::All => true,
        Merchants::Only(merchants) => merchants.contains(&merchant),
    }
}

/// Fee of an account in minor units: the percentage, rounded half up, plus the fixed part. `None` if no fee
/// is configured or the result does not fit.
fn fee(terms: &Terms, amount: Minor, currency: Currency) -> Option<Minor> {
    let fixed = terms.fee_fixed.get(&currency);
    if terms.fee_basis_points.is_none() && fixed.is_none() {
        return None;
    }
    let points = u128::from(terms.fee_basis_points.unwrap_or_default());
    let share = (u128::from(amount.0) * points + 5_000) / 10_000;
    let fee = share + u128::from(fixed.map_or(0, |fixed| fixed.0));
    u64::try_from(fee).ok().map(Minor)
}

/// The ground that all refusals share. `Ground::Other` if they differ.
fn common_ground(verdicts: &[Verdict]) -> Ground {
    let mut grounds = verdicts
        .iter()
        .filter_map(|verdict| verdict.outcome.as_ref().err())
        .map(|refusal| refusal.ground);
    let first = grounds.next().unwrap_or(Ground::Other);
    if grounds.all(|ground| ground == first) {
        first
    } else {
        Ground::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fee_is_whole_minor_units_rounded_half_up() {
        let mut terms = Terms {
            fee_basis_points: Some(290),
            ..Terms::default()
        };
        let eur = |terms: &Terms, amount| fee(terms, Minor(amount), Currency::EUR);
        assert_eq!(eur(&terms, 4990), Some(Minor(145)));
        assert_eq!(eur(&terms, 50), Some(Minor(1)));
        terms.fee_fixed.insert(Currency::EUR, Minor(30));
        assert_eq!(eur(&terms, 4990), Some(Minor(175)));
        assert!(eur(&terms, u64::MAX).is_some());
        terms.fee_basis_points = Some(10_001);
        assert_eq!(eur(&terms, u64::MAX), None);
        assert_eq!(eur(&Terms::default(), 4990), None);
    }
}
