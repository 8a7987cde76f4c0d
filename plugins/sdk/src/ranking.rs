//! Common rules of payment methods: refuse payments that cannot work, and order the candidates.
//!
//! The `require_*` functions check the payment as a whole and are used with `?` at the start of `rank`.
//! [`Ranking`] then returns exactly one verdict per candidate. A missing amount or country never causes a refusal.
//!
//! [`settings`] lists the settings of every method that uses this module.
mod requirements;

pub use requirements::{
    require_amount, require_country, require_currency, require_operator_limits, require_usd,
};

use crate::amount;
use crate::method::{
    Availability, Candidate, Context, Ground, Refusal, Setting, SettingForm, SettingSpec, Verdict,
};
use crate::settings;

/// Maximum length of a reason or refusal that the host accepts, in bytes.
pub const MAX_TEXT: usize = 200;

/// Order of candidates of equal health. Unknown values count as the worst. Ties are broken by the remaining values
/// and then by id, so that the same question always has the same answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// By the operator's priority, then by cost.
    Priority,
    /// By the operator's priority, then by the share of successful starts.
    PrioritySuccess,
    /// By the lower fee, then by priority.
    Cost,
    /// By the higher share of successful starts, then by priority.
    Success,
    /// By the lower median duration of a start, then by priority.
    Speed,
}

impl Order {
    const WORDS: [(&'static str, Self); 5] = [
        ("priority", Self::Priority),
        ("priority-success", Self::PrioritySuccess),
        ("cost", Self::Cost),
        ("success", Self::Success),
        ("speed", Self::Speed),
    ];
}

/// Descriptions of the settings that this module reads.
#[must_use]
pub fn settings() -> Vec<SettingSpec> {
    vec![
        SettingSpec::optional("order", "What counts among accounts of equal health")
            .among(&Order::WORDS.map(|(word, _)| word))
            .or("the method's own"),
        SettingSpec::optional(
            "success-floor",
            "Share of starts that worked, per thousand: an account measured below it ranks after the others \
             of its health",
        )
        .form(SettingForm::Number((0, 1000)))
        .or("none"),
        SettingSpec::optional("minimum-usd", "The operator's own smallest payment, in US dollars")
            .form(SettingForm::Amount)
            .or("none"),
        SettingSpec::optional("maximum-usd", "The operator's own largest payment, in US dollars")
            .form(SettingForm::Amount)
            .or("none"),
        SettingSpec::optional("countries", "Countries of payers that may use it")
            .form(SettingForm::Countries)
            .or("the scheme's own"),
        SettingSpec::optional("blocked-countries", "Countries of payers that are refused")
            .form(SettingForm::Countries)
            .or("none"),
    ]
}

/// Checks these settings together.
///
/// # Errors A sentence for the operator.
pub fn check_settings(settings: &[Setting]) -> Result<(), String> {
    let limit = |name| settings::amount(settings, name).map_err(|refusal| refusal.detail);
    let (minimum, maximum) = (limit("minimum-usd")?, limit("maximum-usd")?);
    if minimum
        .zip(maximum)
        .is_some_and(|(least, most)| least > most)
    {
        return Err("minimum-usd is above maximum-usd: no payment would be taken".into());
    }
    if settings::text(settings, "blocked-countries") == Some("any") {
        return Err("blocked-countries lists countries; to refuse every payer, disable the method in the merchants' policies".into());
    }
    Ok(())
}

/// A method's own check of a candidate, after health and limits.
pub type Check<'a> = &'a dyn Fn(&Candidate) -> Result<(), Refusal>;

/// Returns the reason why a candidate ranks after the others of its health, or `None`.
pub type Demotion<'a> = &'a dyn Fn(&Candidate) -> Option<&'static str>;

/// Creates a refusal. Cuts text that is longer than the host accepts.
#[must_use]
pub fn refusal(ground: Ground, detail: impl Into<String>) -> Refusal {
    let mut detail = detail.into();
    detail.truncate(detail.floor_char_boundary(MAX_TEXT));
    Refusal { ground, detail }
}

/// Creates one verdict per candidate: first the eligible ones, best first, then the refused ones. Candidates are
/// refused if they are stale or down, if the amount is outside of their limits, or by the method's own check.
///
/// ```
/// # use kassette_plugin::method::*;
/// # use kassette_plugin::ranking::*;
/// fn rank(context: Context) -> Result<Vec<Verdict>, Refusal> {
///     let check = |candidate: &Candidate| match candidate.id.as_str() {
///         "retired" => Err(refusal(Ground::Policy, "no longer used")),
///         _ => Ok(()),
///     };
///     Ok(Ranking::start(&context, Order::Priority)?.check(&check).verdicts())
/// }
/// ```
pub struct Ranking<'a> {
    context: &'a Context,
    order: Order,
    success_floor: u64,
    // `None` instead of a function without effect: in a new instance the first indirect call costs more than the
    // whole check of a candidate.
    check: Option<Check<'a>>,
    demotion: Option<Demotion<'a>>,
}

