//! Selects the accounts of a start: policy, ranking, the note that the payer saw, and the next account.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use kassette_domain::attempt::{AttemptState, Choice};
use kassette_domain::id::{AccountId, AttemptId};
use kassette_domain::lifecycle::PaymentAggregate;
use kassette_domain::merchant::Merchant;
use kassette_domain::payment::Purpose;

use super::{NotAvailable, Run, StartError, Starter};
use crate::Gateway;
use crate::permits::Permit;
use crate::routing::{NotRoutable, RankRequest, Ranking};
use crate::routing_records::DecisionMade;

/// How long an account that was unavailable for this payment is not placed before the account whose note the
/// payer has agreed to. Only on the page.
const LATELY: Duration = Duration::from_secs(60);

/// Accounts to try, best first.
pub(super) struct Plan {
    ranking: Ranking,
    rest: VecDeque<AccountId>,
    /// Whether an account had no free permit.
    pub(super) is_crowded: bool,
}

impl Plan {
    /// Records that this plan opened an attempt.
    pub(super) fn record(
        &self,
        gateway: &Gateway,
        aggregate: &PaymentAggregate,
        id: AttemptId,
        purpose: Purpose,
    ) {
        let payment = &aggregate.payment;
        let asked = self.ranking.asked().clone();
        gateway.record_decision(DecisionMade {
            attempt: Some(id),
            chosen: aggregate.attempt(id).map(|attempt| attempt.account.clone()),
            ..DecisionMade::new(asked, payment.merchant, purpose).for_payment(Some(payment.id))
        });
    }

    /// Removes an account from the plan.
    pub(super) fn without(mut self, account: &AccountId) -> Self {
        self.rest.retain(|each| each != account);
        self
    }
}

/// The next attempt, with the permit for its call.
pub(super) type Next = (Box<Choice>, Permit);

