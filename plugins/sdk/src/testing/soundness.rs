//! Checks the requirements of the host on every method, with many questions.
use super::question::{candidate, context};
use crate::method::{Availability, Candidate, Context, Description, Method, Verdict};
use crate::ranking::MAX_TEXT;
use std::collections::BTreeSet;

/// Maximum length of a label that the host accepts, in bytes.
const MAX_LABEL: usize = 40;

/// Asserts that a method answers as the host requires, in each of its currencies:
///
/// - payments of 49.00 and 49.90 by an unknown payer, and a question without an amount, find their candidate
///   (except 49.90 HUF, for schemes without decimals);
/// - there is exactly one verdict per candidate, and the order of the candidates has no effect;
/// - no stale or down candidate, and none with limits that exclude the amount, is eligible, and degraded
///   candidates rank after operational ones;
/// - no text is empty or longer than the host accepts.
///
/// A method without a list of currencies is tested in US dollars.
///
/// # Panics Panics if a requirement does not hold.
pub fn assert_sound<M: Method>() {
    let description = M::describe();
    assert!(!description.id.is_empty() && description.id.bytes().all(is_id_byte));
    assert!((1..=MAX_LABEL).contains(&description.label.len()), "label");
    for currency in currencies(&description) {
        for amount in [Some("49.00"), Some("49.90"), None] {
            // Schemes without decimals may refuse 49.90.
            let answer = M::rank(context(&currency, amount));
            let found = answer.is_ok_and(|verdicts| verdicts.iter().all(|one| one.outcome.is_ok()));
            let decimals = currency != "HUF" || amount != Some("49.90");
            assert!(found || !decimals, "{currency} {amount:?} finds no account");
        }
        for amount in ["0.01", "1.00", "49.00", "5000.00", "9999999999.99"] {
            assert_sound_answer::<M>(&mixed(context(&currency, Some(amount))));
        }
        assert_sound_answer::<M>(&mixed(context(&currency, None)));
    }
}

fn is_id_byte(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte == b'_'
}

fn currencies(description: &Description) -> Vec<String> {
    match description.currencies.is_empty() {
        true => vec!["USD".into()],
        false => description.currencies.clone(),
    }
}

/// Candidates with every health, and various limits, priorities and fees.
fn mixed(mut context: Context) -> Context {
    context.candidates.clear();
    let states = [
        Availability::Degraded,
        Availability::Stale,
        Availability::Operational,
        Availability::Down,
    ];
    for (number, status) in (0..32).zip(states.iter().cycle()) {
        let mut candidate = candidate(&format!("account-{number}"));
        candidate.health.status = *status;
        candidate.health.success = (number % 3 == 0).then_some(900 + number);
        candidate.priority = i32::from(number % 5) - 2;
        candidate.fee = (number % 4 != 0).then_some(u64::from(number) * 7 % 50);
        candidate.minimum = (number % 8 == 2).then_some(5_000);
        candidate.maximum = (number % 8 == 4).then_some(100_000);
        context.candidates.push(candidate);
    }
    context
}

fn assert_sound_answer<M: Method>(question: &Context) {
    let answer = M::rank(question.clone());
    let mut turned = question.clone();
    turned.candidates.reverse();
    assert_eq!(answer, M::rank(turned), "the candidates' order matters");
    match answer {
        Ok(verdicts) => assert_sound_verdicts(question, &verdicts),
        Err(refusal) => assert!(refusal.detail.len() <= MAX_TEXT, "{}", refusal.detail),
    }
}

fn assert_sound_verdicts(question: &Context, verdicts: &[Verdict]) {
    let asked: BTreeSet<&str> = question
        .candidates
        .iter()
        .map(|one| one.id.as_str())
        .collect();
    let judged: BTreeSet<&str> = verdicts.iter().map(|one| one.id.as_str()).collect();
    assert_eq!(asked, judged, "one verdict per candidate");
    assert_eq!(
        verdicts.len(),
        question.candidates.len(),
        "a verdict is repeated"
    );
    let mut degraded = false;
    for verdict in verdicts {
        let text = match &verdict.outcome {
            Ok(reason) => reason,
            Err(refusal) => &refusal.detail,
        };
        assert!((1..=MAX_TEXT).contains(&text.len()), "{text:?}");
        let candidate = question.candidates.iter().find(|one| one.id == verdict.id);
        if let (Ok(_), Some(candidate)) = (&verdict.outcome, candidate) {
            assert_may_be_eligible(question, candidate);
            let is_degraded = candidate.health.status == Availability::Degraded;
            assert!(
                is_degraded || !degraded,
                "{} ranks after degraded",
                verdict.id
            );
            degraded |= is_degraded;
        }
    }
}

fn assert_may_be_eligible(question: &Context, candidate: &Candidate) {
    let id = &candidate.id;
    let status = candidate.health.status;
    let works = matches!(status, Availability::Operational | Availability::Degraded);
    assert!(works, "{id} is {status:?} and eligible");
    let Some(amount) = question.amount else {
        return;
    };
    let high_enough = candidate.minimum.is_none_or(|minimum| amount >= minimum);
    let low_enough = candidate.maximum.is_none_or(|maximum| amount <= maximum);
    assert!(
        high_enough && low_enough,
        "{id} is eligible outside of its limits"
    );
}