impl<'a> Ranking<'a> {
    /// A ranking of the candidates in the order that the operator has set, or else in `order`.
    ///
    /// # Errors [`Ground::Policy`] if a setting cannot be parsed.
    pub fn start(context: &'a Context, order: Order) -> Result<Self, Refusal> {
        Ok(Self {
            context,
            order: settings::choice(&context.settings, "order", &Order::WORDS, order)?,
            success_floor: settings::number(&context.settings, "success-floor")?.unwrap_or(0),
            check: None,
            demotion: None,
        })
    }

    /// Adds the method's own check of candidates.
    #[must_use]
    pub fn check(mut self, check: Check<'a>) -> Self {
        self.check = Some(check);
        self
    }

    /// Adds the method's own reason to rank candidates later.
    #[must_use]
    pub fn demote(mut self, demotion: Demotion<'a>) -> Self {
        self.demotion = Some(demotion);
        self
    }

    /// Returns the answer of `rank`.
    #[must_use]
    pub fn verdicts(&self) -> Vec<Verdict> {
        let mut eligible: Vec<Eligible> = Vec::with_capacity(self.context.candidates.len());
        let mut refused: Vec<Verdict> = Vec::new();
        // At most 64 candidates: inserting in order is fast, and has a tenth of the code of a sort.
        for candidate in &self.context.candidates {
            match self.judge(candidate) {
                Ok(()) => {
                    let new = self.eligible(candidate);
                    let key = self.key(&new);
                    let at = eligible.partition_point(|other| self.key(other) < key);
                    eligible.insert(at, new);
                }
                Err(refusal) => {
                    let id = candidate.id.clone();
                    let at = refused.partition_point(|other| other.id < id);
                    let outcome = Err(refusal);
                    refused.insert(at, Verdict { id, outcome });
                }
            }
        }
        let count = eligible.len();
        let mut verdicts: Vec<Verdict> = eligible
            .iter()
            .enumerate()
            .map(|(index, eligible)| Verdict {
                id: eligible.candidate.id.clone(),
                outcome: Ok(self.reason(eligible, index + 1, count)),
            })
            .collect();
        verdicts.append(&mut refused);
        verdicts
    }

    fn judge(&self, candidate: &Candidate) -> Result<(), Refusal> {
        match candidate.health.status {
            Availability::Down => return Err(refusal(Ground::Health, "its starts fail")),
            Availability::Stale => return Err(refusal(Ground::Health, "nothing recent is known")),
            Availability::Operational | Availability::Degraded => {}
        }
        if let Some(amount) = self.context.amount {
            let currency = &self.context.currency;
            if let Some(minimum) = candidate.minimum.filter(|minimum| amount < *minimum) {
                let minimum = amount::format(minimum, currency);
                return Err(refusal(Ground::Amount, format!("below its {minimum}")));
            }
            if let Some(maximum) = candidate.maximum.filter(|maximum| amount > *maximum) {
                let maximum = amount::format(maximum, currency);
                return Err(refusal(Ground::Amount, format!("above its {maximum}")));
            }
        }
        self.check.map_or(Ok(()), |check| check(candidate))
    }

