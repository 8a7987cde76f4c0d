//! The payer's answers to a module's questions.

use kassette_domain::attempt::Attempt;
use kassette_domain::id::PaymentId;
use kassette_domain::lifecycle::{PaymentAggregate, Step};
use kassette_domain::order::Email;
use kassette_domain::payment::CheckoutMode;
use kassette_domain::provider::{PayerAction, Question, QuestionKind};
use kassette_domain::question::is_card_like;
use kassette_domain::secret::Secret;
use kassette_domain::text::steers;
use kassette_store::{About, Fault, Stepped};
use tokio::time::Instant;

use super::{NotStartable, Run, Start, StartError, StartedPayment, Starter};
use crate::Gateway;

/// Maximum length of an answer in characters: enough for an address or a name.
const ANSWER_MOST: usize = 300;

impl Gateway {
    /// Records the answers and continues the start.
    pub(crate) async fn answer_locked(
        &self,
        payment: PaymentId,
        answers: Vec<(String, Secret)>,
    ) -> Result<StartedPayment, StartError> {
        let deadline = Instant::now() + self.settings().start_deadline;
        let guard = tokio::time::timeout_at(deadline, self.inner.payment_locks.lock(payment)).await;
        let _guard = guard.map_err(|_| StartError::unsettled())?;
        let aggregate = self.store().aggregate(About::Payment(payment)).await?;
        let aggregate = aggregate.ok_or(StartError::NotFound)?;
        let Some(open) = aggregate.open_attempt().cloned() else {
            return Err(NotStartable::NoAttemptOpen.into());
        };
        let Some(PayerAction::Ask(questions)) = open.action() else {
            // The answers arrived again or too late. Show the current state of the attempt.
            return Ok(self.started(aggregate, open));
        };
        let Some(answers) = fitting(questions, answers) else {
            return Ok(self.started(aggregate, open));
        };
        // Before anything is written, because the stored answers are used for only one call.
        let permit = self.start_permit(&aggregate.payment, &open.account);
        let permit = permit.await.ok_or(Fault::Busy)?;
        let answered = Step::Answered {
            attempt: open.id,
            answers,
            busy_until: self.lease(),
        };
        let held = match self.step(About::Attempt(open.id), answered, None).await? {
            Stepped::Done { aggregate, .. } => aggregate,
            _ => return Err(StartError::unsettled()),
        };
        let run = Run::new(self, again(&held, &open), deadline);
        match run.drive(held, open.id, None, permit).await? {
            Some(started) => Ok(started),
            None => Err(StartError::unsettled()),
        }
    }
}

/// A start that continues an attempt. The payer has already seen the account's note.
fn again(aggregate: &PaymentAggregate, open: &Attempt) -> Start {
    Start {
        payment: aggregate.payment.id,
        method: open.method,
        provider: None,
        starter: match aggregate.payment.mode {
            CheckoutMode::Direct => Starter::Api,
            CheckoutMode::Hosted => Starter::Page,
        },
        seen: Some(open.account.clone()),
        payer: open.payer.clone(),
    }
}

/// Selects the answers to the questions. `None` if a required answer is missing or one does not fit.
fn fitting(
    questions: &[Question],
    answers: Vec<(String, Secret)>,
) -> Option<Vec<(String, Secret)>> {
    let mut fitting = Vec::with_capacity(questions.len());
    for question in questions {
        let given = answers.iter().find(|(name, _)| *name == question.name);
        let text = given.map_or("", |(_, value)| value.expose()).trim();
        if text.is_empty() {
            if question.required {
                return None;
            }
            continue;
        }
        if !fits(question, text) {
            return None;
        }
        fitting.push((question.name.clone(), Secret::new(text)));
    }
    Some(fitting)
}

fn fits(question: &Question, text: &str) -> bool {
    let is_long = text.chars().count() > ANSWER_MOST;
    if is_long || text.chars().any(steers) || is_card_like(question.kind, text) {
        return false;
    }
    match question.kind {
        QuestionKind::Email => Email::parse(text).is_ok(),
        QuestionKind::Choice => question.choices.iter().any(|(value, _)| value == text),
        QuestionKind::Text
        | QuestionKind::Phone
        | QuestionKind::GivenName
        | QuestionKind::FamilyName => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(name: &str, kind: QuestionKind, required: bool) -> Question {
        Question {
            name: name.into(),
            label: name.into(),
            kind,
            required,
            choices: vec![("ing".into(), "ING".into())],
        }
    }

    fn given(name: &str, text: &str) -> Vec<(String, Secret)> {
        vec![(name.into(), Secret::new(text))]
    }

    #[test]
    fn only_what_was_asked_is_taken_and_only_where_it_fits() {
        let email = [question("email", QuestionKind::Email, true)];
        let taken = fitting(&email, given("email", " a@shop.example ")).unwrap();
        assert_eq!(taken[0].1.expose(), "a@shop.example");
        assert!(fitting(&email, given("email", "nobody")).is_none());
        assert!(fitting(&email, given("card", "4242")).is_none());
        let bank = [question("bank", QuestionKind::Choice, false)];
        assert!(fitting(&bank, given("bank", "abn")).is_none());
        assert_eq!(fitting(&bank, given("bank", "ing")).unwrap().len(), 1);
        assert_eq!(fitting(&bank, vec![]).unwrap().len(), 0);
        let name = [question("name", QuestionKind::GivenName, true)];
        assert!(fitting(&name, given("name", "a\u{202e}b")).is_none());
        assert!(fitting(&name, given("name", &"a".repeat(301))).is_none());
        assert!(fitting(&name, given("name", "4242 4242 4242 4242")).is_none());
        let phone = [question("phone", QuestionKind::Phone, true)];
        assert!(fitting(&phone, given("phone", "4242 4242 4242 4242")).is_some());
    }
}
