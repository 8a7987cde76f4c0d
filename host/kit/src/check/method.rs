//! Checks of a payment method's responses to many requests.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use cpu_time::ThreadTime;
use kassette_domain::money::{Currency, Minor};
use kassette_domain::routing::{AccountCandidate, Availability, Context, RoutingRefusal, Verdict};
use kassette_runtime::MethodModule;

use super::Check;
use crate::question::{candidate, question};

/// Amounts of all sizes in the wire format, and no amount.
const AMOUNTS: [Option<&str>; 7] = [
    None,
    Some("0.01"),
    Some("1.00"),
    Some("49.00"),
    Some("49.90"),
    Some("5000.00"),
    Some("9999999999.99"),
];
/// Number of repetitions of a request.
const AGAIN: usize = 20;

type Answer = Result<Vec<Verdict>, RoutingRefusal>;

/// Runs all checks of a payment method. With a budget, each check stops after a quarter of it, and CPU time is not
/// checked.
pub(super) fn checks(module: &MethodModule, budget: Option<Duration>) -> Vec<Check> {
    let all = currencies(module);
    // The first currency is always checked, even without time left.
    let currencies = || {
        let end = budget.map(|budget| Instant::now() + budget / 4);
        let goes_on = move |&(asked, _): &(usize, &Currency)| {
            asked == 0 || end.is_none_or(|end| Instant::now() < end)
        };
        let each = all.iter().enumerate().take_while(goes_on);
        each.map(|(_, currency)| currency)
    };
    let mut times = Vec::new();
    let answers = Check::new("answers", answers(module, currencies(), &mut times));
    if !answers.passed {
        return vec![answers];
    }
    let mut checks = vec![
        answers,
        Check::new("order", order(module, currencies())),
        Check::new("repeatable", repeatable(module, currencies())),
        Check::new("absence", absence(module, currencies())),
    ];
    if budget.is_none() {
        checks.push(Check::new("time", time(times, module)));
    }
    checks
}

fn currencies(module: &MethodModule) -> Vec<Currency> {
    match module.description().currencies.as_slice() {
        [] => Currency::ALL.to_vec(),
        some => some.to_vec(),
    }
}

fn asked(currency: Currency, amount: Option<&str>, candidates: Vec<AccountCandidate>) -> Context {
    let mut question = question(currency.code(), amount, &[]);
    question.candidates = candidates;
    question
}

/// Candidates in every state of health, with and without limits, fees, success rates and priorities.
fn mixed(count: u32) -> Vec<AccountCandidate> {
    let states = [
        Availability::Degraded,
        Availability::Stale,
        Availability::Operational,
        Availability::Down,
    ];
    (0..count)
        .zip(states.into_iter().cycle())
        .map(|(number, status)| {
            // Ids in another order than the numbers.
            let mut candidate = candidate(&format!("account-{}", number * 37 % 101));
            candidate.health.status = status;
            candidate.minimum = (number % 3 == 0).then_some(Minor(500));
            candidate.maximum = (number % 5 == 0).then_some(Minor(100_000));
            candidate.fee = (number % 4 != 0).then_some(Minor(u64::from(number % 7) * 10));
            candidate.priority = i32::try_from(number % 3).unwrap_or_default() - 1;
            candidate.health.success = (number % 2 == 0).then_some(950);
            candidate.health.latency = Some(100 + number);
            candidate.health.samples = 40;
            candidate
        })
        .collect()
}

/// Short description of a request.
fn words(question: &Context) -> String {
    let mut words = match question.amount {
        Some(amount) => format!("{amount} {}", question.currency),
        None => format!("no amount, {}", question.currency),
    };
    if let Some(country) = &question.country {
        let _ = write!(words, ", payer in {country}");
    }
    let _ = write!(words, ", {} candidates", question.candidates.len());
    words
}

fn ask(module: &MethodModule, question: &Context) -> Result<Answer, String> {
    module
        .rank(question)
        .map_err(|error| format!("{error}; asked about {}", words(question)))
}