    fn eligible<'b>(&self, candidate: &'b Candidate) -> Eligible<'b> {
        let unsteady = candidate
            .health
            .success
            .is_some_and(|success| u64::from(success) < self.success_floor);
        let later = if unsteady {
            Some("below the success floor")
        } else {
            self.demotion.and_then(|demotion| demotion(candidate))
        };
        Eligible { candidate, later }
    }

    fn key<'b>(&self, eligible: &Eligible<'b>) -> (u8, bool, [i64; 4], &'b str) {
        let candidate = eligible.candidate;
        let health = match candidate.health.status {
            Availability::Operational => 0,
            Availability::Degraded => 1,
            Availability::Down | Availability::Stale => 2,
        };
        let priority = -i64::from(candidate.priority);
        let cost = candidate
            .fee
            .map_or(i64::MAX, |fee| i64::try_from(fee).unwrap_or(i64::MAX));
        let success = candidate
            .health
            .success
            .map_or(0, |success| -i64::from(success));
        let speed = candidate.health.latency.map_or(i64::MAX, i64::from);
        let order = match self.order {
            Order::Priority => [priority, cost, success, speed],
            Order::PrioritySuccess => [priority, success, cost, speed],
            Order::Cost => [cost, priority, success, speed],
            Order::Success => [success, priority, cost, speed],
            Order::Speed => [speed, priority, cost, success],
        };
        (health, eligible.later.is_some(), order, &candidate.id)
    }

    /// "1 of 3: operational, priority 5, fee 0.29 EUR"
    fn reason(&self, eligible: &Eligible<'_>, place: usize, count: usize) -> String {
        let candidate = eligible.candidate;
        let health = match candidate.health.status {
            Availability::Degraded => "degraded",
            _ => "operational",
        };
        // Allocates for a text of usual length, and avoids `format!`: see `amount::push`.
        let mut reason = String::with_capacity(96);
        amount::push_number(&mut reason, place as u64);
        reason.push_str(" of ");
        amount::push_number(&mut reason, count as u64);
        reason.push_str(": ");
        reason.push_str(health);
        reason.push_str(", priority ");
        if candidate.priority < 0 {
            reason.push('-');
        }
        amount::push_number(&mut reason, candidate.priority.unsigned_abs().into());
        if let Some(fee) = candidate.fee {
            reason.push_str(", fee ");
            amount::push(&mut reason, fee, &self.context.currency);
        }
        if let Some(success) = candidate.health.success {
            reason.push_str(", ");
            amount::push_number(&mut reason, (success / 10).into());
            reason.push('.');
            amount::push_number(&mut reason, (success % 10).into());
            reason.push_str(" % work");
        }
        if let Some(later) = eligible.later {
            reason.push_str(", later because ");
            reason.push_str(later);
        }
        reason.truncate(reason.floor_char_boundary(MAX_TEXT));
        reason
    }
}