impl Run<'_> {
    /// Returns the merchant if its approval and its reseller's delegation allow a start now.
    pub(super) async fn permitted(
        &self,
        aggregate: &PaymentAggregate,
    ) -> Result<Arc<Merchant>, StartError> {
        let payment = &aggregate.payment;
        let merchant = self.merchant(aggregate).await?;
        if !merchant.may_use(payment.environment) {
            return Err(StartError::NotLiveApproved);
        }
        match self.gateway.bars_reseller(payment).await? {
            Some(barred) => Err(barred.into()),
            None => Ok(merchant),
        }
    }

    /// Ranks the accounts that can process the payment now, and checks the conditions for a new attempt.
    pub(super) async fn plan(&self, aggregate: &PaymentAggregate) -> Result<Plan, StartError> {
        let payment = &aggregate.payment;
        let merchant = self.permitted(aggregate).await?;
        let policy = &merchant.policy;
        let allowed =
            |account| policy.provider_choice && policy.allows_account(self.start.method, account);
        if self
            .start
            .provider
            .as_ref()
            .is_some_and(|named| !allowed(named))
        {
            return Err(StartError::ProviderChoice);
        }
        if policy.refuses(payment.usd) {
            return Err(NotAvailable::OverLimit.into());
        }
        let ranking = self.ranked(aggregate, &merchant).await?;
        let mut rest: VecDeque<AccountId> = ranking.eligible().cloned().collect();
        self.skip_the_lately_unavailable(aggregate, &mut rest);
        Ok(Plan {
            ranking,
            rest,
            is_crowded: false,
        })
    }

    async fn ranked(
        &self,
        aggregate: &PaymentAggregate,
        merchant: &Merchant,
    ) -> Result<Ranking, StartError> {
        let payment = &aggregate.payment;
        let question = RankRequest {
            merchant,
            environment: payment.environment,
            amount: Some(payment.due.amount),
            currency: payment.due.currency,
            usd: Some(payment.usd),
            email_known: payment.email.is_some() || self.start.payer.email.is_some(),
        };
        let only = self.start.provider.as_ref();
        let country = self.start.payer.country.clone();
        let what_for = (Purpose::Start, Some(payment));
        let ranked = self
            .gateway
            .rank(self.start.method, &question, only, country, what_for)
            .await?;
        if let Err(barred) = &ranked {
            if matches!(barred, NotRoutable::Refused(_) | NotRoutable::ModuleFailed) {
                self.gateway.count_refused(aggregate, self.start.method);
            }
            self.gateway
                .tell_why_not(self.start.method, &question)
                .await;
        }
        ranked.map_err(|barred| {
            if let Some(left_out) = self.gateway.inner.lines.barred.line() {
                tracing::info!(
                    payment.id = %payment.id, method.id = %self.start.method,
                    routing.barred = ?barred, left_out, "no account can take the payment"
                );
            }
            StartError::NotAvailable(match (only, barred) {
                (Some(_), NotRoutable::NoAccount | NotRoutable::Refused(_)) => {
                    NotAvailable::Account
                }
                _ => NotAvailable::Method,
            })
        })
    }

    fn skip_the_lately_unavailable(
        &self,
        aggregate: &PaymentAggregate,
        rest: &mut VecDeque<AccountId>,
    ) {
        let agreed = |account: &AccountId| self.start.seen.as_ref() == Some(account);
        if self.start.starter != Starter::Page || !rest.iter().any(agreed) {
            return;
        }
        let now = self.gateway.now();
        let lately = |account: &AccountId| {
            aggregate.attempts.iter().any(|attempt| {
                let ended = attempt
                    .stage
                    .ended_at()
                    .is_some_and(|at| now.since(at) < LATELY);
                attempt.account == *account && attempt.state() == AttemptState::Unavailable && ended
            })
        };
        while rest
            .front()
            .is_some_and(|first| !agreed(first) && lately(first))
        {
            rest.pop_front();
        }
    }

    /// Chooses the next account that has a free permit. `None` if no account remains. `failed` is the account
    /// that was unavailable before. Nothing is written yet, so that a start without a permit does not use up
    /// one of the payment's attempts.
    ///
    /// # Errors
    /// [`StartError::AskAgain`] if the payer must see the next account's note first.
    pub(super) async fn next(
        &self,
        aggregate: &PaymentAggregate,
        plan: &mut Plan,
        failed: Option<&AccountId>,
    ) -> Result<Option<Next>, StartError> {
        self.gateway.switches().await?;
        let mut failed = failed.cloned();
        while let Some(choice) = self.draw(aggregate, plan, failed.as_ref())? {
            let permit = self
                .gateway
                .start_permit(&aggregate.payment, &choice.account);
            match permit.await {
                Some(permit) => return Ok(Some((choice, permit))),
                None => (failed, plan.is_crowded) = (Some(choice.account), true),
            }
        }
        Ok(None)
    }

    /// The attempt at the next account, with new ids and tokens.
    fn draw(
        &self,
        aggregate: &PaymentAggregate,
        plan: &mut Plan,
        failed: Option<&AccountId>,
    ) -> Result<Option<Box<Choice>>, StartError> {
        let configured = self.gateway.configured();
        // The account or its module was switched off after the ranking.
        let is_disabled = |account: &AccountId| {
            let slot = configured.slot(account);
            slot.is_some_and(|slot| self.gateway.modules().is_disabled(slot))
        };
        plan.rest
            .retain(|account| !is_disabled(account) && self.gateway.account_enabled(account));
        let Some(account) = plan.rest.front() else {
            return Ok(None);
        };
        if self.must_ask(account) {
            return Err(StartError::AskAgain(account.clone()));
        }
        let Some(slot) = configured.slot(account).cloned() else {
            return Ok(None);
        };
        let Some(module) = self.gateway.provider_for(&slot, &aggregate.payment) else {
            return Ok(None);
        };
        let why = failed.map_or(String::new(), |failed| {
            format!(" because {failed} could not be used")
        });
        let decision = plan.ranking.decision(account, Purpose::Start, &why);
        let mut payer = self.start.payer.clone();
        if payer.email.is_none() {
            let email = aggregate.payment.email.as_ref();
            payer.email = email.map(|email| kassette_domain::secret::Secret::new(email.expose()));
        }
        let choice = Choice {
            attempt: AttemptId::from_bytes(crate::random()?),
            return_token: crate::url_token()?,
            account: account.clone(),
            slot,
            digest: module.digest(),
            method: self.start.method,
            expires_at: self.gateway.now().after(configured.settings.attempt_life),
            busy_until: self.gateway.lease(),
            payer,
            decision: Some(decision),
        };
        plan.rest.pop_front();
        Ok(Some(Box::new(choice)))
    }

    /// Whether the payer has agreed to a note other than this account's.
    fn must_ask(&self, account: &AccountId) -> bool {
        if self.start.starter != Starter::Page {
            return false;
        }
        let settings = self.gateway.settings();
        let note = |id: &AccountId| {
            let account = settings.accounts.get(id)?;
            let (note, url) = (&account.verification_note, &account.verification_url);
            (note.is_some() || url.is_some()).then(|| (note.clone(), url.clone()))
        };
        self.start.seen.as_ref().and_then(note) != note(account)
    }
}