fn eligible(answer: &Answer) -> Vec<&str> {
    let verdicts = answer.as_deref().unwrap_or_default();
    let fine = verdicts.iter().filter(|one| one.outcome.is_ok());
    fine.map(|one| one.id.as_str()).collect()
}

/// Checks that each response keeps the contract. The runtime validates it as in a server.
fn answers<'a>(
    module: &MethodModule,
    currencies: impl Iterator<Item = &'a Currency>,
    times: &mut Vec<Duration>,
) -> Result<String, String> {
    let mut timed = |question: &Context| {
        let began = ThreadTime::now();
        let answer = ask(module, question);
        times.push(began.elapsed());
        answer
    };
    let mut count = 0;
    for currency in currencies {
        for amount in AMOUNTS {
            for candidates in [0, 1, 32, 64] {
                let mut question = asked(*currency, amount, mixed(candidates));
                drop(timed(&question)?);
                question.country = Some("BR".into());
                question.email_known = true;
                drop(timed(&question)?);
                count += 2;
            }
        }
    }
    Ok(format!("{count} questions, each answered within the rules"))
}

/// Checks that the order of the candidates does not affect the routing.
fn order<'a>(
    module: &MethodModule,
    currencies: impl Iterator<Item = &'a Currency>,
) -> Result<String, String> {
    for currency in currencies {
        let question = asked(*currency, Some("49.00"), mixed(32));
        let mut turned = question.clone();
        turned.candidates.reverse();
        let (first, second) = (ask(module, &question)?, ask(module, &turned)?);
        if eligible(&first) != eligible(&second) {
            return Err(format!(
                "the routing hangs on the order of the candidates, which has no meaning: break ties by id; asked about {}",
                words(&question)
            ));
        }
    }
    Ok("the order of the candidates changes nothing".into())
}

/// Checks that the same request always has the same response.
fn repeatable<'a>(
    module: &MethodModule,
    currencies: impl Iterator<Item = &'a Currency>,
) -> Result<String, String> {
    for currency in currencies {
        let question = asked(*currency, Some("49.90"), mixed(16));
        let first = ask(module, &question)?;
        for _ in 0..AGAIN {
            if ask(module, &question)? != first {
                return Err(format!(
                    "the same question was answered in two ways; asked about {}",
                    words(&question)
                ));
            }
        }
    }
    Ok("the same question always has the same answer".into())
}

/// Checks that a method does not refuse a payer because the amount or the payer's data is missing.
fn absence<'a>(
    module: &MethodModule,
    currencies: impl Iterator<Item = &'a Currency>,
) -> Result<String, String> {
    for currency in currencies {
        let finds = |amount| {
            let question = asked(*currency, amount, vec![candidate("account-1")]);
            ask(module, &question).map(|answer| !eligible(&answer).is_empty())
        };
        if !finds(None)? {
            return Err(format!(
                "a payer who only browses is refused in {currency}: without an amount no limit applies, and an unknown country or e-mail address is no reason"
            ));
        }
        // A scheme may have limits or accept only whole units, but must accept some ordinary amount.
        let mut taken = false;
        for amount in ["49.00", "49.90", "5.00", "500.00"] {
            taken = taken || finds(Some(amount))?;
        }
        if !taken {
            return Err(format!(
                "no ordinary payment in {currency} finds a candidate that works: leave the currency out of `describe`, or refuse nothing for what is not known"
            ));
        }
    }
    Ok("what is not known is no reason to refuse".into())
}

/// Checks that the median call uses at most half of the CPU time limit, as a margin for slower machines.
fn time(mut times: Vec<Duration>, module: &MethodModule) -> Result<String, String> {
    times.sort_unstable();
    let median = times.get(times.len() / 2).copied().unwrap_or_default();
    let most = times.last().copied().unwrap_or_default();
    let (class, limit) = (module.class().as_str(), module.limits().cpu);
    if median > limit / 2 {
        return Err(format!(
            "a call takes {median:?} of CPU time in the middle; a module of class {class} is stopped at {limit:?}, so half of it is the most that is safe"
        ));
    }
    Ok(format!(
        "CPU time of a call: {median:?} in the middle, {most:?} at most; class {class} has {limit:?}"
    ))
}