struct Eligible<'a> {
    candidate: &'a Candidate,
    later: Option<&'static str>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{candidate, context, eligible, set};

    fn ranked(context: &Context, order: Order) -> Vec<String> {
        let verdicts = Ranking::start(context, order).unwrap().verdicts();
        eligible(&verdicts).into_iter().map(str::to_owned).collect()
    }

    fn with(candidates: Vec<Candidate>) -> Context {
        Context {
            candidates,
            ..context("EUR", Some("49.90"))
        }
    }

    fn candidate_with(id: &str, priority: i32, fee: Option<u64>) -> Candidate {
        Candidate {
            priority,
            fee,
            ..candidate(id)
        }
    }

    #[test]
    fn health_comes_before_priority_and_priority_before_cost() {
        let mut degraded = candidate_with("degraded", 100, Some(1));
        degraded.health.status = Availability::Degraded;
        let context = with(vec![
            degraded,
            candidate_with("dear", 5, Some(90)),
            candidate_with("cheap", 0, Some(10)),
            candidate_with("wanted", 5, Some(80)),
        ]);
        let order = ranked(&context, Order::Priority);
        assert_eq!(order, ["wanted", "dear", "cheap", "degraded"]);
        let order = ranked(&context, Order::Cost);
        assert_eq!(order, ["cheap", "wanted", "dear", "degraded"]);
    }

    #[test]
    fn an_unknown_fee_or_latency_counts_as_the_worst() {
        let mut quick = candidate_with("quick", 0, None);
        quick.health.latency = Some(100);
        let context = with(vec![
            candidate_with("unknown", 0, None),
            quick,
            candidate_with("priced", 0, Some(500)),
        ]);
        assert_eq!(
            ranked(&context, Order::Cost),
            ["priced", "quick", "unknown"]
        );
        assert_eq!(
            ranked(&context, Order::Speed),
            ["quick", "priced", "unknown"]
        );
    }

    #[test]
    fn the_operators_order_comes_before_the_methods() {
        let context = with(vec![
            candidate_with("wanted", 9, Some(90)),
            candidate_with("cheap", 0, Some(1)),
        ]);
        assert_eq!(ranked(&context, Order::Priority), ["wanted", "cheap"]);
        let context = set(context, "order", "cost");
        assert_eq!(ranked(&context, Order::Priority), ["cheap", "wanted"]);
        let wrong = set(context, "order", "luck");
        let refusal = Ranking::start(&wrong, Order::Priority).err().unwrap();
        assert_eq!(refusal.ground, Ground::Policy);
    }

    #[test]
    fn below_the_success_floor_ranks_later_but_stays() {
        let mut shaky = candidate_with("shaky", 9, None);
        shaky.health.success = Some(700);
        let context = set(
            with(vec![shaky, candidate_with("new", 0, None)]),
            "success-floor",
            "900",
        );
        assert_eq!(ranked(&context, Order::Priority), ["new", "shaky"]);
    }

    #[test]
    fn stale_down_and_outside_of_limits_are_refused_with_their_ground() {
        let mut stale = candidate("stale");
        stale.health.status = Availability::Stale;
        let mut down = candidate("down");
        down.health.status = Availability::Down;
        let low = Candidate {
            maximum: Some(4_989),
            ..candidate("low")
        };
        let high = Candidate {
            minimum: Some(4_991),
            ..candidate("high")
        };
        let exact = Candidate {
            minimum: Some(4_990),
            maximum: Some(4_990),
            ..candidate("exact")
        };
        let context = with(vec![stale, down, low, high, exact]);
        let verdicts = Ranking::start(&context, Order::Priority)
            .unwrap()
            .verdicts();
        assert_eq!(eligible(&verdicts), ["exact"]);
        let grounds: Vec<_> = verdicts
            .iter()
            .filter_map(|one| Some((one.id.as_str(), one.outcome.as_ref().err()?.ground)))
            .collect();
        let expected = [
            ("down", Ground::Health),
            ("high", Ground::Amount),
            ("low", Ground::Amount),
            ("stale", Ground::Health),
        ];
        assert_eq!(grounds, expected);
    }

    #[test]
    fn without_an_amount_no_limit_applies() {
        let mut context = with(vec![Candidate {
            minimum: Some(1 << 40),
            ..candidate("a")
        }]);
        context.amount = None;
        assert_eq!(ranked(&context, Order::Priority), ["a"]);
    }

    #[test]
    fn reasons_say_place_health_and_fee() {
        let mut one = candidate_with("one", 3, Some(29));
        one.health.success = Some(987);
        let context = with(vec![one, candidate_with("two", 0, None)]);
        let verdicts = Ranking::start(&context, Order::Priority)
            .unwrap()
            .verdicts();
        let reason = verdicts.first().unwrap().outcome.clone().unwrap();
        assert_eq!(
            reason,
            "1 of 2: operational, priority 3, fee 0.29 EUR, 98.7 % work"
        );
        let context = with(vec![candidate_with("one", i32::MIN, Some(12_305))]);
        let verdicts = Ranking::start(&context, Order::Priority)
            .unwrap()
            .verdicts();
        let reason = verdicts.first().unwrap().outcome.clone().unwrap();
        assert_eq!(
            reason,
            "1 of 1: operational, priority -2147483648, fee 123.05 EUR"
        );
    }

    #[test]
    fn a_refusals_text_is_cut_between_characters() {
        assert_eq!(
            refusal(Ground::Other, "ä".repeat(101)).detail.len(),
            MAX_TEXT
        );
        assert_eq!(
            refusal(Ground::Other, format!("x{}", "ä".repeat(100)))
                .detail
                .len(),
            199
        );
    }
}
